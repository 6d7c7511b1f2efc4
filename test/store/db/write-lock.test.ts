/** A write lock that another connection holds: writes wait for it without holding up the thread, until a deadline. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { AppError, notFound } from "../../../src/errors.ts";
import { LOCK_TIMEOUT_MS, neverWait, openSecondWriter } from "../../../src/store/db/connection.ts";
import { openDatabase } from "../../../src/store/db/database.ts";
import { GroupCommitWriter, isLoggedRefusal } from "../../../src/store/db/group-commit.ts";
import type { Db } from "../../../src/store/db/types.ts";
import { findWriteLockHolder } from "../../../src/store/db/wal.ts";

const test = suite("store/db/write-lock");

async function withWriter(work: (parts: Awaited<ReturnType<typeof openParts>>) => Promise<void>): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), "assay-lock-"));
  const parts = openParts(directory);
  try {
    await work(parts);
  } finally {
    parts.other.close();
    parts.db.close();
    rmSync(directory, { recursive: true });
  }
}

function openParts(directory: string) {
  const db = openDatabase(directory, 0);
  db.exec("CREATE TABLE t (n INTEGER PRIMARY KEY) STRICT");
  neverWait(db);
  const other = openSecondWriter(directory);
  const time = { now: 0 };
  const events: string[] = [];
  const batches: { size: number; committed: boolean }[] = [];
  const afterRollback: (() => void)[] = [];
  const insert = db.prepare("INSERT INTO t (n) VALUES (?)");
  const writer = new GroupCommitWriter(tellingRollbacks(db, afterRollback), {
    clock: () => time.now,
    onBatch: (size, _milliseconds, committed) => batches.push({ size, committed }),
    lock: {
      findHolder: () => findWriteLockHolder(directory),
      onHeld: ({ heldMs, holder }) =>
        events.push(`held ${heldMs} by ${holder?.pid === process.pid ? "us" : holder?.pid}`),
      onFree: ({ heldMs, refused }) => events.push(`free after ${heldMs}, ${refused} refused`),
    },
  });
  return {
    db,
    other,
    time,
    events,
    batches,
    afterRollback,
    writer,
    add: (n: number) => () => Number(insert.run(n).lastInsertRowid),
    all: () => db.prepare("SELECT n FROM t ORDER BY n").pluck().all(),
    /** Resolves when the writer has found the lock held. */
    async untilHeld(): Promise<void> {
      while (writer.lockReport() === null) await nextTurn();
    },
  };
}

/** The connection, for a writer after whose next rollback each of these runs once. */
const tellingRollbacks = (db: Db, afterRollback: (() => void)[]): Db =>
  new Proxy(db, {
    get(target, name) {
      if (name === "prepare")
        return (sql: string) => {
          const statement = target.prepare(sql);
          if (sql !== "ROLLBACK") return statement;
          return {
            run() {
              statement.run();
              for (const work of afterRollback.splice(0)) work();
            },
          };
        };
      const value = Reflect.get(target, name) as unknown;
      return typeof value === "function" ? value.bind(target) : value;
    },
  });

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test("a write waits until another connection ends its transaction, and reads go on meanwhile", () =>
  withWriter(async ({ writer, other, add, all, untilHeld, batches }) => {
    other.exec("BEGIN IMMEDIATE; INSERT INTO t (n) VALUES (1)");
    let isStored = false;
    const write = writer.run(add(2)).then(() => (isStored = true));
    await untilHeld();
    assert.equal(all(), []);
    assert.is(isStored, false);
    other.exec("COMMIT");
    await write;
    assert.equal(all(), [1, 2]);
    assert.is(writer.lockReport(), null);
    assert.equal(batches, [{ size: 1, committed: true }]);
  }));

test("refuses a write after five seconds, says who holds the lock, and leaves nothing behind", () =>
  withWriter(async ({ writer, other, time, events, batches, add, all, untilHeld }) => {
    other.exec("BEGIN IMMEDIATE");
    const early = writer.run(add(1)).catch((error: unknown) => error);
    await untilHeld();
    time.now = LOCK_TIMEOUT_MS;
    const refusal = (await early) as AppError;
    assert.instance(refusal, AppError);
    assert.is(refusal.code, "unavailable");
    assert.equal(refusal.headers, { "Retry-After": "5" });
    assert.match(
      refusal.message,
      new RegExp(
        `^Another process \\(\\S+, process ${process.pid}\\) has held the write lock of the database for ` +
          "5 seconds\\. Nothing was changed\\. Please try again; if it keeps failing, the operator can " +
          "end that process \\(assay help database-files\\)$",
      ),
    );
    assert.is(isLoggedRefusal(refusal), true);
    assert.equal(batches, [{ size: 1, committed: false }]);
    const late = writer.run(add(2));
    await nextTurn();
    other.exec("COMMIT");
    assert.is(await late, 2, "a later write has a deadline of its own");
    assert.equal(all(), [2]);
    assert.equal(events, ["held 5000 by us", "free after 5000, 1 refused"]);
  }));

test("exclusive access is granted once the lock is free, and refused after five seconds", () =>
  withWriter(async ({ writer, other, time, untilHeld }) => {
    const order: string[] = [];
    other.exec("BEGIN IMMEDIATE");
    const granted = writer.withExclusiveWrite(async () => void order.push("granted"));
    await untilHeld();
    order.push("released");
    other.exec("COMMIT");
    await granted;
    assert.equal(order, ["released", "granted"]);

    other.exec("BEGIN IMMEDIATE");
    let hasRun = false;
    const refused = writer.withExclusiveWrite(async () => void (hasRun = true)).catch((error: AppError) => error.code);
    await untilHeld();
    time.now += LOCK_TIMEOUT_MS;
    assert.is(await refused, "unavailable");
    assert.is(hasRun, false);
    await writer.idle();
    other.exec("COMMIT");
  }));

test("repeatable writes that run again wait for a process that took the lock in between", () =>
  withWriter(async ({ writer, other, afterRollback, add, all, untilHeld }) => {
    // Between the rollback of the writes together and the second transaction.
    afterRollback.push(() => void other.exec("BEGIN IMMEDIATE; INSERT INTO t (n) VALUES (9)"));
    const repeatable = { isRepeatable: true };
    const writes = Promise.allSettled([
      writer.run(add(1), repeatable),
      writer.run(() => {
        add(2)();
        throw notFound("no such thing");
      }, repeatable),
      writer.run(add(3)),
    ]);
    await untilHeld();
    assert.equal(all(), []);
    other.exec("COMMIT");
    assert.equal(
      (await writes).map(({ status }) => status),
      ["fulfilled", "rejected", "fulfilled"],
    );
    assert.equal(all(), [1, 3, 9]);
  }));

test("knows that a lock was released although nothing more is written", () =>
  withWriter(async ({ writer, other, time, events, add, untilHeld }) => {
    other.exec("BEGIN IMMEDIATE");
    const refused = writer.run(add(1)).catch(() => undefined);
    await untilHeld();
    time.now = LOCK_TIMEOUT_MS;
    await refused;
    other.exec("COMMIT");
    // The writer's own timer no longer keeps the process alive.
    const alive = setInterval(() => undefined, 1_000);
    while (writer.lockReport() !== null) await nextTurn();
    clearInterval(alive);
    assert.is(writer.lockHeldMs(), 0);
    assert.equal(events, ["held 5000 by us", "free after 5000, 1 refused"]);
  }));

test.run();
