/** A log that was damaged after its process was killed: real files, copied while a connection has them open. */
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { LostCommitsError, openCommitNumbering, runNumbered } from "../../../src/store/db/commit-number.ts";
import { openDatabase, openUnmigrated } from "../../../src/store/db/database.ts";
import { countMissingCommits, findLogCopy, keepDamagedLog } from "../../../src/store/db/lost-commits.ts";
import { findDamage } from "../../../src/store/db/vacuum.ts";

const test = suite("store/db/lost-commits");

const made: string[] = [];
const newDirectory = (): string => {
  const directory = mkdtempSync(join(tmpdir(), "assay-lost-"));
  made.push(directory);
  return directory;
};
test.after(() => {
  for (const directory of made) rmSync(directory, { recursive: true, force: true });
});

const COMMITS = 8;

/** What a killed process leaves after eight commits of one job each. `checkpoint`: it copied the log at the end. */
function killed({ checkpoint = false } = {}): string {
  const running = newDirectory();
  const db = openDatabase(running, 0);
  openCommitNumbering(db, { isServer: true }).close();
  for (let count = 1; count <= COMMITS; count += 1)
    runNumbered(db, () =>
      db
        .prepare("INSERT INTO jobs (kind, payload_json, due_at, created_at) VALUES (?, '{}', 0, 0)")
        .run(`job ${count}`),
    );
  if (checkpoint) db.pragma("wal_checkpoint(PASSIVE)");
  const directory = newDirectory();
  for (const name of ["assay.db", "assay.db-wal", "assay.commits"]) cpSync(join(running, name), join(directory, name));
  db.close();
  return directory;
}

/** Flips a bit of the log at a fraction of its length. Returns the bytes of the log. */
function damage(directory: string, at: number): Buffer {
  const file = join(directory, "assay.db-wal");
  const bytes = readFileSync(file);
  const offset = Math.floor(bytes.length * at);
  bytes.writeUInt8(bytes.readUInt8(offset) ^ 1, offset);
  writeFileSync(file, bytes);
  return bytes;
}

const jobs = (directory: string): number => {
  const db = openDatabase(directory, 0, { withLostCommits: true });
  try {
    return db.prepare<[], number>("SELECT count(*) FROM jobs").pluck().get() ?? -1;
  } finally {
    db.close();
  }
};

test("a whole log is not copied, and nothing is missing", () => {
  const directory = killed();
  const before = readFileSync(join(directory, "assay.db-wal"));
  assert.is(keepDamagedLog(directory), null);
  assert.is(countMissingCommits(directory), 0);
  assert.equal(readFileSync(join(directory, "assay.db-wal")), before);
  assert.is(jobs(directory), COMMITS);
});

test("a damaged log is counted and copied byte for byte before the database is opened", () => {
  for (const at of [0.02, 0.3, 0.6, 0.99]) {
    const directory = killed();
    const bytes = damage(directory, at);
    const lost = keepDamagedLog(directory);
    assert.ok(lost, `at ${at}`);
    assert.ok(lost.missing >= 1 && lost.missing <= COMMITS, `at ${at}: ${lost.missing}`);
    assert.equal(readFileSync(lost.copy ?? ""), bytes);
    assert.equal(readFileSync(join(directory, "assay.db-wal")), bytes, "looking changed nothing");
    assert.is(findLogCopy(directory), lost.copy);
    assert.is(jobs(directory), COMMITS - lost.missing, `at ${at}`);
  }
});

test("a log that was removed, emptied or cut off is a loss as well", () => {
  for (const [take, missing, hasCopy] of [
    [(file: string) => rmSync(file), COMMITS, false],
    [(file: string) => truncateSync(file, 0), COMMITS, false],
    [(file: string) => truncateSync(file, readFileSync(file).length - 100), 1, true],
  ] as const) {
    const directory = killed();
    take(join(directory, "assay.db-wal"));
    const lost = keepDamagedLog(directory);
    assert.equal({ missing: lost?.missing, hasCopy: lost?.copy !== null }, { missing, hasCopy });
  }
});

test("the copy of a loss is made once, and later starts still know of it", () => {
  const directory = killed();
  const bytes = damage(directory, 0.5);
  const lost = keepDamagedLog(directory);
  jobs(directory); // Closing the database empties the log.
  assert.not.ok(existsSync(join(directory, "assay.db-wal")));
  assert.equal(keepDamagedLog(directory), lost);
  assert.equal(readFileSync(lost?.copy ?? ""), bytes);
});

test("a log whose damaged part is in the database already is set aside, and nothing is missing", () => {
  const directory = killed({ checkpoint: true });
  const bytes = damage(directory, 0.3);
  const lost = keepDamagedLog(directory);
  assert.is(lost?.missing, 0);
  assert.equal(readFileSync(lost?.copy ?? ""), bytes);
  assert.is(jobs(directory), COMMITS);
  const db = openUnmigrated(directory);
  assert.equal(findDamage(db), []);
  db.close();
  assert.is(keepDamagedLog(directory), null);
});

test("whoever opens the database to write is refused, and the log stays as it is", () => {
  const directory = killed();
  const bytes = damage(directory, 0.5);
  for (const open of [() => openDatabase(directory, 0), () => openUnmigrated(directory)]) {
    const refusal = (() => {
      try {
        open().close();
        return null;
      } catch (error) {
        return error;
      }
    })();
    assert.instance(refusal, LostCommitsError);
    assert.match((refusal as Error).message, /lacks \d commits that were acknowledged.*assay accept-loss --data/);
    assert.equal(readFileSync(join(directory, "assay.db-wal")), bytes);
  }
  assert.equal(
    readdirSync(directory).filter((name) => name.startsWith("assay.lost")),
    [],
  );
});

test("a connection opened in spite of the loss commits nothing, until the loss is accepted", () => {
  const directory = killed();
  damage(directory, 0.5);
  const lost = keepDamagedLog(directory);
  const db = openDatabase(directory, 0, { withLostCommits: true });
  const insert = (): unknown =>
    db.prepare("INSERT INTO jobs (kind, payload_json, due_at, created_at) VALUES ('late', '{}', 0, 0)").run();
  assert.throws(() => runNumbered(db, insert), /lacks \d commits/);
  assert.is(db.prepare("SELECT count(*) FROM jobs WHERE kind = 'late'").pluck().get(), 0);
  runNumbered(db, insert, { acceptsLoss: true });
  runNumbered(db, insert);
  assert.is(db.prepare("SELECT count(*) FROM jobs WHERE kind = 'late'").pluck().get(), 2);
  db.close();
  assert.is(countMissingCommits(directory), 0);
  assert.ok(existsSync(lost?.copy ?? ""), "the copy of the log stays");
});

test("a database that lacks commits is not migrated", () => {
  const directory = killed();
  damage(directory, 0.5);
  const steps = [...Array(99)].map((_, index) => ({ version: index + 1, name: `${index}`, sql: "" }));
  assert.throws(
    () => openDatabase(directory, 0, { steps, withLostCommits: true }),
    (error: unknown) => error instanceof LostCommitsError,
  );
  assert.not.ok(existsSync(join(directory, "backups")));
});

test.run();
