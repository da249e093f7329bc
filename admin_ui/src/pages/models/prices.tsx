import { useState } from "react";
import { closing } from "@/ui/toast";
import { useChange, useList } from "@/api/queries";
import type { Price } from "@/api/shapes";
import { words } from "@/lib/format";
import { perMillion, perToken } from "@/lib/money";
import { nowUnix } from "@/lib/time";
import { Status, Tag, Time } from "@/ui/bits";
import { AddButton } from "@/ui/button";
import { Dialog, DialogForm } from "@/ui/dialog";
import { Check, Field, Input } from "@/ui/field";
import { Section } from "@/ui/page";
import { Empty } from "@/ui/states";
import type { Column } from "@/ui/table";
import { PagedTable } from "@/ui/table";

const LIST = "GET /v1/organization/prices";

export function Prices() {
  const [making, setMaking] = useState(false);
  const [history, setHistory] = useState(false);
  const [at] = useState(nowUnix);
  const { query, rows } = useList(LIST, { query: { limit: 100, ...(history ? {} : { at }) } });
  const columns: Column<Price>[] = [
    { head: "SKU", main: true, cell: (row) => <Tag>{row.sku}</Tag> },
    { head: "Of", cell: (row) => words(row.component) },
    { head: "State", cell: (row) => stateOf(row, at) },
    { head: "$ per million tokens", right: true, cell: (row) => <span title={`${row.nanousd_per_token} nano-dollars per token`}>{perMillion(row.nanousd_per_token)}</span> },
    { head: "From", cell: (row) => <Time at={row.valid_from} /> },
    { head: "Until", cell: (row) => <Time at={row.valid_until} /> },
  ];
  const add = (
    <AddButton needs="POST /v1/organization/prices" onClick={() => setMaking(true)}>New price</AddButton>
  );
  return (
    <Section
      title="Prices"
      lead="A price is never changed: a new one begins, and each request pays what is in force when it is admitted."
      actions={
        <div className="flex items-center gap-3">
          <Check label="With history" checked={history} onChange={(event) => setHistory(event.target.checked)} />
          {add}
        </div>
      }
    >
      <PagedTable label="Prices" query={query} rows={rows} columns={columns} rowKey={(row) => row.id} empty={<Empty title="No prices" action={add}>A route needs the prices of its SKU before it can be published.</Empty>} />
      <Dialog open={making} onClose={() => setMaking(false)} title="New price" description="Dollars per million tokens.">
        {making && <PriceForm onClose={() => setMaking(false)} known={rows} />}
      </Dialog>
    </Section>
  );
}

function stateOf(price: Price, now: number) {
  if (price.valid_from > now) return <Status tone="busy">Announced</Status>;
  if (price.valid_until !== null && price.valid_until <= now) return <Status tone="plain">Over</Status>;
  return <Status tone="good">In force</Status>;
}

const PARTS = [
  ["input", "Input"],
  ["cached", "Cached input"],
  ["output", "Output"],
] as const;

function PriceForm({ onClose, known }: { onClose: () => void; known: Price[] }) {
  const [sku, setSku] = useState("");
  const [prices, setPrices] = useState({ input: "", cached: "", output: "" });
  const [factor, setFactor] = useState("0.5");
  const [from, setFrom] = useState("");
  const create = useChange("POST /v1/organization/prices", [LIST]);
  const given = { input: perToken(prices.input), cached: perToken(prices.cached), output: perToken(prices.output) };
  const skus = [...new Set(known.map((one) => one.sku))];

  function submit() {
    if (given.input === null || given.cached === null || given.output === null) return;
    create.mutate(
      {
        body: {
          sku,
          input_nanousd_per_token: given.input,
          cached_input_nanousd_per_token: given.cached,
          output_nanousd_per_token: given.output,
          batch_factor: factor,
          ...(from === "" ? {} : { valid_from: new Date(from).toISOString() }),
        },
      },
      closing(onClose, `${sku} has a new price`),
    );
  }

  return (
    <DialogForm changes={[create]} action="Set price" disabled={Object.values(given).includes(null)} onSubmit={submit} onClose={onClose}>
      <Field label="SKU">
        <Input value={sku} onChange={(event) => setSku(event.target.value)} required list="skus" maxLength={200} />
      </Field>
      <datalist id="skus">
        {skus.map((one) => (
          <option key={one}>{one}</option>
        ))}
      </datalist>
      <div className="grid grid-cols-3 gap-4">
        {PARTS.map(([name, label]) => (
          <Field key={name} label={label} error={prices[name] !== "" && given[name] === null ? "Not an amount." : null}>
            <Input inputMode="decimal" value={prices[name]} onChange={(event) => setPrices({ ...prices, [name]: event.target.value })} required placeholder="0.15" />
          </Field>
        ))}
      </div>
      <div className="grid grid-cols-2 gap-4">
        <Field label="Batch pays, times" hint="Of class batch.">
          <Input inputMode="decimal" value={factor} onChange={(event) => setFactor(event.target.value)} required />
        </Field>
        <Field label="From" hint="Empty: from now on.">
          <Input type="datetime-local" value={from} onChange={(event) => setFrom(event.target.value)} />
        </Field>
      </div>
    </DialogForm>
  );
}
