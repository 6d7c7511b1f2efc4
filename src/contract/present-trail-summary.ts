/** Trails as lists show them at a glance: the verdict, and what decided it. */
import type { Static } from "typebox";
import { readCause } from "../domain/compliance/attestation.ts";
import { isListOf, isText, readStoredJson } from "../domain/stored-json.ts";
import type { SummarizedTrailRow } from "../store/flows/trails.ts";
import { listAllowance, withLargeJson } from "./large-json.ts";
import type { Allowance } from "./large-json.ts";
import { memoize } from "./memoize.ts";
import { presentEach } from "./placeholders.ts";
import { presentTrailHead } from "./present-trail.ts";
import type { PresenterContext } from "./presenter-context.ts";
import { MAX_PROBLEMS } from "./trail-shapes.ts";
import type { TrailSummary } from "./trail-shapes.ts";

type Summary = Static<typeof TrailSummary>;
type Problem = Summary["problems"][number];

/**
 * Summaries, on request with causes. A damaged trail, or one that the response has no room for, has the reason as its
 * description.
 */
export function presentTrailSummaries(
  context: PresenterContext,
  rows: readonly SummarizedTrailRow[],
  { withCauses }: { withCauses: boolean },
): Summary[] {
  const { flows, verdictCauses } = context.store;
  const findFlow = memoize((id: number) => ({ flow: flows.get(id), tags: flows.getTags(id) }));
  const allowance = listAllowance(context);
  return presentEach(
    rows,
    (row) => {
      const flow = findFlow(row.flow_id);
      return {
        ...presentSummary(context, row, { ...flow, allowance }),
        ...(withCauses ? verdictCauses.explainTrail(context.organization.id, { ...row, flow: flow.flow.name }) : {}),
      };
    },
    (row, reason) => ({
      ...presentTrailHead(context, { ...row, ...NOTHING_REPORTED, description: reason }, findFlow(row.flow_id)),
      problems: [],
      problem_count: 0,
    }),
  );
}

const NOTHING_REPORTED = { git_commit_info_json: null, external_urls_json: null, user_data_json: null };

type FlowFacts = Parameters<typeof presentTrailHead>[2];

function presentSummary(
  context: PresenterContext,
  listed: SummarizedTrailRow,
  { allowance, ...flow }: FlowFacts & { allowance: Allowance },
): Summary {
  const row = withLargeJson(context, listed, { table: "trails", allowance });
  const { problems, count } = problemsOf(listed.reasons_json);
  return { ...presentTrailHead(context, row, flow), problems, problem_count: count };
}

const isTextList = isListOf(isText);

/** The reasons of a verdict by what they are about, in their order: what fails comes first. */
function problemsOf(reasonsJson: string): { problems: Problem[]; count: number } {
  const reasons = readStoredJson(reasonsJson, isTextList);
  const found = new Map<string, Problem>();
  for (const reason of reasons) {
    const cause = readCause(reason);
    const problem = cause?.problem === "non_compliant" || cause?.problem === "overridden" ? "failing" : "missing";
    const key = `${problem} ${cause?.name ?? ""}`;
    const known = found.get(key);
    if (known) known.count += 1;
    else found.set(key, { problem, attestation_name: cause?.name ?? null, count: 1 });
  }
  return { problems: [...found.values()].slice(0, MAX_PROBLEMS), count: reasons.length };
}
