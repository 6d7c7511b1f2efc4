import { suite } from "uvu";
import * as assert from "uvu/assert";
import { opened } from "../given.ts";

const test = suite("store/flows/trail-evaluation");
const FINGERPRINT = "f".repeat(64);
const TEMPLATE = `version: 1
trail:
  attestations:
    - {name: review, type: generic}
  artifacts:
    - name: server
      attestations:
        - {name: tests, type: junit}
`;

function world() {
  const setup = opened();
  const f = setup.flow("f", TEMPLATE);
  const t = setup.trail(f.id, "t");
  const artifact = setup.artifact(f.id, t.id, FINGERPRINT, { referenceName: "server" });
  const verdict = () => {
    const { state, compliance_json, reasons_json, last_modified_at } = setup.store.trails.get(t.id);
    return { state, status: JSON.parse(compliance_json), reasons: JSON.parse(reasons_json), last_modified_at };
  };
  return { ...setup, f, t, artifact, verdict };
}

test("stores the verdict and its reasons beside the facts, on the trail and on its artifacts", () => {
  const { store, t, artifact, verdict } = world();
  const status = store.trailEvaluation.evaluate(t.id, 50);
  const stored = verdict();
  assert.equal(stored.status, status);
  assert.equal(
    {
      state: stored.state,
      status: status.status,
      evaluated_at: status.evaluated_at,
      last_modified_at: stored.last_modified_at,
    },
    { state: "INCOMPLETE", status: "INCOMPLETE", evaluated_at: 50, last_modified_at: 50 },
  );
  assert.is(status.flow_template_id, store.templates.get(t.template_id).public_id);
  assert.equal(stored.reasons, [
    "Attestation 'review' of the trail is missing; the template expects type 'generic'",
    "Attestation 'tests' of artifact 'server' is missing; the template expects type 'junit'",
  ]);
  const row = store.artifacts.get(artifact);
  assert.equal(
    { state: row.state, reasons_json: JSON.parse(row.reasons_json), last_modified_at: row.last_modified_at },
    { state: "INCOMPLETE", reasons_json: [stored.reasons[1], stored.reasons[0]], last_modified_at: 50 },
  );
  assert.equal(
    JSON.parse(row.attestations_json).map((entry: { attestation_name: string; status: string }) => [
      entry.attestation_name,
      entry.status,
    ]),
    [["tests", "MISSING"]],
  );
});

test("does not touch an artifact whose verdict stays the same", () => {
  const { store, t, artifact } = world();
  store.trailEvaluation.evaluate(t.id, 50);
  store.trailEvaluation.evaluate(t.id, 60);
  assert.is(store.artifacts.get(artifact).last_modified_at, 50);
});

test("the latest record of a name counts on both levels, and the activity of the flow follows", () => {
  const { store, f, t, artifact, attestation, verdict } = world();
  const onTrail = (compliant: 0 | 1) =>
    store.attestations.bindToTrail(t.id, attestation(f.id, t.id, "review", { is_compliant: compliant }).id, "review");
  const onArtifact = (compliant: 0 | 1) =>
    store.attestations.bindToArtifact(
      { trailId: t.id, artifactId: artifact },
      {
        id: attestation(f.id, t.id, "tests", { scope: "artifact", type: "junit", is_compliant: compliant }).id,
        name: "tests",
      },
    );
  const states = () => {
    store.trailEvaluation.evaluate(t.id, 70);
    return [verdict().state, store.artifacts.get(artifact).state, store.flows.get(f.id).latest_state];
  };
  onTrail(0);
  assert.equal(states(), ["NON-COMPLIANT", "NON-COMPLIANT", "NON-COMPLIANT"]);
  onTrail(1);
  assert.equal(states(), ["INCOMPLETE", "INCOMPLETE", "INCOMPLETE"]);
  onArtifact(0);
  assert.equal(states(), ["NON-COMPLIANT", "NON-COMPLIANT", "NON-COMPLIANT"]);
  onArtifact(1);
  assert.equal(states(), ["COMPLIANT", "COMPLIANT", "COMPLIANT"]);
  assert.equal(verdict().reasons, []);
  assert.is(store.flows.get(f.id).latest_activity_at, 70);
});

test("an older record that is bound late does not replace a newer one", () => {
  const { store, f, t, artifact, attestation } = world();
  const older = attestation(f.id, t.id, "tests", { scope: "artifact", type: "junit", is_compliant: 0 });
  const newer = attestation(f.id, t.id, "tests", { scope: "artifact", type: "junit" });
  store.attestations.bindToArtifact({ trailId: t.id, artifactId: artifact }, { id: newer.id, name: "tests" });
  store.attestations.bindToArtifact({ trailId: t.id, artifactId: artifact }, { id: older.id, name: "tests" });
  assert.is(store.attestations.findCurrent(t.id, artifact, "tests")?.id, newer.id);
  assert.equal(store.attestations.listReceivedBy(artifact).length, 2);
});

test("an override counts in place of the record it overrides", () => {
  const { store, f, t, attestation, verdict } = world();
  const original = attestation(f.id, t.id, "review", { is_compliant: 0 });
  store.attestations.bindToTrail(t.id, original.id, "review");
  const override = attestation(f.id, t.id, "review", {
    type: "override",
    overridden_type: "generic",
    original_id: original.id,
  });
  store.attestations.bindToTrail(t.id, override.id, "review");
  store.trailEvaluation.evaluate(t.id, 80);
  assert.equal(verdict().status.attestations_statuses, [
    {
      attestation_name: "review",
      attestation_type: "generic",
      attestation_id: original.publicId,
      overridden_attestation_id: override.publicId,
      status: "COMPLETE",
      is_compliant: true,
      unexpected: false,
    },
  ]);
});

test("evaluates an artifact without a trail by its own report", () => {
  const { store, flow, artifact: place } = opened();
  const f = flow("f");
  const id = place(f.id, null, FINGERPRINT);
  for (const [names, isCompliant, state, reasons, missing] of [
    [[], null, "COMPLIANT", [], []],
    [["artifact", "unit"], true, "INCOMPLETE", ["Attestation 'unit' of the artifact is missing"], ["unit"]],
    [[], false, "NON-COMPLIANT", ["The artifact was reported as not compliant"], []],
  ] as const) {
    const expected = names.map((name) => ({ name, type: "junit" }));
    assert.is(
      store.trailEvaluation.evaluateLegacy({ artifactId: id, flowId: f.id }, { expected, isCompliant }, 90),
      state,
    );
    const row = store.artifacts.get(id);
    assert.equal(
      { state: row.state, reasons_json: JSON.parse(row.reasons_json), last_modified_at: row.last_modified_at },
      { state, reasons_json: reasons, last_modified_at: 90 },
    );
    assert.equal(
      JSON.parse(row.attestations_json),
      missing.map((name) => ({
        attestation_name: name,
        attestation_type: "junit",
        attestation_id: null,
        overridden_attestation_id: null,
        status: "MISSING",
        is_compliant: null,
        unexpected: false,
      })),
    );
    assert.is(store.flows.get(f.id).latest_state, state);
  }
});

test("a missing trail is a bug, not a verdict", () => {
  assert.throws(() => opened().store.trailEvaluation.evaluate(7, 1), /trail 7 is gone/);
});

test.run();
