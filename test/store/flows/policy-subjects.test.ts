import { suite } from "uvu";
import * as assert from "uvu/assert";
import { opened } from "../given.ts";

const test = suite("store/flows/policy-subjects");
const [FINGERPRINT, OTHER] = ["f".repeat(64), "e".repeat(64)];

test("lists the latest record of each flow, flows in the order of their first report", () => {
  const { store, organizationId, flow, trail, artifact } = opened();
  const [f, g] = [flow("f"), flow("g")];
  artifact(f.id, trail(f.id, "old").id, FINGERPRINT);
  const inG = artifact(g.id, null, FINGERPRINT);
  const inF = artifact(f.id, trail(f.id, "new").id, FINGERPRINT);
  artifact(f.id, trail(f.id, "sibling").id, OTHER);
  const records = (flowId: number | null, organization = organizationId, fingerprint = FINGERPRINT) =>
    store.policySubjects.listRecords(organization, fingerprint, flowId).map(({ id, trail_name }) => [id, trail_name]);
  assert.equal(records(null), [
    [inF, "new"],
    [inG, null],
  ]);
  assert.equal(
    { "records f.id": records(f.id), "records g.id": records(g.id) },
    { "records f.id": [[inF, "new"]], "records g.id": [[inG, null]] },
  );
  assert.equal(
    {
      "records(99)": records(99),
      "records(null, 99)": records(null, 99),
      'records(null, organizationId, "0".repeat(64))': records(null, organizationId, "0".repeat(64)),
    },
    { "records(99)": [], "records(null, 99)": [], 'records(null, organizationId, "0".repeat(64))': [] },
  );
});

test("a report on an older record makes it count in its flow, and changes no other flow", () => {
  const { store, clock, organizationId, flow, trail, artifact } = opened();
  const [f, g] = [flow("f"), flow("g")];
  const first = artifact(f.id, trail(f.id, "first").id, FINGERPRINT);
  const inG = artifact(g.id, trail(g.id, "t").id, FINGERPRINT);
  const second = artifact(f.id, trail(f.id, "second").id, FINGERPRINT);
  const alone = artifact(f.id, null, FINGERPRINT);
  const other = artifact(f.id, trail(f.id, "third").id, OTHER);
  const counting = () => store.policySubjects.listRecords(organizationId, FINGERPRINT, null).map(({ id }) => id);
  assert.equal(counting(), [alone, inG], "a record without a trail is one of its flow like any other");
  for (const [id, latest] of [
    [first, first],
    [other, first],
    [second, second],
    [second, second],
    [first, first],
    [alone, alone],
  ] as const) {
    store.artifacts.update(id, store.artifacts.get(id), clock.at);
    assert.equal(counting(), [latest, inG]);
    assert.is(store.artifacts.findLatest(f.id, FINGERPRINT, null)?.id, latest);
    assert.is(store.artifacts.findLatest(g.id, FINGERPRINT, null)?.id, inG);
  }
});

test("a subject has what policies read in each flow, and nothing of sibling artifacts", () => {
  const { store, organizationId, flow, trail, artifact, attestation } = opened();
  const [f, g] = [flow("f"), flow("g")];
  store.flows.patchTags(f.id, { set: { risk: "high" }, remove: [] });
  const t = trail(f.id, "t");
  const id = artifact(f.id, t.id, FINGERPRINT, { filename: "registry/app:1" });
  const sibling = artifact(f.id, t.id, OTHER);
  artifact(g.id, null, FINGERPRINT, { filename: "app.tgz" });
  const own = attestation(f.id, t.id, "scan", { scope: "artifact", is_compliant: 0 });
  store.attestations.bindToArtifact({ trailId: t.id, artifactId: id }, { id: own.id, name: "scan" });
  const foreign = attestation(f.id, t.id, "tests", { scope: "artifact" });
  store.attestations.bindToArtifact({ trailId: t.id, artifactId: sibling }, { id: foreign.id, name: "tests" });
  const review = attestation(f.id, t.id, "review", { type: "pull_request" });
  store.attestations.bindToTrail(t.id, review.id, "review");
  store.trailEvaluation.evaluate(t.id, 5);

  const rows = store.policySubjects.listRecords(organizationId, FINGERPRINT, null);
  const flows = [
    {
      flowName: "f",
      flowTags: { risk: "high" },
      artifactName: "registry/app:1",
      artifactState: "NON-COMPLIANT",
      trail: {
        name: "t",
        candidates: [
          {
            name: "scan",
            type: "generic",
            isCompliant: false,
            control: null,
            attestationId: own.publicId,
            level: "artifact",
            sequence: own.id,
          },
          {
            name: "review",
            type: "pull_request",
            isCompliant: true,
            control: null,
            attestationId: review.publicId,
            level: "trail",
            sequence: review.id,
          },
        ],
      },
    },
    { flowName: "g", flowTags: {}, artifactName: "app.tgz", artifactState: "INCOMPLETE", trail: null },
  ];
  assert.equal(store.policySubjects.readSubject(FINGERPRINT, rows), {
    fingerprint: FINGERPRINT,
    artifactName: "",
    flows,
  });
  assert.equal(store.policySubjects.readSubject(FINGERPRINT, rows, "running"), {
    fingerprint: FINGERPRINT,
    artifactName: "running",
    flows,
  });
  assert.equal(store.policySubjects.readSubject(FINGERPRINT, []), {
    fingerprint: FINGERPRINT,
    artifactName: "",
    flows: [],
  });
});

test("an archived flow stays part of the subject, under its new name", () => {
  const { store, organizationId, flow, trail, artifact } = opened();
  const f = flow("f");
  artifact(f.id, trail(f.id, "t").id, FINGERPRINT);
  const name = store.flows.archive(store.flows.get(f.id));
  const rows = store.policySubjects.listRecords(organizationId, FINGERPRINT, null);
  assert.equal(
    store.policySubjects.readSubject(FINGERPRINT, rows).flows.map(({ flowName }) => flowName),
    [name],
  );
});

test.run();
