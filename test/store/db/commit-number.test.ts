/** The number of commits in a database and in the file beside it, over real files. */
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { notFound } from "../../../src/errors.ts";
import { acknowledgedNumber, readCommitFile } from "../../../src/store/db/commit-file.ts";
import {
  forgetCommitNumber,
  isCommitFileUsable,
  openCommitNumbering,
  readCommitMark,
  runNumbered,
} from "../../../src/store/db/commit-number.ts";
import { openCopy, openSecondWriter } from "../../../src/store/db/connection.ts";
import { copyDatabase } from "../../../src/store/db/database-copy.ts";
import { openDatabase } from "../../../src/store/db/database.ts";
import { GroupCommitWriter } from "../../../src/store/db/group-commit.ts";
import type { Db } from "../../../src/store/db/types.ts";

const test = suite("store/db/commit-number");

const made: string[] = [];
const newDirectory = (): string => {
  const directory = mkdtempSync(join(tmpdir(), "assay-commits-"));
  made.push(directory);
  return directory;
};
test.after(() => {
  for (const directory of made) rmSync(directory, { recursive: true, force: true });
});

const insertJob = (db: Db): void =>
  void db.prepare("INSERT INTO jobs (kind, payload_json, due_at, created_at) VALUES ('x', '{}', 0, 0)").run();
const numberOf = (db: Db): number => readCommitMark(db)?.number ?? -1;
const fileNumber = (directory: string, db: Db): number =>
  acknowledgedNumber(readCommitFile(directory), readCommitMark(db)?.databaseId ?? "");

/** A database of its own, with the numbering and the writer of a server. */
function given(directory = newDirectory()) {
  const db = openDatabase(directory, 0);
  const numbering = openCommitNumbering(db, { isServer: true });
  const writer = new GroupCommitWriter(db, { numbering, clock: () => 0 });
  return { directory, db, numbering, writer };
}

test("a commit raises the number in the database, and in the file before its write resolves", async () => {
  const { directory, db, writer } = given();
  assert.equal({ database: numberOf(db), file: fileNumber(directory, db) }, { database: 0, file: 0 });
  for (let count = 1; count <= 20; count += 1) {
    const file = await writer.run(() => insertJob(db)).then(() => fileNumber(directory, db));
    assert.equal({ database: numberOf(db), file }, { database: count, file: count });
  }
  assert.is(readFileSync(join(directory, "assay.commits")).length, 512);
});

test("writes that share a commit share its number; a batch that changes nothing has none", async () => {
  const { directory, db, writer } = given();
  await Promise.all([1, 2, 3].map(() => writer.run(() => insertJob(db))));
  assert.is(numberOf(db), 1);
  await writer.run(() => db.prepare("SELECT 1").get());
  assert.equal({ database: numberOf(db), file: fileNumber(directory, db) }, { database: 1, file: 1 });
});

test("a refused write has no number, in the database or in the file", async () => {
  const { directory, db, writer } = given();
  await writer.run(() => insertJob(db));
  const refused = writer.run(() => {
    throw notFound("no such thing");
  });
  assert.is(await refused.catch((error: Error) => error.message), "no such thing");
  assert.equal({ database: numberOf(db), file: fileNumber(directory, db) }, { database: 1, file: 1 });
});

test("commits of several connections do not overwrite each other's number in the file", () => {
  const { directory, db, numbering } = given();
  const other = openSecondWriter(directory);
  // The other connection commits between the commit of this one and its file.
  const number = db
    .transaction(() => {
      insertJob(db);
      return numbering.advance();
    })
    .immediate();
  runNumbered(other, () => insertJob(other));
  numbering.record(number as number);
  assert.equal({ database: numberOf(db), file: fileNumber(directory, db) }, { database: 2, file: 2 });
});

test("a process that died between the commit and the file lost nothing, and the next start raises the file", () => {
  const { directory, db, numbering } = given();
  db.transaction(() => {
    insertJob(db);
    numbering.advance();
  }).immediate();
  db.close();
  assert.equal(
    readCommitFile(directory)?.marks.map(({ number }) => number),
    [0],
  );
  const next = given(directory);
  assert.equal({ missing: next.numbering.missing(), file: fileNumber(directory, next.db) }, { missing: 0, file: 1 });
});

