import { useState } from "react";
import { closing } from "@/ui/toast";
import { useChange } from "@/api/queries";
import type { PoolSpec } from "@/api/shapes";
import { Dialog, DialogForm } from "@/ui/dialog";
import { Field, Input, Options, Select, TextArea } from "@/ui/field";

const KINDS = [
  ["tollway", "Tollway’s own engine"],
  ["vllm", "vLLM"],
  ["sglang", "SGLang"],
  ["external", "Somebody else’s, at a URL"],
] as const;

export function NewPool({ open, onClose }: { open: boolean; onClose: () => void }) {
  return (
    <Dialog open={open} onClose={onClose} title="New pool" wide>
      {open && <PoolForm onClose={onClose} />}
    </Dialog>
  );
}

function PoolForm({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState("");
  const [draft, setDraft] = useState<SpecDraft>(draftOf(null));
  const create = useChange("POST /v1/organization/pools", ["GET /v1/organization/pools"]);
  function submit() {
    const spec = specOf(draft);
    if (spec === null) return;
    create.mutate({ body: { name, spec } }, closing(onClose, `${name} is being started`));
  }
  return (
    <DialogForm changes={[create]} action="Create pool" disabled={specOf(draft) === null} onSubmit={submit} onClose={onClose}>
      <Field label="Name">
        <Input value={name} onChange={(event) => setName(event.target.value)} required maxLength={200} autoFocus />
      </Field>
      <SpecFields draft={draft} onChange={setDraft} />
    </DialogForm>
  );
}

export interface SpecDraft {
  kind: NonNullable<PoolSpec["kind"]>;
  model: string;
  names: string;
  gpus: string;
  tensor: string;
  min: string;
  max: string;
  flags: string;
  urls: string;
}

export function draftOf(spec: PoolSpec | null): SpecDraft {
  return {
    kind: spec?.kind ?? "tollway",
    model: spec?.model ?? "",
    names: spec?.served_names.join(", ") ?? "",
    gpus: spec?.gpus?.join(", ") ?? "",
    tensor: String(spec?.tensor_parallel ?? 1),
    min: String(spec?.min_replicas ?? 1),
    max: String(spec?.max_replicas ?? 1),
    flags: Object.entries(spec?.flags ?? {})
      .map(([flag, value]) => `${flag}=${String(value)}`)
      .join("\n"),
    urls: spec?.urls?.join("\n") ?? "",
  };
}

const list = (text: string): string[] => text.split(/[\s,]+/).filter(Boolean);

/** Null while something is not what it has to be. */
export function specOf(draft: SpecDraft): PoolSpec | null {
  const gpus = list(draft.gpus).map(Number);
  const names = list(draft.names);
  if (draft.model === "" || names.length === 0 || gpus.some((one) => !Number.isInteger(one))) return null;
  const common = { kind: draft.kind, model: draft.model, served_names: names };
  if (draft.kind === "external") return { ...common, urls: list(draft.urls) };
  return { ...common, gpus, tensor_parallel: Number(draft.tensor), min_replicas: Number(draft.min), max_replicas: Number(draft.max), flags: flagsOf(draft.flags) };
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

export function SpecFields({ draft, onChange }: { draft: SpecDraft; onChange: (draft: SpecDraft) => void }) {
  const set = (change: Partial<SpecDraft>) => onChange({ ...draft, ...change });
  return (
    <>
      <div className="grid gap-4 sm:grid-cols-2">
        <Field label="Engine">
          <Select value={draft.kind} onChange={(event) => set({ kind: event.target.value as SpecDraft["kind"] })}>
            <Options of={KINDS} />
          </Select>
        </Field>
        <Field label="Model" hint="A path, a GGUF file or a repository, as the engine understands it.">
          <Input value={draft.model} onChange={(event) => set({ model: event.target.value })} required />
        </Field>
      </div>
      <Field label="Names the engine answers to" hint="Separated by commas.">
        <Input value={draft.names} onChange={(event) => set({ names: event.target.value })} required />
      </Field>
      {draft.kind === "external" ? (
        <Field label="Addresses" hint="One a line; each is a replica.">
          <TextArea rows={3} value={draft.urls} onChange={(event) => set({ urls: event.target.value })} placeholder="http://10.0.0.5:8000" className="font-mono text-[13px]" />
        </Field>
      ) : (
        <>
          <div className="grid grid-cols-2 gap-4 sm:grid-cols-4">
            <Field label="Replicas, least">
              <Input type="number" min={0} value={draft.min} onChange={(event) => set({ min: event.target.value })} />
            </Field>
            <Field label="Replicas, most">
              <Input type="number" min={1} value={draft.max} onChange={(event) => set({ max: event.target.value })} />
            </Field>
            <Field label="GPUs" hint="None: the CPU.">
              <Input value={draft.gpus} onChange={(event) => set({ gpus: event.target.value })} placeholder="0, 1" />
            </Field>
            <Field label="Per replica">
              <Input type="number" min={1} value={draft.tensor} onChange={(event) => set({ tensor: event.target.value })} />
            </Field>
          </div>
          <Field label="Engine flags" hint="One a line, such as max-model-len=4096.">
            <TextArea rows={3} value={draft.flags} onChange={(event) => set({ flags: event.target.value })} className="font-mono text-[13px]" spellCheck={false} />
          </Field>
        </>
      )}
    </>
  );
}
