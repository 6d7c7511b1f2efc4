/**
 * Read-only mode. The server enters it when free space drops below the reserve, when a write fails on storage (a full
 * disk, a quota, an I/O error, a file system remounted read-only), when it starts on a database that lacks commits
 * (store/db/commit-number.ts), and when the files of the database were replaced or removed. Each change is then refused
 * with 507 and the reason, before its body is read; reads continue. The server checks every few seconds and leaves the
 * mode once there is space again, once a test write is durable, or once the operator has accepted the loss. Replaced
 * files it accepts only if the original ones come back untouched (store/db/file-watch.ts): otherwise a restart decides.
 *
 * A refused change leaves nothing behind: the check comes first, and a write that fails later is undone by the part
 * that made it (group-commit.ts, local-store.ts).
 */
import { constants } from "node:fs";
import { open, unlink } from "node:fs/promises";
import { join } from "node:path";
import { MB } from "../domain/text/units.ts";
import { AppError, readOnly, unavailable } from "../errors.ts";
import type { Logger } from "../log.ts";
import { lossReason } from "../store/db/commit-number.ts";
import { isStorageFailure } from "../store/db/group-commit.ts";
import type { FileWatch } from "../store/db/file-watch.ts";
import { isLockedOut, lockedError } from "../store/db/write-lock.ts";

export type DiskGuard = {
  /** Why the server is in read-only mode, as the end of a sentence; null when it is not. */
  readOnlyReason(): string | null;
  /** @throws AppError no_space (507) in read-only mode, and when `bytes` more would use up the reserve */
  ensureWritable(bytes?: number): void;
  /** Reports the error of a failed write. Errors that do not come from storage are ignored. */
  reportFailure(error: unknown): void;
  /** Looks at the files of the database, and updates the mode. @returns what is wrong with them, as readOnlyReason */
  checkFiles(): string | null;
  /** Looks at the files, measures free space, retries writing after a failure, and updates the mode. Never rejects. */
  check(): Promise<void>;
};

/**
 * Fraction of the reserve that must be free on top of it before read-only mode ends, so that the mode does not flap at
 * the limit.
 */
const RESUME_MARGIN = 0.1;

/** Errors that mean that space ran out. */
const OUT_OF_SPACE_CODES = new Set(["ENOSPC", "EDQUOT", "SQLITE_FULL"]);
/**
 * Errors of the device, the mount or its permissions rather than of a mistake in the program. SQLite reports unreadable
 * sectors as corruption.
 */
const STORAGE_FAILURE_CODES = new Set([
  "EIO",
  "EROFS",
  "EACCES",
  "EPERM",
  "ENODEV",
  "ESTALE",
  "ENXIO",
  "SQLITE_CORRUPT",
  "SQLITE_NOTADB",
]);

type DiskGuardDependencies = {
  reserveBytes: number;
  /** Measures the free space of the data directory, in bytes. */
  measureFreeBytes(): Promise<number>;
  /** How many acknowledged commits the database lacks. */
  countMissingCommits(): number;
  /** Makes a small durable write; rejects when that fails. */
  probeWrite(): Promise<void>;
  /** The files of the database; null over a database in memory. */
  files: Pick<FileWatch, "check" | "recheck" | "problem" | "saveLog"> | null;
  logger: Logger;
  /** Called when read-only mode ends. */
  onWritable(): void;
};

