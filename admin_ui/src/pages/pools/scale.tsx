/** How many replicas a pool has at least and at most: a change that replaces none. */
import { useState } from "react";
import { useChange } from "@/api/queries";
import type { Pool } from "@/api/shapes";
import { count, plural } from "@/lib/format";
import { Dialog, DialogForm } from "@/ui/dialog";
import { Field, Input } from "@/ui/field";
import { closing } from "@/ui/toast";
import { loadOf } from "./load";
import { scaledBy } from "./progress";
import { present } from "./replica-state";
import { draftOf, problemsOf } from "./spec";

const UPDATE = "PATCH /v1/organization/pools/{pool_id}";

export function Scale({ pool, onClose }: { pool: Pool; onClose: () => void }) {
  return (
    <Dialog open onClose={onClose} title={`Scale ${pool.name}`} description="No replica that stays is started anew.">
      <ScaleForm pool={pool} onClose={onClose} />
    </Dialog>
  );
}

function ScaleForm({ pool, onClose }: { pool: Pool; onClose: () => void }) {
  const [min, setMin] = useState(String(pool.spec.min_replicas ?? 1));
  const [max, setMax] = useState(String(pool.spec.max_replicas ?? 1));
  const update = useChange(UPDATE, ["GET /v1/organization/pools/{pool_id}", "GET /v1/organization/pools"]);
  const problems = problemsOf({ ...draftOf(pool.spec), min, max });
  const bad = problems.min ?? problems.max ?? problems.gpus;
  const submit = () => update.mutate({ path: { pool_id: pool.id }, body: { min_replicas: Number(min), max_replicas: Number(max) } }, closing(onClose, `${pool.name} has ${min === max ? plural(Number(min), "replica") : `${min} to ${max} replicas`} from now on`));
  return (
    <DialogForm changes={[update]} action="Scale" disabled={bad !== undefined} onSubmit={submit} onClose={onClose}>
      <div className="grid grid-cols-2 gap-4">
        <Field label="Least" error={problems.min}>
          <Input type="number" inputMode="numeric" min={0} value={min} onChange={(event) => setMin(event.target.value)} autoFocus required />
        </Field>
        <Field label="Most" error={problems.max ?? problems.gpus}>
          <Input type="number" inputMode="numeric" min={1} value={max} onChange={(event) => setMax(event.target.value)} required />
        </Field>
      </div>
      {bad === undefined && <p className="rounded-md bg-sunken px-3 py-2 text-[13px] text-ink-2">{consequenceOf(pool, Number(min), Number(max))}</p>}
    </DialogForm>
  );
}

/** What will happen to those that are there. */
function consequenceOf(pool: Pool, min: number, max: number): string {
  const there = present(pool.replicas).filter((one) => one.state !== "draining").length;
  const has = `${plural(there, "replica is", "replicas are")} there now.`;
  if (pool.desired_state === "stopped") return "The pool is stopped: this holds when it is started.";
  if (there < min) return `${has} ${count(min - there)} more will be started.`;
  const load = loadOf(pool.replicas);
  const flying = load === null ? "what it has" : `what it has (${plural(load.running + load.waiting, "request is", "requests are")} in flight in the pool)`;
  if (there > max) return `${has} ${count(there - max)} will leave, the emptiest first, each when it has finished ${flying}.`;
  if (min === max) return `${has} Nothing changes.`;
  return scaledBy({ spec: { ...pool.spec, min_replicas: min, max_replicas: max } }) === "by the queue" ? `${has} From now on the queue decides between ${min} and ${max}.` : `${has} Whoever scales the pool may go from ${min} to ${max}.`;
}
