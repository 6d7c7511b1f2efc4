// The checks of `assay verify` and of `make crash` on a sound database, and on copies with one damage each: a check
// that accepts the first and detects every other one can be trusted after a kill.
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { openMemory } from "../../../src/store/db/database.ts";
import { checkEnvironments, runningDigest } from "../../../src/diagnostics/verify/environments.ts";
import { inspectEnvironments, nothingInspected } from "../../crash/inspect.ts";
import { inspectSettled } from "../../crash/inspect-settled.ts";
import { missingEnvironmentEntries } from "../../crash/ledger-environments.ts";
import type { EnvironmentEntry } from "../../crash/ledger-environments.ts";
import { randomOf } from "../../crash/load.ts";
import { opened } from "../../store/given.ts";
import type { Db } from "../../../src/store/db/types.ts";

const test = suite("diagnostics/verify/verify");
const ADA = { publicId: "ada-id", displayName: "Ada" };
const OPEN = "9007199254740991";

/** A random history of three environments in two groups, one archived, with everything that causes snapshots. */
function history() {
  const given = opened();
  const { db, store, clock, organizationId } = given;
  const random = randomOf(8);
  const pick = (count: number): number => Math.floor(random() * count);
  const acknowledged: EnvironmentEntry[] = [];
  const flow = given.flow("f");
  const other = given.flow("g");
  const fingerprints = Array.from({ length: 12 }, (_value, i) => i.toString(16).repeat(64));
  const built = [flow, other].flatMap((f, at) =>
    fingerprints.slice(0, 6 + at).map((fingerprint, i) => {
      const trail = store.trails.find(f.id, `t-${i % 3}`) ?? given.trail(f.id, `t-${i % 3}`);
      const id = given.artifact(f.id, trail.id, fingerprint, { referenceName: "app" });
      store.trailEvaluation.evaluate(trail.id, clock.at);
      return { flowId: f.id, trailId: trail.id, id };
    }),
  );
  const policyIds = ["tests", "known"].map((name) => version(name, false));
  function version(name: string, strict: boolean): number {
    const rule = name === "tests" ? `attestations: [{name: unit-tests, type: "*"}]` : "provenance: {required: true}";
    const rules = strict ? rule : "trail-compliance: {required: false}";
    const yaml = `_schema: https://assay.example.com/schemas/policy/v1\n# ${clock.at}\nartifacts:\n  ${rules}\n`;
    const { policy } = store.policies.put(organizationId, {
      name,
      description: "",
      user: "ada",
      file: { yaml, comment: "" },
    });
    store.reevaluationQueue.enqueueForPolicy(policy.id, ADA);
    for (const job of store.jobs.lease("reevaluate", { at: clock.at, seconds: 60, limit: 50 })) {
      const environment = store.environments.get(
        (JSON.parse(job.payload_json) as { environment_id: number }).environment_id,
      );
      if (environment.snapshot_count > 0)
        store.snapshotRecorder.record(environment, { cause: "policy_version", artifacts: null, actor: ADA });
      store.jobs.complete(job.id);
    }
    return policy.id;
  }
  const environment = (name: string, type: "docker" | "logical" = "docker") =>
    store.environments.create(organizationId, {
      name,
      type,
      description: "",
      includeScaling: false,
      requireProvenance: false,
    });
  const [one, two, gone] = [environment("one"), environment("two"), environment("gone")];
  const [all, pair] = [environment("all", "logical"), environment("pair", "logical")];
  store.environments.setMembers(all.id, [one.id, two.id, gone.id]);
  store.environments.setMembers(pair.id, [two.id, one.id]);

  for (let step = 0; step < 120; step += 1) {
    const at = store.environments.get(
      ([one, two, gone][step < 6 ? step % 3 : pick(step < 90 ? 3 : 2)] as { id: number }).id,
    );
    const what = step < 6 ? 0 : random();
    const sent = clock.at;
    if (step === 90) {
      store.environments.archive(store.environments.get(gone.id));
      acknowledged.push({ kind: "archived", environment: "gone", sent, answered: clock.at });
    } else if (what < 0.45) {
      const artifacts = fingerprints
        .filter(() => random() < 0.5)
        .map((fingerprint, i) => ({
          name: `app-${i % 3 === 0 ? fingerprint[0] : "x"}`,
          fingerprint,
          instances: { created: Array.from({ length: 1 + pick(2) }, () => pick(9)) },
        }))
        .sort((a, b) => (a.name < b.name || (a.name === b.name && a.fingerprint < b.fingerprint) ? -1 : 1));
      const made = store.snapshotRecorder.record(at, { cause: "report", artifacts, actor: ADA }) !== null;
      acknowledged.push({
        kind: "report",
        environment: at.name,
        set: runningDigest(artifacts),
        made,
        sent,
        answered: clock.at,
      });
    } else if (what < 0.6) {
      const policyId = policyIds[pick(2)] as number;
      const attached = store.environments.attachPolicies(at.id, [policyId]);
      if (!attached) store.environments.detachPolicies(at.id, [policyId]);
      store.snapshotRecorder.record(store.environments.get(at.id), { cause: "policies", artifacts: null, actor: ADA });
      acknowledged.push({
        kind: "attached",
        environment: at.name,
        policy: ["tests", "known"][policyIds.indexOf(policyId)] as string,
        attached,
        sent,
        answered: clock.at,
      });
    } else if (what < 0.7) version(["tests", "known"][pick(2)] as string, random() < 0.7);
    else if (what < 0.8) {
      const fingerprint = fingerprints[pick(12)] as string;
      store.allowlists.create(at, {
        fingerprint,
        artifact_name: "app",
        description: `${step}`,
        user_id: "u",
        user_name: "U",
        expires_at: null,
      });
      store.snapshotRecorder.record(store.environments.get(at.id), { cause: "allowlist", artifacts: null, actor: ADA });
      acknowledged.push({ kind: "allowed", environment: at.name, fingerprint, n: step, sent, answered: clock.at });
    } else if (what < 0.85) {
      store.flows.patchTags(flow.id, { set: { "lane-1": `${step}` }, remove: [] });
      acknowledged.push({ kind: "tagged", flow: "f", key: "lane-1", n: step });
    } else {
      const { flowId, trailId, id } = built[pick(built.length)] as (typeof built)[number];
      const record = given.attestation(flowId, trailId, "unit-tests", {
        scope: "artifact",
        is_compliant: random() < 0.8 ? 1 : 0,
      });
      store.attestations.bindToArtifact({ trailId, artifactId: id }, { id: record.id, name: "unit-tests" });
      store.trailEvaluation.evaluate(trailId, clock.at);
    }
  }
  return {
    image: db.serialize(),
    acknowledged,
    ids: { one: one.id, two: two.id, gone: gone.id, all: all.id, pair: pair.id },
  };
}

