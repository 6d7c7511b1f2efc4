/** The two sides of a comparison of snapshots: expressions in a query, and the snapshots that they refer to. */
import { Type } from "typebox";
import { SNAPSHOT_EXPRESSION_PATTERN, parseSnapshotExpression } from "../../domain/snapshot/expression.ts";
import { invalid } from "../../errors.ts";
import { CheckedByHandler } from "../../http/schema.ts";
import type { SnapshotPlace } from "../../contract/snapshot-rows.ts";
import type { LargeReadContext } from "../context.ts";
import { expressionProblem, momentOf, requireSnapshot } from "./snapshots.ts";

/** A side in a query. */
export const SideExpression = CheckedByHandler(
  { pattern: SNAPSHOT_EXPRESSION_PATTERN },
  Type.String({ description: "`ENV`, `ENV#N`, `ENV~N` or `ENV@{...}`; a bare name is the latest snapshot" }),
);

/** A side of a comparison as requested: `label` is the expression as sent, `name` that of its environment. */
export type RequestedSide = ReturnType<typeof momentOf> & { label: string; name: string };

/**
 * Reads the expressions of a query, by the names of their fields.
 * @param now epoch seconds
 * @throws AppError invalid with a problem for each of them that is none
 */
export function parseSides<Field extends string>(
  query: Readonly<Record<Field, string>>,
  now: number,
): Record<Field, RequestedSide> {
  const problems: Record<string, string> = {};
  const sides = {} as Record<Field, RequestedSide>;
  for (const [field, label] of Object.entries(query) as [Field, string][]) {
    const parsed = parseSnapshotExpression(label, now);
    if (parsed) sides[field] = { ...momentOf(parsed.position, now), label, name: parsed.environment };
    else problems[field] = expressionProblem(label);
  }
  if (Object.keys(problems).length > 0) throw invalid(problems);
  return sides;
}

/**
 * @param asOf epoch seconds of a moment: the snapshot in force then counts as the latest; null for the present
 * @throws AppError not_found for an unknown environment or snapshot
 */
export function findSide(context: LargeReadContext, side: RequestedSide, asOf: number | null = null): SnapshotPlace {
  const environment = context.store.environments.require(context.organization, side.name);
  return { environment, snapshot: requireSnapshot(context, environment, { ...side, asOf }) };
}

/** How many artifacts run in a snapshot. */
export const countArtifacts = ({
  snapshot: { compliant_count, non_compliant_count, unknown_count },
}: SnapshotPlace): number => compliant_count + non_compliant_count + unknown_count;
