/** The tenants, with what each spent this month. */
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { useApi, useList } from "@/api/queries";
import type { Project, Sums } from "@/api/shapes";
import { compact } from "@/lib/format";
import { daysAgo } from "@/lib/time";
import { Money, Status, Time } from "@/ui/bits";
import { AddButton, Button } from "@/ui/button";
import { Check } from "@/ui/field";
import { Page } from "@/ui/page";
import { Empty } from "@/ui/states";
import type { Column } from "@/ui/table";
import { PagedTable } from "@/ui/table";
import { NewTenant } from "./new";

export function Tenants() {
  const [making, setMaking] = useState(false);
  const { show } = useSearch({ from: "/tenants" });
  const navigate = useNavigate({ from: "/tenants" });
  const { query, rows } = useList("GET /v1/organization/projects", { query: { limit: 50, include_archived: show === "archived" } });
  const sums = useMonth();
  return (
    <Page
      title="Tenants"
      lead="Who may call, with which keys, within which limits."
      actions={
        <>
          <Check
            label="Archived too"
            checked={show === "archived"}
            onChange={(event) => void navigate({ search: { show: event.target.checked ? "archived" : undefined }, replace: true })}
          />
          <AddButton size="normal" needs="POST /v1/organization/projects" onClick={() => setMaking(true)}>New tenant</AddButton>
        </>
      }
    >
      <PagedTable
        label="Tenants"
        query={query}
        rows={rows}
        rowKey={(row) => row.id}
        dim={(row) => row.status === "archived"}
        columns={columns(sums)}
        empty={
          <Empty title="No tenants yet" action={<Button look="primary" needs="POST /v1/organization/projects" onClick={() => setMaking(true)}>Make the first one</Button>}>
            A tenant is a team or a customer with its own keys, limits and bill.
          </Empty>
        }
      />
      <NewTenant open={making} onClose={() => setMaking(false)} />
    </Page>
  );
}

function columns(sums: Map<string, Sums>): Column<Project>[] {
  return [
    {
      head: "Name",
      main: true,
      cell: (row) => (
        <Link to="/tenants/$tenantId" params={{ tenantId: row.id }} className="hover:text-accent-ink hover:underline">
          {row.name}
        </Link>
      ),
    },
    { head: "State", cell: (row) => <Status tone={row.status === "active" ? "good" : "plain"}>{row.status === "active" ? "Active" : "Archived"}</Status> },
    { head: "Requests, 30 days", right: true, cell: (row) => compact(sums.get(row.id)?.num_model_requests ?? 0) },
    { head: "Tokens, 30 days", right: true, cell: (row) => compact(tokens(sums.get(row.id))) },
    { head: "Cost, 30 days", right: true, cell: (row) => <Money nano={sums.get(row.id)?.amount_nanousd ?? 0} /> },
    { head: "Weight", right: true, cell: (row) => row.fairness_weight },
    { head: "Created", right: true, cell: (row) => <Time at={row.created_at} short /> },
  ];
}

const tokens = (sums: Sums | undefined): number => (sums === undefined ? 0 : sums.input_tokens + sums.output_tokens);

/** The last 30 days by tenant. */
function useMonth(): Map<string, Sums> {
  const start = useMemo(() => daysAgo(30), []);
  const { data } = useApi("GET /v1/organization/usage/breakdown", { query: { start_time: start, group_by: "project_id", limit: 100 } });
  return useMemo(() => new Map((data?.data ?? []).map((row) => [String(row["project_id"]), row])), [data]);
}
