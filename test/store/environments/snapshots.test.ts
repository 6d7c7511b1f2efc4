import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { ReportedArtifact } from "../../../src/domain/snapshot/normalize.ts";
import { storableReport } from "../../../src/store/environments/snapshot-survey.ts";
import { opened, plan, scans } from "../given.ts";

const test = suite("store/environments/snapshots");
const print = (n: number): string => n.toString(16).padStart(64, "a");
const actor = { publicId: "u", displayName: "ada" };

/** A store with environments by name, and reports of `name: instances` with fingerprints by name. */
function world() {
  const given = opened();
  const { db, store, organizationId } = given;
  const environment = (name: string, type = "docker"): number =>
    Number(
      db
        .prepare(
          `INSERT INTO environments (public_id, organization_id, name, type, created_at, last_modified_at)
              VALUES (?, ?, ?, ?, 1, 1)`,
        )
        .run(`e-${name}`, organizationId, name, type).lastInsertRowid,
    );
  const report = (id: number, what: Record<string, number>): number | null => {
    const artifacts = Object.entries(what).map(
      ([name, count]): ReportedArtifact => ({
        name,
        fingerprint: print(name.charCodeAt(0)),
        instances: { created: Array.from({ length: count }, () => 5) },
      }),
    );
    return store.snapshotRecorder.apply(
      store.snapshotRecorder.plan(
        store.snapshotRecorder.readCurrent(store.environments.get(id), "report", storableReport(artifacts)),
      ),
      actor,
    );
  };
  return { ...given, environment, report };
}

test("a snapshot contains the rows whose interval covers it, of its environment only", () => {
  const {
    store: { snapshots, snapshotPages },
    environment,
    report,
  } = world();
  const [one, two] = [environment("one"), environment("two")];
  report(one, { b: 1, a: 2 });
  report(two, { z: 1 });
  report(one, { a: 2 });
  report(one, { a: 2, c: 1 });
  const names = (rows: readonly { name: string; now: number }[]) =>
    rows.map(({ name, now }) => `${name}${now}`).join(" ");
  for (const [index, all, running] of [
    [1, "a2 b1", "a2 b1"],
    [2, "a2 b0", "a2"],
    [3, "a2 c1", "a2 c1"],
  ] as const) {
    assert.is(names(snapshots.listArtifacts(one, index)), all);
    assert.is(names(snapshots.listEvaluated(one, index)), all);
    const keys = snapshotPages.listRunningKeys(one, index);
    assert.is(names(keys.sort((a, b) => (a.name < b.name ? -1 : 1))), running);
    assert.is(snapshots.listFingerprints(one, index).size, running.split(" ").length);
  }
  assert.equal([...snapshots.listFingerprints(one, 2)], [print(97)]);
  assert.is(names(snapshots.listEvaluated(two, 1)), "z1");
});

test("parses an evaluation once, and again when its text differs", () => {
  const {
    store: { snapshots },
    environment,
    report,
  } = world();
  const id = environment("one");
  report(id, { a: 1 });
  const [row] = snapshots.listEvaluated(id, 1);
  assert.ok(row);
  const parsed = snapshots.parseEvaluation(row);
  assert.equal(parsed, { facts: { flows: [] }, verdicts: [] });
  assert.is(snapshots.parseEvaluation({ ...row }), parsed);
  assert.throws(() => snapshots.parseEvaluation({ ...row, facts_json: "{" }), /JSON/);
  assert.throws(() => snapshots.parseEvaluation({ ...row, verdicts_json: '[{"policy":"p"}]' }), /shape/);
  assert.is(snapshots.parseEvaluation(row), parsed, "a damaged one is not kept");
  const flow = { artifact_id: 1, flow: "x".repeat(1 << 20) };
  const large = snapshots.parseEvaluation({ ...row, facts_json: JSON.stringify({ flows: [flow] }) });
  assert.is(large.facts.flows[0]?.artifact_id, 1);
  assert.not(snapshots.parseEvaluation(row) === parsed, "the same key with another text took its place");
  for (let n = 0; n < 5; n += 1)
    snapshots.parseEvaluation({ ...row, evaluation_id: 100 + n, facts_json: JSON.stringify({ flows: [flow] }) });
  const last = { ...row, evaluation_id: 104, facts_json: JSON.stringify({ flows: [flow] }) };
  assert.is(snapshots.parseEvaluation(last), snapshots.parseEvaluation(last));
  const first = { ...last, evaluation_id: 100 };
  assert.equal(snapshots.parseEvaluation(first), snapshots.parseEvaluation(last), "dropped, and read again");
});

