/**
 * The second step of recording a snapshot: evaluates what the survey found to be new or stale, and compares the result
 * with the latest snapshot. Reads, and writes nothing but a temporary file: an evaluation leaves its texts there and
 * its verdict in memory, so that memory does not grow with the facts.
 */
import { evaluateInEnvironment, provenanceOf } from "../../domain/compliance/environment.ts";
import type { Facts, FlowRecord } from "../../domain/compliance/environment.ts";
import { compareRunning } from "../../domain/snapshot/diff.ts";
import type { AnnotatedArtifact, EvaluatedArtifact, RunningArtifact } from "../../domain/snapshot/diff.ts";
import { hasMembers, isListOf, isObject, readStoredJsonOrNull } from "../../domain/stored-json.ts";
import { fromSqlBoolean } from "../db/database.ts";
import type { Db, SchemaSources } from "../db/types.ts";
import type { allowlistStore } from "./allowlists.ts";
import type { complianceFactStore } from "./compliance-facts.ts";
import { createEvaluationSpool } from "./evaluation-spool.ts";
import type { EvaluationSpool } from "./evaluation-spool.ts";
import type { OpenRow, Present, Survey } from "./snapshot-survey.ts";

/** An evaluation as its row stores it. */
type EvaluationRow = { facts_json: string; verdicts_json: string; allowlist_id: number | null };

export type Before = RunningArtifact & { row: OpenRow };
/** `evaluation` is null when the previous one still holds; its texts are in the spool of the plan. */
export type After = EvaluatedArtifact & { present: Present; evaluation: { allowlistId: number | null } | null };

export type Plan = {
  survey: Survey;
  /** Whether anything changed that needs a snapshot. */
  snapshot: boolean;
  running: readonly AnnotatedArtifact<After>[];
  exited: readonly AnnotatedArtifact<Before>[];
  /** The texts of the evaluations in `running`, in that order. `apply` closes it; else the owner of the plan does. */
  evaluations: EvaluationSpool;
};

export type PlanParts = {
  allowlists: Pick<ReturnType<typeof allowlistStore>, "findInForce">;
  facts: Pick<ReturnType<typeof complianceFactStore>, "read">;
};

export function snapshotPlanner(
  db: Db,
  { temporaryFiles }: Pick<SchemaSources, "temporaryFiles">,
  { allowlists, facts }: PlanParts,
) {
  const evaluationById = db.prepare<[number], EvaluationRow>(
    "SELECT facts_json, verdicts_json, allowlist_id FROM evaluations WHERE id = ?",
  );

  function evaluate(survey: Survey, { name, fingerprint, row }: Present) {
    const { id, organization_id } = survey.environment;
    const previous = row ? (evaluationById.get(row.evaluation_id) ?? null) : null;
    const current = facts.read(organization_id, fingerprint);
    // An entry with an end that was added after the survey raised the revision, so that this plan is not applied.
    const allowlistId = allowlists.findInForce(id, fingerprint, () => survey.allowedAt ?? Infinity)?.id ?? null;
    // Damaged facts are replaced by the current ones, which then count as new provenance.
    const earlier = previous && readStoredJsonOrNull(previous.facts_json, isFacts);
    const complete = earlier ? carryDeployments(current, earlier) : current;
    const evaluation = evaluateInEnvironment({
      policies: survey.policies,
      artifact: { name, fingerprint },
      facts: complete,
      isAllowlisted: allowlistId !== null,
    });
    const hasNewProvenance = row !== null && (!earlier || provenanceOf(earlier) !== provenanceOf(complete));
    return { evaluation, facts: complete, allowlistId, previous, hasNewProvenance };
  }

  function planArtifact(survey: Survey, present: Present, evaluations: EvaluationSpool): After {
    const { name, fingerprint, instances, row } = present;
    const running = { name, fingerprint, instances, present };
    if (!present.evaluate && row)
      return { ...running, compliant: fromSqlBoolean(row.compliant), hasNewProvenance: false, evaluation: null };
    const { evaluation, facts: complete, allowlistId, previous, hasNewProvenance } = evaluate(survey, present);
    const stored = row ? JSON.stringify(complete) : complete;
    const verdictsJson = JSON.stringify(evaluation.verdicts);
    const isStored =
      previous?.facts_json === stored &&
      previous.verdicts_json === verdictsJson &&
      previous.allowlist_id === allowlistId;
    if (!isStored) evaluations.write({ facts: stored, verdictsJson, reasonsJson: JSON.stringify(evaluation.reasons) });
    return {
      ...running,
      compliant: evaluation.compliant,
      hasNewProvenance,
      evaluation: isStored ? null : { allowlistId },
    };
  }

  return {
    /** @throws the system's error when the evaluations cannot be written to their file; damage of stored facts */
    plan(survey: Survey): Plan {
      const evaluations = createEvaluationSpool(temporaryFiles ?? null);
      try {
        const after = survey.after.map((present) => planArtifact(survey, present, evaluations));
        const before = survey.before?.map(runningBefore) ?? null;
        return { survey, ...compareRunning(before, after, survey.cause), evaluations };
      } catch (error) {
        evaluations.close();
        throw error;
      }
    },
  };
}

const runningBefore = (row: OpenRow): Before => ({
  name: row.name,
  fingerprint: row.fingerprint,
  instances: row.now,
  compliant: fromSqlBoolean(row.compliant),
  row,
});

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
