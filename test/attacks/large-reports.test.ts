/**
 * The largest reports to an environment with a policy, by the packaged executable: the thread that records them has a
 * fixed limit of memory, whatever the facts and verdicts of all artifacts take together.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Facts } from "../../src/domain/compliance/environment.ts";
import { openDatabase } from "../../src/store/db/database.ts";
import { openStore } from "../../src/store/index.ts";
import type { Store } from "../../src/store/index.ts";
import { start } from "../binary/executable.ts";
import { ARTIFACT_FIELDS, ATTESTATION_FIELDS, TRAIL_FIELDS, createFlow } from "../store/given.ts";
import { jsonRequest } from "./attack.ts";
import { copyWorld, createClient, podReport } from "./large-world.ts";

const test = suite("attacks/large-reports");

const PODS = 95_000;
/** Of the pods, those with provenance: each has the facts of all attestations of its trail, 60 MB together. */
const BUILT = 4_000;
const CHECKS = 100;
const NUMBER = 9;

const data = mkdtempSync(join(tmpdir(), "assay-large-reports-"));
test.after(() => rmSync(data, { recursive: true, force: true }));

function inStore<T>(work: (store: Store, organizationId: number) => T): T {
  const db = openDatabase(data, 1);
  try {
    let ids = 0;
    const store = openStore(db, { now: () => 1_700_000_000, newId: () => `large-reports-${(ids += 1)}` });
    const { id } = store.organizations.find("acme") as { id: number };
    return db.transaction(() => work(store, id))();
  } finally {
    db.close();
  }
}

/** A trail with many attestations, and the first artifacts of the report in it; two policies about them. */
function build(store: Store, organizationId: number): void {
  const flow = createFlow(store, organizationId, "built");
  const trail = store.trails.create(
    { organizationId, flowId: flow.id, name: "built", createdBy: "ada" },
    { ...TRAIL_FIELDS, template_id: flow.template_id },
  );
  for (let n = 0; n < CHECKS; n += 1) {
    const name = `check-${n}`;
    const { id } = store.attestations.create({
      ...ATTESTATION_FIELDS,
      organization_id: organizationId,
      flow_id: flow.id,
      trail_id: trail.id,
      name,
      reported_by: "ada",
      created_at: 1,
    });
    store.attestations.bindToTrail(trail.id, id, name);
  }
  const pods = JSON.parse(podReport(NUMBER, PODS, 1)).artifacts as { digests: Record<string, string> }[];
  for (const { digests } of pods.slice(0, BUILT)) {
    const fingerprint = Object.values(digests)[0] as string;
    const place = { organizationId, flowId: flow.id, trailId: trail.id, fingerprint, referenceName: "app" };
    store.artifacts.create({ ...place, createdBy: "ada" }, ARTIFACT_FIELDS, 1);
  }
  store.trailEvaluation.evaluate(trail.id, 1);
  for (const [name, check] of [
    ["checked", "check-7"],
    ["scanned", "scan"],
  ])
    store.policies.put(organizationId, {
      name: name as string,
      description: "",
      user: "ada",
      file: {
        yaml: `_schema: https://assay.example.com/schemas/policy/v1
artifacts:
  provenance:
    required: true
  attestations:
    - {type: generic, name: ${check}}
`,
        comment: "",
      },
    });
}

test(`records ${PODS} pods under a policy, then with changes, then under another policy`, async () => {
  const { admin } = (await copyWorld(data)).keys;
  inStore(build);
  const server = await start(["serve", "--data", data, "--listen", "127.0.0.1:0", "--log-level", "error"]);
  const client = createClient(server.url);
  const ask = (method: string, path: string, body: string) => client.send(jsonRequest(method, path, admin, body));
  try {
    await ask("PUT", "/environments/acme", JSON.stringify({ name: "huge", type: "K8S", description: "" }));
    const attach = (name: string) =>
      ask("POST", "/environments/acme/huge/policies", JSON.stringify({ policy_names: [name] }));
    await attach("checked");
    for (const version of [1, 2])
      await ask("PUT", "/environments/acme/huge/report/K8S", podReport(NUMBER, PODS, version));
    await attach("scanned");
  } finally {
    client.close();
    await server.stop();
  }

  inStore((store, organizationId) => {
    const environment = store.environments.require({ id: organizationId, name: "acme" }, "huge");
    const verdicts = [1, 2, 3].map((index) => {
      const snapshot = store.snapshots.find(environment.id, index);
      return snapshot && { compliant: snapshot.compliant_count, other: snapshot.non_compliant_count };
    });
    // The second report replaces every fifth artifact; of those with provenance, the first keeps its fingerprint.
    const kept = (BUILT * 4) / 5 + 1;
    assert.equal(verdicts, [
      { compliant: BUILT, other: PODS - BUILT },
      { compliant: kept, other: PODS - kept },
      { compliant: 0, other: PODS },
    ]);
    const evaluated = (index: number, service: number) => {
      const found = store.snapshots
        .listArtifacts(environment.id, index)
        .find(({ name }) => name.endsWith(`/service-${service}:1.0`));
      const row = store.snapshots.findEvaluated(found?.id ?? 0);
      assert.ok(row, `service ${service} of snapshot ${index}`);
      const { flows } = JSON.parse(row.facts_json) as Facts;
      const deployed = flows.map(({ deployment_id }) => typeof deployment_id);
      const candidates = flows.map((flow) => flow.candidates.length);
      return { compliant: row.compliant, candidates, deployed, reasons: JSON.parse(row.reasons_json) as string[] };
    };
    assert.equal(evaluated(1, 1), { compliant: 1, candidates: [CHECKS], deployed: ["number"], reasons: [] });
    assert.equal(evaluated(3, 1), {
      compliant: 0,
      candidates: [CHECKS],
      deployed: ["number"],
      reasons: [
        "Policy 'scanned' requires a compliant generic attestation named 'scan', but none was reported in trail " +
          "'built' of flow 'built'.",
      ],
    });
    const { reasons, ...unknown } = evaluated(2, PODS - 1);
    assert.equal(unknown, { compliant: 0, candidates: [], deployed: [] });
    assert.match(reasons[0] ?? "", /^Policy 'checked' requires provenance/);
  });
});

test.run();
