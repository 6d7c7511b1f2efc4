/** The range of snapshots that a query for events asks for, in one of four notations (semantics 13.78). */
import { isBeyondLatest, parseBound, parseInterval, resolvePosition } from "../../domain/snapshot/expression.ts";
import type { Position } from "../../domain/snapshot/expression.ts";
import { invalid } from "../../errors.ts";
import type { IndexRange } from "../../store/environments/environment-events.ts";
import type { EnvironmentRow } from "../../store/environments/environments.ts";
import type { ReadingContext } from "../context.ts";

/** Times in epoch seconds. */
type RangeQuery = {
  from?: number | undefined;
  to?: number | undefined;
  start_ts?: number | undefined;
  end_ts?: number | undefined;
  start?: string | undefined;
  end?: string | undefined;
  interval?: string | undefined;
};

const FIRST: Position = { kind: "index", index: 1 };
const LATEST: Position = { kind: "index", index: -1 };

/**
 * The snapshots in the range of a query. Empty texts count as absent. A range that another one overrides must be well
 * formed all the same.
 * @throws AppError 400 on all malformed parameters
 */
export function resolveEventRange(context: ReadingContext, environment: EnvironmentRow, query: RangeQuery): IndexRange {
  const { environmentEvents } = context.store;
  const now = context.now();
  const { start, end, interval } = parseBounds(query, now);
  for (const [from, to] of [
    [query.from, query.to],
    [query.start_ts, query.end_ts],
  ])
    if (from !== undefined || to !== undefined)
      return environmentEvents.findRange(environment, { from: from ?? -Infinity, to: to ?? Infinity, now });

  const toIndexes = (from: Position, to: Position): IndexRange => ({
    first: resolveBound(context, { environment, now }, { position: from, side: "first" }),
    last: resolveBound(context, { environment, now }, { position: to, side: "last" }),
  });
  if (start || end) return toIndexes(start ?? FIRST, end ?? LATEST);
  if (!interval) return { first: 1, last: environment.snapshot_count };
  // An omitted left side means NOW, so the sides of an interval may come in either order (resolveRange does the same).
  const { first, last } = toIndexes(interval.from, interval.to);
  const isReversed =
    first > last &&
    interval.from.kind !== "time" &&
    interval.to.kind !== "time" &&
    !isBeyondLatest(interval.to, first, environment.snapshot_count);
  return isReversed ? { first: last, last: first } : { first, last };
}

/** @throws AppError 400 on all malformed parameters */
function parseBounds(query: RangeQuery, now: number) {
  const problems: Record<string, string> = {};
  function parse<T>(
    name: "start" | "end" | "interval",
    { parser, expected }: { parser: (text: string, now: number) => T | null; expected: string },
  ): T | null {
    const text = query[name] || null;
    const value = text === null ? null : parser(text, now);
    if (text !== null && value === null) problems[name] = `Input should be ${expected} [input: ${text}]`;
    return value;
  }
  const bound = { parser: parseBound, expected: "an index, 'NOW', a duration such as '1hour' or a unix timestamp" };
  const bounds = {
    start: parse("start", bound),
    end: parse("end", bound),
    interval: parse("interval", {
      parser: parseInterval,
      expected: "an interval such as '1..5', '~3..NOW' or 'NOW'",
    }),
  };
  if (Object.keys(problems).length > 0) throw invalid(problems);
  return bounds;
}

/**
 * The snapshot index of one side of a range. A time bounds when snapshots were reported, so the snapshot that was
 * already in force at that time is outside the range.
 */
function resolveBound(
  { store }: ReadingContext,
  { environment, now }: { environment: EnvironmentRow; now: number },
  { position, side }: { position: Position; side: "first" | "last" },
): number {
  if (position.kind !== "time") return resolvePosition(position, environment.snapshot_count, () => 0);
  const times = side === "first" ? { from: position.at, to: Infinity } : { from: -Infinity, to: position.at };
  return store.environmentEvents.findRange(environment, { ...times, now })[side];
}
