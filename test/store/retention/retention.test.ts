import { readFileSync } from "node:fs";
import fc from "fast-check";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { problemsOf } from "../../../src/store/environments/explanation-types.ts";
import { complianceFactStore } from "../../../src/store/environments/compliance-facts.ts";
import { storableReport } from "../../../src/store/environments/snapshot-survey.ts";
import { recordsDigest } from "../../../src/store/retention/retention-deletion.ts";
import { RetentionChangedError } from "../../../src/store/retention/retention.ts";
import { sourceFiles } from "../../rules/source.ts";
import { opened } from "../given.ts";
import { arbitraryWorld, built, carriedOut, DAY, planOf, retentionOf } from "./given.ts";

const test = suite("store/retention/retention");

type World = ReturnType<typeof built>;
const all = (db: World["db"], sql: string, ...values: unknown[]): unknown[] => db.prepare(sql).all(...values);

const TODAY = ["environment", "last_index", "sameName"];

/**
 * Everything that every snapshot records, re-evaluated. The ends of intervals, the environment and the advice about
 * another artifact of the same name are those of today, and so may change.
 */
function pictures({ store, db }: Pick<World, "store" | "db">): string[] {
  const snapshots = db
    .prepare<[], { environment_id: number; idx: number }>(
      "SELECT environment_id, idx FROM snapshots ORDER BY environment_id, idx",
    )
    .all();
  return snapshots.map(({ environment_id, idx }) => {
    const explanation = store.explanations.explain(store.environments.get(environment_id), idx);
    assert.ok(explanation);
    assert.equal(problemsOf(explanation), []);
    return JSON.stringify(explanation, (key, value: unknown) =>
      TODAY.includes(key) ? undefined : value instanceof Map ? [...value] : value,
    );
  });
}

/** What a policy would read for every fingerprint ever reported, flows in the order of their ids. */
function factsOfAll({ db, store, organizationId }: World, fingerprints: readonly string[]): Map<string, string> {
  const facts = complianceFactStore(db, { attestations: store.attestations, flows: store.flows });
  return new Map(
    fingerprints.map((fingerprint) => [
      fingerprint,
      JSON.stringify([...facts.read(organizationId, fingerprint).flows].sort((a, b) => a.flow_id - b.flow_id)),
    ]),
  );
}

/** Asserts that the derived tables follow from the records. */
function derivedTablesHold(db: World["db"]): void {
  assert.equal(db.pragma("foreign_key_check"), []);
  assert.equal(
    all(db, "SELECT artifact_id FROM builds ORDER BY 1"),
    all(db, "SELECT min(id) AS artifact_id FROM artifacts GROUP BY organization_id, fingerprint ORDER BY 1"),
    "builds",
  );
  assert.equal(
    all(db, "SELECT attestation_id AS id FROM attestation_series_records ORDER BY 1"),
    all(db, "SELECT id FROM attestations ORDER BY 1"),
    "series records",
  );
  assert.equal(
    all(
      db,
      `SELECT id FROM attestation_series s WHERE NOT EXISTS (SELECT 1 FROM attestation_series_records r
          WHERE r.series_id = s.id)`,
    ),
    [],
    "empty series",
  );
  assert.equal(
    all(db, "SELECT id FROM flows f WHERE trail_count <> (SELECT count(*) FROM trails t WHERE t.flow_id = f.id)"),
    [],
    "counts of trails",
  );
  for (const table of ["current_attestations", "pending_bindings"])
    assert.equal(
      all(
        db,
        `SELECT 1 FROM ${table} WHERE attestation_id NOT IN (SELECT id
            FROM attestations) OR trail_id NOT IN (SELECT id FROM trails)`,
      ),
      [],
      table,
    );
  assert.equal(
    all(
      db,
      "SELECT 1 FROM current_attestations WHERE artifact_id <> 0 AND artifact_id NOT IN (SELECT id FROM artifacts)",
    ),
    [],
  );
}

