export const ROLES = [
  ["owner", "Owner: everything"],
  ["admin", "Admin: everything but users and admin keys"],
  ["billing", "Billing: money, prices and exports"],
  ["viewer", "Viewer: reads"],
  ["member", "Member: only the tenants they belong to"],
] as const;

export type Role = (typeof ROLES)[number][0];
