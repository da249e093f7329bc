import { describe, expect, it } from "vitest";
import { rangeOf, RANGES } from "./range";

const NOW = Date.UTC(2026, 2, 15, 13, 37, 21) / 1000;

describe("ranges", () => {
  it.each(RANGES)("%s is whole buckets", (name) => {
    const { start, end, width } = rangeOf(name, undefined, undefined, NOW);
    expect(start % width).toBe(0);
    expect(end % width).toBe(0);
    expect(end).toBeGreaterThan(start);
  });

  it("knows the months", () => {
    const { start, end } = rangeOf("last-month", undefined, undefined, NOW);
    expect([start, end]).toEqual([Date.UTC(2026, 1, 1) / 1000, Date.UTC(2026, 2, 1) / 1000]);
  });

  it("widens a chosen range to its buckets", () => {
    const hour = rangeOf("custom", String(NOW), String(NOW + 600), NOW);
    expect(hour.width).toBe(60);
    expect(hour.start).toBeLessThanOrEqual(NOW);
    expect(hour.end).toBeGreaterThanOrEqual(NOW + 600);
    expect(rangeOf("custom", "5", "4", NOW)).toEqual(rangeOf("7d", undefined, undefined, NOW));
  });

  it("are open while what happens now belongs to them", () => {
    expect(rangeOf(undefined, undefined, undefined, NOW).isOpen).toBe(true);
    expect(rangeOf("last-month", undefined, undefined, NOW).isOpen).toBe(false);
    expect(rangeOf("custom", String(NOW), String(NOW + 600), NOW).isOpen).toBe(false);
  });
});
