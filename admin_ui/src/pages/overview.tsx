/** Four answers without scrolling: are promises at risk, are the pools healthy, is money normal, what changed. */
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useProjectNames } from "@/api/names";
import { useApi } from "@/api/queries";
import type { Pool, Sums, UsualDay } from "@/api/shapes";
import { cn } from "@/lib/cn";
import { compact, count, percent } from "@/lib/format";
import { usd } from "@/lib/money";
import { Bar, Freshness, Money, Status, Time } from "@/ui/bits";
import { Chart } from "@/ui/chart";
import { Figure, Page, Panel } from "@/ui/page";
import { Loaded, Skeleton } from "@/ui/states";
import { may } from "@/api/session";
import { detailsOf, titleOf, toneOf } from "./alerts/fired";
import { actionOf, actorOf } from "./audit-table";
import { PoolStatus } from "./pools/list";
import { loadOf } from "./pools/load";
import { present } from "./pools/replica-state";
import { Board } from "./slo/board";

const CHANGES = 8;

export function Overview() {
  const usual = useApi("GET /v1/organization/usage/usual", { query: { weeks: 4 } }, { everyMs: 30_000 });
  const pools = useApi("GET /v1/organization/pools", { query: { limit: 20 } }, { everyMs: 5_000 });
  return (
    <Page title="Overview" actions={<Freshness at={pools.dataUpdatedAt} failing={pools.isRefetchError} />}>
      <div className="grid gap-4 lg:grid-cols-3">
        <Question title="Is anyone’s promise at risk?" to="/alerts" className="lg:col-span-3">
          <Board few={5} />
        </Question>
        <Question title="Are the pools healthy?" to="/pools">
          <Loaded query={pools} skeleton={<Skeleton className="h-40" />}>
            {(found) => <PoolLines pools={found.data} />}
          </Loaded>
        </Question>
        <Question title="Is money normal?" to="/usage">
          <Loaded query={usual} skeleton={<Skeleton className="h-40" />}>
            {(day) => <Today day={day} />}
          </Loaded>
        </Question>
        <Question title="What changed?" to="/audit">
          <Changes />
        </Question>
      </div>
    </Page>
  );
}

export function Question({ title, to, children, className }: { title: string; to: "/usage" | "/pools" | "/audit" | "/alerts"; children: ReactNode; className?: string }) {
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
function Changes() {
  const names = useProjectNames();
  const alerts = useApi("GET /v1/organization/alerts", { query: { limit: CHANGES } }, { everyMs: 10_000 });
  const audit = useApi("GET /v1/organization/audit_logs", { query: { limit: CHANGES } }, { everyMs: 30_000, enabled: may("GET /v1/organization/audit_logs") });
  const lines = [
    ...(alerts.data?.data ?? []).map((one) => ({
      id: one.id,
      at: one.created_at,
      what: <Status tone={toneOf(one.type)}>{titleOf(one.type)}</Status>,
      whose: one.project_id === null ? "" : (names.get(one.project_id) ?? one.project_id),
      title: detailsOf(one.data),
    })),
    ...(audit.data?.data ?? []).map((one) => ({ id: one.id, at: one.effective_at, what: actionOf(one.action), whose: one.project?.name ?? "", title: `by ${actorOf(one)}` })),
  ];
  const shown = lines.toSorted((a, b) => b.at - a.at).slice(0, CHANGES);
  return (
    <Loaded query={{ data: alerts.data && (audit.data || !may("GET /v1/organization/audit_logs")) ? shown : undefined, error: alerts.error ?? audit.error, refetch: audit.refetch }} skeleton={<Skeleton className="h-40" />}>
      {() =>
        shown.length === 0 ? (
          <p className="text-ink-2">Nothing yet.</p>
        ) : (
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
        )
      }
    </Loaded>
  );
}

function Usually({ total, of, show }: { total: Sums | null; of: keyof Sums; show: (value: number) => string }) {
  return <>{total === null ? "no week to compare yet" : `usually ${show(total[of])}`}</>;
}

function PoolLines({ pools }: { pools: Pool[] }) {
  if (pools.length === 0) return <p className="text-ink-2">There is none yet.</p>;
  return (
    <ul className="divide-y">
      {pools.map((pool) => {
        const replicas = present(pool.replicas);
        const load = loadOf(replicas);
        return (
          <li key={pool.id} className="py-2">
            <div className="flex flex-wrap items-center gap-2">
              <Link to="/pools/$poolId" params={{ poolId: pool.id }} className="font-medium hover:underline">
                {pool.name}
              </Link>
              <PoolStatus pool={pool} />
              <span className="figure ml-auto text-[13px] text-ink-2">
                {replicas.filter((one) => one.state === "ready").length}/{replicas.length} ready
                {load !== null && ` · ${count(load.running)} running · ${count(load.waiting)} waiting`}
              </span>
            </div>
            {load !== null && (
              <div className="mt-1.5 flex items-center gap-2 text-[12.5px] text-ink-2">
                <Bar share={load.kv_usage} tone={load.kv_usage > 0.95 ? "bad" : "busy"} label="KV cache in use" />
                <span className="figure whitespace-nowrap">KV {percent(load.kv_usage, 0)}</span>
              </div>
            )}
          </li>
        );
      })}
    </ul>
  );
}
