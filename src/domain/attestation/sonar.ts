import { verdictFromReasons } from "./verdict.ts";
import type { AttestationVerdict } from "./verdict.ts";

/** A condition of a quality gate (wire-contract 28). */
type SonarCondition = {
  metric: string;
  errorThreshold: string;
  operator: string;
  status: string;
  value?: string | null;
  onLeakPeriod?: boolean | null;
};

/** A scan in SonarQube's own camelCase; further keys are stored and do not affect the verdict (wire-contract 28). */
type SonarResults = {
  serverUrl?: string | null;
  taskId?: string | null;
  status?: string | null;
  /** Absent for a task that ended without an analysis. */
  analysedAt?: string | null;
  revision?: string | null;
  changedAt?: string | null;
  project: { key: string; name?: string; url: string };
  qualityGate?: { name?: string | null; status: string; conditions: readonly SonarCondition[] } | null;
};

/** The part of a Sonar report that its verdict depends on (wire-contract 6.1). */
type SonarPayload = { sonar_results: SonarResults };

/** Status of a passed quality gate: in SonarQube's API and in its webhooks (semantics 13.24). */
const PASSED: readonly string[] = ["OK", "PASSED"];

/** Status of a task that ended without an analysis, and so has no time, revision or quality gate. */
const UNFINISHED: readonly string[] = ["FAILED", "CANCELED"];

/** Whether a task with this status ended without an analysis. */
export const isUnfinished = (status: string | null | undefined): boolean =>
  typeof status === "string" && UNFINISHED.includes(status);

/**
 * Compliant when the quality gate passed. A scan without a gate has no verdict and is not compliant (semantics 3.3).
 */
export function evaluateSonar({
  sonar_results: { qualityGate: gate, status, taskId },
}: SonarPayload): AttestationVerdict {
  if (isUnfinished(status)) {
    const task = taskId ? `SonarQube task '${taskId}'` : "The SonarQube task";
    return verdictFromReasons([`${task} has status '${status}': there is no analysis`]);
  }
  if (gate === undefined || gate === null) return verdictFromReasons(["The scan has no quality gate"]);
  return verdictFromReasons(PASSED.includes(gate.status) ? [] : [`The quality gate has status '${gate.status}'`]);
}
