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
});
