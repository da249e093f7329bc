import { describe, expect, it } from "vitest";
import { spansOf } from "./timeline";

const widths = (queue: number | null, first: number | null, whole: number | null) => spansOf({ queue_ms: queue, ttft_ms: first, e2e_ms: whole, stream: true }).map((span) => [span.name, span.ms]);

describe("a request's time", () => {
  it("is queued, prefill and decode, which add up to the whole", () => {
    expect(widths(10, 50, 300)).toEqual([
      ["Queued", 10],
      ["Prefill to first token", 40],
      ["Decode to last token", 250],
    ]);
  });

  it("is not invented where nothing was measured", () => {
    expect(widths(null, null, null)).toEqual([]);
    expect(widths(null, null, 80)).toEqual([["Work", 80]]);
  });

  it("never runs backwards", () => {
    expect(widths(90, 60, 80).reduce((sum, [, ms]) => sum + Number(ms), 0)).toBe(80);
  });
});
