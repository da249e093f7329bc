/** Four answers without scrolling: are promises at risk, are the pools healthy, is money normal, what changed. */
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useProjectNames } from "@/api/names";
import { useApi } from "@/api/queries";
import type { AlertRecord } from "@/api/schema";
import type { Pool, Sums, UsualDay } from "@/api/shapes";
import { compact, count, percent } from "@/lib/format";
import { usd } from "@/lib/money";
import { Bar, Freshness, Money, Status, Time } from "@/ui/bits";
import { Chart } from "@/ui/chart";
import { Figure, Page, Panel } from "@/ui/page";
import { Loaded, Skeleton } from "@/ui/states";
import { detailsOf, titleOf, toneOf } from "./alerts/fired";
import { actionOf, actorOf } from "./audit-table";
import { PoolStatus } from "./pools/list";
import { loadOf } from "./pools/load";
import { present } from "./pools/replica-state";
import { Board } from "./slo/board";

export function Overview() {
  const usual = useApi("GET /v1/organization/usage/usual", { query: { weeks: 4 } }, { everyMs: 30_000 });
  const pools = useApi("GET /v1/organization/pools", { query: { limit: 20 } }, { everyMs: 5_000 });
  const alerts = useApi("GET /v1/organization/alerts", { query: { limit: 6 } }, { everyMs: 10_000 });
  const audit = useApi("GET /v1/organization/audit_logs", { query: { limit: 6 } }, { everyMs: 30_000 });
  return (
    <Page title="Overview" actions={<Freshness at={pools.dataUpdatedAt} failing={pools.isRefetchError} />}>
      <div className="grid gap-4 lg:grid-cols-2">
        <Question title="Is anyone’s promise at risk?" to="/alerts" className="lg:col-span-2">
          <Board few={5} />
        </Question>
        <Question title="Is money normal?" to="/usage">
          <Loaded query={usual} skeleton={<Skeleton className="h-40" />}>
            {(day) => <Today day={day} />}
          </Loaded>
        </Question>
        <Question title="Are the pools healthy?" to="/pools">
          <Loaded query={pools} skeleton={<Skeleton className="h-40" />}>
            {(found) => <PoolLines pools={found.data} />}
          </Loaded>
        </Question>
        <Question title="What fired?" to="/alerts">
          <Loaded query={alerts} skeleton={<Skeleton className="h-40" />}>
            {(found) => <FiredLines alerts={found.data} />}
          </Loaded>
        </Question>
        <Question title="What changed?" to="/audit">
          <Loaded query={audit} skeleton={<Skeleton className="h-40" />}>
            {(found) => (
              <ol className="divide-y text-[13.5px]">
                {found.data.map((line) => (
                  <li key={line.id} className="flex flex-wrap items-baseline justify-between gap-x-4 py-1.5">
                    <span className="min-w-0">
                      {actionOf(line.action)} <span className="text-ink-2">by {actorOf(line)}</span>
                      {line.project !== null && <span className="text-ink-2">, {line.project.name ?? line.project.id}</span>}
                    </span>
                    <span className="text-[12.5px] text-ink-3">
                      <Time at={line.effective_at} short />
                    </span>
                  </li>
                ))}
                {found.data.length === 0 && <li className="py-2 text-ink-2">Nothing yet.</li>}
              </ol>
            )}
          </Loaded>
        </Question>
      </div>
    </Page>
  );
}

export function Question({ title, to, children, className }: { title: string; to: "/usage" | "/pools" | "/audit" | "/alerts"; children: ReactNode; className?: string }) {
  return (
    <section aria-label={title} className={className}>
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
      <div className="mb-3 grid grid-cols-3 gap-4">
        <Figure label="Cost today" note={<Usually total={total.usual} of="amount_nanousd" show={usd} />}>
          <Money nano={total.amount_nanousd} />
        </Figure>
        <Figure label="Requests today" note={<Usually total={total.usual} of="num_model_requests" show={compact} />}>
          {compact(total.num_model_requests)}
        </Figure>
        <Figure label="Output tokens" note={<Usually total={total.usual} of="output_tokens" show={compact} />}>
          {compact(total.output_tokens)}
        </Figure>
      </div>
      <Chart
        label="Cost per hour, today and usually"
        height={150}
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

function FiredLines({ alerts }: { alerts: AlertRecord[] }) {
  const names = useProjectNames();
  if (alerts.length === 0) return <p className="text-ink-2">Nothing has fired.</p>;
  return (
    <ol className="divide-y text-[13.5px]">
      {alerts.map((alert) => (
        <li key={alert.id} className="flex flex-wrap items-baseline gap-x-3 py-1.5">
          <Status tone={toneOf(alert.type)}>{titleOf(alert.type)}</Status>
          <span className="min-w-0 flex-1 truncate text-ink-2" title={detailsOf(alert.data)}>
            {alert.project_id !== null && (names.get(alert.project_id) ?? alert.project_id)}
          </span>
          <span className="text-[12.5px] text-ink-3">
            <Time at={alert.created_at} short />
          </span>
        </li>
      ))}
    </ol>
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
