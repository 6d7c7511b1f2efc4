import { suite } from "uvu";
import * as assert from "uvu/assert";
import { notFound } from "../../../src/errors.ts";
import { createCommitSync } from "../../../src/store/db/commit-sync.ts";
import { openMemory } from "../../../src/store/db/database.ts";
import { GroupCommitWriter } from "../../../src/store/db/group-commit.ts";
import type { Db } from "../../../src/store/db/types.ts";

const test = suite("store/db/group-commit");

function given(): {
  db: Db;
  writer: GroupCommitWriter;
  batches: number[];
  add(n: number): () => number;
  all(): unknown[];
} {
  const db = openMemory();
  db.exec("CREATE TABLE t (n INTEGER PRIMARY KEY) STRICT");
  const batches: number[] = [];
  const insert = db.prepare("INSERT INTO t (n) VALUES (?)");
  return {
    db,
    // The clock stands still, because a busy machine would end a batch early.
    writer: new GroupCommitWriter(db, { onBatch: (size) => batches.push(size), clock: () => 0 }),
    batches,
    add: (n) => () => Number(insert.run(n).lastInsertRowid),
    all: () => db.prepare("SELECT n FROM t ORDER BY n").pluck().all(),
  };
}

test("writes of one turn share a commit", async () => {
  const { writer, batches, add, all } = given();
  assert.equal(await Promise.all([1, 2, 3].map((n) => writer.run(add(n)))), [1, 2, 3]);
  assert.equal(all(), [1, 2, 3]);
  assert.equal(batches, [3]);
});

test("a refused write rolls back alone", async () => {
  const { writer, add, all } = given();
  const refused = writer.run(() => {
    add(2)();
    throw notFound("no such thing");
  });
  const [first, second, third] = await Promise.allSettled([writer.run(add(1)), refused, writer.run(add(3))]);
  assert.is(first?.status, "fulfilled");
  assert.is(third?.status, "fulfilled");
  assert.is(second?.status, "rejected");
  assert.is((second as PromiseRejectedResult).reason.message, "no such thing");
  assert.equal(all(), [1, 3]);
});

test("no write resolves before the commit", async () => {
  const { db, writer, add } = given();
  let inside: boolean | null = null;
  await writer.run(add(1)).then(() => (inside = db.inTransaction));
  assert.is(inside, false);
});

test("rejects every write of a lost batch as retryable, and stores nothing", async () => {
  const { db, writer, add, all } = given();
  const neighbour = writer.run(add(1));
  const lost = writer.run(() => {
    add(2)();
    // SQLite does this by itself when the disk is full.
    db.exec("ROLLBACK");
    throw Object.assign(new Error("database or disk is full"), { code: "SQLITE_FULL" });
  });
  const results = await Promise.allSettled([neighbour, lost]);
  for (const result of results) {
    assert.is(result.status, "rejected");
    assert.is((result as PromiseRejectedResult).reason.code, "unavailable");
  }
  assert.equal(all(), []);
  assert.is(await writer.run(add(7)), 7, "and the writer goes on");
});

test("a refused repeatable write leaves its neighbours alone, which run a second time", async () => {
  const { writer, batches, add, all } = given();
  const runs: number[] = [];
  const write = (n: number) =>
    writer.run(
      () => {
        runs.push(n);
        add(n)();
        if (n === 2) throw notFound("no such thing");
        return `wrote ${n}`;
      },
      { isRepeatable: true },
    );
  const results = await Promise.allSettled([write(1), write(2), write(3)]);
  assert.equal(
    results.map((result) => (result.status === "fulfilled" ? result.value : result.reason.message)),
    ["wrote 1", "no such thing", "wrote 3"],
  );
  assert.equal(runs, [1, 2, 1, 2, 3], "the third had not begun");
  assert.equal(all(), [1, 3]);
  assert.equal(batches, [3]);
});

test("a write that is not repeatable runs once, whatever its neighbours do", async () => {
  const { writer, add, all } = given();
  let runs = 0;
  const once = writer.run(() => {
    runs += 1;
    return add(1)();
  });
  const refused = writer.run(
    () => {
      throw notFound("no such thing");
    },
    { isRepeatable: true },
  );
  await Promise.allSettled([once, refused]);
  assert.is(runs, 1);
  assert.equal(all(), [1]);
});

test("writes that arrive in a later turn join, while each turn brings one", async () => {
  const { writer, batches, add } = given();
  const first = writer.run(add(1));
  const later = new Promise((resolve) => setImmediate(() => resolve(writer.run(add(2)))));
  await Promise.all([first, later]);
  assert.equal(batches, [2]);
});

test("commits more writes than a batch holds in several batches", async () => {
  const { writer, batches, add } = given();
  await Promise.all(Array.from({ length: 150 }, (_value, n) => writer.run(add(n + 1))));
  assert.is(
    batches.reduce((sum, size) => sum + size, 0),
    150,
  );
  assert.ok(batches.length >= 3 && Math.max(...batches) <= 64, batches.join());
});

test("idle resolves after the last commit", async () => {
  const { writer, add, all } = given();
  void writer.run(add(1));
  await writer.idle();
  assert.equal(all(), [1]);
  await writer.idle();
});