test("in any world and under any rules, a run deletes what the plan showed and changes no verdict", async () => {
  const seen = { worlds: 0, deleting: 0, stripping: 0, held: 0, ran: 0, shared: 0 };
  await fc.assert(
    fc.asyncProperty(arbitraryWorld, async (arbitrary) => {
      const world = built(arbitrary);
      const { db, store, retention, organizationId } = world;
      const fingerprints = db.prepare<[], string>("SELECT DISTINCT fingerprint FROM artifacts").pluck().all();
      const trails = db.prepare<[], { id: number; public_id: string }>("SELECT id, public_id FROM trails").all();
      const [picturesBefore, facts] = [pictures(world), factsOfAll(world, fingerprints)];
      const plan = planOf(world, retention, organizationId);
      const going = new Set(
        retention.plans
          .listGoing()
          .filter(({ action }) => action === "trail")
          .map(({ public_id }) => public_id),
      );
      const sum = (of: (flow: (typeof plan.flows)[number]) => number): number =>
        plan.flows.reduce((total, flow) => total + of(flow), 0);
      const counts = (): number[] =>
        ["trails", "artifacts", "attestations"].map(
          (table) => db.prepare<[], number>(`SELECT count(*) FROM ${table}`).pluck().get() as number,
        );
      const files = (): string[] =>
        db
          .prepare<[], string>(
            "SELECT DISTINCT evidence_digest FROM attestations WHERE evidence_digest IS NOT NULL ORDER BY 1",
          )
          .pluck()
          .all();
      const [before, filesBefore] = [counts(), files()];

      const done = await carriedOut(world, retention, plan);

      assert.equal(
        { trails: done.trails, stripped: done.stripped, kept: done.kept },
        { trails: going.size, stripped: sum(({ stripped }) => stripped), kept: 0 },
      );
      assert.is(
        sum((flow) => flow.trails),
        going.size,
      );
      const after = counts();
      assert.equal(
        before.map((count, place) => count - (after[place] as number)),
        [sum((flow) => flow.trails), sum((flow) => flow.artifacts), sum((flow) => flow.attestations)],
      );
      assert.is(
        filesBefore.length - files().length,
        sum((flow) => flow.files),
        "files that no record names any more",
      );
      assert.equal(
        trails
          .filter(({ id }) => !db.prepare("SELECT 1 FROM trails WHERE id = ?").get(id))
          .map(({ public_id }) => public_id)
          .sort(),
        [...going].sort(),
      );
      assert.ok(store.trails.find(world.foreign, "late-1"), "another organization");

      assert.equal(pictures(world), picturesBefore, "every snapshot shows the same as before");
      for (const [fingerprint, now] of factsOfAll(world, fingerprints))
        if (now !== "[]") assert.is(now, facts.get(fingerprint), fingerprint);
      derivedTablesHold(db);
      assert.is(db.prepare("SELECT count(*) FROM tombstones WHERE kind = 'trail'").pluck().get(), going.size);
      assert.equal(
        planOf(world, retention, organizationId)
          .flows.map((flow) => flow.trails + flow.stripped)
          .filter((count) => count > 0),
        [],
        "nothing is left of the plan",
      );

      seen.worlds += 1;
      seen.deleting += done.trails > 0 ? 1 : 0;
      seen.stripping += done.stripped > 0 ? 1 : 0;
      for (const why of ["held", "ran", "shared"] as const) seen[why] += sum(({ kept }) => kept[why]) > 0 ? 1 : 0;
    }),
    { numRuns: 60, seed: 20_261_121, includeErrorInReport: true },
  );
  assert.ok(
    Object.values(seen).every((count) => count > 2),
    JSON.stringify(seen),
  );
});

const NOW = 1_800_000_000;
type Place = ReturnType<typeof place>;

