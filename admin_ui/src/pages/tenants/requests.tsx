/** The tenant's requests, newest first. */
import { Link } from "@tanstack/react-router";
import { useList } from "@/api/queries";
import { useRange } from "@/app/time-range";
import { Button } from "@/ui/button";
import { Empty } from "@/ui/states";
import { PagedTable, Table } from "@/ui/table";
import { requestColumns } from "../requests/columns";
import type { TabProps } from "./one";

export function TenantRequests({ tenant, few }: TabProps & { few?: boolean }) {
  const range = useRange();
  const { query, rows } = useList("GET /v1/organization/requests", { query: { project_id: tenant.id, limit: few ? 5 : 50, start_time: range.start, ...(range.isOpen ? {} : { end_time: range.end }) } });
  const columns = requestColumns(null, null);
  const empty = <Empty title={`No requests ${range.during}`}>Each request of this tenant stands here with its tokens, its cost and how long it took.</Empty>;
  if (few && rows.length > 0) {
    return (
      <>
        <Table label="Last requests" rows={rows.slice(0, 5)} columns={columns} rowKey={(row) => row.id} />
        <Button asChild look="quiet" size="small" className="mt-2">
          <Link to="/tenants/$tenantId" params={{ tenantId: tenant.id }} search={{ tab: "requests" }}>
            All requests
          </Link>
        </Button>
      </>
    );
  }
  return <PagedTable label="Requests" query={query} rows={rows} columns={columns} rowKey={(row) => row.id} empty={empty} />;
}
