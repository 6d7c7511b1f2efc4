/**
 * Why a snapshot of an environment has its verdict. An artifact of a snapshot takes up to some milliseconds to explain,
 * so they come in pages, and the server does other work between two of them.
 */
import { inTurns, nextTurn } from "../../http/next-turn.ts";
import { Type } from "typebox";
import { memoize } from "../../contract/memoize.ts";
import { SnapshotExplanation } from "../../contract/explanation-shapes.ts";
import { writeExplanation } from "../../contract/present-explanation.ts";
import { FINGERPRINT } from "../../domain/names.ts";
import { POSITION_PATTERN, formatSnapshotLabel, parsePosition } from "../../domain/snapshot/expression.ts";
import { invalid, notFound } from "../../errors.ts";
import { NO_BODY } from "../../http/operation.ts";
import { CheckedByHandler, Closed, Matching, Message } from "../../http/schema.ts";
import type { Explanation } from "../../store/environments/explanation-types.ts";
import { operation } from "../context.ts";
import type { OperationContext } from "../context.ts";
import { documentLane } from "../flows/flows.ts";
import { definePaging, presentPagination } from "../paging.ts";
import { EnvironmentPath } from "../paths.ts";
import { EXPRESSIONS, expressionProblem, requireSnapshot } from "./snapshots.ts";

const PAGES = definePaging({ perPage: 20, maxPerPage: 50 });

/** Characters of artifacts with all their rules in one response: 4 MB. Each may have a thousand rules. */
const MAX_SHOWN_CHARS = 4 * 1_048_576;

/** Bytes of policy texts in one response. */
const MAX_SHOWN_BYTES = 2 * 1_048_576;

export const explainSnapshot = operation({
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
  async prepare(context, { params: { env_name: name, snapshot_expression: expression }, query }) {
    const { store, organization } = context;
    const now = context.now();
    const position = parsePosition(expression, now);
    if (!position) throw invalid({ snapshot_expression: expressionProblem(expression) });
    const environment = store.environments.require(organization, name);
    const label = formatSnapshotLabel(name, expression);
    const snapshot = requireSnapshot(context, environment, { position, label, name, now });
    const { fingerprint = null } = query;
    const { page, perPage, limit, offset } = PAGES.window(query);
    const { explanation, total } = await inTurns(
      store.explanations.explainInSteps(environment, snapshot.idx, { fingerprint, offset, limit }),
    );
    if (fingerprint !== null && total === 0)
      throw notFound(
        `Org: '${organization.name}'. Snapshot '${name}#${snapshot.idx}' has no artifact with fingerprint ` +
          `'${fingerprint}'`,
      );
    const shown = store.explanations.withPresentFlowNames(explanation);
    await locateRules(context, shown);
    return write(context, shown, {
      organization: organization.name,
      expression: label,
      fingerprint,
      selection: presentPagination(total, page, perPage),
    });
  },
  handle: (_context, _input, texts) => ({ status: 200, texts }),
});

/** The policy versions that an explanation names. */
const listVersions = ({ policies, artifacts, members }: Explanation): number[] => [
  ...policies.map(({ versionId }) => versionId),
  ...artifacts.flatMap(({ verdicts }) => verdicts.map(({ version }) => version.versionId)),
  ...members.flatMap(listVersions),
];

/** Locates the rules of policies that are too long for this thread. @throws AppError unavailable */
async function locateRules(context: OperationContext, explanation: Explanation): Promise<void> {
  const { policies } = context.store;
  for (const id of new Set(listVersions(explanation))) {
    if (policies.findLines(id)) continue;
    const lines = await context.documents.locateRules(documentLane(context), policies.getText(id));
    if (lines) policies.keepLines(id, lines);
  }
}

/** The JSON text of the response, in pieces. */
async function write(
  { store: { policies } }: OperationContext,
  explanation: Explanation,
  request: Parameters<typeof writeExplanation>[1],
): Promise<string[]> {
  let room = MAX_SHOWN_BYTES;
  const getText = (versionId: number): string | null => {
    const text = policies.getText(versionId);
    const bytes = Buffer.byteLength(text);
    if (bytes > room) return null;
    room -= bytes;
    return text;
  };
  const texts: string[] = [];
  const sources = { getText, getLines: memoize(policies.findLines), maxChars: MAX_SHOWN_CHARS };
  for (const text of writeExplanation(explanation, request, sources)) {
    texts.push(text);
    await nextTurn();
  }
  return texts;
}
