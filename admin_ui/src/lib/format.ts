/** Numbers as they are read: grouped, with few words for the large ones. */

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en-US", { notation: "compact", maximumSignificantDigits: 3 });

export const NONE = "–";

export function count(value: number | null | undefined): string {
  return value === null || value === undefined ? NONE : whole.format(value);
}

export function compact(value: number | null | undefined): string {
  if (value === null || value === undefined) return NONE;
  return Math.abs(value) < 10_000 ? whole.format(value) : short.format(value);
}

export function percent(share: number | null | undefined, digits = 1): string {
  return share === null || share === undefined ? NONE : `${(share * 100).toFixed(digits)} %`;
}

/** Milliseconds: `840 ms`, `1.84 s`, `2 min 5 s`. */
export function ms(value: number | null | undefined): string {
  if (value === null || value === undefined) return NONE;
  if (value < 1000) return `${value < 10 ? value.toFixed(1).replace(/\.0$/, "") : Math.round(value)} ms`;
  if (value < 60_000) return `${(value / 1000).toFixed(2)} s`;
  return `${Math.floor(value / 60_000)} min ${Math.round((value % 60_000) / 1000)} s`;
}

export function bytes(value: number): string {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let size = value;
  let unit = 0;
  while (size >= 1000 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${unit === 0 || size >= 100 ? Math.round(size) : size.toFixed(1)} ${units[unit]}`;
}

export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** The change from one figure to another, as a share; null when there was nothing to compare with. */
export function change(now: number, before: number): number | null {
  return before === 0 ? null : (now - before) / before;
}

export function words(text: string): string {
  const spaced = text.replaceAll(/[_.]/g, " ");
  return spaced.charAt(0).toUpperCase() + spaced.slice(1);
}
