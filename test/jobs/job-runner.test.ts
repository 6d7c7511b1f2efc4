import { suite } from "uvu";
import * as assert from "uvu/assert";
import { AppError } from "../../src/errors.ts";
import { backoffSeconds } from "../../src/jobs/job-runner.ts";
import { openStore } from "../../src/store/index.ts";
import { T, clock, count, gate, given, inFile, stored, turns } from "./given.ts";

const test = suite("jobs/job-runner");

test("a commit that adds a job runs it with its payload, removes it, and logs one line", async () => {
  const calls: unknown[] = [];
  const all = given({
    mail: async (payload, attempt) => {
      calls.push([payload, attempt]);
      all.time.at += 0.25;
    },
  });
  const id = await all.add("mail", { to: ["ann"], token: "s3cret" });
  await all.runner.whenIdle();
  assert.equal(calls, [[{ to: ["ann"], token: "s3cret" }, 1]]);
  assert.is(count(all), 0);
  const [{ time: _, ...line }] = all.lines as [Record<string, unknown>];
  assert.equal(line, {
    level: "info",
    job_id: id,
    kind: "mail",
    attempts: 1,
    duration_ms: 250,
    outcome: "done",
    msg: "job",
  });
  assert.is(all.lines.length, 1);
  assert.not.match(JSON.stringify(all.lines), "s3cret");
});

test("runs jobs of one kind in order of their due times, and other kinds in parallel", async () => {
  const { handler, begun, end } = gate();
  const others: unknown[] = [];
  const { writer, store, runner } = given({ slow: handler, quick: async (payload) => void others.push(payload) });
  await writer.run(() => {
    store.jobs.add("slow", "b", T - 1);
    store.jobs.add("slow", "c", T);
    store.jobs.add("slow", "a", T - 2);
    store.jobs.add("quick", "q", T);
  });
  await turns();
  assert.equal(begun, ["a"]);
  assert.equal(others, ["q"]);
  await end();
  assert.equal(begun, ["a", "b"]);
  await end();
  assert.equal(begun, ["a", "b", "c"]);
  await end();
  await runner.whenIdle();
});

test("a kind may run several jobs at a time, and none of them twice", async () => {
  const { handler, begun, end } = gate();
  const all = given({ slow: handler }, { parallel: { slow: 2 } });
  for (const payload of ["a", "b", "c"]) await all.add("slow", payload);
  await turns();
  assert.equal(begun, ["a", "b"]);
  await end();
  assert.equal(begun, ["a", "b", "c"]);
  all.runner.wake();
  all.runner.wake();
  await end();
  await end();
  await all.runner.whenIdle();
  assert.equal(begun, ["a", "b", "c"]);
  assert.is(count(all), 0);
});

test("waits until a job is due, with a timer", async () => {
  const done: unknown[] = [];
  const { runner, time, add } = given({ k: async (payload) => void done.push([payload, time.at]) });
  await add("k", "later", T + 45);
  await add("k", "soon", T + 7.5);
  await runner.whenIdle();
  assert.equal(done, []);
  assert.equal(time.alarms(), [7.5]);
  await time.pass(7);
  assert.equal(done, []);
  await time.pass(1);
  assert.equal(done, [["soon", T + 7.5]]);
  await time.pass(60);
  assert.equal(done, [
    ["soon", T + 7.5],
    ["later", T + 45],
  ]);
});

test("polls the queue every minute for unannounced jobs and a changed clock", async () => {
  const done: unknown[] = [];
  const { runner, time, store, db } = given({ k: async (payload) => void done.push(payload) });
  runner.wake();
  assert.equal(time.alarms(), [60]);
  openStore(db, { now: () => time.at, newId: () => "" }).jobs.add("k", "by another program");
  store.jobs.add("k", "far away", T + 86_400);
  await time.pass(60);
  assert.equal(done, ["by another program"]);
  assert.equal(time.alarms(), [60]);
  time.at += 86_400;
  await time.pass(0);
  assert.equal(done, ["by another program", "far away"]);
});

test("the backoff doubles up to five minutes", () => {
  assert.equal([1, 2, 3, 8, 9, 10, 11, 5000].map(backoffSeconds), [1, 2, 4, 128, 256, 300, 300, 300]);
});

