/** A moment in the past, as a parameter of reads that answer as of then. */
import { Type } from "typebox";
import {
  PLACED_SNAPSHOT_PATTERN,
  TIME_EXPRESSION_PATTERN,
  parseSnapshotExpression,
  parseTimeExpression,
} from "../domain/snapshot/expression.ts";
import { AppError, invalid } from "../errors.ts";
import { CheckedByHandler } from "../http/schema.ts";
import type { LargeReadContext } from "./context.ts";
import { findSide } from "./environments/diff-sides.ts";
import type { RequestedSide } from "./environments/diff-sides.ts";
import { momentOf } from "./environments/snapshots.ts";

const MAX_MOMENT_CHARS = 300;
/** Callers round a moment up to the next millisecond, so that it is not before the snapshot that they mean. */
const ROUNDING_S = 0.001;

const FORMS =
  "a date or time in UTC, such as 2026-11-20 or 2026-11-20 09:14; 2.days.ago; or a snapshot such as prod#12";

/** Query schema properties of a read as of a moment. */
export const AtMoment = {
  at: CheckedByHandler(
    { pattern: `${TIME_EXPRESSION_PATTERN}|${PLACED_SNAPSHOT_PATTERN}` },
    Type.String({
      maxLength: MAX_MOMENT_CHARS,
      description:
        "The moment: an ISO 8601 date (its beginning) or time, in UTC unless it has an offset; `2.days.ago`, " +
        "`@{2026-01-31T12:00:00}`, a duration before now (`12hours`); epoch seconds; or a snapshot, `ENV#N` or " +
        "`ENV~N`, which means the time when it was made",
    }),
  ),
};

/** A moment as requested: epoch seconds, or the snapshot that was made then. */
export type RequestedMoment = { at: number; side: null } | { at: null; side: RequestedSide };

/** @param now epoch seconds @throws AppError invalid on `at` */
export function parseMoment(sent: string, now: number): RequestedMoment {
  const text = sent.trim();
  const at = parseTimeExpression(/^\d+\.\w+\.ago$/.test(text) ? `@{${text}}` : text, now);
  if (at !== null) return { at: requirePast(at, { text, now }), side: null };
  // A bare name would mean the present; more likely it is a time with a slip.
  const parsed = /[#~@]/.test(text) ? parseSnapshotExpression(text, now) : null;
  if (!parsed) throw invalid({ at: `Input should be ${FORMS} [input: ${text}]` });
  const { environment: name, position } = parsed;
  if (position.kind === "time") return { at: requirePast(position.at, { text, now }), side: null };
  return { at: null, side: { ...momentOf(position, now), label: text, name } };
}

/** Reads `at` of a request while there is a clock, which the reader thread has not. @throws AppError invalid on `at` */
export const prepareMoment = (
  context: { now(): number },
  { query }: { query: { at: string } },
): Promise<RequestedMoment> => Promise.resolve(parseMoment(query.at, context.now()));

function requirePast(at: number, { text, now }: { text: string; now: number }): number {
  if (at > now + ROUNDING_S) throw invalid({ at: `Input should not lie in the future [input: ${text}]` });
  return at;
}

/** A moment in epoch seconds. @throws AppError invalid on `at` for a snapshot that does not exist */
export function resolveMoment(context: LargeReadContext, { at, side }: RequestedMoment): number {
  if (side === null) return at;
  try {
    return findSide(context, side).snapshot.timestamp;
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== "not_found") throw error;
    throw invalid({ at: `There is no such snapshot [input: ${side.label}]` });
  }
}
