/**
 * The words for a place in the history of an environment (semantics 6.6): expressions of the snapshot read and of the
 * diff, intervals of the snapshot list, bounds of the events. Reading one needs no environment: it gives a position,
 * which becomes an index when the number of snapshots is known. Numbers beyond what a double holds exactly are held at
 * that limit: they are well formed and lead to no snapshot.
 */
import { FLOW_NAME, matches } from "../names.ts";

/**
 * A place in the history of an environment. index: as written, may be 0 or negative; behind: N behind the latest; time:
 * epoch seconds.
 */
export type Position =
  | { kind: "index"; index: number }
  | { kind: "behind"; behind: number }
  | { kind: "time"; at: number };

const HOUR = 3600;
const DAY = 24 * HOUR;
/** The specification gives months no length; 30 days keeps them free of calendars. */
const MONTH = 30 * DAY;
const LATEST: Position = { kind: "index", index: -1 };
/** A larger integer as a bound of events is a point in time (semantics 13, number 78). */
const LARGEST_INDEX_OF_A_BOUND = 1_000_000_000;

// What the API document publishes of the grammar below; the functions also refuse days that no calendar has.
const MOMENT_PATTERN = String.raw`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z?`;
const TIME_PATTERN = String.raw`@\{(?:now|\d+\.(?:hour|day|week|month)s?\.ago|${MOMENT_PATTERN})\}`;
const POSITION_SOURCE = String.raw`#?-?\d+|~\d+|${TIME_PATTERN}`;
const SIDE_PATTERN = `(?:NOW|${POSITION_SOURCE})?`;

/** The texts that parsePosition reads. */
export const POSITION_PATTERN = `^(?:${POSITION_SOURCE})$`;
/** The texts that parseSnappish reads. */
export const SNAPSHOT_EXPRESSION_PATTERN = String.raw`${FLOW_NAME.slice(0, -1)}(?:#-?\d+|~\d+|${TIME_PATTERN})?$`;
/** The texts that parseInterval reads, and the empty one. */
export const INTERVAL_PATTERN = String.raw`^${SIDE_PATTERN}(?:\.\.${SIDE_PATTERN})?$`;

const INDEX = /^-?\d+$/;
const BEHIND = /^\d+$/;
const MOMENT = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?Z?$/;
const AGO = /^(\d+)\.(hour|day|week|month)s?\.ago$/;
const DURATION = /^(\d+)([a-z]+)$/;

const UNIT_OF_AGO: ReadonlyMap<string, number> = new Map([
  ["hour", HOUR],
  ["day", DAY],
  ["week", 7 * DAY],
  ["month", MONTH],
]);
const UNIT_OF_DURATION: ReadonlyMap<string, number> = new Map([
  ...["s", "sec", "secs", "second", "seconds"].map((word) => [word, 1] as const),
  ...["m", "min", "mins", "minute", "minutes"].map((word) => [word, 60] as const),
  ...["h", "hr", "hrs", "hour", "hours"].map((word) => [word, HOUR] as const),
  ...["d", "day", "days"].map((word) => [word, DAY] as const),
  ...["w", "week", "weeks"].map((word) => [word, 7 * DAY] as const),
  ...["mo", "mon", "month", "months"].map((word) => [word, MONTH] as const),
]);

/** The texts that parseBound reads, and the empty one. */
export const BOUND_PATTERN = String.raw`^(?:NOW|-?\d+|\d+(?:${[...UNIT_OF_DURATION.keys()].join("|")}))?$`;

/**
 * The expression of a snapshot read: `N`, `-N`, `#N`, `#-N`, `~N`, `@{YYYY-MM-DDTHH:MM:SS}` (UTC; a fraction and a `Z`
 * are tolerated), `@{N.hours|days|weeks|months.ago}` (also in the singular) or `@{now}`; only one of `#`, `~` and `@`.
 * @param now epoch seconds
 * @returns null for what is malformed, dates that no calendar has among them
 */
export function parsePosition(text: string, now: number): Position | null {
  if (text.startsWith("~")) {
    const behind = text.slice(1);
    return BEHIND.test(behind) ? { kind: "behind", behind: integer(behind) } : null;
  }
  if (text.startsWith("@{") && text.endsWith("}")) {
    const at = parseMoment(text.slice(2, -1), now);
    return at === null ? null : { kind: "time", at };
  }
  const index = text.startsWith("#") ? text.slice(1) : text;
  return INDEX.test(index) ? { kind: "index", index: integer(index) } : null;
}

/**
 * A side of a diff: `ENV`, `ENV#N`, `ENV~N` or `ENV@{...}`; a bare name stands for the latest. Stored names may hold a
 * `~` (semantics 6.2), so the expression is what follows the last sign, and a `~` that no number follows belongs to the
 * name. An old name that itself ends in `~N` needs a sign behind it: `old~2#-1`.
 * @param now epoch seconds
 * @returns null for what is malformed; whether there is such an environment is for the caller to see
 */
