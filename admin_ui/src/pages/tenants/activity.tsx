import { AuditTable } from "../audit-table";
import type { TabProps } from "./one";

export function TenantActivity({ tenant }: TabProps) {
  return <AuditTable query={{ project_ids: [tenant.id] }} hideTenant />;
}
