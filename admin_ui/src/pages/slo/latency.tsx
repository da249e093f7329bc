/** How fast answers come, minute by minute or hour by hour: never an average of percentiles, and gaps stay gaps. */
import { useMemo, useState } from "react";
import { useApi } from "@/api/queries";
import type { Percentiles, SloBucket } from "@/api/schema";
import { ms } from "@/lib/format";
import { nowUnix } from "@/lib/time";
import type { Series } from "@/ui/chart";
import { Chart } from "@/ui/chart";
import { Options, Select } from "@/ui/field";
import { Section } from "@/ui/page";
import { Loaded, Skeleton } from "@/ui/states";

const RANGES = [
  ["1h", "Last hour", 3600, "1m", 60],
  ["24h", "Last 24 hours", 86_400, "1h", 24],
  ["7d", "Last 7 days", 604_800, "1h", 168],
] as const;
/** One hue, three strengths, told from the ground in both themes. */
const LINES = [
  ["p50_ms", "p50", "var(--p50)"],
  ["p95_ms", "p95", "var(--p95)"],
  ["p99_ms", "p99", "var(--p99)"],
] as const;

interface Props {
  tenant?: string | undefined;
  /** What is promised, drawn as a dashed line. */
  objectives?: { sli: string; threshold_ms: number | null }[];
}

export function Latency({ tenant, objectives = [] }: Props) {
  const [chosen, setChosen] = useState<string>("24h");
  const [, , seconds, width, limit] = RANGES.find(([id]) => id === chosen) ?? RANGES[1];
  const end = useMemo(() => Math.ceil(nowUnix() / 60) * 60, []);
  const query = useApi(
    "GET /v1/organization/slo/series",
    {
      query: {
        start_time: end - seconds,
        end_time: end,
        bucket_width: width,
        limit,
        latencies: ["ttft", "tpot"],
        ...(tenant ? { project_ids: [tenant] } : {}),
      },
    },
    { everyMs: 60_000 },
  );
  const select = (
    <Select aria-label="Range" className="w-auto" value={chosen} onChange={(event) => setChosen(event.target.value)}>
      <Options of={RANGES} />
    </Select>
  );
  return (
    <Section title="Latency" lead="Of interactive requests, as their callers saw it." actions={select}>
      <Loaded query={query} skeleton={<Skeleton className="h-56" />}>
        {({ data }) => (
          <div className="grid gap-4 lg:grid-cols-2">
            <Percentile label="Time to first token" buckets={data} of="ttft" objectives={objectives} />
            <Percentile label="Time per output token" buckets={data} of="tpot" objectives={objectives} />
          </div>
        )}
      </Loaded>
    </Section>
  );
}

function Percentile({ label, buckets, of, objectives }: { label: string; buckets: SloBucket[]; of: "ttft" | "tpot"; objectives: NonNullable<Props["objectives"]> }) {
  const drawn = useMemo(() => drawnOf(buckets, of, objectives), [buckets, of, objectives]);
  return <Chart label={label} times={drawn.times} series={drawn.series} format={ms} height={200} />;
}

export function drawnOf(buckets: SloBucket[], of: "ttft" | "tpot", objectives: NonNullable<Props["objectives"]>): { times: number[]; series: Series[] } {
  const lines = LINES.map(([field, label, colour]): Series => ({ label, colour, values: buckets.map((bucket) => valueOf(bucket[of], field)) }));
  const limits = [...new Set(objectives.flatMap((one) => (one.sli === of && one.threshold_ms !== null ? [one.threshold_ms] : [])))];
  const promised = limits.map((limit): Series => ({ label: `objective ${ms(limit)}`, colour: "var(--warn)", dashed: true, values: buckets.map(() => limit) }));
  return { times: buckets.map((bucket) => bucket.start_time), series: [...lines, ...promised] };
}

const valueOf = (found: Percentiles, field: (typeof LINES)[number][0]): number | null => (found.count === 0 ? null : found[field]);
