/** The tenant's keys: make one, rotate one with a grace period, revoke one. */
import { useMemo, useState } from "react";
import { useApi, useList } from "@/api/queries";
import type { ApiKey } from "@/api/shapes";
import { compact } from "@/lib/format";
import { daysAgo, nowUnix } from "@/lib/time";
import { Id, Money, Status, Tag, When } from "@/ui/bits";
import { AddButton, Button } from "@/ui/button";
import { Section } from "@/ui/page";
import { Empty } from "@/ui/states";
import type { Column } from "@/ui/table";
import { PagedTable } from "@/ui/table";
import { CreateKey, RevokeKey, RotateKey } from "./key-dialogs";
import type { TabProps } from "./one";

type Doing = { what: "create" } | { what: "rotate" | "revoke"; key: ApiKey } | null;

export function Keys({ tenant }: TabProps) {
  const [doing, setDoing] = useState<Doing>(null);
  const close = () => setDoing(null);
  const { query, rows } = useList("GET /v1/organization/projects/{project_id}/api_keys", { path: { project_id: tenant.id }, query: { limit: 50 } });
  const start = useMemo(() => daysAgo(30), []);
  const usage = useApi("GET /v1/organization/usage/breakdown", { query: { start_time: start, group_by: "api_key_id", limit: 100, project_ids: [tenant.id] } });
  const sums = new Map((usage.data?.data ?? []).map((row) => [String(row["api_key_id"]), row]));
  const columns: Column<ApiKey>[] = [
    { head: "Name", main: true, cell: (row) => <>{row.name}{row.owner.user && <span className="font-normal text-ink-2"> of {row.owner.user.email ?? row.owner.user.name}</span>}</> },
    { head: "Key", cell: (row) => (row.owner.user ? <span className="text-ink-2" title="It stands for this person’s requests from the console; nobody was given its value.">none to copy</span> : <Id>{row.redacted_value}</Id>) },
    { head: "State", cell: (row) => <KeyState apiKey={row} /> },
    { head: "May", cell: (row) => <span className="inline-flex flex-wrap justify-end gap-1 sm:justify-start">{row.scopes.map((scope) => <Tag key={scope}>{scope}</Tag>)}</span> },
    { head: "Requests, 30 days", right: true, cell: (row) => compact(sums.get(row.id)?.num_model_requests ?? 0) },
    { head: "Cost, 30 days", right: true, cell: (row) => <Money nano={sums.get(row.id)?.amount_nanousd ?? 0} /> },
    { head: "Last used", cell: (row) => <When at={row.last_used_at} never="never" /> },
    {
      head: "Actions",
      action: true,
      needs: "DELETE /v1/organization/projects/{project_id}/api_keys/{key_id}",
      right: true,
      cell: (row) => (
        <span key="actions" className="inline-flex gap-1">
          {row.owner.user === null && (
            <Button look="quiet" size="small" onClick={() => setDoing({ what: "rotate", key: row })}>
              Rotate
            </Button>
          )}
          <Button look="quiet" size="small" className="text-bad" onClick={() => setDoing({ what: "revoke", key: row })}>
            Revoke
          </Button>
        </span>
      ),
    },
  ];
  const create = (
    <AddButton needs="POST /v1/organization/projects/{project_id}/api_keys" onClick={() => setDoing({ what: "create" })} disabled={tenant.status !== "active"}>
      New key
    </AddButton>
  );
  return (
    <Section title="API keys" lead="A change takes effect on every gateway within two seconds." actions={create}>
      <PagedTable
        label="API keys"
        query={query}
        rows={rows}
        columns={columns}
        rowKey={(row) => row.id}
        empty={
          <Empty title="No keys" action={create}>
            A key is what the tenant’s programs call with. Its value is shown once, when it is made.
          </Empty>
        }
      />
      <CreateKey open={doing?.what === "create"} onClose={close} tenant={tenant} />
      {doing !== null && doing.what !== "create" && (
        <>
          <RotateKey open={doing.what === "rotate"} onClose={close} tenant={tenant} apiKey={doing.key} />
          <RevokeKey open={doing.what === "revoke"} onClose={close} tenant={tenant} apiKey={doing.key} requests={sums.get(doing.key.id)?.num_model_requests ?? 0} />
        </>
      )}
    </Section>
  );
}

function KeyState({ apiKey }: { apiKey: ApiKey }) {
  if (apiKey.owner_project_access === "inactive") return <Status tone="plain">Inactive</Status>;
  if (apiKey.expires_at === null) return <Status tone="good">Active</Status>;
  const left = apiKey.expires_at - nowUnix();
  if (left <= 0) return <Status tone="plain">Expired</Status>;
  return (
    <span className="inline-flex flex-wrap items-center justify-end gap-x-2 sm:justify-start">
      <Status tone={left < 7 * 86_400 ? "warn" : "good"}>Until</Status> <When at={apiKey.expires_at} />
    </span>
  );
}
