/** What a pool's replicas say about their work, together. */
import type { Replica } from "@/api/shapes";

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
