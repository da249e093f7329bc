import { describe, expect, it } from "vitest";
import type { Pool, Replica } from "@/api/shapes";
import { devicesOf, rollOf, scaledBy, sentenceOf } from "./progress";

const UUIDS = ["GPU-5d0f3a1c-9b7e", "GPU-77777777-0000"] as const;

function replica(change: Partial<Replica>): Replica {
  return { object: "organization.pool.replica", id: "replica_1", pool_id: "pool_1", node: "n", url: null, gpus: [], devices: [], generation: 2, state: "ready", restarts: 0, last_error: null, created_at: 0, ready_at: null, load: null, ...change };
}

const pool = (gpus: (number | string)[], ...replicas: Replica[]): Pick<Pool, "spec" | "replicas"> => ({ spec: { model: "m", served_names: ["a"], gpus }, replicas });

describe("a roll", () => {
  it("is none while all are of one generation", () => {
    expect(rollOf({ generation: 2, replicas: [replica({}), replica({ generation: 1, state: "stopped" })] })).toBeNull();
  });

  it("counts what is replaced, starting and leaving", () => {
    const roll = rollOf({ generation: 2, replicas: [replica({}), replica({ state: "starting" }), replica({ generation: 1 }), replica({ generation: 1, state: "draining" })] });
    expect(roll).toEqual({ done: 1, total: 2, starting: 1, draining: 1 });
    expect(sentenceOf(roll!)).toBe("1 of 2 replicas replaced, 1 not ready yet, 1 finishing what it has");
  });
});

describe("the number of replicas", () => {
  const spec = { model: "m", served_names: ["a"] };
  it.each([
    [{ ...spec, min_replicas: 2, max_replicas: 2 }, "fixed"],
    [{ ...spec, min_replicas: 1, max_replicas: 2 }, "by the queue"],
    [{ ...spec, max_replicas: 2, autoscaler: "external" as const }, "by somebody else, through the API"],
    [{ ...spec, kind: "external" as const }, "by whoever runs them"],
  ])("%o is chosen %s", (given, said) => expect(scaledBy({ spec: given })).toBe(said));
});

describe("devices", () => {
  it("are held by a replica, by either name", () => {
    const holder = replica({ devices: [UUIDS[0]], gpus: [0] });
    expect(devicesOf(pool([0, UUIDS[1]], holder))).toEqual([
      { name: "0", holder: { id: "replica_1", state: "ready" }, trouble: null },
      { name: UUIDS[1], holder: null, trouble: null },
    ]);
    expect(devicesOf(pool([UUIDS[0]], holder))[0]?.holder?.id).toBe("replica_1");
  });

  it("are in trouble when what failed on them says so", () => {
    const failed = replica({ state: "failed", devices: [UUIDS[0]], gpus: [3], last_error: `${UUIDS[0]} (GPU 3): it requires a reset` });
    expect(devicesOf(pool([...UUIDS], failed)).map((one) => one.trouble)).toEqual(["it requires a reset", null]);
    expect(devicesOf(pool([3], failed))[0]?.trouble).toBe("it requires a reset");
    const waiting = replica({ state: "failed", last_error: `1 GPUs needed, 0 of ['${UUIDS[0]}', 1] free (${UUIDS[0]}: it is lost; 1: a reset is recommended)` });
    expect(devicesOf(pool([UUIDS[0], 1], waiting)).map((one) => one.trouble)).toEqual(["it is lost", "a reset is recommended"]);
  });

  it("are well again once their replica is", () => {
    expect(devicesOf(pool([UUIDS[0]], replica({ devices: [UUIDS[0]], last_error: `${UUIDS[0]} (GPU 3): it is lost` })))[0]?.trouble).toBeNull();
  });
});
