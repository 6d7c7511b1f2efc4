import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { AttestationFact, AttestationStatus } from "../../../src/domain/compliance/attestation.ts";
import { isFailing } from "../../../src/domain/compliance/attestation.ts";
import { evaluateTrail } from "../../../src/domain/compliance/trail.ts";
import type { ArtifactFacts, TrailFacts } from "../../../src/domain/compliance/trail.ts";
import { parseTemplate } from "../../../src/domain/flow-template/template.ts";
import type { Template } from "../../../src/domain/flow-template/template.ts";

const test = suite("domain/compliance/trail");

function template(text: string): Template {
  const result = parseTemplate(text);
  if (result.template === null) throw new Error(JSON.stringify(result.problems));
  return result.template;
}

const EMPTY = template("version: 1");
const FULL = template(`
trail:
  attestations:
  - {name: ticket, type: jira}
  artifacts:
  - name: app
    attestations:
    - {name: unit, type: junit}
  - name: db
`);
const fact = (name: string, type: string, isCompliant = true): AttestationFact => ({
  name,
  type,
  attestationId: `id-${name}`,
  overriddenAttestationId: null,
  isCompliant,
});
const artifact = (
  artifactId: string,
  referenceName: string | null,
  ...attestations: AttestationFact[]
): ArtifactFacts => ({
  artifactId,
  fingerprint: `fp-${artifactId}`,
  referenceName,
  attestations,
});
const facts = (given: Partial<TrailFacts>): TrailFacts => ({
  template: FULL,
  flowTemplateId: "tpl",
  evaluatedAt: 17.5,
  trailAttestations: [],
  artifacts: [],
  ...given,
});
const entry = (name: string, type: string, is_compliant: boolean | null, unexpected = false): AttestationStatus => ({
  attestation_name: name,
  attestation_type: type,
  attestation_id: is_compliant === null ? null : `id-${name}`,
  overridden_attestation_id: null,
  status: is_compliant === null ? "MISSING" : "COMPLETE",
  is_compliant,
  unexpected,
});
const shared = { evaluated_at: 17.5, flow_template_id: "tpl" };
const noArtifact = {
  artifact_fingerprint: null,
  artifact_id: null,
  status: "MISSING",
  is_compliant: null,
  unexpected: false,
  ...shared,
};

test("is COMPLIANT without expectations and reports", () => {
  assert.equal(evaluateTrail(facts({ template: EMPTY })), {
    compliance_status: {
      status: "COMPLIANT",
      is_compliant: true,
      attestations_statuses: [],
      artifacts_statuses: {},
      ...shared,
    },
    reasons: [],
    artifacts: [],
  });
});

test("is INCOMPLETE for a new trail with requirements, and lists all of them", () => {
  assert.equal(evaluateTrail(facts({})), {
    compliance_status: {
      status: "INCOMPLETE",
      is_compliant: false,
      attestations_statuses: [entry("ticket", "jira", null)],
      artifacts_statuses: {
        app: { ...noArtifact, attestations_statuses: [entry("unit", "junit", null)] },
        db: { ...noArtifact, attestations_statuses: [] },
      },
      ...shared,
    },
    reasons: [
      "Attestation 'ticket' of the trail is missing; the template expects type 'jira'",
      "Artifact 'app' is missing",
      "Artifact 'db' is missing",
    ],
    artifacts: [],
  });
});

test("covers the artifact in its nested status, and also the trail in its state (semantics 13.54)", () => {
  const {
    compliance_status: status,
    reasons,
    artifacts,
  } = evaluateTrail(
    facts({
      trailAttestations: [fact("ticket", "jira", false)],
      artifacts: [artifact("a", "app", fact("unit", "junit")), artifact("d", "db")],
    }),
  );
  assert.equal(status, {
    status: "NON-COMPLIANT",
    is_compliant: false,
    attestations_statuses: [entry("ticket", "jira", false)],
    artifacts_statuses: {
      app: {
        artifact_fingerprint: "fp-a",
        artifact_id: "a",
        status: "COMPLIANT",
        is_compliant: true,
        unexpected: false,
        attestations_statuses: [entry("unit", "junit", true)],
        ...shared,
      },
      db: {
        artifact_fingerprint: "fp-d",
        artifact_id: "d",
        status: "COMPLIANT",
        is_compliant: true,
        unexpected: false,
        attestations_statuses: [],
        ...shared,
      },
    },
    ...shared,
  });
  const because = ["Attestation 'ticket' of the trail is not compliant"];
  assert.equal(reasons, because);
  assert.equal(artifacts, [
    { artifactId: "a", state: "NON-COMPLIANT", reasons: because, attestationsStatuses: [entry("unit", "junit", true)] },
    { artifactId: "d", state: "NON-COMPLIANT", reasons: because, attestationsStatuses: [] },
  ]);
});

