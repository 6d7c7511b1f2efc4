/** Reading the snapshots of environments (semantics 6.5 to 6.7). Reports make them (record-report.ts). */
import { Type } from "typebox";
import type { Static } from "typebox";
import {
  INTERVAL_PATTERN,
  POSITION_PATTERN,
  formatSnapshotLabel,
  parseInterval,
  parsePosition,
  resolvePosition,
  resolveRange,
} from "../../domain/snapshot/expression.ts";
import type { Position } from "../../domain/snapshot/expression.ts";
import { invalid, notFound } from "../../errors.ts";
import { NO_BODY } from "../../http/operation.ts";
import { CheckedByHandler, Closed, Message, OneOf, named } from "../../http/schema.ts";
import type { EnvironmentRow } from "../../store/environments/environments.ts";
import type { SnapshotRow } from "../../store/environments/snapshots.ts";
import { largeRead } from "../context.ts";
import { JsonList } from "../../json/text.ts";
import type { LargeReadContext } from "../context.ts";
import { definePaging } from "../paging.ts";
import type { PageWindow } from "../paging.ts";
import { presentSnapshot, presentSnapshotPage } from "../../contract/present-snapshot.ts";
import type { SnapshotPlace } from "../../contract/snapshot-rows.ts";
import { SnapshotResponse } from "../../contract/snapshot-shapes.ts";

/** The spellings of a position, for the API reference. */
export const EXPRESSIONS =
  "`N` or `#N`: snapshot N, counted from 1; negative: from the end, `-1` is the latest. `~N`: N before the latest. " +
  "`@{2026-01-31T12:00:00}` (UTC), `@{2.days.ago}` (hours, days, weeks, months) and `@{now}`: the snapshot in force " +
  "at that time.";

const params = { org: Type.String(), env_name: Type.String() };
const ARTIFACT_PAGES = definePaging({ perPage: 25, maxPerPage: 100, optional: true });

/** Artifacts of a snapshot whose answer is made here: about a megabyte. */
const MAX_INLINE_ARTIFACTS = 300;

/** Artifacts that are sorted for a page on the main thread: 250,000 took 300 ms. */
const MAX_INLINE_SORTED = 10_000;

export const getSnapshot = largeRead({
  id: "get_snapshot",
  method: "GET",
  path: "/snapshots/{org}/{env_name}/{snapshot_expression}",
  tag: "Snapshots",
  summary: "Read a snapshot of an environment",
  description:
    "The running artifacts with their verdicts and the reasons, and what changed with this snapshot. Artifacts whose " +
    "`now` is 0 stopped with this snapshot. A snapshot of a logical environment has the artifacts of its members. " +
    "With `page`, `per_page`, `show` or `search` one page of the artifacts and its `pagination`: those that fail " +
    "first, those that stopped last, in a logical environment one member after the other; `failing_artifacts` are " +
    "then those of the page.",
  permission: "environment:read",
  audit: null,
  params: Closed({
    ...params,
    snapshot_expression: CheckedByHandler({ pattern: POSITION_PATTERN }, Type.String({ description: EXPRESSIONS })),
  }),
  query: Closed({
    ...ARTIFACT_PAGES.query,
    show: Type.Optional(
      OneOf(["all", "failing", "compliant", "unknown", "changed"], {
        description:
          "All artifacts, those that run and have this verdict, or those that this snapshot changed; the response is " +
          "then a page. With `changed`, `turn` says what changed, and what explains the verdict; null for the first " +
          "snapshot",
      }),
    ),
    search: Type.Optional(
      Type.String({
        description:
          "Part of the name, in any case, or at least the first 5 characters of the fingerprint; the response is " +
          "then a page",
      }),
    ),
  }),
  body: NO_BODY,
  responses: {
    200: { description: "The snapshot", schema: SnapshotResponse },
    404: { description: "No such environment or snapshot, or the environment has been archived", schema: Message },
  },
  example: { params: { org: "acme", env_name: "production", snapshot_expression: "-1" } },
  async prepare(context, { params: { snapshot_expression: expression }, query }) {
    const isNarrowed = query.show !== undefined || query.search !== undefined;
    const window = isNarrowed ? ARTIFACT_PAGES.window(query) : ARTIFACT_PAGES.optionalWindow(query);
    const selection = window && { ...window, show: query.show ?? ("all" as const), search: query.search ?? "" };
    const now = context.now();
    const position = parsePosition(expression, now);
    if (!position) throw invalid({ snapshot_expression: expressionProblem(expression) });
    return { ...momentOf(position, now), selection };
  },
  isLarge(context, { params }, { selection, ...moment }) {
    const { compliant_count, non_compliant_count, unknown_count } = findPlace(context, params, moment).snapshot;
    const count = compliant_count + non_compliant_count + unknown_count;
    return count > (selection ? MAX_INLINE_SORTED : MAX_INLINE_ARTIFACTS);
  },
  handle(context, { params }, { selection, ...moment }) {
    const place = findPlace(context, params, moment);
    return {
      status: 200,
      body: selection ? presentSnapshotPage(context, place, selection) : presentSnapshot(context, place),
    };
  },
});

/** A position, and the time that it is resolved at: none for one that does not depend on the time. */
export const momentOf = (position: Position, now: number): Moment => ({
  position,
  now: position.kind === "time" ? now : 0,
});

