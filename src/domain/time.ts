// A time in the domain is a number of epoch seconds with a fraction (semantics 1.9). Nothing here reads a clock.

/** Calls `onExpiry` once after `seconds`; the returned function cancels it. */
export type Timer = (seconds: number, onExpiry: () => void) => () => void;

/** Seconds in a UTC day. */
export const DAY_S = 86_400;

/** When last night began, in epoch seconds: at six in the evening, in UTC. */
export const lastEvening = (now: number): number => Math.floor(now / DAY_S) * DAY_S - DAY_S / 4;

/** Latest time, in epoch seconds, at which an API key may expire: the start of 2100 (semantics 1.6). */
export const MAX_EXPIRY_S = 4_102_444_800;

/**
 * Epoch seconds as decimal text, for the times of an artifact, which the API writes as strings (wire-contract 1.7).
 * Never uses an exponent, because clients parse the text as a plain decimal. `1700000000.25` -> "1700000000.25".
 * @throws RangeError for NaN and infinities, which neither a clock nor validated input yields
 */
export function formatEpoch(seconds: number): string {
  if (!Number.isFinite(seconds)) throw new RangeError("Not a point in time");
  const shortest = String(seconds === 0 ? 0 : seconds);
  if (!shortest.includes("e")) return shortest;
  // JavaScript uses an exponent from 1e21 up, where all numbers are whole, and below 1e-6, where toFixed is exact to
  // 1e-20.
  if (Math.abs(seconds) >= 1) return BigInt(seconds).toString();
  const fixed = seconds.toFixed(20).replace(/\.?0+$/, "");
  return fixed === "-0" ? "0" : fixed;
}

/**
 * The name that a flow or environment gets when it is archived (semantics 1.8). It has whole seconds, because a
 * fraction would only be noise in a name. A name archived twice in one second collides: the caller must then use a
 * later second.
 * @param epochSeconds time of archiving
 */
export function formatArchivedName(name: string, epochSeconds: number): string {
  return `${name}-archived-at-${formatEpoch(Math.floor(epochSeconds))}`;
}

/**
 * Date, then optionally time and zone. The zone's `+` may be a space, because an unescaped `+` in a query decodes to
 * one (wire-contract 1.1). Groups: year, month, day, hour, minute, second, fraction, zone.
 */
const ISO_TIME =
  /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?(Z|[+ -]\d\d(?::?\d\d)?)?)?$/i;
const TIME_OF_DAY_PATTERN = String.raw`\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:[Zz]|[+ \-]\d\d(?::?\d\d)?)?`;
/**
 * What the API document publishes of parseIsoTime. It also matches dates that no calendar has, and the empty text.
 */
export const ISO_TIME_PATTERN = String.raw`^(?:\d{4}-\d\d-\d\d(?:[Tt ]${TIME_OF_DAY_PATTERN})?)?$`;
const ISO_DATE_CHARS = "2023-11-14".length;

/**
 * Epoch seconds of an ISO 8601 text, null if it is not one. The zone defaults to UTC. A date alone means the start of
 * that day, or with `endOfDay` its end, so that an inclusive upper bound includes the day.
 */
export function parseIsoTime(text: string, { endOfDay = false }: { endOfDay?: boolean } = {}): number | null {
  const [, year, month, day, hour = "00", minute = "00", second = "00", fraction = "0", zone = "Z"] =
    ISO_TIME.exec(text) ?? [];
  if (year === undefined) return null;
  const plain = `${year}-${month}-${day}T${hour}:${minute}:${second}`;
  const milliseconds = Date.parse(`${plain}.000Z`);
  // Date.parse reads 30 February and hour 24 as the next day: the text is valid only if it survives the round trip.
  if (Number.isNaN(milliseconds) || new Date(milliseconds).toISOString().slice(0, plain.length) !== plain) return null;
  const offsetS = parseZoneOffset(zone);
  if (offsetS === null) return null;
  if (endOfDay && text.length === ISO_DATE_CHARS) return milliseconds / 1000 + DAY_S - 1e-6;
  return milliseconds / 1000 + Number(`0.${fraction}`) - offsetS;
}

/** Seconds east of UTC of `Z`, `+02`, `+0200` or `+02:00`; null for an hour above 23 or a minute above 59. */
function parseZoneOffset(zone: string): number | null {
  if (zone === "Z" || zone === "z") return 0;
  const [hours, minutes] = [Number(zone.slice(1, 3)), Number(zone.slice(3).replace(":", "") || "0")];
  if (hours > 23 || minutes > 59) return null;
  return (zone.startsWith("-") ? -1 : 1) * (hours * 3600 + minutes * 60);
}

/** Merges two histories by time. Each keeps its own order; at equal times the first history's entries come first. */
export const mergeByTime = <T extends { timestamp: number }>(one: readonly T[], other: readonly T[]): T[] => [
  ...iterateByTime(one, other),
];

/** As mergeByTime, but yields one entry at a time, because the first history may not fit in memory. */
export function* iterateByTime<T extends { timestamp: number }>(one: Iterable<T>, other: readonly T[]): Generator<T> {
  let next = 0;
  for (const entry of one) {
    for (let later = other[next]; later && later.timestamp < entry.timestamp; later = other[(next += 1)]) yield later;
    yield entry;
  }
  yield* other.slice(next);
}

/** Clients accept whole seconds only. An old record may hold any number; one beyond every clock counts as no expiry. */
export const toWholeSeconds = (seconds: number): number =>
  Number.isSafeInteger(Math.floor(seconds)) ? Math.floor(seconds) : 0;

/** The first second of the year 1 and the last one of the year 9999, in epoch seconds. */
const [MIN_CALENDAR_S, MAX_CALENDAR_S] = [-62_135_596_800, 253_402_300_799];

/** Whether a time in epoch seconds has a date of four digits. Clients report any number, also microseconds. */
export const isCalendarTime = (seconds: number): boolean => seconds >= MIN_CALENDAR_S && seconds <= MAX_CALENDAR_S;

/** What is shown of a reported time that has no date. */
export const describeNoDate = (seconds: number): string => `${seconds} (not a date)`;

/** Epoch seconds for people, to the minute: `2026-03-01 09:30 UTC`. */
export const formatMinute = (at: number): string =>
  `${new Date(at * 1000).toISOString().slice(0, 16).replace("T", " ")} UTC`;

/** The time from `now` to `at` for people, in days and at least one. */
export function formatDaysLeft(at: number, now: number): string {
  const days = Math.max(1, Math.round((at - now) / DAY_S));
  return `${days} ${days === 1 ? "day" : "days"}`;
}
