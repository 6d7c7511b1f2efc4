/**
 * What a serving process does by the clock, beside answering: each chore runs at the start and then every so often,
 * never twice at a time. What a committed write asks for is no chore but a job (jobs/runner.ts).
 */
import { systemSources } from "./app.ts";
import { AppError } from "../errors.ts";
import type { ScheduledBackups } from "./backup-schedule.ts";
import type { ClockWatch } from "./clock-watch.ts";
import { closeLapsedKeys } from "../jobs/expire-keys.ts";
import { warnOfEndingKeys } from "../notifications/key-expiry-warnings.ts";
import type { Runner } from "../jobs/job-runner.ts";
import { createGiveBack } from "../jobs/incremental-vacuum.ts";
import type { Logger } from "../log.ts";
import type { DiskGuard } from "./disk-guard.ts";
import { lockEvidence } from "../store/db/data-directory-lock.ts";
import type { Store } from "../store/index.ts";
import type { GroupCommitWriter } from "../store/db/group-commit.ts";
import type { Vault } from "../evidence/local-store.ts";
import type { Db } from "../store/db/types.ts";

/** How often the last uses of keys are written: what a loss of power may cost, and one small write a minute. */
const USES_EVERY_MS = 60_000;

const SWEEP_EVERY_MS = 3_600_000;

/** How often keys that are about to end are looked for; warnings are told in days. */
const WARN_EVERY_MS = 3_600_000;

/**
 * Evidence that no attestation names stays this long, in seconds. It must be longer than any request takes from its
 * upload to its commit (see vault.ts), and leaves an operator who restores a database of yesterday with all of its
 * files.
 */
export const SWEEP_AGE = 86_400;

/** What was delivered can be looked up this long, in seconds. */
const KEEP_DELIVERED = 30 * 86_400;

/** What is known of a session stays this long after its time, in seconds; the audit log keeps that there was one. */
const KEEP_SESSIONS = 30 * 86_400;

/** Messages that are deleted in one write, with their log: a millisecond or two. */
const SWEEP_AT_ONCE = 200;

/**
 * How often the database is asked whether another connection wrote: the command line, or the recording thread, may have
 * left a job. It costs a few microseconds.
 */
const LOOK_AROUND_MS = 1000;

/**
 * How often the free space is measured: a few microseconds, and what a full second of uploads takes is still within the
 * reserve.
 */
const ROOM_EVERY_MS = 1_000;

/**
 * How often the length of the write-ahead log is looked at: what a disk takes in the meantime is a few hundred
 * megabytes at the very most.
 */
const LOG_EVERY_MS = 5_000;

/** How often the clock is compared with the time that is expected: one row is read. */
const CLOCK_EVERY_MS = 10_000;

/**
 * How often keys are closed whose time is over. They are refused from then on; this is about a clock that is set back.
 */
const CLOSE_KEYS_EVERY_MS = 60_000;

/** How often free pages of the database are given back, some tens of megabytes each time. */
const GIVE_BACK_EVERY_MS = 10_000;

/** How often the server looks whether a backup is due, which is a look into a directory. */
const BACKUP_LOOK_MS = 10_000;

type ChoreParts = {
  directory: string;
  backups: ScheduledBackups;
  room: DiskGuard;
  clock: ClockWatch;
  db: Db;
  store: Store;
  vault: Vault;
  writer: GroupCommitWriter;
  runner: Runner;
  logger: Logger;
  baseUrl(): string;
  watchLog(): Promise<void>;
};

