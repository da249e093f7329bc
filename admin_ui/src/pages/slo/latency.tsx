/** How fast answers come, minute by minute or hour by hour: never an average of percentiles, and gaps stay gaps. */
import { useMemo } from "react";
import { useWhole } from "@/api/queries";
import type { Percentiles, SloBucket } from "@/api/schema";
import { useRange, useSetRange } from "@/app/time-range";
import { count, ms } from "@/lib/format";
import type { Range } from "@/lib/range";
import { nowUnix } from "@/lib/time";
import type { Series } from "@/ui/chart";
import { Chart } from "@/ui/chart";
import { Section } from "@/ui/page";
import { Loaded, Skeleton } from "@/ui/states";

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
  const range = useRange();
  const setRange = useSetRange();
  const { width, limit, start, end } = useMemo(() => bucketsOf(range, nowUnix()), [range]);
  const query = useWhole(
    "GET /v1/organization/slo/series",
    {
      query: {
        start_time: start,
        end_time: end,
        bucket_width: width,
        limit,
        latencies: ["ttft", "tpot"],
        ...(tenant ? { project_ids: [tenant] } : {}),
      },
    },
    { everyMs: 60_000 },
  );
  return (
    <Section title="Latency" lead={`Of interactive requests ${range.during}, as their callers saw it.${start > range.start ? ` Only its last ${count(DAYS_MAX)} days are drawn.` : ""}`}>
      <Loaded query={query} skeleton={<Skeleton className="h-56" />}>
        {(data) => (
          <div className="grid gap-4 lg:grid-cols-2">
            <Percentile label="Time to first token" buckets={data} of="ttft" objectives={objectives} onRange={(from, to) => setRange("custom", from, to)} />
            <Percentile label="Time per output token" buckets={data} of="tpot" objectives={objectives} onRange={(from, to) => setRange("custom", from, to)} />
          </div>
        )}
      </Loaded>
    </Section>
  );
}

interface PercentileProps {
  label: string;
  buckets: SloBucket[];
  of: "ttft" | "tpot";
  objectives: NonNullable<Props["objectives"]>;
  onRange: (from: number, to: number) => void;
}

function Percentile({ label, buckets, of, objectives, onRange }: PercentileProps) {
  const drawn = useMemo(() => drawnOf(buckets, of, objectives), [buckets, of, objectives]);
  return <Chart label={label} times={drawn.times} series={drawn.series} format={ms} height={200} onRange={onRange} />;
}

export function drawnOf(buckets: SloBucket[], of: "ttft" | "tpot", objectives: NonNullable<Props["objectives"]>): { times: number[]; series: Series[] } {
  const lines = LINES.map(([field, label, colour]): Series => ({ label, colour, values: buckets.map((bucket) => valueOf(bucket[of], field)) }));
  const limits = [...new Set(objectives.flatMap((one) => (one.sli === of && one.threshold_ms !== null ? [one.threshold_ms] : [])))];
  const promised = limits.map((limit): Series => ({ label: `objective ${ms(limit)}`, colour: "var(--warn)", dashed: true, values: buckets.map(() => limit) }));
  return { times: buckets.map((bucket) => bucket.start_time), series: [...lines, ...promised] };
}

const valueOf = (found: Percentiles, field: (typeof LINES)[number][0]): number | null => (found.count === 0 ? null : found[field]);

const HOUR = 3600;
const DAY = 86_400;

/** Of a chart: more would be less than a pixel each. */
export const DAYS_MAX = 1_000;
/** Of the API, by width. */
const ON_A_PAGE = { "1m": 240, "1h": 168, "1d": 100 } as const;

/** Fine enough to see a bad hour, and none that lies ahead. `limit` is of a page; longer ranges have more of them. */
export function bucketsOf({ start: since, end: until, width: wanted }: Range, now: number): { width: "1m" | "1h" | "1d"; limit: number; start: number; end: number } {
  const seconds = wanted === DAY && until - since <= 7 * DAY ? HOUR : wanted;
  const width = seconds === 60 ? "1m" : seconds === HOUR ? "1h" : "1d";
  const end = Math.min(until, now - (now % seconds) + seconds);
  const start = Math.max(since, end - DAYS_MAX * DAY);
  return { width, limit: Math.min(ON_A_PAGE[width], Math.max(1, Math.ceil((end - start) / seconds))), start, end };
}
