/** The rows of the outbox: messages added with a change, the job of each queue, and deletion of old messages. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { RenderedMessage } from "../../../src/domain/notification/render.ts";
import { opened, plan } from "../given.ts";

const test = suite("store/notifications/outbox");

const HOOK: RenderedMessage = {
  type: "WEBHOOK",
  webhook: "https://hooks.example/x",
  body: { event_type: "STARTED_ARTIFACT" },
};

function given() {
  const all = opened();
  const add = (queue = "q", message = HOOK, targetId: number | null = null): string =>
    all.store.outbox.add({ organizationId: all.organizationId, queue, targetId, subject: "s", message });
  const jobs = () => all.db.prepare("SELECT kind, payload_json FROM jobs ORDER BY id").raw().all();
  const queues = () => all.db.prepare("SELECT queue, job_id FROM delivery_queues ORDER BY queue").raw().all();
  return { ...all, deliveries: all.store.outbox, add, jobs, queues };
}

test("stores each type of message in the form in which it is sent", () => {
  const { add, db } = given();
  add();
  add("q", { type: "SLACK", webhook: "https://slack.example/y", body: { text: "hello" } });
  add("q", { type: "EMAIL", emails: ["ann@x.example"], subject: "s", text: "t", html: "<p>" });
  assert.equal(
    db
      .prepare("SELECT type, target_json, message_json, state, attempts, has_target FROM deliveries ORDER BY id")
      .raw()
      .all(),
    [
      ["WEBHOOK", '{"webhook":"https://hooks.example/x"}', '{"event_type":"STARTED_ARTIFACT"}', "waiting", 0, 0],
      ["SLACK", '{"webhook":"https://slack.example/y"}', '{"text":"hello"}', "waiting", 0, 0],
      ["EMAIL", '{"emails":["ann@x.example"]}', '{"subject":"s","text":"t","html":"<p>"}', "waiting", 0, 0],
    ],
  );
});

test("a queue has one job while a message waits in it", () => {
  const { add, deliveries, jobs, queues, store } = given();
  for (const queue of ["q", "q", "r"]) add(queue);
  assert.equal(jobs(), [
    ["deliver", '{"queue":"q"}'],
    ["deliver", '{"queue":"r"}'],
  ]);
  assert.equal(queues(), [
    ["q", 1],
    ["r", 2],
  ]);
  const [first, second] = [deliveries.findFirst("q")?.id as number, 2];
  deliveries.markDead(first, "no");
  assert.is.not(deliveries.nextDue("q"), null);
  deliveries.markDead(second, "no");
  assert.is(deliveries.nextDue("q"), null);
  store.jobs.complete(1);
  assert.equal(queues(), [["r", 2]]);
  add("q");
  assert.equal(queues(), [
    ["q", 3],
    ["r", 2],
  ]);
});

test("a rolled-back change leaves neither message nor job", () => {
  const { add, db, jobs, queues } = given();
  assert.throws(
    () =>
      db.transaction(() => {
        add();
        throw new Error("refused");
      })(),
    /refused/,
  );
  assert.equal(
    { jobs: jobs(), queues: queues(), get: db.prepare("SELECT count(*) FROM deliveries").pluck().get() },
    { jobs: [], queues: [], get: 0 },
  );
});

test("a queue without its job gets one with its next message or retry", () => {
  const { add, db, deliveries, jobs, queues } = given();
  add();
  db.exec("DELETE FROM jobs");
  deliveries.retry(1);
  assert.equal(jobs(), [["deliver", '{"queue":"q"}']]);
  assert.equal(queues(), [["q", 2]]);
});

test("attempts, markDead and deleteDead have no effect on messages in another state", () => {
  const { add, db, deliveries } = given();
  add();
  const waiting = deliveries.findFirst("q");
  assert.ok(waiting);
  assert.is(deliveries.deleteDead(1), false);
  const attempt = { startedAt: 1, seconds: 1, address: null, status: 200, error: null };
  deliveries.recordAttempt(waiting, attempt, { outcome: { state: "delivered" }, publicError: null });
  deliveries.recordAttempt(waiting, attempt, { outcome: { state: "dead" }, publicError: "late" });
  deliveries.markDead(1, "late");
  assert.equal(db.prepare("SELECT state, attempts, last_error FROM deliveries").raw().all(), [["delivered", 1, null]]);
  assert.is(db.prepare("SELECT count(*) FROM delivery_attempts").pluck().get(), 1);
  assert.equal(
    { "retry 1": deliveries.retry(1), "purge 1": deliveries.deleteDead(1), "retry 99": deliveries.retry(99) },
    { "retry 1": false, "purge 1": false, "retry 99": false },
  );
});

test("deletes old delivered messages with their attempts in batches, and keeps dead and waiting ones", () => {
  const { add, db, deliveries } = given();
  for (let n = 0; n < 5; n += 1) {
    add();
    const message = deliveries.findFirst("q");
    assert.ok(message);
    if (n < 4)
      deliveries.recordAttempt(
        message,
        { startedAt: 100 * n, seconds: 0, address: null, status: 200, error: null },
        { outcome: { state: n === 1 ? "dead" : "delivered" }, publicError: null },
      );
  }
  assert.is(deliveries.deleteDelivered(300, 1), 1);
  assert.is(deliveries.deleteDelivered(300, 10), 1);
  assert.is(deliveries.deleteDelivered(300, 10), 0);
  assert.equal(db.prepare("SELECT state FROM deliveries ORDER BY id").pluck().all(), ["dead", "delivered", "waiting"]);
  assert.equal(db.prepare("SELECT delivery_id FROM delivery_attempts ORDER BY id").pluck().all(), [2, 4]);
  assert.is(deliveries.deleteDead(2), true);
  assert.equal(db.prepare("SELECT delivery_id FROM delivery_attempts").pluck().all(), [4]);
});

test("truncates stored errors", () => {
  const { add, db, deliveries } = given();
  add();
  const message = deliveries.findFirst("q");
  assert.ok(message);
  deliveries.recordAttempt(
    message,
    { startedAt: 1, seconds: 1, address: null, status: null, error: "x".repeat(9999) },
    { outcome: { state: "dead" }, publicError: "y".repeat(9999) },
  );
  assert.equal(
    db
      .prepare("SELECT length(last_error) FROM deliveries UNION ALL SELECT length(error) FROM delivery_attempts")
      .pluck()
      .all(),
    [500, 500],
  );
});

test("an index serves every statement, without sorting", () => {
  const { db, sql } = opened();
  const statements = sql.filter(
    (text) => /\b(FROM|INTO|UPDATE) (deliveries|delivery_\w+)\b/.test(text) && !text.startsWith("INSERT"),
  );
  assert.is(statements.length, 18);
  const steps = statements.flatMap((text) => plan(db, text).map((step) => `${step} <- ${text}`));
  assert.equal(
    steps.filter((step) => /SCAN|TEMP B-TREE/.test(step)),
    [],
  );
  // Deleting a target looks up the messages that name it.
  assert.match(plan(db, "UPDATE deliveries SET target_id = NULL WHERE target_id = ?").join(), "deliveries_by_target");
});

test("lists for the operator follow an index", () => {
  const { db, sql, store, organizationId } = opened();
  for (const [state, organization, action] of [
    [null, null, null],
    ["dead", null, null],
    ["delivered", null, null],
    [null, organizationId, null],
    ["dead", organizationId, null],
    ["delivered", organizationId, null],
    ["waiting", organizationId, "deploys"],
    [null, organizationId, "deploys"],
  ] as const) {
    store.deliveryLog.list({ state, organizationId: organization, action, before: 7 }, 10);
    const steps = plan(db, sql.at(-1) ?? "");
    const index =
      organization !== null && (state === null || state === "delivered")
        ? "INDEX deliveries_by_organization"
        : state === null
          ? "INTEGER PRIMARY KEY"
          : "INDEX deliveries_by_state";
    assert.match(
      steps.find((step) => /\bd\b/.test(step)) ?? "",
      `SEARCH d USING ${index}`,
      `${state} ${organization} ${action}`,
    );
    assert.equal(
      steps.filter((step) => /SCAN|TEMP B-TREE/.test(step)),
      [],
    );
  }
});

test.run();
