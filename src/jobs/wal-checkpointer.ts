/**
 * Keeps the write-ahead log short. SQLite restarts the log only when all of it was copied into the database file and no
 * reader uses it any more, so readers that overlap without a pause would let it grow forever. While the recording
 * thread has exclusive write access and everything is copied, new readers use the file alone, and only the earlier ones
 * have to end. So the longer the log, the longer that thread may wait for readers, while writes are queued.
 */
import type { Logger } from "../log.ts";
import type { WalReader } from "../store/db/wal.ts";

/** The write-ahead log of a data directory, see store/db/wal.ts. */
type WalFile = { bytes(): number; readers(): WalReader[] };

export type CheckpointLimits = {
  /** From a length of so many bytes on, how many milliseconds a checkpoint waits for readers. */
  steps: readonly { fromBytes: number; busyTimeoutMs: number }[];
  /** Length at which the operator is warned. */
  alarmBytes: number;
};

const MB = 1 << 20;

/**
 * Readers of this server take a second at most (audit-packages/package-worker.ts), so two seconds are enough for all of
 * them. Writes wait that long once in tens of thousands of writes, and only under readers without a pause.
 */
export const CHECKPOINT_LIMITS: CheckpointLimits = {
  steps: [
    { fromBytes: 64 * MB, busyTimeoutMs: 25 },
    { fromBytes: 96 * MB, busyTimeoutMs: 250 },
    { fromBytes: 128 * MB, busyTimeoutMs: 2000 },
  ],
  alarmBytes: 256 * MB,
};

/** How many milliseconds a checkpoint of a log of that length may hold back writes; 0: none is needed. */
export const busyTimeoutFor = (bytes: number, { steps }: CheckpointLimits): number =>
  steps.reduce((most, { fromBytes, busyTimeoutMs }) => (bytes >= fromBytes ? Math.max(most, busyTimeoutMs) : most), 0);

/** A log that stays long is reported again after this many checks. */
const CHECKS_PER_WARNING = 60;

/**
 * Creates the periodic check of the log.
 * @param options `checkpoint` empties the log, waiting that many milliseconds for readers; null when another program is
 *   responsible for that, and is then named in the warning
 */
export function createWalWatch({
  file,
  checkpoint,
  logger,
  limits = CHECKPOINT_LIMITS,
}: {
  file: WalFile;
  checkpoint: ((busyTimeoutMs: number) => Promise<void>) | null;
  logger: Logger;
  limits?: CheckpointLimits;
}): () => Promise<void> {
  let longChecks = 0;
  return async () => {
    const busyTimeoutMs = busyTimeoutFor(file.bytes(), limits);
    if (busyTimeoutMs > 0 && checkpoint) await checkpoint(busyTimeoutMs);
    const bytes = file.bytes();
    if (bytes < limits.alarmBytes) {
      if (longChecks > 0) logger.info({ wal_bytes: bytes }, "the write-ahead log is short again");
      longChecks = 0;
      return;
    }
    if (longChecks % CHECKS_PER_WARNING === 0) {
      const cause =
        checkpoint === null
          ? "the program that should empty it (checkpoints: external) does not"
          : "a reader of the database does not end";
      logger.warn(
        { wal_bytes: bytes, readers: file.readers() },
        `the write-ahead log keeps growing: ${cause}; see assay help space`,
      );
    }
    longChecks += 1;
  };
}
