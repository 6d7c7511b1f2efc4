/** Windows of time in queries (operations, Filters and sorting). Both bounds are part of a window, in epoch seconds. */
import { Type } from "typebox";
import { DAY, ISO_TIME_PATTERN, parseIsoTime } from "../domain/time.ts";
import { invalid } from "../errors.ts";
import { CheckedByHandler, Unpublished } from "../http/schema.ts";

type TimeWindow = { from: number; to: number };

/** Days of the windows given in epoch seconds, unless their start is given. */
export const WINDOW_DAYS = 28;

/**
 * Properties for the query schema of a window given in epoch seconds. Clients write its names in two ways; the second
 * one is served and not published, because generated code would have one name for both.
 */
export const EpochWindow = {
  start_ts: Type.Optional(
    Type.Number({
      description: `Begin in epoch seconds; unless given ${WINDOW_DAYS} days before the end. \`start-ts\` is the same`,
    }),
  ),
  end_ts: Type.Optional(
    Type.Number({ description: "End in epoch seconds, included; unless given the present. `end-ts` is the same" }),
  ),
  "start-ts": Unpublished(Type.Optional(Type.Number())),
  "end-ts": Unpublished(Type.Optional(Type.Number())),
};

/** The window of such a query. @param now epoch seconds. */
export function epochWindow(
  query: { start_ts?: number; end_ts?: number; "start-ts"?: number; "end-ts"?: number },
  now: number,
): TimeWindow {
  const to = query.end_ts ?? query["end-ts"] ?? now;
  return { from: query.start_ts ?? query["start-ts"] ?? to - WINDOW_DAYS * DAY, to };
}

const TEXT_DAYS = 30;
const TEXT_FORM = "ISO 8601, a date or a date with a time; without a zone it is UTC";

const IsoTime = (description: string) =>
  CheckedByHandler({ pattern: ISO_TIME_PATTERN }, Type.Optional(Type.String({ description })));

/** Properties for the query schema of a window given as text. */
export const TextWindow = {
  from: IsoTime(`Begin: ${TEXT_FORM}; unless given ${TEXT_DAYS} days before the end`),
  to: IsoTime(`End, included, also when it is a whole day: ${TEXT_FORM}; unless given the present`),
};

/**
 * The window of such a query; an empty text is none. @param now epoch seconds. @throws AppError invalid on `from` and
 * `to`.
 */
export function textWindow(query: { from?: string; to?: string }, now: number): TimeWindow {
  const [from, to] = [query.from ? parseIsoTime(query.from) : undefined, query.to ? parseIsoTime(query.to, true) : now];
  if (from === null || to === null) {
    const problem = (text = "") => `Input should be a valid ISO 8601 date or time [input: ${text}]`;
    throw invalid({
      ...(from === null ? { from: problem(query.from) } : {}),
      ...(to === null ? { to: problem(query.to) } : {}),
    });
  }
  return { from: from ?? to - TEXT_DAYS * DAY, to };
}
