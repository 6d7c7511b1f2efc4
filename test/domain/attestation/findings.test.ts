/** The words of every kind of attestation, condensed. The sentences come from the evaluators, so none drifts away. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { evaluateCustom } from "../../../src/domain/attestation/custom.ts";
import {
  readDeclinedControl,
  readOverrideReason,
  summarizeFindings,
} from "../../../src/domain/attestation/findings.ts";
import {
  evaluateDecision,
  evaluateGeneric,
  evaluateJira,
  evaluateJunit,
  evaluateOverride,
  evaluatePullRequest,
  evaluateSnyk,
  evaluateSonar,
} from "../../../src/domain/attestation/verdicts.ts";

const test = suite("domain/attestation/findings");

const snyk = (...counts: [number, number, number][]) =>
  evaluateSnyk({
    snyk_results: {
      results: counts.map(([high_count, medium_count, low_count]) => ({ high_count, medium_count, low_count })),
    },
  });
const suiteOf = (name: string, failures: number, errors: number) => ({
  name,
  failures,
  errors,
  skipped: 0,
  total: 9,
  duration: 1,
});
const sonar = (results: object) => evaluateSonar({ sonar_results: results });
const found = ({ reasons }: { reasons: string[] }) => summarizeFindings(reasons);

test("adds up the findings of all results by severity, and leaves out severities without any", () => {
  assert.is(found(snyk([1, 0, 0])), "1 high");
  assert.is(found(snyk([1, 2, 0], [0, 0, 0], [2, 0, 7])), "3 high, 2 medium, 7 low");
});

test("adds up failures and errors of all suites, whatever their names are", () => {
  assert.is(found(evaluateJunit({ junit_results: [suiteOf("a' has 7 failures and 'b", 1, 0)] })), "1 failed");
  assert.is(found(evaluateJunit({ junit_results: [suiteOf("a", 2, 1), suiteOf("b\nc", 1, 0)] })), "3 failed, 1 error");
  assert.is(found(evaluateJunit({ junit_results: [] })), "no test suites");
});

test("says what other built-in kinds found", () => {
  const issues = (...ids: string[]) =>
    evaluateJira({ jira_results: ids.map((issue_id) => ({ issue_id, issue_exists: false })) } as never);
  assert.is(found(issues("AB-1")), "AB-1 not found");
  assert.is(found(issues("AB-1", "AB-2", "AB-3", "AB-4", "AB-5")), "AB-1, AB-2, AB-3 and 2 more not found");
  assert.is(found(issues()), "no Jira issue");
  assert.is(found(sonar({ qualityGate: { status: "ERROR", conditions: [] } })), "quality gate ERROR");
  assert.is(found(sonar({})), "no quality gate");
  assert.is(found(sonar({ status: "FAILED", taskId: "x" })), "no analysis, task FAILED");
  assert.is(found(evaluatePullRequest({ pull_requests: [] } as never)), "no pull request");
});

test("names the first rule of a custom type that does not hold, and counts the others", () => {
  const one = { rule: ".critical == 0", reason: "gives false" };
  assert.is(found(evaluateCustom([one])), ".critical == 0 gives false");
  assert.is(
    found(evaluateCustom([one, { rule: ".a", reason: null }, one, one])),
    ".critical == 0 gives false, and 2 more rules",
  );
  assert.is(
    found(evaluateCustom([{ rule: "f(.x) (gives )", reason: "fails: no (y)" }])),
    "f(.x) (gives ) fails: no (y)",
  );
});

test("has nothing to add to a verdict that was reported without a reason", () => {
  assert.is(found(evaluateGeneric({ is_compliant: false } as never)), null);
  assert.is(summarizeFindings([]), null);
});

test("tells decisions and overrides apart", () => {
  const { reasons: declined } = evaluateDecision("SEC-1", { is_compliant: false });
  assert.is(readDeclinedControl(declined), "SEC-1");
  assert.is(readDeclinedControl(["No pull request was found"]), null);
  const { reasons: overridden } = evaluateOverride({ new_compliance_status: false, reason: "found\nby hand" } as never);
  assert.is(readOverrideReason(overridden), "found by hand");
  assert.is(readOverrideReason(declined), null);
});

test("keeps what it does not know, on one line of at most 80 characters", () => {
  assert.is(summarizeFindings(["Another\nsentence", "More", "Even more"]), "Another sentence, and 2 more");
  const long = summarizeFindings(["x".repeat(500)]) as string;
  assert.is(long.length, 83);
  assert.match(long, /^x{80}\.\.\.$/);
});

test.run();
