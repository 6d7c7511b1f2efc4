/**
 * The second step of recording a snapshot: evaluates what the survey found to be new or stale, and compares the result
 * with the latest snapshot. Reads, writes nothing.
 */
import { evaluateInEnvironment, provenanceOf } from "../../domain/compliance/environment.ts";
import type { Evaluation, Facts, FlowRecord } from "../../domain/compliance/environment.ts";
import { compareRunning } from "../../domain/snapshot/diff.ts";
import type { AnnotatedArtifact, RunningArtifact } from "../../domain/snapshot/diff.ts";
import { hasMembers, isListOf, isObject, readStoredJsonOrNull } from "../../domain/stored-json.ts";
import { fromSqlBoolean } from "../db/database.ts";
import type { Db } from "../db/types.ts";
import type { allowlistStore } from "./allowlists.ts";
import type { complianceFactStore } from "./compliance-facts.ts";
import type { OpenRow, Present, Survey } from "./snapshot-survey.ts";

/** An evaluation as its row stores it. */
type EvaluationRow = { facts_json: string; verdicts_json: string; allowlist_id: number | null };

/** `previous`: the evaluation that the artifact had so far; `earlier`: its facts, null when they are damaged. */
export type RunningEvaluation = Evaluation & {
  facts: Facts;
  allowlistId: number | null;
  previous: EvaluationRow | null;
  earlier: Facts | null;
};
export type Before = RunningArtifact & { row: OpenRow };
/** `evaluation` is null when the previous one still holds. */
export type After = RunningArtifact & { present: Present; evaluation: RunningEvaluation | null };

export type Plan = {
  survey: Survey;
  /** Whether anything changed that needs a snapshot. */
  snapshot: boolean;
  running: readonly AnnotatedArtifact<After>[];
  exited: readonly AnnotatedArtifact<Before>[];
};

export type PlanParts = {
  allowlists: Pick<ReturnType<typeof allowlistStore>, "findInForce">;
  facts: Pick<ReturnType<typeof complianceFactStore>, "read">;
};

export function snapshotPlanner(db: Db, { allowlists, facts }: PlanParts) {
  const evaluationById = db.prepare<[number], EvaluationRow>(
    "SELECT facts_json, verdicts_json, allowlist_id FROM evaluations WHERE id = ?",
  );

  function evaluate(survey: Survey, { name, fingerprint, row }: Present): RunningEvaluation {
    const { id, organization_id } = survey.environment;
    const previous = row ? (evaluationById.get(row.evaluation_id) ?? null) : null;
    const current = facts.read(organization_id, fingerprint);
    // An entry with an end that was added after the survey raised the revision, so that this plan is not applied.
    const allowlistId = allowlists.findInForce(id, fingerprint, () => survey.allowedAt ?? Infinity)?.id ?? null;
    // Damaged facts are replaced by the current ones, which then count as new provenance.
    const earlier = previous && readStoredJsonOrNull(previous.facts_json, isFacts);
    const complete = earlier ? carryDeployments(current, earlier) : current;
    return {
      ...evaluateInEnvironment({
        policies: survey.policies,
        artifact: { name, fingerprint },
        facts: complete,
        isAllowlisted: allowlistId !== null,
      }),
      facts: complete,
      allowlistId,
      previous,
      earlier,
    };
  }

  function planArtifact(survey: Survey, present: Present, earlier: ReadonlyMap<OpenRow, Before>): After {
    const { name, fingerprint, instances, row } = present;
    const running = { name, fingerprint, instances, present };
    if (!present.evaluate && row)
      return { ...running, compliant: fromSqlBoolean(row.compliant), provenance: "", evaluation: null };
    const evaluation = evaluate(survey, present);
    const before = row && earlier.get(row);
    if (before && evaluation.earlier) before.provenance = provenanceOf(evaluation.earlier);
    return { ...running, compliant: evaluation.compliant, provenance: provenanceOf(evaluation.facts), evaluation };
  }

  return {
    plan(survey: Survey): Plan {
      const earlier = new Map<OpenRow, Before>();
      for (const row of survey.before ?? [])
        earlier.set(row, {
          name: row.name,
          fingerprint: row.fingerprint,
          instances: row.now,
          compliant: fromSqlBoolean(row.compliant),
          provenance: "",
          row,
        });
      const after = survey.after.map((present) => planArtifact(survey, present, earlier));
      const before = survey.before === null ? null : [...earlier.values()];
      return { survey, ...compareRunning(before, after, survey.cause) };
    },
  };
}

/** Whether stored facts have all that provenance and deployments are read from. */
const isFacts = (value: unknown): value is Facts =>
  isObject(value) &&
  isListOf(
    (flow): flow is FlowRecord =>
      hasMembers<FlowRecord>("flow_id", "artifact_id")(flow) && isListOf(isObject)(flow.candidates),
  )(value["flows"]);

/** A flow keeps the deployment with which the artifact started in it. */
function carryDeployments(facts: Facts, earlier: Facts): Facts {
  const known = new Map(earlier.flows.map(({ flow_id, deployment_id }) => [flow_id, deployment_id]));
  return { flows: facts.flows.map((flow) => ({ ...flow, deployment_id: known.get(flow.flow_id) ?? null })) };
}
