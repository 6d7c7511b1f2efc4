/**
 * Verdicts are computed on write: whoever records something in a trail calls `evaluate` before the transaction ends, so that
 * every read finds the verdict and its reasons beside the facts, and the two can never disagree.
 */
import { evaluateTrail } from "../domain/compliance/trail.ts";
import type { TrailStatus } from "../domain/compliance/trail.ts";
import type { artifactStore } from "./artifacts.ts";
import type { attestationStore } from "./attestations.ts";
import type { Db } from "./database.ts";
import type { flowStore } from "./flows.ts";
import type { templateStore } from "./templates.ts";
import type { trailStore } from "./trails.ts";

export type EvaluationParts = {
  trails: ReturnType<typeof trailStore>;
  artifacts: ReturnType<typeof artifactStore>;
  attestations: ReturnType<typeof attestationStore>;
  templates: ReturnType<typeof templateStore>;
  flows: ReturnType<typeof flowStore>;
};

export function evaluationStore(db: Db, { trails, artifacts, attestations, templates, flows }: EvaluationParts) {
  const setVerdict = db.prepare("UPDATE trails SET state = ?, compliance_json = ?, reasons_json = ?, last_modified_at = ? WHERE id = ?");

  return {
    /**
     * Evaluates a trail and everything in it and stores the verdicts.
     * @param at epoch seconds of the event that caused it (semantics 4.3, evaluated_at).
     */
    evaluate(trailId: number, at: number): TrailStatus {
      const trail = trails.get(trailId);
      const facts = attestations.facts(trailId);
      const rows = artifacts.inTrail(trailId);
      const result = evaluateTrail({
        template: templates.parsed(trail.template_id),
        flowTemplateId: templates.get(trail.template_id).public_id,
        evaluatedAt: at,
        trailAttestations: facts.get(null) ?? [],
        artifacts: rows.map((row) => ({
          artifactId: row.public_id,
          fingerprint: row.fingerprint,
          referenceName: row.reference_name,
          attestations: facts.get(row.id) ?? [],
        })),
      });
      const status = result.compliance_status;
      setVerdict.run(status.status, JSON.stringify(status), JSON.stringify(result.reasons), at, trailId);
      for (const [index, verdict] of result.artifacts.entries()) {
        const row = rows[index];
        if (!row) continue;
        const reasons = JSON.stringify(verdict.reasons);
        const entries = JSON.stringify(verdict.attestationsStatuses);
        if (row.state !== verdict.state || row.reasons_json !== reasons || row.attestations_json !== entries)
          artifacts.setVerdict(row.id, { state: verdict.state, reasons, attestations: entries });
      }
      flows.touch(trail.flow_id, at, status.status);
      return status;
    },
  };
}
