/**
 * Parses positions in the history of an environment (semantics 6.6): expressions of the snapshot read and of the diff,
 * intervals of the snapshot list, bounds of the events. Parsing needs no environment: the result is a position, which
 * resolves to an index once the number of snapshots is known. Numbers that a double cannot hold exactly are clamped:
 * they are well formed, but match no snapshot.
 */
import { FLOW_NAME, matches } from "../names.ts";
import { DAY_S, ISO_TIME_PATTERN, isCalendarTime, parseIsoTime } from "../time.ts";

/** A position in history: an index as written, maybe 0 or negative; N behind the latest; or a time in epoch seconds. */
export type Position =
  | { kind: "index"; index: number }
  | { kind: "behind"; behind: number }
  | { kind: "time"; at: number };

const HOUR_S = 3600;
/** The specification does not define the length of a month; 30 days needs no calendar. */
const MONTH_S = 30 * DAY_S;
const LATEST: Position = { kind: "index", index: -1 };
/** A larger integer as a bound of events is a unix timestamp (semantics 13.78). */
const MAX_BOUND_INDEX = 1_000_000_000;

// The part of the grammar that the API document publishes; the functions also refuse dates that no calendar has.
const DATE_PATTERN = String.raw`\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])`;
const MOMENT_PATTERN = `${DATE_PATTERN}${String.raw`T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?Z?`}`;
const TIME_PATTERN = String.raw`@\{(?:now|\d+\.(?:hour|day|week|month)s?\.ago|${MOMENT_PATTERN})\}`;
const POSITION_SOURCE = String.raw`#?-?\d+|~\d+|${TIME_PATTERN}`;
const SIDE_PATTERN = `(?:NOW|${POSITION_SOURCE})?`;

/** The texts that parsePosition accepts. */
export const POSITION_PATTERN = `^(?:${POSITION_SOURCE})$`;
const PLACED_SOURCE = String.raw`${FLOW_NAME.slice(0, -1)}(?:#-?\d+|~\d+|${TIME_PATTERN})`;
/** The texts that parseSnapshotExpression accepts. */
export const SNAPSHOT_EXPRESSION_PATTERN = `${PLACED_SOURCE}?$`;
/** Those of them that say which snapshot. */
export const PLACED_SNAPSHOT_PATTERN = `${PLACED_SOURCE}$`;
/** The texts that parseInterval accepts, and the empty one. */
export const INTERVAL_PATTERN = String.raw`^${SIDE_PATTERN}(?:\.\.${SIDE_PATTERN})?$`;

const INDEX = /^-?\d+$/;
const BEHIND = /^\d+$/;
const MOMENT = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?Z?$/;
const AGO = /^(\d+)\.(hour|day|week|month)s?\.ago$/;
const DURATION = /^(\d+)([a-z]+)$/;

const AGO_UNITS_S: ReadonlyMap<string, number> = new Map([
  ["hour", HOUR_S],
  ["day", DAY_S],
  ["week", 7 * DAY_S],
  ["month", MONTH_S],
]);
const DURATION_UNITS_S: ReadonlyMap<string, number> = new Map([
  ...["s", "sec", "secs", "second", "seconds"].map((word) => [word, 1] as const),
  ...["m", "min", "mins", "minute", "minutes"].map((word) => [word, 60] as const),
  ...["h", "hr", "hrs", "hour", "hours"].map((word) => [word, HOUR_S] as const),
  ...["d", "day", "days"].map((word) => [word, DAY_S] as const),
  ...["w", "week", "weeks"].map((word) => [word, 7 * DAY_S] as const),
  ...["mo", "mon", "month", "months"].map((word) => [word, MONTH_S] as const),
]);

/** The texts that parseBound accepts, and the empty one. */
export const BOUND_PATTERN = String.raw`^(?:NOW|-?\d+|\d+(?:${[...DURATION_UNITS_S.keys()].join("|")}))?$`;

