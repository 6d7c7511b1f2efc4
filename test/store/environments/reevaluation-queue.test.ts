import { suite } from "uvu";
import * as assert from "uvu/assert";
import { opened, plan } from "../given.ts";

const test = suite("store/environments/reevaluation-queue");

/** Two policies; `env` creates an environment that uses them. */
function given() {
  const { db, store, sql, organizationId } = opened();
  const policy = (name: string) =>
    store.policies.put(organizationId, { name, description: "", user: "ann", file: null }).policy.id;
  const [policyId, otherId] = [policy("production"), policy("other")];
  const insert = db.prepare(
    `INSERT INTO environments (public_id, organization_id, name, type, archived_at, revision, created_at,
        last_modified_at)
     VALUES (@name, @organizationId, @name, 'K8S', @archivedAt, 7, 1, 1)`,
  );
  const attach = db.prepare("INSERT INTO environment_policies (environment_id, policy_id, position) VALUES (?, ?, ?)");
  const env = (name: string, policies: number[], archivedAt: number | null = null): number => {
    const id = Number(insert.run({ name, organizationId, archivedAt }).lastInsertRowid);
    for (const [position, policy] of policies.entries()) attach.run(id, policy, position);
    return id;
  };
  const revisions = () => db.prepare("SELECT name, revision FROM environments ORDER BY id").raw().all();
  return { db, store, sql, policyId, otherId, env, revisions };
}

test("a new version enqueues every active environment that uses the policy, once each", () => {
  const { store, policyId, otherId, env, revisions } = given();
  const prod = env("prod", [otherId, policyId]);
  env("dev", []);
  env("theirs", [otherId]);
  env("old", [policyId], 5);
  const staging = env("staging", [policyId]);
  const jobs = store.reevaluationQueue.enqueueForPolicy(policyId, { publicId: "u-1", displayName: "Ann" });
  assert.equal(
    jobs
      .map((id) => store.jobs.find(id))
      .map((job) => [job?.kind, job?.attempts, JSON.parse(job?.payload_json ?? "null")]),
    [prod, staging].map((id) => [
      "reevaluate",
      0,
      { environment_id: id, snapshot_count: 0, cause: "policy_version", user_id: "u-1", user_name: "Ann" },
    ]),
  );
  assert.equal(revisions(), [
    ["prod", 8],
    ["dev", 7],
    ["theirs", 7],
    ["old", 7],
    ["staging", 8],
  ]);
});

test("an unused policy enqueues nothing", () => {
  const { store, policyId, otherId, env, revisions } = given();
  env("prod", [otherId]);
  assert.equal(store.reevaluationQueue.enqueueForPolicy(policyId, { publicId: "u-1", displayName: "Ann" }), []);
  assert.equal(store.jobs.listKinds(), []);
  assert.equal(revisions(), [["prod", 7]]);
});

test("finds the environments of a policy by index and in order", () => {
  const { db, sql } = given();
  const using = sql.filter(
    (text) =>
      /FROM environment_policies ep JOIN environments/.test(text) &&
      text.includes("ep.policy_id = ?") &&
      text.includes("ORDER BY ep"),
  );
  assert.ok(using.length > 0);
  for (const text of using)
    assert.equal(plan(db, text), [
      "SEARCH ep USING COVERING INDEX environment_policies_by_policy (policy_id=?)",
      "SEARCH env USING INTEGER PRIMARY KEY (rowid=?)",
    ]);
});

test.run();
