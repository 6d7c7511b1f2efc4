import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Facts } from "../../../src/domain/compliance/environment.ts";
import type { ReportedArtifact } from "../../../src/domain/snapshot/normalize.ts";
import { storableReport } from "../../../src/store/environments/snapshot-survey.ts";
import { OPEN } from "../../../src/store/environments/snapshots.ts";
import { openStore } from "../../../src/store/index.ts";
import { opened, scans } from "../given.ts";

const test = suite("store/environments/snapshot-recorder");
const A = "a".repeat(64);
const B = "b".repeat(64);
const ADA = { publicId: "ada-id", displayName: "Ada" };

/** An artifact of a report: name, fingerprint and start times of its instances. */
const runs = (name: string, fingerprint: string, ...created: number[]): ReportedArtifact => ({
  name,
  fingerprint,
  instances: { created: created.length > 0 ? created : [100] },
});

function world() {
  const setup = opened();
  const { db, store, organizationId } = setup;
  let environments = 0;
  const environment = (type = "K8S"): number =>
    Number(
      db
        .prepare(
          `INSERT INTO environments (public_id, organization_id, name, type, created_at, last_modified_at)
              VALUES (?, ?, ?, ?, 1, 1)`,
        )
        .run(`env-${++environments}`, organizationId, `env${environments}`, type).lastInsertRowid,
    );
  const policy = (name: string, yaml: string) =>
    store.policies.put(organizationId, {
      name,
      description: "",
      user: "ada",
      file: { yaml: `_schema: https://assay.example.com/schemas/policy/v1\n${yaml}`, comment: "" },
    }).policy.id;
  const attach = (environmentId: number, policyId: number) => {
    db.prepare("INSERT INTO environment_policies (environment_id, policy_id, position) VALUES (?, ?, ?)").run(
      environmentId,
      policyId,
      policyId,
    );
    store.staleArtifacts.markPoliciesChanged(environmentId);
  };
  const report = (environmentId: number, ...artifacts: ReportedArtifact[]) =>
    store.snapshotRecorder.record(store.environments.get(environmentId), { cause: "report", artifacts, actor: ADA });
  const again = (environmentId: number, cause: "policies" | "policy_version" | "allowlist") =>
    store.snapshotRecorder.record(store.environments.get(environmentId), { cause, artifacts: null, actor: ADA });
  /** A snapshot as [name, first character of the fingerprint, annotation there, was, now, compliant]. */
  const shown = (environmentId: number, index: number) =>
    store.snapshots
      .listArtifacts(environmentId, index)
      .map(({ name, fingerprint, first_index, annotation, was, now, compliant }) =>
        first_index === index
          ? [name, fingerprint.charAt(0), annotation, was, now, compliant]
          : [name, fingerprint.charAt(0), "-", now, now, compliant],
      );
  const rows = (table: string): number => db.prepare(`SELECT count(*) FROM ${table}`).pluck().get() as number;
  const counts = () => ["snapshots", "snapshot_artifacts", "evaluations", "deployments", "snapshot_members"].map(rows);
  const f = setup.flow("f");
  /** Reports an artifact to a trail of its own, as the API would. */
  const build = (
    fingerprint: string,
    trailName = `t-${fingerprint.charAt(0)}`,
    referenceName: string | null = "app",
  ) => {
    const t = store.trails.find(f.id, trailName) ?? setup.trail(f.id, trailName);
    const id = setup.artifact(f.id, t.id, fingerprint, {
      ...(referenceName === null ? {} : { referenceName }),
      git_commit: fingerprint.slice(0, 40),
      commit_url: `https://git.test/${fingerprint.charAt(0)}`,
    });
    store.trailEvaluation.evaluate(t.id, 5);
    return { trail: t.id, id };
  };
  const attest = (trailId: number, artifactId: number, name: string, compliant: 0 | 1) => {
    const record = setup.attestation(f.id, trailId, name, { scope: "artifact", is_compliant: compliant });
    store.attestations.bindToArtifact({ trailId, artifactId }, { id: record.id, name });
    store.trailEvaluation.evaluate(trailId, 6);
    return record;
  };
  return { ...setup, f, environment, policy, attach, report, again, shown, counts, build, attest };
}

