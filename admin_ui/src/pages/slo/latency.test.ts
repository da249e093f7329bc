import { describe, expect, it } from "vitest";
import { rangeOf, RANGES } from "@/lib/range";
import { bucketsOf, DAYS_MAX } from "./latency";

const NOW = Date.UTC(2026, 2, 31, 13, 37, 21) / 1000;
const SECONDS = { "1m": 60, "1h": 3600, "1d": 86_400 };

describe("buckets of a latency chart", () => {
  it.each(RANGES)("%s is covered by one page", (name) => {
    const range = rangeOf(name, undefined, undefined, NOW);
    const { width, limit, end } = bucketsOf(range, NOW);
    expect(limit * SECONDS[width]).toBeGreaterThanOrEqual(end - range.start);
    expect(end).toBeLessThanOrEqual(NOW + SECONDS[width]);
    expect(end).toBeGreaterThanOrEqual(Math.min(NOW, range.end));
  });

  it("of a long range are all asked for, page after page", () => {
    const day = 86_400;
    const today = NOW - (NOW % day);
    const long = rangeOf("custom", String(today - 250 * day), String(today), NOW);
    expect(bucketsOf(long, NOW)).toEqual({ width: "1d", limit: 100, start: today - 250 * day, end: today });
    const endless = bucketsOf(rangeOf("custom", "1", String(today), NOW), NOW);
    expect((endless.end - endless.start) / day).toBe(DAYS_MAX);
  });

  it("shows a week by the hour", () => {
    expect(bucketsOf(rangeOf("last-month", undefined, undefined, NOW), NOW).width).toBe("1d");
    expect(bucketsOf(rangeOf("7d", undefined, undefined, NOW), NOW)).toMatchObject({ width: "1h", limit: 6 * 24 + 14 });
  });
});