export function createDiskGuard(dependencies: DiskGuardDependencies): DiskGuard {
  const { reserveBytes, files, logger, countMissingCommits } = dependencies;
  let missingCommits = countMissingCommits();
  let freeBytes = Infinity;
  let isLow = false;
  let failure: string | null = null;
  /** The reason at the last transition, null outside of read-only mode. */
  let loggedReason: string | null = null;
  /** Whether the log was saved, or that was tried, since the files were lost. */
  let isLogHandled = false;

  function readOnlyReason(): string | null {
    const lost = files?.problem() ?? null;
    if (lost !== null) return lost;
    if (missingCommits > 0) return lossReason(missingCommits);
    if (failure !== null) return failure;
    if (!isLow) return null;
    const [free, reserve] = [megabytes(freeBytes), megabytes(reserveBytes)];
    return `the disk of the data directory has ${free} MB free, less than the reserve of ${reserve} MB (disk-reserve)`;
  }

  /** Logs one line when read-only mode begins, and one when it ends. */
  function logTransition(): void {
    const reason = readOnlyReason();
    const facts = { free_bytes: Number.isFinite(freeBytes) ? freeBytes : null, reserve_bytes: reserveBytes };
    const isNewLoss = reason !== loggedReason && reason === (files?.problem() ?? null);
    if (reason !== null && (loggedReason === null || isNewLoss))
      logger.error({ reason, ...facts }, "entered read-only mode: changes are refused, reads continue");
    if (reason === null && loggedReason !== null) {
      logger.info(facts, "left read-only mode: changes are accepted again");
      loggedReason = null;
      dependencies.onWritable();
    }
    loggedReason = reason;
  }

  async function measure(): Promise<void> {
    try {
      freeBytes = await dependencies.measureFreeBytes();
      isLow = freeBytes < (isLow ? reserveBytes * (1 + RESUME_MARGIN) : reserveBytes);
    } catch (error) {
      // Without a measurement, only the writes themselves can show whether there is space.
      logger.warn({ err: error }, "the free space of the data directory cannot be measured; keeping the last figure");
    }
  }

  /** Looks for the original files, and saves what only this process can still read. */
  function recheckFiles(): string | null {
    const problem = files?.recheck() ?? null;
    if (problem === null) isLogHandled = false;
    if (problem === null || isLogHandled) return problem;
    isLogHandled = true;
    logTransition();
    try {
      const saved = files?.saveLog() ?? null;
      if (saved === true)
        logger.warn("copied the lost write-ahead log into the database, which has every acknowledged write now");
      if (saved === false) logger.error("the lost write-ahead log could not be copied into the database completely");
    } catch (error) {
      logger.error({ err: error }, "the lost write-ahead log could not be copied into the database");
    }
    return problem;
  }

  async function retryWriting(): Promise<void> {
    try {
      await dependencies.probeWrite();
      failure = null;
    } catch (error) {
      failure = `a test write failed (${storageErrorCode(error) ?? "unknown"}); it is retried in a few seconds`;
    }
  }

  return {
    readOnlyReason,

    ensureWritable(bytes = 0) {
      const reason = readOnlyReason();
      if (reason !== null) throw readOnly(reason);
      if (bytes <= freeBytes - reserveBytes) return;
      const [needed, reserve] = [megabytes(bytes), megabytes(reserveBytes)];
      throw readOnly(
        `the disk of the data directory has no space for ${needed} MB beyond its reserve of ${reserve} MB`,
      );
    },

    reportFailure(error) {
      const code = storageErrorCode(error);
      if (code === null) return;
      failure = `the last write failed (${code}); a test write follows in a few seconds`;
      logTransition();
    },

    checkFiles() {
      const problem = files?.check() ?? null;
      if (problem !== null) logTransition();
      return problem;
    },

    async check() {
      const lost = recheckFiles();
      await measure();
      // Only a command of the operator ends a loss, and only a start begins one.
      if (missingCommits > 0) missingCommits = countMissingCommits();
      if (lost === null && failure !== null && !isLow) await retryWriting();
      logTransition();
    },
  };
}

/**
 * Turns an error of the storage into what the client gets: 507 when space ran out, as in read-only mode, which begins
 * with that error; 503 for a failing device, for a read that another process locked out, and for errors that may pass.
 * All other errors are returned unchanged, also the 503 of a read that had no space for its temporary files.
 */
export function translateStorageError(error: unknown, { isChange }: { isChange: boolean }): unknown {
  const code = storageErrorCode(error);
  const isFull = code !== null && OUT_OF_SPACE_CODES.has(code);
  // The writer and the recorder say that nothing was changed, but not why.
  if (error instanceof AppError && !(isFull && isChange && error.code === "unavailable")) return error;
  if (isLockedOut(error)) return lockedError(null, error);
  if (code === null) return error;
  if (isFull) {
    const { message } = readOnly(`the disk of the data directory has no space left (${code})`);
    return new AppError("no_space", message, { internal: error, headers: { "Retry-After": "60" } });
  }
  return unavailable(
    `The server's storage failed (${code}). Nothing was changed. Please try again; if it keeps failing, the operator ` +
      "can examine the data with assay verify",
    5,
    error,
  );
}

/** The code of an error of the storage, also of one that an AppError wraps for the log; null for all other errors. */
function storageErrorCode(error: unknown): string | null {
  const cause = error instanceof AppError ? error.internal : error;
  const { code } = (cause ?? {}) as { code?: unknown };
  if (typeof code !== "string") return null;
  // BUSY means that another process is writing, and NOMEM says nothing about the disk.
  const isDatabaseFailure = isStorageFailure(cause) && !/^SQLITE_(BUSY|NOMEM)/.test(code);
  return isDatabaseFailure || OUT_OF_SPACE_CODES.has(code) || STORAGE_FAILURE_CODES.has(code) ? code : null;
}

/** A few blocks, so that the test also fails where only a small file would still fit. */
const PROBE_BYTES = 65_536;

/**
 * Writes a small file durably and removes it.
 * @throws the system's error; the file may stay, and the next test overwrites it
 */
export async function probeWrite(directory: string): Promise<void> {
  const path = join(directory, "trial");
  const file = await open(path, constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC, 0o600);
  try {
    await file.write(Buffer.alloc(PROBE_BYTES, 1));
    await file.sync();
  } finally {
    await file.close();
  }
  await unlink(path);
}

const megabytes = (bytes: number): number => Math.floor(bytes / MB);