test("the first report makes snapshot 1, even an empty one", () => {
  const { store, environment, report, shown } = world();
  const [filled, empty] = [environment(), environment()];
  assert.is(report(filled, runs("app", A, 10, 20)), 1);
  assert.is(report(empty), 1);
  assert.equal(shown(filled, 1), [["app", "a", "started-unknown", 0, 2, null]]);
  assert.equal(shown(empty, 1), []);
  const { timestamp, ...snapshot } = store.snapshots.find(filled, 1) as object & { timestamp: number };
  assert.equal(snapshot, {
    environment_id: filled,
    idx: 1,
    cause: "report",
    compliant: null,
    compliant_count: 0,
    non_compliant_count: 0,
    unknown_count: 1,
    user_id: "ada-id",
    user_name: "Ada",
    policy_versions_json: "[]",
    member_id: null,
    member_index: null,
  });
  const row = store.environments.get(filled);
  assert.equal(
    {
      snapshot_count: row.snapshot_count,
      last_changed_at: row.last_changed_at,
      last_reported_at: row.last_reported_at,
      state: row.state,
    },
    { snapshot_count: 1, last_changed_at: timestamp, last_reported_at: timestamp, state: null },
  );
});

test("a report of the same set adds no row, whatever its instances and their times", () => {
  const { store, environment, report, counts } = world();
  const env = environment();
  report(env, runs("app", A, 10), runs("db", B, 10));
  const before = counts();
  const { last_reported_at: first, last_changed_at } = store.environments.get(env);
  for (const report_ of [
    [runs("app", A, 10), runs("db", B, 10)],
    [runs("app", A, 99), runs("db", B, 10)],
    [runs("app", A, 10, 20, 30), runs("db", B, 10)],
  ])
    assert.is(report(env, ...report_), null);
  assert.equal(counts(), before);
  const after = store.environments.get(env);
  assert.ok((after.last_reported_at as number) > (first as number));
  assert.is(after.last_changed_at, last_changed_at);
});

test("starts and exits make a snapshot; only they get rows, along with new instances of others", () => {
  const { db, environment, report, shown, counts } = world();
  const env = environment();
  report(env, runs("app", A, 10), runs("db", B, 10), runs("web", "c".repeat(64), 10));
  assert.is(report(env, runs("app", A, 10, 20), runs("app", B, 5), runs("web", "c".repeat(64), 10)), 2);
  assert.equal(shown(env, 1), [
    ["app", "a", "started-unknown", 0, 1, null],
    ["db", "b", "started-unknown", 0, 1, null],
    ["web", "c", "started-unknown", 0, 1, null],
  ]);
  assert.equal(shown(env, 2), [
    ["app", "a", "unchanged", 1, 2, null],
    ["app", "b", "started-unknown", 0, 1, null],
    ["db", "b", "exited", 1, 0, null],
    ["web", "c", "-", 1, 1, null],
  ]);
  assert.is(report(env, runs("app", A, 10, 20), runs("app", B, 5), runs("web", "c".repeat(64), 10)), null);
  assert.equal(counts().slice(0, 2), [2, 6]);
  assert.equal(
    db.prepare("SELECT name, first_index, last_index, started_index FROM snapshot_artifacts ORDER BY id").raw().all(),
    [
      ["app", 1, 1, 1],
      ["db", 1, 1, 1],
      ["web", 1, OPEN, 1],
      ["app", 2, OPEN, 1],
      ["app", 2, OPEN, 2],
      ["db", 2, 2, 1],
    ],
  );
  assert.is(report(env), 3);
  assert.equal(
    shown(env, 3).map(([name, , annotation, was, now]) => [name, annotation, was, now]),
    [
      ["app", "exited", 2, 0],
      ["app", "exited", 1, 0],
      ["web", "exited", 1, 0],
    ],
  );
  assert.is(report(env), null);
});

test("unresolved fingerprints are ordinary artifacts, and do not make a snapshot with every report", () => {
  const { environment, report, shown } = world();
  const env = environment();
  assert.is(report(env, runs("one", ""), runs("two", "")), 1);
  assert.is(report(env, runs("one", ""), runs("two", "")), null);
  assert.is(report(env, runs("one", "")), 2);
  assert.equal(shown(env, 2), [
    ["one", "", "-", 1, 1, null],
    ["two", "", "exited", 1, 0, null],
  ]);
});

