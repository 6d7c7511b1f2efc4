/**
 * Returns unused pages of the database to the file system, in short writes. It starts when more than a fifth of the
 * file is unused and stops at a tenth, so that a file in steady use keeps some pages for what comes next.
 */
import type { GroupCommitWriter } from "../store/db/group-commit.ts";
import { freePageStore } from "../store/db/vacuum.ts";
import type { Db } from "../store/db/types.ts";

/** Unused fraction of the file above which pages are released. */
const START_FRACTION = 0.2;
/** Unused fraction of the file at which releasing stops. */
const STOP_FRACTION = 0.1;
/** Below this many unused bytes, releasing them is not worth the writes. */
const MIN_FREE_BYTES = 16 << 20;
/** Time of one step: the thread must not be blocked for longer than by a batch of writes. */
const STEP_MS = 5;
const MAX_PAGES_PER_STEP = 256;
/** Steps in a row: some tens of megabytes. The write-ahead log is copied in between. */
const MAX_STEPS = 50;

/**
 * @param options `minFreeBytes` and `clock` (milliseconds) are for tests
 * @returns the periodic task; it resolves with the bytes that it released
 */
export function createIncrementalVacuum({
  db,
  writer,
  minFreeBytes = MIN_FREE_BYTES,
  clock = () => performance.now(),
}: {
  db: Db;
  writer: GroupCommitWriter;
  minFreeBytes?: number;
  clock?(): number;
}): () => Promise<number> {
  const space = freePageStore(db);
  let isReleasing = false;
  let pagesPerStep = 16;

  /** How many pages should be released; 0 when the file is fine as it is. */
  function countExcessPages(): number {
    const { total, free, bytes, isIncremental } = space.readPageCounts();
    if (!isIncremental || free * bytes < minFreeBytes) isReleasing = false;
    else if (free > total * START_FRACTION) isReleasing = true;
    if (!isReleasing) return 0;
    // Afterwards STOP_FRACTION of the remaining pages is unused.
    const excess = Math.ceil((free - total * STOP_FRACTION) / (1 - STOP_FRACTION));
    isReleasing = excess > 0;
    return Math.max(0, excess);
  }

  async function releaseStep(excess: number): Promise<void> {
    const tookMs = await writer.run(() => {
      const startedAt = clock();
      space.reclaim(Math.min(pagesPerStep, excess));
      return clock() - startedAt;
    });
    if (tookMs > STEP_MS / 2) pagesPerStep = Math.max(1, Math.floor(pagesPerStep / 2));
    else if (tookMs < STEP_MS / 4) pagesPerStep = Math.min(MAX_PAGES_PER_STEP, pagesPerStep * 2);
  }

  return async () => {
    const before = space.readPageCounts();
    for (let step = 0, excess = countExcessPages(); step < MAX_STEPS && excess > 0; step += 1) {
      await releaseStep(excess);
      excess = countExcessPages();
    }
    return Math.max(0, before.total - space.readPageCounts().total) * before.bytes;
  };
}
