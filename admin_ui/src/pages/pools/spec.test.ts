import { describe, expect, it } from "vitest";
import type { PoolSpec } from "@/api/shapes";
import { draftOf, problemsOf, replaces, specOf } from "./spec";

const UUID = "GPU-5d0f3a1c-9b7e-4f60-8a52-1c2d3e4f5a6b";
const SPEC: PoolSpec = {
  kind: "tollway",
  model: "/m/a.gguf",
  served_names: ["a", "b"],
  gpus: [0, UUID],
  tensor_parallel: 2,
  pipeline_parallel: 1,
  min_replicas: 1,
  max_replicas: 1,
  max_surge: 2,
  max_unavailable: 0,
  autoscaler: "external",
  scaling: { waiting_per_replica: 2.5, queue_delay_s: 1, up_after_s: 10, down_after_s: 20, cooldown_s: 0 },
  flags: { "max-model-len": 4096, "enable-x": true, dtype: "bfloat16" },
};
const filled = { ...draftOf(null), model: "m", names: "a" };

describe("a pool's specification", () => {
  it("comes out of the form as it went in", () => {
    expect(specOf(draftOf(SPEC))).toEqual(SPEC);
    expect(specOf(draftOf({ ...SPEC, max_unavailable: null }))?.max_unavailable).toBeNull();
  });

  it("takes flags as they stand on a command line", () => {
    expect(specOf({ ...filled, flags: "--max-model-len 4096\n--verbose\nx=false" })?.flags).toEqual({ "max-model-len": 4096, verbose: true, x: false });
  });

  it("is none while something is missing or wrong", () => {
    expect(specOf(draftOf(null))).toBeNull();
    expect(specOf({ ...filled, gpus: "one" })).toBeNull();
    expect(specOf({ ...filled, surge: "0" })).toBeNull();
    expect(specOf(filled)).not.toBeNull();
  });

  it("says what is wrong with which field", () => {
    expect(problemsOf({ ...filled, gpus: "0, one" })).toEqual({ gpus: "Neither an index nor a UUID: one" });
    expect(problemsOf({ ...filled, gpus: `${UUID} ${UUID}` })).toEqual({ gpus: "A device is given twice." });
    expect(problemsOf({ ...filled, gpus: "0,1", tensor: "2", max: "2" })).toEqual({ gpus: "2 replicas of 2 each need 4 devices, not 2." });
    expect(problemsOf({ ...filled, min: "3", max: "2" })).toEqual({ max: "At least 3, the least." });
    expect(problemsOf({ ...filled, cooldown: "" })).toEqual({ cooldown: "A number from 0 to 86400." });
    expect(problemsOf({ ...filled, unavailable: "" })).toEqual({});
    expect(problemsOf({ ...filled, kind: "external", urls: "http://a:1\nb:2" })).toEqual({ urls: "Not an address: b:2" });
  });

  it("of somebody else's engine has addresses and nothing to start", () => {
    expect(specOf({ ...filled, kind: "external", urls: "http://a:1\nhttp://b:2" })).toEqual({ kind: "external", model: "m", served_names: ["a"], urls: ["http://a:1", "http://b:2"] });
  });

  it("replaces replicas only by what an engine is started with", () => {
    expect(replaces(SPEC, { ...SPEC, max_replicas: 3, max_surge: 1, scaling: {} })).toBe(false);
    expect(replaces(SPEC, { ...SPEC, flags: { dtype: "bfloat16", "enable-x": true, "max-model-len": 4096 } })).toBe(false);
    expect(replaces(SPEC, { ...SPEC, flags: { "max-model-len": 8192 } })).toBe(true);
    expect(replaces(SPEC, { ...SPEC, gpus: [0, 1] })).toBe(true);
    expect(replaces({ model: "m", served_names: ["a"] }, specOf(filled)!)).toBe(false);
  });
});
