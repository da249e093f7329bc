import { expect, test } from "vitest";
import { kvTone, loadOf, wordOf } from "./load";

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
