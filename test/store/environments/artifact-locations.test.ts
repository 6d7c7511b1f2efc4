import { suite } from "uvu";
import * as assert from "uvu/assert";
import { runtime } from "../../runtime.ts";
import { opened, plan } from "../given.ts";

const test = suite("store/environments/artifact-locations");
const A = "a".repeat(64);
const B = "b".repeat(64);

function openWorld() {
  const world = opened();
  const { environment, report } = runtime(world);
  const prod = environment(world.organizationId, "prod");
  const stage = environment(world.organizationId, "stage");
  const time = (id: number, index: number) => world.store.snapshots.find(id, index)?.timestamp as number;
  return {
    ...world,
    environment,
    report,
    prod,
    stage,
    time,
    of: (fingerprint: string) => world.store.artifactLocations.findByFingerprint(world.organizationId, fingerprint),
  };
}
const app = (fingerprint: string, fields: { name?: string; instances?: number; created?: number } = {}) => ({
  name: "app",
  fingerprint,
  ...fields,
});

test("an artifact that never ran has no locations", () => {
  const { of, report, prod } = openWorld();
  report(prod, [app(B)]);
  assert.equal(of(A), { running: [], exited: [], transitions: [], firstStarts: [] });
});

test("runs in the latest snapshot, exited where it no longer runs, with every transition in order", () => {
  const { of, report, prod, stage, time } = openWorld();
  report(stage, [app(A, { created: 100 })]);
  report(prod, [app(A, { created: 200 })]);
  report(stage, []);
  report(prod, [app(A), { name: "other", fingerprint: B }]);
  const { transitions, ...rest } = of(A);
  assert.equal(
    { ...rest, transitions: transitions.map(({ id: _, ...move }) => move) },
    {
      running: [{ environment_name: "prod", snapshot_index: 2 }],
      exited: [{ environment_name: "stage", snapshot_index: 2 }],
      firstStarts: [
        { environment_name: "prod", created: 200 },
        { environment_name: "stage", created: 100 },
      ],
      transitions: [
        { environment_name: "stage", snapshot_index: 1, timestamp: time(stage, 1), started: true },
        { environment_name: "prod", snapshot_index: 1, timestamp: time(prod, 1), started: true },
        { environment_name: "stage", snapshot_index: 2, timestamp: time(stage, 2), started: false },
      ],
    },
  );
});

test("a restarted artifact runs and has not exited; the first start stays the first", () => {
  const { of, report, prod } = openWorld();
  report(prod, [app(A, { created: 100 })]);
  report(prod, []);
  report(prod, [app(A, { created: 900 })]);
  const { running, exited, transitions, firstStarts } = of(A);
  assert.equal({ running, exited }, { running: [{ environment_name: "prod", snapshot_index: 3 }], exited: [] });
  assert.equal(
    transitions.map(({ snapshot_index, started }) => [snapshot_index, started]),
    [
      [1, true],
      [2, false],
      [3, true],
    ],
  );
  assert.equal(firstStarts, [{ environment_name: "prod", created: 100 }]);
  report(prod, []);
  assert.equal(of(A).exited, [{ environment_name: "prod", snapshot_index: 4 }]);
});

test("changes of a running artifact are not transitions", () => {
  const { of, report, prod, flow, trail, artifact, store } = openWorld();
  report(prod, [app(A)]);
  const f = flow("f");
  const t = trail(f.id, "t");
  artifact(f.id, t.id, A);
  store.trailEvaluation.evaluate(t.id, 1);
  assert.is(report(prod, [app(A, { instances: 3 })]), 2);
  assert.is(report(prod, [app(A, { instances: 3 }), { name: "other", fingerprint: B }]), 3);
  const { running, transitions } = of(A);
  assert.equal(
    { running, "transitions.length": transitions.length },
    { running: [{ environment_name: "prod", snapshot_index: 3 }], "transitions.length": 1 },
  );
});

