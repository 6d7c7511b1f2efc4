import { judgement } from "./judgement.ts";
import type { Judgement } from "./judgement.ts";

/** A condition of a quality gate (wire-contract 28). */
export type SonarCondition = {
  metric: string;
  errorThreshold: string;
  operator: string;
  status: string;
  value?: string | null;
  onLeakPeriod?: boolean | null;
};

/** A scan as SonarQube describes it, in its own camelCase; further keys are kept and not judged (wire-contract 28). */
export type SonarResults = {
  serverUrl?: string | null;
  taskId?: string | null;
  status?: string | null;
  analysedAt: string;
  revision: string;
  changedAt?: string | null;
  project: { key: string; name?: string; url: string };
  qualityGate?: { name?: string | null; status: string; conditions: readonly SonarCondition[] } | null;
};

/** The part of a Sonar report that is judged (wire-contract 6.1). */
export type SonarPayload = { sonar_results: SonarResults };

/** The words for a passed gate: SonarQube's own and that of its web hooks (semantics 13, row 24). */
const PASSED: readonly string[] = ["OK", "PASSED"];

/** Compliant when the quality gate passed; without a gate nothing was decided, which is not compliant (semantics 3.3). */
export function judgeSonar({ sonar_results: { qualityGate: gate } }: SonarPayload): Judgement {
  if (gate === undefined || gate === null) return judgement(["The scan has no quality gate"]);
  return judgement(PASSED.includes(gate.status) ? [] : [`The quality gate has status '${gate.status}'`]);
}
