// Time inside the domain is a number of epoch seconds with a fraction (semantics 1.9). Nothing here reads a clock.

/** Calls `ring` once after so many seconds, unless the function that it returns was called before. */
export type Timer = (seconds: number, ring: () => void) => () => void;

/** Seconds of a UTC day. */
export const DAY_S = 86_400;

/** The latest moment at which an API key may expire (semantics 1.6). */
export const MAX_EXPIRY_S = 4_102_444_800;

/**
 * Epoch seconds as decimal text, for the times of an artifact, which the API writes as strings (wire-contract 1.7).
 * Never uses an exponent: clients parse the text as a plain decimal. `1700000000.25` -> "1700000000.25".
 * @throws RangeError for NaN and infinities, which no clock and no validated input yields
 */
export function formatEpoch(seconds: number): string {
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
export function formatArchivedName(name: string, epochSeconds: number): string {
  return `${name}-archived-at-${formatEpoch(Math.floor(epochSeconds))}`;
}

/**
 * Date, then optionally time and zone. The zone's `+` may be a space, which an unescaped `+` in a query becomes
 * (wire-contract 1.1). Groups: year, month, day, hour, minute, second, fraction, zone.
 */
const ISO_TIME =
  /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?(Z|[+ -]\d\d(?::?\d\d)?)?)?$/i;
/** The texts that parseIsoTime reads, days that no calendar has among them, and the empty one; for the API document. */
export const ISO_TIME_PATTERN = String.raw`^(?:\d{4}-\d\d-\d\d(?:[Tt ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:[Zz]|[+ \-]\d\d(?::?\d\d)?)?)?)?$`;
const ISO_DATE_LENGTH = "2023-11-14".length;

/**
 * Epoch seconds of an ISO 8601 text, null when it is none. Without a zone it is UTC. A date alone is the first moment
 * of that day; with `wholeDay` the last one, so that an inclusive upper bound includes the day.
 */
export function parseIsoTime(text: string, wholeDay = false): number | null {
  const [, year, month, day, hour = "00", minute = "00", second = "00", fraction = "0", zone = "Z"] =
    ISO_TIME.exec(text) ?? [];
  if (year === undefined) return null;
  const plain = `${year}-${month}-${day}T${hour}:${minute}:${second}`;
  const milliseconds = Date.parse(`${plain}.000Z`);
  // The 30th of February and the hour 24 are read as the next day: only what comes out as it went in was a time.
  if (Number.isNaN(milliseconds) || new Date(milliseconds).toISOString().slice(0, plain.length) !== plain) return null;
  const offset = zoneOffset(zone);
  if (offset === null) return null;
  if (wholeDay && text.length === ISO_DATE_LENGTH) return milliseconds / 1000 + DAY_S - 1e-6;
  return milliseconds / 1000 + Number(`0.${fraction}`) - offset;
}

/** Seconds east of UTC of `Z`, `+02`, `+0200` or `+02:00`; null for an hour above 23 or a minute above 59. */
function zoneOffset(zone: string): number | null {
  if (zone === "Z" || zone === "z") return 0;
  const [hours, minutes] = [Number(zone.slice(1, 3)), Number(zone.slice(3).replace(":", "") || "0")];
  if (hours > 23 || minutes > 59) return null;
  return (zone.startsWith("-") ? -1 : 1) * (hours * 3600 + minutes * 60);
}

/** Two histories as one, by time; each keeps its own order, and of the same moment the first one's come first. */
export const mergeByTime = <T extends { timestamp: number }>(one: readonly T[], other: readonly T[]): T[] => [
  ...iterateByTime(one, other),
];

/** As mergedByTime, one entry after the other: the first history may be longer than memory. */
export function* iterateByTime<T extends { timestamp: number }>(one: Iterable<T>, other: readonly T[]): Generator<T> {
  let next = 0;
  for (const entry of one) {
    for (let later = other[next]; later && later.timestamp < entry.timestamp; later = other[(next += 1)]) yield later;
    yield entry;
  }
  yield* other.slice(next);
}