test("attaching and detaching policies make a snapshot each, with versions and counts", () => {
  const { db, store, environment, policy, attach, report, again, shown, build } = world();
  const env = environment();
  const id = policy("prod", "artifacts:\n  provenance:\n    required: true\n");
  build(A);
  report(env, runs("app", A), runs("db", B));
  attach(env, id);
  assert.is(again(env, "policies"), 2);
  assert.equal(shown(env, 2), [
    ["app", "a", "became-compliant", 1, 1, 1],
    ["db", "b", "became-non-compliant", 1, 1, 0],
  ]);
  const snapshot = store.snapshots.find(env, 2);
  assert.equal(
    {
      cause: snapshot?.cause,
      compliant: snapshot?.compliant,
      compliant_count: snapshot?.compliant_count,
      non_compliant_count: snapshot?.non_compliant_count,
      unknown_count: snapshot?.unknown_count,
    },
    { cause: "policies", compliant: 0, compliant_count: 1, non_compliant_count: 1, unknown_count: 0 },
  );
  assert.equal(JSON.parse(snapshot?.policy_versions_json ?? ""), [store.policies.findLatestVersion(id)?.id]);
  const [app, missing] = store.snapshots.listEvaluated(env, 2);
  assert.equal(JSON.parse(missing?.reasons_json ?? ""), [
    "Policy 'prod' requires provenance, but the artifact was not reported to any flow.",
  ]);
  assert.equal(JSON.parse(app?.verdicts_json ?? "")[0].rules[0], {
    satisfied: true,
    resolutions: [{ type: "rule_satisfied", flow: 0 }],
  });
  assert.is(store.environments.get(env).state, 0);
  assert.is(report(env, runs("app", A)), 3);
  assert.is(store.environments.get(env).state, 1);
  db.prepare("DELETE FROM environment_policies").run();
  store.staleArtifacts.markPoliciesChanged(env);
  assert.is(again(env, "policies"), 4);
  assert.equal(shown(env, 4), [["app", "a", "unchanged", 1, 1, null]]);
  assert.is(store.environments.get(env).state, null);
});

test("evaluates nothing before the first report", () => {
  const { store, environment, policy, attach, again } = world();
  const env = environment();
  attach(env, policy("prod", "artifacts:\n  provenance:\n    required: true\n"));
  assert.is(again(env, "policies"), null);
  assert.equal(
    { snapshot_count: store.environments.get(env).snapshot_count, state: store.environments.get(env).state },
    { snapshot_count: 0, state: null },
  );
});

const NEEDS_TESTS = "artifacts:\n  attestations:\n    - name: tests\n      type: generic\n";

test("a late attestation changes the verdict with the next report, in both directions", () => {
  const { store, environment, policy, attach, report, shown, build, attest } = world();
  const env = environment();
  attach(env, policy("prod", NEEDS_TESTS));
  const { trail, id } = build(A);
  assert.is(report(env, runs("app", A)), 1);
  assert.equal(shown(env, 1), [["app", "a", "started-non-compliant", 0, 1, 0]]);
  attest(trail, id, "tests", 1);
  assert.is(store.environments.get(env).snapshot_count, 1);
  assert.is(report(env, runs("app", A)), 2);
  assert.equal(shown(env, 2), [["app", "a", "became-compliant", 1, 1, 1]]);
  assert.is(report(env, runs("app", A)), null);
  attest(trail, id, "tests", 0);
  assert.is(report(env, runs("app", A)), 3);
  assert.equal(shown(env, 3), [["app", "a", "became-non-compliant", 1, 1, 0]]);
});

test("new provenance without a changed verdict is updated-provenance: a flow, an attestation, a trail", () => {
  const { store, environment, report, again, shown, build, attest } = world();
  const env = environment();
  report(env, runs("app", A));
  const { trail, id } = build(A);
  assert.is(again(env, "policy_version"), null, "only a report makes a snapshot of it");
  assert.is(report(env, runs("app", A)), 2);
  assert.equal(shown(env, 2), [["app", "a", "updated-provenance", 1, 1, null]]);
  attest(trail, id, "anything", 1);
  assert.is(report(env, runs("app", A)), 3);
  build(A, "second");
  assert.is(report(env, runs("app", A)), 4);
  assert.equal(shown(env, 4), [["app", "a", "updated-provenance", 1, 1, null]]);
  assert.is(report(env, runs("app", A)), null);
  store.trailEvaluation.evaluate(trail, 7);
  assert.is(report(env, runs("app", A)), null, "evaluating a trail again is no new provenance");
});

