// Time inside the domain is a number of epoch seconds with a fraction (semantics 1.9). Nothing here reads a clock.

/**
 * Epoch seconds as decimal text, for the times of an artifact, which the API writes as strings (wire-contract 1.7).
 * Never uses an exponent: clients parse the text as a plain decimal. `1700000000.25` -> "1700000000.25".
 * @throws RangeError for NaN and infinities, which no clock and no validated input yields
 */
export function epochText(seconds: number): string {
  if (!Number.isFinite(seconds)) throw new RangeError("Not a point in time");
  const shortest = String(seconds === 0 ? 0 : seconds);
  if (!shortest.includes("e")) return shortest;
  // Numbers print with an exponent from 1e21 up, where all are whole, and below 1e-6, where toFixed is exact to 1e-20.
  if (Math.abs(seconds) >= 1) return BigInt(seconds).toString();
  const fixed = seconds.toFixed(20).replace(/\.?0+$/, "");
  return fixed === "-0" ? "0" : fixed;
}

/**
 * The name under which an archived flow or environment goes on (semantics 1.8); whole seconds, because a fraction's dot
 * and digits would only be noise in a name. Two archivings of one name in one second collide: the caller must then take
 * a later second.
 * @param epochSeconds the moment of archiving
 */
export function archivedName(name: string, epochSeconds: number): string {
  return `${name}-archived-at-${epochText(Math.floor(epochSeconds))}`;
}

/** Two histories as one, by time; each keeps its own order, and of the same moment the first one's come first. */
export function mergedByTime<T extends { timestamp: number }>(one: readonly T[], other: readonly T[]): T[] {
  const merged: T[] = [];
  let next = 0;
  for (const entry of one) {
    for (let later = other[next]; later && later.timestamp < entry.timestamp; later = other[(next += 1)]) merged.push(later);
    merged.push(entry);
  }
  return [...merged, ...other.slice(next)];
}
