/** Who or what made up a range of time: a chart of the largest, a table of all, beside the range before. */
import { useNavigate } from "@tanstack/react-router";
import { Download } from "lucide-react";
import { useMemo, useState } from "react";
import { usePoolNames, useProjectNames, useProjects, useServedNames } from "@/api/names";
import { ownProjects } from "@/api/session";
import { useRange, useSetRange } from "@/app/time-range";
import type { Breakdown, BreakdownRow } from "@/api/shapes";
import { change, compact, count, percent, words } from "@/lib/format";
import { usd } from "@/lib/money";
import { Bar, Money } from "@/ui/bits";
import { Button } from "@/ui/button";
import { Chart } from "@/ui/chart";
import { Check, Options, Select } from "@/ui/field";
import { Figure, Panel } from "@/ui/page";
import { Empty, Loaded, Skeleton } from "@/ui/states";
import type { Column } from "@/ui/table";
import { Table } from "@/ui/table";
import type { Group, Measure, Narrowed } from "./data";
import { csvOf, FIELD, useBreakdown, useBuckets, useSeries } from "./data";

type Search = Record<string, string | undefined>;
const GROUPS: [Group, string][] = [
  ["project_id", "Tenant"],
  ["model", "Model"],
  ["api_key_id", "Key"],
  ["pool_id", "Pool"],
  ["endpoint", "Endpoint"],
  ["class", "Class"],
  ["status", "Status"],
];
const MEASURES: [Measure, string][] = [
  ["cost", "Cost"],
  ["requests", "Requests"],
  ["input_tokens", "Input tokens"],
  ["output_tokens", "Output tokens"],
];

/** `fixed` is the tenant whose page this stands on. */
export function Explorer({ search, fixed }: { search: Search; fixed?: string }) {
  const navigate = useNavigate();
  const set = (next: Search) => void navigate({ to: ".", search: (known: Search) => ({ ...known, ...next }), replace: true });
  const groups = GROUPS.filter(([id]) => !(id === "project_id" && fixed) && !(id === "pool_id" && ownProjects() !== null));
  const group = (groups.find(([id]) => id === search["group"]) ?? groups[0]!)[0];
  const measure = (MEASURES.find(([id]) => id === search["measure"]) ?? MEASURES[0]!)[0];
  const range = useRange();
  const setRange = useSetRange();
  const compare = search["compare"] !== "no";
  const narrowed: Narrowed = { tenant: fixed ?? search["tenant"], model: search["model"] };
  const names = useNames(group);
  const breakdown = useBreakdown(range, group, measure, narrowed, compare);
  const buckets = useBuckets(range, group, measure, narrowed);
  const drawn = useSeries(buckets.query.data, buckets.by, measure, names);
  const format = measure === "cost" ? usd : compact;
  const title = MEASURES.find(([id]) => id === measure)?.[1] ?? "";
  return (
    <>
      <Toolbar {...{ search, set, groups, group, measure, compare }} fixed={fixed !== undefined} csv={breakdown.data ? () => save(breakdown.data, group, names) : null} />
      <Loaded query={breakdown} skeleton={<Skeleton className="h-20" />}>
        {({ total }) => (
          <Panel className="mb-4 grid grid-cols-2 gap-5 lg:grid-cols-4">
            {MEASURES.map(([id, label]) => (
              <Figure key={id} label={label} note={compare && <Beside now={total[FIELD[id]]} then={total.compared?.[FIELD[id]]} />}>
                {id === "cost" ? <Money nano={total.amount_nanousd} /> : <span title={count(total[FIELD[id]])}>{compact(total[FIELD[id]])}</span>}
              </Figure>
            ))}
          </Panel>
        )}
      </Loaded>
      <Loaded query={buckets.query} skeleton={<Skeleton className="mb-4 h-60" />}>
        {() =>
          drawn !== null && drawn.times.length > 1 ? (
            <div className="mb-4">
              <Chart
                label={`${title} per ${measure === "cost" || range.width === 86_400 ? "day, UTC" : range.width === 3600 ? "hour" : "minute"}`}
                kind="bars"
                times={drawn.times}
                series={drawn.series}
                format={format}
                onRange={(first, last) => setRange("custom", first, last)}
              />
            </div>
          ) : null
        }
      </Loaded>
      <Loaded query={breakdown}>
        {(found) =>
          found.data.length === 0 ? (
            <Empty title={`Nothing ${range.during}`}>No request was settled in it, as far as the filters go.</Empty>
          ) : (
            <Table label={`By ${words(group)}`} rows={found.data} rowKey={(row) => String(row[group])} columns={columns(group, groups.find(([id]) => id === group)?.[1] ?? "", measure, found, names, compare)} />
          )
        }
      </Loaded>
    </>
  );
}

