/** Files of an open database that somebody replaces, removes, cuts or overwrites. Real files, a real database. */
import {
  copyFileSync,
  mkdtempSync,
  openSync,
  closeSync,
  ftruncateSync,
  renameSync,
  rmSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { AppError } from "../../../src/errors.ts";
import { openCopy, openSecondWriter } from "../../../src/store/db/connection.ts";
import { openDatabase } from "../../../src/store/db/database.ts";
import { openFileWatch } from "../../../src/store/db/file-watch.ts";
import { GroupCommitWriter } from "../../../src/store/db/group-commit.ts";
import { freePageStore } from "../../../src/store/db/vacuum.ts";

const test = suite("store/db/file-watch");
const AT_RUN_TIME = "while the server was running (assay help database-files)";

function withDatabase(work: (parts: ReturnType<typeof openParts>) => void | Promise<void>): () => Promise<void> {
  return async () => {
    const directory = mkdtempSync(join(tmpdir(), "assay-files-"));
    const parts = openParts(directory);
    try {
      await work(parts);
    } finally {
      parts.db.close();
      parts.watch.close();
      rmSync(directory, { recursive: true });
    }
  };
}

function openParts(directory: string) {
  const db = openDatabase(directory, 0);
  db.exec("CREATE TABLE t (n INTEGER PRIMARY KEY, text TEXT) STRICT");
  db.pragma("wal_checkpoint(TRUNCATE)");
  const insert = db.prepare("INSERT INTO t (text) VALUES (?)");
  return {
    directory,
    db,
    watch: openFileWatch(db, directory),
    path: (name: string) => join(directory, name),
    /** Adds rows of a kilobyte, in one commit each. */
    add: (count: number) => {
      for (let row = 0; row < count; row += 1) insert.run("x".repeat(1_000));
    },
  };
}

for (const name of ["assay.db", "assay.db-wal", "assay.db-shm"]) {
  test(
    `notices that ${name} was removed, and that it was replaced`,
    withDatabase(({ watch, path, add }) => {
      add(3);
      assert.is(watch.check(), null);
      renameSync(path(name), path("moved"));
      assert.is(watch.check(), `${name} was removed or moved away ${AT_RUN_TIME}`);
      assert.is(watch.problem(), `${name} was removed or moved away ${AT_RUN_TIME}`);
      assert.is(watch.recheck(), `${name} was removed or moved away ${AT_RUN_TIME}`);
      copyFileSync(path("moved"), path(name));
      assert.is(watch.recheck(), `${name} was removed or moved away ${AT_RUN_TIME}`, "a copy is another file");
    }),
  );

  test(
    `notices that ${name} was replaced by another file in one step`,
    withDatabase(({ watch, path, add }) => {
      add(3);
      copyFileSync(path(name), path("copy"));
      renameSync(path("copy"), path(name));
      assert.is(watch.check(), `${name} was replaced by another file ${AT_RUN_TIME}`);
      assert.is(watch.check(), `${name} was replaced by another file ${AT_RUN_TIME}`);
    }),
  );

  test(
    `accepts ${name} when the original is back, and untouched`,
    withDatabase(({ watch, path, add, db }) => {
      add(3);
      watch.check();
      renameSync(path(name), path("moved"));
      assert.is.not(watch.check(), null);
      renameSync(path("moved"), path(name));
      assert.is.not(watch.check(), null, "only recheck ends it");
      assert.is(watch.recheck(), null);
      assert.is(watch.mayCheckpoint(), true);
      add(1);
      assert.is(watch.check(), null);
      assert.is(db.prepare("SELECT count(*) FROM t").pluck().get(), 4);
    }),
  );
}

test(
  "does not accept an original that was written to while it was away",
  withDatabase(({ watch, path, add }) => {
    add(3);
    watch.check();
    renameSync(path("assay.db"), path("moved"));
    assert.is.not(watch.check(), null);
    utimesSync(path("moved"), 1, 1);
    renameSync(path("moved"), path("assay.db"));
    assert.is(watch.recheck(), `assay.db was removed or moved away ${AT_RUN_TIME}`);
  }),
);

test(
  "does not accept originals when another connection committed meanwhile",
  withDatabase(({ watch, path, add, directory }) => {
    add(3);
    watch.check();
    renameSync(path("assay.db-shm"), path("moved"));
    assert.is.not(watch.check(), null);
    renameSync(path("moved"), path("assay.db-shm"));
    const other = openSecondWriter(directory);
    other.exec("INSERT INTO t (text) VALUES ('of another process')");
    other.close();
    assert.is(watch.recheck(), `assay.db-shm was removed or moved away ${AT_RUN_TIME}`);
  }),
);

const CUT = `assay.db was cut or overwritten ${AT_RUN_TIME}`;

test(
  "notices a database that was cut, wherever, and does not write the log into it",
  withDatabase(({ watch, path, add, db }) => {
    add(50);
    db.pragma("wal_checkpoint(PASSIVE)");
    assert.is(watch.check(), null);
    const last = openSync(path("assay.db"), "r+");
    const pages = db.pragma("page_count", { simple: true }) as number;
    ftruncateSync(last, (pages - 1) * 4_096);
    closeSync(last);
    assert.is(watch.check(), CUT);
    assert.is(watch.recheck(), CUT);
    assert.is(watch.mayCheckpoint(), false);
    assert.is(watch.saveLog(), null);
  }),
);

test(
  "notices a database that was emptied",
  withDatabase(({ watch, path }) => {
    truncateSync(path("assay.db"), 0);
    assert.is(watch.check(), CUT);
  }),
);

test(
  "notices something else that was written over the database",
  withDatabase(({ watch, path }) => {
    writeFileSync(path("assay.db"), Buffer.alloc(4_000_000, "something else "));
    assert.is(watch.check(), CUT);
  }),
);

test(
  "notices an older copy of the database that was copied over it",
  withDatabase(({ watch, path, add, db }) => {
    const copy = path("copy");
    db.prepare("VACUUM INTO ?").run(copy);
    add(50);
    db.pragma("wal_checkpoint(PASSIVE)");
    assert.is(watch.check(), null);
    copyFileSync(copy, path("assay.db"));
    assert.is(watch.check(), CUT);
    assert.is(watch.mayCheckpoint(), false);
  }),
);

test(
  "accepts what checkpoints and vacuums of any connection do to the files",
  withDatabase(({ watch, db, add, directory }) => {
    const other = openSecondWriter(directory);
    const looks = (): void => assert.is(watch.check(), null);
    for (let round = 0; round < 3; round += 1) {
      add(200);
      looks();
      other.pragma("wal_checkpoint(PASSIVE)");
      looks();
      other.pragma("wal_checkpoint(TRUNCATE)");
      looks();
      db.exec("DELETE FROM t");
      looks();
      freePageStore(db).reclaim(1_000);
      looks();
      other.pragma("wal_checkpoint(RESTART)");
      looks();
    }
    other.exec("VACUUM");
    looks();
    other.pragma("wal_checkpoint(TRUNCATE)");
    looks();
    other.close();
    looks();
    add(1);
    looks();
  }),
);

test(
  "saves a log that is gone, so that no acknowledged write is lost with the process",
  withDatabase(({ watch, db, path, add, directory }) => {
    add(20);
    assert.is(watch.check(), null);
    rmSync(path("assay.db-wal"));
    assert.is(watch.check(), `assay.db-wal was removed or moved away ${AT_RUN_TIME}`);
    assert.is(watch.mayCheckpoint(), true);
    assert.is(watch.saveLog(), true);
    // As after kill -9: the file alone.
    copyFileSync(path("assay.db"), join(directory, "found.db"));
    const found = openCopy(join(directory, "found.db"), { readonly: false });
    assert.is(found.prepare("SELECT count(*) FROM t").pluck().get(), 20);
    assert.is(found.pragma("integrity_check", { simple: true }), "ok");
    found.close();
    assert.is(db.prepare("SELECT count(*) FROM t").pluck().get(), 20);
  }),
);

test(
  "does not save a log into a database that was touched, or beside another index of the log",
  withDatabase(({ watch, path, add }) => {
    add(20);
    assert.is(watch.check(), null);
    rmSync(path("assay.db-wal"));
    assert.is.not(watch.check(), null);
    copyFileSync(path("assay.db-shm"), path("copy"));
    renameSync(path("copy"), path("assay.db-shm"));
    assert.is(watch.saveLog(), null);
    utimesSync(path("assay.db"), 1, 1);
    assert.is(watch.saveLog(), null);
    assert.is(watch.mayCheckpoint(), false);
  }),
);

const guardOf = (checkFiles: () => string | null) => ({
  ensureWritable: () => undefined,
  reportFailure: () => undefined,
  checkFiles,
});

test(
  "the writer rolls back a batch when it finds the files replaced, and refuses it with the reason",
  withDatabase(async ({ watch, db, path }) => {
    const writer = new GroupCommitWriter(db, { guard: guardOf(watch.check) });
    const insert = db.prepare("INSERT INTO t (text) VALUES ('a')");
    await writer.run(() => insert.run());
    renameSync(path("assay.db"), path("moved"));
    const refusals = await Promise.all(
      [writer.run(() => insert.run()), writer.run(() => insert.run(), { isRepeatable: true })].map((write) =>
        write.catch((error: AppError) => error),
      ),
    );
    for (const refusal of refusals as AppError[])
      assert.equal(
        { code: refusal.code, message: refusal.message },
        {
          code: "no_space",
          message:
            "The server is in read-only mode: assay.db was removed or moved away while the server was running " +
            "(assay help database-files). Nothing was stored",
        },
      );
    assert.is(db.prepare("SELECT count(*) FROM t").pluck().get(), 1);
  }),
);

test(
  "the writer acknowledges nothing that was committed while the files were replaced",
  withDatabase(async ({ watch, db, path, directory }) => {
    let looks = 0;
    const guard = guardOf(() => {
      const problem = watch.check();
      looks += 1;
      // Right after the look that precedes the commit.
      if (looks === 1) renameSync(path("assay.db"), path("moved"));
      return problem;
    });
    const writer = new GroupCommitWriter(db, { guard });
    const insert = db.prepare("INSERT INTO t (text) VALUES ('a')");
    const refusal = (await writer.run(() => insert.run()).catch((error: unknown) => error)) as AppError;
    assert.instance(refusal, AppError);
    assert.is(refusal.code, "no_space");
    assert.match(refusal.message, /\. It is not known whether the change was stored$/);

    renameSync(path("moved"), path("assay.db"));
    looks = 1;
    const other = openSecondWriter(directory);
    const lent = writer.withExclusiveWrite(async () => {
      other.exec("INSERT INTO t (text) VALUES ('b')");
      return "done";
    });
    const unknown = (await lent.catch((error: unknown) => error)) as AppError;
    assert.match(unknown.message, /\. It is not known whether the change was stored$/);
    other.close();
  }),
);

test.run();
