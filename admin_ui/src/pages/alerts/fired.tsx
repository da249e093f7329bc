/** What fired, newest first. */
import { useProjectNames } from "@/api/names";
import { useList } from "@/api/queries";
import type { AlertRecord } from "@/api/schema";
import { percent, words } from "@/lib/format";
import { exactUsd } from "@/lib/money";
import type { Tone } from "@/ui/bits";
import { Status, Time } from "@/ui/bits";
import { Section } from "@/ui/page";
import { Empty } from "@/ui/states";
import type { Column } from "@/ui/table";
import { PagedTable } from "@/ui/table";

const LIVE_MS = 10_000;

export function Fired() {
  const names = useProjectNames();
  const { query, rows } = useList("GET /v1/organization/alerts", { query: { limit: 50 } }, { everyMs: LIVE_MS });
  const columns: Column<AlertRecord>[] = [
    { head: "Time", main: true, cell: (row) => <Time at={row.created_at} short /> },
    { head: "What", cell: (row) => <Status tone={toneOf(row.type)}>{titleOf(row.type)}</Status> },
    { head: "Tenant", cell: (row) => <span className="whitespace-nowrap">{row.project_id === null ? "The installation" : (names.get(row.project_id) ?? row.project_id)}</span> },
    { head: "Details", wide: true, cell: (row) => <span className="text-[13px] text-ink-2">{detailsOf(row.data)}</span> },
  ];
  return (
    <Section title="What fired">
      <PagedTable label="Alerts" query={query} rows={rows} columns={columns} rowKey={(row) => row.id} empty={<Empty title="Nothing has fired">Budgets that are reached, promises at risk and replicas that are down stand here.</Empty>} />
    </Section>
  );
}

/** `slo.burn_rate.firing` → `SLO burn rate firing`. */
export const titleOf = (type: string): string => words(type).replace(/^Slo /, "SLO ").replace(" kv ", " KV ");

export function toneOf(type: string): Tone {
  if (/resolved|recovered|finished/.test(type)) return "good";
  if (/firing|exhausted|down|failed|drift/.test(type)) return "bad";
  return "warn";
}

/** The API's sentence, where it has one; else each figure by its name. Ids and what is empty are left out. */
export function detailsOf(data: Record<string, unknown>): string {
  if (typeof data["summary"] === "string") return data["summary"];
  return Object.entries(data)
    .filter(([name, value]) => value !== null && typeof value !== "object" && !/(^|_)(id|at)$/.test(name))
    .map(([name, value]) => `${NAMES[name] ?? words(name.replace(/_nanousd$/, "")).toLowerCase()} ${figureOf(name, value)}`)
    .join(" · ");
}

const NAMES: Record<string, string> = { sli: "promise", budget_left: "error budget left" };

/** Amounts as amounts, shares as percent. */
function figureOf(name: string, value: unknown): string {
  if (name.endsWith("_nanousd")) return exactUsd(Number(value));
  if (name === "target") return `${Number((Number(value) * 100).toFixed(4))} %`;
  if (name === "budget_left") return percent(Math.max(0, Number(value)), 0);
  if (typeof value === "boolean") return value ? "yes" : "no";
  return String(value);
}