/** Starts all chores; the function that is returned stops them. */
export function startScheduler({
  directory,
  backups,
  room,
  clock,
  db,
  store,
  vault,
  writer,
  runner,
  logger,
  baseUrl,
  watchLog,
}: ChoreParts): () => void {
  const sweep = async (): Promise<void> => {
    // A backup that is being made needs what its copy of the database names; the next turn sweeps.
    const lock = lockEvidence(directory);
    if (!lock) return;
    const removed = await vault
      .sweep({ isReferenced: store.attestations.isEvidenceReferenced, olderThan: clock.trusted() - SWEEP_AGE })
      .finally(lock.release);
    if (removed.removed > 0)
      logger.info({ files: removed.removed, bytes: removed.bytes }, "removed evidence that no attestation names");
  };
  const sweepDeliveries = async (): Promise<void> => {
    const before = clock.trusted() - KEEP_DELIVERED;
    while ((await writer.run(() => store.outbox.deleteDelivered(before, SWEEP_AT_ONCE))) === SWEEP_AT_ONCE);
  };
  const sweepSessions = async (): Promise<void> => {
    const before = clock.trusted() - KEEP_SESSIONS;
    while ((await writer.run(() => store.sessions.deleteExpired(before, SWEEP_AT_ONCE))) === SWEEP_AT_ONCE);
  };
  const others = db.prepare<[], number>("PRAGMA data_version").pluck();
  let seen = others.get();
  const pollForeignWrites = async (): Promise<void> => {
    const version = others.get();
    if (version !== seen) runner.wake();
    seen = version;
  };
  const closeKeys = async (): Promise<void> => {
    const closed = await closeLapsedKeys({ store, writer, now: clock.trusted });
    if (closed > 0) logger.info({ keys: closed }, "closed API keys whose time is over");
  };
  const warn = async (): Promise<void> => {
    // Nobody wants to be warned of the keys of the next two years.
    if (clock.report().state === "ahead") return;
    const warned = await warnOfEndingKeys({ store, writer, now: systemSources.now, url: baseUrl });
    if (warned > 0) logger.info({ keys: warned }, "warned of API keys that are about to end");
  };
  const giveBackPages = createGiveBack({ db, writer });
  const giveBack = async (): Promise<void> => {
    const bytes = await giveBackPages();
    if (bytes > 0) logger.info({ bytes }, "gave free pages of the database back");
  };
  const chores = [
    runEvery(clock.look, CLOCK_EVERY_MS, logger, "looking at the clock"),
    runEvery(closeKeys, CLOSE_KEYS_EVERY_MS, logger, "closing API keys whose time is over"),
    runEvery(watchLog, LOG_EVERY_MS, logger, "emptying the write-ahead log"),
    runEvery(giveBack, GIVE_BACK_EVERY_MS, logger, "giving back free pages"),
    runEvery(room.check, ROOM_EVERY_MS, logger, "looking at the free space"),
    runEvery(backups.look, BACKUP_LOOK_MS, logger, "looking whether a backup is due"),
    runEvery(sweep, SWEEP_EVERY_MS, logger, "sweeping the evidence"),
    runEvery(sweepDeliveries, SWEEP_EVERY_MS, logger, "sweeping delivered messages"),
    runEvery(sweepSessions, SWEEP_EVERY_MS, logger, "sweeping the sessions of long ago"),
    runEvery(warn, WARN_EVERY_MS, logger, "warning of API keys that are about to end"),
    runEvery(
      () => flushLastUsed({ store, writer }),
      USES_EVERY_MS,
      logger,
      "writing the last uses of keys and sessions",
    ),
    runEvery(pollForeignWrites, LOOK_AROUND_MS, logger, "looking for jobs of others"),
  ];
  return () => chores.forEach((stop) => stop());
}

/** Writes the last uses of keys and sessions, if there are any. */
export async function flushLastUsed({
  store: { apiKeys, sessions },
  writer,
}: {
  store: Store;
  writer: GroupCommitWriter;
}): Promise<void> {
  if (!apiKeys.hasUnwrittenUses() && !sessions.hasUnwrittenUses()) return;
  await writer.run(() => {
    apiKeys.flushUses();
    sessions.flushUses();
  });
}

/**
 * Runs a chore now and then every so often, never twice at a time; a failure is logged and the next turn tries again.
 */
export function runEvery(chore: () => Promise<void>, milliseconds: number, logger: Logger, what: string): () => void {
  let running = false;
  let stopped = false;
  const turn = async (): Promise<void> => {
    if (running) return;
    running = true;
    try {
      await chore();
    } catch (error) {
      // A part that is closed under a chore is the end of the chore and no failure; that no changes are taken was told
      // already.
      const noRoom = error instanceof AppError && error.code === "no_space";
      if (!stopped && !noRoom) logger.error({ err: error }, `${what} failed`);
    } finally {
      running = false;
    }
  };
  const timer = setInterval(() => void turn(), milliseconds);
  timer.unref();
  void turn();
  return () => {
    stopped = true;
    clearInterval(timer);
  };
}
