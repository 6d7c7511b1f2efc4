/**
 * Scheduled backups: when one is due, what it is called, and which are kept. The directory is the only state, so a
 * restart neither delays nor skips a backup, and listing the directory shows the last good one.
 */
import { existsSync, readdirSync, statSync } from "node:fs";
import { rm } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { BackupError, IncompleteEvidenceError } from "../backup/errors.ts";
import type { BackupSummary } from "../backup/make.ts";
import type { Config } from "../config/options.ts";
import type { Logger } from "../log.ts";
import { createDirectory } from "../store/db/directories.ts";
import { giveToOwner } from "../store/db/state-directory.ts";

/** A complete backup: its file name, its size in bytes, and the time in its name, in epoch seconds. */
type BackupFile = { file: string; time: number; bytes: number };

/** Matches the names of complete backups. */
const COMPLETE_NAME = /^assay-backup-(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z\.tar$/;
/** Matches backups without the evidence that was missing or damaged. They never count as good ones. */
const INCOMPLETE_NAME = /^assay-backup-\d{8}T\d{6}Z\.incomplete\.tar$/;

/** The name of a scheduled backup until it is complete. */
export const SCHEDULED_PARTIAL = "assay-backup.partial";

const completeName = (time: number): string => `assay-backup-${timestamp(time)}.tar`;
const incompleteName = (time: number): string => `assay-backup-${timestamp(time)}.incomplete.tar`;

const timestamp = (time: number): string => new Date(Math.floor(time) * 1000).toISOString().replace(/[-:]|\.\d+/g, "");

/** The time in the name of a complete backup, in epoch seconds; null for any other name. */
function timeOf(name: string): number | null {
  const [, year, month, day, hour, minute, second] = COMPLETE_NAME.exec(name) ?? [];
  const time = Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`);
  return Number.isNaN(time) ? null : time / 1000;
}

/** Where a server puts its backups, as an absolute path. */
export const backupDirectory = (
  { backupDirectory: configured }: Pick<Config, "backupDirectory">,
  dataDirectory: string,
): string => (configured === null ? join(dataDirectory, "backups") : resolve(configured));

/** Empty when the directory does not exist. @throws the system's error */
const listNames = (directory: string): string[] => {
  try {
    return readdirSync(directory);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
};

/** The times of the complete backups in a directory, newest first. @throws the system's error */
const listTimes = (directory: string): number[] =>
  listNames(directory)
    .flatMap((name) => timeOf(name) ?? [])
    .sort((a, b) => b - a);

/**
 * The newest complete backup in a directory, which was verified before it got its name; null when there is none.
 * @throws the system's error
 */
export function lastBackup(directory: string): BackupFile | null {
  const [time] = listTimes(directory);
  if (time === undefined) return null;
  const file = completeName(time);
  return { file, time, bytes: statSync(join(directory, file)).size };
}

/**
 * The time of the newest complete backup, in epoch seconds; null when there is none, and when the directory cannot be
 * read: monitoring must not fail with it.
 */
export function lastBackupAt(directory: string): number | null {
  try {
    return listTimes(directory)[0] ?? null;
  } catch {
    return null;
  }
}

/** A failed backup is retried this much later, or when the next one would be due if that is sooner. */
const RETRY_S = 900;

export type ScheduledBackups = {
  /** Makes a backup if one is due. Call it every few seconds. */
  runIfDue(): Promise<void>;
  /** Makes a backup now, unless one is running. Never rejects. */
  make(reason: string): Promise<void>;
  /** From now on failures are logged as a consequence of the server's stop. */
  close(): void;
};

type ScheduledBackupOrder = {
  file: string;
  /** Path of the file until it is complete. */
  partial: string;
  allowMissing: boolean;
  at: number;
};

type ScheduleOptions = {
  directory: string;
  /**
   * Whether the directory lies in the data directory and may be created. One that the operator configured may be on a
   * disk that is not mounted.
   */
  isInDataDirectory: boolean;
  /** Seconds between two backups; null: none are scheduled. */
  intervalS: number | null;
  /** How many complete backups are kept. */
  keepCount: number;
  /** Epoch seconds. */
  now(): number;
  /** Makes one backup, like makeBackup. */
  run(order: ScheduledBackupOrder): Promise<BackupSummary>;
  logger: Pick<Logger, "info" | "error">;
};

export function createScheduledBackups(options: ScheduleOptions): ScheduledBackups {
  const { directory, intervalS, now, logger } = options;
  let isRunning = false;
  let isClosed = false;
  /** After a failure, no backup is due before this time. */
  let pausedUntil = 0;

  /** When the next backup is due. Backups from the future were named under a wrong clock and are ignored. */
  function dueAt(at: number): number {
    if (intervalS === null) return Number.POSITIVE_INFINITY;
    const last = listTimes(directory).find((time) => time <= at);
    return Math.max(last === undefined ? at : last + intervalS, pausedUntil);
  }

  async function attempt(reason: string): Promise<void> {
    const { isComplete } = await makeAndPrune(options, reason);
    // An incomplete backup is not repeated sooner than a good one: it costs twice as much, and only the operator can
    // repair the evidence.
    if (!isComplete) pausedUntil = now() + (intervalS ?? 0);
  }

  async function make(reason: string): Promise<void> {
    if (isRunning) return void logger.info({ reason }, "a backup is already running; no other is started");
    isRunning = true;
    try {
      await attempt(reason);
    } catch (error) {
      if (isClosed) return void logger.info({ reason }, "the backup was aborted because the server is stopping");
      pausedUntil = now() + Math.min(intervalS ?? RETRY_S, RETRY_S);
      const facts = error instanceof BackupError ? { error: error.message } : { err: error };
      logger.error(
        { ...facts, reason, directory },
        intervalS === null ? "the backup failed" : "the backup failed and will be retried",
      );
    } finally {
      isRunning = false;
    }
  }

  return {
    make,
    close: () => void (isClosed = true),
    async runIfDue() {
      const at = now();
      if (!isRunning && dueAt(at) <= at) await make("schedule");
    },
  };
}

/** Makes a backup and removes those that are no longer needed. @throws when not even an incomplete one can be made */
async function makeAndPrune(options: ScheduleOptions, reason: string): Promise<{ isComplete: boolean }> {
  const { directory, isInDataDirectory, now, run, logger } = options;
  const at = now();
  // Names have a resolution of a second, and two backups of one second are two files.
  let named = Math.floor(at);
  while (existsSync(join(directory, completeName(named)))) named += 1;
  if (isInDataDirectory && createDirectory(directory) !== null) giveToOwner(directory, dirname(directory));
  const partial = join(directory, SCHEDULED_PARTIAL);
  try {
    const file = join(directory, completeName(named));
    const summary = await run({ file, partial, allowMissing: false, at });
    logger.info({ file, ...summary, reason }, "made a backup");
    await removeOld(options, named);
    return { isComplete: true };
  } catch (error) {
    if (!(error instanceof IncompleteEvidenceError)) throw error;
    // Everything else must be saved although one file is missing. But the result is not a good backup, and must not
    // displace one.
    const file = join(directory, incompleteName(named));
    const summary = await run({ file, partial, allowMissing: true, at });
    logger.error(
      { file, ...summary, reason, problems: error.problems },
      "the backup lacks evidence that is missing or damaged: restore it from an earlier backup, see assay help backup",
    );
    await removeIncomplete(directory, { except: incompleteName(named) });
    return { isComplete: false };
  }
}

/** Keeps the newest complete backups, and in any case the one that was just made. Incomplete ones are obsolete then. */
async function removeOld({ directory, keepCount, logger }: ScheduleOptions, latest: number): Promise<void> {
  const old = listTimes(directory)
    .slice(keepCount)
    .filter((time) => time !== latest)
    .map(completeName);
  for (const name of old) await rm(join(directory, name), { force: true });
  if (old.length > 0) logger.info({ files: old, keep: keepCount }, "removed old backups");
  await removeIncomplete(directory);
}

async function removeIncomplete(directory: string, { except }: { except?: string } = {}): Promise<void> {
  for (const name of listNames(directory))
    if (INCOMPLETE_NAME.test(name) && name !== except) await rm(join(directory, name), { force: true });
}
