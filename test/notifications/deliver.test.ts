/** Delivery from the outbox: order, retries, dead messages, and crashes. Senders are scripted, databases are real. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createDeliverer } from "../../src/notifications/deliver.ts";
import { jobHandlers, PARALLEL_BY_KIND } from "../../src/server/job-handlers.ts";
import { createJobRunner } from "../../src/jobs/job-runner.ts";
import { createLogger } from "../../src/log.ts";
import { outcome } from "../../src/notifications/outcome.ts";
import type { Outcome } from "../../src/notifications/outcome.ts";
import type { OutboundMessage, Sender } from "../../src/notifications/sender.ts";
import { openMemory } from "../../src/store/db/database.ts";
import type { RenderedMessage } from "../../src/domain/notification/render.ts";
import { openStore } from "../../src/store/index.ts";
import { GroupCommitWriter } from "../../src/store/db/group-commit.ts";
import { T, clock, inFile, turns } from "../jobs/given.ts";
import type { Db } from "../../src/store/db/types.ts";

const test = suite("notifications/deliver");

type Answer = (message: OutboundMessage) => Outcome | Promise<Outcome>;
const accepted = (): Outcome => outcome("accepted", null, { status: 200, address: "192.0.2.1" });
const failed = (more: Partial<Outcome> = {}): Outcome =>
  outcome("failed", "The receiver answered with status 500", { status: 500, ...more });

/** A runner over an outbox with the organization acme. `sent` lists the subjects of the attempts with their times. */
function given(
  answer: Answer,
  { db = openMemory(), time = clock() }: { db?: Db; time?: ReturnType<typeof clock> } = {},
) {
  let ids = 0;
  const store = openStore(db, { now: () => time.at, newId: () => `id-${++ids}` });
  const organizationId =
    store.organizations.find("acme")?.id ??
    store.organizations.create({ name: "acme", kind: "shared", isPublic: false, controlsEnabled: true });
  const lines: Record<string, unknown>[] = [];
  const logger = createLogger({
    level: "info",
    destination: { write: (line: string) => void lines.push(JSON.parse(line)) },
  });
  const sent: [string, number][] = [];
  const sender: Sender = {
    async send(message) {
      sent.push([(JSON.parse(message.message_json) as { n: string }).n, time.at - T]);
      return answer(message);
    },
    close: () => undefined,
  };
  const writer: GroupCommitWriter = new GroupCommitWriter(db, {
    onBatch: () => {
      if (store.jobs.takeAddedFlag()) runner.wake();
    },
  });
  const deliver = createDeliverer({ store, sender, now: () => time.at, logger });
  const handlers = jobHandlers({
    reevaluate: async () => undefined,
    expireKey: async () => undefined,
    endAllowlistEntry: async () => () => null,
    notify: async () => () => null,
    sendDailyChanges: async () => () => null,
    deliver,
  });
  const runner = createJobRunner({
    store,
    writer,
    logger,
    handlers,
    parallel: PARALLEL_BY_KIND,
    now: () => time.at,
    timer: time.timer,
  });
  const message = (n: string): RenderedMessage => ({
    type: "WEBHOOK",
    webhook: "https://ann:pw@hooks.example/secret/path",
    body: { n },
  });
  const add = (n: string, queue = "q", targetId: number | null = null) =>
    writer.run(() =>
      store.outbox.add({ organizationId, queue, targetId, subject: `deploys: ${n}`, message: message(n) }),
    );
  const target = (): number =>
    Number(
      db
        .prepare(
          "INSERT INTO notification_targets (organization_id, notification_type, position, type, target_json, " +
            "secret) VALUES (?, 'api_key_expiry', 0, 'WEBHOOK', '{}', 's3cret')",
        )
        .run(organizationId).lastInsertRowid,
    );
  const rows = () =>
    db
      .prepare("SELECT subject, state, attempts, due_at - 1700000000 AS due, last_error FROM deliveries ORDER BY id")
      .raw()
      .all() as unknown[][];
  const states = () => db.prepare("SELECT state FROM deliveries ORDER BY id").pluck().all();
  const pending = () => [
    db.prepare("SELECT count(*) FROM jobs").pluck().get(),
    db.prepare("SELECT count(*) FROM delivery_queues").pluck().get(),
  ];
  return { db, store, writer, runner, time, lines, sent, add, target, rows, states, pending, organizationId };
}

