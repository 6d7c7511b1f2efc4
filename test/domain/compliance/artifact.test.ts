import { suite } from "uvu";
import * as assert from "uvu/assert";
import {
  evaluateArtifact,
  evaluateLegacyArtifact,
  buildLegacyAttestationStatuses,
} from "../../../src/domain/compliance/artifact.ts";
import type { AttestationStatus } from "../../../src/domain/compliance/attestation.ts";

const test = suite("domain/compliance/artifact");

const entry = (attestation_name: string, is_compliant: boolean | null, unexpected = false): AttestationStatus => ({
  attestation_name,
  attestation_type: "generic",
  attestation_id: is_compliant === null ? null : "id",
  overridden_attestation_id: null,
  status: is_compliant === null ? "MISSING" : "COMPLETE",
  is_compliant,
  unexpected,
});
const good = entry("good", true);
const bad = entry("bad", false);
const gone = entry("gone", null);
const badReason = (owner: string): string => `Attestation 'bad' of ${owner} is not compliant`;
const goneReason = (owner: string): string =>
  `Attestation 'gone' of ${owner} is missing; the template expects type 'generic'`;

const table: [what: string, own: AttestationStatus[], trail: AttestationStatus[], state: string, reasons: string[]][] =
  [
    ["nothing at all", [], [], "COMPLIANT", []],
    ["all present and good", [good], [good], "COMPLIANT", []],
    ["one missing", [good, gone], [], "INCOMPLETE", [goneReason("artifact 'app'")]],
    ["one failing", [good, bad], [], "NON-COMPLIANT", [badReason("artifact 'app'")]],
    [
      "failing wins over missing (semantics 13.1)",
      [gone, bad],
      [],
      "NON-COMPLIANT",
      [badReason("artifact 'app'"), goneReason("artifact 'app'")],
    ],
    [
      "an unexpected failure counts",
      [entry("bad", false, true)],
      [],
      "NON-COMPLIANT",
      [`${badReason("artifact 'app'")}, and is not in the template`],
    ],
    ["the trail's failure counts (semantics 13.54)", [good], [bad], "NON-COMPLIANT", [badReason("the trail")]],
    ["what the trail misses counts (semantics 13.54)", [good], [gone], "INCOMPLETE", [goneReason("the trail")]],
    [
      "the trail's failure wins over an own gap",
      [gone],
      [bad],
      "NON-COMPLIANT",
      [badReason("the trail"), goneReason("artifact 'app'")],
    ],
  ];
for (const [what, own, trail, state, reasons] of table) {
  test(what, () => assert.equal(evaluateArtifact(own, trail, "artifact 'app'"), { state, reasons }));
}

const legacy: [
  what: string,
  template: string[] | null,
  isCompliant: boolean | null,
  state: string,
  reasons: string[],
][] = [
  ["nothing known", null, null, "COMPLIANT", []],
  ["reported as good", null, true, "COMPLIANT", []],
  ["reported as bad", null, false, "NON-COMPLIANT", ["The artifact was reported as not compliant"]],
  ["a template of the artifact alone", ["artifact"], null, "COMPLIANT", []],
  [
    "a template that nothing can fill",
    ["artifact", "scan", "scan"],
    true,
    "INCOMPLETE",
    ["Attestation 'scan' of the artifact is missing"],
  ],
  [
    "both bad and missing",
    ["scan"],
    false,
    "NON-COMPLIANT",
    ["The artifact was reported as not compliant", "Attestation 'scan' of the artifact is missing"],
  ],
];
for (const [what, template, isCompliant, state, reasons] of legacy) {
  test(`without a trail: ${what}`, () =>
    assert.equal(evaluateLegacyArtifact({ template, isCompliant }), { state, reasons }));
}

test("lists every expected attestation of an artifact without a trail as missing, once, in template order", () => {
  const expected = [
    ["artifact", "*"],
    ["scan", "snyk"],
    ["unit", "junit"],
    ["scan", "*"],
  ] as const;
  const entry = (attestation_name: string, attestation_type: string) => ({
    attestation_name,
    attestation_type,
    attestation_id: null,
    overridden_attestation_id: null,
    status: "MISSING",
    is_compliant: null,
    unexpected: false,
  });
  assert.equal(buildLegacyAttestationStatuses(expected.map(([name, type]) => ({ name, type }))), [
    entry("scan", "snyk"),
    entry("unit", "junit"),
  ]);
  assert.equal(buildLegacyAttestationStatuses([]), []);
});

test.run();
