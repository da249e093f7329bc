/** The columns of a list of requests: a ledger's line each. */
import { Link } from "@tanstack/react-router";
import type { RequestLine } from "@/api/shapes";
import { count, ms, words } from "@/lib/format";
import type { Tone } from "@/ui/bits";
import { Money, Status, Time } from "@/ui/bits";
import type { Column } from "@/ui/table";

const TONES: Record<string, Tone> = { ok: "good", partial: "warn", cancelled: "plain", error: "bad", unknown: "warn" };

export function RequestStatus({ status, code }: { status: string; code: string | null }) {
  return (
    <Status tone={TONES[status] ?? "plain"}>
      {status === "ok" ? "OK" : words(status)}
      {code !== null && <span className="font-normal">{words(code).toLowerCase()}</span>}
    </Status>
  );
}

/** Without names the column is left out: the list is of one tenant, or the caller sees no pools. */
export function requestColumns(tenants: Map<string, string> | null, pools: Map<string, string> | null): Column<RequestLine>[] {
  return [
    {
      head: "Time",
      main: true,
      cell: (row) => (
        <Link to="/requests/$requestId" params={{ requestId: row.id }} className="font-normal hover:text-accent-ink hover:underline">
          <Time at={row.occurred_at} short />
        </Link>
      ),
    },
    ...(tenants === null ? [] : [{ head: "Tenant", cell: (row: RequestLine) => tenants.get(row.project_id) ?? row.project_id }]),
    { head: "Model", cell: (row) => row.model },
    ...(pools === null ? [] : [{ head: "Pool", cell: (row: RequestLine) => (row.pool_id ? (pools.get(row.pool_id) ?? row.pool_id) : "–") }]),
    { head: "Status", cell: (row) => <RequestStatus status={row.status} code={row.error_code} /> },
    { head: "In", right: true, cell: (row) => count(row.input_tokens) },
    { head: "Cached", right: true, cell: (row) => count(row.input_cached_tokens) },
    { head: "Out", right: true, cell: (row) => count(row.output_tokens) },
    { head: "Cost", right: true, cell: (row) => <Money nano={row.net_amount_nanousd} /> },
    { head: "TTFT", right: true, cell: (row) => ms(row.ttft_ms) },
    { head: "TPOT", right: true, cell: (row) => ms(row.tpot_us === null ? null : row.tpot_us / 1000) },
    { head: "Total", right: true, cell: (row) => ms(row.e2e_ms) },
  ];
}
