import { describe, expect, it } from "vitest";
import { detailsOf, titleOf, toneOf } from "./fired";

describe("what fired", () => {
  it("is named in words", () => {
    expect(titleOf("slo.burn_rate.firing")).toBe("SLO burn rate firing");
    expect(titleOf("pool.kv_high")).toBe("Pool KV high");
    expect([toneOf("replica.down"), toneOf("replica.recovered"), toneOf("pool.queue_high")]).toEqual(["bad", "good", "warn"]);
  });

  it("tells amounts exactly and no ids", () => {
    expect(detailsOf({ budget_id: "budget_1", spent_nanousd: 1_500_000_000, threshold_percent: 80, period: null })).toBe("spent $1.50 · threshold percent 80");
  });

  it("prefers the sentence, and writes shares as percent", () => {
    expect(detailsOf({ summary: "Nothing is left", scope: "*/m", fired_at: 1_796_023_297 })).toBe("Nothing is left");
    expect(detailsOf({ sli: "ttft", target: 0.999, budget_left: -21.2, fired_at: 1_796_023_297 })).toBe("promise ttft · target 99.9 % · error budget left 0 %");
  });
});
