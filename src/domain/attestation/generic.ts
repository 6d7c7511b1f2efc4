import { verdictFromReasons } from "./verdict.ts";
import type { AttestationVerdict } from "./verdict.ts";

/** The part of a generic report that its verdict depends on (wire-contract 6.1). */
type GenericPayload = { is_compliant: boolean };

/** The reporter states the verdict of a generic attestation (semantics 3.3). */
export function evaluateGeneric(payload: GenericPayload): AttestationVerdict {
  return verdictFromReasons(payload.is_compliant ? [] : ["Reported as not compliant"]);
}
