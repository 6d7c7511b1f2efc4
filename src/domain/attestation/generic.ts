import { verdictFromReasons } from "./verdict.ts";
import type { AttestationVerdict } from "./verdict.ts";

/** The part of a generic report that is judged (wire-contract 6.1). */
export type GenericPayload = { is_compliant: boolean };

/** A generic attestation is what its reporter says (semantics 3.3). */
export function evaluateGeneric(payload: GenericPayload): AttestationVerdict {
  return verdictFromReasons(payload.is_compliant ? [] : ["Reported as not compliant"]);
}