interface ToolbarProps {
  search: Search;
  set: (next: Search) => void;
  groups: [Group, string][];
  group: Group;
  measure: Measure;
  compare: boolean;
  fixed: boolean;
  csv: (() => void) | null;
}

function Toolbar({ search, set, groups, group, measure, compare, fixed, csv }: ToolbarProps) {
  const [looking, setLooking] = useState(false);
  const projects = useProjects(!fixed && (looking || search["tenant"] !== undefined));
  const models = useServedNames(undefined, looking);
  return (
    <div className="mb-4 flex flex-wrap items-center gap-2" onFocus={() => setLooking(true)} onPointerEnter={() => setLooking(true)}>
      <Select aria-label="Measure" className="w-auto" value={measure} onChange={(event) => set({ measure: event.target.value })}>
        <Options of={MEASURES} />
      </Select>
      <Select aria-label="Group by" className="w-auto" value={group} onChange={(event) => set({ group: event.target.value })}>
        <Options of={groups.map(([id, label]) => [id, `By ${label.toLowerCase()}`])} />
      </Select>
      {!fixed && (
        <Select aria-label="Tenant" className="w-auto" value={search["tenant"] ?? ""} onChange={(event) => set({ tenant: event.target.value || undefined })}>
          <option value="">Any tenant</option>
          <Options of={projects.map((one) => [one.id, one.name])} />
        </Select>
      )}
      <Select aria-label="Model" className="w-auto" value={search["model"] ?? ""} onChange={(event) => set({ model: event.target.value || undefined })}>
        <option value="">Any model</option>
        <Options of={[...new Set([...models, ...(search["model"] ? [search["model"]] : [])])].map((name) => [name, name])} />
      </Select>
      <Check label="Beside the range before" className="ml-1" checked={compare} onChange={(event) => set({ compare: event.target.checked ? undefined : "no" })} />
      <Button className="ml-auto" onClick={csv ?? undefined} disabled={csv === null}>
        <Download />
        CSV
      </Button>
    </div>
  );
}

function Beside({ now, then }: { now: number; then: number | undefined }) {
  if (then === undefined) return null;
  const share = change(now, then);
  if (share === null) return <>none before</>;
  return <>{share === 0 ? "as before" : `${percent(Math.abs(share), 0)} ${share > 0 ? "more" : "less"} than before`}</>;
}

function columns(group: Group, head: string, measure: Measure, found: Breakdown, names: Map<string, string>, compare: boolean): Column<BreakdownRow>[] {
  const field = FIELD[measure];
  const share = (row: BreakdownRow) => (found.total[field] === 0 ? 0 : row[field] / found.total[field]);
  return [
    { head, main: true, cell: (row) => named(row[group], names) },
    {
      head: "Share",
      cell: (row) => (
        <span className="inline-flex w-28 items-center gap-2">
          <Bar share={share(row)} label="Share of the whole" />
          <span className="w-12 shrink-0 text-right">{percent(share(row), 0)}</span>
        </span>
      ),
    },
    { head: "Requests", right: true, cell: (row) => count(row.num_model_requests) },
    { head: "Input tokens", right: true, cell: (row) => count(row.input_tokens) },
    { head: "Cached", right: true, cell: (row) => (row.input_tokens === 0 ? "–" : percent(row.input_cached_tokens / row.input_tokens, 0)) },
    { head: "Output tokens", right: true, cell: (row) => count(row.output_tokens) },
    { head: "Cost", right: true, cell: (row) => <Money nano={row.amount_nanousd} /> },
    ...(compare ? [{ head: "Before", right: true, cell: (row: BreakdownRow) => (measure === "cost" ? <Money nano={row.compared?.amount_nanousd} /> : count(row.compared?.[field])) }] : []),
  ];
}

function named(id: unknown, names: Map<string, string>) {
  if (id === null || id === undefined) return <span className="text-ink-3">none</span>;
  return names.get(String(id)) ?? String(id);
}

/** Of what the table is about: keys and models are their own names. */
function useNames(group: Group): Map<string, string> {
  const projects = useProjectNames(group === "project_id");
  const pools = usePoolNames(group === "pool_id");
  return useMemo(() => new Map([...projects, ...pools]), [projects, pools]);
}

function save(found: Breakdown, group: Group, names: Map<string, string>): void {
  saveFile(new Blob([csvOf(found, group, names)], { type: "text/csv" }), `usage-by-${group}-${new Date(found.start_time * 1000).toISOString().slice(0, 10)}.csv`);
}

export function saveFile(content: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
