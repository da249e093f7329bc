/** Four answers without scrolling: are promises at risk, are the pools healthy, is money normal, what changed. */
import { Link, Navigate } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useProjectNames } from "@/api/names";
import { useApi } from "@/api/queries";
import type { Overview as OverviewNow, PoolNow } from "@/api/schema";
import type { Sums, UsualDay } from "@/api/shapes";
import { cn } from "@/lib/cn";
import { compact, count, percent, words } from "@/lib/format";
import { usd } from "@/lib/money";
import { Bar, Freshness, Money, Status, Time } from "@/ui/bits";
import { Chart } from "@/ui/chart";
import { Figure, Page, Panel } from "@/ui/page";
import { Loaded, Skeleton } from "@/ui/states";
import { ownProjects } from "@/api/session";
import { detailsOf, titleOf, toneOf } from "./alerts/fired";
import { actionOf } from "./audit-table";
import { kvTone, wordOf } from "./pools/load";
import { Board } from "./slo/board";

const CHANGES = 8;

/** Who belongs to one tenant and to nothing else begins there. */
export function Overview() {
  const own = ownProjects();
  if (own === null) return <OfTheInstallation />;
  const [only, ...others] = own;
  if (only === undefined || others.length > 0) return <Navigate to="/tenants" replace />;
  return <Navigate to="/tenants/$tenantId" params={{ tenantId: only.id }} replace />;
}

function OfTheInstallation() {
  const usual = useApi("GET /v1/organization/usage/usual", { query: { weeks: 4 } }, { everyMs: 30_000 });
  const now = useApi("GET /v1/organization/overview", {}, { everyMs: 5_000 });
  return (
    <Page title="Overview" actions={<Freshness at={now.dataUpdatedAt} failing={now.isRefetchError} />}>
      <div className="grid gap-4 lg:grid-cols-3">
        <Question title="Is anyone’s promise at risk?" to="/alerts" className="lg:col-span-3">
          <Board few={5} />
        </Question>
        <Question title="Are the pools healthy?" to="/pools">
          <Loaded query={now} skeleton={<Skeleton className="h-40" />}>
            {({ pools }) => <PoolLines pools={pools ?? []} />}
          </Loaded>
        </Question>
        <Question title="Is money normal?" to="/usage">
          <Loaded query={usual} skeleton={<Skeleton className="h-40" />}>
            {(day) => <Today day={day} />}
          </Loaded>
        </Question>
        <Question title="What changed?" to="/audit">
          <Loaded query={now} skeleton={<Skeleton className="h-40" />}>
            {(found) => <Changes found={found} />}
          </Loaded>
        </Question>
      </div>
    </Page>
  );
}

function Question({ title, to, children, className }: { title: string; to: "/usage" | "/pools" | "/audit" | "/alerts"; children: ReactNode; className?: string }) {
  return (
    <section aria-label={title} className={cn("min-w-0", className)}>
      <Panel className="h-full">
        <h2 className="mb-3 text-[15px] font-semibold">
          <Link to={to} className="hover:text-accent-ink hover:underline">
            {title}
          </Link>
        </h2>
        {children}
      </Panel>
    </section>
  );
}

function Today({ day }: { day: UsualDay }) {
  const { total } = day;
  return (
    <>
      <div className="mb-4 grid grid-cols-2 gap-4">
        <Figure label="Cost today" note={<Usually total={total.usual} of="amount_nanousd" show={usd} />}>
          <Money nano={total.amount_nanousd} />
        </Figure>
        <Figure label="Requests today" note={<Usually total={total.usual} of="num_model_requests" show={compact} />}>
          {compact(total.num_model_requests)}
        </Figure>
      </div>
      <Chart
        label="Cost per hour"
        bare
        height={130}
        times={day.data.map((hour) => hour.start_time)}
        series={[
          { label: "Today", colour: "var(--accent)", values: day.data.map((hour) => hour.amount_nanousd) },
          ...(day.weeks > 0 ? [{ label: "Usually", colour: "var(--ink-3)", dashed: true, values: day.data.map((hour) => hour.usual?.amount_nanousd ?? null) }] : []),
        ]}
        format={usd}
      />
    </>
  );
}

