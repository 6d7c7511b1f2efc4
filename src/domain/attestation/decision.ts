import { verdictFromReasons } from "./verdict.ts";
import type { AttestationVerdict } from "./verdict.ts";

/** The part of a decision that is judged (semantics 7.2). `control` is an identifier and need not exist. */
export type DecisionPayload = { type_name: "decision"; control: string; attestation_data: { is_compliant: boolean } };

/** A decision is what the one who took it says (semantics 3.3). */
export function evaluateDecision({ control, attestation_data: data }: DecisionPayload): AttestationVerdict {
  return verdictFromReasons(data.is_compliant ? [] : [`The decision on control '${control}' is negative`]);
}
