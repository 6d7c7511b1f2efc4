import { suite } from "uvu";
import * as assert from "uvu/assert";
import { evaluateDecision } from "../../../src/domain/attestation/decision.ts";
import { evaluateGeneric } from "../../../src/domain/attestation/generic.ts";
import { evaluateJira } from "../../../src/domain/attestation/jira.ts";
import type { AttestationVerdict } from "../../../src/domain/attestation/verdict.ts";
import { evaluateJunit } from "../../../src/domain/attestation/junit.ts";
import { evaluateOverride } from "../../../src/domain/attestation/override.ts";
import { evaluatePullRequest } from "../../../src/domain/attestation/pull-request.ts";
import { evaluateSnyk } from "../../../src/domain/attestation/snyk.ts";
import { evaluateSonar } from "../../../src/domain/attestation/sonar.ts";

const test = suite("domain/attestation/verdicts");

const junit = (...suites: [failures: number, errors: number, skipped: number][]): AttestationVerdict =>
  evaluateJunit({
    junit_results: suites.map(([failures, errors, skipped], index) => ({
      name: `s${index}`,
      failures,
      errors,
      skipped,
      total: 9,
      duration: 0.5,
    })),
  });
const snyk = (...results: [high: number, medium: number, low: number][]): AttestationVerdict =>
  evaluateSnyk({
    snyk_results: {
      schema_version: 1,
      tool: { name: "Snyk", version: "1" },
      results: results.map(([high_count, medium_count, low_count]) => ({ high_count, medium_count, low_count })),
    },
  });
const failedScan = (status: string, taskId: string | null): AttestationVerdict =>
  evaluateSonar({
    sonar_results: { status, taskId, project: { key: "k", url: "u" }, qualityGate: { status: "OK", conditions: [] } },
  });
const sonar = (qualityGate?: { status: string; conditions: [] } | null): AttestationVerdict =>
  evaluateSonar({
    sonar_results: {
      analysedAt: "",
      revision: "",
      project: { key: "k", url: "u" },
      ...(qualityGate === undefined ? {} : { qualityGate }),
    },
  });
const gate = (status: string): { status: string; conditions: [] } => ({ status, conditions: [] });
const jira = (...exists: boolean[]): AttestationVerdict =>
  evaluateJira({
    jira_results: exists.map((issue_exists, index) => ({ issue_id: `AB-${index}`, issue_url: "", issue_exists })),
  });
const pull = { url: "https://h/1", state: "CLOSED", author: "", approvers: null, commits: [] };

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
  ["sonar: OK (semantics 13.24)", sonar(gate("OK")), []],
  ["sonar: PASSED (semantics 13.24)", sonar(gate("PASSED")), []],
  ["sonar: ERROR", sonar(gate("ERROR")), ["The quality gate has status 'ERROR'"]],
  ["sonar: spelling counts", sonar(gate("ok")), ["The quality gate has status 'ok'"]],
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
  [
    "pull request: none",
    evaluatePullRequest({ git_provider: "github", pull_requests: [] }),
    ["No pull request was found"],
  ],
  [
    "pull request: closed, unapproved, without author",
    evaluatePullRequest({ git_provider: "azure", pull_requests: [pull] }),
    [],
  ],
  [
    "pull request: old form",
    evaluatePullRequest({ git_provider: "gitlab", pull_requests: [{ url: "u", state: "open", merge_commit: "" }] }),
    [],
  ],
  [
    "override to compliant",
    evaluateOverride({ reason: "r", new_compliance_status: true, original_attestation_type: "snyk" }),
    [],
  ],
  [
    "override to failing",
    evaluateOverride({ reason: "too old", new_compliance_status: false, original_attestation_type: "snyk" }),
    ["Overridden as not compliant: too old"],
  ],
  ["decision: yes", evaluateDecision("C1", { is_compliant: true }), []],
  ["decision: no", evaluateDecision("C1", { is_compliant: false }), ["The decision on control 'C1' is negative"]],
];
for (const [what, judgement, reasons] of table) {
  test(what, () => assert.equal(judgement, { isCompliant: reasons.length === 0, reasons }));
}

test.run();
