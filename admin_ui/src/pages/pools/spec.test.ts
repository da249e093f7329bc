import { describe, expect, it } from "vitest";
import type { PoolSpec } from "@/api/shapes";
import { draftOf, specOf } from "./new";

describe("a pool's specification", () => {
  it("comes out of the form as it went in", () => {
    const spec: PoolSpec = { kind: "tollway", model: "/m/a.gguf", served_names: ["a", "b"], gpus: [0, 1], tensor_parallel: 2, min_replicas: 1, max_replicas: 1, flags: { "max-model-len": 4096, "enable-x": true, dtype: "bfloat16" } };
    expect(specOf(draftOf(spec))).toEqual(spec);
  });

  it("takes flags as they stand on a command line", () => {
    expect(specOf({ ...draftOf(null), model: "m", names: "a", flags: "--max-model-len 4096\n--verbose\nx=false" })?.flags).toEqual({ "max-model-len": 4096, verbose: true, x: false });
  });

  it("is none while something is missing", () => {
    expect(specOf(draftOf(null))).toBeNull();
    expect(specOf({ ...draftOf(null), model: "m", names: "a", gpus: "one" })).toBeNull();
  });

  it("of somebody else's engine has addresses and nothing to start", () => {
    expect(specOf({ ...draftOf(null), kind: "external", model: "m", names: "a", urls: "http://a:1\nhttp://b:2" })).toEqual({ kind: "external", model: "m", served_names: ["a"], urls: ["http://a:1", "http://b:2"] });
  });
});
