/**
 * Periodic tasks of a serving process. Each runs at the start and then at its interval, never twice at a time. Work
 * that a committed write asks for is a job instead (jobs/job-runner.ts).
 */
import { systemSources } from "../clock.ts";
import type { EvidenceStore } from "../evidence/local-store.ts";
import { closeExpiredKeys } from "../jobs/expire-keys.ts";
import { createIncrementalVacuum } from "../jobs/incremental-vacuum.ts";
import type { JobRunner } from "../jobs/job-runner.ts";
import type { Logger } from "../log.ts";
import { warnOfExpiringKeys } from "../notifications/key-expiry-warnings.ts";
import type { CommitNumbering } from "../store/db/commit-number.ts";
import { lockEvidence } from "../store/db/data-directory-lock.ts";
import { isLoggedRefusal } from "../store/db/group-commit.ts";
import type { GroupCommitWriter } from "../store/db/group-commit.ts";
import type { Db } from "../store/db/types.ts";
import type { UnknownInputRow } from "../store/accounts/unknown-inputs.ts";
import type { Store } from "../store/index.ts";
import type { ScheduledBackups } from "./backup-schedule.ts";
import type { ClockWatch } from "./clock-watch.ts";
import type { DiskGuard } from "./disk-guard.ts";

/** What is counted in memory is written this often: at most a minute of it is lost with a loss of power. */
const COUNTS_INTERVAL_MS = 60_000;

const SWEEP_INTERVAL_MS = 3_600_000;

/** How often expiring keys are looked for; warnings count in days. */
const KEY_WARNING_INTERVAL_MS = 3_600_000;

/**
 * Age at which evidence that no record references is deleted. It must exceed the time of any request from its
 * upload to its commit (see local-store.ts), and leaves an operator who restores yesterday's database with all of its
 * files.
 */
export const UNREFERENCED_EVIDENCE_AGE_S = 86_400;

/** How long delivered messages can be looked up. */
const DELIVERED_RETENTION_S = 30 * 86_400;

/** How long records of expired sessions are kept; the audit log keeps their start and end for good. */
const SESSION_RETENTION_S = 30 * 86_400;

/** Rows deleted in one write, with what belongs to them: a millisecond or two. */
const SWEEP_BATCH_SIZE = 200;

/**
 * How often the database is checked for writes by other connections: the command line or the recording thread may have
 * added a job. A check takes a few microseconds.
 */
const FOREIGN_WRITES_INTERVAL_MS = 1_000;

/** How often free space is measured: it takes microseconds, and a second of uploads still fits into the reserve. */
const DISK_CHECK_INTERVAL_MS = 1_000;

/** How often the write-ahead log is checked: in between, a disk can write a few hundred megabytes at the very most. */
const WAL_CHECK_INTERVAL_MS = 5_000;

/** How often the clock is compared with the expected time, which reads one row. */
const CLOCK_CHECK_INTERVAL_MS = 10_000;

/** How often expired keys are closed. They are refused as soon as they expire; this guards against a clock set back. */
const KEY_EXPIRY_INTERVAL_MS = 60_000;

/** How often unused pages of the database are released, some tens of megabytes each time. */
const VACUUM_INTERVAL_MS = 10_000;

/** How often the server checks whether a backup is due, which lists one directory. */
const BACKUP_CHECK_INTERVAL_MS = 10_000;

type SchedulerDependencies = {
  directory: string;
  backups: ScheduledBackups;
  diskGuard: DiskGuard;
  clock: ClockWatch;
  db: Db;
  store: Store;
  numbering: CommitNumbering;
  evidence: EvidenceStore;
  writer: GroupCommitWriter;
  runner: JobRunner;
  logger: Logger;
  baseUrl(): string;
  /** How long Rego evaluations without a decision are kept. */
  evaluationRetentionS: number;
  watchWal(): Promise<void>;
};

type Task = { name: string; intervalMs: number; run(): Promise<void> };

/** Starts all periodic tasks. @returns a function that stops them */
export function startScheduler(dependencies: SchedulerDependencies): () => void {
  const { backups, clock, diskGuard, logger, store, writer, watchWal } = dependencies;
  const tasks: Task[] = [
    { name: "checking the clock", intervalMs: CLOCK_CHECK_INTERVAL_MS, run: clock.check },
    closeKeysTask(dependencies),
    { name: "checking the write-ahead log", intervalMs: WAL_CHECK_INTERVAL_MS, run: watchWal },
    releasePagesTask(dependencies),
    { name: "checking free space", intervalMs: DISK_CHECK_INTERVAL_MS, run: diskGuard.check },
    { name: "the check for a due backup", intervalMs: BACKUP_CHECK_INTERVAL_MS, run: backups.runIfDue },
    ...sweepTasks(dependencies),
    keyWarningTask(dependencies),
    {
      name: "saving the last uses of keys and sessions, and what clients sent that is unknown",
      intervalMs: COUNTS_INTERVAL_MS,
      async run() {
        for (const { client, kind, operation, name } of await saveCounts({ store, writer }))
          logger.info({ client, kind, operation, name }, "a client sent something that this server does not know");
      },
    },
    foreignWritesTask(dependencies),
  ];
  const stops = tasks.map((task) => runEvery(task, logger));
  return () => {
    for (const stop of stops) stop();
  };
}

