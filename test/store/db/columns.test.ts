import { suite } from "uvu";
import * as assert from "uvu/assert";
import { flag, namesOf, number, orNull, selectList, string, stringOf } from "../../../src/store/db/columns.ts";
import type { RowOf } from "../../../src/store/db/columns.ts";
import { openMemory } from "../../../src/store/db/database.ts";

const test = suite("store/db/columns");

const ROLE = { id: number, name: string, kind: stringOf<"a" | "b">(), is_open: flag, ended_at: orNull(number) };
type RoleRow = RowOf<typeof ROLE>;

test("a select list names the columns in the order of the literal, with the alias if one is given", () => {
  assert.is(selectList(ROLE), "id, name, kind, is_open, ended_at");
  assert.is(selectList(ROLE, "r"), "r.id, r.name, r.kind, r.is_open, r.ended_at");
  assert.equal(namesOf(ROLE), ["id", "name", "kind", "is_open", "ended_at"]);
});

test("a row has the columns of the literal and their types", () => {
  const db = openMemory();
  db.exec("CREATE TABLE roles (id INTEGER, name TEXT, kind TEXT, is_open INTEGER, ended_at REAL, more TEXT)");
  db.exec("INSERT INTO roles VALUES (1, 'n', 'a', 1, NULL, 'not listed')");
  const row = db.prepare<[number], RoleRow>(`SELECT ${selectList(ROLE)} FROM roles WHERE id = ?`).get(1);
  const expected: RoleRow = { id: 1, name: "n", kind: "a", is_open: 1, ended_at: null };
  assert.equal(row, expected);
  // @ts-expect-error null only where the column is nullable
  const withoutName: RoleRow = { ...expected, name: null };
  // @ts-expect-error only the texts that occur
  const otherKind: RoleRow = { ...expected, kind: "c" };
  assert.ok(withoutName && otherKind);
});

test.run();