const ticket = [fact("ticket", "jira")];
const unit = (ok: boolean): AttestationFact => fact("unit", "junit", ok);
const verdicts: [what: string, given: Partial<TrailFacts>, status: string][] = [
  [
    "all fulfilled",
    { trailAttestations: ticket, artifacts: [artifact("a", "app", unit(true)), artifact("d", "db")] },
    "COMPLIANT",
  ],
  [
    "an artifact misses an attestation",
    { trailAttestations: ticket, artifacts: [artifact("a", "app"), artifact("d", "db")] },
    "INCOMPLETE",
  ],
  [
    "failing wins over missing, across levels (semantics 13.1)",
    { artifacts: [artifact("a", "app", unit(false))] },
    "NON-COMPLIANT",
  ],
  [
    "wrong type leaves the slot open (semantics 13.2)",
    {
      trailAttestations: [fact("ticket", "generic")],
      artifacts: [artifact("a", "app", unit(true)), artifact("d", "db")],
    },
    "INCOMPLETE",
  ],
  [
    "wrong type and failing counts (semantics 13.2)",
    {
      trailAttestations: [fact("ticket", "generic", false)],
      artifacts: [artifact("a", "app", unit(true)), artifact("d", "db")],
    },
    "NON-COMPLIANT",
  ],
  [
    "an unexpected failure in a trail without template",
    { template: EMPTY, trailAttestations: [fact("x", "generic", false)] },
    "NON-COMPLIANT",
  ],
  [
    "an unexpected artifact participates",
    { template: EMPTY, artifacts: [artifact("x", "extra", fact("y", "generic", false))] },
    "NON-COMPLIANT",
  ],
  [
    "an unexpected artifact does no harm by itself",
    { template: EMPTY, artifacts: [artifact("x", "extra")] },
    "COMPLIANT",
  ],
  [
    "a rebuild repairs (semantics 13.55)",
    {
      trailAttestations: ticket,
      artifacts: [artifact("a", "app", unit(false)), artifact("d", "db"), artifact("b", "app", unit(true))],
    },
    "COMPLIANT",
  ],
  [
    "a rebuild breaks (semantics 13.55)",
    {
      trailAttestations: ticket,
      artifacts: [artifact("b", "app", unit(true)), artifact("d", "db"), artifact("a", "app", unit(false))],
    },
    "NON-COMPLIANT",
  ],
];
for (const [what, given, status] of verdicts) {
  test(`${what}: ${status}`, () => {
    const evaluation = evaluateTrail(facts(given));
    assert.is(evaluation.compliance_status.status, status);
    assert.is(evaluation.compliance_status.is_compliant, status === "COMPLIANT");
  });
}

test("shows the latest record per name; older records keep their own state (semantics 13.55)", () => {
  const { compliance_status: status, artifacts } = evaluateTrail(
    facts({
      template: EMPTY,
      artifacts: [artifact("old", "x", fact("t", "generic", false)), artifact("y", "y"), artifact("new", "x")],
    }),
  );
  assert.equal(
    Object.entries(status.artifacts_statuses).map(([key, value]) => [key, value.artifact_id, value.unexpected]),
    [
      ["x", "new", true],
      ["y", "y", true],
    ],
  );
  assert.equal(
    artifacts.map(({ artifactId, state }) => [artifactId, state]),
    [
      ["old", "NON-COMPLIANT"],
      ["y", "COMPLIANT"],
      ["new", "COMPLIANT"],
    ],
  );
});

test("lists an artifact without reference name under its fingerprint, without replacing another", () => {
  const fingerprint = "a".repeat(64);
  const plain = { ...artifact("n", null), fingerprint };
  const alone = evaluateTrail(facts({ artifacts: [plain] })).compliance_status.artifacts_statuses;
  assert.equal(Object.keys(alone), ["app", "db", fingerprint]);
  assert.is(alone[fingerprint]?.unexpected, true);

  const namesake = template(`trail: {artifacts: [{name: ${fingerprint}}]}`);
  const both = evaluateTrail(facts({ template: namesake, artifacts: [plain] })).compliance_status;
  assert.equal(
    Object.entries(both.artifacts_statuses).map(([key, { status, unexpected }]) => [key, status, unexpected]),
    [
      [fingerprint, "MISSING", false],
      [`sha256:${fingerprint}`, "COMPLIANT", true],
    ],
  );
  assert.is(both.status, "INCOMPLETE");
});