test("one fingerprint under two names starts once, and runs while either does", () => {
  const { of, report, prod } = openWorld();
  report(prod, [app(A), app(A, { name: "second" })]);
  report(prod, [app(A)]);
  const { running, exited, transitions } = of(A);
  assert.equal({ running, exited }, { running: [{ environment_name: "prod", snapshot_index: 2 }], exited: [] });
  assert.equal(
    transitions.map(({ snapshot_index, started }) => [snapshot_index, started]),
    [
      [1, true],
      [2, false],
    ],
  );
});

test("a start time of 0 is unknown", () => {
  const { of, report, prod } = openWorld();
  report(prod, [app(A, { created: 0, instances: 2 })]);
  assert.equal(
    of(A).firstStarts.map(({ created }) => created),
    [null],
  );
});

test("a damaged row still has its location", () => {
  const { of, report, prod, db } = openWorld();
  report(prod, [app(A)]);
  db.prepare("UPDATE snapshot_artifacts SET instances_json = '{'").run();
  assert.equal(
    of(A).firstStarts.map(({ created }) => created),
    [null],
  );
});

test("lists the starts and stops of a trail's records while they were the provenance", () => {
  const { report, prod, stage, time, flow, trail, artifact, store, db } = openWorld();
  const [f, g] = [flow("f"), flow("g")];
  const [first, second, elsewhere] = [trail(f.id, "first"), trail(f.id, "second"), trail(g.id, "elsewhere")];
  const moves = (...ids: number[]) =>
    [...store.artifactLocations.listTransitionsByTrail(ids)].map(([id, rows]) => [
      id,
      ...rows.map(
        ({ annotation, environment_name, snapshot_index, was, now }) =>
          `${annotation} ${environment_name}#${snapshot_index} ${was}-${now}`,
      ),
    ]);
  report(prod, [app(A)]); // before the report: nobody's
  artifact(f.id, first.id, A, {
    referenceName: "server",
    git_commit_info_json: '{"sha1":"x"}',
    repo_info_json: '{"name":"r"}',
  });
  report(stage, [app(A, { instances: 2 })]);
  artifact(f.id, second.id, A);
  artifact(g.id, elsewhere.id, A);
  artifact(g.id, elsewhere.id, B);
  report(stage, []); // evaluated when it started
  report(stage, [app(A), app(B)]); // the newest record of each flow
  assert.equal(moves(first.id), [[first.id, "started-unknown stage#1 0-2", "exited stage#2 2-0"]]);
  assert.equal(moves(second.id), [[second.id, "started-unknown stage#3 0-1"]]);
  assert.equal(moves(elsewhere.id), [[elsewhere.id, "started-unknown stage#3 0-1", "started-unknown stage#3 0-1"]]);
  assert.equal(
    moves(first.id, second.id, 99)
      .map(([id]) => id)
      .sort(),
    [first.id, second.id].sort(),
  );
  assert.equal(moves(), []);

  const [start] = store.artifactLocations.listTransitionsByTrail([first.id]).get(first.id) ?? [];
  const record = store.artifacts.listByTrail(first.id)[0] as { id: number; public_id: string };
  assert.equal(
    { ...start, move_id: 0 },
    {
      id: record.id,
      trail_id: first.id,
      artifact_id: record.public_id,
      filename: "app",
      fingerprint: A,
      reference_name: "server",
      git_commit_info_json: '{"sha1":"x"}',
      repo_info_json: '{"name":"r"}',
      annotation: "started-unknown",
      was: 0,
      now: 2,
      snapshot_index: 1,
      timestamp: time(stage, 1),
      environment_id: store.environments.get(stage).public_id,
      environment_name: "stage",
      move_id: 0,
    },
  );
  for (const facts of ["{", '{"flows":["x",null,3]}']) {
    db.prepare("UPDATE evaluations SET facts_json = ?").run(facts);
    assert.equal(moves(first.id, second.id), [], facts);
  }
});