/** `now`: epoch seconds. */
type Moment = { position: Position; now: number };

/** @throws AppError 404 */
function findPlace(
  context: LargeReadContext,
  { env_name: name, snapshot_expression: expression }: { env_name: string; snapshot_expression: string },
  moment: Moment,
): SnapshotPlace {
  const environment = context.store.environments.require(context.organization, name);
  const label = formatSnapshotLabel(name, expression);
  return { environment, snapshot: requireSnapshot(context, environment, { ...moment, label, name }) };
}

/** The error text for a malformed expression. */
export const expressionProblem = (text: string): string =>
  `Input should be a valid snapshot expression [input: ${text}]`;

/**
 * The snapshot at a position.
 * @param request `label` and `name`: the expression and the name of the environment as sent; `now` and `asOf`: epoch
 *   seconds. The snapshot in force at `asOf` counts as the latest, and no later one is found
 * @throws AppError not_found with the text of messages 10
 */
export function requireSnapshot(
  { store, organization }: LargeReadContext,
  environment: EnvironmentRow,
  {
    position,
    label,
    name,
    now,
    asOf = null,
  }: { position: Position; label: string; name: string; now: number; asOf?: number | null },
): SnapshotRow {
  const count =
    asOf === null
      ? environment.snapshot_count
      : store.snapshots.findIndexAt(environment, asOf, Number.POSITIVE_INFINITY);
  const index = resolvePosition(position, count, (time) =>
    store.snapshots.findIndexAt(environment, time, asOf === null ? now : Number.POSITIVE_INFINITY),
  );
  const snapshot = index >= 1 && index <= count ? store.snapshots.find(environment.id, index) : null;
  if (!snapshot)
    throw notFound(
      `Org: '${organization.name}'. Snapshot '${label}' resolves to '${name}#${index}'. ` +
        `len(snapshots) == ${count}. Indexes are 1-based`,
    );
  return snapshot;
}

const SnapshotListItem = named(
  "SnapshotListItem",
  Closed({
    index: Type.Integer(),
    from: Type.Number(),
    to: Type.Number({ description: "Time of the next snapshot; 0 for the latest" }),
    compliant: Type.Boolean({ description: "false also without attached policies" }),
    duration: Type.Number({ description: "Seconds; for the latest snapshot, until now" }),
  }),
);

const PAGES = definePaging({ perPage: 15, maxPerPage: null });
const EVERYTHING = "1..NOW";

export const listSnapshots = largeRead({
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
    ...PAGES.query,
    interval: CheckedByHandler(
      { pattern: INTERVAL_PATTERN },
      Type.Optional(
        Type.String({
          default: EVERYTHING,
          description:
            "`A..B`, both inclusive. Each side is an expression as for a single snapshot, or `NOW` for the latest, " +
            "which is also the default of an omitted side. Empty: all snapshots",
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
  // The duration of the latest snapshot.
  prepare: async ({ now }) => now(),
  handle(context, { params: { env_name: name }, query }, now) {
    const { store } = context;
    const interval = query.interval || EVERYTHING;
    const bounds = parseInterval(interval, now);
    if (!bounds) throw invalid({ interval: `Input should be a valid interval [input: ${interval}]` });
    const environment = store.environments.require(context.organization, name);
    const { id, snapshot_count: count } = environment;
    const range = resolveRange(bounds, count, (time) => store.snapshots.findIndexAt(environment, time, now));
    const order = query.reverse ? "oldest-first" : "newest-first";
    const page = range && findPage(range, PAGES.window(query), order);
    if (!page) return { status: 200, body: [] };
    return { status: 200, body: new JsonList(presentItems(context, id, { ...page, order, now })) };
  },
});

type Order = "oldest-first" | "newest-first";

/** Snapshots that are read at a time. */
const BATCH_SIZE = 1_000;

function* presentItems(
  { store }: LargeReadContext,
  environmentId: number,
  { first, last, order, now }: { first: number; last: number; order: Order; now: number },
): Generator<Static<typeof SnapshotListItem>> {
  for (let done = 0; done <= last - first; done += BATCH_SIZE) {
    const start = order === "oldest-first" ? first + done : Math.max(first, last - done - BATCH_SIZE + 1);
    const end = order === "oldest-first" ? Math.min(last, start + BATCH_SIZE - 1) : last - done;
    // Includes the snapshot after the batch: its time is the end of the last one.
    const rows = store.snapshots.listBetween(environmentId, start, end + 1);
    const items = rows
      .filter(({ idx }) => idx <= end)
      .map((row, index) => presentItem(row, rows[index + 1] ?? null, now));
    yield* order === "oldest-first" ? items : items.reverse();
  }
}

/** The snapshot indexes on a page of a range, which has no gaps; null for a page beyond the end. */
function findPage(
  { first, last }: { first: number; last: number },
  { offset, limit }: PageWindow,
  order: Order,
): { first: number; last: number } | null {
  if (offset > last - first) return null;
  return order === "oldest-first"
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
  // A snapshot recorded while the clock was ahead may be later than the next one, or in the future.
  duration: Math.max(0, (next?.timestamp ?? now) - timestamp),
});
