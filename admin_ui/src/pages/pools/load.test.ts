import { describe, expect, it, test } from "vitest";
import { kvTone, loadOf, seriesOf, wordOf } from "./load";

test("a cache is watched from four fifths on", () => {
  expect([0.8, 0.81, 0.95, 0.96].map(kvTone)).toEqual(["busy", "warn", "warn", "bad"]);
});

test.each([
  [{ stopped: true, there: 2, ready: 2, rolling: false }, "Stopped"],
  [{ stopped: false, there: 0, ready: 0, rolling: false }, "No replicas"],
  [{ stopped: false, there: 2, ready: 0, rolling: true }, "Not serving"],
  [{ stopped: false, there: 2, ready: 1, rolling: true }, "Rolling"],
  [{ stopped: false, there: 2, ready: 1, rolling: false }, "Degraded"],
  [{ stopped: false, there: 2, ready: 2, rolling: false }, "Serving"],
])("a pool in one word: %o", (pool, word) => {
  expect(wordOf(pool).word).toBe(word);
});

test("no replica that says anything is no load", () => {
  expect(loadOf([])).toBeNull();
});

describe("the charts of a pool", () => {
  const point = { waiting_max: 9, preemptions: 0 };
  const replicas = [
    { ...point, replica_id: "a", running: 2, waiting: 1, kv_usage_max: 0.4, tokens_per_s: 50 },
    { ...point, replica_id: "b", running: 3, waiting: 0, kv_usage_max: 0.7, tokens_per_s: null },
  ];
  const step = (start_time: number) => ({ object: "organization.pool.sample" as const, start_time, end_time: start_time + 60, replicas });

  it("add up what replicas say, and leave gaps where none did", () => {
    expect(seriesOf([step(600), step(720)])).toEqual({ times: [600, 660, 720], running: [5, null, 5], waiting: [1, null, 1], kv: [0.7, null, 0.7], speed: [50, null, 50] });
  });

  it("are empty before anything was measured", () => {
    expect(seriesOf([]).times).toEqual([]);
  });
});
