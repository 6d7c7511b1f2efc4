/**
 * The write path: the group-commit writer, the recorder of reports, and the runner of the jobs that writes add.
 */
import type { Urls } from "../contract/urls.ts";
import type { Timer } from "../domain/time.ts";
import { createAllowlistEnds } from "../jobs/end-allowlist-entries.ts";
import { createKeyExpiry } from "../jobs/expire-keys.ts";
import { createJobRunner } from "../jobs/job-runner.ts";
import { createRecorder } from "../jobs/recorder.ts";
import type { RecordingPool } from "../jobs/recorder.ts";
import type { Logger } from "../log.ts";
import { createEventNotifier } from "../notifications/compose-messages.ts";
import { createDailyChanges } from "../notifications/daily-changes.ts";
import { createDeliverer } from "../notifications/deliver.ts";
import type { Sender } from "../notifications/sender.ts";
import type { CommitNumbering } from "../store/db/commit-number.ts";
import type { CommitSync } from "../store/db/commit-sync.ts";
import { delegateCheckpoints, LOCK_TIMEOUT_MS } from "../store/db/connection.ts";
import { GroupCommitWriter } from "../store/db/group-commit.ts";
import type { WriteGuard } from "../store/db/types.ts";
import type { Db } from "../store/db/types.ts";
import type { LockHolder } from "../store/db/wal.ts";
import type { WriteLockOptions } from "../store/db/write-lock.ts";
import type { Store } from "../store/index.ts";
import type { ConcurrencyLimit } from "../workers/concurrency-limit.ts";
import type { AcquireMemory } from "../workers/task-memory.ts";
import { jobHandlers, PARALLEL_BY_KIND } from "./job-handlers.ts";
import type { Metrics } from "./metrics.ts";

type WritePathDependencies = {
  db: Db;
  store: Store;
  /** Epoch seconds. */
  now(): number;
  timer: Timer;
  logger: Logger;
  /** The recording thread; null over a database in memory, which threads cannot share. */
  pool: RecordingPool | null;
  /** null: outgoing messages stay in the outbox. */
  sender: Sender | null;
  /** Called once the server listens. */
  urls(): Urls;
  guard?: WriteGuard;
  /** Numbers the commits; without it they have no number. */
  numbering?: CommitNumbering;
  /** Makes commits durable; needed unless COMMIT itself does (commit-sync.ts). */
  sync?: CommitSync;
  /** Whether the write-ahead log may be copied into the database now; always unless given. */
  mayCheckpoint?(): boolean;
  /** Finds the process that holds the write lock, for the log and for refusals; none unless given. */
  findLockHolder?(): LockHolder | null;
  /** Called after every batch of writes. */
  batchEnded?: Metrics["batchEnded"];
  /** "external": another program empties the write-ahead log. */
  checkpoints?: "own" | "external";
  readingTurns?: ConcurrencyLimit;
  /** Takes the memory that recording a large report needs; unbounded unless given. */
  acquireMemory?: AcquireMemory;
  /** The time by which keys and allowlist entries end; `now` unless given. */
  trustedNow?(): number;
};

/**
 * How long a job that ended waits for others to share its commit. A hundredth of a second is what a commit may take,
 * and no client waits for the end of a job to the tenth of a second.
 */
const COALESCE_WINDOW_S = 0.05;

/** Builds the write path. Every commit that added jobs wakes the runner. */
export function createWritePath(dependencies: WritePathDependencies) {
  const { db, store, now, timer, logger, pool, sender, checkpoints = "own", readingTurns } = dependencies;
  const writer: GroupCommitWriter = new GroupCommitWriter(db, {
    lock: lockOptions(dependencies),
    onBatch(writes, milliseconds, committed) {
      dependencies.batchEnded?.({ writes, milliseconds, committed });
      if (store.jobs.takeAddedFlag()) runner.wake();
      recorder.onCommit(writes);
    },
    ...(dependencies.guard ? { guard: dependencies.guard } : {}),
    ...(dependencies.numbering ? { numbering: dependencies.numbering } : {}),
    ...(dependencies.sync ? { sync: dependencies.sync } : {}),
  });
  const recorder = createRecorder({
    store,
    writer,
    now,
    pool,
    checkpoints,
    ...(dependencies.mayCheckpoint ? { mayCheckpoint: dependencies.mayCheckpoint } : {}),
    ...(readingTurns ? { readingTurns } : {}),
    ...(dependencies.acquireMemory ? { acquireMemory: dependencies.acquireMemory } : {}),
    jobsAdded: () => runner.wake(),
  });
  if (pool) delegateCheckpoints(db, checkpoints);
  const handlers = jobHandlers({
    ...recorder,
    ...createKeyExpiry({ store, writer, now, trustedNow: dependencies.trustedNow ?? now }),
    ...createAllowlistEnds({ store, now, trustedNow: dependencies.trustedNow ?? now }),
    ...createEventNotifier({ store, links: dependencies.urls }),
    ...createDailyChanges({ store, urls: dependencies.urls, now, trustedNow: dependencies.trustedNow ?? now }),
    deliver: sender && createDeliverer({ store, sender, now, logger }),
  });
  const runner = createJobRunner({
    store,
    writer,
    now,
    timer,
    logger,
    handlers,
    parallel: PARALLEL_BY_KIND,
    coalesceWindowS: COALESCE_WINDOW_S,
  });
  return { writer, recorder, runner, jobKinds: Object.keys(handlers) };
}

/** Logs a write lock that another process holds for long, once when it is noticed and once when it is free again. */
const lockOptions = ({
  logger,
  findLockHolder,
}: Pick<WritePathDependencies, "logger" | "findLockHolder">): WriteLockOptions => ({
  ...(findLockHolder ? { findHolder: findLockHolder } : {}),
  onHeld: ({ heldMs, holder }) =>
    logger.warn(
      { held_ms: Math.round(heldMs), holder },
      "another process holds the write lock of the database: changes wait and are refused after " +
        `${LOCK_TIMEOUT_MS / 1_000} seconds, reads continue`,
    ),
  onFree: ({ heldMs, refused }) =>
    logger.warn({ held_ms: Math.round(heldMs), refused }, "the write lock of the database is free again"),
});
