/** How fast and how much at once: rows of limits per scope, then the budgets. */
import { useState } from "react";
import { closing } from "@/ui/toast";
import { useServedNames } from "@/api/names";
import { useApi, useChange, useList } from "@/api/queries";
import type { LimitRow } from "@/api/shapes";
import { count } from "@/lib/format";
import { AddButton } from "@/ui/button";
import { Confirm, Dialog, DialogForm } from "@/ui/dialog";
import { Field, Input, Options, Select } from "@/ui/field";
import { Section } from "@/ui/page";
import { Empty } from "@/ui/states";
import type { Column } from "@/ui/table";
import { changeOrDelete, PagedTable } from "@/ui/table";
import { BudgetBars } from "./budgets";
import type { TabProps } from "./one";

const LIST = "GET /v1/organization/projects/{project_id}/limits";
const KINDS = [
  ["requests_per_min", "Requests / min"],
  ["requests_burst", "Burst"],
  ["tokens_per_min", "Tokens / min"],
  ["requests_per_day", "Requests / day"],
  ["concurrent_requests", "At once"],
  ["max_prompt_tokens", "Max prompt"],
  ["max_output_tokens", "Max output"],
] as const;
type Kind = (typeof KINDS)[number][0];
type Doing = { what: "set"; row: LimitRow | null } | { what: "delete"; row: LimitRow } | null;

export function Limits({ tenant }: TabProps) {
  const [doing, setDoing] = useState<Doing>(null);
  const { query, rows } = useList(LIST, { path: { project_id: tenant.id }, query: { limit: 50 } });
  const keys = useApi("GET /v1/organization/projects/{project_id}/api_keys", { path: { project_id: tenant.id }, query: { limit: 100 } });
  const keyNames = new Map((keys.data?.data ?? []).map((key) => [key.id, key.name]));
  const scope = (row: LimitRow) =>
    [row.key_id === null ? null : `Key ${keyNames.get(row.key_id) ?? row.key_id}`, row.served_model].filter(Boolean).join(", ") || "The whole tenant";
  const columns: Column<LimitRow>[] = [
    { head: "Of", main: true, cell: scope },
    ...KINDS.map(([kind, head]): Column<LimitRow> => ({ head, right: true, cell: (row) => (row[kind] === null ? <span className="text-ink-3">none</span> : count(row[kind])) })),
    changeOrDelete("POST /v1/organization/projects/{project_id}/limits", (row) => setDoing({ what: "set", row }), (row) => setDoing({ what: "delete", row })),
  ];
  const add = (
    <AddButton needs="POST /v1/organization/projects/{project_id}/limits" onClick={() => setDoing({ what: "set", row: null })}>
      New limits
    </AddButton>
  );
  return (
    <>
      <Section title="Limits" lead="A request has to pass every row that concerns it. One that is refused uses up nothing." actions={rows.length > 0 && add}>
        <PagedTable
          label="Limits"
          query={query}
          rows={rows}
          columns={columns}
          rowKey={(row) => row.id}
          empty={
            <Empty title="No limits" action={add}>
              The tenant may send as much as the pools take.
            </Empty>
          }
        />
      </Section>
      <BudgetBars tenant={tenant} editable />
      <Dialog open={doing?.what === "set"} onClose={() => setDoing(null)} title={doing?.row ? `Change limits: ${scope(doing.row)}` : "New limits"} wide>
        {doing?.what === "set" && <LimitForm tenant={tenant} row={doing.row} keys={[...keyNames]} onClose={() => setDoing(null)} />}
      </Dialog>
      {doing?.what === "delete" && <DeleteLimits tenant={tenant} row={doing.row} scope={scope(doing.row)} onClose={() => setDoing(null)} />}
    </>
  );
}

interface FormProps extends TabProps {
  row: LimitRow | null;
  keys: [string, string][];
  onClose: () => void;
}

function LimitForm({ tenant, row, keys, onClose }: FormProps) {
  const [values, setValues] = useState<Record<Kind, string>>(() => Object.fromEntries(KINDS.map(([kind]) => [kind, row?.[kind]?.toString() ?? ""])) as Record<Kind, string>);
  const [key, setKey] = useState(row?.key_id ?? "");
  const [model, setModel] = useState(row?.served_model ?? "");
  const models = useServedNames(tenant.id);
  const put = useChange("POST /v1/organization/projects/{project_id}/limits", [LIST]);

  function submit() {
    const given = Object.fromEntries(KINDS.map(([kind]) => [kind, values[kind] === "" ? null : Number(values[kind])]));
    put.mutate({ path: { project_id: tenant.id }, body: { ...given, key_id: key || null, served_model: model || null } }, closing(onClose, "Limits saved"));
  }

  return (
    <DialogForm changes={[put]} action="Save limits" onSubmit={submit} onClose={onClose}>
      <div className="grid gap-4 sm:grid-cols-2">
        <Field label="Key">
          <Select value={key} disabled={row !== null} onChange={(event) => setKey(event.target.value)}>
            <option value="">All keys together</option>
            <Options of={keys} />
          </Select>
        </Field>
        <Field label="Model">
          <Select value={model} disabled={row !== null} onChange={(event) => setModel(event.target.value)}>
            <option value="">All models together</option>
            {[...new Set([...models, ...(model ? [model] : [])])].map((one) => (
              <option key={one}>{one}</option>
            ))}
          </Select>
        </Field>
      </div>
      <fieldset className="grid grid-cols-2 gap-4 sm:grid-cols-4">
        <legend className="mb-1 text-[13px] text-ink-2">Empty is no limit; 0 lets nothing through.</legend>
        {KINDS.map(([kind, label]) => (
          <Field key={kind} label={label}>
            <Input type="number" min={0} value={values[kind]} onChange={(event) => setValues({ ...values, [kind]: event.target.value })} placeholder="none" />
          </Field>
        ))}
      </fieldset>
    </DialogForm>
  );
}

function DeleteLimits({ tenant, row, scope, onClose }: TabProps & { row: LimitRow; scope: string; onClose: () => void }) {
  const remove = useChange("DELETE /v1/organization/projects/{project_id}/limits/{limit_id}", [LIST]);
  return (
    <Confirm
      open
      onClose={onClose}
      title={`Delete the limits of ${scope.charAt(0).toLowerCase()}${scope.slice(1)}?`}
      action="Delete limits"
      change={remove}
      onConfirm={() => remove.mutate({ path: { project_id: tenant.id, limit_id: row.id } }, { onSuccess: onClose })}
    >
      <p>Other rows still hold. Where there is none, nothing is limited any more, within two seconds.</p>
    </Confirm>
  );
}
