import { suite } from "uvu";
import * as assert from "uvu/assert";
import { groupCauses, joinCauses, shortenCause } from "../../../src/domain/compliance/cause-words.ts";
import { NOTHING, causeOfReason, causesOfReasons, checklistsOf } from "../../../src/domain/compliance/causes.ts";
import type { VerdictCause } from "../../../src/domain/compliance/causes.ts";

const test = suite("domain/compliance/cause-words");

const cause = (kind: VerdictCause["kind"], fields: Partial<VerdictCause> = {}): VerdictCause => ({
  ...NOTHING,
  kind,
  words: "",
  level: null,
  ...fields,
});
const text = (one: VerdictCause, reasons: string[] | null = null): string => shortenCause(one, reasons).text;
const SNYK = ["Result 1 has 1 high, 0 medium and 0 low findings"];

test("begins with what decided, and what it found", () => {
  const scan = cause("non_compliant_attestation", { name: "snyk-container" });
  assert.equal(shortenCause(scan, SNYK), { subject: "snyk-container", text: "snyk-container fails: 1 high" });
  assert.is(text(scan), "snyk-container fails");
  assert.is(
    text(scan, ["Overridden as not compliant: false negative"]),
    "snyk-container was overridden: false negative",
  );
  const gate = cause("missing_attestation", { name: "sonar-gate", type: "sonar" });
  assert.equal(shortenCause(gate, null), { subject: "sonar-gate", text: "sonar-gate is missing" });
  assert.is(text(cause("no_provenance")), "No provenance: not reported to any flow");
  assert.is(text(cause("no_trail", { flow: "build" })), "No trail: reported to flow build without one");
  assert.is(text(cause("missing_artifact", { name: "web" })), "Artifact web is missing");
});

test("names an attestation without a name by its control or its type", () => {
  assert.is(text(cause("missing_attestation", { control: "SEC-1" })), "Decision for SEC-1 is missing");
  assert.is(text(cause("missing_attestation", { type: "snyk" })), "A snyk attestation is missing");
  assert.is(text(cause("missing_attestation", { type: "override" })), "An override attestation is missing");
  assert.is(text(cause("missing_attestation", { type: "*" })), "An attestation is missing");
  const declined = ["The decision on control 'SEC-1' is negative"];
  assert.is(text(cause("non_compliant_attestation", { name: "review" }), declined), "review was declined for SEC-1");
  assert.is(
    text(cause("non_compliant_attestation", { control: "SEC-1" }), declined),
    "Decision for SEC-1 was declined",
  );
});

test("says of a condition of a policy that it failed, and how", () => {
  const words = "Its condition failed for flow 'build': flow.tags has no x: y";
  assert.is(text(cause("failed_condition", { words })), "A condition failed: flow.tags has no x: y");
});

test("tells a missing attestation from one of another type", () => {
  const mistyped = causeOfReason(
    "Attestation 'scan' of the trail was reported as 'generic'; the template expects type 'snyk'",
    { flow: "build", trail: "t", findRecord: () => undefined },
  );
  assert.is(text(mistyped), "scan is not of type snyk");
});

test("finds the record behind a reason of a trail in its checklists, and of an artifact in its own", () => {
  const entry = (name: string, id: string, override: string | null = null) => ({
    attestation_name: name,
    attestation_type: "snyk",
    attestation_id: id,
    overridden_attestation_id: override,
    status: "COMPLETE" as const,
    is_compliant: false,
    unexpected: false,
  });
  const status = {
    attestations_statuses: [entry("scan", "of-trail")],
    artifacts_statuses: { web: { attestations_statuses: [entry("scan", "original", "override")] } },
  };
  const found = causesOfReasons(
    [
      "Attestation 'scan' of the trail is not compliant",
      "Attestation 'scan' of artifact 'web' was overridden as not compliant",
      "Attestation 'scan' of artifact '__proto__' is not compliant",
      "Artifact 'api' is missing",
    ],
    { flow: "build", trail: "t", checklists: checklistsOf(status as never) },
  );
  assert.equal(
    found.map(({ kind, name, attestation_id: id }) => ({ kind, name, id })),
    [
      { kind: "non_compliant_attestation", name: "scan", id: "of-trail" },
      { kind: "non_compliant_attestation", name: "scan", id: "override" },
      { kind: "non_compliant_attestation", name: "scan", id: null },
      { kind: "missing_artifact", name: "api", id: null },
    ],
  );
});

test("names with the same matter share a sentence", () => {
  const missing = ["a", "b"].map((name) => shortenCause(cause("missing_attestation", { name }), null));
  const failing = shortenCause(cause("non_compliant_attestation", { name: "scan" }), SNYK);
  assert.is(joinCauses([failing, ...missing]), "scan fails: 1 high; a and b are missing");
  assert.equal(groupCauses(missing), [{ subjects: ["a", "b"], rest: " are missing" }]);
  const silent = ["x", "y", "z"].map((name) => shortenCause(cause("non_compliant_attestation", { name }), null));
  assert.is(joinCauses(silent), "x, y and z fail");
  assert.is(joinCauses([missing[0], missing[0]] as never), "a is missing", "two trails, one sentence");
});

test("counts what it does not name", () => {
  const names = ["a", "b", "c", "d", "e"];
  const missing = names.map((name) => shortenCause(cause("missing_attestation", { name }), null));
  assert.is(joinCauses(missing), "a, b and 3 more are missing");
  assert.is(joinCauses(missing.slice(0, 3), 7), "a, b and c are missing; 7 more");
});

test.run();
