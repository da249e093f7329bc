/** The rail: what there is, in the order of how often it is wanted, for whom the API answers. */
import type { OperationName } from "@/api/client";
import { may, ownProjects } from "@/api/session";
import { Activity, BookOpenText, Boxes, Building2, Gauge, MessageSquareText, Receipt, ScrollText, Settings, Tags } from "lucide-react";

const ALL = [
  { to: "/", label: "Overview", icon: Gauge, needs: "GET /v1/organization/projects" },
  { to: "/tenants", label: "Tenants", icon: Building2, needs: "GET /v1/organization/projects" },
  { to: "/requests", label: "Requests", icon: ScrollText, needs: "GET /v1/organization/requests" },
  { to: "/usage", label: "Usage & cost", icon: Receipt, needs: "GET /v1/organization/usage/breakdown" },
  { to: "/models", label: "Models & prices", icon: Tags, needs: "GET /v1/organization/prices" },
  { to: "/pools", label: "Pools", icon: Boxes, needs: "GET /v1/organization/pools" },
  { to: "/alerts", label: "Objectives & alerts", icon: Activity, needs: "GET /v1/organization/slo/board" },
  { to: "/playground", label: "Playground", icon: MessageSquareText, needs: "GET /v1/organization/projects" },
  { to: "/audit", label: "Audit log", icon: BookOpenText, needs: "GET /v1/organization/audit_logs" },
  { to: "/settings", label: "Settings", icon: Settings, needs: "GET /v1/organization/me" },
] as const satisfies { to: string; label: string; icon: unknown; needs: OperationName }[];

export type NavItem = (typeof ALL)[number];

/** A member of one tenant has its page for an overview. */
export function navigation(): NavItem[] {
  const bound = ownProjects() !== null;
  return ALL.filter(({ to, needs }) => may(needs) && !(bound && to === "/"));
}
