/** How the tenant stands: this month beside the one before, what its budgets hold, its last requests. */
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useApi, useChange } from "@/api/queries";
import type { Sums } from "@/api/shapes";
import { useRange } from "@/app/time-range";
import { change, compact, percent } from "@/lib/format";
import { Money, Time } from "@/ui/bits";
import { Button } from "@/ui/button";
import { Confirm } from "@/ui/dialog";
import { Facts, Figure, Panel, Section } from "@/ui/page";
import { Loaded, Skeleton } from "@/ui/states";
import { BudgetBars } from "./budgets";
import { EditTenant } from "./edit";
import type { TabProps } from "./one";
import { TenantRequests } from "./requests";

export function Summary({ tenant }: TabProps) {
  const range = useRange();
  const usage = useApi("GET /v1/organization/usage/breakdown", {
    query: { start_time: range.start, end_time: range.end, group_by: "model", limit: 5, project_ids: [tenant.id], compare_start_time: range.start - (range.end - range.start), compare_end_time: range.start },
  });
  return (
    <>
      <Section title={range.label} lead="Compared with the same length of time before.">
        <Loaded query={usage} skeleton={<Panel><Skeleton className="h-16" /></Panel>}>
          {({ total }) => (
            <Panel className="grid grid-cols-2 gap-x-6 gap-y-5 lg:grid-cols-4">
              <Figure label="Cost" note={<Beside total={total} of="amount_nanousd" />}>
                <Link to="/tenants/$tenantId" params={{ tenantId: tenant.id }} search={{ tab: "usage" }} className="hover:underline">
                  <Money nano={total.amount_nanousd} />
                </Link>
              </Figure>
              <Figure label="Requests" note={<Beside total={total} of="num_model_requests" />}>
                <Link to="/requests" search={{ tenant: tenant.id }} className="hover:underline">
                  {compact(total.num_model_requests)}
                </Link>
              </Figure>
              <Figure label="Input tokens" note={total.input_tokens > 0 ? `${percent(total.input_cached_tokens / total.input_tokens, 0)} cached` : undefined}>
                {compact(total.input_tokens)}
              </Figure>
              <Figure label="Output tokens" note={<Beside total={total} of="output_tokens" />}>
                {compact(total.output_tokens)}
              </Figure>
            </Panel>
          )}
        </Loaded>
      </Section>
      <BudgetBars tenant={tenant} />
      <Section title="Last requests">
        <TenantRequests tenant={tenant} few />
      </Section>
      <About tenant={tenant} />
    </>
  );
}

function Beside({ total, of }: { total: Sums & { compared: Sums | null }; of: keyof Sums }) {
  const share = total.compared === null ? null : change(total[of], total.compared[of]);
  if (share === null) return <>nothing before</>;
  return <>{share === 0 ? "as before" : `${percent(Math.abs(share), 0)} ${share > 0 ? "more" : "less"}`}</>;
}

function About({ tenant }: TabProps) {
  const [editing, setEditing] = useState(false);
  const [archiving, setArchiving] = useState(false);
  const archive = useChange("POST /v1/organization/projects/{project_id}/archive", ["GET /v1/organization/projects", "GET /v1/organization/projects/{project_id}"]);
  return (
    <Section
      title="About"
      actions={
        tenant.status === "active" && (
          <div className="flex gap-2">
            <Button size="small" onClick={() => setEditing(true)} needs="POST /v1/organization/projects/{project_id}">
              Edit
            </Button>
            <Button size="small" onClick={() => setArchiving(true)} needs="POST /v1/organization/projects/{project_id}/archive">
              Archive…
            </Button>
          </div>
        )
      }
    >
      <Panel className="py-2">
        <Facts
          rows={[
            ["Name", tenant.name],
            ["Weight in a busy pool", tenant.fairness_weight],
            ["Created", <Time key="created" at={tenant.created_at} />],
            ...(tenant.archived_at === null ? [] : ([["Archived", <Time key="archived" at={tenant.archived_at} />]] as [string, React.ReactNode][])),
          ]}
        />
      </Panel>
      <EditTenant tenant={tenant} open={editing} onClose={() => setEditing(false)} />
      <Confirm
        open={archiving}
        onClose={() => setArchiving(false)}
        title={`Archive ${tenant.name}?`}
        action="Archive tenant"
        typed={tenant.name}
        change={archive}
        onConfirm={() => archive.mutate({ path: { project_id: tenant.id } }, { onSuccess: () => setArchiving(false) })}
      >
        <p>All of its keys stop working within two seconds, on every gateway. Its requests, costs and audit log stay. This cannot be undone.</p>
      </Confirm>
    </Section>
  );
}
