/** One pool: its replicas with what they do, and what can be done: scale, change, drain, start, delete. */
import { useNavigate, useParams } from "@tanstack/react-router";
import { useState } from "react";
import { toast } from "@/ui/toast";
import { useProjectNames } from "@/api/names";
import { useApi, useChange } from "@/api/queries";
import type { Pool, Replica } from "@/api/shapes";
import { count, percent, plural, words } from "@/lib/format";
import { Bar, Freshness, Id, Tag, When } from "@/ui/bits";
import { Button } from "@/ui/button";
import { Confirm, Dialog, DialogForm } from "@/ui/dialog";
import { Facts, Page, Panel, Section } from "@/ui/page";
import { Empty, Loaded } from "@/ui/states";
import type { Column } from "@/ui/table";
import { Table } from "@/ui/table";
import { PoolCharts } from "./charts";
import { PoolStatus } from "./list";
import { kvTone, loadOf } from "./load";
import { draftOf, SpecFields, specOf } from "./new";
import { present, ReplicaStatus } from "./replica-state";

const ONE = "GET /v1/organization/pools/{pool_id}";
const LIST = "GET /v1/organization/pools";

export function PoolPage() {
  const { poolId } = useParams({ from: "/pools/$poolId" });
  const query = useApi(ONE, { path: { pool_id: poolId } }, { everyMs: 3_000 });
  return (
    <Page
      title={query.data?.name ?? "Pool"}
      within={{ to: "/pools", title: "Pools" }}
      lead={
        <span className="flex flex-wrap items-center gap-2">
          <Id>{poolId}</Id>
          {query.data && <PoolStatus pool={query.data} />}
          <Freshness at={query.dataUpdatedAt} failing={query.isRefetchError} />
        </span>
      }
      actions={query.data && <Actions pool={query.data} />}
    >
      <Loaded query={query}>{(pool) => <Detail pool={pool} />}</Loaded>
    </Page>
  );
}

function Detail({ pool }: { pool: Pool }) {
  const [all, setAll] = useState(false);
  const tenants = useProjectNames();
  const shown = all ? pool.replicas : present(pool.replicas);
  const { spec } = pool;
  return (
    <>
      <Section
        title="Replicas"
        actions={
          pool.replicas.length > present(pool.replicas).length && (
            <Button size="small" look="quiet" onClick={() => setAll(!all)}>
              {all ? "Hide those that stopped" : "Show those that stopped"}
            </Button>
          )
        }
      >
        {shown.length === 0 ? <Empty title="No replicas">{pool.desired_state === "stopped" ? "The pool is stopped; start it to bring them up." : "The supervisor has not started any yet."}</Empty> : <Table label="Replicas" rows={shown} columns={replicaColumns(pool)} rowKey={(row) => row.id} dim={(row) => row.state === "stopped"} />}
        {shown.filter((one) => one.last_error !== null).map((one) => (
          <div key={one.id} className="mt-3 rounded-lg border border-bad/40 bg-bad-soft px-4 py-3 text-[13px]">
            <p className="font-medium">Last error of {one.id}</p>
            <pre className="mt-1 overflow-x-auto font-mono text-[12px] whitespace-pre-wrap">{one.last_error}</pre>
          </div>
        ))}
      </Section>
      <PoolCharts pool={pool.id} />
      <div className="grid gap-x-6 lg:grid-cols-2">
        <Section title="What it runs">
          <Panel className="py-2">
            <Facts
              rows={[
                ["Engine", spec.kind ?? "tollway"],
                ["Model", <span key="model" className="font-mono text-[12.5px] break-all">{spec.model}</span>],
                ["Names", <span key="names" className="inline-flex flex-wrap justify-end gap-1">{spec.served_names.map((name) => <Tag key={name}>{name}</Tag>)}</span>],
                ["Replicas", spec.kind === "external" ? plural(spec.urls?.length ?? 0, "address", "addresses") : `${spec.min_replicas ?? 1} to ${spec.max_replicas ?? 1}`],
                ["GPUs", spec.gpus?.length ? spec.gpus.join(", ") : "none: the CPU"],
                ...Object.entries(spec.flags ?? {}).map(([flag, value]): [string, string] => [`--${flag}`, String(value)]),
                ["Generation", pool.generation],
              ]}
            />
          </Panel>
        </Section>
        <Section title="Who and how">
          <Panel className="py-2">
            <Facts
              rows={[
                ["Reserved to", pool.reserved_projects.length === 0 ? "nobody: open to all" : pool.reserved_projects.map((id) => tenants.get(id) ?? id).join(", ")],
                ...Object.entries(pool.traffic)
                  .filter(([, value]) => value !== null)
                  .map(([name, value]): [string, string] => [words(name).replace(/ s$/, ", seconds"), String(value)]),
              ]}
            />
          </Panel>
        </Section>
      </div>
    </>
  );
}

