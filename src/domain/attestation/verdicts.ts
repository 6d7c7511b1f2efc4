/**
 * The verdicts on reports of the built-in kinds (semantics 3.3); those of custom types are in custom.ts. A function
 * takes the part of a report that its verdict depends on; what a report may contain besides, and of which type it is,
 * is declared where it is received (api/attestations).
 */

/** The verdict on one report. `reasons` are in plain English and empty exactly when the report is compliant. */
export type AttestationVerdict = { isCompliant: boolean; reasons: string[] };

/** The verdict that follows from the reasons against a report: compliant without any. */
export function verdictFromReasons(reasons: string[]): AttestationVerdict {
  return { isCompliant: reasons.length === 0, reasons };
}

/** The reporter states the verdict of a generic attestation. */
export function evaluateGeneric(payload: { is_compliant: boolean }): AttestationVerdict {
  return verdictFromReasons(payload.is_compliant ? [] : ["Reported as not compliant"]);
}

/**
 * The reporter states the verdict of a decision.
 * @param control need not exist (semantics 7.2)
 */
export function evaluateDecision(control: string, data: { is_compliant: boolean }): AttestationVerdict {
  return verdictFromReasons(data.is_compliant ? [] : [`The decision on control '${control}' is negative`]);
}

/** A software bill of materials is recorded as reported; nothing is checked against the artifact (newer-clients 2). */
export function evaluateSbom(): AttestationVerdict {
  return verdictFromReasons([]);
}

/** An override replaces the verdict from now on, in either direction (semantics 3.6). */
export function evaluateOverride(payload: { reason: string; new_compliance_status: boolean }): AttestationVerdict {
  return verdictFromReasons(payload.new_compliance_status ? [] : [`Overridden as not compliant: ${payload.reason}`]);
}

/** Compliant when at least one issue is referenced and all of them exist. */
export function evaluateJira({
  jira_results: issues,
}: {
  jira_results: readonly { issue_id: string; issue_exists: boolean }[];
}): AttestationVerdict {
  if (issues.length === 0) return verdictFromReasons(["No Jira issue is referenced"]);
  return verdictFromReasons(
    issues.filter((issue) => !issue.issue_exists).map((issue) => `Jira issue '${issue.issue_id}' does not exist`),
  );
}

/**
 * Compliant without failures and errors; skipped tests do not matter. Every suite is checked instead of the sums: for
 * the counts that test runners write both are equal, and a negative count cannot hide a failure. An empty list of
 * suites proves nothing and is never compliant; validation already refuses it (semantics 13.23).
 */
export function evaluateJunit({
  junit_results: suites,
}: {
  junit_results: readonly { name: string; failures: number; errors: number }[];
}): AttestationVerdict {
  if (suites.length === 0) return verdictFromReasons(["No test suites were reported"]);
  const failing = suites.filter(({ failures, errors }) => failures !== 0 || errors !== 0);
  return verdictFromReasons(
    failing.map(
      ({ name, failures, errors }) =>
        `Suite '${name}' has ${formatCount(failures, "failure")} and ${formatCount(errors, "error")}`,
    ),
  );
}

/** A count with its noun: `1 failure`, `2 failures`. */
export function formatCount(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

/**
 * Any finding of any severity in any result fails; lists of findings are samples, only the counts decide. An empty list
 * of results passes: the scan ran and had nothing to scan (semantics 13.22).
 */
export function evaluateSnyk({
  snyk_results: { results },
}: {
  snyk_results: { results: readonly { low_count: number; medium_count: number; high_count: number }[] };
}): AttestationVerdict {
  return verdictFromReasons(
    results.flatMap(({ high_count: high, medium_count: medium, low_count: low }, index) =>
      high > 0 || medium > 0 || low > 0
        ? [`Result ${index + 1} has ${high} high, ${medium} medium and ${low} low findings`]
        : [],
    ),
  );
}

/** Compliant when there is any pull request; state and approvals are left to policies. */
export function evaluatePullRequest({
  pull_requests: pullRequests,
}: {
  pull_requests: readonly unknown[];
}): AttestationVerdict {
  return verdictFromReasons(pullRequests.length === 0 ? ["No pull request was found"] : []);
}

type SonarScan = {
  status?: string | null | undefined;
  taskId?: string | null | undefined;
  qualityGate?: { status: string } | null | undefined;
};

/** Status of a passed quality gate: in SonarQube's API and in its webhooks (semantics 13.24). */
const PASSED: readonly string[] = ["OK", "PASSED"];

/** Status of a task that ended without an analysis, and so has no time, revision or quality gate. */
const UNFINISHED: readonly string[] = ["FAILED", "CANCELED"];

/** Whether a task of SonarQube with this status ended without an analysis. */
export const isUnfinished = (status: string | null | undefined): boolean =>
  typeof status === "string" && UNFINISHED.includes(status);

/** Compliant when the quality gate passed. A scan without a gate has no verdict and is not compliant. */
export function evaluateSonar({
  sonar_results: { qualityGate: gate, status, taskId },
}: {
  sonar_results: SonarScan;
}): AttestationVerdict {
  if (isUnfinished(status)) {
    const task = taskId ? `SonarQube task '${taskId}'` : "The SonarQube task";
    return verdictFromReasons([`${task} has status '${status}': there is no analysis`]);
  }
  if (gate === undefined || gate === null) return verdictFromReasons(["The scan has no quality gate"]);
  return verdictFromReasons(PASSED.includes(gate.status) ? [] : [`The quality gate has status '${gate.status}'`]);
}