/** A flow whose trails expire after 30 days. `trail` makes one that ended `days` ago, with artifacts and records. */
function place(days: { trails: number | null; evidence: number | null } = { trails: 30, evidence: null }) {
  const setup = opened();
  const retention = retentionOf(setup);
  const flow = setup.flow("build");
  retention.rules.set({ organizationId: setup.organizationId, flowId: null }, days);
  const trail = (
    name: string,
    ended: number,
    fingerprints: readonly string[] = [],
    file: string | null = null,
    of = flow.id,
  ): number => {
    setup.clock.at = NOW - ended * DAY - 100;
    const { id } = setup.store.trails.find(of, name) ?? setup.trail(of, name);
    for (const fingerprint of fingerprints) setup.artifact(of, id, fingerprint.repeat(64));
    const record = setup.attestation(
      of,
      id,
      "tests",
      file === null ? {} : { evidence_digest: file.repeat(64), evidence_size: 5, evidence_filename: "junit.xml" },
    );
    setup.store.attestations.bindToTrail(id, record.id, "tests");
    setup.store.trailEvaluation.evaluate(id, setup.clock.at);
    setup.clock.at = NOW;
    return id;
  };
  const names = (): unknown[] => setup.db.prepare("SELECT name FROM trails ORDER BY name").pluck().all();
  return { ...setup, retention, flow, another: setup.flow, trail, names };
}

const keptOf = ({ retention, ...setup }: Place) =>
  planOf(setup, retention).flows.map(({ trails, kept, examples }) => ({
    trails,
    ...kept,
    by: examples.map(({ trail, by }) => `${trail}: ${by}`),
  }));

test("the age of a trail counts from its last event; the rule of a flow replaces its organization's", async () => {
  const setup = place();
  const { trail, retention, organizationId, names, store, clock } = setup;
  trail("old", 31);
  trail("young", 29);
  const busy = trail("busy", 99);
  store.trails.addEvent(busy, { type: "x", at: NOW - 10 * DAY, event: {} });
  const other = setup.another("other");
  trail("kept", 400, [], null, other.id);
  retention.rules.set({ organizationId, flowId: other.id }, { trails: null, evidence: null });
  const done = await carriedOut(setup, retention, planOf(setup, retention));
  assert.equal(
    { trails: done.trails, kept: done.kept, notes: done.notes },
    { trails: 1, kept: 0, notes: ["trail.deleted build/old"] },
  );
  assert.equal(names(), ["busy", "kept", "young"]);
  clock.at = NOW + 500 * DAY;
  assert.ok(retention.rules.delete({ organizationId, flowId: other.id }));
  assert.is((await carriedOut(setup, retention, planOf(setup, retention))).trails, 3);
  assert.equal(names(), []);
  assert.is(setup.db.prepare("SELECT trail_count FROM flows WHERE id = ?").pluck().get(setup.flow.id), 0);
});

test("names what keeps a trail: holds, snapshots, pending messages", async () => {
  const setup = place();
  const { trail, retention, organizationId, store, db, flow, names } = setup;
  trail("held", 90);
  const told = trail("told", 90);
  trail("ran", 90, ["a"]);
  trail("gone", 90, ["b"]);
  const hold = retention.rules.createHold({ organizationId, flowId: flow.id }, store.trails.find(flow.id, "held"), {
    reason: "case 7",
    by: "legal",
  });
  store.jobs.add(
    "notify",
    {
      type: "trail",
      organization_id: organizationId,
      actions: [1],
      flow_id: flow.id,
      trail_id: told,
      at: 1,
      by: "ada",
    },
    0,
  );
  const environment = store.environments.create(organizationId, {
    name: "prod",
    type: "K8S",
    description: "",
    includeScaling: false,
    requireProvenance: false,
  });
  store.snapshotRecorder.record(environment, {
    cause: "report",
    artifacts: [{ name: "app", fingerprint: "a".repeat(64), instances: { created: [1] } }],
    actor: { publicId: "ci", displayName: "ci" },
  });
  assert.equal(keptOf(setup), [
    {
      trails: 1,
      held: 1,
      ran: 1,
      referenced: 1,
      shared: 0,
      by: [
        `held: hold ${hold}: case 7`,
        "ran: an artifact of it ran in snapshot prod#1",
        "told: other records, or messages that are to be made, refer to it",
      ],
    },
  ]);
  assert.is((await carriedOut(setup, retention, planOf(setup, retention))).trails, 1);
  db.exec("DELETE FROM jobs");
  retention.rules.releaseHold(retention.rules.findHold(hold)?.id as number, "legal");
  assert.is((await carriedOut(setup, retention, planOf(setup, retention))).trails, 2);
  assert.equal(names(), ["ran"], "what ran stays for as long as its snapshots, which is for ever");
});

