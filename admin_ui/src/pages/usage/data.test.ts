import { describe, expect, it } from "vitest";
import type { Breakdown } from "@/api/shapes";
import { csvOf, seriesOf } from "./data";

const bucket = (start: number, amounts: Record<string, number>) => ({ start_time: start, results: Object.entries(amounts).map(([project_id, amount_nanousd]) => ({ project_id, amount_nanousd })) });

describe("series", () => {
  it("has the largest groups and sums up the rest", () => {
    const amounts = Object.fromEntries(Array.from({ length: 9 }, (_, index) => [`p${index}`, 10 - index]));
    const { times, series } = seriesOf([bucket(0, amounts), bucket(60, { p0: 5 })], "project_id", "cost", new Map([["p0", "acme"]]));
    expect(times).toEqual([0, 60]);
    expect(series).toHaveLength(7);
    expect(series[0]).toMatchObject({ label: "acme", values: [10, 5] });
    expect(series.at(-1)).toMatchObject({ label: "3 others", values: [4 + 3 + 2, 0] });
  });
});

describe("csv", () => {
  it("keeps figures exact and formulas dead", () => {
    const sums = { num_model_requests: 1, input_tokens: 2, input_cached_tokens: 0, output_tokens: 3, amount_nanousd: 9_007_199_254_740_991, compared: null };
    const found = { data: [{ ...sums, project_id: "p1" }] } as unknown as Breakdown;
    const text = csvOf(found, "project_id", new Map([["p1", '=HYPERLINK("x"), y']]));
    expect(text.split("\r\n")[1]).toBe(`p1,"'=HYPERLINK(""x""), y",1,2,0,3,9007199254740991,`);
  });
});
