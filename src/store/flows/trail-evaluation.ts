/**
 * Evaluates trails and legacy artifacts on write.
 *
 * Invariant: whatever changes a trail calls `evaluate` in the same transaction. So every read finds the verdict and its
 * reasons stored beside the facts, and the two never disagree.
 */
import { evaluateLegacyArtifact, buildLegacyAttestationStatuses } from "../../domain/compliance/artifact.ts";
import type { State } from "../../domain/compliance/artifact.ts";
import { evaluateTrail } from "../../domain/compliance/trail.ts";
import type { TrailStatus } from "../../domain/compliance/trail.ts";
import type { TemplateAttestation } from "../../domain/flow-template/template.ts";
import type { artifactStore } from "./artifacts.ts";
import type { attestationStore } from "../attestations/attestations.ts";
import type { flowStore } from "./flows.ts";
import type { staleArtifactStore } from "../environments/stale-artifacts.ts";
import type { TrailRow } from "./trails.ts";
import type { templateStore } from "./templates.ts";
import type { Db } from "../db/types.ts";

type EvaluationParts = {
  artifacts: ReturnType<typeof artifactStore>;
  attestations: ReturnType<typeof attestationStore>;
  templates: ReturnType<typeof templateStore>;
  flows: ReturnType<typeof flowStore>;
  staleness: ReturnType<typeof staleArtifactStore>;
};

export function trailEvaluationStore(
  db: Db,
  { artifacts, attestations, templates, flows, staleness }: EvaluationParts,
) {
  // Without the text of the template, which may be long and is cached in parsed form.
  const subject = db.prepare<[number], { flow_id: number; template_id: number; template_public_id: string }>(
    `SELECT t.flow_id, t.template_id, tpl.public_id AS template_public_id
     FROM trails t JOIN templates tpl ON tpl.id = t.template_id WHERE t.id = ?`,
  );
  const setVerdict = db.prepare(
    "UPDATE trails SET state = ?, compliance_json = ?, reasons_json = ?, last_modified_at = ? WHERE id = ?",
  );

  /** The verdicts that follow from what is stored now, and the rows they are about. Stores nothing. */
  function computeVerdicts(trailId: number, at: number) {
    const trail = subject.get(trailId);
    if (!trail) throw new Error(`trail ${trailId} is gone`);
    const facts = attestations.readFacts(trailId);
    const rows = artifacts.listByTrail(trailId);
    const result = evaluateTrail({
      template: templates.getParsed(trail.template_id),
      flowTemplateId: trail.template_public_id,
      evaluatedAt: at,
      trailAttestations: facts.get(null) ?? [],
      artifacts: rows.map((row) => ({
        artifactId: row.public_id,
        fingerprint: row.fingerprint,
        referenceName: row.reference_name,
        attestations: facts.get(row.id) ?? [],
      })),
    });
    return { flowId: trail.flow_id, rows, result };
  }

  return {
    computeVerdicts,
    /**
     * Evaluates a trail and everything in it, and stores the verdicts.
     * @param at epoch seconds of the event that caused it (semantics 4.3, evaluated_at).
     */
    evaluate(trailId: number, at: number): TrailStatus {
      const { flowId, rows, result } = computeVerdicts(trailId, at);
      const status = result.compliance_status;
      setVerdict.run(status.status, JSON.stringify(status), JSON.stringify(result.reasons), at, trailId);
      for (const [index, verdict] of result.artifacts.entries()) {
        const row = rows[index];
        if (!row) continue;
        const reasons = JSON.stringify(verdict.reasons);
        const entries = JSON.stringify(verdict.attestationsStatuses);
        if (row.state !== verdict.state || row.reasons_json !== reasons || row.attestations_json !== entries)
          artifacts.setVerdict(row.id, { state: verdict.state, reasons, attestations: entries }, at);
      }
      flows.touch(flowId, at, status.status);
      staleness.markTrail(trailId);
      return status;
    },
    /**
     * Evaluates an artifact that was reported without a trail, and stores the verdict and the activity of its flow.
     * @param report the expected attestations, and the compliance that the report claimed; null when it claimed none.
     * @param at epoch seconds of the report.
     */
    evaluateLegacy(
      { artifactId, flowId }: { artifactId: number; flowId: number },
      { expected, isCompliant }: { expected: readonly TemplateAttestation[]; isCompliant: boolean | null },
      at: number,
    ): State {
      const { state, reasons } = evaluateLegacyArtifact({ template: expected.map(({ name }) => name), isCompliant });
      const attestations = JSON.stringify(buildLegacyAttestationStatuses(expected));
      artifacts.setVerdict(artifactId, { state, reasons: JSON.stringify(reasons), attestations }, at);
      flows.touch(flowId, at, state);
      staleness.markArtifact(artifactId);
      return state;
    },
  };
}

type ComputedVerdicts = ReturnType<ReturnType<typeof trailEvaluationStore>["computeVerdicts"]>;

/** A verdict in its stored form. */
type StoredTexts = { state: string; statuses: string; reasons: string };

/**
 * Compares the stored verdicts of a trail and of its artifacts with those of `computeVerdicts` for the same time.
 * @returns at most one difference of each, as a predicate; `artifact` is a public id, null for the trail itself
 */
export function findDifferences(
  trail: Pick<TrailRow, "compliance_json" | "reasons_json"> & { state: string },
  { rows, result }: ComputedVerdicts,
): { artifact: string | null; difference: string }[] {
  const { compliance_status, reasons, artifacts } = result;
  const own = describeDifference(
    "its stored compliance status differs",
    { state: trail.state, statuses: trail.compliance_json, reasons: trail.reasons_json },
    {
      state: compliance_status.status,
      statuses: JSON.stringify(compliance_status),
      reasons: JSON.stringify(reasons),
    },
  );
  const ofArtifacts = artifacts.flatMap((verdict, index) => {
    const row = rows[index] as (typeof rows)[number];
    const difference = describeDifference(
      "its stored statuses differ",
      { state: row.state, statuses: row.attestations_json, reasons: row.reasons_json },
      {
        state: verdict.state,
        statuses: JSON.stringify(verdict.attestationsStatuses),
        reasons: JSON.stringify(verdict.reasons),
      },
    );
    return difference === null ? [] : [{ artifact: row.public_id, difference }];
  });
  return [...(own === null ? [] : [{ artifact: null, difference: own }]), ...ofArtifacts];
}

/** @param statusesDiffer how a difference of the checklists is called */
function describeDifference(statusesDiffer: string, stored: StoredTexts, actual: StoredTexts): string | null {
  if (stored.state !== actual.state) return `is stored as ${stored.state}, but re-evaluates to ${actual.state}`;
  if (stored.statuses !== actual.statuses) return `${statusesDiffer} from a re-evaluation`;
  return stored.reasons === actual.reasons ? null : "its stored reasons differ from a re-evaluation";
}