/** Each attempt ends when the test says so; `running` lists the messages that are being sent. */
function gate() {
  const running = new Map<string, (result: Outcome) => void>();
  return {
    running,
    answer: (message: OutboundMessage) =>
      new Promise<Outcome>((resolve) => running.set((JSON.parse(message.message_json) as { n: string }).n, resolve)),
    async end(n: string, result = accepted()): Promise<void> {
      running.get(n)?.(result);
      running.delete(n);
      await turns();
    },
  };
}

test("a commit that adds a message sends it, and stores the attempt", async () => {
  const all = given(() => {
    all.time.at += 0.25;
    return accepted();
  });
  const target = all.target();
  await all.add("a", `target ${target}`, target);
  await all.runner.whenIdle();
  assert.equal(all.sent, [["a", 0]]);
  assert.equal(all.rows(), [["deploys: a", "delivered", 1, 0, null]]);
  assert.equal(
    all.db.prepare("SELECT started_at, seconds, address, status, error FROM delivery_attempts").raw().all(),
    [[T, 0.25, "192.0.2.1", 200, null]],
  );
  assert.equal(all.db.prepare("SELECT finished_at FROM deliveries").pluck().get(), T + 0.25);
  assert.equal(
    all.db.prepare("SELECT last_success_at, last_failure_at, last_error FROM notification_targets").raw().get(),
    [T + 0.25, null, null],
  );
  assert.equal(all.pending(), [0, 0]);
  const [{ time: _, ...line }] = all.lines as [Record<string, unknown>];
  assert.equal(line, {
    level: "info",
    delivery: "id-2",
    org: "acme",
    queue: `target ${target}`,
    subject: "deploys: a",
    type: "WEBHOOK",
    to: "https://hooks.example/...",
    attempt: 1,
    address: "192.0.2.1",
    status: 200,
    duration_ms: 250,
    outcome: "delivered",
    msg: "delivery",
  });
  assert.is(all.lines.length, 1);
});

test("a failure is logged in one line and stored; the organization sees less than the operator", async () => {
  const all = given(() =>
    failed({ address: "192.0.2.1", detail: "upstream https://a:b@inside.lan/?token=s3cret is down" }),
  );
  const target = all.target();
  await all.add("a", "q", target);
  await all.runner.whenIdle();
  const error = "The receiver answered with status 500: upstream https://[hidden]@inside.lan/?token=[hidden] is down";
  assert.equal(all.rows(), [["deploys: a", "waiting", 1, 10, error]]);
  assert.equal(
    all.db.prepare("SELECT last_success_at, last_failure_at, last_error FROM notification_targets").raw().get(),
    [null, T, "The receiver answered with status 500"],
  );
  const [{ time: _, ...line }] = all.lines as [Record<string, unknown>];
  assert.equal(line, {
    level: "warn",
    delivery: "id-2",
    org: "acme",
    queue: "q",
    subject: "deploys: a",
    type: "WEBHOOK",
    to: "https://hooks.example/...",
    attempt: 1,
    address: "192.0.2.1",
    status: 500,
    duration_ms: 0,
    outcome: "failed",
    next_attempt_at: T + 10,
    error,
    msg: "delivery",
  });
  assert.not.match(JSON.stringify(all.lines), /secret\/path|s3cret|ann/);
});

test("sends the messages of a queue one after another, in order", async () => {
  const { running, answer, end } = gate();
  const all = given(answer);
  for (const n of ["a", "b", "c"]) await all.add(n);
  await turns();
  assert.equal([...running.keys()], ["a"]);
  await end("a");
  assert.equal([...running.keys()], ["b"]);
  await all.add("d");
  await end("b");
  await end("c");
  assert.equal([...running.keys()], ["d"]);
  await end("d");
  assert.equal(
    all.sent.map(([n]) => n),
    ["a", "b", "c", "d"],
  );
  assert.equal(all.pending(), [0, 0]);
});

test("a message never overtakes one that waits for a retry", async () => {
  let up = false;
  const all = given(() => (up ? accepted() : failed()));
  await all.add("a");
  await all.add("b");
  await all.runner.whenIdle();
  await all.time.pass(60);
  await all.add("c");
  await all.runner.whenIdle();
  assert.equal(all.sent, [
    ["a", 0],
    ["a", 10],
  ]);
  up = true;
  await all.time.pass(10);
  assert.equal(all.sent.slice(2), [
    ["a", 70],
    ["b", 70],
    ["c", 70],
  ]);
  assert.equal(all.states(), ["delivered", "delivered", "delivered"]);
});

