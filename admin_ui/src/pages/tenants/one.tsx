/** One tenant: everything about it on one page, in tabs. */
import { useParams, useSearch } from "@tanstack/react-router";
import type { ComponentType } from "react";
import { lazy, Suspense } from "react";
import { useApi } from "@/api/queries";
import { may } from "@/api/session";
import type { Project } from "@/api/shapes";
import { CopyButton, Id, Status } from "@/ui/bits";
import { Page } from "@/ui/page";
import { Loaded, SkeletonRows } from "@/ui/states";
import { Tabs } from "@/ui/tabs";
import { Keys } from "./keys";
import { Limits } from "./limits";
import { TenantModels } from "./models";
import { TenantRequests } from "./requests";
import { Summary } from "./summary";

export interface TabProps {
  tenant: Project;
}

const Cost = lazy(() => import("./cost").then((part) => ({ default: part.TenantCost })));
const Slo = lazy(() => import("./slo").then((part) => ({ default: part.TenantSlo })));
const Activity = lazy(() => import("./activity").then((part) => ({ default: part.TenantActivity })));
const Hooks = lazy(() => import("./hooks").then((part) => ({ default: part.TenantHooks })));
const People = lazy(() => import("./people").then((part) => ({ default: part.TenantPeople })));

const TABS = [
  ["summary", "Summary", "GET /v1/organization/projects/{project_id}"],
  ["keys", "Keys", "GET /v1/organization/projects/{project_id}/api_keys"],
  ["limits", "Limits & budgets", "GET /v1/organization/projects/{project_id}/limits"],
  ["models", "Models", "GET /v1/organization/projects/{project_id}/model_permissions"],
  ["usage", "Usage & cost", "GET /v1/organization/usage/breakdown"],
  ["slo", "SLO", "GET /v1/organization/slo/board"],
  ["requests", "Requests", "GET /v1/organization/requests"],
  ["webhooks", "Webhooks", "GET /v1/organization/projects/{project_id}/webhook_endpoints"],
  ["people", "People", "GET /v1/organization/projects/{project_id}/users"],
  ["activity", "Activity", "GET /v1/organization/audit_logs"],
] as const;

const VIEWS: Record<string, ComponentType<TabProps>> = {
  summary: Summary,
  keys: Keys,
  limits: Limits,
  models: TenantModels,
  usage: Cost,
  slo: Slo,
  requests: TenantRequests,
  webhooks: Hooks,
  people: People,
  activity: Activity,
};

export function Tenant() {
  const { tenantId } = useParams({ from: "/tenants/$tenantId" });
  const { tab = "summary" } = useSearch({ from: "/tenants/$tenantId" });
  const query = useApi("GET /v1/organization/projects/{project_id}", { path: { project_id: tenantId } });
  const tenant = query.data?.id === tenantId ? query.data : undefined;
  const View = VIEWS[tab] ?? Summary;
  return (
    <Page
      title={tenant?.name ?? "Tenant"}
      within={{ to: "/tenants", title: "Tenants" }}
      lead={
        <span className="flex flex-wrap items-center gap-2">
          <Id>{tenantId}</Id>
          <CopyButton text={tenantId} label="Copy id" look="quiet" />
          {tenant?.status === "archived" && <Status tone="plain">Archived</Status>}
        </span>
      }
    >
      <Tabs label="Of this tenant" tabs={TABS.filter(([, , needs]) => may(needs))} current={tab} />
      <Loaded query={{ ...query, data: tenant }}>
        {(found) => (
          <Suspense fallback={<SkeletonRows />}>
            <View tenant={found} key={found.id} />
          </Suspense>
        )}
      </Loaded>
    </Page>
  );
}
