/** The database as SQLite sees it: its pages, its references, its tables. */
import { APPLICATION_ID, openMemory, schemaVersion } from "../store/database.ts";
import type { Db } from "../store/database.ts";
import type { Sink } from "./check.ts";

/** SQLite stops looking after so many problems; one is enough to distrust the file. */
const MOST_PROBLEMS = 100;

/** Every page, every index against its table, every CHECK and NOT NULL. */
export function checkIntegrity(db: Db, { found, looked }: Sink): void {
  const rows = db.pragma(`integrity_check(${MOST_PROBLEMS})`) as { integrity_check: string }[];
  for (const { integrity_check: text } of rows) if (text !== "ok") found("assay.db", text);
  looked("pages", db.pragma("page_count", { simple: true }) as number);
}

/** Rows that point at nothing. */
export function checkForeignKeys(db: Db, { found, looked }: Sink): void {
  const broken = db.prepare<[], { table: string; rowid: number | null; parent: string }>('SELECT "table", rowid, parent FROM pragma_foreign_key_check');
  for (const { table, rowid, parent } of broken.iterate()) found(`${table} ${rowid === null ? "(a row without a number)" : `row ${rowid}`}`, `points at a row of ${parent} that is not there`);
  looked("tables", db.prepare("SELECT count(*) FROM sqlite_schema WHERE type = 'table'").pluck().get() as number);
}

/** Whose file it is, and whether its tables and indexes are those of this program. */
export function checkSchema(db: Db, { found, looked }: Sink): void {
  const application = db.pragma("application_id", { simple: true });
  if (application !== APPLICATION_ID) found("assay.db", `has the application id ${String(application)}, and ${APPLICATION_ID} is expected`);
  const version = db.pragma("user_version", { simple: true });
  if (version !== schemaVersion()) found("assay.db", `has schema version ${String(version)}, and ${schemaVersion()} is expected`);
  const fresh = openMemory();
  const expected = shapeOf(fresh);
  fresh.close();
  const actual = shapeOf(db);
  for (const [name, sql] of expected) {
    const is = actual.get(name);
    if (is === undefined) found(name, "is missing");
    else if (is !== sql) found(name, "is defined otherwise than this program defines it");
  }
  for (const name of actual.keys()) if (!expected.has(name)) found(name, "is nothing that this program made");
  looked("tables and indexes", expected.size);
}

/** Every table, index, trigger and view with its SQL, without comments and layout: a migrated table keeps those of its time. */
export function shapeOf(db: Db): Map<string, string> {
  const rows = db.prepare<[], { type: string; name: string; sql: string }>("SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_stat%' ORDER BY type, name");
  return new Map(rows.all().map(({ type, name, sql }) => [`${type} ${name}`, sql.replace(/--[^\n]*/g, "").replace(/\s+/g, " ")]));
}