test("a changed tag makes a snapshot only if a verdict changes; the next one stores the facts", () => {
  const { db, store, f, environment, policy, attach, report, build } = world();
  const env = environment();
  attach(
    env,
    policy(
      "prod",
      "artifacts:\n  attestations:\n    - name: tests\n      type: generic\n" +
        `      if: "\${{ flow.tags.risk == 'high' }}"\n`,
    ),
  );
  build(A);
  report(env, runs("app", A));
  store.flows.patchTags(f.id, { set: { team: "x" }, remove: [] });
  assert.is(report(env, runs("app", A)), null);
  assert.is(report(env, runs("app", A), runs("db", B)), 2);
  const app = store.snapshots.listEvaluated(env, 2)[0];
  assert.equal(
    { annotation: app?.annotation, tags: (JSON.parse(app?.facts_json ?? "") as Facts).flows[0]?.tags },
    { annotation: "unchanged", tags: { team: "x" } },
  );
  assert.is(db.prepare("SELECT count(*) FROM stale_artifacts").pluck().get(), 0);
  store.flows.patchTags(f.id, { set: { risk: "high" }, remove: [] });
  assert.is(report(env, runs("app", A), runs("db", B)), 3);
  assert.equal(store.snapshots.listArtifacts(env, 3)[0]?.annotation, "became-non-compliant");
});

test("a new policy version makes a snapshot only where a verdict changes", () => {
  const { store, environment, policy, attach, report, again, shown } = world();
  const env = environment();
  const id = policy("prod", "artifacts: {}\n");
  attach(env, id);
  report(env, runs("app", A));
  assert.is(store.environments.get(env).state, 1);
  policy("prod", "artifacts:\n  trail-compliance:\n    required: false\n");
  store.staleArtifacts.markPoliciesChanged(env);
  assert.is(again(env, "policy_version"), null);
  assert.is(report(env, runs("app", A)), null);
  policy("prod", "artifacts:\n  provenance:\n    required: true\n");
  store.staleArtifacts.markPoliciesChanged(env);
  assert.is(again(env, "policy_version"), 2);
  assert.equal(shown(env, 2), [["app", "a", "became-non-compliant", 1, 1, 0]]);
  assert.is(again(env, "policy_version"), null);
});

test("the allowlist overrides the policies in its environment only, and the snapshot says so", () => {
  const { db, store, organizationId, environment, policy, attach, report, again, shown } = world();
  const [env, other] = [environment(), environment()];
  const id = policy("prod", "artifacts:\n  provenance:\n    required: true\n");
  for (const one of [env, other]) {
    attach(one, id);
    report(one, runs("app", A), runs("db", B));
  }
  db.prepare(
    `INSERT INTO allowlist_entries (public_id, organization_id, environment_id, fingerprint, artifact_name,
        description, user_id, user_name, timestamp) VALUES ('w', ?, ?, ?, 'app', 'why', 'u', 'U', 1)`,
  ).run(organizationId, env, A);
  store.staleArtifacts.markAllowlisted(env, A);
  assert.is(again(env, "allowlist"), 2);
  assert.equal(shown(env, 2), [
    ["app", "a", "became-compliant", 1, 1, 1],
    ["db", "b", "-", 1, 1, 0],
  ]);
  const app = store.snapshots.listEvaluated(env, 2)[0];
  assert.equal(
    {
      allowlist_id: app?.allowlist_id,
      status: JSON.parse(app?.verdicts_json ?? "")[0].status,
      "reasons_json.length": JSON.parse(app?.reasons_json ?? "").length,
    },
    { allowlist_id: 1, status: "NON-COMPLIANT", "reasons_json.length": 1 },
  );
  assert.is(report(other, runs("app", A), runs("db", B)), null);
});