function replicaColumns(pool: Pool): Column<Replica>[] {
  return [
    { head: "Replica", main: true, cell: (row) => <Id>{row.id}</Id> },
    { head: "State", cell: (row) => <ReplicaStatus state={row.state} /> },
    { head: "Where", cell: (row) => <span title={row.url ?? undefined}>{row.node}{row.gpus.length > 0 && `, GPU ${row.gpus.join(", ")}`}</span> },
    { head: "Running", right: true, cell: (row) => count(row.load?.running) },
    { head: "Waiting", right: true, cell: (row) => count(row.load?.waiting) },
    {
      head: "KV cache",
      cell: (row) =>
        row.load ? (
          <span className="inline-flex w-24 items-center gap-2">
            <Bar share={row.load.kv_usage} tone={kvTone(row.load.kv_usage)} label="KV cache in use" />
            <span className="figure whitespace-nowrap">{percent(row.load.kv_usage, 0)}</span>
          </span>
        ) : (
          "–"
        ),
    },
    { head: "Restarts", right: true, cell: (row) => count(row.restarts) },
    { head: "Generation", right: true, cell: (row) => (row.generation === pool.generation ? row.generation : `${row.generation}, old`) },
    { head: "Ready since", cell: (row) => <When at={row.ready_at} /> },
  ];
}

function Actions({ pool }: { pool: Pool }) {
  const [doing, setDoing] = useState<"change" | "stop" | "delete" | null>(null);
  const navigate = useNavigate();
  const update = useChange("PATCH /v1/organization/pools/{pool_id}", [ONE, LIST]);
  const remove = useChange("DELETE /v1/organization/pools/{pool_id}", [LIST]);
  const path = { pool_id: pool.id };
  const close = () => setDoing(null);
  const load = loadOf(pool.replicas);
  const stopped = pool.desired_state === "stopped";
  return (
    <>
      <Button onClick={() => setDoing("change")} needs="PATCH /v1/organization/pools/{pool_id}">Change or roll…</Button>
      {stopped ? (
        <Button look="primary" needs="PATCH /v1/organization/pools/{pool_id}" busy={update.isPending} onClick={() => update.mutate({ path, body: { desired_state: "running" } })}>
          Start
        </Button>
      ) : (
        <Button onClick={() => setDoing("stop")} needs="PATCH /v1/organization/pools/{pool_id}">Drain and stop…</Button>
      )}
      <Button className="text-bad" needs="DELETE /v1/organization/pools/{pool_id}" onClick={() => setDoing("delete")}>
        Delete…
      </Button>
      <Dialog open={doing === "change"} onClose={close} title={`Change ${pool.name}`} description="A change of what an engine is started with rolls the pool: each new replica is ready before an old one drains." wide>
        {doing === "change" && <ChangeForm pool={pool} onClose={close} />}
      </Dialog>
      <Confirm
        open={doing === "stop"}
        onClose={close}
        title={`Drain and stop ${pool.name}?`}
        action="Drain and stop"
        change={update}
        onConfirm={() =>
          update.mutate(
            { path, body: { desired_state: "stopped" } },
            {
              onSuccess: () => {
                close();
                toast.success(`${pool.name} is draining`, { action: { label: "Undo", onClick: () => update.mutate({ path, body: { desired_state: "running" } }) } });
              },
            },
          )
        }
      >
        <p>
          {load === null ? "What it has in flight is finished." : `${plural(load.running + load.waiting, "request is", "requests are")} in flight and will be finished.`} New requests for its models are answered 503 until it is started again.
        </p>
      </Confirm>
      <Confirm
        open={doing === "delete"}
        onClose={close}
        title={`Delete ${pool.name}?`}
        action="Delete pool"
        typed={pool.name}
        change={remove}
        onConfirm={() => remove.mutate({ path }, { onSuccess: () => void navigate({ to: "/pools" }) })}
      >
        <p>{plural(present(pool.replicas).length, "replica")} will finish what they have and stop. It is refused while a route leads here.</p>
      </Confirm>
    </>
  );
}

function ChangeForm({ pool, onClose }: { pool: Pool; onClose: () => void }) {
  const [draft, setDraft] = useState(() => draftOf(pool.spec));
  const update = useChange("PATCH /v1/organization/pools/{pool_id}", [ONE, LIST]);
  const spec = specOf(draft);
  function submit() {
    if (spec === null) return;
    update.mutate(
      { path: { pool_id: pool.id }, body: { spec: { ...pool.spec, ...spec } } },
      {
        onSuccess: (after) => {
          toast.success(after.generation === pool.generation ? "Saved" : `Rolling to generation ${after.generation}`);
          onClose();
        },
      },
    );
  }
  return (
    <DialogForm changes={[update]} action="Save" disabled={spec === null} onSubmit={submit} onClose={onClose}>
      <SpecFields draft={draft} onChange={setDraft} />
    </DialogForm>
  );
}