test("the snapshot in force at a time is the last one made until then", () => {
  const {
    store: { snapshots, environments },
    db,
    environment,
    report,
  } = world();
  const id = environment("one");
  const indexAt = (time: number, now = 1e19): number => snapshots.findIndexAt(environments.get(id), time, now);
  assert.is(indexAt(9e9), 0);
  for (const name of "abcd") report(id, { [name]: 1 });
  for (const [idx, timestamp] of [
    [1, 10],
    [2, 20.5],
    [3, 20.5],
    [4, 30],
  ] as const)
    db.prepare("UPDATE snapshots SET timestamp = ? WHERE environment_id = ? AND idx = ?").run(timestamp, id, idx);
  assert.equal(
    [-1e20, 9.9, 10, 20.4, 20.5, 29, 30, 1e20].map((time) => indexAt(time)),
    [0, 0, 1, 1, 3, 3, 4, 4],
  );
  assert.equal(
    [20.6, 20.7].map((time) => indexAt(time, 20.7)),
    [3, 4],
    "from now on it is the latest, whatever its time",
  );
  assert.equal(
    snapshots.listBetween(id, 2, 3).map(({ idx }) => idx),
    [2, 3],
  );
  assert.equal(
    snapshots.listBetween(id, 4, 9).map(({ idx }) => idx),
    [4],
  );
  assert.equal([snapshots.find(id, 4)?.idx, snapshots.find(id, 5), snapshots.find(id, 0)], [4, null, null]);
});

test("lists the members that a logical snapshot showed, with their own snapshots", () => {
  const {
    store: { snapshots },
    db,
    environment,
    report,
  } = world();
  const [one, two, group] = [environment("one"), environment("two"), environment("group", "logical")];
  for (const [position, member] of [two, one].entries())
    db.prepare("INSERT INTO environment_members VALUES (?, ?, ?)").run(group, position, member);
  report(one, { a: 1 });
  report(two, { b: 1 });
  report(one, { a: 1, c: 1 });
  const members = (index: number) =>
    snapshots.listMembers(group, index).map(({ member_id, member_index }) => [member_id, member_index]);
  assert.equal([1, 2, 3].map(members), [
    [[one, 1]],
    [
      [two, 1],
      [one, 1],
    ],
    [
      [two, 1],
      [one, 2],
    ],
  ]);
});

test("finds what a deployment replaced with its record, and nothing for one that replaced nothing", () => {
  const { store, db, environment, report, flow, trail, artifact } = world();
  const f = flow("f");
  const t = trail(f.id, "t");
  const ids = [1, 2].map((n) =>
    artifact(f.id, t.id, print(96 + n), {
      referenceName: "server",
      git_commit: String(n).repeat(40),
      commit_url: `u${n}`,
      repo_url: "r",
    }),
  );
  const id = environment("one");
  report(id, { a: 1 });
  report(id, { b: 1 });
  const deployments = db.prepare<[], number>("SELECT id FROM deployments ORDER BY id").pluck().all();
  assert.is(deployments.length, 2);
  assert.equal(
    [...store.snapshots.findReplaced(deployments).values()],
    [
      {
        deployment_id: deployments[1],
        fingerprint: print(97),
        artifact_name: "a",
        reference_name: "server",
        artifact_id: ids[0],
        trail_name: "t",
        git_commit: "1".repeat(40),
        commit_url: "u1",
        repo_url: "r",
        state: "INCOMPLETE",
      },
    ],
  );
  const records = store.snapshots.findRecords(new Set(ids));
  assert.equal([...records.keys()], ids);
  assert.equal(records.get(ids[0] as number), {
    id: ids[0],
    public_id: store.artifacts.get(ids[0] as number).public_id,
    git_commit_info_json: null,
    repo_url: "r",
  });
  assert.is(store.snapshots.findRecords([]).size, 0);
});