function closeKeysTask({ store, writer, clock, logger }: SchedulerDependencies): Task {
  return {
    name: "closing expired API keys",
    intervalMs: KEY_EXPIRY_INTERVAL_MS,
    async run() {
      const closed = await closeExpiredKeys({ store, writer, endedBy: clock.endedBy });
      if (closed > 0) logger.info({ keys: closed }, "closed expired API keys");
    },
  };
}

function keyWarningTask({ store, writer, clock, logger, baseUrl }: SchedulerDependencies): Task {
  return {
    name: "warning of expiring API keys",
    intervalMs: KEY_WARNING_INTERVAL_MS,
    async run() {
      // A clock that is two years ahead would warn of all keys that expire within two years.
      if (clock.report().state === "ahead") return;
      const warned = await warnOfExpiringKeys({ store, writer, now: systemSources.now, url: baseUrl });
      if (warned > 0) logger.info({ keys: warned }, "sent warnings of API keys that expire soon");
    },
  };
}

function sweepTasks(dependencies: SchedulerDependencies): Task[] {
  const { directory, store, numbering, writer, clock, diskGuard, evidence, evaluationRetentionS, logger } =
    dependencies;
  const deleteInBatches = async (deleteBatch: () => number): Promise<void> => {
    while ((await writer.run(deleteBatch)) === SWEEP_BATCH_SIZE);
  };
  return [
    {
      name: "deleting unreferenced evidence",
      intervalMs: SWEEP_INTERVAL_MS,
      async run() {
        // Attestations that are missing (store/db/commit-number.ts) may come back with a restore, and need their files.
        if (numbering.missing() > 0) return;
        // The database that comes back may name files that this one does not.
        if (diskGuard.checkFiles() !== null) return;
        // A running backup needs what its copy of the database references; the next turn deletes it.
        const lock = lockEvidence(directory);
        if (!lock) return;
        const { removed, bytes } = await evidence
          .sweep({
            isReferenced: store.evidenceLocation.isReferenced,
            olderThan: clock.trustedNow() - UNREFERENCED_EVIDENCE_AGE_S,
          })
          .finally(lock.release);
        if (removed > 0) logger.info({ files: removed, bytes }, "deleted evidence that no record references");
      },
    },
    {
      name: "deleting delivered messages",
      intervalMs: SWEEP_INTERVAL_MS,
      async run() {
        const before = clock.trustedNow() - DELIVERED_RETENTION_S;
        await deleteInBatches(() => store.outbox.deleteDelivered(before, SWEEP_BATCH_SIZE));
      },
    },
    {
      name: "deleting old Rego evaluations",
      intervalMs: SWEEP_INTERVAL_MS,
      async run() {
        const before = clock.trustedNow() - evaluationRetentionS;
        await deleteInBatches(() => store.regoEvaluations.removeOld(before, SWEEP_BATCH_SIZE));
      },
    },
    {
      name: "deleting old sessions",
      intervalMs: SWEEP_INTERVAL_MS,
      async run() {
        const before = clock.trustedNow() - SESSION_RETENTION_S;
        await deleteInBatches(() => store.sessions.deleteExpired(before, SWEEP_BATCH_SIZE));
      },
    },
  ];
}

function releasePagesTask({ db, writer, logger }: SchedulerDependencies): Task {
  const releasePages = createIncrementalVacuum({ db, writer });
  return {
    name: "releasing unused pages of the database",
    intervalMs: VACUUM_INTERVAL_MS,
    async run() {
      const bytes = await releasePages();
      if (bytes > 0) logger.info({ bytes }, "released unused pages of the database");
    },
  };
}

/** Wakes the job runner when another connection has written. */
function foreignWritesTask({ db, runner }: SchedulerDependencies): Task {
  const dataVersion = db.prepare<[], number>("PRAGMA data_version").pluck();
  let lastVersion = dataVersion.get();
  return {
    name: "checking for jobs of other processes",
    intervalMs: FOREIGN_WRITES_INTERVAL_MS,
    async run() {
      const version = dataVersion.get();
      if (version !== lastVersion) runner.wake();
      lastVersion = version;
    },
  };
}

/**
 * Writes the last uses of keys and sessions, and what clients sent that is unknown, if there are any.
 * @returns what no client sent before
 */
export async function saveCounts({
  store: { apiKeys, sessions, unknownInputs },
  writer,
}: Pick<SchedulerDependencies, "store" | "writer">): Promise<UnknownInputRow[]> {
  if (!apiKeys.hasUnwrittenUses() && !sessions.hasUnwrittenUses() && !unknownInputs.hasUnwritten()) return [];
  return writer.run(() => {
    apiKeys.flushUses();
    sessions.flushUses();
    return unknownInputs.hasUnwritten() ? unknownInputs.flush(systemSources.now()) : [];
  });
}

/**
 * Runs a task now and at its interval, never twice at a time. A failure is logged, and the task runs again at its next
 * interval.
 */
function runEvery({ name, intervalMs, run }: Task, logger: Logger): () => void {
  let isRunning = false;
  let isStopped = false;
  const turn = async (): Promise<void> => {
    if (isRunning) return;
    isRunning = true;
    try {
      await run();
    } catch (error) {
      // Parts that close under a running task end it, which is not a failure.
      if (!isStopped && !isLoggedRefusal(error))
        logger.error({ err: error }, `${name} failed; it is retried at the next interval`);
    } finally {
      isRunning = false;
    }
  };
  const timer = setInterval(() => void turn(), intervalMs);
  timer.unref();
  void turn();
  return () => {
    isStopped = true;
    clearInterval(timer);
  };
}