test("accepts reference names that are special in JavaScript", () => {
  const proto = template("trail: {artifacts: [{name: __proto__}]}");
  const { compliance_status: status } = evaluateTrail(
    facts({ template: proto, artifacts: [artifact("p", "__proto__")] }),
  );
  assert.equal(Object.keys(status.artifacts_statuses), ["__proto__"]);
  assert.ok(JSON.stringify(status).includes('"__proto__":{"artifact_fingerprint":"fp-p"'));
});

test("evaluates 150,000 artifacts without exhausting the call stack", () => {
  const many = Array.from({ length: 150_000 }, (_, index) => artifact(`a${index}`, `n${index}`));
  assert.is(evaluateTrail(facts({ template: EMPTY, artifacts: many })).compliance_status.status, "COMPLIANT");
});

/** mulberry32: small, seeded, good enough to pick cases. */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

test("keeps the invariants of the verdict for random trails", () => {
  const next = random(20240131);
  const pick = <T>(values: readonly T[]): T => values[Math.floor(next() * values.length)] as T;
  const some = <T>(values: readonly T[]): T[] => values.filter(() => next() < 0.5);
  const names = ["a", "b", "c"];
  const types = ["generic", "junit", "*"];
  const reported = ["generic", "junit"];
  const someFacts = (): AttestationFact[] => some(names).map((name) => fact(name, pick(reported), next() < 0.8));
  const seen = new Set<string>();

  for (let round = 0; round < 1000; round += 1) {
    const expected = (): { name: string; type: string }[] => some(names).map((name) => ({ name, type: pick(types) }));
    const given = facts({
      template: {
        version: 1,
        trail: {
          attestations: expected(),
          artifacts: some(["x", "y"]).map((name) => ({ name, attestations: expected() })),
        },
      },
      trailAttestations: someFacts(),
      artifacts: Array.from({ length: Math.floor(next() * 4) }, (_, index) =>
        artifact(`r${index}`, pick(["x", "y", "z", null]), ...someFacts()),
      ),
    });
    const { compliance_status: status, reasons, artifacts } = evaluateTrail(given);
    const inMap = Object.values(status.artifacts_statuses);
    const entries = [...status.attestations_statuses, ...inMap.flatMap((value) => value.attestations_statuses)];
    const failing = entries.some(isFailing);
    const missing =
      entries.some((one) => one.status === "MISSING") || inMap.some((value) => value.status === "MISSING");
    seen.add(status.status);

    assert.is(status.status === "NON-COMPLIANT", failing);
    assert.is(status.status === "COMPLIANT", !failing && !missing);
    assert.is(status.is_compliant, status.status === "COMPLIANT");
    assert.is(reasons.length === 0, status.is_compliant);
    for (const value of inMap) {
      assert.is(value.is_compliant, value.status === "MISSING" ? null : value.status === "COMPLIANT");
      assert.is(value.artifact_id === null, value.status === "MISSING");
    }
    for (const one of entries) assert.is(one.status === "MISSING", one.is_compliant === null);
    for (const one of artifacts) {
      const counted = [...one.attestationsStatuses, ...status.attestations_statuses];
      assert.is(one.state === "NON-COMPLIANT", counted.some(isFailing));
      assert.is(
        one.state === "COMPLIANT",
        counted.every((each) => each.is_compliant === true),
      );
      assert.is(one.reasons.length === 0, one.state === "COMPLIANT");
    }
    if (status.status === "COMPLIANT")
      assert.ok(
        artifacts
          .filter(({ artifactId }) => inMap.some((value) => value.artifact_id === artifactId))
          .every(({ state }) => state === "COMPLIANT"),
      );

    // The order of attestations and of the template changes the order of entries, but no verdict.
    const reversed = evaluateTrail({
      ...given,
      template: {
        version: 1,
        trail: {
          attestations: given.template.trail.attestations.toReversed(),
          artifacts: given.template.trail.artifacts.toReversed(),
        },
      },
      trailAttestations: given.trailAttestations.toReversed(),
      artifacts: given.artifacts.map((one) => ({ ...one, attestations: one.attestations.toReversed() })),
    });
    assert.is(reversed.compliance_status.status, status.status);
    assert.equal(reversed.reasons.toSorted(), reasons.toSorted());
    assert.equal(
      reversed.artifacts.map(({ state }) => state),
      artifacts.map(({ state }) => state),
    );
    // So does the order of artifacts with different names; among those of one name, the latest counts.
    const byName = given.artifacts.toSorted((a, b) => String(a.referenceName).localeCompare(String(b.referenceName)));
    assert.is(evaluateTrail({ ...given, artifacts: byName }).compliance_status.status, status.status);
  }
  assert.is(seen.size, 3);
});

test.run();
