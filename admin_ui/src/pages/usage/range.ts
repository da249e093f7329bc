/** The ranges of time that usage is looked at in, and their buckets. Money is counted in UTC days. */
import { nowUnix, utcDay } from "@/lib/time";

export interface Range {
  start: number;
  end: number;
  /** Of one bucket, in seconds. */
  width: number;
  label: string;
}

const HOUR = 3600;
const DAY = 86_400;
export const RANGES = [
  ["1h", "Last hour"],
  ["24h", "Last 24 hours"],
  ["7d", "Last 7 days"],
  ["30d", "Last 30 days"],
  ["month", "This month, UTC"],
  ["last-month", "Last month, UTC"],
] as const;

export function rangeOf(name: string | undefined, from?: string, to?: string, now = nowUnix()): Range {
  if (name === "custom" && from && to && Number(to) > Number(from)) return chosen(Number(from), Number(to));
  const hourEnd = now - (now % HOUR) + HOUR;
  const dayEnd = utcDay(now) + DAY;
  const label = RANGES.find(([id]) => id === name)?.[1] ?? "Last 7 days";
  if (name === "1h") return { start: now - (now % 60) - HOUR, end: now - (now % 60) + 60, width: 60, label };
  if (name === "24h") return { start: hourEnd - DAY, end: hourEnd, width: HOUR, label };
  if (name === "30d") return { start: dayEnd - 30 * DAY, end: dayEnd, width: DAY, label };
  if (name === "month") return { start: monthStart(now, 0), end: dayEnd, width: DAY, label };
  if (name === "last-month") return { start: monthStart(now, -1), end: monthStart(now, 0), width: DAY, label };
  return { start: dayEnd - 7 * DAY, end: dayEnd, width: DAY, label };
}

function chosen(from: number, to: number): Range {
  const width = to - from <= 3 * HOUR ? 60 : to - from <= 3 * DAY ? HOUR : DAY;
  return { start: from - (from % width), end: to + ((width - (to % width)) % width), width, label: "Chosen range" };
}

function monthStart(now: number, months: number): number {
  const at = new Date(now * 1000);
  return Date.UTC(at.getUTCFullYear(), at.getUTCMonth() + months, 1) / 1000;
}
