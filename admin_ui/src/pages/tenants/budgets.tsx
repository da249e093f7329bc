/** What the tenant may spend, and how far it is: bars to read, a form to change them. */
import { useState } from "react";
import { closing } from "@/ui/toast";
import { useChange, useList } from "@/api/queries";
import type { Budget } from "@/api/shapes";
import { words } from "@/lib/format";
import { exactUsd, parseUsd, plainUsd, usd } from "@/lib/money";
import type { Tone } from "@/ui/bits";
import { Bar, Money, Status, Time } from "@/ui/bits";
import { AddButton, Button } from "@/ui/button";
import { Confirm, Dialog, DialogForm } from "@/ui/dialog";
import { Check, Field, Input, Select } from "@/ui/field";
import { Panel, Section } from "@/ui/page";
import { Empty } from "@/ui/states";
import { Paged } from "@/ui/table";
import type { TabProps } from "./one";

const LIST = "GET /v1/organization/budgets";

export function BudgetBars({ tenant, editable }: TabProps & { editable?: boolean }) {
  const { query, rows } = useList(LIST, { query: { project_id: tenant.id, limit: 50 } });
  const [doing, setDoing] = useState<{ what: "create" } | { what: "edit" | "delete"; budget: Budget } | null>(null);
  const close = () => setDoing(null);
  const add = editable && (
    <AddButton needs="POST /v1/organization/budgets" onClick={() => setDoing({ what: "create" })}>New budget</AddButton>
  );
  return (
    <Section title="Budgets" lead={editable ? "A hard budget refuses requests once it is spent; a soft one only tells." : undefined} actions={rows.length > 0 && add}>
      <Paged
        query={query}
        count={rows.length}
        skeletonRows={2}
        empty={
          <Empty title="No budget" action={add}>
            Without one the tenant may spend without end{editable ? "" : "; its Limits & budgets tab sets one"}.
          </Empty>
        }
      >
        <div className="grid gap-3 lg:grid-cols-2">
          {rows.map((budget) => (
            <BudgetCard
              key={budget.id}
              budget={budget}
              actions={
                editable && (
                  <div className="flex gap-1">
                    {budget.period !== "prepaid" && (
                      <Button size="small" look="quiet" needs="POST /v1/organization/budgets/{budget_id}" onClick={() => setDoing({ what: "edit", budget })}>
                        Change
                      </Button>
                    )}
                    <Button size="small" look="quiet" needs="DELETE /v1/organization/budgets/{budget_id}" className="text-bad" onClick={() => setDoing({ what: "delete", budget })}>
                      Delete
                    </Button>
                  </div>
                )
              }
            />
          ))}
        </div>
      </Paged>
      <Dialog open={doing?.what === "create" || doing?.what === "edit"} onClose={close} title={doing?.what === "edit" ? "Change budget" : "New budget"}>
        {doing !== null && doing.what !== "delete" && <BudgetForm tenant={tenant} budget={doing.what === "edit" ? doing.budget : null} onClose={close} />}
      </Dialog>
      {doing?.what === "delete" && <DeleteBudget budget={doing.budget} onClose={close} />}
    </Section>
  );
}

function BudgetCard({ budget, actions }: { budget: Budget; actions: React.ReactNode }) {
  const { spent_nanousd: spent, held_nanousd: held, is_exhausted: exhausted, ends_at: ends } = budget.current_period;
  const share = budget.limit_nanousd === 0 ? 1 : (spent + held) / budget.limit_nanousd;
  const tone: Tone = exhausted || share >= 1 ? "bad" : share >= 0.8 ? "warn" : "busy";
  return (
    <Panel>
      <div className="mb-3 flex min-h-7 flex-wrap items-center gap-2">
        <span className="font-medium">{words(budget.period)}</span>
        <span className="text-[13px] text-ink-2">
          {budget.is_hard ? "hard" : "soft"}
          {budget.key_id !== null && ", one key"}
        </span>
        {exhausted && <Status tone="bad">Exhausted</Status>}
        <div className="ml-auto">{actions}</div>
      </div>
      <Bar share={share} tone={tone} label={`Share of the ${budget.period} budget that is spent or held`} />
      <div className="figure mt-2 flex flex-wrap justify-between gap-x-4 text-[13px] text-ink-2">
        <span>
          <Money nano={spent} className="font-medium text-ink" /> of <Money nano={budget.limit_nanousd} />
          {held > 0 && <> · {usd(held)} held</>}
        </span>
        <span>{ends === null ? "no end" : <>until <Time at={ends} short /></>}</span>
      </div>
    </Panel>
  );
}

