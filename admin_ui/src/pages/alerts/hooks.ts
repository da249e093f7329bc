/** Whose webhook endpoints are meant, the operator's or a tenant's: the calls are the same but for where they are. */
import { useMemo } from "react";

const OPERATORS = {
  list: "GET /v1/organization/webhook_endpoints",
  create: "POST /v1/organization/webhook_endpoints",
  update: "POST /v1/organization/webhook_endpoints/{endpoint_id}",
  remove: "DELETE /v1/organization/webhook_endpoints/{endpoint_id}",
  rotate: "POST /v1/organization/webhook_endpoints/{endpoint_id}/rotate_secret",
  test: "POST /v1/organization/webhook_endpoints/{endpoint_id}/test",
  enable: "POST /v1/organization/webhook_endpoints/{endpoint_id}/enable",
  deliveries: "GET /v1/organization/webhook_endpoints/{endpoint_id}/deliveries",
  delivery: "GET /v1/organization/webhook_endpoints/{endpoint_id}/deliveries/{delivery_id}",
  replay: "POST /v1/organization/webhook_endpoints/{endpoint_id}/deliveries/{delivery_id}/replay",
  types: "GET /v1/organization/webhook_event_types",
} as const;

const TENANTS = {
  list: "GET /v1/organization/projects/{project_id}/webhook_endpoints",
  create: "POST /v1/organization/projects/{project_id}/webhook_endpoints",
  update: "POST /v1/organization/projects/{project_id}/webhook_endpoints/{endpoint_id}",
  remove: "DELETE /v1/organization/projects/{project_id}/webhook_endpoints/{endpoint_id}",
  rotate: "POST /v1/organization/projects/{project_id}/webhook_endpoints/{endpoint_id}/rotate_secret",
  test: "POST /v1/organization/projects/{project_id}/webhook_endpoints/{endpoint_id}/test",
  enable: "POST /v1/organization/projects/{project_id}/webhook_endpoints/{endpoint_id}/enable",
  deliveries: "GET /v1/organization/projects/{project_id}/webhook_endpoints/{endpoint_id}/deliveries",
  delivery: "GET /v1/organization/projects/{project_id}/webhook_endpoints/{endpoint_id}/deliveries/{delivery_id}",
  replay: "POST /v1/organization/projects/{project_id}/webhook_endpoints/{endpoint_id}/deliveries/{delivery_id}/replay",
  types: "GET /v1/organization/projects/{project_id}/webhook_event_types",
} as const;

export interface Hooks {
  calls: { [name in keyof typeof OPERATORS]: (typeof OPERATORS)[name] | (typeof TENANTS)[name] };
  /** A tenant's id, as part of a path. */
  own: { project_id: string };
  isOperators: boolean;
}

export function useHooks(tenant: string | undefined): Hooks {
  return useMemo(() => ({ calls: tenant === undefined ? OPERATORS : TENANTS, own: { project_id: tenant ?? "" }, isOperators: tenant === undefined }), [tenant]);
}
