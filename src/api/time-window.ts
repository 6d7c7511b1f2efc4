/** Time windows in queries (operations 1.5): epoch seconds, both bounds inclusive. */
import { Type } from "typebox";
import { TIME_EXPRESSION_PATTERN, parseTimeExpression } from "../domain/snapshot/expression.ts";
import { DAY_S, ISO_TIME_PATTERN, parseIsoTime } from "../domain/time.ts";
import { invalid } from "../errors.ts";
import { CheckedByHandler, Unpublished } from "../http/schema.ts";

type TimeWindow = { from: number; to: number };

/** Length in days of a window given in epoch seconds without a start. */
export const DEFAULT_WINDOW_DAYS = 28;

/**
 * Query schema properties of a window in epoch seconds. Clients spell the names in two ways; the second spelling is
 * accepted but not published, because generated code would use one name for both.
 */
export const EpochWindow = {
  start_ts: Type.Optional(
    Type.Number({
      description:
        `Start in epoch seconds, inclusive; by default ${DEFAULT_WINDOW_DAYS} days before the end. \`start-ts\` is a ` +
        "synonym",
    }),
  ),
  end_ts: Type.Optional(
    Type.Number({ description: "End in epoch seconds, inclusive; by default now. `end-ts` is a synonym" }),
  ),
  "start-ts": Unpublished(Type.Optional(Type.Number())),
  "end-ts": Unpublished(Type.Optional(Type.Number())),
};

/** Parses the parameters of EpochWindow. @param now epoch seconds */
export function parseEpochWindow(
  query: { start_ts?: number; end_ts?: number; "start-ts"?: number; "end-ts"?: number },
  now: number,
): TimeWindow {
  const to = query.end_ts ?? query["end-ts"] ?? now;
  return { from: query.start_ts ?? query["start-ts"] ?? to - DEFAULT_WINDOW_DAYS * DAY_S, to };
}

const DEFAULT_TEXT_WINDOW_DAYS = 30;
const TEXT_FORM = "an ISO 8601 date or time, in UTC unless it has an offset";

const IsoTime = (description: string) =>
  CheckedByHandler({ pattern: ISO_TIME_PATTERN }, Type.Optional(Type.String({ description })));

/** Query schema properties of a window given as text. */
export const TextWindow = {
  from: IsoTime(`Start, inclusive: ${TEXT_FORM}; by default ${DEFAULT_TEXT_WINDOW_DAYS} days before the end`),
  to: IsoTime(`End, inclusive (a date includes the whole day): ${TEXT_FORM}; by default now`),
};

/**
 * Parses the parameters of TextWindow; an empty text counts as absent.
 * @param now epoch seconds
 * @throws AppError invalid on `from` and `to`
 */
export function parseTextWindow(query: { from?: string; to?: string }, now: number): TimeWindow {
  const [from, to] = [
    query.from ? parseIsoTime(query.from) : undefined,
    query.to ? parseIsoTime(query.to, { endOfDay: true }) : now,
  ];
  if (from === null || to === null) {
    const problem = (text = "") => `Input should be a valid ISO 8601 date or time [input: ${text}]`;
    throw invalid({
      ...(from === null ? { from: problem(query.from) } : {}),
      ...(to === null ? { to: problem(query.to) } : {}),
    });
  }
  return { from: from ?? to - DEFAULT_TEXT_WINDOW_DAYS * DAY_S, to };
}

const EXPRESSION_FORM =
  "an ISO 8601 date or time, in UTC unless it has an offset; a duration before now (`12hours`, `2days`); " +
  "`@{2.days.ago}`, `@{2026-01-31T12:00:00}` or `now`; or epoch seconds";

const Expression = (description: string) =>
  CheckedByHandler({ pattern: TIME_EXPRESSION_PATTERN }, Type.Optional(Type.String({ maxLength: 100, description })));

/** Query schema properties of a window in any of the expressions for times. @param hours its length by default */
export const PeriodWindow = (hours: number) => ({
  from: Expression(
    `Start, inclusive: ${EXPRESSION_FORM}. By default ` +
      `${hours <= 48 ? `${hours} hours` : `${hours / 24} days`} before the end`,
  ),
  to: Expression("End, inclusive (a date includes the whole day), as `from`; by default now"),
});

/**
 * Parses the parameters of PeriodWindow; an empty text counts as absent.
 * @param options.now epoch seconds
 * @throws AppError invalid on `from` and `to`
 */
export function parsePeriod(
  query: { from?: string | undefined; to?: string | undefined },
  { now, hours }: { now: number; hours: number },
): TimeWindow {
  const to = query.to ? parseTimeExpression(query.to, now, { endOfDay: true }) : now;
  const from = query.from ? parseTimeExpression(query.from, now) : to === null ? now : to - hours * 3_600;
  if (from === null || to === null) {
    const problem = (text = "") =>
      `Input should be a date, a time, or a duration before now such as '12hours' [input: ${text}]`;
    throw invalid({
      ...(from === null ? { from: problem(query.from) } : {}),
      ...(to === null ? { to: problem(query.to) } : {}),
    });
  }
  if (from > to)
    throw invalid({ from: `Input should not be after the end of the period [input: ${query.from ?? ""}]` });
  return { from, to };
}
