/** Names for ids: what the lists of tenants and pools know, read once and kept. */
import { useMemo } from "react";
import { useApi } from "./queries";
import { may, ownProjects } from "./session";
import type { Pool, Project } from "./shapes";

const KEPT_MS = 60_000;

export function useProjects(): Project[] {
  return useApi("GET /v1/organization/projects", { query: { limit: 100, include_archived: true } }, { staleMs: KEPT_MS }).data?.data ?? [];
}

/** Those that may still be given something. */
export function useActiveProjects(): Project[] {
  return useProjects().filter((one) => one.status === "active");
}

export function useProjectNames(): Map<string, string> {
  const projects = useProjects();
  return useMemo(() => new Map(projects.map((one) => [one.id, one.name])), [projects]);
}

/** None for who sees no pools. */
export function usePools(): Pool[] {
  return useApi("GET /v1/organization/pools", { query: { limit: 100 } }, { staleMs: KEPT_MS, enabled: may("GET /v1/organization/pools") }).data?.data ?? [];
}

export function usePoolNames(): Map<string, string> {
  const pools = usePools();
  return useMemo(() => new Map(pools.map((one) => [one.id, one.name])), [pools]);
}

/** Every served name that a route leads somewhere; of a tenant, those that it sees. */
export function useServedNames(tenantId?: string): string[] {
  const wanted = tenantId ?? ownProjects()?.[0]?.id;
  const routes = useApi("GET /v1/organization/routes", { query: { limit: 100 } }, { staleMs: KEPT_MS, enabled: wanted === undefined });
  const seen = useApi("GET /v1/organization/projects/{project_id}/rate_limits", { path: { project_id: wanted ?? "" }, query: { limit: 100 } }, { staleMs: KEPT_MS, enabled: wanted !== undefined });
  const names = wanted === undefined ? routes.data?.data.map((one) => one.served_model) : seen.data?.data.map((one) => one.model);
  const text = [...new Set(names)].toSorted().join("\n");
  return useMemo(() => (text === "" ? [] : text.split("\n")), [text]);
}
