/** What turned between two snapshots, and why: for people, and for what they automate. */
import { Type } from "typebox";
import { DIFF_KINDS } from "../../domain/snapshot/comparison.ts";
import type { DiffKind } from "../../domain/snapshot/comparison.ts";
import { NO_BODY } from "../../http/operation.ts";
import { Closed, Message, OneOf } from "../../http/schema.ts";
import { countComparedRows, presentSnapshotDiff } from "../../contract/comparison/present-snapshot-diff.ts";
import { estimateWouldMs } from "../../contract/comparison/would-start.ts";
import { SnapshotDiff } from "../../contract/comparison/snapshot-diff-shapes.ts";
import type { SnapshotPlace } from "../../contract/snapshot-rows.ts";
import { largeRead } from "../context.ts";
import type { LargeReadContext } from "../context.ts";
import { AtMoment, parseMoment, resolveMoment } from "../moment.ts";
import { definePaging } from "../paging.ts";
import { OrgPath } from "../paths.ts";
import { SideExpression, findSide, parseSides } from "./diff-sides.ts";
import type { RequestedSide } from "./diff-sides.ts";

const PAGES = definePaging({ perPage: 25, maxPerPage: 100 });

/** What is compared on the main thread: rows of artifacts on both sides, a microsecond each, */
const MAX_INLINE_ROWS = 12_000;
/** ... snapshots between that are searched for the change, */
const MAX_INLINE_SNAPSHOTS = 5_000;
/** ... and changes on a page, each with two evaluations. */
const MAX_INLINE_CHANGES = 50;
/** Between two environments, what their policies would say of the changes on a page. */
const MAX_INLINE_WOULD_MS = 15;

export const compareSnapshots = largeRead({
  id: "compare_snapshots",
  origin: "assay",
  method: "GET",
  path: "/snapshot-diff/{org}",
  tag: "EnvDiff",
  summary: "Compare two snapshots: verdicts, policies, upgrades",
  description:
    "What differs between two snapshots of one environment, or of two: verdicts that turned and why, policies " +
    "attached, detached or changed, upgrades paired by the name of the service with the commits between, what " +
    "started, exited and was scaled. `data` has a page of the changes in this order, what fails first. Of many " +
    "upgrades, `sets` counts those between the same versions and commits. An artifact whose verdict turned with its " +
    "upgrade is in both lists. `turned` is the snapshot since which the environment has the verdict of " +
    "`snappish2`; null for two environments, and where `snappish1` has the same verdict. Between two environments, " +
    "`would` says whether the newer version would be compliant in the other one. With `at`, the snapshot in force at " +
    "that moment counts as the latest, durations count from it, and `would` is null: nothing is evaluated.",
  permission: "environment:read",
  audit: null,
  params: OrgPath,
  query: Closed({
    snappish1: SideExpression,
    snappish2: SideExpression,
    kind: Type.Optional(
      OneOf(DIFF_KINDS, { description: "Only changes of this kind; all but `unchanged` without it" }),
    ),
    search: Type.Optional(
      Type.String({
        maxLength: 256,
        description: "Part of a name, in any case, or the beginning of a fingerprint, at least 5 characters of it",
      }),
    ),
    set: Type.Optional(Type.String({ maxLength: 20, description: "Only upgrades of this set" })),
    at: Type.Optional(AtMoment.at),
    ...PAGES.query,
  }),
  body: NO_BODY,
  responses: {
    200: { description: "The differences", schema: SnapshotDiff },
    404: { description: "No such environment or snapshot", schema: Message },
  },
  example: { params: { org: "acme" }, query: { snappish1: "staging", snappish2: "production" } },
  async prepare(context, { query: { snappish1, snappish2, at } }): Promise<Requested> {
    const now = context.now();
    if (at === undefined) return { now, moment: null, sides: parseSides({ snappish1, snappish2 }, now) };
    return { now, moment: parseMoment(at, now), sides: { snappish1, snappish2 } };
  },
  isLarge(context, { query }, requested) {
    const { from, to } = findSides(context, requested);
    const { perPage } = PAGES.window(query);
    const limit = MAX_INLINE_ROWS + 1;
    return (
      perPage > MAX_INLINE_CHANGES ||
      perPage * estimateWouldMs(context.store, { from, to }) > MAX_INLINE_WOULD_MS ||
      (from.environment.id === to.environment.id && to.snapshot.idx - from.snapshot.idx > MAX_INLINE_SNAPSHOTS) ||
      countComparedRows(context, { from, to }, { ...selectionOf(query), limit }) >= limit
    );
  },
  handle(context, { query }, requested) {
    const { page, perPage, offset } = PAGES.window(query);
    const evaluatedAt = requested.moment === null ? requested.now : null;
    const body = presentSnapshotDiff(context, findSides(context, requested), {
      ...selectionOf(query),
      set: query.set ?? null,
      page,
      perPage,
      offset,
      evaluatedAt,
    });
    return { status: 200, body };
  },
});

const selectionOf = ({ kind, search = "" }: { kind?: DiffKind; search?: string }) => ({ kind: kind ?? null, search });

type Texts = { snappish1: string; snappish2: string };
/** Of the present, or as of a moment: then the sides are read where the moment is known, which may be a snapshot. */
type Requested = { now: number } & (
  | { moment: null; sides: Record<keyof Texts, RequestedSide> }
  | { moment: ReturnType<typeof parseMoment>; sides: Texts }
);

/** @throws AppError invalid for an expression that is none, not_found for an unknown environment or snapshot */
function findSides(context: LargeReadContext, requested: Requested): { from: SnapshotPlace; to: SnapshotPlace } {
  const asOf = requested.moment === null ? null : resolveMoment(context, requested.moment);
  const sides = requested.moment === null ? requested.sides : parseSides(requested.sides, asOf as number);
  return { from: findSide(context, sides.snappish1, asOf), to: findSide(context, sides.snappish2, asOf) };
}
