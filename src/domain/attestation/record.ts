// From the history under one name to the one fact that counts (semantics 3.5, 3.6). Records are only ever appended, and
// the newest decides, be it an ordinary report or an override: an override ends with the next ordinary report.
import type { AttestationFact } from "../compliance/attestation.ts";
import { storedLabel } from "./kinds.ts";

/** A stored record. `type` is the stored label; `overrides` the word for the original's type in an override, else null. */
export type AttestationRecord = {
  attestationId: string;
  name: string;
  type: string;
  overrides: string | null;
  isCompliant: boolean;
};

/**
 * What counts under one name on one level, or null for an empty history. With an override in force the fact keeps id and
 * type of the newest ordinary record; if there is none, it has no id and the type that the override gives (semantics
 * 3.6 and 13, rows 11, 12 and 53).
 * @param newestFirst all records of one name bound to one trail or one artifact
 */
export function factOf(newestFirst: readonly AttestationRecord[]): AttestationFact | null {
  const latest = newestFirst[0];
  if (latest === undefined) return null;
  const { name, isCompliant } = latest;
  if (latest.overrides === null) {
    return { name, type: latest.type, attestationId: latest.attestationId, overriddenAttestationId: null, isCompliant };
  }
  const original = newestFirst.find((record) => record.overrides === null);
  return {
    name,
    type: original?.type ?? storedLabel(latest.overrides),
    attestationId: original?.attestationId ?? null,
    overriddenAttestationId: latest.attestationId,
    isCompliant,
  };
}

/** The `is_reattestation` of the event about a report: true on a repeat of the name, else null (semantics 3.5). */
export function isReattestation(earlierRecords: number): true | null {
  return earlierRecords > 0 ? true : null;
}
