import { freePageStore } from "../store/db/incremental-vacuum.ts";
import type { GroupCommitWriter } from "../store/db/group-commit.ts";
import type { Db } from "../store/db/types.ts";

const FROM = 0.2;
const DOWN_TO = 0.1;
/** Bytes below which nothing is worth the writes. */
const LEAST = 16 << 20;
/** Milliseconds for a step, as for a batch of writes. */
const STEP_MS = 5;
const MOST_PAGES = 256;
/** Steps in a row: some tens of megabytes, and the log is copied in between. */
const STEPS = 50;

/**
 * @returns the chore; it resolves with the bytes that were given back. `least` and `clock` (milliseconds) are for
 * tests.
 */
export function createGiveBack({
  db,
  writer,
  least = LEAST,
  clock = () => performance.now(),
}: {
  db: Db;
  writer: GroupCommitWriter;
  least?: number;
  clock?(): number;
}): () => Promise<number> {
  const space = freePageStore(db);
  let going = false;
  let pages = 16;

  /** How many pages are too many; 0 when the file is well as it is. */
  function excess(): number {
    const { total, free, bytes, isIncremental } = space.readPageCounts();
    if (!isIncremental || free * bytes < least) going = false;
    else if (free > total * FROM) going = true;
    if (!going) return 0;
    // Of what is left then, a tenth is free.
    const wanted = Math.ceil((free - total * DOWN_TO) / (1 - DOWN_TO));
    going = wanted > 0;
    return Math.max(0, wanted);
  }

  return async () => {
    const before = space.readPageCounts();
    for (let step = 0, left = excess(); step < STEPS && left > 0; step += 1, left = excess()) {
      const took = await writer.run(() => {
        const started = clock();
        space.reclaim(Math.min(pages, left));
        return clock() - started;
      });
      pages =
        took > STEP_MS / 2
          ? Math.max(1, Math.floor(pages / 2))
          : took < STEP_MS / 4
            ? Math.min(MOST_PAGES, pages * 2)
            : pages;
    }
    return Math.max(0, before.total - space.readPageCounts().total) * before.bytes;
  };
}
