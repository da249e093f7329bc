/** A chat with a served name: streamed, timed as the caller sees it, stoppable. */
import { useRef, useState } from "react";
import { ApiError, refusal, stream } from "@/api/client";

export interface Said {
  role: "user" | "assistant";
  text: string;
}

export interface Timing {
  ttft_ms: number | null;
  tpot_ms: number | null;
  total_ms: number | null;
  input_tokens: number | null;
  output_tokens: number | null;
  request_id: string | null;
}

export interface ChatSettings {
  /** Of the tenant that pays; empty for the session's own way. */
  key: string;
  /** The tenant that pays, unless a key says so. */
  payer: string;
  model: string;
  system: string;
  temperature: number;
  max_tokens: number;
}

interface Chunk {
  choices?: { delta?: { content?: string | null } }[];
  usage?: { prompt_tokens: number; completion_tokens: number } | null;
  error?: { message: string; code: string | null; param: string | null };
}

export function useChat() {
  const [said, setSaid] = useState<Said[]>([]);
  const [timing, setTiming] = useState<Timing | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const [busy, setBusy] = useState(false);
  const stopper = useRef<AbortController | null>(null);

  async function send(text: string, settings: ChatSettings): Promise<void> {
    const before: Said[] = [...said, { role: "user", text }];
    setSaid([...before, { role: "assistant", text: "" }]);
    setTiming(null);
    setError(null);
    setBusy(true);
    const stop = (stopper.current = new AbortController());
    try {
      await answer(before, settings, stop.signal, (reply, so_far) => {
        setSaid([...before, { role: "assistant", text: reply }]);
        setTiming(so_far);
      });
    } catch (failure) {
      if (failure instanceof ApiError) setError(failure);
      else if (!stop.signal.aborted) setError(new ApiError(0, "The connection broke.", null, null, null));
    } finally {
      setBusy(false);
    }
  }

  function clear() {
    setSaid([]);
    setTiming(null);
    setError(null);
  }

  return { said, timing, error, busy, send, clear, stop: () => stopper.current?.abort() };
}

async function answer(said: Said[], settings: ChatSettings, signal: AbortSignal, show: (reply: string, timing: Timing) => void): Promise<void> {
  const system = settings.system.trim() === "" ? [] : [{ role: "system", content: settings.system }];
  const began = performance.now();
  const response = await ask(settings, signal, {
    model: settings.model,
    messages: [...system, ...said.map((one) => ({ role: one.role, content: one.text }))],
    temperature: settings.temperature,
    max_tokens: settings.max_tokens,
    stream: true,
    stream_options: { include_usage: true },
  });
  if (response.body === null) throw await refusal(response);
  const timing: Timing = { ttft_ms: null, tpot_ms: null, total_ms: null, input_tokens: null, output_tokens: null, request_id: response.headers.get("x-request-id") };
  let reply = "";
  let last = began;
  for await (const data of events(response.body)) {
    if (data === "[DONE]") break;
    const chunk = JSON.parse(data) as Chunk;
    if (chunk.error) throw new ApiError(response.status, chunk.error.message, chunk.error.code, chunk.error.param, timing.request_id);
    const piece = chunk.choices?.[0]?.delta?.content;
    if (piece) {
      reply += piece;
      last = performance.now();
      timing.ttft_ms ??= last - began;
    }
    if (chunk.usage) {
      timing.input_tokens = chunk.usage.prompt_tokens;
      timing.output_tokens = chunk.usage.completion_tokens;
    }
    show(reply, finished({ ...timing }, began, last));
  }
  show(reply, finished({ ...timing }, began, last));
}

interface Body {
  model: string;
  messages: Record<string, unknown>[];
  temperature: number;
  max_tokens: number;
  stream: boolean;
  stream_options: Record<string, unknown>;
}

/** By the session, without a key; or over the tenants' own API, with one of theirs. */
async function ask({ key, payer }: ChatSettings, signal: AbortSignal, body: Body): Promise<Response> {
  if (key === "") return stream("POST /v1/organization/projects/{project_id}/chat/completions", { path: { project_id: payer }, body, signal });
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const response = await fetch("/v1/chat/completions", { method: "POST", signal, headers, body: JSON.stringify(body) });
  if (!response.ok) throw await refusal(response);
  return response;
}

/** TPOT is the time after the first token over the tokens after it. */
function finished(timing: Timing, began: number, last: number): Timing {
  timing.total_ms = performance.now() - began;
  if (timing.output_tokens !== null && timing.output_tokens > 1 && timing.ttft_ms !== null) {
    timing.tpot_ms = (last - began - timing.ttft_ms) / (timing.output_tokens - 1);
  }
  return timing;
}

/** The data of each event of a stream; comments are left out. */
export async function* events(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.pipeThrough(new TextDecoderStream() as unknown as TransformStream<Uint8Array, string>).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    rest += value ?? "";
    const parts = rest.split(/\r?\n\r?\n/);
    rest = parts.pop() ?? "";
    for (const part of parts) {
      const data = part.split(/\r?\n/).flatMap((line) => (line.startsWith("data:") ? [line.slice(5).trimStart()] : []));
      if (data.length > 0) yield data.join("\n");
    }
    if (done) return;
  }
}