function BudgetForm({ tenant, budget, onClose }: TabProps & { budget: Budget | null; onClose: () => void }) {
  const [limit, setLimit] = useState(budget === null ? "" : plainUsd(budget.limit_nanousd));
  const [period, setPeriod] = useState<Budget["period"]>(budget?.period ?? "monthly");
  const [zone, setZone] = useState(budget?.zone ?? "UTC");
  const [hard, setHard] = useState(budget?.is_hard ?? true);
  const create = useChange("POST /v1/organization/budgets", [LIST]);
  const update = useChange("POST /v1/organization/budgets/{budget_id}", [LIST]);
  const amount = parseUsd(limit);
  const done = closing(onClose, "Budget saved");

  function submit() {
    if (amount === null) return;
    if (budget === null) create.mutate({ body: { project_id: tenant.id, period, zone, limit_nanousd: amount, is_hard: hard } }, done);
    else update.mutate({ path: { budget_id: budget.id }, body: { limit_nanousd: amount, is_hard: hard } }, done);
  }

  return (
    <DialogForm changes={[create, update]} action="Save budget" disabled={amount === null} onSubmit={submit} onClose={onClose}>
      <div className="grid grid-cols-2 gap-4">
        <Field label="Limit, US dollars" error={limit !== "" && amount === null ? "Not an amount." : null}>
          <Input inputMode="decimal" value={limit} onChange={(event) => setLimit(event.target.value)} required autoFocus placeholder="50.00" />
        </Field>
        <Field label="Per">
          <Select value={period} disabled={budget !== null} onChange={(event) => setPeriod(event.target.value as Budget["period"])}>
            <option value="daily">Day</option>
            <option value="weekly">Week</option>
            <option value="monthly">Month</option>
            <option value="prepaid">Prepaid, no period</option>
          </Select>
        </Field>
      </div>
      <Field label="Time zone" hint="Of the period’s beginning and end.">
        <Input value={zone} disabled={budget !== null} onChange={(event) => setZone(event.target.value)} list="zones" required />
      </Field>
      <datalist id="zones">
        {["UTC", "Europe/Berlin", "Europe/London", "America/New_York", "America/Los_Angeles", "Asia/Tokyo"].map((one) => (
          <option key={one}>{one}</option>
        ))}
      </datalist>
      <Check label="Hard" hint="Refuse requests that would pass it. Without this it only tells." checked={hard} onChange={(event) => setHard(event.target.checked)} />
      {budget !== null && hard && amount !== null && amount <= budget.current_period.spent_nanousd && (
        <p className="rounded-md bg-warn-soft px-3 py-2 text-[13px]">
          {exactUsd(budget.current_period.spent_nanousd)} is spent in this period already: every request is refused from now on until it ends.
        </p>
      )}
    </DialogForm>
  );
}

function DeleteBudget({ budget, onClose }: { budget: Budget; onClose: () => void }) {
  const remove = useChange("DELETE /v1/organization/budgets/{budget_id}", [LIST]);
  return (
    <Confirm
      open
      onClose={onClose}
      title={`Delete the ${budget.period} budget?`}
      action="Delete budget"
      change={remove}
      onConfirm={() => remove.mutate({ path: { budget_id: budget.id } }, { onSuccess: onClose })}
    >
      <p>
        Nothing will hold the tenant at {usd(budget.limit_nanousd)} any more. {usd(budget.current_period.spent_nanousd)} is spent in this period. Its alerts go with it.
      </p>
    </Confirm>
  );
}