const { image, acknowledged, ids } = history();
const everything = async (db: Db): Promise<string[]> => [
  ...(await inspectEnvironments(db, nothingInspected())),
  ...inspectSettled(db),
];

/** A copy of the history with the given damage. */
function copy(...damage: string[]): Db {
  const db = openMemory(image);
  db.pragma("foreign_keys = OFF");
  for (const sql of damage) assert.ok(db.prepare(sql).run().changes > 0, `changes nothing: ${sql}`);
  return db;
}

test("a sound database has no problems, checked as a whole, window by window or again", async () => {
  const db = copy();
  const rows = (sql: string): number => db.prepare(sql).pluck().get() as number;
  const annotations = "SELECT count(DISTINCT annotation) FROM snapshot_artifacts";
  assert.is(rows(annotations), 8);
  assert.is(rows("SELECT count(DISTINCT cause) FROM snapshots"), 5);
  assert.ok(rows("SELECT count(*) FROM evaluations WHERE allowlist_id IS NOT NULL") > 0);
  assert.ok(rows("SELECT count(*) FROM deployments WHERE replaced_id IS NOT NULL AND ordinal = 1") > 0);
  assert.equal(await everything(db), []);
  const progress = nothingInspected();
  assert.equal(await inspectEnvironments(db, progress), []);
  assert.equal(await inspectEnvironments(db, progress), []);
  for (const window of [1, 2, 7]) assert.equal(await inspectEnvironments(db, nothingInspected(), window), []);
  for (const part of [0.3, 0.6, 0.9]) {
    const piece = nothingInspected();
    for (const [id, count] of progress.snapshots) piece.snapshots.set(id, Math.floor(count * part));
    assert.equal(await inspectEnvironments(db, piece), []);
  }
});

