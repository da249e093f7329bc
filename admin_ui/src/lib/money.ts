/** Amounts are whole nano-dollars. They are shown from the integer, never through a float. */

const NANO = 1_000_000_000n;

/** All significant digits, at least cents: `$0.000001234`. */
export function exactUsd(nanousd: number | bigint, decimals = 2): string {
  const { sign, whole, fraction } = parts(nanousd);
  const digits = fraction.replace(/0+$/, "").padEnd(decimals, "0");
  return `${sign}$${grouped(whole)}.${digits}`;
}

/** For reading at a glance: cents, or three significant digits below a dollar. Rounded half away from zero. */
export function usd(nanousd: number | bigint): string {
  const value = BigInt(nanousd);
  const size = value < 0n ? -value : value;
  if (size === 0n) return "$0.00";
  const unit = size >= NANO / 10n ? NANO / 100n : precision(size);
  const rounded = ((size + unit / 2n) / unit) * unit;
  return exactUsd(value < 0n ? -rounded : rounded, 10 - String(unit).length);
}

/** How many decimals it takes to show all of these. */
export function decimalsOf(amounts: (number | null | undefined)[]): number {
  return Math.max(2, ...amounts.map((nano) => parts(nano ?? 0).fraction.replace(/0+$/, "").length));
}

/** Dollars as somebody typed them to nano-dollars; null when that is no amount. */
export function parseUsd(text: string): number | null {
  const found = /^\s*\$?\s*(\d{1,9}(?:,\d{3})*)(?:\.(\d{0,9}))?\s*$/.exec(text);
  if (!found) return null;
  const whole = BigInt((found[1] ?? "0").replaceAll(",", ""));
  const value = whole * NANO + BigInt((found[2] ?? "").padEnd(9, "0"));
  return value > BigInt(Number.MAX_SAFE_INTEGER) ? null : Number(value);
}

/** A field's text for an amount: no sign of currency, no groups. */
export function plainUsd(nanousd: number): string {
  return exactUsd(nanousd).replaceAll(/[$,]/g, "");
}

/** A price of one token, a decimal string of nano-dollars, per million tokens: "150" is "$0.15". */
export function perMillion(nanousdPerToken: string): string {
  const [whole = "0", fraction = ""] = nanousdPerToken.split(".");
  const nanousd = BigInt(whole + fraction.padEnd(6, "0").slice(0, 6));
  return exactUsd(nanousd);
}

/** The other way: dollars per million tokens to nano-dollars per token, as a decimal string. */
export function perToken(usdPerMillion: string): string | null {
  const nanousd = parseUsd(usdPerMillion);
  if (nanousd === null) return null;
  const digits = String(nanousd).padStart(7, "0");
  return `${digits.slice(0, -6)}.${digits.slice(-6)}`.replace(/\.?0+$/, "") || "0";
}

function parts(nanousd: number | bigint): { sign: string; whole: bigint; fraction: string } {
  const value = BigInt(nanousd);
  const size = value < 0n ? -value : value;
  return { sign: value < 0n ? "−" : "", whole: size / NANO, fraction: String(size % NANO).padStart(9, "0") };
}

function precision(size: bigint): bigint {
  const digits = String(size).length;
  return 10n ** BigInt(Math.max(0, digits - 3));
}

function grouped(whole: bigint): string {
  return String(whole).replaceAll(/\B(?=(\d{3})+$)/g, ",");
}
