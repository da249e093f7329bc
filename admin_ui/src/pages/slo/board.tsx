/** Every promise, worst first: how much may still go wrong, how fast that is used up, how fast answers come. */
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useProjectNames } from "@/api/names";
import { useList } from "@/api/queries";
import type { SloLine } from "@/api/schema";
import { ms, percent } from "@/lib/format";
import type { Tone } from "@/ui/bits";
import { Bar, Status } from "@/ui/bits";
import { Sparkline } from "@/ui/sparkline";
import { Empty } from "@/ui/states";
import type { Column } from "@/ui/table";
import { PagedTable, Table } from "@/ui/table";

const LIVE_MS = 10_000;

/** A page is woken at 14.4 and 6 times the budget's pace; 1 uses it up exactly at the window's end. */
export function riskOf(line: Pick<SloLine, "budget_left" | "burn_1h">): { tone: Tone; word: string } {
  const { budget_left: left, burn_1h: burn } = line;
  if (left === null && burn === null) return { tone: "plain", word: "No requests" };
  if (left !== null && left <= 0) return { tone: "bad", word: "Broken" };
  if (burn !== null && burn >= 6) return { tone: "bad", word: "At risk" };
  if ((burn !== null && burn >= 1) || (left !== null && left < 0.25)) return { tone: "warn", word: "Watch" };
  return { tone: "good", word: "Kept" };
}

export function Burn({ value }: { value: number | null }) {
  if (value === null) return <span className="text-ink-3">–</span>;
  return <span className={value >= 6 ? "font-semibold text-bad" : value >= 1 ? "font-medium text-warn" : undefined}>{value.toFixed(value < 10 ? 1 : 0)}×</span>;
}

/** The same lines for whoever on a page asks for them. */
export function useBoard(tenant?: string, few = 50) {
  return useList("GET /v1/organization/slo/board", { query: { limit: few, ...(tenant ? { project_ids: [tenant] } : {}) } }, { everyMs: LIVE_MS });
}

interface Props {
  tenant?: string;
  /** Only the worst few, without paging. */
  few?: number;
}

export function Board({ tenant, few }: Props) {
  const names = useProjectNames(tenant === undefined);
  const { query, rows } = useBoard(tenant, few);
  const columns: Column<SloLine>[] = [
    ...(tenant === undefined ? [{ head: "Tenant", main: true, cell: (row: SloLine) => <Whose line={row} names={names} /> }] : []),
    { head: "Model", main: tenant !== undefined, cell: (row) => row.model ?? "All models" },
    { head: "Promise", cell: (row) => <Risk line={row} /> },
    {
      head: "Budget left",
      cell: (row) =>
        row.budget_left === null ? (
          "–"
        ) : (
          <span className="inline-flex w-32 items-center gap-2 align-middle">
            <Bar share={row.budget_left} tone={riskOf(row).tone} label="Error budget left" />
            <span className="figure w-12 shrink-0 text-right">{percent(Math.max(0, row.budget_left), 0)}</span>
          </span>
        ),
    },
    { head: "Burn, 1 h", right: true, cell: (row) => <Shaped values={row.trend?.burn} of="Burn"><Burn value={row.burn_1h} /></Shaped> },
    { head: "TTFT p95", right: true, cell: (row) => <Shaped values={row.trend?.ttft_p95_ms} of="TTFT p95">{ms(row.ttft_p95_ms)}</Shaped> },
    { head: "TPOT p95", right: true, cell: (row) => <Shaped values={row.trend?.tpot_p95_ms} of="TPOT p95">{ms(row.tpot_p95_ms)}</Shaped> },
    { head: "Tokens/s", right: true, cell: (row) => <Shaped values={row.trend?.tokens_per_s} of="Tokens/s">{row.tokens_per_s.toFixed(row.tokens_per_s < 10 ? 1 : 0)}</Shaped> },
  ];
  const table = { label: "Promises, worst first", rows, columns, rowKey: (row: SloLine) => row.id };
  const empty = <Empty title="No objectives yet" small={few !== undefined}>An objective says which share of requests is answered, or answered in time. Its board shows what is left of the rest.</Empty>;
  if (few !== undefined && rows.length > 0) return <Table {...table} rows={rows.slice(0, few)} />;
  return <PagedTable {...table} query={query} empty={empty} />;
}

/** A figure with the shape of its last hour. */
function Shaped({ values, of, children }: { values: (number | null)[] | undefined; of: string; children: ReactNode }) {
  return (
    <span className="inline-flex items-center justify-end gap-2 align-middle">
      {values !== undefined && isShape(values) && <Sparkline values={values} label={`${of} in the last hour`} className="h-5 w-14 shrink-0" />}
      <span className="min-w-12">{children}</span>
    </span>
  );
}

/** Two points at least, and not all of them nothing. */
const isShape = (values: (number | null)[]): boolean => values.filter((value) => value !== null).length > 1 && values.some((value) => value !== null && value > 0);

function Whose({ line, names }: { line: SloLine; names: Map<string, string> }) {
  if (line.project_id === null) return <>{line.scope === "all_projects" ? "All tenants together" : "–"}</>;
  return (
    <Link to="/tenants/$tenantId" params={{ tenantId: line.project_id }} search={{ tab: "slo" }} className="hover:text-accent-ink hover:underline">
      {names.get(line.project_id) ?? line.project_id}
    </Link>
  );
}

function Risk({ line }: { line: SloLine }) {
  const { tone, word } = riskOf(line);
  return <Status tone={tone}>{word}</Status>;
}