test("members that leave and rejoin a group, and archived groups, are not damage", async () => {
  const { store, db, organizationId } = opened();
  const environment = (name: string, type: "docker" | "logical" = "docker") =>
    store.environments.create(organizationId, {
      name,
      type,
      description: "",
      includeScaling: false,
      requireProvenance: false,
    });
  const [a, b, group] = [environment("a"), environment("b"), environment("group", "logical")];
  const report = (id: number, ...names: string[]) =>
    store.snapshotRecorder.record(store.environments.get(id), {
      cause: "report",
      artifacts: names.map((name) => ({ name, fingerprint: name.repeat(64), instances: { created: [1] } })),
      actor: ADA,
    });
  const problemsFound = async (): Promise<string[]> => {
    const problems: string[] = [];
    await checkEnvironments(db, {
      damage: (about, problem) => void problems.push(`${about}: ${problem}`),
      note: () => undefined,
      count: () => undefined,
    });
    return problems;
  };
  store.environments.setMembers(group.id, [a.id, b.id]);
  report(a.id);
  report(b.id, "b");
  store.environments.setMembers(group.id, [b.id]);
  report(a.id, "a", "c");
  report(b.id, "c");
  assert.equal(await problemsFound(), []);
  store.environments.setMembers(group.id, [a.id, b.id]);
  assert.equal(await problemsFound(), []);
  report(a.id, "c");
  store.environments.archive(store.environments.get(group.id));
  report(a.id, "d");
  assert.equal(await problemsFound(), []);
  db.exec(`UPDATE snapshots SET member_index = 1 WHERE environment_id = ${group.id} AND member_id = ${a.id}`);
  assert.match(
    (await problemsFound()).join("\n"),
    /^environment group-archived-at-\d+ \(3\): snapshot \d is of snapshot 1 of member 1, after 1$/m,
  );
});

const { one, two, all } = ids;
const latest = (id: number): string => `(SELECT snapshot_count FROM environments WHERE id = ${id})`;
/** A row of `one`, longer than one snapshot, that was followed by another row that is not an exit. */
const followed = `SELECT sa.id FROM snapshot_artifacts sa JOIN snapshot_artifacts next
  ON next.environment_id = sa.environment_id AND next.name = sa.name AND next.fingerprint = sa.fingerprint
    AND next.first_index = sa.last_index + 1 AND next.annotation NOT LIKE 'started%'
  WHERE sa.environment_id = ${one} AND sa.first_index < sa.last_index`;
const row = (condition: string): string =>
  `(SELECT min(id) FROM snapshot_artifacts WHERE environment_id = ${one} AND ${condition})`;
const columns =
  "organization_id, environment_id, fingerprint, name, annotation, was, now, compliant, evaluation_id, " +
  "started_index, instances_json";
const evaluated = `(SELECT max(ev.id) FROM evaluations ev
  WHERE ev.verdicts_json <> '[]' AND ev.reasons_json <> '[]' AND ev.allowlist_id IS NULL)`;