test("retries a failing job with growing backoff until it succeeds", async () => {
  const tried: unknown[] = [];
  const all = given({
    k: async (payload, attempt) => {
      tried.push([payload, attempt, all.time.at - T]);
      if (attempt < 4) throw new Error(`no answer from https://ann:pw@hook.test/${attempt}`);
    },
  });
  const id = await all.add("k", "a");
  await all.runner.whenIdle();
  assert.equal(stored(all.store, id), [1, 0, T + 1, "no answer from https://[hidden]@hook.test/1"]);
  const { time: _, err, ...line } = all.lines[0] as Record<string, unknown>;
  assert.equal(line, {
    level: "warn",
    job_id: id,
    kind: "k",
    attempts: 1,
    duration_ms: 0,
    outcome: "failed",
    next_attempt_at: T + 1,
    msg: "job",
  });
  assert.is((err as { message: string }).message, "no answer from https://[hidden]@hook.test/1");
  await all.time.pass(100);
  assert.equal(tried, [
    ["a", 1, 0],
    ["a", 2, 1],
    ["a", 3, 3],
    ["a", 4, 7],
  ]);
  assert.is(count(all), 0);
  assert.equal(
    all.lines.map(({ outcome }) => outcome),
    ["failed", "failed", "failed", "done"],
  );
});

test("a failing job does not block the next one; its error is stored, shortened", async () => {
  const done: unknown[] = [];
  const all = given({
    k: (payload) => {
      if (payload === "thrown") throw null;
      if (payload === "long") return Promise.reject("x".repeat(2000));
      done.push(payload);
      return Promise.resolve();
    },
  });
  const [thrown, long] = [await all.add("k", "thrown"), await all.add("k", "long")];
  await all.add("k", "good");
  await all.runner.whenIdle();
  assert.equal(done, ["good"]);
  assert.equal(stored(all.store, thrown), [1, 0, T + 1, "null"]);
  assert.equal(stored(all.store, long), [1, 0, T + 1, "x".repeat(500)]);
});

test("an unreadable payload fails its job", async () => {
  const all = given({ k: async () => assert.unreachable() });
  const id = await all.add("k", 1, T + 5);
  all.db.prepare("UPDATE jobs SET payload_json = '{', due_at = ?").run(T);
  await all.runner.whenIdle();
  assert.match(String(all.store.jobs.find(id)?.last_error), /JSON/);
});

test("a settlement runs in the write that ends its job, and decides whether the job runs again", async () => {
  const notes: unknown[] = [];
  const turnsOf = [T + 5, T + 5, null];
  const all = given({
    k: async () => () => {
      assert.ok(all.db.inTransaction);
      notes.push(all.time.at - T);
      return turnsOf.shift() ?? null;
    },
  });
  const id = await all.add("k", 1);
  await all.runner.whenIdle();
  assert.equal(stored(all.store, id), [1, 0, T + 5, null]);
  await all.time.pass(5);
  assert.equal(notes, [0, 5, 5]);
  assert.is(count(all), 0);
  assert.equal(all.lines, [], "a handler with a settlement logs its own result");
});

test("a settlement that throws leaves the job and its lease, and its writes are rolled back", async () => {
  const all = given({
    k: async (_, attempt) => () => {
      all.db.exec("INSERT INTO action_numbers SELECT id, 7 FROM organizations");
      if (attempt === 1) throw new Error("no");
      return null;
    },
  });
  all.db.exec(
    "INSERT INTO organizations (id, public_id, name, kind, created_at, last_modified_at) VALUES (1, 'o', 'o', " +
      "'shared', 0, 0)",
  );
  const id = await all.add("k", 1);
  await all.runner.whenIdle();
  assert.equal(stored(all.store, id), [1, T + 60, T, null]);
  assert.is(all.db.prepare("SELECT count(*) FROM action_numbers").pluck().get(), 0);
  await all.time.pass(60);
  assert.is(count(all), 0);
  assert.is(all.db.prepare("SELECT count(*) FROM action_numbers").pluck().get(), 1);
});

test("jobs that end within the coalesce window share a commit, and a stop does not wait for the window", async () => {
  const commits: number[] = [];
  const all = given(
    { k: async () => () => null },
    { parallel: { k: 3 }, gather: 0.05, onCommit: (writes) => commits.push(writes) },
  );
  await all.writer.run(() => {
    for (const payload of ["a", "b", "c"]) all.store.jobs.add("k", payload);
  });
  await turns();
  await turns();
  assert.is(count(all), 3);
  commits.length = 0;
  await all.time.pass(0.05);
  assert.equal(commits, [3]);
  assert.is(count(all), 0);
  await all.add("k", "d");
  await turns();
  assert.is(count(all), 1);
  await all.runner.close();
  assert.is(count(all), 0);
});

