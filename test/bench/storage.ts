// How many bytes a database uses, and what made it grow.
import type Database from "better-sqlite3";

/** Bytes in use, without free pages; also by table and index. */
export type Storage = { bytes: number; tables: ReadonlyMap<string, number> };

/** Reads the sizes of a database that a server may have open. */
export function storageOf(db: Database.Database): Storage {
  const pragma = (name: string): number => db.pragma(name, { simple: true }) as number;
  const tables = db
    .prepare<[], { name: string; bytes: number }>("SELECT name, sum(pgsize) AS bytes FROM dbstat GROUP BY name")
    .all();
  return {
    bytes: (pragma("page_count") - pragma("freelist_count")) * pragma("page_size"),
    tables: new Map(tables.map(({ name, bytes }) => [name, bytes])),
  };
}

/** The tables and indexes that grew most, in bytes for each of `count` changes. */
export const describeGrowth = (before: Storage, after: Storage, count: number): string =>
  `bytes by table and index: ${[...after.tables]
    .map(([name, size]) => [name, (size - (before.tables.get(name) ?? 0)) / count] as const)
    .filter(([, size]) => Math.abs(size) >= 20)
    .sort((a, b) => b[1] - a[1])
    .slice(0, 12)
    .map(([name, size]) => `${name} ${Math.round(size)}`)
    .join(", ")}`;
