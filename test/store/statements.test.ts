import { suite } from "uvu";
import * as assert from "uvu/assert";
import { openMemory } from "../../src/store/db/database.ts";
import { opened } from "./given.ts";

const test = suite("statements");

test("every statement that the stores prepare compiles, although none is compiled before its first use", () => {
  const { db, sql } = opened();
  assert.ok(sql.length > 500, `only ${sql.length} statements were prepared`);
  for (const text of sql) {
    // An attribute that only SQLite knows.
    assert.not.throws(() => db.prepare(text).busy, text);
  }
});

test("wrong SQL is an error of the first use, and of each further one", () => {
  const statement = openMemory().prepare("SELECT a FROM nowhere").pluck();
  for (let use = 0; use < 2; use += 1) assert.throws(() => statement.get(), /no such table: nowhere/);
});

test("a statement does what one that was compiled at once does", () => {
  const db = openMemory();
  db.exec("CREATE TABLE pairs (a INTEGER, b TEXT)");
  const insert = db.prepare("INSERT INTO pairs VALUES (?, @b)");
  assert.equal(insert.run(1, { b: "one" }), { changes: 1, lastInsertRowid: 1 });
  insert.run(2, { b: "two" });
  const select = "SELECT * FROM pairs WHERE a >= ? ORDER BY a";
  assert.equal(db.prepare(select).get(2), { a: 2, b: "two" });
  assert.is(db.prepare(select).get(3), undefined);
  assert.equal(db.prepare(select).pluck().all(1), [1, 2]);
  assert.equal([...db.prepare(select).pluck().iterate(2)], [2]);
  assert.equal(db.prepare(select).raw().all(2), [[2, "two"]]);
  assert.equal(db.prepare(select).expand().all(2), [{ pairs: { a: 2, b: "two" } }]);
  assert.equal(db.prepare(select).safeIntegers().pluck().all(1), [1n, 2n]);
  assert.equal(db.prepare(select).bind(2).get(), { a: 2, b: "two" });
  const plucked = db.prepare(select);
  assert.equal(plucked.pluck().all(2), [2]);
  assert.equal(plucked.pluck(false).all(2), [{ a: 2, b: "two" }], "after its first use");
  assert.equal(
    plucked.columns().map(({ name }) => name),
    ["a", "b"],
  );
  assert.ok(plucked.reader && plucked.readonly && !plucked.busy && plucked.database.open);
  assert.is(plucked.source, "SELECT * FROM pairs WHERE a >= +? ORDER BY a");
});

test("a statement of a closed database says so on its first use", () => {
  const db = openMemory();
  const statement = db.prepare("SELECT 1");
  db.close();
  assert.throws(() => statement.get(), /not open/);
});

test.run();
