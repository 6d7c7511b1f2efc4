/** The schema of record and the migrations lead to the same database. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import Database from "better-sqlite3";
import { loadAddon } from "../../src/store/db/native-addon.ts";
import { applyMigrations, createSchema, migrations } from "../../src/store/db/database.ts";
import { compareSchemas, listSchemaObjects } from "../../src/store/db/schema-comparison.ts";
import type { Db } from "../../src/store/db/types.ts";

const test = suite("rules/schema");
const empty = (): Db => new Database(":memory:", { nativeBinding: loadAddon() as unknown as string });

test("schema.sql equals what the migrations lead to", () => {
  const [fresh, migrated] = [empty(), empty()];
  createSchema(fresh);
  applyMigrations(migrated, migrations());
  assert.equal(compareSchemas(listSchemaObjects(migrated), listSchemaObjects(fresh)), []);
  for (const pragma of ["user_version", "application_id"])
    assert.is(migrated.pragma(pragma, { simple: true }), fresh.pragma(pragma, { simple: true }), pragma);
});

test("every table is STRICT", () => {
  const db = empty();
  createSchema(db);
  const loose = db
    .prepare("SELECT name FROM pragma_table_list WHERE schema = 'main' AND strict = 0 AND name NOT LIKE 'sqlite_%'")
    .pluck()
    .all();
  assert.equal(loose, []);
});

test.run();
