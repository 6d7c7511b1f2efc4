/** The checks of a trail and its records, as pages show them. */
import type { AnswerOf } from "../../../http/in-process.ts";
import type { listTrailAttestations } from "../../../api/attestations/trail-attestations.ts";
import type { getTrailChecklist } from "../../../api/flows/trail-checklist.ts";
import { countingId } from "../../../domain/compliance/checklist.ts";
import type { ShownState } from "../../components/state.ts";

export type Checklist = AnswerOf<typeof getTrailChecklist>;
export type Trail = Checklist["trail"];
export type ShownCheck = Checklist["data"][number];
/** A record with the fields of its kind, which are checked one by one. */
export type TrailAttestation = AnswerOf<typeof listTrailAttestations>["data"][number] & Record<string, unknown>;

export function stateOfCheck({ status, is_compliant: isCompliant }: ShownCheck): ShownState {
  if (status === "MISSING") return "missing";
  return isCompliant === true ? "compliant" : "non_compliant";
}

/** The ids of the records that checks show. */
export const idsOfChecks = (checks: readonly ShownCheck[]): string[] =>
  checks.flatMap(({ attestation_id: id, overridden_attestation_id: override }) =>
    [id, override].filter((one) => one !== null),
  );

/** The record that counts in a check; undefined for a missing one, and one that was not read. */
export function recordOf(
  check: ShownCheck,
  records: ReadonlyMap<string, TrailAttestation>,
): TrailAttestation | undefined {
  const id = countingId(check);
  return id === null ? undefined : records.get(id);
}
