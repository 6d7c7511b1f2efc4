/** Databases of every released schema compare equal, and whatever else is in a schema is refused with its name. */
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import Database from "better-sqlite3";
import { loadAddon } from "../../../src/store/db/native-addon.ts";
import { DamagedDatabaseError, findSchemaProblems, openDatabase, openMemory } from "../../../src/store/db/database.ts";
import { checkCopy } from "../../../src/store/db/database-copy.ts";
import type { Db } from "../../../src/store/db/types.ts";
import { inDirectory } from "../../cli/in-process.ts";
import { fixtureVersions, place } from "../../upgrades/fixture.ts";

const test = suite("store/db/schema-comparison");
const NOW = 1_800_000_000;
/** A trigger that grants every new member a right, as an intruder would write it. */
const PROMOTE = `CREATE TRIGGER promote AFTER INSERT ON memberships
  BEGIN UPDATE memberships SET role = 'admin' WHERE user_id = NEW.user_id; END`;

const problemsOf = (db: Db): string[] => findSchemaProblems(db).map(({ about, problem }) => `${about} ${problem}`);

/** What a database of the current schema says after these statements; some write the schema table itself. */
function after(...statements: readonly string[]): string[] {
  const db = openMemory();
  try {
    db.unsafeMode(true);
    db.pragma("writable_schema = ON");
    for (const statement of statements) db.exec(statement);
    return problemsOf(db);
  } finally {
    db.close();
  }
}

for (const version of fixtureVersions())
  test(`a database of schema ${version} compares equal as it is, and after its upgrade`, () =>
    inDirectory(async (home) => {
      const data = join(home, "data");
      place(version, data);
      checkCopy(join(data, "assay.db"), { thorough: true });
      openDatabase(data, NOW).close();
      const upgraded = openDatabase(data, NOW);
      assert.equal(problemsOf(upgraded), []);
      upgraded.close();
    }));

test("a database compares equal with ANALYZE, Litestream, and what belongs to a connection", () => {
  assert.equal(after(), []);
  assert.equal(after("ANALYZE"), []);
  assert.equal(
    after(
      "CREATE TABLE IF NOT EXISTS _litestream_seq (id INTEGER PRIMARY KEY, seq INTEGER)",
      "CREATE TABLE IF NOT EXISTS _litestream_lock (id INTEGER)",
      "CREATE INDEX _litestream_seq_by_seq ON _litestream_seq (seq)",
    ),
    [],
  );
  assert.equal(after(PROMOTE.replace("TRIGGER", "TEMP TRIGGER"), "CREATE TEMP TABLE mine (id INTEGER)"), []);
});

const OBJECTS: readonly (readonly [what: string, problem: string, ...statements: string[]])[] = [
  ["a trigger", "trigger promote was not created by this program", PROMOTE],
  ["a view", "view everyone was not created by this program", "CREATE VIEW everyone AS SELECT * FROM users"],
  ["a table", "table notes was not created by this program", "CREATE TABLE notes (text TEXT) STRICT"],
  ["an index", "index by_time was not created by this program", "CREATE INDEX by_time ON audit_log (timestamp)"],
  ["a missing trigger", "trigger small_evidence_is_final is missing", "DROP TRIGGER small_evidence_is_final"],
  ["a missing index", "index memberships_by_user is missing", "DROP INDEX memberships_by_user"],
  [
    "another column",
    "table users differs from the definition in this program",
    "ALTER TABLE users ADD COLUMN nickname TEXT",
  ],
  [
    "a trigger with the name of statistics",
    "trigger sqlite_stat1 was not created by this program",
    PROMOTE,
    "UPDATE sqlite_schema SET name = 'sqlite_stat1' WHERE name = 'promote'",
  ],
  [
    "a trigger with the name of Litestream",
    "trigger _litestream_seq was not created by this program",
    PROMOTE.replace("promote", "_litestream_seq"),
  ],
  [
    "a table of Litestream that refers to ours",
    "table _litestream_seq was not created by this program",
    "CREATE TABLE _litestream_seq (id INTEGER PRIMARY KEY, seq INTEGER REFERENCES users (id))",
  ],
  [
    "an index on our table that claims to be on one of Litestream's",
    "index _litestream_i was not created by this program",
    "CREATE INDEX _litestream_i ON users (id)",
    "UPDATE sqlite_schema SET tbl_name = '_litestream_seq' WHERE name = '_litestream_i'",
  ],
  [
    "a second row with the name of one of ours",
    "trigger small_evidence_is_final was not created by this program",
    "INSERT INTO sqlite_schema SELECT * FROM sqlite_schema WHERE name = 'small_evidence_is_final'",
  ],
  [
    "a definition that is stored as bytes",
    "trigger promote was not created by this program",
    PROMOTE,
    "UPDATE sqlite_schema SET sql = CAST(sql AS BLOB) WHERE name = 'promote'",
  ],
];
for (const [what, problem, ...statements] of OBJECTS)
  test(`${what} is found`, () => {
    const found = after(...statements);
    assert.ok(found.includes(problem), found.join("\n"));
  });

test("comments and layout do not count, but what only looks like a comment does", () => {
  const change = (from: string, to: string): string[] =>
    after(`UPDATE sqlite_schema SET sql = replace(sql, '${from}', '${to}') WHERE name = 'small_evidence_is_final'`);
  const sql = (): string => {
    const db = openMemory();
    try {
      return String(db.prepare("SELECT sql FROM sqlite_schema WHERE name = 'small_evidence_is_final'").pluck().get());
    } finally {
      db.close();
    }
  };
  assert.equal(change("BEGIN", "/* as it was */ BEGIN -- and on"), []);
  assert.match(sql(), "BEGIN");
  const literal = /'(\w+) /.exec(sql())?.[1] ?? "";
  assert.is.not(literal, "", "the trigger has a text with a blank");
  assert.equal(change(`${literal} `, `${literal}--''; DELETE FROM users; SELECT ''\n `), [
    "trigger small_evidence_is_final differs from the definition in this program",
  ]);
});

test("a start refuses the database and changes nothing, whatever its schema version", () =>
  inDirectory(async (home) => {
    for (const version of [1, fixtureVersions().at(-1) ?? 0]) {
      const data = join(home, String(version));
      mkdirSync(data);
      place(version, data);
      const file = join(data, "assay.db");
      const db: Db = new Database(file, { nativeBinding: loadAddon() as unknown as string });
      db.exec(PROMOTE);
      db.close();
      const before = readFileSync(file);
      assert.throws(
        () => openDatabase(data, NOW),
        (error: Error) =>
          error instanceof DamagedDatabaseError &&
          error.message === "the database is damaged: trigger promote was not created by this program",
      );
      assert.throws(() => checkCopy(file, { thorough: true }), /trigger promote was not created by this program/);
      assert.ok(readFileSync(file).subarray(100).equals(before.subarray(100)));
    }
  }));

test.run();
