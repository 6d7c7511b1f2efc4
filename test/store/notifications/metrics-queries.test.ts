/** Counters that are maintained beside the rows they count. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { metricsStore } from "../../../src/store/notifications/metrics-queries.ts";
import { startServer } from "../../given.ts";
import type { TestServer } from "../../given.ts";
import type { Db } from "../../../src/store/db/types.ts";

const test = suite("store/notifications/metrics-queries");
let server: TestServer;
let at: { org: string; key: string };
test.before(async () => {
  server = await startServer();
  at = server.given.org();
});
test.after(() => server.stop());

/** The result of counting every row. */
const counted = (): unknown =>
  server.db
    .prepare(
      `SELECT count(*) AS files, coalesce(sum(size), 0) AS bytes,
         (SELECT count(*) FROM small_evidence) AS inDatabase,
         (SELECT coalesce(sum(length(content)), 0) FROM small_evidence) AS bytesInDatabase
       FROM (SELECT max(evidence_size) AS size
          FROM attestations WHERE evidence_digest IS NOT NULL GROUP BY evidence_digest)`,
    )
    .get();

test("counts each evidence file once, through inserts, updates and deletes", async () => {
  const { metrics } = server.store;
  assert.equal(metrics.summarizeEvidence(), { files: 0, bytes: 0, inDatabase: 0, bytesInDatabase: 0 });
  const flow = await server.given.flow(at);
  const trail = await server.given.trail(at, { flow });
  const attest = (content: string | null) =>
    server.given.attestation(at, {
      flow,
      trail,
      file: content === null ? undefined : { name: "attachment_file", filename: "a.txt", content },
    });
  const ids: string[] = [];
  for (const content of ["first", "second one", "first", null, "", "first", "x".repeat(70_000)])
    ids.push(await attest(content));
  assert.equal(metrics.summarizeEvidence(), { files: 4, bytes: 70_015, inDatabase: 3, bytesInDatabase: 15 });
  assert.equal(metrics.summarizeEvidence(), counted());

  const { db } = server;
  db.pragma("foreign_keys = OFF");
  const remove = db.prepare("DELETE FROM attestations WHERE public_id = ?");
  const forget = db.prepare(
    `UPDATE attestations SET evidence_digest = NULL, evidence_size = NULL, evidence_filename = NULL,
        evidence_content_type = NULL WHERE public_id = ?`,
  );
  const become = db.prepare(
    `UPDATE attestations SET evidence_digest = ?, evidence_size = ?, evidence_filename = 'x',
        evidence_content_type = 'text/plain' WHERE public_id = ?`,
  );
  for (const [step, change] of Object.entries({
    "one of three of a content": () => remove.run(ids[0]),
    "the second": () => forget.run(ids[2]),
    "and the last": () => remove.run(ids[5]),
    "one without evidence": () => remove.run(ids[3]),
    "another content in its place": () => become.run("f".repeat(64), 1_000, ids[1]),
    "one that is there already": () => become.run("f".repeat(64), 1_000, ids[4]),
    "the same again": () => become.run("f".repeat(64), 1_000, ids[4]),
    "one that comes back": () => become.run("e".repeat(64), 7, ids[2]),
  })) {
    change();
    assert.equal(metrics.summarizeEvidence(), counted(), step);
  }
  assert.equal(metrics.summarizeEvidence(), { files: 3, bytes: 71_007, inDatabase: 0, bytesInDatabase: 0 });
  assert.throws(() =>
    db.transaction(() => {
      remove.run(ids[2]);
      throw new Error("no");
    })(),
  );
  assert.equal(metrics.summarizeEvidence(), counted(), "what is undone was not counted");
});

test("counts jobs by kind with the earliest, and messages by state with the oldest waiting", () => {
  const { store, db } = server;
  db.exec("DELETE FROM jobs");
  assert.equal(
    { jobs: store.metrics.listJobs(), deliveries: store.metrics.summarizeDeliveries() },
    { jobs: [], deliveries: { waiting: 0, dead: 0, oldest: null } },
  );
  for (const [kind, due] of [
    ["notify", 30],
    ["notify", 20],
    ["reevaluate", 50],
  ] as const)
    store.jobs.add(kind, {}, due);
  assert.equal(store.metrics.listJobs(), [
    { kind: "notify", count: 2, due_at: 20 },
    { kind: "reevaluate", count: 1, due_at: 50 },
  ]);
  db.exec("UPDATE jobs SET last_error = 'no' WHERE due_at = 20");
  assert.is(store.metrics.countFailingJobs(), 1);
  const insert =
    db.prepare(`INSERT INTO deliveries (public_id, organization_id, queue, has_target, subject, type, target_json,
        message_json, state, created_at, waiting_since, due_at)
    VALUES (?, (SELECT max(id) FROM organizations), 'q', 0, 's', 'SLACK', '{}', '{}', ?, 1, ?, 1)`);
  for (const [n, state] of ["delivered", "waiting", "dead", "waiting", "delivered"].entries())
    insert.run(`d${n}`, state, 100 + n);
  assert.equal(store.metrics.summarizeDeliveries(), { waiting: 2, dead: 1, oldest: 101 });
  db.exec("DELETE FROM deliveries; DELETE FROM jobs");
});

test("no metric reads a table that grows with the recorded history", () => {
  const { db } = server;
  const statements: string[] = [];
  const recorder = {
    prepare(sql: string) {
      statements.push(sql);
      return db.prepare(sql);
    },
  };
  metricsStore(recorder as unknown as Db);
  const plans = statements
    .filter((sql) => sql.startsWith("SELECT"))
    .flatMap((sql) =>
      db
        .prepare<unknown[], { detail: string }>(`EXPLAIN QUERY PLAN ${sql.replace("?", "'dead'")}`)
        .all()
        .map(({ detail }) => detail),
    );
  assert.equal(plans, [
    "SCAN jobs USING COVERING INDEX jobs_by_due",
    "SCAN jobs",
    "SEARCH deliveries USING COVERING INDEX deliveries_by_state (state=?)",
    "SEARCH deliveries USING INDEX deliveries_by_state (state=?)",
    "SCAN evidence_totals",
  ]);
});

test.run();