test("a deployment is a start with provenance, and names what it replaced under its reference name", () => {
  const { db, environment, report, build } = world();
  const env = environment();
  const [a, b] = [build(A), build(B)];
  build("d".repeat(64), "t-d", "other");
  report(env, runs("app", A), runs("stranger", "e".repeat(64)));
  report(env, runs("app", A), runs("app", B), runs("x", "d".repeat(64)));
  report(env, runs("app", B));
  report(env, runs("app", A), runs("app", B));
  assert.equal(
    db
      .prepare(
        `SELECT fingerprint, snapshot_index, ordinal, artifact_id, reference_name, replaced_id
            FROM deployments ORDER BY id`,
      )
      .raw()
      .all(),
    [
      [A, 1, 0, a.id, "app", null],
      [B, 2, 0, b.id, "app", 1],
      ["d".repeat(64), 2, 0, b.id + 1, "other", null],
      [A, 4, 0, a.id, "app", 2],
    ],
  );
  const facts = db
    .prepare(
      `SELECT e.facts_json FROM snapshot_artifacts s JOIN evaluations e ON e.id = s.evaluation_id
          WHERE s.last_index = ? ORDER BY s.id`,
    )
    .pluck()
    .all(OPEN) as string[];
  assert.equal(
    facts.map((text) => (JSON.parse(text) as Facts).flows[0]?.deployment_id),
    [2, 4],
  );
});

test("replaces damaged facts by current ones, and accepts the report", () => {
  const { db, environment, report, shown, build, attest } = world();
  const env = environment();
  const { trail, id } = build(A);
  report(env, runs("app", A), runs("db", B));
  for (const [index, damaged] of ["{", "null", '{"flows":[null]}'].entries()) {
    db.prepare(
      `UPDATE evaluations SET facts_json = ? WHERE id IN (SELECT evaluation_id FROM snapshot_artifacts
          WHERE name = 'app' AND last_index = ?)`,
    ).run(damaged, OPEN);
    assert.is(report(env, runs("app", A), runs("db", B)), null, "nothing is looked at");
    attest(trail, id, "tests", 1);
    assert.is(report(env, runs("app", A), runs("db", B)), index + 2);
    assert.equal(shown(env, index + 2), [
      ["app", "a", "updated-provenance", 1, 1, null],
      ["db", "b", "-", 1, 1, null],
    ]);
  }
});

test("snapshot times never fall when the clock goes back", () => {
  const { store, clock, environment, report } = world();
  const env = environment();
  report(env, runs("app", A));
  const { timestamp } = store.snapshots.find(env, 1) as { timestamp: number };
  clock.at -= 5000;
  assert.is(report(env), 2);
  assert.is(store.snapshots.find(env, 2)?.timestamp, timestamp);
});

test("an overtaken survey is not current; another one can be applied later", () => {
  const { store, environment, report, build } = world();
  const env = environment();
  report(env, runs("app", A));
  const survey = () =>
    store.snapshotRecorder.readCurrent(
      store.environments.get(env),
      "report",
      storableReport([runs("app", A), runs("db", B)]),
    );
  const [first, second] = [survey(), survey()];
  assert.equal(
    { workload: first.workload, isCurrent: store.snapshotRecorder.isCurrent(first) },
    { workload: 1, isCurrent: true },
  );
  assert.is(store.snapshotRecorder.apply(store.snapshotRecorder.plan(first), ADA), 2);
  assert.is(store.snapshotRecorder.isCurrent(second), false);
  const third = survey();
  build(A);
  assert.is(store.snapshotRecorder.isCurrent(third), false, "a fact changed");
});

