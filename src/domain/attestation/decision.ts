import { verdictFromReasons } from "./verdict.ts";
import type { AttestationVerdict } from "./verdict.ts";

/**
 * The reporter states the verdict of a decision (semantics 3.3).
 * @param control need not exist (semantics 7.2)
 */
export function evaluateDecision(control: string, data: { is_compliant: boolean }): AttestationVerdict {
  return verdictFromReasons(data.is_compliant ? [] : [`The decision on control '${control}' is negative`]);
}