test("an exclusive write follows what is committed before, and holds up what is queued meanwhile", async () => {
  const { db, writer, add, all } = given();
  const order: string[] = [];
  let giveBack = (): void => undefined;
  const before = writer.run(add(1)).then(() => order.push("before"));
  let began = (): void => undefined;
  const beginning = new Promise<void>((resolve) => (began = resolve));
  const loan = writer
    .withExclusiveWrite(() => {
      order.push(`lent, in a transaction: ${db.inTransaction}`);
      began();
      return new Promise<string>((resolve) => (giveBack = () => resolve("done")));
    })
    .then((result) => order.push(result));
  await beginning;
  const during = writer.run(add(2)).then(() => order.push("during"));
  await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
  assert.equal(all(), [1]);
  giveBack();
  await Promise.all([before, loan, during, writer.idle()]);
  assert.equal(order, ["lent, in a transaction: false", "before", "done", "during"]);
  assert.equal(all(), [1, 2]);
});

test("rejects a failed exclusive write, and writes go on", async () => {
  const { writer, add, all } = given();
  const [loan, write] = await Promise.allSettled([
    writer.withExclusiveWrite(() => Promise.reject(new Error("the thread died"))),
    writer.run(add(1)),
  ]);
  assert.is((loan as PromiseRejectedResult).reason.message, "the thread died");
  assert.is(write?.status, "fulfilled");
  await writer.idle();
  assert.equal(all(), [1]);
});

/** As `given`, with a disk whose syncs end when the test says so. */
function givenSlowDisk(options: { problem?: () => string | null } = {}) {
  const { db, all } = given();
  const syncs: ((error: unknown) => void)[] = [];
  const failures: unknown[] = [];
  const recorded: number[] = [];
  let number = 0;
  const insert = db.prepare("INSERT INTO t (n) VALUES (?)");
  const changes = db.prepare<[], number>("SELECT total_changes()").pluck();
  let known = changes.get();
  const writer = new GroupCommitWriter(db, {
    clock: () => 0,
    sync: createCommitSync(
      (done) => void syncs.push(done),
      (error) => void failures.push(error),
    ),
    numbering: {
      advance() {
        if (changes.get() === known) return null;
        known = changes.get();
        return (number += 1);
      },
      record: (at) => void recorded.push(at),
    },
    guard: {
      ensureWritable: () => undefined,
      reportFailure: (error) => void failures.push(error),
      checkFiles: options.problem ?? (() => null),
    },
  });
  const settled: string[] = [];
  /** Queues a write, and notes when it is settled. */
  const write = (name: string, work: () => unknown): void =>
    void writer.run(work).then(
      () => void settled.push(name),
      (error: Error) => void settled.push(`${name}: ${error.message}`),
    );
  const add = (n: number) => () => insert.run(n);
  /** Lets the writer run everything that is queued. */
  const turn = async (): Promise<void> => {
    for (let turns = 0; turns < 10; turns += 1) await new Promise((resolve) => setImmediate(resolve));
  };
  return { writer, all, syncs, failures, recorded, settled, write, add, turn };
}

test("a write settles when its commit is durable, and those that arrive meanwhile share the next commit", async () => {
  const { writer, all, syncs, recorded, settled, write, add, turn } = givenSlowDisk();
  write("first", add(1));
  await turn();
  assert.equal([all(), settled, recorded, syncs.length], [[1], [], [], 1]);
  write("second", add(2));
  await turn();
  write("third", add(3));
  await turn();
  assert.equal([all(), settled, syncs.length], [[1], [], 1]);
  assert.ok(writer.durable() !== null);
  syncs.shift()?.(null);
  await turn();
  assert.equal([all(), settled, recorded, syncs.length], [[1, 2, 3], ["first"], [1], 1]);
  syncs.shift()?.(null);
  await turn();
  assert.equal([settled, recorded, syncs.length], [["first", "second", "third"], [1, 2], 0]);
  assert.is(writer.durable(), null);
});

test("a refusal waits for the commits that it may be about, and needs no sync of its own", async () => {
  const { syncs, settled, write, add, turn } = givenSlowDisk();
  const refuse = (): never => {
    throw notFound("it is there already");
  };
  write("refused first", refuse);
  await turn();
  assert.equal([settled.splice(0), syncs.length], [["refused first: it is there already"], 0]);
  write("stored", add(1));
  await turn();
  write("refused", refuse);
  await turn();
  assert.equal([settled, syncs.length], [[], 1]);
  syncs.shift()?.(null);
  await turn();
  assert.equal([settled, syncs.length], [["stored", "refused: it is there already"], 0]);
});

test("a sync that fails acknowledges nothing, neither then nor later", async () => {
  const { failures, recorded, syncs, settled, write, add, turn } = givenSlowDisk();
  write("first", add(1));
  await turn();
  write("second", add(2));
  await turn();
  syncs.shift()?.(new Error("i/o error"));
  await turn();
  write("third", add(3));
  await turn();
  assert.equal([settled, recorded, syncs.length], [[], [], 0]);
  assert.equal(
    failures.map((error) => (error as Error).name),
    ["LogSyncError"],
  );
});

test("a commit whose files were replaced during its sync is not acknowledged", async () => {
  let problem: string | null = null;
  const { recorded, syncs, settled, write, add, turn } = givenSlowDisk({ problem: () => problem });
  write("first", add(1));
  await turn();
  problem = "assay.db was replaced";
  syncs.shift()?.(null);
  await turn();
  assert.equal(recorded, []);
  assert.equal(settled, [
    "first: The server is in read-only mode: assay.db was replaced. It is not known whether the change was stored",
  ]);
});

test("idle waits for the disk, and exclusive work begins when everything before it is durable", async () => {
  const { writer, syncs, settled, write, add, turn } = givenSlowDisk();
  write("first", add(1));
  await turn();
  void writer.idle().then(() => void settled.push("idle"));
  void writer.withExclusiveWrite(async () => void settled.push("exclusive"));
  await turn();
  assert.equal(settled, []);
  syncs.shift()?.(null);
  await turn();
  assert.equal(settled, ["first", "exclusive", "idle"]);
});

test.run();