test("a job of a kind without parallelism does not wait for others", async () => {
  const all = given({ k: async () => () => null }, { gather: 0.05 });
  await all.add("k", "a");
  await all.runner.whenIdle();
  assert.equal({ count: count(all), at: all.time.at }, { count: 0, at: T });
});

test("jobs of an unknown kind stay in the queue and are reported once", async () => {
  const done: unknown[] = [];
  const all = given({ k: async (payload) => void done.push(payload) });
  const id = await all.add("future", "x");
  await all.add("toString", "y");
  await all.add("k", 1);
  await all.runner.whenIdle();
  await all.time.pass(600);
  assert.equal(done, [1]);
  assert.equal(stored(all.store, id), [0, 0, T, null]);
  assert.equal(
    all.lines.filter(({ level }) => level === "warn").map(({ kind, msg }) => [kind, msg]),
    ["future", "toString"].map((kind) => [
      kind,
      "jobs of this kind are left in the queue: this version of Assay does not know it",
    ]),
  );
});

test("renews the lease of a long job while it runs", async () => {
  const { handler, end } = gate();
  const all = given({ k: handler });
  const id = await all.add("k", "long");
  await turns();
  assert.equal(stored(all.store, id), [1, T + 60, T, null]);
  await all.time.pass(130);
  assert.equal(stored(all.store, id), [1, T + 120 + 60, T, null]);
  await end();
  await all.runner.whenIdle();
  assert.is(count(all), 0);
  assert.equal(all.time.alarms(), [60], "nothing is left to renew");
});

test("does not start a job again in the same process when its lease expired", async () => {
  const { handler, begun, end } = gate();
  const all = given({ k: handler }, { parallel: { k: 2 } });
  await all.add("k", "a");
  await turns();
  // Like after suspend: time has passed, and no timer rang.
  all.time.at += 3600;
  all.runner.wake();
  await turns();
  assert.equal(begun, ["a"]);
  await end();
  await all.runner.whenIdle();
  assert.is(count(all), 0);
});

test("two processes never run the same job; the other one takes it when the lease expires", async () => {
  await inFile(async (open) => {
    const time = clock();
    const [first, second] = [gate(), gate()];
    const one = given({ k: first.handler }, { db: open(), time });
    const two = given({ k: second.handler }, { db: open(), time });
    await one.add("k", "a");
    await one.add("k", "b");
    await turns();
    two.runner.wake();
    await turns();
    assert.equal(
      { "first.begun": first.begun, "second.begun": second.begun },
      { "first.begun": ["a"], "second.begun": ["b"] },
    );
    await first.end();
    assert.equal(
      { "first.begun": first.begun, "second.begun": second.begun },
      { "first.begun": ["a"], "second.begun": ["b"] },
      "b is leased",
    );

    // The second process hangs: its lease is not renewed.
    time.at += 61;
    one.runner.wake();
    await turns();
    assert.equal(
      { "first.begun": first.begun, "second.begun": second.begun },
      { "first.begun": ["a", "b"], "second.begun": ["b"] },
    );
    await first.end();
    await second.end();
    await Promise.all([one.runner.whenIdle(), two.runner.whenIdle()]);
    assert.is(count(one), 0);
  });
});

test("after a crash the job runs again once the leases of the dead process are released", async () => {
  await inFile(async (open) => {
    const crashed = gate();
    const before = given({ k: crashed.handler }, { db: open() });
    const id = await before.add("k", "a");
    await before.add("k", "b");
    await turns();
    assert.equal(crashed.begun, ["a"]);

    const done: unknown[] = [];
    const after = given({ k: async (payload, attempt) => void done.push([payload, attempt]) }, { db: open() });
    after.runner.wake();
    await turns();
    assert.equal(done, [["b", 1]]);
    assert.equal(stored(after.store, id), [1, T + 60, T, null]);
    assert.is(await after.writer.run(() => after.store.jobs.releaseAllLeases()), 1);
    await after.runner.whenIdle();
    assert.equal(done, [
      ["b", 1],
      ["a", 2],
    ]);
    assert.is(count(after), 0);
  });
});

test("runs a job again when it ended without being removed", async () => {
  const done: unknown[] = [];
  const all = given({ k: async (_, attempt) => void done.push(attempt) });
  all.db.exec("CREATE TRIGGER broken BEFORE DELETE ON jobs BEGIN SELECT raise(ABORT, 'broken'); END");
  await all.add("k", "a");
  await all.runner.whenIdle();
  assert.equal(done, [1]);
  assert.is(count(all), 1);
  assert.equal(
    all.lines.map(({ level, msg }) => [level, msg]),
    [["error", "the job queue could not be read or written; the next try is in 5 seconds"]],
  );
  all.db.exec("DROP TRIGGER broken");
  await all.time.pass(59);
  assert.equal(done, [1]);
  await all.time.pass(1);
  assert.equal(done, [1, 2]);
  assert.is(count(all), 0);
});

