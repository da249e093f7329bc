/** What is promised: to whom, about which model, how often and how fast. */
import { useState } from "react";
import { closing } from "@/ui/toast";
import { useActiveProjects, useProjectNames, useServedNames } from "@/api/names";
import { useChange, useList } from "@/api/queries";
import type { Objective } from "@/api/schema";
import { ms, words } from "@/lib/format";
import { Status } from "@/ui/bits";
import { AddButton } from "@/ui/button";
import { Confirm, Dialog, DialogForm } from "@/ui/dialog";
import { Field, Input, Options, Select } from "@/ui/field";
import { Section } from "@/ui/page";
import { Empty } from "@/ui/states";
import type { Column } from "@/ui/table";
import { changeOrDelete, PagedTable } from "@/ui/table";

const LIST = "GET /v1/organization/objectives";
const BOARD = "GET /v1/organization/slo/board";
const KINDS = [
  ["availability", "Availability", "is answered"],
  ["ttft", "First token (TTFT)", "has its first token within"],
  ["tpot", "Per token (TPOT)", "has each token within"],
] as const;
type Doing = { what: "set"; objective: Objective | null } | { what: "delete"; objective: Objective } | null;

export function Objectives() {
  const [doing, setDoing] = useState<Doing>(null);
  const names = useProjectNames();
  const { query, rows } = useList(LIST, { query: { limit: 50 } });
  const columns: Column<Objective>[] = [
    { head: "Promise", main: true, cell: sentence },
    { head: "To", cell: (row) => (row.project_id === null ? "All tenants" : (names.get(row.project_id) ?? row.project_id)) },
    { head: "About", cell: (row) => row.model ?? "All models" },
    { head: "Class", cell: (row) => words(row.class) },
    { head: "Window", right: true, cell: (row) => `${row.window_days} days` },
    { head: "State", cell: (row) => (row.is_counted ? <Status tone="good">Counted</Status> : <Status tone="busy">Counting its past</Status>) },
    changeOrDelete("DELETE /v1/organization/objectives/{objective_id}", (row) => setDoing({ what: "set", objective: row }), (row) => setDoing({ what: "delete", objective: row })),
  ];
  const add = (
    <AddButton needs="POST /v1/organization/objectives" onClick={() => setDoing({ what: "set", objective: null })}>New objective</AddButton>
  );
  return (
    <Section title="Objectives" lead="Refusals for a quota are no failures; refusals for want of capacity and errors are." actions={rows.length > 0 && add}>
      <PagedTable label="Objectives" query={query} rows={rows} columns={columns} rowKey={(row) => row.id} empty={<Empty title="Nothing is promised" action={add}>An objective is a share of requests that has to go well, over 30 days.</Empty>} />
      <Dialog open={doing?.what === "set"} onClose={() => setDoing(null)} title={doing?.objective ? "Change objective" : "New objective"}>
        {doing?.what === "set" && <ObjectiveForm objective={doing.objective} onClose={() => setDoing(null)} />}
      </Dialog>
      {doing?.what === "delete" && <DeleteObjective objective={doing.objective} onClose={() => setDoing(null)} />}
    </Section>
  );
}

export function sentence(one: Pick<Objective, "sli" | "target" | "threshold_ms">): string {
  const [, , verb] = KINDS.find(([id]) => id === one.sli) ?? KINDS[0];
  return `${shareOf(one.target)} % ${verb}${one.threshold_ms === null ? "" : ` ${ms(one.threshold_ms)}`}`;
}

/** 0.999 is "99.9"; no digits that are not there. */
export const shareOf = (target: number): string => String(Number((target * 100).toFixed(4)));

function ObjectiveForm({ objective, onClose }: { objective: Objective | null; onClose: () => void }) {
  const [sli, setSli] = useState<Objective["sli"]>(objective?.sli ?? "ttft");
  const [target, setTarget] = useState(shareOf(objective?.target ?? 0.95));
  const [threshold, setThreshold] = useState(String(objective?.threshold_ms ?? 800));
  const [tenant, setTenant] = useState(objective?.project_id ?? "");
  const [model, setModel] = useState(objective?.model ?? "");
  const [kind, setKind] = useState<Objective["class"]>(objective?.class ?? "interactive");
  const projects = useActiveProjects();
  const models = useServedNames();
  const create = useChange("POST /v1/organization/objectives", [LIST, BOARD]);
  const update = useChange("POST /v1/organization/objectives/{objective_id}", [LIST, BOARD]);
  const isNew = objective === null;

  function submit() {
    const promise = { target: Number((Number(target) / 100).toFixed(6)), threshold_ms: sli === "availability" ? null : Number(threshold) };
    const done = closing(onClose, "Objective saved");
    if (isNew) create.mutate({ body: { ...promise, sli, class: kind, project_id: tenant || null, model: model || null } }, done);
    else update.mutate({ path: { objective_id: objective.id }, body: promise }, done);
  }

  return (
    <DialogForm changes={[create, update]} action="Save objective" onSubmit={submit} onClose={onClose}>
      <div className="grid grid-cols-2 gap-4">
        <Field label="Of">
          <Select value={sli} disabled={!isNew} onChange={(event) => setSli(event.target.value as typeof sli)}>
            <Options of={KINDS} />
          </Select>
        </Field>
        <Field label="Class">
          <Select value={kind} disabled={!isNew} onChange={(event) => setKind(event.target.value as typeof kind)}>
            <option value="interactive">Interactive</option>
            <option value="batch">Batch</option>
          </Select>
        </Field>
        <Field label="Good requests, %">
          <Input inputMode="decimal" value={target} onChange={(event) => setTarget(event.target.value)} required pattern="\d{1,2}(\.\d{1,4})?" />
        </Field>
        {sli !== "availability" && (
          <Field label="Within, ms">
            <Input inputMode="decimal" value={threshold} onChange={(event) => setThreshold(event.target.value)} required />
          </Field>
        )}
        <Field label="To">
          <Select value={tenant} disabled={!isNew} onChange={(event) => setTenant(event.target.value)}>
            <option value="">All tenants</option>
            <Options of={projects.map((one) => [one.id, one.name])} />
          </Select>
        </Field>
        <Field label="About">
          <Select value={model} disabled={!isNew} onChange={(event) => setModel(event.target.value)}>
            <option value="">All models</option>
            {models.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </Select>
        </Field>
      </div>
      {!isNew && <p className="text-[13px] text-ink-2">The last 30 days are counted anew by what is promised from now on.</p>}
    </DialogForm>
  );
}

function DeleteObjective({ objective, onClose }: { objective: Objective; onClose: () => void }) {
  const remove = useChange("DELETE /v1/organization/objectives/{objective_id}", [LIST, BOARD]);
  return (
    <Confirm open onClose={onClose} title="Delete this objective?" action="Delete objective" change={remove} onConfirm={() => remove.mutate({ path: { objective_id: objective.id } }, { onSuccess: onClose })}>
      <p>“{sentence(objective)}” is promised no more. Its alerts end, and nobody is told when it would have been broken.</p>
    </Confirm>
  );
}
