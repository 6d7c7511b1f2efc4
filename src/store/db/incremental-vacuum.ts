import type { Db } from "./types.ts";

/** Of the database file; `bytes` of one page. `givesBack`: whether pages can be given back without `assay vacuum`. */
export type PageCounts = { total: number; free: number; bytes: number; isIncremental: boolean };

/** Value of the pragma auto_vacuum: pages are given back when somebody asks. */
const INCREMENTAL = 2;

export function freePageStore(db: Db) {
  const number = (pragma: string): number => db.pragma(pragma, { simple: true }) as number;
  return {
    readPageCounts: (): PageCounts => ({
      total: number("page_count"),
      free: number("freelist_count"),
      bytes: number("page_size"),
      isIncremental: number("auto_vacuum") === INCREMENTAL,
    }),
    /** Gives back at most so many free pages, inside a write. The file itself gets shorter with the next checkpoint. */
    reclaim: (pages: number): void => void db.pragma(`incremental_vacuum(${pages})`),
  };
}
