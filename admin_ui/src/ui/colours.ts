/** The same colour for the same thing on every chart: by its name, the next free one when two fall together. */
const PALETTE = ["#4f6df0", "#12a594", "#e5803c", "#b04fc9", "#d6a400", "#e2547a", "#3d9ad6", "#6ba539", "#8a6df0", "#a0715a"];
export const REST_COLOUR = "#8b8b98";

export function coloursOf(names: string[]): Map<string, string> {
  const taken = new Set<number>();
  const found = new Map<string, string>();
  for (const name of names) {
    let place = hash(name) % PALETTE.length;
    for (let tries = 0; taken.has(place) && tries < PALETTE.length; tries += 1) place = (place + 1) % PALETTE.length;
    taken.add(place);
    found.set(name, PALETTE[place] ?? REST_COLOUR);
  }
  return found;
}

function hash(text: string): number {
  let value = 0;
  for (const letter of text) value = (Math.imul(value, 31) + (letter.codePointAt(0) ?? 0)) >>> 0;
  return value;
}