test("a queue that hangs or fails does not delay others", async () => {
  const { running, answer, end } = gate();
  const all = given((message) =>
    message.message_json.includes("bad")
      ? failed()
      : message.message_json.includes("slow")
        ? answer(message)
        : accepted(),
  );
  await all.add("slow", "one");
  await all.add("bad", "two");
  await all.add("good-1", "three");
  await all.add("good-2", "three");
  await turns();
  assert.equal(all.states(), ["waiting", "waiting", "delivered", "delivered"]);
  assert.equal([...running.keys()], ["slow"]);
  await end("slow");
  assert.is(all.states()[0], "delivered");
});

test("sends at most 32 queues at a time, in turns with the others", async () => {
  const { running, answer, end } = gate();
  const all = given(answer);
  for (let n = 0; n < 40; n += 1) {
    await all.add(`${n}-first`, `queue ${n}`);
    await all.add(`${n}-second`, `queue ${n}`);
  }
  while (running.size < 32) await turns();
  await turns();
  assert.is(running.size, 32);
  assert.equal(
    [...running.keys()].filter((n) => n.endsWith("second")),
    [],
  );
  all.time.at += 1;
  for (let n = 0; n < 8; n += 1) await end(`${n}-first`);
  assert.equal(
    [...running.keys()].slice(-8),
    Array.from({ length: 8 }, (_, n) => `${n + 32}-first`),
    "not the second messages of queues that just had a turn",
  );
  while (running.size > 0) for (const n of [...running.keys()]) await end(n);
  assert.is(new Set(all.sent.map(([n]) => n)).size, 80);
  assert.is(all.sent.length, 80);
  assert.equal(all.pending(), [0, 0]);
});

test("a mail server that hangs delays four mail queues and no webhook", async () => {
  const { running, answer, end } = gate();
  const all = given((message) =>
    message.type === "EMAIL"
      ? answer({ ...message, message_json: JSON.stringify({ n: message.public_id }) })
      : accepted(),
  );
  const message: RenderedMessage = { type: "EMAIL", emails: ["ann@x.example"], subject: "s", text: "t", html: "h" };
  for (let n = 0; n < 6; n += 1)
    await all.writer.run(() =>
      all.store.outbox.add({
        organizationId: all.organizationId,
        queue: `mail ${n}`,
        targetId: null,
        subject: "m",
        message,
      }),
    );
  await all.add("a");
  while (running.size < 4) await turns();
  await turns();
  assert.is(running.size, 4);
  assert.is(all.states().at(-1), "delivered");
  while (running.size > 0) for (const n of [...running.keys()]) await end(n);
  assert.equal(all.states(), Array(7).fill("delivered"));
  assert.equal(all.pending(), [0, 0]);
});

test("pauses grow, and after ten attempts in a day a message is dead", async () => {
  const all = given(() => failed());
  await all.add("a");
  await all.runner.whenIdle();
  await all.time.pass(3 * 86_400);
  assert.equal(
    all.sent.map(([, at]) => at),
    [0, 10, 70, 370, 1270, 4870, 12_070, 26_470, 55_270, 84_070],
  );
  assert.equal(all.rows(), [["deploys: a", "dead", 10, 55_270 + 28_800, "The receiver answered with status 500"]]);
  assert.is(all.db.prepare("SELECT count(*) FROM delivery_attempts").pluck().get(), 10);
  assert.equal(all.pending(), [0, 0]);
  const last = all.lines.at(-1) as Record<string, unknown>;
  assert.equal(
    {
      level: last["level"],
      outcome: last["outcome"],
      attempt: last["attempt"],
      next_attempt_at: last["next_attempt_at"],
    },
    { level: "warn", outcome: "dead", attempt: 10, next_attempt_at: undefined },
  );
});

