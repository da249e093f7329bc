/** The ranges of time that pages look at, and their buckets. Money is counted in UTC days. */
import { nowUnix, utcDay } from "@/lib/time";

export interface Range {
  start: number;
  end: number;
  /** Of one bucket, in seconds. */
  width: number;
  label: string;
  /** As part of a sentence: "in the last 7 days". */
  during: string;
  /** It goes on: what happens now belongs to it. */
  isOpen: boolean;
}

const HOUR = 3600;
const DAY = 86_400;
export const RANGES = [
  ["1h", "Last hour", "in the last hour"],
  ["24h", "Last 24 hours", "in the last 24 hours"],
  ["7d", "Last 7 days", "in the last 7 days"],
  ["30d", "Last 30 days", "in the last 30 days"],
  ["month", "This month, UTC", "this month"],
  ["last-month", "Last month, UTC", "last month"],
] as const;
export const DEFAULT_RANGE = "7d";

export function rangeOf(name: string | undefined, from?: string, to?: string, now = nowUnix()): Range {
  if (name === "custom" && from && to && Number(to) > Number(from)) return chosen(Number(from), Number(to));
  const hourEnd = now - (now % HOUR) + HOUR;
  const dayEnd = utcDay(now) + DAY;
  const [, label, during] = RANGES.find(([id]) => id === name) ?? RANGES[2];
  const said = { label, during, isOpen: name !== "last-month" };
  if (name === "1h") return { start: now - (now % 60) - HOUR, end: now - (now % 60) + 60, width: 60, ...said };
  if (name === "24h") return { start: hourEnd - DAY, end: hourEnd, width: HOUR, ...said };
  if (name === "30d") return { start: dayEnd - 30 * DAY, end: dayEnd, width: DAY, ...said };
  if (name === "month") return { start: monthStart(now, 0), end: dayEnd, width: DAY, ...said };
  if (name === "last-month") return { start: monthStart(now, -1), end: monthStart(now, 0), width: DAY, ...said };
  return { start: dayEnd - 7 * DAY, end: dayEnd, width: DAY, ...said };
}

function chosen(from: number, to: number): Range {
  const width = to - from <= 3 * HOUR ? 60 : to - from <= 3 * DAY ? HOUR : DAY;
  return { start: from - (from % width), end: to + ((width - (to % width)) % width), width, label: "Chosen range", during: "in the chosen range", isOpen: false };
}

function monthStart(now: number, months: number): number {
  const at = new Date(now * 1000);
  return Date.UTC(at.getUTCFullYear(), at.getUTCMonth() + months, 1) / 1000;
}
