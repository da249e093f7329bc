/** What was sent to an endpoint, what it answered, and another try. */
import { useState } from "react";
import { useApi, useChange, useList } from "@/api/queries";
import type { Delivery, OperatorEndpoint } from "@/api/schema";
import { ms, words } from "@/lib/format";
import type { Tone } from "@/ui/bits";
import { Id, Status, Time, When } from "@/ui/bits";
import { Button } from "@/ui/button";
import { Dialog } from "@/ui/dialog";
import { Select } from "@/ui/field";
import { Section } from "@/ui/page";
import { Empty, Loaded, SkeletonRows } from "@/ui/states";
import { toast } from "@/ui/toast";
import type { Column } from "@/ui/table";
import { PagedTable, Table } from "@/ui/table";
import type { Hooks } from "./hooks";

const TONES: Record<Delivery["status"], Tone> = { delivered: "good", pending: "busy", failed: "bad" };

export function Deliveries({ hooks, endpoint }: { hooks: Hooks; endpoint: OperatorEndpoint }) {
  const [status, setStatus] = useState<Delivery["status"] | "">("");
  const [shown, setShown] = useState<Delivery | null>(null);
  const { query, rows } = useList(hooks.calls.deliveries, { path: { ...hooks.own, endpoint_id: endpoint.id }, query: { limit: 20, ...(status ? { status } : {}) } }, { everyMs: 5_000 });
  const columns: Column<Delivery>[] = [
    { head: "Time", main: true, cell: (row) => <span className="font-normal"><Time at={row.occurred_at} short /></span> },
    { head: "Event", cell: (row) => row.event_type },
    { head: "State", cell: (row) => <Status tone={TONES[row.status]}>{words(row.status)}</Status> },
    { head: "Attempts", right: true, cell: (row) => row.attempts },
    { head: "Last error", wide: true, cell: (row) => <span className="text-[13px] text-ink-2">{row.last_error ?? ""}</span> },
    { head: "Next try", cell: (row) => <When at={row.next_attempt_at} /> },
    {
      head: "Actions",
      action: true,
      right: true,
      cell: (row) => (
        <span className="inline-flex gap-1">
          <Button size="small" look="quiet" onClick={() => setShown(row)}>
            Log
          </Button>
          <Replay hooks={hooks} endpoint={endpoint} delivery={row} />
        </span>
      ),
    },
  ];
  return (
    <Section
      title={`Deliveries to ${endpoint.name}`}
      actions={
        <Select aria-label="State of deliveries" className="w-auto" value={status} onChange={(event) => setStatus(event.target.value as typeof status)}>
          <option value="">Any state</option>
          <option value="delivered">Delivered</option>
          <option value="pending">Pending</option>
          <option value="failed">Failed</option>
        </Select>
      }
    >
      <PagedTable label="Deliveries" query={query} rows={rows} columns={columns} rowKey={(row) => row.id} empty={<Empty title="Nothing was sent yet">Each event that it hears of stands here, with what it answered.</Empty>} />
      <Dialog open={shown !== null} onClose={() => setShown(null)} title={shown?.event_type ?? ""} wide>
        {shown !== null && <Log hooks={hooks} endpoint={endpoint} delivery={shown} />}
      </Dialog>
    </Section>
  );
}

interface Props {
  hooks: Hooks;
  endpoint: OperatorEndpoint;
  delivery: Delivery;
}

function Replay({ hooks, endpoint, delivery }: Props) {
  const replay = useChange(hooks.calls.replay, [hooks.calls.deliveries, hooks.calls.delivery]);
  return (
    <Button
      size="small"
      look="quiet"
      needs={hooks.calls.replay}
      busy={replay.isPending}
      onClick={() => replay.mutate({ path: { ...hooks.own, endpoint_id: endpoint.id, delivery_id: delivery.id } }, { onSuccess: () => toast.success("It is sent again, under the same id"), onError: (error) => toast.error(error.message) })}
    >
      Replay
    </Button>
  );
}

function Log({ hooks, endpoint, delivery }: Props) {
  const query = useApi(hooks.calls.delivery, { path: { ...hooks.own, endpoint_id: endpoint.id, delivery_id: delivery.id } }, { everyMs: 5_000 });
  return (
    <>
      <p className="mb-3 text-[13px] text-ink-2">
        Event <Id>{delivery.event_id}</Id>
      </p>
      <Loaded query={query} skeleton={<SkeletonRows rows={2} />}>
        {({ log }) =>
          log.length === 0 ? (
            <Empty title="Not tried yet" small />
          ) : (
            <Table
              label="Attempts"
              rows={log}
              rowKey={(row) => String(row.number)}
              columns={[
                { head: "Attempt", main: true, cell: (row) => `Attempt ${row.number}` },
                { head: "Time", cell: (row) => <Time at={row.started_at} /> },
                { head: "Took", right: true, cell: (row) => ms(row.duration_ms) },
                { head: "Status", right: true, cell: (row) => row.status_code ?? "–" },
                { head: "Answer", wide: true, cell: (row) => <span className="font-mono text-[12px] break-all text-ink-2">{row.error ?? row.answer ?? ""}</span> },
              ]}
            />
          )
        }
      </Loaded>
    </>
  );
}