/**
 * Parses the position of a snapshot read: `N`, `-N`, `#N`, `#-N`, `~N`, `@{YYYY-MM-DDTHH:MM:SS}` (UTC; a fraction and a
 * `Z` are allowed), `@{N.hours|days|weeks|months.ago}` (also in the singular) or `@{now}`; only one of `#`, `~` and
 * `@`.
 * @param now epoch seconds
 * @returns null if it is malformed or has a date that no calendar has
 */
export function parsePosition(text: string, now: number): Position | null {
  if (text.startsWith("~")) {
    const behind = text.slice(1);
    return BEHIND.test(behind) ? { kind: "behind", behind: parseInteger(behind) } : null;
  }
  if (text.startsWith("@{") && text.endsWith("}")) {
    const at = parseMoment(text.slice(2, -1), now);
    return at === null ? null : { kind: "time", at };
  }
  const index = text.startsWith("#") ? text.slice(1) : text;
  return INDEX.test(index) ? { kind: "index", index: parseInteger(index) } : null;
}

/**
 * Parses a side of a diff: `ENV`, `ENV#N`, `ENV~N` or `ENV@{...}`; a bare name means the latest snapshot. Stored names
 * may contain `~` (semantics 6.2), so the position begins at the last sign, and a `~` without a number after it belongs
 * to the name. An old name that itself ends in `~N` needs an explicit position: `old~2#-1`.
 * @param now epoch seconds
 * @returns null if it is malformed; the caller checks whether the environment exists
 */
export function parseSnapshotExpression(text: string, now: number): { environment: string; position: Position } | null {
  const sign = findSign(text);
  const environment = text.slice(0, sign);
  // Stored environment names follow the grammar of flows, which is that of new environments and `~`.
  if (!matches(FLOW_NAME, environment)) return null;
  const position = sign === text.length ? LATEST : parsePosition(text.slice(sign), now);
  return position && { environment, position };
}

/** The offset at which the position begins, or the length of a bare name. */
function findSign(text: string): number {
  const explicit = text.endsWith("}") ? text.lastIndexOf("@{") : text.lastIndexOf("#");
  if (explicit >= 0) return explicit;
  const tilde = text.lastIndexOf("~");
  return tilde >= 0 && BEHIND.test(text.slice(tilde + 1)) ? tilde : text.length;
}

/**
 * The index of a position. It may be outside 1..count, which a snapshot read reports.
 * @param count number of snapshots, which is the index of the latest
 * @param indexAt index of the snapshot at a time in epoch seconds, 0 before the first
 */
export function resolvePosition(position: Position, count: number, indexAt: (epochSeconds: number) => number): number {
  switch (position.kind) {
    case "index":
      return position.index < 0 ? count + position.index + 1 : position.index;
    case "behind":
      return count - position.behind;
    case "time":
      return indexAt(position.at);
  }
}