test("messages behind a dead one are attempted, and are dead after a day of their own", async () => {
  const all = given(() => failed());
  await all.add("a");
  await all.runner.whenIdle();
  await all.time.pass(3600);
  await all.add("b");
  await all.time.pass(86_000 - 3600);
  assert.equal(all.states(), ["dead", "waiting"]);
  assert.equal(
    all.sent.slice(10).map(([n, at]) => [n, at]),
    [
      ["b", 84_070],
      ["b", 84_080],
      ["b", 84_140],
      ["b", 84_440],
      ["b", 85_340],
    ],
  );
  await all.time.pass(86_400);
  assert.equal(all.rows()[1]?.slice(0, 3), ["deploys: b", "dead", 7]);
  assert.is(all.sent.at(-1)?.[1], 96_140, "the first attempt after a day of waiting");
});

test("retries a refused message twice, and a hopeless one never", async () => {
  const all = given(({ message_json }) =>
    outcome(
      message_json.includes("refused") ? "refused" : message_json.includes("gone") ? "hopeless" : "accepted",
      "no",
      { status: 404 },
    ),
  );
  await all.add("refused");
  await all.add("gone");
  await all.add("good");
  await all.runner.whenIdle();
  assert.equal(all.states(), ["waiting", "waiting", "waiting"]);
  await all.time.pass(100);
  assert.equal(all.sent, [
    ["refused", 0],
    ["refused", 10],
    ["refused", 70],
    ["gone", 70],
    ["good", 70],
  ]);
  assert.equal(all.states(), ["dead", "dead", "delivered"]);
});

test("a receiver may ask for a longer pause, up to an hour", async () => {
  const waits = [120, 5, 1_000_000];
  const all = given(() => failed({ retryAfter: waits.shift() ?? null }));
  await all.add("a");
  await all.runner.whenIdle();
  await all.time.pass(120 + 60 + 3600);
  assert.equal(
    all.sent.map(([, at]) => at),
    [0, 120, 180, 3780],
  );
});

test("retries an e-mail only for the recipients that have not accepted it", async () => {
  const to: unknown[] = [];
  const all = given(({ target_json }) => {
    to.push(JSON.parse(target_json));
    return to.length === 1 ? failed({ pendingRecipients: ["bob@x.example"] }) : accepted();
  });
  const message: RenderedMessage = {
    type: "EMAIL",
    emails: ["ann@x.example", "bob@x.example"],
    subject: "s",
    text: "t",
    html: "h",
  };
  await all.writer.run(() =>
    all.store.outbox.add({ organizationId: all.organizationId, queue: "q", targetId: null, subject: "x", message }),
  );
  await all.runner.whenIdle();
  await all.time.pass(10);
  assert.equal(to, [{ emails: ["ann@x.example", "bob@x.example"] }, { emails: ["bob@x.example"] }]);
  assert.equal(
    all.lines.map((line) => line["to"]),
    ["ann@x.example, bob@x.example", "bob@x.example"],
  );
});

test("a message to a deleted target is dead and says so; one without a target is sent", async () => {
  let up = false;
  const all = given(() => (up ? accepted() : failed()));
  const target = all.target();
  await all.add("a", "q", target);
  await all.add("b", "q", target);
  await all.add("c", "other", null);
  await all.runner.whenIdle();
  await all.writer.run(() => void all.db.prepare("DELETE FROM notification_targets WHERE id = ?").run(target));
  up = true;
  await all.time.pass(10);
  assert.equal(
    all.rows().map((row) => row.filter((_, n) => n !== 3)),
    [
      ["deploys: a", "dead", 1, "The action or target that this message was for was deleted"],
      ["deploys: b", "dead", 0, "The action or target that this message was for was deleted"],
      ["deploys: c", "delivered", 2, null],
    ],
  );
  assert.equal(
    all.sent.map(([n]) => n),
    ["a", "c", "c"],
  );
  assert.equal(all.pending(), [0, 0]);
});

test("the target's secret signs its messages", async () => {
  const secrets: unknown[] = [];
  const all = given(({ secret }) => {
    secrets.push(secret);
    return accepted();
  });
  await all.add("a", "q", all.target());
  await all.add("b", "r", null);
  await all.runner.whenIdle();
  assert.equal(secrets, ["s3cret", null]);
});

