/**
 * Keeps the write-ahead log short. SQLite begins it anew only when all of it was copied into the database file and
 * nobody reads from it any more, so readers that overlap each other for ever would let it grow for ever. While the
 * right to write is lent to the recording thread, and all is copied, new readers read from the file alone: then those
 * that are left only have to come to their end. So the longer the log, the longer that thread may wait for them with
 * the writes held back, which are queued meanwhile.
 */
import type { Logger } from "../log.ts";
import type { WalReader } from "../store/db/wal.ts";

/** The log of a data directory, as store/wal.ts knows it. */
export type WalFile = { bytes(): number; readers(): WalReader[] };

/** Bytes of the log; milliseconds. */
export type CheckpointLimits = { steps: readonly { from: number; patience: number }[]; alarm: number };

const MB = 1 << 20;

/**
 * Readers of this server take a second at most (workers/package-worker.ts), so two of them end every one. Writes wait
 * for so long once in tens of thousands of writes, and only while somebody reads without a pause.
 */
export const LIMITS: CheckpointLimits = {
  steps: [
    { from: 64 * MB, patience: 25 },
    { from: 96 * MB, patience: 250 },
    { from: 128 * MB, patience: 2000 },
  ],
  alarm: 256 * MB,
};

/** How long writes may be held back for a log of that length, in milliseconds; 0: not at all. */
export const patienceFor = (bytes: number, { steps }: CheckpointLimits): number =>
  steps.reduce((most, { from, patience }) => (bytes >= from ? Math.max(most, patience) : most), 0);

/** How often somebody is told of a log that stays long, in turns of the chore. */
const TOLD_EVERY = 60;

/**
 * The chore that looks at the log.
 * @param parts `checkpoint` empties it with that patience; null when a program beside this server does, which is then
 * told of as well.
 */
export function createLogWatch({
  file,
  checkpoint,
  logger,
  limits = LIMITS,
}: {
  file: WalFile;
  checkpoint: ((patience: number) => Promise<void>) | null;
  logger: Logger;
  limits?: CheckpointLimits;
}): () => Promise<void> {
  let alarmed = 0;
  return async () => {
    const patience = patienceFor(file.bytes(), limits);
    if (patience > 0 && checkpoint) await checkpoint(patience);
    const bytes = file.bytes();
    if (bytes < limits.alarm) {
      if (alarmed > 0) logger.info({ wal_bytes: bytes }, "the write-ahead log is short again");
      alarmed = 0;
      return;
    }
    if (alarmed % TOLD_EVERY === 0) {
      const readers = file.readers();
      const own =
        checkpoint === null
          ? "the program that empties it (checkpoints: external) does not"
          : "somebody reads the database without an end";
      logger.warn({ wal_bytes: bytes, readers }, `the write-ahead log cannot be emptied: ${own}; see assay help space`);
    }
    alarmed += 1;
  };
}
