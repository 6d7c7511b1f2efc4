/** Free pages of the database file, and their return to the file system in small steps (incremental vacuum). */
import type { Db } from "./types.ts";

/**
 * Page counts of the database file. `bytes`: the size of one page. `isIncremental`: whether `reclaim` has an effect.
 */
type PageCounts = { total: number; free: number; bytes: number; isIncremental: boolean };

/** Value of the pragma auto_vacuum for INCREMENTAL. */
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
    /**
     * Returns at most `pages` free pages to the file system. Call it inside a write. The file shrinks with the next
     * checkpoint.
     */
    reclaim: (pages: number): void => void db.pragma(`incremental_vacuum(${pages})`),
  };
}