/** What fired and what somebody did, together, newest first. */
function Changes({ found }: { found: OverviewNow }) {
  const names = useProjectNames();
  const whose = (id: string | null) => (id === null ? "" : (names.get(id) ?? id));
  const lines = [
    ...(found.alerts ?? []).map((one) => ({ id: one.id, at: one.occurred_at, what: <Status tone={toneOf(one.type)}>{titleOf(one.type)}</Status>, whose: whose(one.project_id), title: detailsOf(one.payload) })),
    ...(found.changes ?? []).map((one) => ({ id: `${one.resource_id} ${one.action} ${one.occurred_at}`, at: one.occurred_at, what: actionOf(one.action), whose: whose(one.project_id), title: `by ${one.actor_email ?? words(one.actor_kind).toLowerCase()}` })),
  ];
  const shown = lines.toSorted((a, b) => b.at - a.at).slice(0, CHANGES);
  if (shown.length === 0) return <p className="text-ink-2">Nothing yet.</p>;
  return (
    <ol className="divide-y text-[13.5px]">
      {shown.map((line) => (
        <li key={line.id} title={line.title} className="flex items-baseline gap-3 py-1.5">
          <span className="min-w-0 flex-1 truncate">
            {line.what} <span className="text-ink-2">{line.whose}</span>
          </span>
          <span className="text-[12.5px] text-ink-3">
            <Time at={line.at} short />
          </span>
        </li>
      ))}
    </ol>
  );
}

function Usually({ total, of, show }: { total: Sums | null; of: keyof Sums; show: (value: number) => string }) {
  return <>{total === null ? "no week to compare yet" : `usually ${show(total[of])}`}</>;
}

function PoolLines({ pools }: { pools: PoolNow[] }) {
  if (pools.length === 0) return <p className="text-ink-2">There is none yet.</p>;
  return (
    <ul className="divide-y">
      {pools.map((pool) => {
        const kv = pool.replicas.flatMap((one) => (one.kv_usage === null ? [] : [one.kv_usage]));
        const fullest = kv.length === 0 ? null : Math.max(...kv);
        return (
          <li key={pool.id} className="py-2">
            <div className="flex flex-wrap items-center gap-2">
              <Link to="/pools/$poolId" params={{ poolId: pool.id }} className="font-medium hover:underline">
                {pool.name}
              </Link>
              <PoolHealth pool={pool} />
              <span className="figure ml-auto text-[13px] text-ink-2">
                {pool.ready}/{pool.replicas.length} ready
              </span>
            </div>
            {sumOf(pool, "running") === null ? (
              <p className="mt-1 text-[12.5px] text-ink-3">Its replicas have said nothing yet.</p>
            ) : (
              <p className="figure mt-1 flex flex-wrap gap-x-3 text-[12.5px] text-ink-2">
                <span>{count(sumOf(pool, "running"))} running</span>
                <span>{count(sumOf(pool, "waiting"))} waiting</span>
                <span>{compact(sumOf(pool, "tokens_per_second"))} tokens/s</span>
              </p>
            )}
            {fullest !== null && (
              <div className="mt-1.5 flex items-center gap-2 text-[12.5px] text-ink-2">
                <Bar share={fullest} tone={kvTone(fullest)} label="KV cache in use" />
                <span className="figure whitespace-nowrap">KV {percent(fullest, 0)}</span>
              </div>
            )}
          </li>
        );
      })}
    </ul>
  );
}

/** Null when no replica has said. */
function sumOf(pool: PoolNow, field: "running" | "waiting" | "tokens_per_second"): number | null {
  const known = pool.replicas.flatMap((one) => (one[field] === null ? [] : [one[field]]));
  return known.length === 0 ? null : known.reduce((sum, one) => sum + one, 0);
}

function PoolHealth({ pool }: { pool: PoolNow }) {
  const { tone, word } = wordOf({ stopped: pool.desired_state === "stopped", there: pool.replicas.length, ready: pool.ready, rolling: pool.is_rolling });
  return <Status tone={tone}>{word}</Status>;
}
