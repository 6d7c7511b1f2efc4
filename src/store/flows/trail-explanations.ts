/**
 * Explains the verdict on a trail from what is stored: the checklist of its template with the records that decided, and
 * whether a re-evaluation gives the stored verdict.
 *
 * Invariants: writes nothing; damaged data never throws, it becomes an entry of `problems`.
 */
import type { TrailStatus } from "../../domain/compliance/trail.ts";
import { hasMembers, isListOf, isText, readStoredJsonOrNull } from "../../domain/stored-json.ts";
import type { ExplainedAttestation, explainedAttestationStore } from "../attestations/explained-attestations.ts";
import { findDifferences } from "./trail-evaluation.ts";
import type { trailEvaluationStore } from "./trail-evaluation.ts";
import type { TrailRow } from "./trails.ts";

type TrailExplanationParts = {
  evaluation: ReturnType<typeof trailEvaluationStore>;
  records: ReturnType<typeof explainedAttestationStore>;
};

export type ExplainedTrail = {
  /** The checklists as a re-evaluation gives them; empty when the trail cannot be evaluated. */
  checklists: Pick<TrailStatus, "attestations_statuses" | "artifacts_statuses">;
  /** The stored reasons. */
  reasons: string[];
  /** Epoch seconds; null when the stored verdict cannot be read. */
  evaluatedAt: number | null;
  /** By public id: every record that the checklists name, and every override. */
  attestations: ReadonlyMap<string, ExplainedAttestation>;
  /** Empty when everything is readable and a re-evaluation gave the same verdict. */
  problems: string[];
};

const isVerdict = hasMembers<TrailStatus>("status", "attestations_statuses", "artifacts_statuses", "evaluated_at");

export function trailExplanationStore({ evaluation, records }: TrailExplanationParts) {
  function evaluate(trail: TrailRow, at: number, problems: string[]): ExplainedTrail["checklists"] {
    try {
      const computed = evaluation.computeVerdicts(trail.id, at);
      for (const { artifact, difference } of findDifferences(trail, computed))
        problems.push(`${artifact === null ? "the trail" : `artifact ${artifact}`}: ${difference}`);
      return computed.result.compliance_status;
    } catch (error) {
      problems.push(`the trail cannot be re-evaluated: ${error instanceof Error ? error.message : String(error)}`);
      return { attestations_statuses: [], artifacts_statuses: {} };
    }
  }

  function listRecords(
    organizationId: number,
    { attestations_statuses, artifacts_statuses }: ExplainedTrail["checklists"],
    problems: string[],
  ): Map<string, ExplainedAttestation> {
    const found = new Map<string, ExplainedAttestation>();
    const entries = [
      ...attestations_statuses,
      ...Object.values(artifacts_statuses).flatMap((artifact) => artifact.attestations_statuses),
    ];
    for (const id of entries.flatMap((entry) => [entry.attestation_id, entry.overridden_attestation_id])) {
      const record = id === null || found.has(id) ? null : records.find(id, organizationId);
      if (!record) continue;
      if (record.reasons === null) problems.push(`the reasons of attestation ${id} ('${record.name}') are damaged`);
      found.set(record.publicId, record);
    }
    return found;
  }

  return {
    /** Everything about the verdict on a trail. Reads many rows: call it in one transaction. */
    explain(trail: TrailRow): ExplainedTrail {
      const problems: string[] = [];
      const stored = readStoredJsonOrNull(trail.compliance_json, isVerdict);
      if (!stored) problems.push("the stored verdict cannot be read");
      const reasons = readStoredJsonOrNull(trail.reasons_json, isListOf(isText));
      if (!reasons) problems.push("the stored reasons cannot be read");
      const checklists = evaluate(trail, stored?.evaluated_at ?? trail.last_modified_at, problems);
      const attestations = listRecords(trail.organization_id, checklists, problems);
      return { checklists, reasons: reasons ?? [], evaluatedAt: stored?.evaluated_at ?? null, attestations, problems };
    },
  };
}
