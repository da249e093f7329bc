/** A pool's specification as a form has it: text in fields, what is wrong with each of them, and what the API is given. */
import type { PoolSpec } from "@/api/shapes";
import { plural } from "@/lib/format";

export interface SpecDraft {
  kind: NonNullable<PoolSpec["kind"]>;
  model: string;
  names: string;
  gpus: string;
  tensor: string;
  pipeline: string;
  min: string;
  max: string;
  flags: string;
  urls: string;
  autoscaler: NonNullable<PoolSpec["autoscaler"]>;
  waiting: string;
  delay: string;
  upAfter: string;
  downAfter: string;
  cooldown: string;
  surge: string;
  /** Empty: as the supervisor judges. */
  unavailable: string;
}

export type Problems = Partial<Record<keyof SpecDraft, string>>;

const SCALING = { waiting_per_replica: 4, queue_delay_s: 2, up_after_s: 30, down_after_s: 300, cooldown_s: 60 };
const DEVICE = /^(GPU|MIG)-[0-9A-Za-z/-]{8,100}$/;

export function draftOf(spec: PoolSpec | null): SpecDraft {
  const scaling = { ...SCALING, ...spec?.scaling };
  return {
    kind: spec?.kind ?? "tollway",
    model: spec?.model ?? "",
    names: spec?.served_names.join(", ") ?? "",
    gpus: spec?.gpus?.join(", ") ?? "",
    tensor: String(spec?.tensor_parallel ?? 1),
    pipeline: String(spec?.pipeline_parallel ?? 1),
    min: String(spec?.min_replicas ?? 1),
    max: String(spec?.max_replicas ?? 1),
    flags: Object.entries(spec?.flags ?? {})
      .map(([flag, value]) => `${flag}=${String(value)}`)
      .join("\n"),
    urls: spec?.urls?.join("\n") ?? "",
    autoscaler: spec?.autoscaler ?? "tollway",
    waiting: String(scaling.waiting_per_replica),
    delay: String(scaling.queue_delay_s),
    upAfter: String(scaling.up_after_s),
    downAfter: String(scaling.down_after_s),
    cooldown: String(scaling.cooldown_s),
    surge: String(spec?.max_surge ?? 1),
    unavailable: spec?.max_unavailable === null || spec?.max_unavailable === undefined ? "" : String(spec.max_unavailable),
  };
}

const list = (text: string): string[] => text.split(/[\s,]+/).filter(Boolean);

/** By nvidia-smi's index or by UUID; null for what is neither. */
const deviceOf = (text: string): number | string | null => (/^\d{1,4}$/.test(text) ? Number(text) : DEVICE.test(text) ? text : null);

/** Per field, in words. What is left empty and has to be given is the browser's to say. */
export function problemsOf(draft: SpecDraft): Problems {
  const found: Problems = {};
  if (draft.kind === "external") {
    const wrong = list(draft.urls).find((url) => !/^https?:\/\/[^/\s]+/.test(url));
    if (wrong !== undefined) found.urls = `Not an address: ${wrong}`;
    return found;
  }
  for (const [field, least, most, whole] of NUMBERS) {
    const problem = draft[field] === "" && field === "unavailable" ? null : outside(draft[field], least, most, whole);
    if (problem !== null) found[field] = problem;
  }
  if (found.min === undefined && found.max === undefined && Number(draft.min) > Number(draft.max)) found.max = `At least ${draft.min}, the least.`;
  const gpus = problemOfDevices(draft);
  if (gpus !== null) found.gpus = gpus;
  return found;
}

/** The least and the most that each may be, and whether it counts something. */
const NUMBERS = [
  ["min", 0, 256, true],
  ["max", 1, 256, true],
  ["tensor", 1, 64, true],
  ["pipeline", 1, 64, true],
  ["surge", 1, 256, true],
  ["unavailable", 0, 256, true],
  ["waiting", 0.01, 10_000, false],
  ["delay", 0.01, 3600, false],
  ["upAfter", 1, 3600, false],
  ["downAfter", 1, 86_400, false],
  ["cooldown", 0, 86_400, false],
] as const;

function outside(text: string, least: number, most: number, whole: boolean): string | null {
  const value = Number(text);
  const good = text.trim() !== "" && value >= least && value <= most && (!whole || Number.isInteger(value));
  return good ? null : `${whole ? "A whole number" : "A number"} from ${least} to ${most}.`;
}

function problemOfDevices(draft: SpecDraft): string | null {
  const names = list(draft.gpus);
  const wrong = names.find((one) => deviceOf(one) === null);
  if (wrong !== undefined) return `Neither an index nor a UUID: ${wrong}`;
  if (new Set(names).size < names.length) return "A device is given twice.";
  const each = Number(draft.tensor) * Number(draft.pipeline);
  const needed = Number(draft.max) * each;
  return names.length > 0 && needed > names.length ? `${plural(Number(draft.max), "replica")} of ${each} each need ${needed} devices, not ${names.length}.` : null;
}

/** Null while something is not what it has to be. */
export function specOf(draft: SpecDraft): PoolSpec | null {
  const names = list(draft.names);
  if (draft.model === "" || names.length === 0 || Object.keys(problemsOf(draft)).length > 0) return null;
  const common = { kind: draft.kind, model: draft.model, served_names: names };
  if (draft.kind === "external") return { ...common, urls: list(draft.urls) };
  return {
    ...common,
    gpus: list(draft.gpus).flatMap((one) => deviceOf(one) ?? []),
    tensor_parallel: Number(draft.tensor),
    pipeline_parallel: Number(draft.pipeline),
    min_replicas: Number(draft.min),
    max_replicas: Number(draft.max),
    max_surge: Number(draft.surge),
    max_unavailable: draft.unavailable === "" ? null : Number(draft.unavailable),
    autoscaler: draft.autoscaler,
    scaling: { waiting_per_replica: Number(draft.waiting), queue_delay_s: Number(draft.delay), up_after_s: Number(draft.upAfter), down_after_s: Number(draft.downAfter), cooldown_s: Number(draft.cooldown) },
    flags: flagsOf(draft.flags),
  };
}

function flagsOf(text: string): Record<string, string | number | boolean> {
  const lines = text.split("\n").map((line) => line.trim().replace(/^--/, ""));
  return Object.fromEntries(
    lines.filter(Boolean).map((line) => {
      const [flag = "", ...rest] = line.split(/[=\s]/);
      return [flag, valueOf(rest.join("=").trim())];
    }),
  );
}

function valueOf(text: string): string | number | boolean {
  if (text === "" || text === "true") return true;
  if (text === "false") return false;
  return /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : text;
}

/** What an engine is started with: a change of it replaces the replicas. The rest says how many there are. */
const STARTED_WITH = ["kind", "model", "served_names", "gpus", "tensor_parallel", "pipeline_parallel", "flags"] as const;

export function replaces(before: PoolSpec, after: PoolSpec): boolean {
  if (after.kind === "external") return false;
  const [was, is] = [specOf(draftOf(before)), after];
  return STARTED_WITH.some((field) => canonical(was?.[field]) !== canonical(is[field]));
}

/** Flags in another order are the same flags. */
function canonical(value: unknown): string {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return JSON.stringify(value ?? null);
  return JSON.stringify(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}
