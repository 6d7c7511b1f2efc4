import { suite } from "uvu";
import * as assert from "uvu/assert";
import {
  evaluateDecision,
  evaluateGeneric,
  evaluateJira,
  evaluateJunit,
  evaluateOverride,
  evaluatePullRequest,
  evaluateSbom,
  evaluateSnyk,
  evaluateSonar,
} from "../../../src/domain/attestation/verdicts.ts";
import type { AttestationVerdict } from "../../../src/domain/attestation/verdicts.ts";

const test = suite("domain/attestation/verdicts");

const junit = (...suites: [failures: number, errors: number, skipped: number][]): AttestationVerdict => {
  const junit_results = suites.map(([failures, errors, skipped], at) => ({
    name: `s${at}`,
    failures,
    errors,
    skipped,
  }));
  return evaluateJunit({ junit_results });
};
const snyk = (...results: [high: number, medium: number, low: number][]): AttestationVerdict =>
  evaluateSnyk({
    snyk_results: {
      results: results.map(([high_count, medium_count, low_count]) => ({ high_count, medium_count, low_count })),
    },
  });
const failedScan = (status: string, taskId: string | null): AttestationVerdict =>
  evaluateSonar({ sonar_results: { status, taskId, qualityGate: { status: "OK" } } });
const sonar = (qualityGate?: { status: string } | null): AttestationVerdict =>
  evaluateSonar({ sonar_results: qualityGate === undefined ? {} : { qualityGate } });
const jira = (...exists: boolean[]): AttestationVerdict =>
  evaluateJira({ jira_results: exists.map((issue_exists, index) => ({ issue_id: `AB-${index}`, issue_exists })) });

// Reasons are empty exactly for compliant reports.
const table: [what: string, judgement: AttestationVerdict, reasons: string[]][] = [
  ["generic as given: yes", evaluateGeneric({ is_compliant: true }), []],
  ["generic as given: no", evaluateGeneric({ is_compliant: false }), ["Reported as not compliant"]],
  ["junit: all passed, some skipped", junit([0, 0, 5], [0, 0, 0]), []],
  ["junit: a failure", junit([0, 0, 0], [1, 0, 0]), ["Suite 's1' has 1 failure and 0 errors"]],
  ["junit: errors", junit([0, 2, 0]), ["Suite 's0' has 0 failures and 2 errors"]],
  [
    "junit: counts that would cancel out",
    junit([1, 0, 0], [-1, 0, 0]),
    ["Suite 's0' has 1 failure and 0 errors", "Suite 's1' has -1 failures and 0 errors"],
  ],
  ["junit: an empty list (semantics 13.23)", junit(), ["No test suites were reported"]],
  ["snyk: nothing found", snyk([0, 0, 0], [0, 0, 0]), []],
  ["snyk: empty results pass (semantics 13.22)", snyk(), []],
  [
    "snyk: a low finding fails (semantics 13.22)",
    snyk([0, 0, 0], [0, 0, 1]),
    ["Result 2 has 0 high, 0 medium and 1 low findings"],
  ],
  ["snyk: a medium finding fails", snyk([0, 1, 0]), ["Result 1 has 0 high, 1 medium and 0 low findings"]],
  ["snyk: a high finding fails", snyk([1, 0, 0]), ["Result 1 has 1 high, 0 medium and 0 low findings"]],
  ["sonar: OK (semantics 13.24)", sonar({ status: "OK" }), []],
  ["sonar: PASSED (semantics 13.24)", sonar({ status: "PASSED" }), []],
  ["sonar: ERROR", sonar({ status: "ERROR" }), ["The quality gate has status 'ERROR'"]],
  ["sonar: spelling counts", sonar({ status: "ok" }), ["The quality gate has status 'ok'"]],
  ["sonar: no gate (semantics 13.24)", sonar(), ["The scan has no quality gate"]],
  [
    "sonar: a failed task",
    failedScan("FAILED", "T1"),
    ["SonarQube task 'T1' has status 'FAILED': there is no analysis"],
  ],
  [
    "sonar: a canceled task without an id",
    failedScan("CANCELED", null),
    ["The SonarQube task has status 'CANCELED': there is no analysis"],
  ],
  ["sonar: null gate (semantics 13.24)", sonar(null), ["The scan has no quality gate"]],
  ["jira: all exist", jira(true, true), []],
  ["jira: one does not", jira(true, false), ["Jira issue 'AB-1' does not exist"]],
  ["jira: no reference", jira(), ["No Jira issue is referenced"]],
  ["pull request: none", evaluatePullRequest({ pull_requests: [] }), ["No pull request was found"]],
  [
    "pull request: closed, unapproved, without author",
    evaluatePullRequest({ pull_requests: [{ url: "https://h/1", state: "CLOSED", author: "", approvers: null }] }),
    [],
  ],
  [
    "pull request: old form",
    evaluatePullRequest({ pull_requests: [{ url: "u", state: "open", merge_commit: "" }] }),
    [],
  ],
  ["override to compliant", evaluateOverride({ reason: "r", new_compliance_status: true }), []],
  [
    "override to failing",
    evaluateOverride({ reason: "too old", new_compliance_status: false }),
    ["Overridden as not compliant: too old"],
  ],
  ["sbom: recorded as reported", evaluateSbom(), []],
  ["decision: yes", evaluateDecision("C1", { is_compliant: true }), []],
  ["decision: no", evaluateDecision("C1", { is_compliant: false }), ["The decision on control 'C1' is negative"]],
];
for (const [what, judgement, reasons] of table) {
  test(what, () => assert.equal(judgement, { isCompliant: reasons.length === 0, reasons }));
}

test.run();