const DAMAGE: readonly (readonly [what: string, expected: RegExp, ...damage: string[]])[] = [
  [
    "a snapshot is missing",
    /has snapshot 3 where 2 is expected/,
    `DELETE FROM snapshots WHERE environment_id = ${one} AND idx = 2`,
  ],
  [
    "the latest snapshot is missing",
    /snapshot_count is/,
    `DELETE FROM snapshots WHERE environment_id = ${one} AND idx = ${latest(one)}`,
  ],
  [
    "time goes back",
    /snapshot 3 is older/,
    `UPDATE snapshots SET timestamp = 1 WHERE environment_id = ${one} AND idx = 3`,
  ],
  [
    "time of change",
    /last_changed_at is/,
    `UPDATE environments SET last_changed_at = last_changed_at - 1 WHERE id = ${one}`,
  ],
  ["time of report", /last_reported_at is null/, `UPDATE environments SET last_reported_at = NULL WHERE id = ${one}`],
  [
    "state of the environment",
    /environment one.*state is/,
    `UPDATE environments SET state = CASE state WHEN 1 THEN 0 ELSE 1 END WHERE id = ${one}`,
  ],
  [
    "state of a snapshot",
    /snapshot 2 says/,
    `UPDATE snapshots SET compliant = CASE compliant WHEN 1 THEN 0 ELSE 1 END WHERE environment_id = ${one}
      AND idx = 2`,
  ],
  ["a wrong digest", /running_digest is/, `UPDATE environments SET running_digest = 'x' WHERE id = ${one}`],
  [
    "wrong counts",
    /snapshot 2 counts/,
    `UPDATE snapshots SET unknown_count = unknown_count + 1 WHERE environment_id = ${one} AND idx = 2`,
  ],
  [
    "policies of a snapshot",
    /was evaluated under \[77\]/,
    `UPDATE snapshots SET policy_versions_json = '[77]' WHERE environment_id = ${one} AND idx = ${latest(one)}`,
  ],
  [
    "rows of a snapshot that does not exist",
    /is beyond snapshot/,
    `UPDATE snapshot_artifacts SET last_index = ${latest(one)} WHERE id = ${row(`last_index = ${OPEN}`)}`,
    `INSERT INTO snapshot_artifacts (${columns}, first_index) SELECT ${columns}, ${latest(one)} + 1
      FROM snapshot_artifacts WHERE id = ${row(`last_index = ${latest(one)}`)}`,
  ],
  [
    "an end beyond the latest snapshot",
    /is beyond snapshot/,
    `UPDATE snapshot_artifacts SET last_index = ${latest(one)} + 1 WHERE id = ${row(`last_index = ${OPEN}`)}`,
  ],
  [
    "an overlap",
    /overlaps row/,
    `UPDATE snapshot_artifacts SET last_index = last_index + 1 WHERE id = (${followed} LIMIT 1)`,
  ],
  [
    "two open rows",
    /overlaps row/,
    `INSERT INTO snapshot_artifacts (${columns}, first_index) SELECT ${columns}, first_index FROM snapshot_artifacts
      WHERE id = ${row(`last_index = ${OPEN}`)}`,
  ],
  [
    "a gap",
    /leaves a gap/,
    `UPDATE snapshot_artifacts SET last_index = last_index - 1 WHERE id = (${followed} LIMIT 1)`,
  ],
  [
    "an exit that lasts",
    /is longer than one snapshot/,
    `UPDATE snapshot_artifacts SET last_index = last_index + 1 WHERE id = ${row("annotation = 'exited'")}`,
  ],
  [
    "an exit with instances",
    /has 1 instances/,
    `UPDATE snapshot_artifacts SET now = 1 WHERE id = ${row("annotation = 'exited'")}`,
  ],
  [
    "an end without an exit",
    /its exit is missing/,
    `DELETE FROM snapshot_artifacts WHERE id = (SELECT max(id) FROM snapshot_artifacts WHERE environment_id = ${one}
      AND annotation = 'exited')`,
  ],
  [
    "an exit without a start",
    /has no row before it/,
    `DELETE FROM snapshot_artifacts WHERE id = ${row("first_index = 1 AND last_index < 9007199254740991")}`,
  ],
  [
    "a wrong started_index",
    /started with/,
    `UPDATE snapshot_artifacts SET started_index = 1
      WHERE id = ${row("started_index > 1 AND annotation IN ('unchanged', 'exited', 'became-compliant')")}`,
  ],
  [
    "a wrong started_index of a start",
    /starts with started_index/,
    `UPDATE snapshot_artifacts SET started_index = first_index - 1
      WHERE id = ${row("first_index > 1 AND annotation LIKE 'started%'")}`,
  ],
  [
    "wrong instances before",
    /was 9, but the row before it/,
    `UPDATE snapshot_artifacts SET was = 9 WHERE id = ${row("annotation = 'exited'")}`,
  ],
  [
    "a wrong annotation",
    /should be/,
    `UPDATE snapshot_artifacts SET annotation = 'became-compliant' WHERE id = ${row("annotation = 'unchanged'")}`,
  ],
  [
    "a wrong annotation of a start",
    /should be started-/,
    `UPDATE snapshot_artifacts SET annotation = 'unchanged' WHERE id = ${row("annotation LIKE 'started%'")}`,
  ],
  [
    "a row that contradicts its evaluation",
    /but its evaluation says/,
    `UPDATE snapshot_artifacts SET compliant = CASE compliant WHEN 1 THEN 0 ELSE 1 END WHERE id = ${row("1")}`,
  ],

  [
    "a member's snapshot that does not exist",
    /which does not exist/,
    `UPDATE snapshot_members SET member_index = 999 WHERE environment_id = ${all} AND last_index = ${OPEN}
      AND member_id = ${one}`,
  ],
  [
    "a member shown too early",
    /is beyond snapshot/,
    `UPDATE snapshot_members SET first_index = ${latest(all)} + 1 WHERE environment_id = ${all}
      AND last_index = ${OPEN} AND member_id = ${one}`,
  ],
  [
    "a member shown twice",
    /two members with the same member_id/,
    `INSERT INTO snapshot_members (environment_id, member_id, member_index, position, first_index, last_index)
     SELECT environment_id, member_id, member_index, 9, first_index, last_index - 1 FROM snapshot_members
     WHERE environment_id = ${all} AND last_index > first_index AND last_index < ${OPEN} LIMIT 1`,
  ],
  [
    "two members with one position",
    /two members with the same position/,
    `UPDATE snapshot_members SET position = 1 WHERE environment_id = ${all}`,
  ],
  [
    "a member that is not shown",
    /its members/,
    `DELETE FROM snapshot_members WHERE environment_id = ${all} AND last_index = ${OPEN} AND member_id = ${one}`,
  ],
  [
    "a wrong cause",
    /was caused by/,
    `UPDATE snapshots SET member_index = member_index + 1 WHERE environment_id = ${all} AND idx = ${latest(all)}`,
  ],
  [
    "a member's snapshot that the group left out",
    /expected \d+$/,
    `UPDATE snapshots SET member_index = member_index - 1 WHERE environment_id = ${all} AND member_id = ${two}
      AND member_index = 3`,
  ],
  [
    "state of a group",
    /snapshot \d+ says/,
    `UPDATE snapshots SET compliant = CASE compliant WHEN 1 THEN 0 ELSE 1 END WHERE environment_id = ${all}
      AND idx = ${latest(all)}`,
  ],
  [
    "a group without its members' latest snapshot",
    /has seen \d+ snapshots of member/,
    `DELETE FROM snapshots WHERE environment_id = ${all} AND idx = ${latest(all)}`,
    `UPDATE environments SET snapshot_count = snapshot_count - 1 WHERE id = ${all}`,
  ],

  [
    "a changed verdict",
    /evaluation \d+: the artifact is stored as (NON-)?COMPLIANT, but re-evaluates to (NON-)?COMPLIANT$/,
    `UPDATE evaluations SET compliant = CASE compliant WHEN 1 THEN 0 ELSE 1 END WHERE id = ${evaluated}`,
  ],
  [
    "stored verdicts",
    /evaluation \d+: rule \d+ of policy '.*' version \d+ is stored as not satisfied/,
    `UPDATE evaluations SET verdicts_json = replace(verdicts_json, '"satisfied":true', '"satisfied":false')
      WHERE verdicts_json LIKE '%"satisfied":true%'`,
  ],
  [
    "missing reasons",
    /the stored reasons are none, but re-evaluation gives/,
    `UPDATE evaluations SET reasons_json = '[]' WHERE id = ${evaluated}`,
  ],
  [
    "changed facts",
    /evaluation \d+: .* re-evaluates to/,
    `UPDATE evaluations SET facts_json = '{"flows":[]}' WHERE facts_json <> '{"flows":[]}' AND verdicts_json <> '[]'`,
  ],
  [
    "an allowlist entry of another environment",
    /is allowed by entry/,
    "UPDATE allowlist_entries SET environment_id = 99",
  ],
  [
    "an evaluation of another environment",
    /has an evaluation of environment 99/,
    `UPDATE evaluations SET environment_id = 99 WHERE id = ${evaluated}`,
  ],
  [
    "an evaluation of another artifact",
    /has the evaluation of another artifact/,
    `UPDATE snapshot_artifacts SET evaluation_id = (SELECT evaluation_id FROM snapshot_artifacts
      WHERE id = ${row(`last_index = ${OPEN}`)}) WHERE last_index = ${OPEN} AND environment_id = ${one}`,
  ],
  [
    "an evaluation without a row",
    /^evaluation \d+: does not belong to any artifact$/,
    `INSERT INTO evaluations (environment_id, facts_json, verdicts_json, reasons_json)
      VALUES (${one}, '{"flows":[]}', '[]', '[]')`,
  ],
  [
    "a deployment is missing",
    /should have the deployments/,
    `DELETE FROM deployments WHERE id = (SELECT min(id) FROM deployments)`,
  ],
  [
    "a wrong ordinal",
    /should have the deployments/,
    "UPDATE deployments SET ordinal = ordinal + 1 WHERE id = (SELECT max(id) FROM deployments)",
  ],
  [
    "the time of a deployment",
    /should have the deployments/,
    "UPDATE deployments SET deployed_at = deployed_at + 1 WHERE id = 1",
  ],
  [
    "a deployment without a start",
    /^deployment \d+: does not belong to an artifact that started$/,
    `INSERT INTO deployments (organization_id, environment_id, snapshot_index, deployed_at, fingerprint, artifact_name,
                               ordinal, flow_id, artifact_id, reference_name)
     SELECT organization_id, environment_id, 9999, deployed_at, fingerprint, artifact_name, ordinal, flow_id,
            artifact_id, reference_name
     FROM deployments WHERE id = 1`,
  ],
  [
    "an impossible replacement",
    /^deployment 1: replaces a deployment that it cannot replace$/,
    "UPDATE deployments SET replaced_id = id WHERE id = 1",
  ],

  [
    "a job is left",
    /job 1 \(reevaluate\) is left after 2 attempts: broken/,
    `INSERT INTO jobs (id, kind, payload_json, created_at, due_at, attempts, last_error)
      VALUES (1, 'reevaluate', '{}', 1, 1, 2, 'broken')`,
  ],
  [
    "a stale mark on an artifact that does not run",
    /1 f+ is marked as stale/,
    `INSERT INTO stale_artifacts VALUES (1, '${"f".repeat(64)}')`,
  ],
  [
    "a revision that was not checked",
    /was last checked at revision/,
    "DELETE FROM stale_artifacts",
    `UPDATE environments SET revision = revision + 1 WHERE id = ${one}`,
  ],
  [
    "a version whose job is lost",
    /environment one \(\d+\): a re-evaluation makes a snapshot \(app/,
    `UPDATE environments SET checked_revision = revision WHERE id = ${one}`,
    ...versionWithoutJob(),
  ],
  [
    "a version whose job is lost, while facts wait for a report",
    /environment one \(\d+\): a re-evaluation makes a snapshot \(app/,
    `UPDATE environments SET revision = checked_revision + 1 WHERE id = ${one}`,
    `INSERT OR REPLACE INTO stale_artifacts SELECT environment_id, fingerprint FROM snapshot_artifacts
      WHERE id = ${row(`last_index = ${OPEN}`)}`,
    ...versionWithoutJob(),
  ],
];

/** New versions of all policies, attached to `one`, that invert its state: all rows satisfy them, or none does. */
function versionWithoutJob(): string[] {
  return [
    `INSERT INTO environment_policies (environment_id, policy_id, position)
     SELECT ${one}, id, 50 + id FROM policies
     WHERE id NOT IN (SELECT policy_id FROM environment_policies WHERE environment_id = ${one})
     UNION ALL SELECT ${two}, 99, 99`,
    `INSERT INTO policy_versions (policy_id, version, comment, timestamp, created_by, policy_yaml)
     SELECT id, 999, '', 1, 'ada', '_schema: /v1' || char(10) || 'artifacts: {provenance: {required: ' ||
       CASE (SELECT state FROM environments WHERE id = ${one}) WHEN 1 THEN 'true' ELSE 'false' END || '}}'
     FROM policies`,
  ];
}

for (const [what, expected, ...damage] of DAMAGE) {
  test(`detects ${what}`, async () => {
    const problems = await everything(copy(...damage));
    assert.ok(
      problems.some((problem) => expected.test(problem)),
      `expected ${expected}, found:\n${problems.join("\n")}`,
    );
  });
}

test("finds everything that was acknowledged, and reports what is missing", () => {
  const db = copy();
  assert.equal(
    new Set(acknowledged.map(({ kind }) => kind)),
    new Set(["report", "attached", "allowed", "tagged", "archived"]),
  );
  const usual = acknowledged.map((entry) =>
    "environment" in entry && entry.kind !== "archived" && entry.environment === "gone"
      ? { ...entry, environment: goneAs(db) }
      : entry,
  );
  assert.equal(missingEnvironmentEntries(db, usual), []);
  const missing = (...entries: EnvironmentEntry[]): string => missingEnvironmentEntries(db, entries).join("\n");
  const during = { sent: 1_700_000_000, answered: 1_800_000_000 };
  const made = acknowledged.find(
    (entry): entry is Extract<EnvironmentEntry, { kind: "report" }> =>
      entry.kind === "report" && entry.made && entry.environment === "one",
  );
  if (!made) throw new Error("nothing was reported");
  assert.match(missing({ ...made, set: "x" }), /^one: no snapshot for the report of \d+, answered 201$/);
  assert.match(missing(made, made), /^one: no snapshot for the report of \d+, answered 201$/);
  assert.match(missing({ ...made, set: "x", made: false }), /answered 200$/);
  assert.match(
    missing({ ...made, made: false, sent: made.answered + 1e6, answered: made.answered + 1e6 }),
    /last_reported_at is/,
  );
  assert.match(
    missing({ kind: "attached", environment: "one", policy: "unheard", attached: true, ...during }),
    /^one: no snapshot after unheard was attached/,
  );
  assert.match(
    missing({ kind: "allowed", environment: "one", fingerprint: "a".repeat(64), n: 9_999, ...during }),
    /is not allowed with the reason 9999$/,
  );
  assert.match(
    missing({ kind: "tagged", flow: "f", key: "lane-1", n: 9_999 }),
    /^tag lane-1 of f is \d+, and 9999 was acknowledged$/,
  );
  assert.match(
    missing({ kind: "tagged", flow: "f", key: "lane-2", n: 1 }),
    /^tag lane-2 of f is undefined, and 1 was acknowledged$/,
  );
  assert.match(missing({ kind: "archived", environment: "one", ...during }), /^one was not archived$/);
});

const goneAs = (db: Db): string =>
  db.prepare("SELECT name FROM environments WHERE archived_name = 'gone'").pluck().get() as string;

test.run();