test("finds policy versions with their names", () => {
  const { store, organizationId } = opened();
  const { policy, version } = store.policies.put(organizationId, {
    name: "p",
    description: "",
    user: "ada",
    file: { yaml: "_schema: x/v1\n", comment: "" },
  });
  const id = version?.id as number;
  assert.equal(
    [...store.snapshots.findPolicyVersions([id, 99])],
    [[id, { version_id: id, public_id: policy.public_id, name: "p", version: 1 }]],
  );
});

test("counts as many artifacts of a snapshot as it lists, whatever is selected", () => {
  const {
    db,
    store: { snapshots, snapshotPages },
    environment,
    report,
  } = world();
  const id = environment("one");
  report(id, { a: 1, b: 1, c: 2 });
  report(id, { a: 1, c: 3, d: 1 });
  report(id, { a: 1, d: 1, e: 1 });
  db.exec(`UPDATE snapshot_artifacts SET compliant = CASE name WHEN 'a' THEN 1 WHEN 'd' THEN 0 END;
           UPDATE snapshots SET compliant_count = 1, non_compliant_count = idx > 1, unknown_count = 2 - (idx > 1)`);
  const counted: Record<string, number[]> = {};
  for (const index of [1, 2, 3]) {
    const snapshot = snapshots.find(id, index);
    assert.ok(snapshot);
    for (const show of ["all", "failing", "compliant", "unknown", "changed"] as const)
      for (const withExited of [true, false])
        for (const search of ["", "a", "d"]) {
          const selection = { show, search, withExited };
          const count = snapshotPages.count(snapshot, selection);
          const listed = snapshotPages.list({ environment: id, index }, { ...selection, limit: 99, offset: 0 });
          assert.is(count, listed.length, JSON.stringify({ index, ...selection }));
          if (search === "" && withExited) (counted[show] ??= []).push(count);
        }
  }
  assert.equal(counted, {
    all: [3, 4, 4],
    failing: [0, 1, 1],
    compliant: [1, 1, 1],
    unknown: [2, 1, 1],
    changed: [3, 2, 2],
  });
});

test("searches, sorts, counts and compares what runs by an index alone", () => {
  const { db, sql } = opened();
  const row = "sa.id, sa.fingerprint, sa.name, sa.now, sa.compliant";
  const read = new RegExp(`^SELECT (sa.id|count\\(\\*\\)|CASE sa.fingerprint .*|${row}) FROM`);
  const texts = sql.filter(
    (text) => read.test(text) && text.includes("snapshot_artifacts sa") && !text.includes("sa.annotation"),
  );
  assert.is(texts.length, 14);
  for (const text of texts)
    assert.ok(
      plan(db, text).some((step) => step.includes("USING COVERING INDEX snapshot_artifacts_by_snapshot")),
      `${plan(db, text)}: ${text}`,
    );
});

test("an index serves every query, however long the history", () => {
  const { db, sql } = opened();
  const about = sql.filter(
    (text) =>
      /^SELECT/.test(text) &&
      /FROM (snapshots|snapshot_artifacts|snapshot_members)\b|FROM json_each\(\?\) JOIN/.test(text),
  );
  assert.ok(about.length >= 11, String(about.length));
  for (const text of about) {
    assert.equal(scans(db, text), [], text);
    // The policy versions of snapshots are few; DISTINCT collects them.
    if (/FROM snapshots\b/.test(text) && !/environment_event_repos|SELECT DISTINCT policy_versions_json/.test(text))
      assert.not.ok(
        plan(db, text).some((step) => step.includes("TEMP B-TREE")),
        text,
      );
  }
  const intervals = about.filter((text) => text.includes("last_index >= @index"));
  assert.is(intervals.length, 22);
  for (const text of intervals)
    assert.ok(
      plan(db, text).some((step) => step.includes("last_index>?") || step.includes("snapshot_artifacts_events")),
      `${plan(db, text)}: ${text}`,
    );
});

test.run();
