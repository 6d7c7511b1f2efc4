/** The database as SQLite sees it: its pages, its references, its tables. */
import { openMemory } from "../../store/db/database.ts";
import type { Findings } from "./check.ts";
import type { Db } from "../../store/db/types.ts";

/** SQLite stops looking after so many problems; one is enough to distrust the file. */
const MAX_PROBLEMS = 100;

/** Every page, every index against its table, every type, NOT NULL and CHECK. */
export function checkIntegrity(db: Db, { damage: found, count: looked }: Findings): void {
  const rows = db.pragma(`integrity_check(${MAX_PROBLEMS})`) as { integrity_check: string }[];
  for (const { integrity_check: text } of rows) if (text !== "ok") found("assay.db", text);
  looked("pages", db.pragma("page_count", { simple: true }) as number);
  checkConstraints(db, found);
}

/**
 * SQLite leaves CHECK constraints out on a connection that only reads (sqlite3AddCheckConstraint), so they are asked as
 * queries.
 */
function checkConstraints(db: Db, found: Findings["damage"]): void {
  const tables = db.prepare<[], { name: string; sql: string; wr: 0 | 1 }>(
    "SELECT s.name, s.sql, l.wr FROM sqlite_schema s JOIN pragma_table_list l ON l.schema = 'main' AND l.name = s.name WHERE s.type = 'table' AND s.sql LIKE '%CHECK%'",
  );
  for (const { name, sql, wr } of tables.all()) {
    const rules = constraintsOf(sql);
    for (const rule of rules) {
      const broken = db.prepare<[], { id: number | null }>(
        `SELECT ${wr ? "NULL" : "rowid"} AS id FROM "${name}" WHERE NOT (${rule})`,
      );
      for (const { id } of broken.iterate())
        found(id === null ? name : `${name} row ${id}`, `does not fulfil ${rule.replace(/\s+/g, " ")}`);
    }
  }
}

/** The expressions of CHECK constraints in the SQL of a table. */
export function constraintsOf(sql: string): string[] {
  const text = sql.replace(/--[^\n]*/g, "");
  return [...text.matchAll(/\bCHECK\s*\(/g)].map(({ index, 0: head }) => {
    const start = index + head.length;
    let [depth, at, quoted] = [1, start, false];
    for (; depth > 0 && at < text.length; at += 1) {
      if (text[at] === "'") quoted = !quoted;
      else if (!quoted) depth += text[at] === "(" ? 1 : text[at] === ")" ? -1 : 0;
    }
    return text.slice(start, at - 1);
  });
}

/** Rows that point at nothing. */
export function checkForeignKeys(db: Db, { damage: found, count: looked }: Findings): void {
  const broken = db.prepare<[], { table: string; rowid: number | null; parent: string }>(
    'SELECT "table", rowid, parent FROM pragma_foreign_key_check',
  );
  for (const { table, rowid, parent } of broken.iterate())
    found(
      `${table} ${rowid === null ? "(a row without a number)" : `row ${rowid}`}`,
      `points at a row of ${parent} that is not there`,
    );
  looked("tables", db.prepare("SELECT count(*) FROM sqlite_schema WHERE type = 'table'").pluck().get() as number);
}

/**
 * Tables that Litestream keeps in the database that it replicates, with their indexes, as `shapeOf` names them. Not
 * triggers: Litestream makes none, and a trigger can change records.
 */
const LITESTREAM_OBJECT = /^(?:table|index) _litestream_/;

/** Whether the tables and indexes are those of this program. */
export function checkSchema(db: Db, { damage: found, count: looked }: Findings): void {
  const fresh = openMemory();
  const expected = shapeOf(fresh);
  fresh.close();
  const actual = shapeOf(db);
  for (const [name, sql] of expected) {
    const is = actual.get(name);
    if (is === undefined) found(name, "is missing");
    else if (is !== sql) found(name, "is defined otherwise than this program defines it");
  }
  for (const name of actual.keys())
    if (!expected.has(name) && !LITESTREAM_OBJECT.test(name)) found(name, "is nothing that this program made");
  looked("tables and indexes", expected.size);
}

/**
 * Every table, index, trigger and view with its SQL, without comments and layout: a migrated table keeps those of its
 * time.
 */
export function shapeOf(db: Db): Map<string, string> {
  const rows = db.prepare<[], { type: string; name: string; sql: string }>(
    "SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_stat%' ORDER BY type, name",
  );
  return new Map(rows.all().map(({ type, name, sql }) => [`${type} ${name}`, withoutLayout(sql)]));
}

/** SQLite adds a column with a comma and a bracket of its own layout, so blanks around these mean nothing either. */
const withoutLayout = (sql: string): string =>
  sql
    .replace(/--[^\n]*/g, "")
    .replace(/\s+/g, " ")
    .replace(/ ?([(),]) ?/g, "$1");
