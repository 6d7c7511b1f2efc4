/** The schema of record and the migrations lead to the same database. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import Database from "better-sqlite3";
import { loadAddon } from "../../src/store/addon.ts";
import { applyMigrations, createSchema, migrations } from "../../src/store/database.ts";
import type { Db } from "../../src/store/database.ts";

const test = suite("rules/schema");
const empty = (): Db => new Database(":memory:", { nativeBinding: loadAddon() as unknown as string });

/** Every object with its SQL, without comments and layout. */
function shape(db: Db): string[] {
  const rows = db.prepare("SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY type, name").all() as { type: string; name: string; sql: string }[];
  return rows.map(({ type, name, sql }) => `${type} ${name}: ${sql.replace(/--[^\n]*/g, "").replace(/\s+/g, " ")}`);
}

test("schema.sql equals what the migrations lead to", () => {
  const [fresh, migrated] = [empty(), empty()];
  createSchema(fresh);
  applyMigrations(migrated, migrations());
  assert.equal(shape(migrated), shape(fresh));
  for (const pragma of ["user_version", "application_id"])
    assert.is(migrated.pragma(pragma, { simple: true }), fresh.pragma(pragma, { simple: true }), pragma);
});

test("every table is STRICT", () => {
  const db = empty();
  createSchema(db);
  const loose = db.prepare("SELECT name FROM pragma_table_list WHERE schema = 'main' AND strict = 0 AND name NOT LIKE 'sqlite_%'").pluck().all();
  assert.equal(loose, []);
});


test.run();