test("the index of fingerprints serves every query", () => {
  const { db, sql } = opened();
  const [artifact, trails] = ["is_running", "FROM json_each(?) wanted CROSS JOIN artifacts a ON a.trail_id"].map(
    (part) => sql.filter((text) => text.includes(part)),
  );
  assert.equal(
    artifact?.map((text) => plan(db, text)),
    [
      [
        "SEARCH sa USING INDEX snapshot_artifacts_by_fingerprint (organization_id=? AND fingerprint=?)",
        "SEARCH s USING PRIMARY KEY (environment_id=? AND idx=?)",
        "SEARCH env USING INTEGER PRIMARY KEY (rowid=?)",
      ],
      [
        "SEARCH sa USING INDEX snapshot_artifacts_by_fingerprint (organization_id=? AND fingerprint=? " +
          "AND environment_id=?)",
        "SEARCH s USING PRIMARY KEY (environment_id=? AND idx=?)",
        "SEARCH env USING INTEGER PRIMARY KEY (rowid=?)",
        "CORRELATED SCALAR SUBQUERY 1",
        "SEARCH open USING COVERING INDEX snapshot_artifacts_running (organization_id=? AND " +
          "fingerprint=? AND environment_id=?)",
      ],
    ],
  );
  const steps = sql.filter((text) => text.startsWith("SELECT environment_id FROM snapshot_artifacts"));
  assert.equal(
    steps.map((text) => plan(db, text)),
    [
      [
        "SEARCH snapshot_artifacts USING COVERING INDEX snapshot_artifacts_by_fingerprint " +
          "(organization_id=? AND fingerprint=? AND environment_id>?)",
      ],
    ],
  );
  assert.equal(
    trails?.map((text) => plan(db, text).filter((step) => step.startsWith("SEARCH"))),
    [
      [
        "SEARCH a USING INDEX artifacts_identity (trail_id=?)",
        "SEARCH sa USING INDEX snapshot_artifacts_by_fingerprint (organization_id=? AND fingerprint=?)",
        "SEARCH ev USING INTEGER PRIMARY KEY (rowid=?)",
        "SEARCH s USING PRIMARY KEY (environment_id=? AND idx=?)",
        "SEARCH env USING INTEGER PRIMARY KEY (rowid=?)",
      ],
    ],
  );
});

test("recent locations are complete apart from first starts while there are few rows", () => {
  const { of, report, prod, stage, store, organizationId } = openWorld();
  const recent = () => store.artifactLocations.findRecentByFingerprint(organizationId, A);
  assert.equal(recent(), { running: [], exited: [], transitions: [] });
  report(stage, [app(A)]);
  report(prod, [app(A), { name: "second", fingerprint: A }]);
  report(prod, [app(A, { instances: 3 }), { name: "other", fingerprint: B }]);
  report(stage, []);
  for (const _step of [1, 2]) {
    const { running, exited, transitions } = of(A);
    assert.equal(recent(), { running, exited, transitions });
    report(prod, []);
  }
});

test("recent locations are bounded in each environment, and still show that the artifact runs", () => {
  const { of, report, prod, stage, store, organizationId } = openWorld();
  report(stage, [app(A)]);
  const steady = { name: "steady", fingerprint: A };
  for (let turn = 0; turn < 40; turn++) {
    report(prod, [steady, { name: "job", fingerprint: A }]);
    report(prod, [steady]);
  }
  const [all, recent] = [of(A), store.artifactLocations.findRecentByFingerprint(organizationId, A)];
  assert.equal({ running: recent.running, exited: recent.exited }, { running: all.running, exited: all.exited });
  assert.equal(
    { "all.transitions.length": all.transitions.length, "recent.transitions.length": recent.transitions.length },
    { "all.transitions.length": 81, "recent.transitions.length": 51 },
  );
  assert.equal(
    recent.transitions.filter(({ environment_name }) => environment_name === "prod"),
    all.transitions.slice(-50),
  );
  report(prod, []);
  assert.equal(store.artifactLocations.findRecentByFingerprint(organizationId, A).exited, of(A).exited);
});

