/** What the explorer draws: one series per group over buckets, from costs (money, by day) or usage (tokens, requests). */
import { useMemo } from "react";
import { useApi, useWhole } from "@/api/queries";
import type { Breakdown } from "@/api/shapes";
import type { Series } from "@/ui/chart";
import { coloursOf, REST_COLOUR } from "@/ui/colours";
import type { Range } from "@/lib/range";

export type Measure = "cost" | "requests" | "input_tokens" | "output_tokens";
export type Group = "project_id" | "model" | "api_key_id" | "pool_id" | "endpoint" | "class" | "status";
export const FIELD = { cost: "amount_nanousd", requests: "num_model_requests", input_tokens: "input_tokens", output_tokens: "output_tokens" } as const;

export interface Narrowed {
  tenant?: string | undefined;
  model?: string | undefined;
}

const SHOWN = 6;

export function useBreakdown(range: Range, group: Group, measure: Measure, narrowed: Narrowed, compare: boolean) {
  return useApi("GET /v1/organization/usage/breakdown", {
    query: {
      start_time: range.start,
      end_time: range.end,
      group_by: group,
      order_by: measure,
      limit: 50,
      ...(narrowed.tenant ? { project_ids: [narrowed.tenant] } : {}),
      ...(narrowed.model ? { models: [narrowed.model] } : {}),
      ...(compare ? { compare_start_time: range.start - (range.end - range.start), compare_end_time: range.start } : {}),
    },
  });
}

type Result = Record<string, string | number | null>;
interface Bucket {
  start_time: number;
  results: Result[];
}

/** Buckets by the group, where the API can bucket by it (tenant, model, key); else one series of the whole. A long range has
several pages of them. */
export function useBuckets(range: Range, group: Group, measure: Measure, narrowed: Narrowed) {
  const buckets = Math.ceil((range.end - range.start) / range.width);
  const by = measure === "cost" ? (group === "project_id" || group === "api_key_id" ? group : null) : group === "project_id" || group === "model" || group === "api_key_id" ? group : null;
  const common = { start_time: range.start, end_time: range.end, ...(narrowed.tenant ? { project_ids: [narrowed.tenant] } : {}) };
  const asCost = measure === "cost";
  const costs = useWhole("GET /v1/organization/costs", { query: { ...common, limit: Math.min(180, buckets), ...(by ? { group_by: [by] } : {}) } as never }, { enabled: asCost });
  const usage = useWhole(
    "GET /v1/organization/usage/completions",
    {
      query: {
        ...common,
        bucket_width: range.width === 60 ? "1m" : range.width === 3600 ? "1h" : "1d",
        limit: Math.min(range.width === 60 ? 1440 : range.width === 3600 ? 168 : 31, buckets),
        ...(by ? { group_by: [by] } : {}),
        ...(narrowed.model ? { models: [narrowed.model] } : {}),
      } as never,
    },
    { enabled: !asCost },
  );
  const { data, error, refetch } = asCost ? costs : usage;
  return { query: { data: data as Bucket[] | undefined, error, refetch }, by };
}

export function seriesOf(found: Bucket[], by: string | null, measure: Measure, names: Map<string, string>): { times: number[]; series: Series[] } {
  const field = FIELD[measure];
  const sums = new Map<string, number>();
  for (const bucket of found) for (const result of bucket.results) sums.set(groupOf(result, by), (sums.get(groupOf(result, by)) ?? 0) + Number(result[field] ?? 0));
  const ranked = [...sums].toSorted((a, b) => b[1] - a[1]).map(([name]) => name);
  const shown = ranked.slice(0, SHOWN);
  const rest = ranked.slice(SHOWN);
  const colours = coloursOf(shown);
  const values = (wanted: string[]) => found.map((bucket) => bucket.results.filter((result) => wanted.includes(groupOf(result, by))).reduce((sum, result) => sum + Number(result[field] ?? 0), 0));
  const series = shown.map((name): Series => ({ label: names.get(name) ?? (name || "All"), values: values([name]), colour: colours.get(name) ?? REST_COLOUR }));
  if (rest.length > 0) series.push({ label: `${rest.length} others`, values: values(rest), colour: REST_COLOUR });
  return { times: found.map((bucket) => bucket.start_time), series };
}

const groupOf = (result: Result, by: string | null): string => (by === null ? "" : String(result[by] ?? "none"));

export function useSeries(found: Bucket[] | undefined, by: string | null, measure: Measure, names: Map<string, string>) {
  return useMemo(() => (found === undefined ? null : seriesOf(found, by, measure, names)), [found, by, measure, names]);
}

/** The table as a file that a spreadsheet opens: exact figures, one line per group. */
export function csvOf(found: Breakdown, group: Group, names: Map<string, string>): string {
  const head = [group, "name", "requests", "input_tokens", "input_cached_tokens", "output_tokens", "amount_nanousd", "compared_amount_nanousd"];
  const lines = found.data.map((row) => {
    const id = String(row[group] ?? "");
    return [id, names.get(id) ?? "", row.num_model_requests, row.input_tokens, row.input_cached_tokens, row.output_tokens, row.amount_nanousd, row.compared?.amount_nanousd ?? ""];
  });
  return [head, ...lines].map((line) => line.map(quoted).join(",")).join("\r\n");
}

/** A cell that begins like a formula is kept from being one. */
function quoted(value: string | number): string {
  const text = typeof value === "string" && /^[=+\-@\t]/.test(value) ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
