/** A request's time as one bar: queued, prefill, decode; figures beside it. Times that were not measured leave it out. */
import type { RequestDetail } from "@/api/shapes";
import { count, ms, NONE } from "@/lib/format";
import { Figure, Panel } from "@/ui/page";

interface Span {
  name: string;
  ms: number;
  fill: string;
}

export function spansOf(request: Pick<RequestDetail, "queue_ms" | "ttft_ms" | "e2e_ms" | "stream">): Span[] {
  const { queue_ms: queue, e2e_ms: whole } = request;
  const first = request.stream ? request.ttft_ms : null; // of one answer in one piece, both are the same
  if (whole === null) return [];
  const queued = Math.min(queue ?? 0, whole);
  const until = Math.max(queued, Math.min(first ?? whole, whole));
  return [
    { name: "Queued", ms: queued, fill: "bg-line-strong" },
    { name: first === null ? "Work" : "Prefill to first token", ms: until - queued, fill: "bg-accent/60" },
    { name: "Decode to last token", ms: whole - until, fill: "bg-accent" },
  ].filter((span) => span.ms > 0);
}

export function Timeline({ request }: { request: RequestDetail }) {
  const spans = spansOf(request);
  const tpot = request.tpot_us === null ? null : request.tpot_us / 1000;
  const rate = tpot ? 1000 / tpot : null;
  return (
    <Panel>
      <div className="mb-4 grid grid-cols-2 gap-4 sm:grid-cols-5">
        <Figure label="Queued">{ms(request.queue_ms)}</Figure>
        <Figure label="First token (TTFT)" note={request.stream ? undefined : "not streamed"}>{request.stream ? ms(request.ttft_ms) : NONE}</Figure>
        <Figure label="Per token (TPOT)" note={rate === null ? undefined : `${rate.toFixed(1)} tokens/s`}>
          {ms(tpot)}
        </Figure>
        <Figure label="Tokens" note={`${count(request.input_cached_tokens)} cached`}>
          {count(request.input_tokens)} → {count(request.output_tokens)}
        </Figure>
        <Figure label="Total">{request.e2e_ms === null ? NONE : ms(request.e2e_ms)}</Figure>
      </div>
      {spans.length > 0 && (
        <>
          <div role="img" aria-label={spans.map((span) => `${span.name} ${ms(span.ms)}`).join(", ")} className="flex h-5 w-full gap-px overflow-hidden rounded">
            {spans.map((span) => (
              <div key={span.name} className={span.fill} style={{ flexGrow: span.ms, minWidth: 3 }} title={`${span.name}: ${ms(span.ms)}`} />
            ))}
          </div>
          <ul className="mt-2 flex flex-wrap gap-x-5 gap-y-1 text-[13px] text-ink-2">
            {spans.map((span) => (
              <li key={span.name} className="flex items-center gap-1.5">
                <span aria-hidden className={`size-2.5 rounded-sm ${span.fill}`} />
                {span.name} <span className="figure text-ink">{ms(span.ms)}</span>
              </li>
            ))}
          </ul>
        </>
      )}
    </Panel>
  );
}