export function parseSnapshotExpression(text: string, now: number): { environment: string; position: Position } | null {
  const sign = signOf(text);
  const environment = text.slice(0, sign);
  // The grammar of flows is that of stored environments: the one for new names, and `~`.
  if (!matches(FLOW_NAME, environment)) return null;
  const position = sign === text.length ? LATEST : parsePosition(text.slice(sign), now);
  return position && { environment, position };
}

/** Where the expression begins, or the end of the text when it is a bare name. */
function signOf(text: string): number {
  const explicit = text.endsWith("}") ? text.lastIndexOf("@{") : text.lastIndexOf("#");
  if (explicit >= 0) return explicit;
  const tilde = text.lastIndexOf("~");
  return tilde >= 0 && BEHIND.test(text.slice(tilde + 1)) ? tilde : text.length;
}

/**
 * The index that a position stands for; it may lie outside 1..count, and a snapshot read then says so.
 * @param count number of snapshots, which is the index of the latest
 * @param indexAt index of the snapshot in force at a time in epoch seconds, 0 before the first
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

/** What the 404 of a snapshot read calls an expression (messages 10): `prod#-1`, `prod#7`, `prod~2`, `prod@{now}`. */
export function formatSnapshotLabel(environment: string, expression: string): string {
  return /^[#~@]/.test(expression) ? environment + expression : `${environment}#${expression}`;
}

/**
 * An interval of snapshots: `A..B`, each side an expression of parsePosition or `NOW`, which is the latest; an omitted
 * side is NOW, and so is the end of an interval of one side: `3` is `3..NOW`. The empty text means that there is none
 * (semantics 6.6), which the caller has to see first.
 * @param now epoch seconds
 */
export function parseInterval(text: string, now: number): { from: Position; to: Position } | null {
  if (text === "") return null;
  const dots = text.indexOf("..");
  const from = parseSide(dots < 0 ? text : text.slice(0, dots), now);
  const to = dots < 0 ? LATEST : parseSide(text.slice(dots + 2), now);
  return from && to && { from, to };
}

/**
 * A bound of events: a positive or negative index, `NOW`, a duration such as `1h`, `2days` or `30mins` (that long ago),
 * or a unix timestamp, which every integer above 1000000000 is.
 * @param now epoch seconds
 */
export function parseBound(text: string, now: number): Position | null {
  if (text === "NOW") return LATEST;
  if (INDEX.test(text)) {
    const number = integer(text);
    return number > LARGEST_INDEX_OF_A_BOUND ? { kind: "time", at: number } : { kind: "index", index: number };
  }
  const [, amount, word] = DURATION.exec(text) ?? [];
  const unit = UNIT_OF_DURATION.get(word ?? "");
  return amount === undefined || unit === undefined ? null : { kind: "time", at: now - integer(amount) * unit };
}

/**
 * The snapshots between two positions, both included. The sides may come in either order, because an omitted left side
 * is NOW: `..3` are the snapshots from the third on. What lies outside 1..count is cut off. A time stands for the
 * snapshot in force then, which was made before; who wants only what happened since compares times instead.
 * @param count,indexAt as for resolvePosition
 * @returns null when nothing is left, for a range that ends at a time before the first snapshot, and for one that
 * begins
 *   beyond the latest (`beginsBeyond`)
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
 * Whether a range begins at a snapshot that is still to come, rather than being written in reverse: `9..NOW` of three.
 * The end moves with the history then, so the last snapshot is not meant.
 */
export const isBeyondLatest = (to: Position, start: number, count: number): boolean =>
  start > count && !(to.kind === "index" && to.index > 0);

function parseSide(text: string, now: number): Position | null {
  return text === "" || text === "NOW" ? LATEST : parsePosition(text, now);
}

/** What stands between the braces, as epoch seconds; it may lie in the future or before 1970. */
function parseMoment(text: string, now: number): number | null {
  if (text === "now") return now;
  const [, amount, word] = AGO.exec(text) ?? [];
  if (amount !== undefined) return now - integer(amount) * (UNIT_OF_AGO.get(word ?? "") ?? 0);

  const [, second, fraction] = MOMENT.exec(text) ?? [];
  if (second === undefined) return null;
  const milliseconds = Date.parse(`${second}Z`);
  // The 30th of February parses, as a day of March.
  if (Number.isNaN(milliseconds) || new Date(milliseconds).toISOString().slice(0, second.length) !== second)
    return null;
  return milliseconds / 1000 + Number(`0${fraction ?? ""}`);
}

/** Decimal digits with an optional minus, held within the integers that are exact; never -0. */
function integer(digits: string): number {
  const limit = Number.MAX_SAFE_INTEGER;
  return Math.max(-limit, Math.min(limit, Number(digits))) + 0;
}
