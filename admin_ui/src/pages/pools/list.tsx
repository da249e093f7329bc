/** The pools: what each runs, and how its replicas are. */
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useList } from "@/api/queries";
import type { Pool } from "@/api/shapes";
import { count, percent, plural } from "@/lib/format";
import { Bar, Freshness, Status, Tag } from "@/ui/bits";
import { AddButton } from "@/ui/button";
import { Page, Panel } from "@/ui/page";
import { Empty } from "@/ui/states";
import { Paged } from "@/ui/table";
import { NewPool } from "./new";
import { present } from "./replica-state";
import { kvTone, loadOf, wordOf } from "./load";

const LIVE_MS = 5_000;

export function Pools() {
  const [making, setMaking] = useState(false);
  const { query, rows } = useList("GET /v1/organization/pools", { query: { limit: 50 } }, { everyMs: LIVE_MS });
  const add = (
    <AddButton size="normal" needs="POST /v1/organization/pools" onClick={() => setMaking(true)}>New pool</AddButton>
  );
  return (
    <Page
      title="Pools"
      lead="A pool is one model on its own GPUs; its replicas share the work."
      actions={
        <>
          <Freshness at={query.dataUpdatedAt} failing={query.isRefetchError} />
          {add}
        </>
      }
    >
      <Paged query={query} count={rows.length} skeletonRows={4} empty={<Empty title="No pools" action={add}>A pool starts engines for one model, or leads to engines that somebody else runs.</Empty>}>
        <div className="grid gap-4 lg:grid-cols-2">
          {rows.map((pool) => (
            <PoolCard key={pool.id} pool={pool} />
          ))}
        </div>
      </Paged>
      <NewPool open={making} onClose={() => setMaking(false)} />
    </Page>
  );
}

function PoolCard({ pool }: { pool: Pool }) {
  const replicas = present(pool.replicas);
  const ready = replicas.filter((one) => one.state === "ready").length;
  const load = loadOf(replicas);
  return (
    <Panel>
      <div className="flex flex-wrap items-center gap-2">
        <h2 className="text-[15px] font-semibold">
          <Link to="/pools/$poolId" params={{ poolId: pool.id }} className="hover:text-accent-ink hover:underline">
            {pool.name}
          </Link>
        </h2>
        <PoolStatus pool={pool} />
        <span className="ml-auto flex gap-1">
          {pool.spec.served_names.slice(0, 3).map((name) => (
            <Tag key={name}>{name}</Tag>
          ))}
        </span>
      </div>
      <p className="mt-1 truncate font-mono text-[12.5px] text-ink-3" title={pool.spec.model}>
        {pool.spec.kind ?? "tollway"} · {pool.spec.model}
      </p>
      <dl className="figure mt-4 grid grid-cols-2 gap-3 text-[13px] sm:grid-cols-4">
        <Fact name="Ready" value={`${ready} of ${replicas.length}`} />
        <Fact name="Running" value={load === null ? "–" : count(load.running)} />
        <Fact name="Waiting" value={load === null ? "–" : count(load.waiting)} />
        <Fact name="GPUs" value={pool.spec.gpus?.length ? plural(pool.spec.gpus.length, "GPU") : "CPU"} />
      </dl>
      {load !== null && (
        <div className="mt-3">
          <div className="mb-1 flex justify-between text-[12.5px] text-ink-2">
            <span>KV cache in use</span>
            <span className="figure">{percent(load.kv_usage)}</span>
          </div>
          <Bar share={load.kv_usage} tone={kvTone(load.kv_usage)} label="KV cache in use" />
        </div>
      )}
    </Panel>
  );
}

function Fact({ name, value }: { name: string; value: string }) {
  return (
    <div>
      <dt className="text-[12.5px] text-ink-2">{name}</dt>
      <dd className="font-medium">{value}</dd>
    </div>
  );
}

export function PoolStatus({ pool }: { pool: Pool }) {
  const replicas = present(pool.replicas);
  const ready = replicas.filter((one) => one.state === "ready");
  const rolling = ready.some((one) => one.generation !== pool.generation);
  const { tone, word } = wordOf({ stopped: pool.desired_state === "stopped", there: replicas.length, ready: ready.length, rolling });
  return <Status tone={tone}>{word}</Status>;
}
