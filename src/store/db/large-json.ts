/**
 * JSON columns that a client can make large. Queries for lists select a stub `@BYTES` in place of a long text, and the
 * text is read on its own while the response is streamed.
 */
import { namesOf } from "./columns.ts";
import type { Columns } from "./columns.ts";
import type { DbReader } from "./types.ts";

/** Texts up to this size are selected with their row. */
export const MAX_INLINE_JSON_BYTES = 65_536;

const TABLES = [
  "artifacts",
  "attestations",
  "custom_type_versions",
  "snapshot_artifacts",
  "trails",
  "trail_events",
] as const;
export type LargeJsonTable = (typeof TABLES)[number];

/** Where a long text is, and its size. */
export type LargeJsonPlace = { table: LargeJsonTable; column: string; id: number; bytes: number };

/** The select list of a query in which the `large` columns may be stubs. @param alias the alias of the table */
export const selectWithStubs = <C extends Columns>(alias: string, columns: C, large: readonly (keyof C)[]): string =>
  namesOf(columns)
    .map((column) =>
      large.includes(column) ? `${columnOrStub(`${alias}.${column}`)} AS ${column}` : `${alias}.${column}`,
    )
    .join(", ");

/** An SQL expression for a column, or for its stub when the text is long. */
export const columnOrStub = (name: string): string =>
  `CASE WHEN octet_length(${name}) > ${MAX_INLINE_JSON_BYTES} THEN '@' || octet_length(${name}) ELSE ${name} END`;

/** The size in bytes of the text that a stub replaces; null for a text that is not a stub. */
export function stubBytes(text: string | null): number | null {
  const match = text === null ? null : /^@(\d+)$/.exec(text);
  return match ? Number(match[1]) : null;
}

export function largeJsonStore(db: DbReader) {
  const statements = new Map<string, ReturnType<typeof prepare>>();
  const prepare = (table: LargeJsonTable, column: string) =>
    db.prepare<[number], { text: string | null }>(
      `SELECT CASE WHEN json_valid(${column}) THEN ${column} END AS text FROM ${table} WHERE id = ?`,
    );
  return {
    /** The text that a stub replaces; null when it is not valid JSON. */
    findText(table: LargeJsonTable, column: string, id: number): string | null {
      const key = `${table} ${column}`;
      const statement = statements.get(key) ?? prepare(table, column);
      statements.set(key, statement);
      return statement.get(id)?.text ?? null;
    },
  };
}