test("a damaged slot does not count, is noticed, and the others still count", () => {
  const { directory, db } = given();
  for (let count = 0; count < 3; count += 1) runNumbered(db, () => insertJob(db));
  const file = join(directory, "assay.commits");
  const bytes = readFileSync(file);
  bytes[3 * 64 + 40] = "9".charCodeAt(0);
  writeFileSync(file, bytes);
  assert.equal(
    { number: fileNumber(directory, db), usable: isCommitFileUsable(directory, db) },
    { number: 2, usable: false },
  );
  truncateSync(file, 100);
  assert.is(readCommitFile(directory)?.isDamaged, true);
});

test("the file of another database does not count, and a server writes it again", () => {
  const [one, two] = [given(), given()];
  for (let count = 0; count < 5; count += 1) runNumbered(one.db, () => insertJob(one.db));
  cpSync(join(one.directory, "assay.commits"), join(two.directory, "assay.commits"));
  two.db.close();
  const opened = openDatabase(two.directory, 0);
  assert.is(isCommitFileUsable(two.directory, opened), false);
  const numbering = openCommitNumbering(opened, { isServer: true });
  assert.is(numbering.missing(), 0);
  assert.is(isCommitFileUsable(two.directory, opened), true);
  assert.is(acknowledgedNumber(readCommitFile(two.directory), readCommitMark(one.db)?.databaseId ?? ""), 0);
});

test("without a file the database counts, and nothing is missing", () => {
  const { directory, db } = given();
  runNumbered(db, () => insertJob(db));
  db.close();
  rmSync(join(directory, "assay.commits"));
  const next = given(directory);
  assert.equal({ missing: next.numbering.missing(), database: numberOf(next.db) }, { missing: 0, database: 1 });
});

test("a file that cannot be written fails no commit, and is reported once until it can be written", async () => {
  const directory = newDirectory();
  const file = join(directory, "assay.commits");
  const opened = openDatabase(directory, 0);
  const reported: unknown[] = [];
  const numbering = openCommitNumbering(opened, { onFile: (error) => void reported.push(error) });
  const writer = new GroupCommitWriter(opened, { numbering, clock: () => 0 });
  mkdirSync(file);
  for (let count = 0; count < 2; count += 1) await writer.run(() => insertJob(opened));
  assert.equal(
    reported.map((error) => (error as { code?: string }).code),
    ["EISDIR"],
  );
  rmSync(file, { recursive: true });
  await writer.run(() => insertJob(opened));
  assert.equal(
    { last: reported.at(-1), database: numberOf(opened), file: fileNumber(directory, opened) },
    { last: null, database: 3, file: 3 },
  );
});

test("a copy has no number, and an opened copy is a database of its own that starts at 0", async () => {
  const { directory, db } = given();
  for (let count = 0; count < 3; count += 1) runNumbered(db, () => insertJob(db));
  const target = newDirectory();
  const copy = join(target, "assay.db");
  writeFileSync(copy, "");
  await copyDatabase(db, copy, { onProgress: () => undefined, signal: new AbortController().signal });
  const unopened = openCopy(copy);
  assert.is(readCommitMark(unopened), null);
  unopened.close();
  // An earlier state that is restored in place does not read as a loss.
  cpSync(join(directory, "assay.commits"), join(target, "assay.commits"));
  const opened = given(target);
  assert.equal({ missing: opened.numbering.missing(), number: numberOf(opened.db) }, { missing: 0, number: 0 });
  assert.is.not(readCommitMark(opened.db)?.databaseId, readCommitMark(db)?.databaseId);
});

test("a database that was forgotten gets its id into the main file when it is opened", () => {
  const { directory, db } = given();
  forgetCommitNumber(db);
  db.close();
  const opened = openDatabase(directory, 0);
  const mark = readCommitMark(opened);
  const file = newDirectory();
  cpSync(join(directory, "assay.db"), join(file, "assay.db"));
  const alone = openCopy(join(file, "assay.db"));
  assert.equal(readCommitMark(alone), mark);
});

test.run();
