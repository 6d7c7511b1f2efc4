import { suite } from "uvu";
import * as assert from "uvu/assert";
import { buildSubject } from "../../../src/domain/compliance/environment.ts";
import type { FlowRecord } from "../../../src/domain/compliance/environment.ts";
import { listCauses } from "../../../src/domain/compliance/causes.ts";
import { listRemedies } from "../../../src/domain/compliance/remedies.ts";
import { parsePolicy } from "../../../src/domain/policy/document.ts";
import { evaluatePolicy } from "../../../src/domain/policy/evaluate.ts";
import type { AttestationCandidate, PolicyVerdict } from "../../../src/domain/policy/evaluate.ts";

const test = suite("domain/compliance/remedies");

const FINGERPRINT = "f".repeat(64);

const record = (fields: Partial<FlowRecord>): FlowRecord => ({
  flow_id: 1,
  flow: "build",
  tags: {},
  trail_id: 2,
  trail: "t1",
  artifact_id: 3,
  reference_name: "web",
  filename: "web.tar",
  git_commit: "c".repeat(40),
  commit_url: "",
  committed_at: null,
  state: "NON-COMPLIANT",
  reasons: [],
  candidates: [],
  deployment_id: null,
  ...fields,
});
const candidate = (name: string, fields: Partial<AttestationCandidate> = {}): AttestationCandidate => ({
  name,
  type: "snyk",
  isCompliant: false,
  control: null,
  attestationId: `id-${name}`,
  level: "artifact",
  sequence: 1,
  ...fields,
});

function verdict(artifacts: string, flows: FlowRecord[]): PolicyVerdict {
  const { policy, problems } = parsePolicy(`_schema: /v1\nartifacts: ${artifacts}`);
  if (!policy) throw new Error(JSON.stringify(problems));
  return evaluatePolicy(policy, buildSubject({ name: "web", fingerprint: FINGERPRINT }, { flows }));
}
const causes = (flows: FlowRecord[], ...policies: string[]) =>
  listCauses(
    policies.map((artifacts) => verdict(artifacts, flows)),
    flows,
  ).map(({ kind, name, type, attestation_id, level }) => [kind, name, type, attestation_id, level]);

const TRAIL = "{trail-compliance: {required: true}}";

test("an attestation that a trail and several rules fail on is one cause", () => {
  const flows = [
    record({
      reasons: [
        "Attestation 'scan' of artifact 'web' is not compliant",
        "Attestation 'gate' of the trail is missing; the template expects type 'sonar'",
        "Attestation 'any' of the trail is missing; the template expects type '*'",
      ],
      candidates: [candidate("scan")],
    }),
  ];
  const rules =
    "{attestations: [{type: snyk, name: scan}, {type: snyk}, {type: sonar}, {type: sonar, name: gate}, " +
    "{type: jira, name: any}]}";
  const expected = [
    ["non_compliant_attestation", "scan", "snyk", "id-scan", "artifact"],
    ["missing_attestation", "gate", "sonar", null, "trail"],
    ["missing_attestation", "any", "*", null, "trail"],
  ];
  assert.equal(causes(flows, TRAIL, rules), expected);
  assert.equal(causes(flows, rules, TRAIL, rules), expected);
});

test("attestations of another type, control or trail are causes of their own", () => {
  const reasons = ["Attestation 'gate' of the trail is missing; the template expects type 'sonar'"];
  const flows = [record({ reasons }), record({ flow_id: 9, flow: "release", reasons })];
  assert.equal(
    causes(
      flows,
      TRAIL,
      "{attestations: [{type: junit, name: gate}, {type: decision, for_control: C-1}, {type: decision}]}",
    ),
    [
      ["missing_attestation", "gate", "sonar", null, "trail"],
      ["missing_attestation", "gate", "junit", null, null],
      ["missing_attestation", null, "decision", null, null],
      ["missing_attestation", null, "decision", null, null],
      ["missing_attestation", "gate", "sonar", null, "trail"],
      ["missing_attestation", "gate", "junit", null, null],
      ["missing_attestation", null, "decision", null, null],
      ["missing_attestation", null, "decision", null, null],
    ],
  );
});

test("the record of a trail and that of the artifact with the same name are told apart", () => {
  const flows = [
    record({
      reasons: ["Attestation 'scan' of the trail is not compliant"],
      candidates: [
        candidate("scan", { isCompliant: true }),
        candidate("scan", { level: "trail", attestationId: "id-trail", type: "system:decision", control: "C-1" }),
      ],
    }),
  ];
  assert.equal(causes(flows, TRAIL), [["non_compliant_attestation", "scan", "decision", "id-trail", "trail"]]);
});

test("every kind of verdict has a remedy, in words", () => {
  const remedies = (artifacts: string, flows: FlowRecord[]) =>
    verdict(artifacts, flows).rules.flatMap((rule) =>
      listRemedies(rule, { flows, fingerprint: FINGERPRINT })
        .filter(({ kind }) => kind !== "allowlist")
        .map(({ kind, words }) => `${kind}: ${words}`),
    );
  assert.equal(remedies("{provenance: {required: true}}", []), [
    "report_artifact: Report the artifact to a trail of the flow that builds it",
  ]);
  const legacy = record({
    trail: null,
    trail_id: null,
    reasons: ["The artifact was reported as not compliant", "Attestation 'x' of the artifact is missing"],
  });
  assert.equal(remedies(TRAIL, [legacy]), [
    "report_artifact: Report the artifact to a trail of flow 'build' as compliant",
    "report_artifact: Report the artifact to a trail of flow 'build'",
  ]);
  assert.equal(remedies("{attestations: [{type: snyk}]}", [record({ candidates: [candidate("scan")] })]), [
    "fix_attestation: Fix what the snyk attestation 'scan' found, and report it again for the artifact in trail " +
      "'t1' of flow 'build'",
    "override_attestation: Or override the snyk attestation 'scan' in trail 't1' of flow 'build', with a reason",
  ]);
  assert.equal(remedies("{attestations: [{type: decision, for_control: C-1}]}", [record({})]), [
    "report_attestation: Report a compliant decision for control 'C-1' for the artifact in trail 't1' of flow 'build'",
  ]);
  assert.equal(remedies("{attestations: [{type: junit, if: flow > 1}]}", [record({})]).length, 1);
  assert.equal(remedies("{attestations: [{type: junit, if: exists(flow.tags.x)}]}", [record({})]), []);
});

test.run();
