/** Blue and green: what leads to one pool is led to another, at once, if that one is ready for it. */
import type { UseMutationResult } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import type { ApiError, Ask } from "@/api/client";
import { useApi, useChange, useWhole } from "@/api/queries";
import type { Pool, Route } from "@/api/shapes";
import { plural } from "@/lib/format";
import { Tag } from "@/ui/bits";
import { Button } from "@/ui/button";
import { Dialog, DialogForm } from "@/ui/dialog";
import { Field, Options, Select } from "@/ui/field";
import { Empty, Loaded, SkeletonRows } from "@/ui/states";
import { loadOf } from "./load";

const SWITCH = "POST /v1/organization/pools/{pool_id}/switch";
const ROUTES = "GET /v1/organization/routes";
const POOLS = "GET /v1/organization/pools";
const ONE = "GET /v1/organization/pools/{pool_id}";

export function SwitchTraffic({ pool, onClose }: { pool: Pool; onClose: () => void }) {
  const all = useWhole(ROUTES, { query: { limit: 100 } });
  const routes = all.data?.filter((one) => one.pool_id === pool.id);
  const pools = useApi(POOLS, { query: { limit: 100 } });
  const [to, setTo] = useState<string | null>(null);
  // Here, since what it leaves behind is a pool to which nothing leads.
  const change = useChange(SWITCH, [ROUTES, POOLS, ONE]);
  const others = (pools.data?.data ?? []).filter((one) => one.id !== pool.id);
  return (
    <Dialog open onClose={onClose} title={`Switch what leads to ${pool.name}`} description="All requests for the names go to another pool from the next one on; both pools run, so the way back is the same." wide>
      <Loaded query={pools} skeleton={<SkeletonRows rows={2} />}>
        {() =>
          change.data ? (
            <Switched routes={change.data.data} to={others.find((one) => one.id === to)} onClose={onClose} />
          ) : others.length === 0 ? (
            <Empty title="There is no other pool" small>Make one, and wait until it is ready.</Empty>
          ) : routes === undefined ? (
            <Loaded query={all} skeleton={<SkeletonRows rows={2} />}>{() => null}</Loaded>
          ) : routes.length === 0 ? (
            <Empty title="No name leads here" small>A route leads a name to a pool; see Models & prices.</Empty>
          ) : (
            <SwitchForm {...{ pool, others, routes, to, setTo, change, onClose }} />
          )
        }
      </Loaded>
    </Dialog>
  );
}

interface FormProps {
  pool: Pool;
  others: Pool[];
  routes: Route[];
  /** Null until one is chosen. */
  to: string | null;
  setTo: (to: string) => void;
  change: UseMutationResult<unknown, ApiError, Ask<typeof SWITCH>>;
  onClose: () => void;
}

function SwitchForm({ pool, others, routes, to, setTo, change, onClose }: FormProps) {
  const [name, setName] = useState("");
  const names = [...new Set(routes.map((one) => one.served_model))].toSorted();
  const target = others.find((one) => one.id === to) ?? others.find((one) => readinessOf(one).isReady) ?? others[0];
  const moved = routes.filter((one) => name === "" || one.served_model === name);
  function submit() {
    if (target === undefined) return;
    setTo(target.id);
    change.mutate({ path: { pool_id: pool.id }, body: { to_pool_id: target.id, ...(name ? { served_model: name } : {}) } });
  }
  return (
    <DialogForm changes={[change]} action={`Switch to ${target?.name ?? "it"}`} disabled={target === undefined || moved.length === 0} onSubmit={submit} onClose={onClose}>
      <div className="grid gap-4 sm:grid-cols-2">
        <Field label="To pool">
          <Select value={target?.id} onChange={(event) => setTo(event.target.value)} autoFocus>
            <Options of={others.map((one) => [one.id, one.name])} />
          </Select>
        </Field>
        <Field label="Which names">
          <Select value={name} onChange={(event) => setName(event.target.value)}>
            <option value="">{names.length === 1 ? names[0] : `All ${names.length}`}</option>
            {names.length > 1 && <Options of={names.map((one) => [one, one])} />}
          </Select>
        </Field>
      </div>
      {target !== undefined && <Consequences pool={pool} target={target} moved={moved} />}
    </DialogForm>
  );
}

function Consequences({ pool, target, moved }: { pool: Pool; target: Pool; moved: Route[] }) {
  const load = loadOf(pool.replicas);
  const flying = load === null ? null : load.running + load.waiting;
  const readiness = readinessOf(target);
  return (
    <ul className="list-disc space-y-1 rounded-md bg-sunken px-3 py-2 pl-7 text-[13px] text-ink-2">
      <li>
        {plural(moved.length, "route")} will lead to {target.name}: {[...new Set(moved.map((one) => one.served_model))].join(", ")}. Prices and permissions stay.
      </li>
      <li>{flying === null ? "What is under way" : `${plural(flying, "request")} under way`} will end on {pool.name}; the next ones go to {target.name} within a second.</li>
      <li className={readiness.isReady ? undefined : "font-medium text-bad"}>{readiness.text}</li>
      {target.spec.model !== pool.spec.model && (
        <li>
          It runs another model: <span className="font-mono text-[12.5px] break-all">{target.spec.model}</span> in place of <span className="font-mono text-[12.5px] break-all">{pool.spec.model}</span>.
        </li>
      )}
    </ul>
  );
}

/** As the API will judge it: as many ready replicas of the newest generation as are wanted at least. */
function readinessOf(pool: Pool): { isReady: boolean; text: string } {
  const ready = pool.replicas.filter((one) => one.state === "ready" && one.generation === pool.generation).length;
  const wanted = Math.max(pool.spec.kind === "external" ? (pool.spec.urls?.length ?? 0) : (pool.spec.min_replicas ?? 1), 1);
  if (pool.desired_state === "stopped") return { isReady: false, text: `${pool.name} is stopped, so this will be refused: start it first.` };
  if (ready < wanted) return { isReady: false, text: `${pool.name} has ${ready} of ${plural(wanted, "replica")} ready, so this will be refused.` };
  return { isReady: true, text: `${pool.name} is ready: ${plural(ready, "replica")} of its newest generation.` };
}

function Switched({ routes, to, onClose }: { routes: Route[]; to: Pool | undefined; onClose: () => void }) {
  return (
    <div className="space-y-4">
      <p role="status">
        {plural(routes.length, "route leads", "routes lead")} to{" "}
        {to && (
          <Link to="/pools/$poolId" params={{ poolId: to.id }} className="font-medium text-accent-ink hover:underline">
            {to.name}
          </Link>
        )}{" "}
        now. The way back is the same, from there.
      </p>
      <p className="flex flex-wrap gap-1">
        {[...new Set(routes.map((one) => one.served_model))].map((name) => (
          <Tag key={name}>{name}</Tag>
        ))}
      </p>
      <div className="flex justify-end">
        <Button onClick={onClose}>Done</Button>
      </div>
    </div>
  );
}