test("retries a queue that cannot be written after a pause, without a busy loop", async () => {
  const done: unknown[] = [];
  const all = given({ k: async (payload) => void done.push(payload) });
  all.db.exec("CREATE TRIGGER broken BEFORE UPDATE ON jobs BEGIN SELECT raise(ABORT, 'broken'); END");
  await all.add("k", "a");
  await all.runner.whenIdle();
  assert.is(all.lines.length, 1);
  assert.equal(all.time.alarms(), [5]);
  await all.time.pass(5);
  assert.is(all.lines.length, 2);
  all.db.exec("DROP TRIGGER broken");
  await all.time.pass(5);
  assert.equal(done, ["a"]);
});

test("waitFor resolves when a job is done, also after failures, and at once when it no longer exists", async () => {
  const { handler, end } = gate();
  const all = given({
    k: handler,
    flaky: async (_, attempt) => {
      if (attempt === 1) throw new Error("not yet");
    },
  });
  const [a, b, flaky] = [await all.add("k", "a"), await all.add("k", "b"), await all.add("flaky", 1)];
  const resolved: string[] = [];
  for (const [name, id] of Object.entries({ a, b, flaky })) void all.runner.waitFor(id).then(() => resolved.push(name));
  void all.runner.waitFor(a).then(() => resolved.push("a too"));
  await turns();
  assert.equal(resolved, []);
  await end();
  assert.equal(resolved, ["a", "a too"]);
  await all.runner.waitFor(a);
  await all.time.pass(1);
  assert.equal(resolved, ["a", "a too", "flaky"]);
  await end();
  assert.equal(resolved, ["a", "a too", "flaky", "b"]);
  await all.runner.waitFor(4711);
});

test("waitFor resolves at its timeout, and the job continues", async () => {
  const { handler, end } = gate();
  const all = given({ k: handler });
  const id = await all.add("k", "a");
  await turns();
  let hasResolved = false;
  void all.runner.waitFor(id, 10).then(() => (hasResolved = true));
  await all.time.pass(9);
  assert.is(hasResolved, false);
  await all.time.pass(1);
  assert.is(hasResolved, true);
  assert.ok(all.store.jobs.find(id));
  await end();
  assert.is(all.store.jobs.find(id), null);
});

test("close waits for running jobs and takes no more; the next process runs the rest", async () => {
  const { handler, begun, end } = gate();
  const all = given({ k: handler });
  const [a, b] = [await all.add("k", "a"), await all.add("k", "b")];
  await turns();
  const waiting = all.runner.waitFor(b);
  const outcome = waiting.catch((error: unknown) => error);
  let closed = false;
  const closing = all.runner.close().then(() => (closed = true));
  await turns();
  assert.is(closed, false);
  await end();
  await closing;
  assert.equal(begun, ["a"]);
  assert.is(all.store.jobs.find(a), null);
  assert.equal(stored(all.store, b), [0, 0, T, null]);
  const error = (await outcome) as AppError;
  assert.equal(
    { isAppError: error instanceof AppError, code: error.code, message: error.message },
    { isAppError: true, code: "unavailable", message: "The server is stopping. Please try again" },
  );
  await all.runner.waitFor(a);
  assert.equal(await all.runner.waitFor(b).catch((late: AppError) => late.code), "unavailable");

  await all.add("k", "c");
  all.runner.wake();
  await all.time.pass(600);
  assert.equal(begun, ["a"]);
  assert.equal(all.time.alarms(), []);
  await all.runner.close();

  const done: unknown[] = [];
  const next = given({ k: async (payload) => void done.push(payload) }, { db: all.db, time: all.time });
  await next.runner.whenIdle();
  assert.equal(done, ["b", "c"]);
});

test("a close between the poll and the lease takes no job", async () => {
  const all = given({ k: async () => assert.unreachable() });
  const id = await all.add("k", "a");
  await all.runner.close();
  assert.equal(stored(all.store, id), [0, 0, T, null]);
});

test("whenIdle also waits for jobs that jobs add", async () => {
  const done: unknown[] = [];
  const all = given({
    first: async () => void (await all.add("second", "x")),
    second: async (payload) => void done.push(payload),
  });
  await all.add("first", 1);
  await all.runner.whenIdle();
  assert.equal(done, ["x"]);
  assert.is(count(all), 0);
});

test.run();
