/** The database file itself: pages, constraints, foreign keys, schema. */
import { findSchemaProblems } from "../../store/db/database.ts";
import { listSchemaObjects } from "../../store/db/schema-comparison.ts";
import type { DbReader } from "../../store/db/types.ts";
import type { Findings } from "./check.ts";

/** SQLite stops after this many problems; one is enough to distrust the file. */
const MAX_PROBLEMS = 100;

/** Checks every page, every index against its table, every type, NOT NULL and CHECK. */
export function checkIntegrity(db: DbReader, { damage, count }: Findings): void {
  const rows = db.pragma(`integrity_check(${MAX_PROBLEMS})`) as { integrity_check: string }[];
  for (const { integrity_check: text } of rows) if (text !== "ok") damage("assay.db", text);
  count("pages", db.pragma("page_count", { simple: true }) as number);
  checkConstraints(db, damage);
}

/**
 * SQLite ignores CHECK constraints on a read-only connection (sqlite3AddCheckConstraint), so they are evaluated as
 * queries.
 */
function checkConstraints(db: DbReader, damage: Findings["damage"]): void {
  const tables = db.prepare<[], { name: string; sql: string; wr: 0 | 1 }>(
    `SELECT s.name, s.sql, l.wr FROM sqlite_schema s JOIN pragma_table_list l ON l.schema = 'main' AND l.name = s.name
     WHERE s.type = 'table' AND s.sql LIKE '%CHECK%'`,
  );
  for (const { name, sql, wr } of tables.all()) {
    const rules = constraintsOf(sql);
    for (const rule of rules) {
      const broken = db.prepare<[], { id: number | null }>(
        `SELECT ${wr ? "NULL" : "rowid"} AS id FROM "${name}" WHERE NOT (${rule})`,
      );
      for (const { id } of broken.iterate())
        damage(id === null ? name : `${name} row ${id}`, `violates the constraint ${rule.replace(/\s+/g, " ")}`);
    }
  }
}

/** The expressions of CHECK constraints in the SQL of a table. */
function constraintsOf(sql: string): string[] {
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

/** Checks that every referenced row exists. */
export function checkForeignKeys(db: DbReader, { damage, count }: Findings): void {
  const broken = db.prepare<[], { table: string; rowid: number | null; parent: string }>(
    'SELECT "table", rowid, parent FROM pragma_foreign_key_check',
  );
  for (const { table, rowid, parent } of broken.iterate())
    damage(
      `${table} ${rowid === null ? "(a row without a rowid)" : `row ${rowid}`}`,
      `references a row of ${parent} that does not exist`,
    );
  count("tables", db.prepare("SELECT count(*) FROM sqlite_schema WHERE type = 'table'").pluck().get() as number);
}

/** Compares tables, indexes, triggers and views with those of this program. */
export function checkSchema(db: DbReader, { damage, count }: Findings): void {
  for (const { about, problem } of findSchemaProblems(db)) damage(about, problem);
  count("tables, indexes, triggers and views", listSchemaObjects(db).length);
}
