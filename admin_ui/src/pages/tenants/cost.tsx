import { useSearch } from "@tanstack/react-router";
import { Explorer } from "../usage/explorer";
import type { TabProps } from "./one";

export function TenantCost({ tenant }: TabProps) {
  const search: Record<string, string | undefined> = useSearch({ strict: false });
  return <Explorer search={search} fixed={tenant.id} />;
}