test("a dead message is retried in its old place, with all attempts; a waiting one at once", async () => {
  let up = false;
  const all = given(() => (up ? accepted() : failed()));
  await all.add("a");
  await all.runner.whenIdle();
  await all.time.pass(86_400);
  assert.equal(all.states(), ["dead"]);
  await all.add("b");
  await all.runner.whenIdle();
  assert.is(await all.writer.run(() => all.store.outbox.retry(1)), true);
  await all.runner.whenIdle();
  assert.equal(all.sent.slice(-2), [
    ["b", 86_400],
    ["a", 86_400],
  ]);
  assert.equal(
    all.rows().map((row) => row.slice(1, 4)),
    [
      ["waiting", 1, 86_410],
      ["waiting", 1, 86_410],
    ],
  );
  up = true;
  await all.writer.run(() => all.store.outbox.retry(1));
  await all.runner.whenIdle();
  assert.equal(all.sent.slice(-1), [["a", 86_400]], "b waits until it is due");
  await all.time.pass(10);
  assert.equal(all.states(), ["delivered", "delivered"]);
  assert.is(await all.writer.run(() => all.store.outbox.retry(1)), false, "a delivered message is not sent again");
  assert.equal(all.pending(), [0, 0]);
});

test("a message deleted during an attempt leaves nothing behind", async () => {
  const { answer, end, running } = gate();
  const all = given(answer);
  await all.add("a");
  await turns();
  await all.writer.run(() => void all.db.prepare("DELETE FROM deliveries").run());
  await end("a");
  assert.is(running.size, 0);
  assert.equal(all.pending(), [0, 0]);
  assert.is(all.db.prepare("SELECT count(*) FROM delivery_attempts").pluck().get(), 0);
});

test("an attempt interrupted by a stop does not count", async () => {
  let stopping = true;
  const all = given(() => (stopping ? outcome("stopped", null) : accepted()));
  await all.add("a");
  await turns();
  assert.equal(all.rows(), [["deploys: a", "waiting", 0, 0, null]]);
  stopping = false;
  await all.runner.whenIdle();
  assert.equal(all.states(), ["delivered"]);
  assert.is(all.db.prepare("SELECT count(*) FROM delivery_attempts").pluck().get(), 1);
});

test("a process that ends between sending and writing sends once more after its restart", async () => {
  await inFile(async (open) => {
    const { answer, running } = gate();
    const time = clock();
    const dying = given(answer, { db: open(), time });
    await dying.add("a");
    await dying.add("b");
    await turns();
    assert.equal([...running.keys()], ["a"]);
    // The receiver has the message, and the process is dead: it writes nothing more.
    const again = given(accepted, { db: open(), time });
    assert.equal(again.states(), ["waiting", "waiting"]);
    assert.is(await again.writer.run(() => again.store.jobs.releaseAllLeases()), 1);
    await again.runner.whenIdle();
    assert.equal(again.sent, [
      ["a", 0],
      ["b", 0],
    ]);
    assert.equal(again.states(), ["delivered", "delivered"]);
    assert.equal(again.pending(), [0, 0]);
  });
});

test("a process that ends before or right after its lease is written neither loses nor repeats a message", async () => {
  await inFile(async (open) => {
    const time = clock();
    const first = given(accepted, { db: open(), time });
    // The commit of the lease is the last action of this process, so no one works on the job.
    const { db, store, organizationId } = first;
    db.transaction(() =>
      store.outbox.add({
        organizationId,
        queue: "q",
        targetId: null,
        subject: "s",
        message: { type: "SLACK", webhook: "https://x.example/", body: { n: "a" } },
      }),
    )();
    store.jobs.lease("deliver", { at: time.at, seconds: 60, limit: 1 });
    const second = given(accepted, { db: open(), time });
    await second.runner.whenIdle();
    assert.equal(
      second.sent,
      [],
      "the lease belongs to the dead process until the next owner of the data directory releases it",
    );
    await second.writer.run(() => second.store.jobs.releaseAllLeases());
    await second.runner.whenIdle();
    assert.equal(second.sent, [["a", 0]]);
    assert.equal(second.pending(), [0, 0]);
  });
});

test("a message added from the command line is sent when the server polls", async () => {
  await inFile(async (open) => {
    const time = clock();
    const server = given(accepted, { db: open(), time });
    server.runner.wake();
    const beside = openStore(open(), { now: () => time.at, newId: () => "beside" });
    beside.outbox.add({
      organizationId: server.organizationId,
      queue: "q",
      targetId: null,
      subject: "s",
      message: { type: "SLACK", webhook: "https://x.example/", body: { n: "a" } },
    });
    server.runner.wake();
    await server.runner.whenIdle();
    assert.equal(server.sent, [["a", 0]]);
  });
});

test.run();
