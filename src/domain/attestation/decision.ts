import { verdictFromReasons } from "./verdict.ts";
import type { AttestationVerdict } from "./verdict.ts";

/** The part of a decision that its verdict depends on (semantics 7.2). The control `control` need not exist. */
type DecisionPayload = { type_name: "decision"; control: string; attestation_data: { is_compliant: boolean } };

/** The reporter states the verdict of a decision (semantics 3.3). */
export function evaluateDecision({ control, attestation_data: data }: DecisionPayload): AttestationVerdict {
  return verdictFromReasons(data.is_compliant ? [] : [`The decision on control '${control}' is negative`]);
}
