/** Who is told: the operator’s endpoints or a tenant’s, what was delivered to each, and another try. */
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { useChange, useList } from "@/api/queries";
import type { OperatorEndpoint } from "@/api/schema";
import { plural, words } from "@/lib/format";
import { Status, Tag, Time } from "@/ui/bits";
import { AddButton, Button } from "@/ui/button";
import { Confirm } from "@/ui/dialog";
import { Section } from "@/ui/page";
import { Empty } from "@/ui/states";
import { toast } from "@/ui/toast";
import type { Column } from "@/ui/table";
import { PagedTable } from "@/ui/table";
import { Deliveries } from "./deliveries";
import { EndpointDialog, RotateSecret } from "./endpoint-form";
import type { Hooks } from "./hooks";
import { useHooks } from "./hooks";

type Doing = { what: "set"; endpoint: OperatorEndpoint | null } | { what: "rotate" | "delete"; endpoint: OperatorEndpoint } | null;

export function Webhooks({ tenant }: { tenant?: string }) {
  const hooks = useHooks(tenant);
  const [doing, setDoing] = useState<Doing>(null);
  const close = () => setDoing(null);
  const chosen = (useSearch({ strict: false }) as Record<string, string | undefined>)["endpoint"];
  const { query, rows } = useList(hooks.calls.list, { path: hooks.own, query: { limit: 50 } });
  const shown = rows.find((one) => one.id === chosen) ?? rows[0];
  const add = (
    <AddButton needs={hooks.calls.create} onClick={() => setDoing({ what: "set", endpoint: null })}>New endpoint</AddButton>
  );
  return (
    <>
      <Section title="Endpoints" lead="Events are signed, delivered at least once, and tried again for four days." actions={rows.length > 0 && add}>
        <PagedTable
          label="Endpoints"
          query={query}
          rows={rows}
          columns={useColumns(hooks, setDoing)}
          rowKey={(row) => row.id}
          empty={
            <Empty title="Nobody is told yet" action={add}>
              An endpoint is an address that hears of alerts: your own program, Slack, PagerDuty or Alertmanager.
            </Empty>
          }
        />
      </Section>
      {shown !== undefined && <Deliveries key={shown.id} hooks={hooks} endpoint={shown} />}
      {doing?.what === "set" && <EndpointDialog hooks={hooks} endpoint={doing.endpoint} onClose={close} />}
      {doing?.what === "rotate" && <RotateSecret hooks={hooks} endpoint={doing.endpoint} onClose={close} />}
      {doing?.what === "delete" && <DeleteEndpoint hooks={hooks} endpoint={doing.endpoint} onClose={close} />}
    </>
  );
}

function useColumns(hooks: Hooks, setDoing: (doing: Doing) => void): Column<OperatorEndpoint>[] {
  const navigate = useNavigate();
  return [
    { head: "Name", main: true, cell: (row) => row.name },
    { head: "Address", cell: (row) => <span className="block max-w-72 truncate font-mono text-[12.5px]" title={row.url}>{row.url}</span> },
    { head: "Form", cell: (row) => <Tag>{row.format}</Tag> },
    { head: "State", cell: (row) => <EndpointStatus endpoint={row} /> },
    { head: "Hears of", cell: (row) => <span title={row.event_types.join("\n")}>{plural(row.event_types.length, "event type")}</span> },
    {
      head: "Actions",
      action: true,
      right: true,
      cell: (row) => (
        <span className="inline-flex flex-wrap justify-end gap-1">
          <Button size="small" look="quiet" onClick={() => void navigate({ to: ".", search: (known: Record<string, string | undefined>) => ({ ...known, endpoint: row.id }), replace: true })}>
            Deliveries
          </Button>
          <Test hooks={hooks} endpoint={row} />
          {row.status === "disabled" && <Enable hooks={hooks} endpoint={row} />}
          <Button size="small" look="quiet" needs={hooks.calls.update} onClick={() => setDoing({ what: "set", endpoint: row })}>
            Change
          </Button>
          <Button size="small" look="quiet" needs={hooks.calls.rotate} onClick={() => setDoing({ what: "rotate", endpoint: row })}>
            Rotate secret
          </Button>
          <Button size="small" look="quiet" className="text-bad" needs={hooks.calls.remove} onClick={() => setDoing({ what: "delete", endpoint: row })}>
            Delete
          </Button>
        </span>
      ),
    },
  ];
}

function EndpointStatus({ endpoint }: { endpoint: OperatorEndpoint }) {
  if (endpoint.status === "enabled") return <Status tone="good">Enabled</Status>;
  if (endpoint.status === "paused") {
    return (
      <span className="inline-flex items-center gap-2">
        <Status tone="warn">Paused</Status> <Time at={endpoint.paused_until} short />
      </span>
    );
  }
  return (
    <span title={endpoint.disabled_reason ?? undefined}>
      <Status tone="bad">Disabled{endpoint.disabled_reason && `: ${words(endpoint.disabled_reason).toLowerCase()}`}</Status>
    </span>
  );
}

interface Props {
  hooks: Hooks;
  endpoint: OperatorEndpoint;
}

function Test({ hooks, endpoint }: Props) {
  const test = useChange(hooks.calls.test, [hooks.calls.deliveries]);
  const sample = endpoint.event_types[0];
  if (sample === undefined) return null;
  return (
    <Button
      size="small"
      look="quiet"
      needs={hooks.calls.test}
      busy={test.isPending}
      onClick={() => test.mutate({ path: { ...hooks.own, endpoint_id: endpoint.id }, body: { event_type: sample } }, { onSuccess: ({ status_code }) => toast.success(`${endpoint.name} answered ${status_code}`), onError: (error) => toast.error(error.message) })}
    >
      Test
    </Button>
  );
}

function Enable({ hooks, endpoint }: Props) {
  const enable = useChange(hooks.calls.enable, [hooks.calls.list]);
  return (
    <Button size="small" look="quiet" needs={hooks.calls.enable} busy={enable.isPending} onClick={() => enable.mutate({ path: { ...hooks.own, endpoint_id: endpoint.id } }, { onError: (error) => toast.error(error.message) })}>
      Enable
    </Button>
  );
}

function DeleteEndpoint({ hooks, endpoint, onClose }: Props & { onClose: () => void }) {
  const remove = useChange(hooks.calls.remove, [hooks.calls.list]);
  return (
    <Confirm open onClose={onClose} title={`Delete ${endpoint.name}?`} action="Delete endpoint" typed={endpoint.name} change={remove} onConfirm={() => remove.mutate({ path: { ...hooks.own, endpoint_id: endpoint.id } }, { onSuccess: onClose })}>
      <p>{plural(endpoint.event_types.length, "event type")} will not reach it any more, and what waits for it is dropped. Its secret cannot be had again.</p>
    </Confirm>
  );
}