test("an artifact keeps all records that count, or loses all of them", async () => {
  const setup = place();
  const { trail, retention, organizationId, names, db } = setup;
  const release = setup.another("release");
  retention.rules.set({ organizationId, flowId: release.id }, { trails: 100, evidence: null });
  // Built twice, released later: the second build counts, the first one no longer does.
  trail("build-1", 60, ["a"]);
  trail("build-2", 50, ["a"]);
  trail("release-1", 40, ["a"], null, release.id);
  // Also reported without a trail, which is never deleted.
  trail("legacy", 60, ["c"]);
  setup.artifact(release.id, null, "c".repeat(64));
  assert.equal(
    keptOf(setup).map(({ trails, shared }) => [trails, shared]),
    [[1, 2]],
  );
  await carriedOut(setup, retention, planOf(setup, retention));
  assert.equal(names(), ["build-2", "legacy", "release-1"]);
  assert.equal(
    all(db, "SELECT artifact_id FROM builds ORDER BY 1"),
    all(db, "SELECT min(id) AS artifact_id FROM artifacts GROUP BY fingerprint ORDER BY 1"),
  );
  retention.rules.set({ organizationId, flowId: release.id }, { trails: 30, evidence: null });
  // The records that count are deleted in one write.
  const plan = planOf(setup, retention);
  assert.is((await carriedOut(setup, retention, plan, 1)).trails, 2);
  assert.equal(names(), ["legacy"]);
});

test("a trail kept for one artifact keeps others for another one, and each may still lose its files", async () => {
  const setup = place({ trails: 30, evidence: 10 });
  const { trail, retention, names, db } = setup;
  trail("second", 60, ["b"]);
  trail("first", 50, ["a", "b"], "e", setup.another("other").id);
  trail("young", 1, ["a"], "f", setup.another("third").id);
  const plan = planOf(setup, retention);
  assert.equal(
    plan.flows.map(({ flow, trails, stripped, files, kept }) => [flow, trails, stripped, files, kept.shared]),
    [
      ["build", 0, 0, 0, 1],
      ["other", 0, 1, 1, 0],
    ],
  );
  const done = await carriedOut(setup, retention, plan);
  assert.equal({ trails: done.trails, stripped: done.stripped }, { trails: 0, stripped: 1 });
  assert.equal(names(), ["first", "second", "young"]);
  assert.equal(db.prepare("SELECT evidence_digest FROM attestations ORDER BY id").pluck().all(), [
    null,
    null,
    "f".repeat(64),
  ]);
});

