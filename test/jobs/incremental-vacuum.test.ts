import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createIncrementalVacuum } from "../../src/jobs/incremental-vacuum.ts";
import { loadAddon } from "../../src/store/db/native-addon.ts";
import { openDatabase, openMemory } from "../../src/store/db/database.ts";
import { freePageStore } from "../../src/store/db/vacuum.ts";
import { GroupCommitWriter } from "../../src/store/db/group-commit.ts";
import type { Db } from "../../src/store/db/types.ts";

const test = suite("jobs/incremental-vacuum");

/** Creates rows of a page each; `keep` of a hundred stay. */
function filled(db: Db, rows: number, keep: number): void {
  db.exec("CREATE TABLE filler (id INTEGER PRIMARY KEY, text TEXT)");
  const insert = db.prepare("INSERT INTO filler (text) VALUES (?)");
  db.transaction(() => {
    for (let row = 0; row < rows; row += 1) insert.run("x".repeat(3000));
  })();
  db.prepare("DELETE FROM filler WHERE id % 100 >= ?").run(keep);
}

test("new databases can release free pages, in a file and in memory", () => {
  const directory = mkdtempSync(join(tmpdir(), "assay-space-"));
  try {
    for (const db of [openDatabase(directory, 1), openMemory(), openMemory(openMemory().serialize())]) {
      assert.is(freePageStore(db).readPageCounts().isIncremental, true);
      db.close();
    }
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
});

test("releases pages from a fifth of the file down to a tenth, each step in its own write", async () => {
  const directory = mkdtempSync(join(tmpdir(), "assay-space-"));
  const db = openDatabase(directory, 1);
  try {
    let batches = 0;
    const giveBack = createIncrementalVacuum({
      db,
      writer: new GroupCommitWriter(db, { onBatch: () => (batches += 1) }),
      minFreeBytes: 1,
      clock: () => 0,
    });
    assert.is(await giveBack(), 0);
    filled(db, 8000, 30);
    const { total, free } = freePageStore(db).readPageCounts();
    assert.ok(free > total * 0.5);
    let bytes = 0;
    for (let given = -1; given !== 0; bytes += given) given = await giveBack();
    const after = freePageStore(db).readPageCounts();
    assert.is((total - after.total) * 4096, bytes);
    assert.ok(after.free <= after.total * 0.1 + 1 && after.free >= after.total * 0.09, JSON.stringify(after));
    assert.ok(batches > 10, `${batches}`);
    db.pragma("wal_checkpoint(TRUNCATE)");
    assert.is(statSync(join(directory, "assay.db")).size, after.total * 4096);
    assert.is(db.pragma("integrity_check", { simple: true }), "ok");
    assert.is(await giveBack(), 0, "then nothing is left to release");
  } finally {
    db.close();
    rmSync(directory, { recursive: true, force: true });
  }
});

test("makes smaller steps after a slow one", async () => {
  const db = openMemory();
  filled(db, 2000, 10);
  let now = 0;
  const sizes: number[] = [];
  let before = freePageStore(db).readPageCounts().total;
  const writer = new GroupCommitWriter(db, {
    onBatch: () => {
      const { total } = freePageStore(db).readPageCounts();
      sizes.push(before - total);
      before = total;
    },
  });
  await createIncrementalVacuum({ db, writer, minFreeBytes: 1, clock: () => (now += 4) })();
  assert.equal(sizes.slice(0, 6), [16, 8, 4, 2, 1, 1]);
  assert.is(sizes.length, 50, "a run is bounded");
});

test("does nothing with few free pages or a file of an older version", async () => {
  const db = openMemory();
  filled(db, 2000, 10);
  assert.is(await createIncrementalVacuum({ db, writer: new GroupCommitWriter(db) })(), 0, "six megabytes");
  assert.is((await createIncrementalVacuum({ db, writer: new GroupCommitWriter(db), minFreeBytes: 1 })()) > 0, true);
  const old = new Database(":memory:", { nativeBinding: loadAddon() as unknown as string });
  filled(old, 2000, 10);
  assert.is(freePageStore(old).readPageCounts().isIncremental, false);
  assert.is(await createIncrementalVacuum({ db: old, writer: new GroupCommitWriter(old), minFreeBytes: 1 })(), 0);
});

test.run();
