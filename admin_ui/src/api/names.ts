/** Names for ids: what the lists of tenants and pools know, read once and kept. */
import { useMemo } from "react";
import { useApi } from "./queries";
import { may, ownProjects } from "./session";
import type { Pool, Project } from "./shapes";

const KEPT_MS = 60_000;

/** Each of these asks for nothing before it is `wanted`: a page begins with few requests. */
export function useProjects(wanted = true): Project[] {
  return useApi("GET /v1/organization/projects", { query: { limit: 100, include_archived: true } }, { staleMs: KEPT_MS, enabled: wanted }).data?.data ?? [];
}

/** Those that may still be given something. */
export function useActiveProjects(wanted = true): Project[] {
  return useProjects(wanted).filter((one) => one.status === "active");
}

export function useProjectNames(wanted = true): Map<string, string> {
  const projects = useProjects(wanted);
  return useMemo(() => new Map(projects.map((one) => [one.id, one.name])), [projects]);
}

/** None for who sees no pools. */
export function usePools(wanted = true): Pool[] {
  return useApi("GET /v1/organization/pools", { query: { limit: 100 } }, { staleMs: KEPT_MS, enabled: wanted && may("GET /v1/organization/pools") }).data?.data ?? [];
}

export function usePoolNames(wanted = true): Map<string, string> {
  const pools = usePools(wanted);
  return useMemo(() => new Map(pools.map((one) => [one.id, one.name])), [pools]);
}

/** Every served name that a route leads somewhere; of a tenant, those that it sees. */
export function useServedNames(tenantId?: string, wanted = true): string[] {
  const whose = tenantId ?? ownProjects()?.[0]?.id;
  const routes = useApi("GET /v1/organization/routes", { query: { limit: 100 } }, { staleMs: KEPT_MS, enabled: wanted && whose === undefined });
  const seen = useApi("GET /v1/organization/projects/{project_id}/rate_limits", { path: { project_id: whose ?? "" }, query: { limit: 100 } }, { staleMs: KEPT_MS, enabled: wanted && whose !== undefined });
  const names = whose === undefined ? routes.data?.data.map((one) => one.served_model) : seen.data?.data.map((one) => one.model);
  const text = [...new Set(names)].toSorted().join("\n");
  return useMemo(() => (text === "" ? [] : text.split("\n")), [text]);
}