test("an interrupted run continues under the same plan; a changed hold or rule ends it", async () => {
  const setup = place();
  const { trail, retention, organizationId, names, db } = setup;
  for (const name of ["a", "b", "c", "d"]) trail(name, 60);
  const plan = planOf(setup, retention);
  const first = await carriedOut(setup, retention, plan, 1);
  assert.is(first.trails, 1);
  const deleted = retention.runs.listDeletedBy(first.run.id);
  const again = db.transaction(() => retention.plans.make(null, setup.clock.at, deleted)).deferred();
  assert.is(again.id, plan.id, "what is left and what is gone are the plan");
  const second = await carriedOut(setup, retention, again, 1);
  assert.equal({ trails: second.trails, id: second.run.id }, { trails: 1, id: first.run.id });
  assert.equal(names(), ["c", "d"]);

  const pieces = retention.runs.planPieces(plan, first.run.id, () => undefined);
  assert.is(pieces.length, 2);
  retention.rules.createHold({ organizationId, flowId: null }, null, { reason: "case 7", by: "legal" });
  assert.throws(
    () => pieces[0]?.(),
    (error: Error) => error instanceof RetentionChangedError,
  );
  assert.equal(names(), ["c", "d"]);
  assert.is.not(planOf(setup, retention).id, plan.id);
});

test("sees changes after the plan under the write lock: a start, an event, a new record", async () => {
  const setup = place();
  const { trail, retention, organizationId, store, names } = setup;
  trail("starts", 60, ["a"]);
  const event = trail("event", 60);
  trail("shares", 60, ["b"]);
  trail("goes", 60, ["c"]);
  const plan = planOf(setup, retention);
  const environment = store.environments.create(organizationId, {
    name: "prod",
    type: "K8S",
    description: "",
    includeScaling: false,
    requireProvenance: false,
  });
  store.snapshotRecorder.record(environment, {
    cause: "report",
    artifacts: [{ name: "app", fingerprint: "a".repeat(64), instances: { created: [1] } }],
    actor: { publicId: "ci", displayName: "ci" },
  });
  store.trails.addEvent(event, { type: "x", at: NOW, event: {} });
  trail("new", 1, ["b"], null, setup.another("other").id);
  const done = await carriedOut(setup, retention, plan);
  assert.equal({ trails: done.trails, kept: done.kept }, { trails: 1, kept: 3 });
  assert.equal(names(), ["event", "new", "shares", "starts"]);
});

test("a snapshot planned on rows that are deleted meanwhile starts over", async () => {
  const setup = place();
  const { trail, retention, organizationId, store } = setup;
  trail("old", 60, ["a"]);
  const environment = store.environments.create(organizationId, {
    name: "prod",
    type: "K8S",
    description: "",
    includeScaling: false,
    requireProvenance: false,
  });
  const survey = store.snapshotRecorder.readCurrent(
    environment,
    "report",
    storableReport([{ name: "app", fingerprint: "a".repeat(64), instances: { created: [1] } }]),
  );
  assert.ok(store.snapshotRecorder.isCurrent(survey));
  assert.is((await carriedOut(setup, retention, planOf(setup, retention))).trails, 1);
  assert.not(store.snapshotRecorder.isCurrent(survey));
});

