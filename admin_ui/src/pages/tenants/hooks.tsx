/** Who is told of what happens to the tenant: the same endpoints that its keys manage at `/v1/webhook_endpoints`. */
import { Webhooks } from "../alerts/webhooks";
import type { TabProps } from "./one";

export function TenantHooks({ tenant }: TabProps) {
  return <Webhooks tenant={tenant.id} />;
}
