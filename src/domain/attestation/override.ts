import { verdictFromReasons } from "./verdict.ts";
import type { AttestationVerdict } from "./verdict.ts";

/** The part of an override that its verdict depends on (wire-contract 6.1). */
type OverridePayload = { reason: string; new_compliance_status: boolean; original_attestation_type: string };

/** An override replaces the verdict from now on, in either direction (semantics 3.6). */
export function evaluateOverride({ new_compliance_status: isCompliant, reason }: OverridePayload): AttestationVerdict {
  return verdictFromReasons(isCompliant ? [] : [`Overridden as not compliant: ${reason}`]);
}
