/** What a pool's replicas say about their work, together. */
import type { PoolSample } from "@/api/schema";
import type { Replica } from "@/api/shapes";
import type { Tone } from "@/ui/bits";

export interface Load {
  running: number;
  waiting: number;
  /** The fullest replica's share of pages held. */
  kv_usage: number;
}

export function loadOf(replicas: Replica[]): Load | null {
  const known = replicas.flatMap((one) => (one.load ? [one.load] : []));
  if (known.length === 0) return null;
  return {
    running: known.reduce((sum, one) => sum + one.running, 0),
    waiting: known.reduce((sum, one) => sum + one.waiting, 0),
    kv_usage: Math.max(...known.map((one) => one.kv_usage)),
  };
}

/** From where on a KV cache in use is to be watched, and from where on it tells somebody. */
export function kvTone(share: number): Tone {
  if (share > 0.95) return "bad";
  return share > 0.8 ? "warn" : "busy";
}

export interface Serving {
  stopped: boolean;
  /** Replicas that are there, and those of them that answer. */
  there: number;
  ready: number;
  rolling: boolean;
}

/** In one word, the same wherever a pool is named. */
export function wordOf({ stopped, there, ready, rolling }: Serving): { tone: Tone; word: string } {
  if (stopped) return { tone: "plain", word: "Stopped" };
  if (there === 0) return { tone: "warn", word: "No replicas" };
  if (ready === 0) return { tone: "bad", word: "Not serving" };
  if (rolling) return { tone: "busy", word: "Rolling" };
  return ready < there ? { tone: "warn", word: "Degraded" } : { tone: "good", word: "Serving" };
}

/** Of one point of the charts. */
export const STEP_S = 60;
type Values = (number | null)[];

/** Step by step, with nothing where no replica answered: a gap stays a gap. */
export function seriesOf(steps: PoolSample[]): { times: number[]; running: Values; waiting: Values; kv: Values; speed: Values } {
  const known = new Map(steps.map((step) => [step.start_time, step.replicas]));
  const first = steps[0]?.start_time ?? 0;
  const last = steps.at(-1)?.start_time ?? -1;
  const times = Array.from({ length: Math.floor((last - first) / STEP_S) + 1 }, (_, index) => first + index * STEP_S);
  const each = (of: (replicas: PoolSample["replicas"]) => number | null): Values => times.map((time) => (known.has(time) ? of(known.get(time)!) : null));
  return {
    times,
    running: each((replicas) => replicas.reduce((sum, one) => sum + one.running, 0)),
    waiting: each((replicas) => replicas.reduce((sum, one) => sum + one.waiting, 0)),
    kv: each((replicas) => Math.max(...replicas.map((one) => one.kv_usage_max))),
    speed: each((replicas) => (replicas.every((one) => one.tokens_per_s === null) ? null : replicas.reduce((sum, one) => sum + (one.tokens_per_s ?? 0), 0))),
  };
}
