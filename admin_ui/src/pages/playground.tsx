/** Talk to a served name as a tenant does, and see how fast it answers. */
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { Send, Square } from "lucide-react";
import type { FormEvent, KeyboardEvent } from "react";
import { useEffect, useRef, useState } from "react";
import { useActiveProjects, useServedNames } from "@/api/names";
import { may, ownProjects } from "@/api/session";
import { cn } from "@/lib/cn";
import { count, ms } from "@/lib/format";
import { Button } from "@/ui/button";
import { Field, Input, Options, Select, TextArea } from "@/ui/field";
import { Page, Panel } from "@/ui/page";
import { Failure } from "@/ui/states";
import type { Said, Timing } from "./playground-chat";
import { useChat } from "./playground-chat";

const CHAT = "POST /v1/organization/projects/{project_id}/chat/completions";
/** In place of a tenant: somebody pastes one of its keys. */
const PASTED = "key";

export function Playground() {
  const search = useSearch({ from: "/playground" });
  const navigate = useNavigate({ from: "/playground" });
  const projects = useActiveProjects();
  const mine = ownProjects();
  const bySession = may(CHAT);
  const only = mine?.length === 1 ? mine[0]?.id : undefined;
  const payer = bySession ? (search["tenant"] ?? only ?? "") : PASTED;
  const pasting = payer === PASTED;
  const models = useServedNames(pasting || payer === "" ? undefined : payer);
  const model = search["model"] ?? models[0] ?? "";
  const [key, setKey] = useState("");
  const [system, setSystem] = useState("");
  const [temperature, setTemperature] = useState("1");
  const [most, setMost] = useState("256");
  const chat = useChat();
  const missing = pasting ? (key === "" ? "Paste a key of the tenant that pays." : null) : payer === "" ? "Choose who pays, and say something." : null;
  const settings = { key: pasting ? key : "", payer, model, system, temperature: Number(temperature), max_tokens: Number(most) };
  return (
    <Page wide title="Playground" lead="Requests from here are a tenant’s like any other: limited, charged and listed.">
      <div className="grid gap-4 lg:grid-cols-[minmax(0,1fr)_300px] lg:grid-rows-[auto_1fr]">
        <Panel className="order-2 flex h-[calc(100dvh-190px)] min-h-[380px] flex-col p-0 lg:col-start-1 lg:row-span-2 lg:row-start-1">
          <Transcript said={chat.said} busy={chat.busy} hint={missing ?? `Say something to ${model || "a model"}.`} />
          {chat.error && <Failure error={chat.error} className="mx-4 mb-3" />}
          <Composer disabled={missing !== null || model === ""} busy={chat.busy} onStop={chat.stop} onSend={(text) => void chat.send(text, settings)} />
        </Panel>
        <div className="order-1 lg:col-start-2 lg:row-start-1">
          <Panel className="space-y-4">
            {bySession && (
              <Field label="Who pays">
                <Select value={payer} onChange={(event) => void navigate({ search: (known) => ({ ...known, tenant: event.target.value || undefined, model: undefined }), replace: true })}>
                  {payer === "" && <option value="">Choose a tenant</option>}
                  <Options of={(mine ?? projects).map((one) => [one.id, one.name])} />
                  <option value={PASTED}>The tenant of a key that I paste</option>
                </Select>
              </Field>
            )}
            {pasting && (
              <Field label="Tenant’s key" hint="Kept in this page’s memory only.">
                <Input type="password" value={key} onChange={(event) => setKey(event.target.value.trim())} autoComplete="off" placeholder="tw-…" />
              </Field>
            )}
            <Field label="Model">
              <Select value={model} onChange={(event) => void navigate({ search: (known) => ({ ...known, model: event.target.value }), replace: true })}>
                {(models.includes(model) || model === "" ? models : [model, ...models]).map((name) => (
                  <option key={name}>{name}</option>
                ))}
              </Select>
            </Field>
            <div className="grid grid-cols-2 gap-3">
              <Field label="Temperature">
                <Input type="number" min={0} max={2} step={0.1} value={temperature} onChange={(event) => setTemperature(event.target.value)} />
              </Field>
              <Field label="Max tokens">
                <Input type="number" min={1} value={most} onChange={(event) => setMost(event.target.value)} />
              </Field>
            </div>
            <Field label="System message">
              <TextArea rows={3} value={system} onChange={(event) => setSystem(event.target.value)} />
            </Field>
            <Button className="w-full" onClick={chat.clear} disabled={chat.said.length === 0}>
              Start over
            </Button>
          </Panel>
        </div>
        <div className="order-3 lg:col-start-2 lg:row-start-2">
          <Timings timing={chat.timing} />
        </div>
      </div>
    </Page>
  );
}