test("a tombstone counts what was deleted; its digest covers records and files, deleted ones too", async () => {
  const setup = place({ trails: 60, evidence: 30 });
  const { trail, retention, organizationId, clock, db } = setup;
  const id = trail("old", 50, ["a", "b"], "e");
  trail("same-file", 1, [], "e");
  const record = db.prepare("SELECT public_id, name, is_compliant FROM attestations WHERE trail_id = ?").get(id) as {
    public_id: string;
    name: string;
    is_compliant: 1;
  };
  const digest = recordsDigest([{ ...record, file: "e".repeat(64) }]);
  assert.equal(
    planOf(setup, retention).flows.map(({ stripped, files, trails }) => [stripped, files, trails]),
    [[1, 0, 0]],
    "another record names the same file",
  );
  const stripped = await carriedOut(setup, retention, planOf(setup, retention));
  assert.equal(
    { trails: stripped.trails, stripped: stripped.stripped, notes: stripped.notes },
    { trails: 0, stripped: 1, notes: ["trail.evidence_deleted build/old"] },
  );
  assert.equal(setup.store.evidenceLocation.isReferenced("e".repeat(64)), true);
  assert.equal(
    db.prepare("SELECT evidence_digest, evidence_size, evidence_filename FROM attestations WHERE trail_id = ?").get(id),
    { evidence_digest: null, evidence_size: null, evidence_filename: "junit.xml" },
  );
  clock.at = NOW + 11 * DAY;
  assert.is((await carriedOut(setup, retention, planOf(setup, retention))).trails, 1);
  const list = retention.runs.listTombstones(organizationId, null, { limit: 10, before: null });
  const shown = list.map(
    ({
      kind,
      name,
      digest: found,
      artifact_count,
      attestation_count,
      file_count,
      size,
      filename,
      rule,
      fingerprints_json,
    }) => ({
      kind,
      name,
      found,
      artifact_count,
      attestation_count,
      file_count,
      size,
      filename,
      rule,
      fingerprints_json,
    }),
  );
  const rule = "organization acme: trails for 60 days, files for 30 days";
  assert.equal(shown, [
    {
      kind: "trail",
      name: "old",
      found: digest,
      artifact_count: 2,
      attestation_count: 1,
      file_count: 1,
      size: null,
      filename: null,
      rule,
      fingerprints_json: JSON.stringify(["a".repeat(64), "b".repeat(64)]),
    },
    {
      kind: "evidence",
      name: "tests",
      found: "e".repeat(64),
      artifact_count: 0,
      attestation_count: 0,
      file_count: 0,
      size: 5,
      filename: "junit.xml",
      rule,
      fingerprints_json: "[]",
    },
  ]);
  assert.is(retention.runs.listTombstones(organizationId, null, { limit: 10, before: list[0]?.id ?? 0 }).length, 1);
});

test("a deleted name is free, and a new trail with that name gets its own tombstone", async () => {
  const setup = place();
  const { trail, retention, names, organizationId, flow, store } = setup;
  trail("main", 60, ["a"]);
  const first = store.trails.find(flow.id, "main")?.public_id;
  await carriedOut(setup, retention, planOf(setup, retention));
  trail("main", 50, ["a"]);
  assert.equal(names(), ["main"]);
  assert.is.not(store.trails.find(flow.id, "main")?.public_id, first);
  await carriedOut(setup, retention, planOf(setup, retention));
  assert.equal(
    retention.runs.listTombstones(organizationId, flow.id, { limit: 10, before: null }).map(({ name }) => name),
    ["main", "main"],
  );
});

test("finds rows that refer to deleted rows, whatever left them", async () => {
  const setup = place();
  const { trail, retention, db } = setup;
  trail("old", 60);
  const plan = planOf(setup, retention);
  const pieces = retention.runs.planPieces(plan, retention.runs.begin(plan.id, "ops").id, () =>
    db.exec("INSERT INTO trail_events (trail_id, type, timestamp, event_json) VALUES (1, 'x', 0, '{}')"),
  );
  let message = "";
  await retention.runs
    .withDeferredForeignKeys(async () => void pieces[0]?.())
    .catch((error: Error) => (message = error.message));
  assert.match(message, "rows of trail_events name rows that are gone");
  assert.is(db.pragma("foreign_keys", { simple: true }), 1, "and the checks are on again");
});

test("no other file deletes history", () => {
  const tables = [
    ...["trails", "trail_events", "artifacts", "attestations", "evaluations", "snapshots", "snapshot_artifacts"],
    ...["audit_log", "tombstones", "legal_holds", "allowlist_entries", "policy_versions", "deployments"],
  ];
  const history = new RegExp(`DELETE FROM (${tables.join("|")})\\b`);
  const offences = sourceFiles("src")
    .filter(({ path, text }) => path !== "src/store/retention/retention-deletion.ts" && history.test(text))
    .map(({ path }) => path);
  assert.equal(offences, []);
  assert.equal(
    readFileSync("src/store/retention/retention-deletion.ts", "utf8").match(/DELETE FROM \$\{rows\}/g)?.length,
    1,
  );
});

test.run();
