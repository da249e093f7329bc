/** What a pool's replicas did in the last hour, together: how many requests, how full, how fast. */
import { useMemo } from "react";
import { useApi } from "@/api/queries";
import { compact, percent } from "@/lib/format";
import { Chart } from "@/ui/chart";
import { Section } from "@/ui/page";
import { Loaded, Skeleton } from "@/ui/states";
import { STEP_S, seriesOf } from "./load";

export function PoolCharts({ pool }: { pool: string }) {
  const query = useApi("GET /v1/organization/pools/{pool_id}/samples", { path: { pool_id: pool }, query: { step_s: STEP_S, limit: 3600 / STEP_S + 1 } }, { everyMs: 30_000 });
  const steps = query.data?.data;
  const { times, ...drawn } = useMemo(() => seriesOf(steps ?? []), [steps]);
  return (
    <Section title="The last hour" lead="All replicas together, by the minute; of the memory the fullest one’s.">
      <Loaded query={query} skeleton={<Skeleton className="h-48" />}>
        {() => (
          <div className="grid gap-4 lg:grid-cols-3">
            <Chart
              label="Requests"
              height={160}
              times={times}
              series={[
                { label: "Running", colour: "var(--accent)", values: drawn.running },
                { label: "Waiting", colour: "var(--warn)", values: drawn.waiting },
              ]}
              format={compact}
            />
            <Chart label="KV cache in use" height={160} times={times} series={[{ label: "Fullest replica", colour: "var(--accent)", values: drawn.kv }]} format={(value) => percent(value, 0)} />
            <Chart label="Tokens per second" height={160} times={times} series={[{ label: "Generated", colour: "var(--accent)", values: drawn.speed }]} format={compact} />
          </div>
        )}
      </Loaded>
    </Section>
  );
}