test("lists what runs of a repository, once for each name in each active environment", () => {
  const { report, prod, stage, environment, flow, trail, artifact, store, organizationId, time, clock, db } =
    openWorld();
  const repo = (externalId: string) =>
    store.repos.capture(organizationId, {
      externalId,
      provider: "",
      name: externalId,
      url: "https://git.test/x",
      description: "",
      namespacePath: null,
      additionalInfoJson: null,
    });
  const [shop, other] = [repo("shop"), repo("other")];
  const f = flow("f");
  const t = trail(f.id, "t");
  const [C, D] = ["c".repeat(64), "d".repeat(64)];
  const first = artifact(f.id, t.id, A, {
    repo_id: shop,
    git_commit: "1".repeat(40),
    commit_url: "https://git.test/1",
  });
  const again = artifact(flow("g").id, null, A, { repo_id: shop, git_commit: "2".repeat(40) });
  artifact(f.id, t.id, A, { repo_id: other, referenceName: "late" });
  artifact(f.id, t.id, C, { repo_id: shop });
  artifact(f.id, t.id, D);
  clock.at += 50;
  const gone = environment(organizationId, "gone");
  report(stage, [{ name: "z", fingerprint: A }, { name: "a", fingerprint: A }, app(B), app(D)]);
  report(prod, [app(A), app(C)]);
  report(gone, [app(A)]);
  db.prepare("UPDATE environments SET archived_at = 1 WHERE id = ?").run(gone);
  report(stage, [{ name: "z", fingerprint: A }, { name: "a", fingerprint: A }, app(D)]);
  report(prod, [app(A)]);
  const record = store.artifacts.get(again);
  const row = (id: number, index: number, name: string) => {
    const { public_id, name: environment_name, type } = store.environments.get(id);
    return {
      environment_id: public_id,
      environment_name,
      environment_type: type,
      snapshot_index: index,
      name,
      compliant: null,
      started_at: time(id, 1),
      artifact_id: record.public_id,
      fingerprint: A,
      git_commit: record.git_commit,
      commit_url: record.commit_url,
      flow_name: "g",
      selector_json: "{}",
    };
  };
  assert.is.not(first, again);
  const { listRunningByRepo, readRunningInRepo } = store.artifactLocations;
  /** What it is, whether running artifacts are looked up or records of the repository. */
  const runningIn = (organization: number, repo: number) => {
    const keys = listRunningByRepo(organization, repo);
    assert.equal(listRunningByRepo(organization, repo, 0), keys);
    return readRunningInRepo(keys);
  };
  assert.equal(runningIn(organizationId, shop), [row(prod, 2, "app"), row(stage, 2, "a"), row(stage, 2, "z")]);
  assert.equal(
    runningIn(organizationId, other).map(({ environment_name, name }) => [environment_name, name]),
    [
      ["prod", "app"],
      ["stage", "a"],
      ["stage", "z"],
    ],
  );
  assert.equal(
    {
      "ofRepo(organizationId, 99)": runningIn(organizationId, 99),
      "ofRepo(99, shop)": runningIn(99, shop),
    },
    { "ofRepo(organizationId, 99)": [], "ofRepo(99, shop)": [] },
  );
});

test("finds what runs of a repository by the indexes of what runs and of what it built", () => {
  const { db, sql } = openWorld();
  const [running = "", built = ""] = sql.filter((one) => one.includes("found.record"));
  const steps = plan(db, running);
  assert.ok(
    steps.includes("SEARCH sa USING COVERING INDEX snapshot_artifacts_running (organization_id=?)"),
    steps.join("\n"),
  );
  assert.ok(
    steps.includes("SEARCH a USING COVERING INDEX artifacts_by_repo_fingerprint (repo_id=? AND fingerprint=?)"),
    steps.join("\n"),
  );
  const ofBuilt = plan(db, built);
  for (const step of [
    "SEARCH a USING COVERING INDEX artifacts_by_repo_fingerprint (repo_id=?)",
    "SEARCH sa USING COVERING INDEX snapshot_artifacts_running (organization_id=? AND fingerprint=?)",
  ])
    assert.ok(ofBuilt.includes(step), ofBuilt.join("\n"));
  assert.equal(
    steps.filter((step) => step.startsWith("SCAN")),
    ["SCAN found"],
  );
});

test.run();
