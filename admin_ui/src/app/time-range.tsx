/** The range of time in the top bar. It stands in the address, goes along from page to page, and the pages follow it. */
import { useNavigate, useRouterState, useSearch } from "@tanstack/react-router";
import { CalendarRange, Check, ChevronDown } from "lucide-react";
import { Popover } from "radix-ui";
import type { FormEvent } from "react";
import { useMemo, useState } from "react";
import { cn } from "@/lib/cn";
import type { Range } from "@/lib/range";
import { DEFAULT_RANGE, rangeOf, RANGES } from "@/lib/range";
import { shortTime } from "@/lib/time";
import { Button } from "@/ui/button";
import { Field, Input } from "@/ui/field";

type Words = Record<string, string | undefined>;
/** What shows a range of time, and on which tabs; the other pages show what is. */
const FOLLOWS: [RegExp, string[]][] = [
  [/^\/requests$/, [""]],
  [/^\/audit$/, [""]],
  [/^\/usage$/, ["", "explore"]],
  [/^\/alerts$/, ["", "board"]],
  [/^\/tenants\/./, ["", "summary", "usage", "slo", "requests", "activity"]],
];

export function useRange(): Range {
  const { range, from, to }: Words = useSearch({ strict: false });
  return useMemo(() => rangeOf(range, from, to), [range, from, to]);
}

export function useSetRange(): (range: string, from?: number, to?: number) => void {
  const navigate = useNavigate();
  return (range, from, to) =>
    void navigate({
      to: ".",
      search: (known: Words) => ({ ...known, range: range === DEFAULT_RANGE ? undefined : range, from: from === undefined ? undefined : String(from), to: to === undefined ? undefined : String(to) }),
      replace: true,
    });
}

export function TimeRange() {
  const path = useRouterState({ select: (state) => state.location.pathname });
  const { range: name = DEFAULT_RANGE, tab = "" }: Words = useSearch({ strict: false });
  const range = useRange();
  const set = useSetRange();
  const [open, setOpen] = useState(false);
  if (!FOLLOWS.some(([page, tabs]) => page.test(path) && tabs.includes(tab))) return null;
  const label = name === "custom" ? `${shortTime(range.start)} – ${shortTime(range.end)}` : range.label;
  return (
    <Popover.Root open={open} onOpenChange={setOpen}>
      <Popover.Trigger asChild>
        <Button aria-label={`Range of time: ${label}`} className="min-w-0 gap-2 px-2.5 font-normal">
          <CalendarRange className="text-ink-3" aria-hidden />
          <span className="figure hidden truncate sm:inline">{label}</span>
          <ChevronDown className="hidden text-ink-3 sm:inline" aria-hidden />
        </Button>
      </Popover.Trigger>
      <Popover.Portal>
        <Popover.Content align="end" sideOffset={4} aria-label="Range of time" className="floating rise z-50 w-64 rounded-lg border bg-raised p-1">
          <ul>
            {RANGES.map(([id, words]) => (
              <li key={id}>
                <button
                  type="button"
                  aria-pressed={id === name}
                  className="flex h-8 w-full items-center justify-between rounded-md px-2 text-left hover:bg-sunken"
                  onClick={() => {
                    set(id);
                    setOpen(false);
                  }}
                >
                  {words}
                  <Check className={cn("size-4 text-accent", id !== name && "invisible")} aria-hidden />
                </button>
              </li>
            ))}
          </ul>
          <Between
            range={range}
            onSet={(from, to) => {
              set("custom", from, to);
              setOpen(false);
            }}
          />
        </Popover.Content>
      </Popover.Portal>
    </Popover.Root>
  );
}

function Between({ range, onSet }: { range: Range; onSet: (from: number, to: number) => void }) {
  const [from, setFrom] = useState(asLocal(range.start));
  const [to, setTo] = useState(asLocal(range.end));
  const wrong = asUnix(to) <= asUnix(from) ? "It ends before it begins." : null;
  function submit(event: FormEvent) {
    event.preventDefault();
    if (wrong === null) onSet(asUnix(from), asUnix(to));
  }
  return (
    <form onSubmit={submit} className="mt-1 space-y-2 border-t p-2">
      <Field label="From">
        <Input type="datetime-local" required value={from} onChange={(event) => setFrom(event.target.value)} />
      </Field>
      <Field label="Until" error={wrong}>
        <Input type="datetime-local" required value={to} onChange={(event) => setTo(event.target.value)} />
      </Field>
      <Button type="submit" className="w-full" disabled={from === "" || to === "" || wrong !== null}>
        Show this range
      </Button>
    </form>
  );
}

/** In the viewer's zone, as the browser's own field has it. */
function asLocal(unix: number): string {
  const at = new Date(unix * 1000);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

const asUnix = (local: string): number => Math.floor(new Date(local).getTime() / 1000);
