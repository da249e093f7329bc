/** Who is told: the operator's endpoints, what was delivered to each, and another try. */
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

const LIST = "GET /v1/organization/webhook_endpoints";
const DELIVERIES = "GET /v1/organization/webhook_endpoints/{endpoint_id}/deliveries";
const UPDATE = "POST /v1/organization/webhook_endpoints/{endpoint_id}";
const ENABLE = "POST /v1/organization/webhook_endpoints/{endpoint_id}/enable";
const TEST = "POST /v1/organization/webhook_endpoints/{endpoint_id}/test";
type Doing = { what: "set"; endpoint: OperatorEndpoint | null } | { what: "rotate" | "delete"; endpoint: OperatorEndpoint } | null;

export function Webhooks() {
  const [doing, setDoing] = useState<Doing>(null);
  const close = () => setDoing(null);
  const chosen = useSearch({ from: "/alerts" })["endpoint"];
  const { query, rows } = useList(LIST, { query: { limit: 50 } });
  const shown = rows.find((one) => one.id === chosen) ?? rows[0];
  const add = (
    <AddButton needs="POST /v1/organization/webhook_endpoints" onClick={() => setDoing({ what: "set", endpoint: null })}>New endpoint</AddButton>
  );
  return (
    <>
      <Section title="Endpoints" lead="Events are signed, delivered at least once, and tried again for four days." actions={rows.length > 0 && add}>
        <PagedTable
          label="Endpoints"
          query={query}
          rows={rows}
          columns={useColumns(setDoing)}
          rowKey={(row) => row.id}
          empty={
            <Empty title="Nobody is told yet" action={add}>
              An endpoint is an address that hears of alerts: your own program, Slack, PagerDuty or Alertmanager.
            </Empty>
          }
        />
      </Section>
      {shown !== undefined && <Deliveries key={shown.id} endpoint={shown} />}
      {doing?.what === "set" && <EndpointDialog endpoint={doing.endpoint} onClose={close} />}
      {doing?.what === "rotate" && <RotateSecret endpoint={doing.endpoint} onClose={close} />}
      {doing?.what === "delete" && <DeleteEndpoint endpoint={doing.endpoint} onClose={close} />}
    </>
  );
}

function useColumns(setDoing: (doing: Doing) => void): Column<OperatorEndpoint>[] {
  const navigate = useNavigate({ from: "/alerts" });
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
          <Button size="small" look="quiet" onClick={() => void navigate({ search: (known) => ({ ...known, endpoint: row.id }), replace: true })}>
            Deliveries
          </Button>
          <Test endpoint={row} />
          {row.status === "disabled" && <Enable endpoint={row} />}
          <Button size="small" look="quiet" needs={UPDATE} onClick={() => setDoing({ what: "set", endpoint: row })}>
            Change
          </Button>
          <Button size="small" look="quiet" needs="POST /v1/organization/webhook_endpoints/{endpoint_id}/rotate_secret" onClick={() => setDoing({ what: "rotate", endpoint: row })}>
            Rotate secret
          </Button>
          <Button size="small" look="quiet" className="text-bad" needs="DELETE /v1/organization/webhook_endpoints/{endpoint_id}" onClick={() => setDoing({ what: "delete", endpoint: row })}>
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

function Test({ endpoint }: { endpoint: OperatorEndpoint }) {
  const test = useChange(TEST, [DELIVERIES]);
  const sample = endpoint.event_types[0];
  if (sample === undefined) return null;
  return (
    <Button
      size="small"
      look="quiet"
      needs={TEST}
      busy={test.isPending}
      onClick={() => test.mutate({ path: { endpoint_id: endpoint.id }, body: { event_type: sample } }, { onSuccess: ({ status_code }) => toast.success(`${endpoint.name} answered ${status_code}`), onError: (error) => toast.error(error.message) })}
    >
      Test
    </Button>
  );
}

function Enable({ endpoint }: { endpoint: OperatorEndpoint }) {
  const enable = useChange(ENABLE, [LIST]);
  return (
    <Button size="small" look="quiet" needs={ENABLE} busy={enable.isPending} onClick={() => enable.mutate({ path: { endpoint_id: endpoint.id } }, { onError: (error) => toast.error(error.message) })}>
      Enable
    </Button>
  );
}

function DeleteEndpoint({ endpoint, onClose }: { endpoint: OperatorEndpoint; onClose: () => void }) {
  const remove = useChange("DELETE /v1/organization/webhook_endpoints/{endpoint_id}", [LIST]);
  return (
    <Confirm open onClose={onClose} title={`Delete ${endpoint.name}?`} action="Delete endpoint" typed={endpoint.name} change={remove} onConfirm={() => remove.mutate({ path: { endpoint_id: endpoint.id } }, { onSuccess: onClose })}>
      <p>{plural(endpoint.event_types.length, "event type")} will not reach it any more, and what waits for it is dropped. Its secret cannot be had again.</p>
    </Confirm>
  );
}
