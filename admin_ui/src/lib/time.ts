/** Instants are Unix seconds; shown in the viewer's zone, with UTC for whoever asks. */

const local = new Intl.DateTimeFormat("en-GB", { day: "2-digit", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit" });
const minute = new Intl.DateTimeFormat("en-GB", { day: "2-digit", month: "short", hour: "2-digit", minute: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "2-digit", month: "short", year: "numeric" });

export const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;

export const exactTime = (unix: number): string => local.format(unix * 1000);
export const shortTime = (unix: number): string => minute.format(unix * 1000);
export const dayOf = (unix: number): string => day.format(unix * 1000);

export function utcTime(unix: number): string {
  return `${new Date(unix * 1000).toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

const STEPS: [number, string][] = [
  [60, "second"],
  [3600, "minute"],
  [86_400, "hour"],
  [86_400 * 30, "day"],
  [86_400 * 365, "month"],
  [Infinity, "year"],
];

/** `3 minutes ago`, `in 2 days`; always shown beside the exact time. */
export function relative(unix: number, now: number): string {
  const distance = Math.abs(unix - now);
  if (distance < 5) return "now";
  let size = 1;
  for (const [limit, unit] of STEPS) {
    if (distance < limit) {
      const value = Math.floor(distance / size);
      const text = `${value} ${unit}${value === 1 ? "" : "s"}`;
      return unix < now ? `${text} ago` : `in ${text}`;
    }
    size = limit;
  }
  return "";
}

export const nowUnix = (): number => Math.floor(Date.now() / 1000);

/** So many days before now, to the minute, so that the answer can be kept. */
export function daysAgo(days: number): number {
  const now = nowUnix();
  return now - (now % 60) - days * 86_400;
}

/** The start of the UTC day that holds the instant: money is counted in UTC days. */
export const utcDay = (unix: number): number => unix - (unix % 86_400);

export const isoDay = (unix: number): string => new Date(unix * 1000).toISOString().slice(0, 10);
