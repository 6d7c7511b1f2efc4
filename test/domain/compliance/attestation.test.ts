import { suite } from "uvu";
import * as assert from "uvu/assert";
import {
  buildAttestationStatuses,
  collectCauses,
  isTypeAccepted,
  readCause,
} from "../../../src/domain/compliance/attestation.ts";
import type { AttestationFact, AttestationStatus } from "../../../src/domain/compliance/attestation.ts";

const test = suite("domain/compliance/attestation");

const fact = (
  name: string,
  type: string,
  isCompliant = true,
  overriddenAttestationId: string | null = null,
): AttestationFact => ({
  name,
  type,
  attestationId: `id-${name}`,
  overriddenAttestationId,
  isCompliant,
});
const complete = (name: string, type: string, is_compliant: boolean, unexpected: boolean): AttestationStatus => ({
  attestation_name: name,
  attestation_type: type,
  attestation_id: `id-${name}`,
  overridden_attestation_id: null,
  status: "COMPLETE",
  is_compliant,
  unexpected,
});
const missing = (name: string, type: string): AttestationStatus => ({
  attestation_name: name,
  attestation_type: type,
  attestation_id: null,
  overridden_attestation_id: null,
  status: "MISSING",
  is_compliant: null,
  unexpected: false,
});

const fits: [expected: string, reported: string, fits: boolean][] = [
  ["snyk", "snyk", true],
  ["snyk", "junit", false],
  ["*", "junit", true],
  ["*", "custom:x", true],
  ["*", "system:decision", true],
  ["decision", "system:decision", true],
  ["decision", "decision", true],
  ["decision", "system:*", true],
  ["decision", "system:sbom", false],
  ["decision", "sbom", false],
  ["sbom", "system:sbom", true],
  ["system:sbom", "sbom", true],
  ["sbom", "system:*", true],
  ["sbom", "system:decision", false],
  ["sbom", "custom:sbom", false],
  ["custom:sbom", "system:sbom", false],
  ["decision", "generic", false],
  ["decision", "custom", false],
  ["generic", "system:decision", false],
  ["custom:x", "custom:x", true],
  ["custom:x", "custom:y", false],
  ["custom:x", "custom", true],
  ["custom:x", "custom:*", true],
  ["custom:x", "generic", false],
  ["generic", "custom", false],
];
for (const [expected, reported, yes] of fits) {
  test(`${expected} ${yes ? "takes" : "does not take"} ${reported}`, () =>
    assert.is(isTypeAccepted(expected, reported), yes));
}

test("lists template entries, then unexpected ones; a wrong type is missing and listed again (semantics 13.2)", () => {
  const expected = [
    { name: "b", type: "snyk" },
    { name: "a", type: "*" },
    { name: "gone", type: "jira" },
    { name: "wrong", type: "junit" },
    { name: "ok", type: "decision" },
  ];
  const facts = [
    fact("z", "generic"),
    fact("wrong", "generic"),
    fact("ok", "system:decision"),
    fact("a", "sonar"),
    fact("b", "snyk", false),
  ];
  assert.equal(buildAttestationStatuses(expected, facts), [
    complete("b", "snyk", false, false),
    complete("a", "sonar", true, false),
    missing("gone", "jira"),
    missing("wrong", "junit"),
    complete("ok", "system:decision", true, false),
    complete("z", "generic", true, true),
    complete("wrong", "generic", true, true),
  ]);
});

test("lists everything as unexpected without a template", () => {
  assert.equal(buildAttestationStatuses([], [fact("a", "snyk")]), [complete("a", "snyk", true, true)]);
  assert.equal(buildAttestationStatuses([], []), []);
});

test("shows both ids and the original's type of an override, also in an empty slot (semantics 13.53, 13.12)", () => {
  const overridden = fact("a", "snyk", true, "over");
  const neverReported = { ...fact("b", "custom", true, "over2"), attestationId: null };
  assert.equal(
    buildAttestationStatuses(
      [
        { name: "a", type: "snyk" },
        { name: "b", type: "custom:x" },
      ],
      [overridden, neverReported],
    ),
    [
      { ...complete("a", "snyk", true, false), overridden_attestation_id: "over" },
      { ...complete("b", "custom", true, false), attestation_id: null, overridden_attestation_id: "over2" },
    ],
  );
});

test("names each cause", () => {
  const entries = buildAttestationStatuses(
    [
      { name: "bad", type: "snyk" },
      { name: "gone", type: "*" },
      { name: "wrong", type: "junit" },
    ],
    [
      fact("bad", "snyk", false),
      fact("wrong", "generic"),
      fact("extra", "jira", false),
      fact("over", "jira", false, "o"),
      fact("fine", "jira"),
    ],
  );
  assert.equal(collectCauses(entries, "artifact 'app'"), {
    failing: [
      "Attestation 'bad' of artifact 'app' is not compliant",
      "Attestation 'extra' of artifact 'app' is not compliant, and is not in the template",
      "Attestation 'over' of artifact 'app' was overridden as not compliant, and is not in the template",
    ],
    missing: [
      "Attestation 'gone' of artifact 'app' is missing; the template expects type '*'",
      "Attestation 'wrong' of artifact 'app' was reported as 'generic'; the template expects type 'junit'",
    ],
  });
});

test("a sentence about a cause is taken apart again, and no other sentence is", () => {
  const entries = [
    complete("scan", "snyk", false, false),
    complete("odd", "generic", false, true),
    { ...complete("waived", "generic", false, false), overridden_attestation_id: "id-o" },
    missing("tests", "custom:a~b.c"),
    missing("typed", "junit"),
    complete("typed", "generic", true, true),
  ];
  for (const [owner, artifact] of [
    ["the trail", null],
    ["the artifact", ""],
    ["artifact 'backend'", "backend"],
    [`artifact 'sha256:${"a".repeat(64)}'`, `sha256:${"a".repeat(64)}`],
  ] as const) {
    const { failing, missing: absent } = collectCauses(entries, owner);
    const cause = (name: string, problem: string, expectedType: string | null, unexpected = false) => ({
      name,
      artifact,
      problem,
      expectedType,
      unexpected,
    });
    assert.equal([...failing, ...absent].map(readCause), [
      cause("scan", "non_compliant", null),
      cause("odd", "non_compliant", null, true),
      cause("waived", "overridden", null),
      cause("tests", "missing", "custom:a~b.c"),
      cause("typed", "mistyped", "junit"),
    ]);
  }
  for (const sentence of ["", "Artifact 'x' is missing", "Attestation 'x' of the artifact is missing", "Attestation"])
    assert.is(readCause(sentence), null);
});

test.run();
