/** What turned between two snapshots, and why: for people, and for what they automate. */
import { Type } from "typebox";
import { DIFF_KINDS } from "../../domain/snapshot/comparison.ts";
import { NO_BODY } from "../../http/operation.ts";
import { Closed, Message, OneOf } from "../../http/schema.ts";
import { presentSnapshotDiff } from "../../contract/comparison/present-snapshot-diff.ts";
import { estimateWouldMs } from "../../contract/comparison/would-start.ts";
import { SnapshotDiff } from "../../contract/comparison/snapshot-diff-shapes.ts";
import { largeRead } from "../context.ts";
import { definePaging } from "../paging.ts";
import { OrgPath } from "../paths.ts";
import { SideExpression, countArtifacts, findSide, parseSides } from "./diff-sides.ts";

const PAGES = definePaging({ perPage: 25, maxPerPage: 100 });

/** What is compared on the main thread, some milliseconds of work each: the artifacts of both sides together, */
const MAX_INLINE_ARTIFACTS = 600;
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
    "`would` says whether the newer version would be compliant in the other one.",
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
    ...PAGES.query,
  }),
  body: NO_BODY,
  responses: {
    200: { description: "The differences", schema: SnapshotDiff },
    404: { description: "No such environment or snapshot", schema: Message },
  },
  example: { params: { org: "acme" }, query: { snappish1: "staging", snappish2: "production" } },
  async prepare(context, { query: { snappish1, snappish2 } }) {
    const at = context.now();
    return { at, ...parseSides({ snappish1, snappish2 }, at) };
  },
  isLarge(context, { query }, { snappish1, snappish2 }) {
    const [first, last] = [findSide(context, snappish1), findSide(context, snappish2)];
    const { perPage } = PAGES.window(query);
    return (
      perPage > MAX_INLINE_CHANGES ||
      perPage * estimateWouldMs(context.store, { from: first, to: last }) > MAX_INLINE_WOULD_MS ||
      countArtifacts(first) + countArtifacts(last) > MAX_INLINE_ARTIFACTS ||
      (first.environment.id === last.environment.id && last.snapshot.idx - first.snapshot.idx > MAX_INLINE_SNAPSHOTS)
    );
  },
  handle(context, { query }, { at, snappish1, snappish2 }) {
    const { page, perPage, offset } = PAGES.window(query);
    const body = presentSnapshotDiff(
      context,
      { from: findSide(context, snappish1), to: findSide(context, snappish2) },
      { kind: query.kind ?? null, search: query.search ?? "", set: query.set ?? null, page, perPage, offset, at },
    );
    return { status: 200, body };
  },
});