function Transcript({ said, busy, hint }: { said: Said[]; busy: boolean; hint: string }) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [said]);
  return (
    <div ref={box} aria-live="polite" aria-busy={busy} className="min-h-0 flex-1 space-y-4 overflow-y-auto p-4">
      {said.length === 0 && <p className="grid h-full place-items-center text-center text-ink-3">{hint}</p>}
      {said.map((one, index) => (
        <div key={index} className={cn("max-w-[80ch]", one.role === "user" && "ml-auto w-fit rounded-lg bg-accent-soft px-3 py-2")}>
          <p className="sr-only">{one.role === "user" ? "You" : "The model"}</p>
          <p className="whitespace-pre-wrap break-words">{one.text || <span className="text-ink-3">…</span>}</p>
        </div>
      ))}
    </div>
  );
}

interface ComposerProps {
  disabled: boolean;
  busy: boolean;
  onSend: (text: string) => void;
  onStop: () => void;
}

function Composer({ disabled, busy, onSend, onStop }: ComposerProps) {
  const [text, setText] = useState("");
  function send() {
    if (text.trim() === "" || disabled || busy) return;
    onSend(text);
    setText("");
  }
  function onKey(event: KeyboardEvent) {
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      send();
    }
  }
  return (
    <form
      className="flex items-end gap-2 border-t p-3"
      onSubmit={(event: FormEvent) => {
        event.preventDefault();
        send();
      }}
    >
      <TextArea aria-label="Message" rows={2} value={text} onChange={(event) => setText(event.target.value)} onKeyDown={onKey} placeholder="Message. Enter sends, Shift+Enter is a new line." className="resize-none" />
      {busy ? (
        <Button onClick={onStop}>
          <Square />
          Stop
        </Button>
      ) : (
        <Button type="submit" look="primary" disabled={disabled || text.trim() === ""}>
          <Send />
          Send
        </Button>
      )}
    </form>
  );
}

function Timings({ timing }: { timing: Timing | null }) {
  return (
    <Panel>
      <p className="mb-2 font-medium">This answer</p>
      <dl className="figure space-y-1 text-[13px]">
        {(
          [
            ["First token (TTFT)", ms(timing?.ttft_ms)],
            ["Per token (TPOT)", ms(timing?.tpot_ms)],
            ["Tokens/s", timing?.tpot_ms ? (1000 / timing.tpot_ms).toFixed(1) : "–"],
            ["Tokens in", count(timing?.input_tokens)],
            ["Tokens out", count(timing?.output_tokens)],
            ["Total", ms(timing?.total_ms)],
          ] as const
        ).map(([name, value]) => (
          <div key={name} className="flex justify-between">
            <dt className="text-ink-2">{name}</dt>
            <dd className="font-medium">{value}</dd>
          </div>
        ))}
      </dl>
      {timing?.request_id && (
        <Link to="/requests/$requestId" params={{ requestId: timing.request_id }} className="mt-3 inline-block text-[13px] text-accent-ink hover:underline">
          What it cost
        </Link>
      )}
    </Panel>
  );
}
