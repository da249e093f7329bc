/** How far a pool is from what is wanted: as its nodes say, and as its replicas show. */
import type { PoolNode } from "@/api/schema";
import type { Pool } from "@/api/shapes";
import { count, plural } from "@/lib/format";
import type { Tone } from "@/ui/bits";
import { present } from "./replica-state";

export interface Roll {
  /** Ready replicas of the newest generation, and all that are there but for those of it that are still starting. */
  done: number;
  total: number;
  starting: number;
  draining: number;
}

/** Null while no replica is of an older generation. */
export function rollOf({ generation, replicas }: Pick<Pool, "generation" | "replicas">): Roll | null {
  const there = present(replicas);
  const old = there.filter((one) => one.generation !== generation);
  if (old.length === 0) return null;
  const fresh = there.filter((one) => one.generation === generation);
  const done = fresh.filter((one) => one.state === "ready").length;
  const leaving = old.filter((one) => one.state === "draining").length;
  return { done, total: Math.max(done + old.length - leaving, done, 1), starting: fresh.length - done, draining: leaving };
}

export function sentenceOf({ done, total, starting, draining }: Roll): string {
  const parts = [`${count(done)} of ${plural(total, "replica")} replaced`];
  if (starting > 0) parts.push(`${count(starting)} not ready yet`);
  if (draining > 0) parts.push(`${count(draining)} finishing what it has`);
  return parts.join(", ");
}

const PHASES: Record<PoolNode["phase"], { tone: Tone; word: string }> = {
  settled: { tone: "good", word: "Settled" },
  starting: { tone: "busy", word: "Starting" },
  rolling: { tone: "busy", word: "Rolling" },
  blocked: { tone: "bad", word: "Blocked" },
  crashing: { tone: "bad", word: "Crashing" },
  stopping: { tone: "warn", word: "Stopping" },
  stopped: { tone: "plain", word: "Stopped" },
};

export const phaseOf = (node: PoolNode): { tone: Tone; word: string } => PHASES[node.phase];

/** In one phrase, what decides how many replicas there are. */
export function scaledBy({ spec }: Pick<Pool, "spec">): string {
  if (spec.kind === "external") return "by whoever runs them";
  if (spec.autoscaler === "external") return "by somebody else, through the API";
  const [least, most] = [spec.min_replicas ?? 1, spec.max_replicas ?? 1];
  return least === most ? "fixed" : "by the queue";
}

export interface Device {
  name: string;
  holder: { id: string; state: string } | null;
  /** What is wrong with it, as a replica that failed on it says. */
  trouble: string | null;
}

/** The devices that are dedicated to the pool. */
export function devicesOf({ spec, replicas }: Pick<Pool, "spec" | "replicas">): Device[] {
  return (spec.gpus ?? []).map((name) => {
    const holder = present(replicas).find((one) => one.devices.includes(String(name)) || (typeof name === "number" && one.gpus.includes(name)));
    // A device without a replica may be one that none can start on: whoever waits for it says why.
    const known = [String(name), ...(holder?.devices ?? [])];
    return { name: String(name), holder: holder ? { id: holder.id, state: holder.state } : null, trouble: troubleIn(replicas, known) };
  });
}

const HEALTHY = new Set(["ready", "draining", "stopped"]);

function troubleIn(replicas: Pool["replicas"], names: string[]): string | null {
  for (const { last_error: error, state } of replicas) {
    if (error === null || HEALTHY.has(state)) continue;
    for (const name of names) {
      const found = name.includes("-") ? new RegExp(`${name}(?: \\(GPU \\d+\\))?: ([^;)]+)`).exec(error) : new RegExp(`(?:\\(|; )${name}: ([^;)]+)`).exec(error);
      if (found?.[1]) return found[1];
    }
  }
  return null;
}
