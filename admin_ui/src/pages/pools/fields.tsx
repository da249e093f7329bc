/** The fields of a pool's specification: what runs, on what, how many, and how one replaces another. */
import type { ReactNode } from "react";
import { Field, Input, Options, Select, TextArea } from "@/ui/field";
import type { Problems, SpecDraft } from "./spec";
import { problemsOf } from "./spec";

const KINDS = [
  ["tollway", "Tollway’s own engine"],
  ["vllm", "vLLM"],
  ["sglang", "SGLang"],
  ["external", "Somebody else’s, at a URL"],
] as const;
const SCALERS = [
  ["tollway", "Tollway, by the queue"],
  ["external", "Somebody else (HPA, KEDA)"],
] as const;

interface Props {
  draft: SpecDraft;
  onChange: (draft: SpecDraft) => void;
}

interface PartProps {
  draft: SpecDraft;
  set: (change: Partial<SpecDraft>) => void;
  problems: Problems;
}

export function SpecFields({ draft, onChange }: Props) {
  const part = { draft, set: (change: Partial<SpecDraft>) => onChange({ ...draft, ...change }), problems: problemsOf(draft) };
  const { set } = part;
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
        <Field label="Addresses" hint="One a line; each is a replica." error={part.problems.urls}>
          <TextArea rows={3} value={draft.urls} onChange={(event) => set({ urls: event.target.value })} placeholder="http://10.0.0.5:8000" className="font-mono text-[13px]" required />
        </Field>
      ) : (
        <>
          <Devices {...part} />
          <Field label="Engine flags" hint="One a line, such as max-model-len=4096.">
            <TextArea rows={3} value={draft.flags} onChange={(event) => set({ flags: event.target.value })} className="font-mono text-[13px]" spellCheck={false} />
          </Field>
          <Numbers {...part} />
          <Rolling {...part} />
        </>
      )}
    </>
  );
}

function Devices({ draft, set, problems }: PartProps) {
  return (
    <div className="grid gap-4 sm:grid-cols-[1fr_7rem_7rem]">
      <Field label="GPUs" hint="UUIDs, or indices as nvidia-smi counts. None: the CPU." error={problems.gpus}>
        <Input value={draft.gpus} onChange={(event) => set({ gpus: event.target.value })} placeholder="GPU-5d0f3a1c-…, or 0, 1" spellCheck={false} className="font-mono text-[13px]" />
      </Field>
      <Count name="Tensor parallel" field="tensor" least={1} {...{ draft, set, problems }} />
      <Count name="Pipeline parallel" field="pipeline" least={1} {...{ draft, set, problems }} />
    </div>
  );
}

function Numbers({ draft, set, problems }: PartProps) {
  const part = { draft, set, problems };
  const between = Number(draft.max) > Number(draft.min);
  return (
    <Group title="How many replicas">
      <div className="grid grid-cols-2 gap-4 sm:grid-cols-4">
        <Count name="Least" field="min" least={0} {...part} />
        <Count name="Most" field="max" least={1} {...part} />
        <Field label="Who chooses between" className="col-span-2">
          <Select value={draft.autoscaler} onChange={(event) => set({ autoscaler: event.target.value as SpecDraft["autoscaler"] })}>
            <Options of={SCALERS} />
          </Select>
        </Field>
      </div>
      {draft.autoscaler === "external" && <p className="text-[12.5px] text-ink-3">It writes the least number through the API; Tollway leaves it alone.</p>}
      {draft.autoscaler === "tollway" && between && (
        <div className="grid grid-cols-2 gap-4 sm:grid-cols-3">
          <Count name="Queue per replica" field="waiting" hint="A longer one asks for more," least={0} step="any" {...part} />
          <Count name="Wait, s" field="delay" hint="and so does a longer predicted wait." least={0} step="any" {...part} />
          <Count name="One more after, s" field="upAfter" hint="Of that, without a pause." least={1} step="any" {...part} />
          <Count name="One less after, s" field="downAfter" hint="Without a queue." least={1} step="any" {...part} />
          <Count name="Pause, s" field="cooldown" hint="Between two changes." least={0} step="any" {...part} />
        </div>
      )}
    </Group>
  );
}

function Rolling(part: PartProps) {
  return (
    <Group title="When one replaces another">
      <div className="grid grid-cols-2 gap-4">
        <Count name="At once, more" field="surge" hint="So many run beyond those wanted. One: one at a time." least={1} {...part} />
        <Count name="May be missing" field="unavailable" hint="If no device is free. Empty: one, but never the last." least={0} {...part} />
      </div>
    </Group>
  );
}

function Group({ title, children }: { title: string; children: ReactNode }) {
  return (
    <fieldset className="space-y-3 border-t pt-3">
      <legend className="float-left mb-3 w-full text-[13px] font-semibold text-ink-2">{title}</legend>
      <div className="clear-both space-y-3">{children}</div>
    </fieldset>
  );
}

interface CountProps extends PartProps {
  name: string;
  field: keyof SpecDraft;
  hint?: string;
  least: number;
  step?: "any";
}

function Count({ name, field, hint, least, step, draft, set, problems }: CountProps) {
  return (
    <Field label={name} hint={hint} error={problems[field]}>
      <Input type="number" inputMode="numeric" min={least} {...(step ? { step } : {})} value={draft[field]} onChange={(event) => set({ [field]: event.target.value })} />
    </Field>
  );
}
