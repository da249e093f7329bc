/** One pool: its replicas with what they do, and what can be done: scale, change, drain, start, delete. */
import { useNavigate, useParams } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useState } from "react";
import { toast } from "@/ui/toast";
import { useProjectNames } from "@/api/names";
import { useApi, useChange } from "@/api/queries";
import type { Pool, PoolSpec, Replica } from "@/api/shapes";
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
import { SpecFields } from "./fields";
import { scaledBy } from "./progress";
import { present, ReplicaStatus } from "./replica-state";
import { Scale } from "./scale";
import { draftOf, replaces, specOf } from "./spec";
import { Devices, Nodes, Rolling } from "./state";
import { SwitchTraffic } from "./switch";

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
      <Rolling pool={pool} />
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
      <Nodes pool={pool} />
      <Devices pool={pool} />
      <PoolCharts pool={pool.id} />
      <div className="grid gap-x-6 lg:grid-cols-2">
        <Section title="What it runs">
          <Panel className="py-2">
            <Facts
              rows={[
                ["Engine", spec.kind ?? "tollway"],
                ["Model", <span key="model" className="font-mono text-[12.5px] break-all">{spec.model}</span>],
                ["Names", <span key="names" className="inline-flex flex-wrap justify-end gap-1">{spec.served_names.map((name) => <Tag key={name}>{name}</Tag>)}</span>],
                ["Replicas", spec.kind === "external" ? plural(spec.urls?.length ?? 0, "address", "addresses") : replicasOf(spec)],
                ...(spec.kind === "external" ? [] : started(spec)),
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

function replicasOf(spec: PoolSpec): string {
  const { min_replicas: min = 1, max_replicas: max = 1 } = spec;
  return min === max ? plural(min, "replica") : `${min} to ${max}, chosen ${scaledBy({ spec })}`;
}

/** What only an engine that is started here has. */
function started(spec: PoolSpec): [string, ReactNode][] {
  const { tensor_parallel: tensor = 1, pipeline_parallel: pipeline = 1, max_surge: surge = 1 } = spec;
  return [
    ["GPUs", spec.gpus?.length ? `${plural(spec.gpus.length, "GPU")}, ${tensor * pipeline} for a replica` : "none: the CPU"],
    ["Rolls", surge === 1 ? "one replica at a time" : `up to ${surge} replicas at a time`],
  ];
}

function replicaColumns(pool: Pool): Column<Replica>[] {
  return [
    { head: "Replica", main: true, cell: (row) => <Id>{row.id}</Id> },
    { head: "State", cell: (row) => <ReplicaStatus state={row.state} /> },
    { head: "Where", cell: (row) => <span title={[row.url, ...row.devices].filter(Boolean).join("\n")}>{row.node}{row.gpus.length > 0 ? `, GPU ${row.gpus.join(", ")}` : row.devices.length > 0 && `, ${plural(row.devices.length, "GPU")}`}</span> },
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
  const [doing, setDoing] = useState<"change" | "scale" | "switch" | "stop" | "delete" | null>(null);
  const navigate = useNavigate();
  const update = useChange("PATCH /v1/organization/pools/{pool_id}", [ONE, LIST]);
  const remove = useChange("DELETE /v1/organization/pools/{pool_id}", [LIST]);
  const path = { pool_id: pool.id };
  const close = () => setDoing(null);
  const load = loadOf(pool.replicas);
  const stopped = pool.desired_state === "stopped";
  return (
    <>
      <Button onClick={() => setDoing("switch")} needs="POST /v1/organization/pools/{pool_id}/switch">Switch traffic…</Button>
      {pool.spec.kind !== "external" && <Button onClick={() => setDoing("scale")} needs="PATCH /v1/organization/pools/{pool_id}">Scale…</Button>}
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
      {doing === "switch" && <SwitchTraffic pool={pool} onClose={close} />}
      {doing === "scale" && <Scale pool={pool} onClose={close} />}
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
      {spec !== null && <p className="rounded-md bg-sunken px-3 py-2 text-[13px] text-ink-2">{changeOf(pool, spec)}</p>}
    </DialogForm>
  );
}

/** What will happen, in numbers. */
function changeOf(pool: Pool, spec: PoolSpec): string {
  const there = present(pool.replicas).length;
  if (spec.kind === "external") return "Nothing is started or stopped here: requests go to the addresses from the next one on.";
  if (!replaces(pool.spec, spec)) return "No replica is replaced by this.";
  const surge = spec.max_surge ?? 1;
  const how = surge === 1 ? "one at a time" : `up to ${surge} at a time`;
  return `${plural(there, "replica is", "replicas are")} replaced, ${how}: each ends when it has finished what it has, and no request fails.`;
}
