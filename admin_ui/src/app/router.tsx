/** Address → page. Every page is a chunk of its own, fetched when it is first wanted or pointed at. */
import { createRootRoute, createRoute, createRouter, lazyRouteComponent, retainSearchParams } from "@tanstack/react-router";
import { PageFailure, PageMissing, PagePending } from "./fallbacks";
import { Frame } from "./frame";

type Words = Record<string, string | undefined>;

/** Filters stand in the address as plain words. */
function words(...names: string[]) {
  return (search: Record<string, unknown>): Words =>
    Object.fromEntries(names.flatMap((name) => (search[name] === undefined || search[name] === "" ? [] : [[name, String(search[name])]])));
}

/** Goes along from page to page. */
const RANGE = ["range", "from", "to"] as const;
const root = createRootRoute({ component: Frame, notFoundComponent: PageMissing, validateSearch: words(...RANGE), search: { middlewares: [retainSearchParams([...RANGE])] } });
const at = <P extends string>(path: P, component: ReturnType<typeof lazyRouteComponent>, ...search: string[]) =>
  createRoute({ getParentRoute: () => root, path, component, validateSearch: words(...search) });

const routes = [
  at("/", lazyRouteComponent(() => import("@/pages/overview"), "Overview")),
  at("/tenants", lazyRouteComponent(() => import("@/pages/tenants/list"), "Tenants"), "show"),
  at("/tenants/$tenantId", lazyRouteComponent(() => import("@/pages/tenants/one"), "Tenant"), "tab", "endpoint", "group", "measure", "model", "compare"),
  at("/requests", lazyRouteComponent(() => import("@/pages/requests/list"), "Requests"), "tenant", "model", "status", "class", "pool", "key"),
  at("/requests/$requestId", lazyRouteComponent(() => import("@/pages/requests/one"), "RequestPage")),
  at("/usage", lazyRouteComponent(() => import("@/pages/usage/page"), "Usage"), "tab", "group", "measure", "tenant", "model", "compare"),
  at("/models", lazyRouteComponent(() => import("@/pages/models/page"), "Models"), "tab"),
  at("/pools", lazyRouteComponent(() => import("@/pages/pools/list"), "Pools")),
  at("/pools/$poolId", lazyRouteComponent(() => import("@/pages/pools/one"), "PoolPage")),
  at("/alerts", lazyRouteComponent(() => import("@/pages/alerts/page"), "Alerts"), "tab", "endpoint"),
  at("/playground", lazyRouteComponent(() => import("@/pages/playground"), "Playground"), "model", "tenant"),
  at("/audit", lazyRouteComponent(() => import("@/pages/audit"), "Audit"), "tenant", "actor", "type"),
  at("/sign-in", lazyRouteComponent(() => import("@/pages/overview"), "Overview"), "error"),
  at("/accept-invite", lazyRouteComponent(() => import("@/pages/accept"), "AcceptInvite")),
  at("/new-password", lazyRouteComponent(() => import("@/pages/new-password"), "NewPassword")),
  at("/settings", lazyRouteComponent(() => import("@/pages/settings/page"), "Settings"), "tab"),
] as const;

export const router = createRouter({
  routeTree: root.addChildren(routes),
  basepath: "/console",
  defaultPreload: "intent",
  defaultPendingMs: 200,
  defaultPendingComponent: PagePending,
  defaultErrorComponent: PageFailure,
  scrollRestoration: true,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
