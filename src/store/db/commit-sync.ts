/**
 * Makes commits durable without keeping the thread waiting. In WAL mode with synchronous = FULL, SQLite waits for the
 * disk inside COMMIT, and a thread that serves requests waits with it: every read beside a write takes as long as the
 * disk, and a disk that hangs hangs the health probe. So the connection of the writer commits with synchronous =
 * NORMAL, which leaves a commit in the memory of the system, and a thread of libuv syncs the log.
 *
 * Invariants: a sync begins after the commit that it makes durable, and no commit follows before it ends; after a sync
 * that failed nothing is called any more.
 *
 * Checkpoints and the restart of the log keep the syncs of their own that NORMAL has. All other connections keep FULL.
 */
import { closeSync, fdatasync, openSync } from "node:fs";
import { join } from "node:path";
import type { Db } from "./types.ts";

export type CommitSync = {
  /** Makes what was just committed durable, then calls `done`. Call it while no sync runs. */
  start(done: () => void): void;
  /** Calls `done` when no sync runs any more; at once if none does. */
  whenDurable(done: () => void): void;
  /** Whether something that was committed is not durable yet. */
  isPending(): boolean;
};

/** The log could not be synced: which commits a power cut would leave is not known. The process has to end. */
export class LogSyncError extends Error {
  override readonly name = "LogSyncError";

  constructor(cause: unknown) {
    const reason = (cause as NodeJS.ErrnoException).code ?? String(cause);
    super(
      `the write-ahead log could not be synced to disk (${reason}): the latest changes are not acknowledged and may ` +
        "be lost, and the server ends. Look after the disk, then start it again",
      { cause },
    );
  }
}

/**
 * @param sync makes everything durable that was written before the call
 * @param onFailure gets a LogSyncError and ends the process
 */
export function createCommitSync(
  sync: (done: (error: unknown) => void) => void,
  onFailure: (error: LogSyncError) => void,
): CommitSync {
  /** Who waits for the sync that runs; null while none does. */
  let waiting: (() => void)[] | null = null;
  return {
    start(done) {
      if (waiting) throw new Error("a commit during a sync");
      waiting = [done];
      sync((error) => {
        if (error) {
          onFailure(new LogSyncError(error));
          return;
        }
        const calls = waiting ?? [];
        waiting = null;
        for (const call of calls) call();
      });
    },
    whenDurable(done) {
      if (waiting) waiting.push(done);
      else done();
    },
    isPending: () => waiting !== null,
  };
}

/** Where all is durable when COMMIT returns: in memory, and where the connection waits for the disk itself. */
export const DURABLE: CommitSync = {
  start: (done) => done(),
  whenDurable: (done) => done(),
  isPending: () => false,
};

/**
 * The log of a database, for `createCommitSync`. Makes the connection commit without waiting for the disk. While a
 * connection is open, SQLite keeps its log under the same name in the same file, so it is opened once; whether it was
 * replaced from outside is looked at with each commit (file-watch.ts).
 * @throws the system's error
 */
export function openLogSync(db: Db, directory: string): { sync(done: (error: unknown) => void): void; close(): void } {
  // The first read opens the log.
  db.prepare("SELECT count(*) FROM sqlite_schema").get();
  const descriptor = openSync(join(directory, "assay.db-wal"), "r");
  db.pragma("synchronous = NORMAL");
  return {
    sync: (done) => fdatasync(descriptor, done),
    // Drops no lock of SQLite, as closing the database file would: it has none on the log.
    close: () => closeSync(descriptor),
  };
}