/** A position in the 404 of a snapshot read (messages 10): `prod#-1`, `prod#7`, `prod~2`, `prod@{now}`. */
export function formatSnapshotLabel(environment: string, expression: string): string {
  return /^[#~@]/.test(expression) ? environment + expression : `${environment}#${expression}`;
}

/**
 * Parses an interval of snapshots: `A..B`, each side a position as in parsePosition or `NOW`, which is the latest. An
 * omitted side is NOW, and so is the end if there is only one side: `3` is `3..NOW`. The empty text means no interval
 * (semantics 6.6), which the caller must check first.
 * @param now epoch seconds
 * @returns null if it is malformed or empty
 */
export function parseInterval(text: string, now: number): { from: Position; to: Position } | null {
  if (text === "") return null;
  const dots = text.indexOf("..");
  const from = parseSide(dots < 0 ? text : text.slice(0, dots), now);
  const to = dots < 0 ? LATEST : parseSide(text.slice(dots + 2), now);
  return from && to && { from, to };
}

/**
 * Parses a bound of events: a positive or negative index, `NOW`, a duration such as `1h`, `2days` or `30mins` (that
 * long ago), or a unix timestamp; every integer above 1000000000 is one.
 * @param now epoch seconds
 * @returns null if it is malformed
 */
export function parseBound(text: string, now: number): Position | null {
  if (text === "NOW") return LATEST;
  if (INDEX.test(text)) {
    const number = parseInteger(text);
    return number > MAX_BOUND_INDEX ? { kind: "time", at: number } : { kind: "index", index: number };
  }
  const [, amount, word] = DURATION.exec(text) ?? [];
  const unit = DURATION_UNITS_S.get(word ?? "");
  return amount === undefined || unit === undefined ? null : { kind: "time", at: now - parseInteger(amount) * unit };
}

/** Epoch seconds with a fraction. */
const EPOCH = /^\d{10,12}\.\d{1,9}$/;
/** What the API document publishes of parseTimeExpression. It also matches indexes, and dates that no calendar has. */
export const TIME_EXPRESSION_PATTERN = [
  ISO_TIME_PATTERN,
  BOUND_PATTERN,
  `^${TIME_PATTERN}$`,
  EPOCH.source,
  "^now$",
].join("|");

/**
 * Epoch seconds of a time that does not depend on snapshots: an ISO 8601 date or time, `now`, seconds with a fraction,
 * or any text that parsePosition and parseBound read as a time.
 * @param now epoch seconds
 * @returns null if it is none, or has no date of four digits
 */
export function parseTimeExpression(text: string, now: number, options: { endOfDay?: boolean } = {}): number | null {
  if (text === "now") return now;
  if (EPOCH.test(text)) return Number(text);
  const at = parseIsoTime(text, options) ?? timeOf(parsePosition(text, now)) ?? timeOf(parseBound(text, now));
  return at !== null && isCalendarTime(at) ? at : null;
}

const timeOf = (position: Position | null): number | null => (position?.kind === "time" ? position.at : null);

/**
 * The snapshots between two positions, both included and clipped to 1..count. The positions may be in either order,
 * because an omitted left side is NOW: `..3` are the snapshots from the third on. A time means the snapshot at that
 * time, which was taken before it; to find only what happened since, compare times instead.
 * @param count,indexAt as for resolvePosition
 * @returns null if no snapshot is left, the range ends before the first snapshot, or it begins after the latest
 *   (isBeyondLatest)
 */
export function resolveRange(
  { from, to }: { from: Position; to: Position },
  count: number,
  indexAt: (epochSeconds: number) => number,
): { first: number; last: number } | null {
  const start = resolvePosition(from, count, indexAt);
  const end = resolvePosition(to, count, indexAt);
  if ((to.kind === "time" && end < 1) || isBeyondLatest(to, start, count)) return null;
  const first = Math.max(1, Math.min(start, end));
  const last = Math.min(count, Math.max(start, end));
  return first <= last ? { first, last } : null;
}

/**
 * Whether a range begins at a future snapshot, as `9..NOW` does when there are three, and is not just in reverse order.
 * Its end moves with the history, so it does not mean the last snapshot.
 */
export const isBeyondLatest = (to: Position, start: number, count: number): boolean =>
  start > count && !(to.kind === "index" && to.index > 0);

function parseSide(text: string, now: number): Position | null {
  return text === "" || text === "NOW" ? LATEST : parsePosition(text, now);
}

/** Parses the text between the braces into epoch seconds, which may be in the future or before 1970. */
function parseMoment(text: string, now: number): number | null {
  if (text === "now") return now;
  const [, amount, word] = AGO.exec(text) ?? [];
  if (amount !== undefined) return now - parseInteger(amount) * (AGO_UNITS_S.get(word ?? "") ?? 0);

  const [, second, fraction] = MOMENT.exec(text) ?? [];
  if (second === undefined) return null;
  const milliseconds = Date.parse(`${second}Z`);
  // Date.parse reads 30 February as a day of March.
  if (Number.isNaN(milliseconds) || new Date(milliseconds).toISOString().slice(0, second.length) !== second)
    return null;
  return milliseconds / 1000 + Number(`0${fraction ?? ""}`);
}

/** Decimal digits with an optional minus, clamped to the integers that are exact; never -0. */
function parseInteger(digits: string): number {
  const limit = Number.MAX_SAFE_INTEGER;
  return Math.max(-limit, Math.min(limit, Number(digits))) + 0;
}
