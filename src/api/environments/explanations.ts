/**
 * Why a snapshot of an environment has its verdict. An artifact of a snapshot takes up to some milliseconds to explain,
 * so they come in pages, and the reader thread explains all but the smallest.
 */
import { Type } from "typebox";
import { memoize } from "../../contract/memoize.ts";
import { SnapshotExplanation } from "../../contract/explanation-shapes.ts";
import { writeExplanation } from "../../contract/present-explanation.ts";
import { listParts, listPolicyVersions } from "../../contract/snapshot-rows.ts";
import { FINGERPRINT } from "../../domain/names.ts";
import type { PolicyLines } from "../../domain/policy/lines.ts";
import { POSITION_PATTERN, formatSnapshotLabel, parsePosition } from "../../domain/snapshot/expression.ts";
import { invalid, notFound } from "../../errors.ts";
import { NO_BODY } from "../../http/operation.ts";
import { CheckedByHandler, Closed, Matching, Message } from "../../http/schema.ts";
import type { EnvironmentRow } from "../../store/environments/environments.ts";
import type { SnapshotRow } from "../../store/environments/snapshots.ts";
import { largeRead } from "../context.ts";
import type { ReadingContext, LargeReadContext } from "../context.ts";
import { documentLane } from "../flows/flows.ts";
import { definePaging } from "../paging.ts";
import { presentPagination } from "../../http/pagination.ts";
import { EnvironmentPath } from "../paths.ts";
import { EXPRESSIONS, expressionProblem, momentOf, requireSnapshot } from "./snapshots.ts";

const PAGES = definePaging({ perPage: 20, maxPerPage: 50 });

/** Characters of artifacts with all their rules in one response: 4 MB. Each may have a thousand rules. */
const MAX_SHOWN_CHARS = 4 * 1_048_576;

/** Bytes of policy texts in one response. */
const MAX_SHOWN_BYTES = 2 * 1_048_576;

/** Artifacts that are explained here: some milliseconds each at most. */
const MAX_INLINE_ARTIFACTS = 4;
/** Artifacts of the snapshot whose names are read here, to find those of a page. */
const MAX_INLINE_NAMES = 2_000;

export const explainSnapshot = largeRead({
  id: "explain_snapshot",
  method: "GET",
  path: "/explanations/{org}/environments/{env_name}/{snapshot_expression}",
  tag: "Explanations",
  summary: "Explain the verdicts of a snapshot",
  description:
    "What `assay explain --json` says: for each artifact, every rule of every policy in force with its lines in the " +
    "policy, the facts and attestations that decided, the causes, and what would make the artifact compliant. Every " +
    "verdict is re-evaluated from the facts and policy versions stored with it: `same` and `problems` are about the " +
    "artifacts of this page and the counts of the snapshot. Artifacts that run and fail come first.",
  permission: "environment:read",
  audit: null,
  origin: "assay",
  params: Closed({
    ...EnvironmentPath.properties,
    snapshot_expression: CheckedByHandler({ pattern: POSITION_PATTERN }, Type.String({ description: EXPRESSIONS })),
  }),
  query: Closed({
    fingerprint: Type.Optional(
      Matching(FINGERPRINT, { description: "Only the artifact with this fingerprint, under all its names" }),
    ),
    ...PAGES.query,
  }),
  body: NO_BODY,
  responses: {
    200: { description: "The explanation", schema: SnapshotExplanation },
    404: {
      description: "No such environment, snapshot or artifact in it, or the environment has been archived",
      schema: Message,
    },
  },
  example: {
    params: { org: "acme", env_name: "production", snapshot_expression: "-1" },
    query: { fingerprint: "7b1f5c9a1d2b3e4f5061728394a5b6c7d8e9f00112233445566778899aabbccd" },
  },
  async prepare(context, { params: { env_name: name, snapshot_expression: expression } }) {
    const now = context.now();
    const position = parsePosition(expression, now);
    if (!position) throw invalid({ snapshot_expression: expressionProblem(expression) });
    const place = { ...momentOf(position, now), label: formatSnapshotLabel(name, expression), name };
    return { place, lines: await locateRules(context, findSnapshot(context, place)) };
  },
  isLarge(context, { query: { fingerprint, ...query } }, { place }) {
    const { compliant_count, non_compliant_count, unknown_count } = findSnapshot(context, place).snapshot;
    const artifacts = compliant_count + non_compliant_count + unknown_count;
    const isOne = fingerprint !== undefined;
    return (
      artifacts > MAX_INLINE_NAMES || (!isOne && Math.min(artifacts, PAGES.window(query).limit) > MAX_INLINE_ARTIFACTS)
    );
  },
  handle(context, { query }, { place, lines }) {
    const { store, organization } = context;
    const { environment, snapshot } = findSnapshot(context, place);
    const { fingerprint = null } = query;
    const { page, perPage, limit, offset } = PAGES.window(query);
    const { explanation, total } = store.explanations.explainSome(environment, snapshot.idx, {
      fingerprint,
      offset,
      limit,
    });
    if (fingerprint !== null && total === 0)
      throw notFound(
        `Org: '${organization.name}'. Snapshot '${place.name}#${snapshot.idx}' has no artifact with fingerprint ` +
          `'${fingerprint}'`,
      );
    const request = {
      organization: organization.name,
      expression: place.label,
      fingerprint,
      selection: presentPagination(total, page, perPage),
    };
    const renamed = store.explanations.withPresentFlowNames(explanation);
    return { status: 200, texts: writeExplanation(renamed, request, sourcesOf(context, lines)) };
  },
});

/** A snapshot as requested: `label` is the expression as sent, `name` that of its environment. */
type RequestedSnapshot = ReturnType<typeof momentOf> & { label: string; name: string };

/** @throws AppError not_found */
function findSnapshot(
  context: LargeReadContext,
  place: RequestedSnapshot,
): { environment: EnvironmentRow; snapshot: SnapshotRow } {
  const environment = context.store.environments.require(context.organization, place.name);
  return { environment, snapshot: requireSnapshot(context, environment, place) };
}

type LocatedRules = Readonly<Record<number, PolicyLines>>;

/** Where the rules of the policies in force stand; a thread finds those of long ones. @throws AppError unavailable */
async function locateRules(
  context: ReadingContext,
  { environment, snapshot }: { environment: EnvironmentRow; snapshot: SnapshotRow },
): Promise<LocatedRules> {
  const { policies } = context.store;
  const located: Record<number, PolicyLines> = {};
  const versions = listParts(context, environment, snapshot).flatMap((part) => listPolicyVersions(part) ?? []);
  for (const id of new Set(versions)) {
    const known = policies.findLines(id);
    const lines = known ?? (await context.documents.locateRules(documentLane(context), policies.getText(id)));
    if (!lines) continue;
    if (!known) policies.keepLines(id, lines);
    located[id] = lines;
  }
  return located;
}

/** What the explanation shows besides itself. */
function sourcesOf(
  { store: { policies } }: LargeReadContext,
  lines: LocatedRules,
): Parameters<typeof writeExplanation>[2] {
  let left = MAX_SHOWN_BYTES;
  const getText = (versionId: number): string | null => {
    const text = policies.getText(versionId);
    const bytes = Buffer.byteLength(text);
    if (bytes > left) return null;
    left -= bytes;
    return text;
  };
  const getLines = memoize((versionId: number) => lines[versionId] ?? policies.findLines(versionId));
  return { getText, getLines, maxChars: MAX_SHOWN_CHARS };
}
