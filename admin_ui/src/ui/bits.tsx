/** Small things that stand in many places: times, amounts, states, bars. */
import { Check, Copy } from "lucide-react";
import type { ReactNode } from "react";
import { useEffect, useState } from "react";
import { cn } from "@/lib/cn";
import { NONE } from "@/lib/format";
import { exactUsd, usd } from "@/lib/money";
import { exactTime, nowUnix, relative, shortTime, utcTime } from "@/lib/time";
import { Button } from "./button";

type Maybe = number | null | undefined;

export function Time({ at, short }: { at: Maybe; short?: boolean }) {
  if (at === null || at === undefined) return <span className="text-ink-3">{NONE}</span>;
  return (
    <time dateTime={new Date(at * 1000).toISOString()} title={`${exactTime(at)}\n${utcTime(at)}`} className="figure whitespace-nowrap">
      {short ? shortTime(at) : exactTime(at)}
    </time>
  );
}

/** The exact time with how far away it is. */
export function When({ at, never = NONE }: { at: Maybe; never?: string }) {
  const now = useNow();
  if (at === null || at === undefined) return <span className="text-ink-3">{never}</span>;
  return (
    <span className="whitespace-nowrap">
      <Time at={at} short /> <span className="text-ink-3">{relative(at, now)}</span>
    </span>
  );
}

export function Money({ nano, exact, decimals, className }: { nano: Maybe; exact?: boolean; decimals?: number; className?: string }) {
  if (nano === null || nano === undefined) return <span className="text-ink-3">{NONE}</span>;
  return (
    <span title={exactUsd(nano)} className={cn("figure whitespace-nowrap", className)}>
      {exact ? exactUsd(nano, decimals) : usd(nano)}
    </span>
  );
}

export type Tone = "good" | "warn" | "bad" | "plain" | "busy";

const TONES: Record<Tone, { box: string; shape: ReactNode }> = {
  good: { box: "bg-good-soft text-good", shape: <circle cx="5" cy="5" r="4" /> },
  busy: { box: "bg-accent-soft text-accent-ink", shape: <path d="M5 1a4 4 0 0 1 0 8z" /> },
  warn: { box: "bg-warn-soft text-warn", shape: <path d="M5 .8 9.6 9H.4z" /> },
  bad: { box: "bg-bad-soft text-bad", shape: <path d="M1 1h8v8H1z" /> },
  plain: { box: "bg-sunken text-ink-2", shape: <circle cx="5" cy="5" r="3.2" fill="none" stroke="currentColor" strokeWidth="1.6" /> },
};

/** Told by shape and word, and only then by colour. */
export function Status({ tone, children }: { tone: Tone; children: ReactNode }) {
  const { box, shape } = TONES[tone];
  return (
    <span className={cn("inline-flex h-5 items-center gap-1.5 rounded px-1.5 text-[12.5px] font-medium whitespace-nowrap", box)}>
      <svg viewBox="0 0 10 10" className="size-2" fill="currentColor" aria-hidden>
        {shape}
      </svg>
      {children}
    </span>
  );
}

export function Tag({ children, className }: { children: ReactNode; className?: string }) {
  return <span className={cn("inline-flex h-5 items-center rounded border bg-sunken px-1.5 font-mono text-[12px] whitespace-nowrap text-ink-2", className)}>{children}</span>;
}

export function Bar({ share, tone = "busy", label }: { share: number; tone?: Tone; label: string }) {
  const fill = { good: "bg-good", busy: "bg-accent", warn: "bg-warn", bad: "bg-bad", plain: "bg-ink-3" }[tone];
  const width = Math.min(1, Math.max(0, share)) * 100;
  return (
    <div role="meter" aria-label={label} aria-valuenow={Math.round(width)} aria-valuemin={0} aria-valuemax={100} className="h-1.5 w-full overflow-hidden rounded-full bg-line">
      <div className={cn("h-full rounded-full", fill)} style={{ width: `${width}%` }} />
    </div>
  );
}

export function CopyButton({ text, label = "Copy", look = "plain" }: { text: string; label?: string; look?: "plain" | "quiet" | "primary" }) {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return undefined;
    const timer = setTimeout(() => setCopied(false), 2000);
    return () => clearTimeout(timer);
  }, [copied]);
  return (
    <Button look={look} size="small" onClick={() => void copy(text).then(() => setCopied(true))}>
      {copied ? <Check /> : <Copy />}
      <span aria-live="polite">{copied ? "Copied" : label}</span>
    </Button>
  );
}

/** Pages on plain http have no clipboard of their own. */
async function copy(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
  return undefined;
}

export function Id({ children }: { children: string }) {
  return <code className="font-mono text-[12.5px] text-ink-2">{children}</code>;
}

/** Now, again every half minute. */
export function useNow(everyMs = 30_000): number {
  const [now, setNow] = useState(nowUnix);
  useEffect(() => {
    const timer = setInterval(() => setNow(nowUnix()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}

/** When a live view was last brought up to date, or that it is not. */
export function Freshness({ at, failing }: { at: number; failing: boolean }) {
  const now = useNow(5_000);
  if (!at) return null;
  const since = now - Math.floor(at / 1000);
  return (
    <span className={cn("text-[12.5px]", failing ? "text-bad" : "text-ink-3")}>
      {failing ? `Not updated since ${exactTime(at / 1000)}` : since < 15 ? "Updated just now" : `Updated ${relative(Math.floor(at / 1000), now)}`}
    </span>
  );
}
