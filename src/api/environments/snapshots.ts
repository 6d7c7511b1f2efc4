/** Snapshots of environments, read (semantics 6.5 to 6.7). They are made by recording.ts. */
import { Type } from "typebox";
import type { Static } from "typebox";
import {
  INTERVAL_PATTERN,
  SNAPSHOT_EXPRESSION_PATTERN,
  labelOf,
  parseInterval,
  parsePosition,
  resolvePosition,
  resolveRange,
} from "../../domain/snapshot/expression.ts";
import type { Position } from "../../domain/snapshot/expression.ts";
import { invalid, notFound } from "../../errors.ts";
import { NO_BODY } from "../../http/operation.ts";
import { CheckedByHandler, Closed, Message, named } from "../../http/schema.ts";
import type { EnvironmentRow } from "../../store/environments/environments.ts";
import type { SnapshotRow } from "../../store/environments/snapshots.ts";
import { operation } from "../context.ts";
import type { OperationContext } from "../context.ts";
import { pages } from "../paging.ts";
import type { Window } from "../paging.ts";
import { presentSnapshot } from "../../contract/present-snapshot.ts";
import { SnapshotResponse } from "../../contract/snapshot-shapes.ts";
import { NoQuery } from "../paths.ts";

const EXPRESSIONS =
  "`N` or `#N`: number N, from 1. Negative: from the end, `-1` is the latest. `~N`: N behind the latest. `@{2026-01-31T12:00:00}` (UTC), " +
  "`@{2.days.ago}` (hours, days, weeks, months) and `@{now}`: the one in force at that moment.";

const params = { org: Type.String(), env_name: Type.String() };

export const getSnapshot = operation({
  id: "get_snapshot",
  method: "GET",
  path: "/snapshots/{org}/{env_name}/{snapshot_expression}",
  tag: "Snapshots",
  summary: "Read a snapshot of an environment",
  description:
    "What was running, whether it was compliant and why, and how it came to be so. Artifacts with `now` 0 stopped with this snapshot. A snapshot of a logical environment holds the artifacts of its members.",
  permission: "environment:read",
  audit: null,
  params: Closed({
    ...params,
    snapshot_expression: CheckedByHandler(
      { pattern: SNAPSHOT_EXPRESSION_PATTERN },
      Type.String({ description: EXPRESSIONS }),
    ),
  }),
  query: NoQuery,
  body: NO_BODY,
  responses: {
    200: { description: "The snapshot", schema: SnapshotResponse },
    404: { description: "No such environment or snapshot, or the environment has been archived", schema: Message },
  },
  example: { params: { org: "acme", env_name: "production", snapshot_expression: "-1" } },
  handle(context, { params: { env_name: name, snapshot_expression: expression } }) {
    const now = context.now();
    const position = parsePosition(expression, now);
    if (!position) throw invalid({ snapshot_expression: expressionProblem(expression) });
    const environment = context.store.environments.require(context.organization, name);
    const snapshot = requireSnapshot(context, environment, position, { label: labelOf(name, expression), name, now });
    return { status: 200, texts: presentSnapshot(context, environment, snapshot) };
  },
});

/** The field text of a malformed expression. */
export const expressionProblem = (text: string): string =>
  `Input should be a valid snapshot expression [input: ${text}]`;

/**
 * The snapshot at a position.
 * @param asked how the caller wrote the expression and the name of the environment, and the time at which it was read
 * @throws AppError not_found with the text of messages 10.
 */
export function requireSnapshot(
  { store, organization }: OperationContext,
  environment: EnvironmentRow,
  position: Position,
  asked: { label: string; name: string; now: number },
): SnapshotRow {
  const count = environment.snapshot_count;
  const index = resolvePosition(position, count, (time) => store.snapshots.indexAt(environment, time, asked.now));
  const snapshot = index >= 1 && index <= count ? store.snapshots.find(environment.id, index) : null;
  if (!snapshot)
    throw notFound(
      `Org: '${organization.name}'. Snapshot '${asked.label}' resolves to '${asked.name}#${index}'. len(snapshots) == ${count}. Indexes are 1-based`,
    );
  return snapshot;
}

const SnapshotListItem = named(
  "SnapshotListItem",
  Closed({
    index: Type.Integer(),
    from: Type.Number(),
    to: Type.Number({ description: "0 while it is the latest" }),
    compliant: Type.Boolean({ description: "false also where no policy is attached" }),
    duration: Type.Number({ description: "Seconds; of the latest until now" }),
  }),
);

const paging = pages({ perPage: 15, most: null });
const EVERYTHING = "1..NOW";

export const listSnapshots = operation({
  id: "list_snapshots",
  method: "GET",
  path: "/snapshots/{org}/{env_name}",
  tag: "Snapshots",
  summary: "List the snapshots of an environment",
  description: "Newest first.",
  permission: "environment:read",
  audit: null,
  params: Closed(params),
  query: Closed({
    ...paging.query,
    interval: CheckedByHandler(
      { pattern: INTERVAL_PATTERN },
      Type.Optional(
        Type.String({
          default: EVERYTHING,
          description:
            "`A..B`, both included; sides as for one snapshot, or `NOW` for the latest, which an omitted side is; " +
            "empty for all",
        }),
      ),
    ),
    reverse: Type.Optional(Type.Boolean({ default: false, description: "Oldest first" })),
  }),
  body: NO_BODY,
  responses: {
    200: { description: "The snapshots", schema: Type.Array(SnapshotListItem) },
    404: { description: "No such environment, or it has been archived", schema: Message },
  },
  example: { params: { org: "acme", env_name: "production" } },
  handle(context, { params: { env_name: name }, query }) {
    const { store } = context;
    const now = context.now();
    const interval = query.interval || EVERYTHING;
    const bounds = parseInterval(interval, now);
    if (!bounds) throw invalid({ interval: `Input should be a valid interval [input: ${interval}]` });
    const environment = store.environments.require(context.organization, name);
    const { id, snapshot_count: count } = environment;
    const range = resolveRange(bounds, count, (time) => store.snapshots.indexAt(environment, time, now));
    const page = range && pageOf(range, paging.window(query), query.reverse ?? false);
    if (!page) return { status: 200, body: [] };
    // With the one behind the page, whose beginning is the end of the last one on it.
    const rows = store.snapshots.between(id, page.first, page.last + 1);
    const items = rows
      .filter(({ idx }) => idx <= page.last)
      .map((row, place) => presentItem(row, rows[place + 1] ?? null, now));
    return { status: 200, body: query.reverse ? items : items.reverse() };
  },
});

/** The indexes on a page of a range; they have no gaps. null for a page beyond the end. */
function pageOf(
  { first, last }: { first: number; last: number },
  { offset, limit }: Window,
  oldestFirst: boolean,
): { first: number; last: number } | null {
  if (offset > last - first) return null;
  return oldestFirst
    ? { first: first + offset, last: Math.min(last, first + offset + limit - 1) }
    : { first: Math.max(first, last - offset - limit + 1), last: last - offset };
}

const presentItem = (
  { idx, timestamp, compliant }: SnapshotRow,
  next: SnapshotRow | null,
  now: number,
): Static<typeof SnapshotListItem> => ({
  index: idx,
  from: timestamp,
  to: next?.timestamp ?? 0,
  compliant: compliant === 1,
  // A snapshot that was made by a clock that ran ahead lies behind the next one, or behind the present.
  duration: Math.max(0, (next?.timestamp ?? now) - timestamp),
});
