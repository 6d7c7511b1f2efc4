/**
 * Backups that a server makes by itself: when one is due, how it is called, which are kept. The directory is the only
 * memory, so a restart shifts nothing and skips nothing, and whoever wants to know of the last good backup lists it.
 */
import { existsSync, readdirSync, statSync } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import type { Config } from "../config/options.ts";
import type { Logger } from "../log.ts";
import { BackupError, IncompleteEvidenceError } from "../backup/make.ts";
import type { MadeBackup } from "../backup/make.ts";

/**
 * A complete backup: its name in the directory, its size in bytes, and the time that its name tells, in epoch seconds.
 */
export type BackupFile = { file: string; time: number; bytes: number };

/** `complete` false: backups that lack evidence which was missing or damaged. They never stand for good ones. */
const nameOf = (time: number, complete: boolean): string =>
  `assay-backup-${stampOf(time)}${complete ? "" : ".incomplete"}.tar`;
const NAME = /^assay-backup-(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z\.tar$/;
const INCOMPLETE = /^assay-backup-\d{8}T\d{6}Z\.incomplete\.tar$/;

const stampOf = (time: number): string => new Date(Math.floor(time) * 1000).toISOString().replace(/[-:]|\.\d+/g, "");

function timeOf(name: string): number | null {
  const [, year, month, day, hour, minute, second] = NAME.exec(name) ?? [];
  const time = Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`);
  return Number.isNaN(time) ? null : time / 1000;
}

/** Where backups of a server go, as an absolute path. */
export const backupDirectory = (
  { backupDirectory: given }: Pick<Config, "backupDirectory">,
  dataDirectory: string,
): string => (given === null ? join(dataDirectory, "backups") : resolve(given));

const namesIn = (directory: string): string[] => {
  try {
    return readdirSync(directory);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
};

/**
 * The times of complete backups in a directory, newest first; none where there is no directory. @throws the system's
 * error
 */
const timesIn = (directory: string): number[] =>
  namesIn(directory)
    .flatMap((name) => timeOf(name) ?? [])
    .sort((a, b) => b - a);

/**
 * The newest backup that the server of that directory made, which was read back before it got its name; null: none.
 * @throws the system's error
 */
export function lastBackup(directory: string): BackupFile | null {
  const [time] = timesIn(directory);
  if (time === undefined) return null;
  const file = nameOf(time, true);
  return { file, time, bytes: statSync(join(directory, file)).size };
}

/**
 * When it was made, in epoch seconds; null also for a directory that cannot be read: whoever watches must not break
 * with it.
 */
export function lastBackupAt(directory: string): number | null {
  try {
    return timesIn(directory)[0] ?? null;
  } catch {
    return null;
  }
}

/** After a failure it is tried again so many seconds later, or when the next one would be due if that is sooner. */
const RETRY = 900;
export type ScheduledBackups = {
  /** Makes a backup if one is due. To be called every now and then. */
  look(): Promise<void>;
  /** Makes a backup now, unless one is being made. Never rejects. */
  make(reason: string): Promise<void>;
  /** What fails from now on fails because the server stops. */
  close(): void;
};

type Parts = {
  directory: string;
  /**
   * Whether the directory is that of the data, which may be made; one that the operator names may be a disk that is not
   * there.
   */
  own: boolean;
  /** Seconds between two backups; null: none by the clock. */
  every: number | null;
  keep: number;
  /** Epoch seconds. */
  now(): number;
  /** Makes one backup, as makeBackup does. `partial` is its path as long as it is not complete. */
  run(order: { file: string; partial: string; allowMissing: boolean; at: number }): Promise<MadeBackup>;
  logger: Pick<Logger, "info" | "error">;
};

export function createScheduledBackups({ directory, own, every, keep, now, run, logger }: Parts): ScheduledBackups {
  let running = false;
  let closed = false;
  /** After trouble: not before that time. */
  let pausedUntil = 0;

  /** When the next one is due. Times to come were written by a clock that was wrong, and say nothing. */
  function dueAt(at: number): number {
    if (every === null) return Number.POSITIVE_INFINITY;
    const last = timesIn(directory).find((time) => time <= at);
    return Math.max(last === undefined ? at : last + every, pausedUntil);
  }

  async function attempt(reason: string): Promise<void> {
    const at = now();
    // A name tells seconds, and two of one second are two.
    let named = Math.floor(at);
    while (existsSync(join(directory, nameOf(named, true)))) named += 1;
    if (own) await mkdir(directory, { recursive: true, mode: 0o700 });
    const order = (complete: boolean) => ({
      file: join(directory, nameOf(named, complete)),
      partial: join(directory, "assay-backup.partial"),
      allowMissing: !complete,
      at,
    });
    try {
      const made = await run(order(true));
      logger.info({ file: order(true).file, ...made, reason }, "made a backup");
      await removeOld(named);
    } catch (error) {
      if (!(error instanceof IncompleteEvidenceError)) throw error;
      // What there is must not go unsaved because of one file; but it is no good backup, and pushes none of those out.
      const made = await run(order(false));
      logger.error(
        { file: order(false).file, ...made, reason, problems: error.problems },
        "the backup lacks evidence that is missing or damaged: put that back from an earlier backup, and see assay help backup",
      );
      for (const name of namesIn(directory))
        if (INCOMPLETE.test(name) && name !== nameOf(named, false)) await rm(join(directory, name), { force: true });
      // Not sooner than a good one: it costs twice as much, and only the operator can mend it.
      pausedUntil = now() + (every ?? 0);
    }
  }

  /** Keeps the newest, and in any case the one that was just made. */
  async function removeOld(made: number): Promise<void> {
    const old = timesIn(directory)
      .slice(keep)
      .filter((time) => time !== made);
    for (const time of old) await rm(join(directory, nameOf(time, true)), { force: true });
    if (old.length > 0) logger.info({ files: old.map((time) => nameOf(time, true)), keep }, "removed old backups");
    // Good again: what was saved in need is not needed.
    for (const name of namesIn(directory)) if (INCOMPLETE.test(name)) await rm(join(directory, name), { force: true });
  }

  async function make(reason: string): Promise<void> {
    if (running) return void logger.info({ reason }, "a backup is being made already");
    running = true;
    try {
      await attempt(reason);
    } catch (error) {
      if (closed) return void logger.info({ reason }, "the backup is given up, because the server stops");
      pausedUntil = now() + Math.min(every ?? RETRY, RETRY);
      const told = error instanceof BackupError ? { error: error.message } : { err: error };
      logger.error(
        { ...told, reason, directory },
        every === null ? "no backup could be made" : "no backup could be made; it is tried again",
      );
    } finally {
      running = false;
    }
  }

  return {
    make,
    close: () => void (closed = true),
    async look() {
      const at = now();
      if (!running && dueAt(at) <= at) await make("schedule");
    },
  };
}