test("records evaluations that wait in a file as it records those that fit into memory", () => {
  const { db, store, clock, f, trail, artifact, attestation, environment, policy, attach } = world();
  const directory = mkdtempSync(join(tmpdir(), "assay-recorder-"));
  const spooling = openStore(db, {
    now: () => (clock.at += 1),
    newId: () => "",
    temporaryFiles: { directory, reserveBytes: 0 },
  });
  const tested = policy("tested", "artifacts:\n  attestations:\n    - {type: generic, name: check-7}\n");
  const sides = [store, spooling].map((side) => {
    const env = environment();
    attach(env, tested);
    return { side, env };
  });
  // Each artifact of the trail has the facts of all its attestations.
  const shared = trail(f.id, "shared").id;
  const check = (name: string, compliant: 0 | 1) => {
    store.attestations.bindToTrail(shared, attestation(f.id, shared, name, { is_compliant: compliant }).id, name);
    store.trailEvaluation.evaluate(shared, 5);
  };
  for (let n = 0; n < 100; n += 1) check(`check-${n}`, 1);
  const prints = Array.from({ length: 90 }, (_, n) => n.toString(16).padStart(64, "0"));
  for (const print of prints) artifact(f.id, shared, print, { referenceName: "app" });
  store.trailEvaluation.evaluate(shared, 5);
  const unknown = Array.from({ length: 30 }, (_, n) => (n + 5_000).toString(16).padStart(64, "f"));

  const reportAll = (count: number) =>
    sides.map(({ side, env }) => {
      const artifacts = [...prints.slice(0, count), ...unknown].map((print) => runs("app", print));
      return side.snapshotRecorder.record(side.environments.get(env), { cause: "report", artifacts, actor: ADA });
    });
  const recorded = (env: number) =>
    db
      .prepare(
        `SELECT sa.first_index, sa.last_index, sa.fingerprint, sa.annotation, sa.compliant, ev.verdicts_json,
           ev.reasons_json, json_remove(ev.facts_json, '$.flows[0].deployment_id') AS facts,
           (SELECT count(*) FROM deployments dep WHERE dep.environment_id = ev.environment_id
              AND dep.id = ev.facts_json ->> '$.flows[0].deployment_id'
              AND dep.fingerprint = sa.fingerprint) AS deployed
         FROM snapshot_artifacts sa JOIN evaluations ev ON ev.id = sa.evaluation_id
         WHERE sa.environment_id = ? ORDER BY sa.first_index, sa.fingerprint`,
      )
      .all(env) as Record<string, unknown>[];
  const [memory, file] = sides.map(({ env }) => env) as [number, number];
  try {
    assert.equal(reportAll(89), [1, 1]);
    check("check-7", 0);
    store.staleArtifacts.markTrail(f.organization_id, shared);
    assert.equal(reportAll(90), [2, 2]);
    store.staleArtifacts.markTrail(f.organization_id, shared);
    assert.equal(reportAll(90), [null, null]);
  } finally {
    rmSync(directory, { recursive: true });
  }
  const rows = recorded(memory);
  const bytes = rows.reduce((sum, { facts }) => sum + String(facts).length, 0);
  assert.ok(bytes > 2 << 20, `${bytes} bytes of facts`);
  assert.equal(recorded(file), rows);
  const verdicts = rows.map(({ first_index, compliant, deployed }) => `${first_index} ${compliant} ${deployed}`);
  const kinds = Object.fromEntries(
    [...new Set(verdicts)].map((kind) => [kind, verdicts.filter((v) => v === kind).length]),
  );
  // Index, verdict, and whether it was deployed: 89 artifacts of the trail turn, and another one starts.
  assert.equal(kinds, { "1 1 1": 89, "1 0 0": 30, "2 0 1": 90 });
});

test("a logical environment numbers its own snapshots and shows the latest of each member", () => {
  const { db, store, environment, report, counts } = world();
  const [group, one, two] = [environment("logical"), environment(), environment("server")];
  for (const [position, member] of [one, two].entries())
    db.prepare("INSERT INTO environment_members (logical_id, position, member_id) VALUES (?, ?, ?)").run(
      group,
      position,
      member,
    );
  report(one, runs("app", A));
  report(one, runs("app", A), runs("app", B));
  report(two, runs("/etc/x", B));
  const covering = (index: number) =>
    db
      .prepare(
        `SELECT member_id, member_index FROM snapshot_members WHERE environment_id = ? AND first_index <= ?
            AND last_index >= ? ORDER BY position`,
      )
      .raw()
      .all(group, index, index);
  assert.equal(
    { "covering 1": covering(1), "covering 2": covering(2), "covering 3": covering(3) },
    {
      "covering 1": [[one, 1]],
      "covering 2": [[one, 2]],
      "covering 3": [
        [one, 2],
        [two, 1],
      ],
    },
  );
  assert.equal(counts()[4], 3, "a member that stands still keeps its row");
  const third = store.snapshots.find(group, 3);
  assert.equal(
    {
      cause: third?.cause,
      compliant: third?.compliant,
      unknown_count: third?.unknown_count,
      member_id: third?.member_id,
      member_index: third?.member_index,
    },
    { cause: "member", compliant: null, unknown_count: 3, member_id: two, member_index: 1 },
  );
  assert.is(store.environments.get(group).snapshot_count, 3);
  assert.is(report(one, runs("app", A), runs("app", B)), null);
  assert.is(store.environments.get(group).snapshot_count, 3);
});

test("no statement scans a table", () => {
  const { db, sql } = opened();
  const ours = sql.filter((text) =>
    /environments|snapshot|stale_artifacts|\bevaluations\b|deployments|allowlist/.test(text),
  );
  assert.ok(ours.length > 15);
  for (const text of ours) assert.equal(scans(db, text), [], text);
});

test.run();
