import type { Replica } from "@/api/shapes";
import { words } from "@/lib/format";
import type { Tone } from "@/ui/bits";
import { Status } from "@/ui/bits";

const TONES: Record<string, Tone> = { ready: "good", starting: "busy", draining: "warn", stopped: "plain", failed: "bad", lost: "bad" };

export function ReplicaStatus({ state }: { state: string }) {
  return <Status tone={TONES[state] ?? "plain"}>{words(state)}</Status>;
}

/** Those that are there or should be: stopped ones are history. */
export const present = (replicas: Replica[]): Replica[] => replicas.filter((one) => one.state !== "stopped");
