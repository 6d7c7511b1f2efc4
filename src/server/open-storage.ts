/** The first stage of a start: the data directory, its database, and the agreement on where the evidence is. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { systemSources } from "../clock.ts";
import type { Config } from "../config/options.ts";
import { bindEvidenceLocation } from "../evidence/location.ts";
import type { EvidenceAccess } from "../evidence/location.ts";
import type { Logger } from "../log.ts";
import { COMMIT_FILE } from "../store/db/commit-file.ts";
import { isCommitFileUsable, openCommitNumbering } from "../store/db/commit-number.ts";
import type { CommitNumbering } from "../store/db/commit-number.ts";
import { openLogSync } from "../store/db/commit-sync.ts";
import { DataDirectoryInUseError, lockDirectory } from "../store/db/data-directory-lock.ts";
import type { Lock } from "../store/db/data-directory-lock.ts";
import { DamagedDatabaseError, openDatabase } from "../store/db/database.ts";
import { waitAgain } from "../store/db/connection.ts";
import { openFileWatch } from "../store/db/file-watch.ts";
import type { FileWatch } from "../store/db/file-watch.ts";
import { isStorageFailure } from "../store/db/group-commit.ts";
import { keepDamagedLog } from "../store/db/lost-commits.ts";
import type { LostCommits } from "../store/db/lost-commits.ts";
import { findDamage } from "../store/db/vacuum.ts";
import type { Db } from "../store/db/types.ts";
import { openStore } from "../store/index.ts";
import type { Store } from "../store/index.ts";
import type { CertificatePair, ListenAddress } from "./listener.ts";
import { prepareDirectory } from "./prepare-directory.ts";
import { upgradeLogger } from "./startup-log.ts";
import { openStorageProbe } from "./storage-probe.ts";
import type { StorageProbe } from "./storage-probe.ts";

export type ServeOptions = {
  /** The data directory, an absolute path; created where it is missing. */
  directory: string;
  config: Config;
  /** Certificates of a CA bundle (ca-file) in PEM, trusted in addition to Node's; null: only those of Node. */
  authorities: readonly string[] | null;
  /** How to reach evidence that is not in the data directory. */
  evidence: EvidenceAccess;
  /**
   * Whether the base URL follows from the bound address, because none was configured. Trusted proxies may then forward
   * another one.
   */
  derivesBaseUrl: boolean;
  /** Inherited sockets to use in place of the configured address; null when there are none. */
  sockets: readonly Extract<ListenAddress, { fd: number }>[] | null;
  /** With a pair everything is served over TLS. */
  tls: CertificatePair | null;
  logger: Logger;
  /** Whether an empty database may begin where data of a lost one is. */
  mayBeginAnew?: boolean;
  /** Whether responses are checked against their declared shapes. */
  checkResponses: boolean;
  /** Restores the data directory as it was before this start. Called when the start fails, while the lock is held. */
  undoDirectory?: () => void;
  /** Runs on the opened store before clients can connect. An error aborts the start. */
  beforeListening?: (data: { db: Db; store: Store }) => void | Promise<void>;
};

type CloseReason = "stop" | "failed start";
type Closer = (reason: CloseReason) => unknown;

/** A part of a running server, opened as a whole and closed as a whole. */
export type Stage = { close(reason: CloseReason): Promise<void> };

/** Closers of what was opened, run in reverse order. */
export function createClosers(): Stage & { add(closer: Closer): void } {
  const closers: Closer[] = [];
  return {
    add: (closer) => void closers.push(closer),
    /** Runs all closers, even if one fails, then rejects with the first error. */
    async close(reason) {
      let firstError: unknown = null;
      for (let closer = closers.pop(); closer; closer = closers.pop()) {
        try {
          await closer(reason);
        } catch (error) {
          firstError ??= error;
        }
      }
      if (firstError !== null) throw firstError;
    },
  };
}

/**
 * Opens a stage. If one of its parts fails to open, those opened before it are closed again and the error is rethrown.
 * @param open opens the parts, and registers the closer of each right after it was opened
 */
export async function openStage<Parts extends object>(
  logger: Logger,
  open: (onClose: (closer: Closer) => void) => Promise<Parts>,
): Promise<Parts & Stage> {
  const { add, close } = createClosers();
  try {
    return { ...(await open(add)), close };
  } catch (error) {
    await close("failed start").catch((second: unknown) => logFailedClose(logger, second));
    throw error;
  }
}

export const logFailedClose = (logger: Logger, error: unknown): void =>
  logger.error({ err: error }, "the start failed, and a part that was already open could not be closed");

/** A monotonic clock. */
const milliseconds = (): number => performance.now();

/** Locks the directory. Where not even the lock can be created, as on a full disk, `undo` runs first. */
function lockFresh(directory: string, undo: (() => void) | undefined): Lock {
  try {
    return lockDirectory(directory);
  } catch (error) {
    if (!(error instanceof DataDirectoryInUseError) && !existsSync(join(directory, "assay.db"))) undo?.();
    throw error;
  }
}

/**
 * Locks the data directory and opens its database.
 * @throws DataDirectoryInUseError, NewerDatabaseError, ForeignDatabaseError, LostDatabaseError, EvidencePlaceError,
 *   LostCommitsError where a database without some of its commits must be migrated, DamagedDatabaseError, the system's
 *   error
 */
export const openStorage = (options: ServeOptions) =>
  openStage(options.logger, async (onClose) => {
    const { directory, config, logger, evidence: access, undoDirectory, mayBeginAnew = false } = options;
    const { evidence, staging } = prepareDirectory(directory);
    const lock = lockFresh(directory, undoDirectory);
    onClose((reason) => {
      try {
        if (reason === "failed start") undoDirectory?.();
      } finally {
        lock.release();
      }
    });

    // The probe opens the file that openDatabase creates, and must close after the database, see storage-probe.ts.
    let opened: StorageProbe | null = null;
    onClose(() => opened?.close());
    const lost = keepDamagedLog(directory);
    const onUpgrade = upgradeLogger(logger, milliseconds);
    // Also closes after the database.
    let watched: FileWatch | null = null;
    onClose(() => watched?.close());
    const db = openDatabase(directory, systemSources.now(), { onUpgrade, mayBeginAnew, withLostCommits: true });
    onClose(() => closeDatabase(db, { emptyWal: config.checkpoints === "own", files: watched, logger }));
    const files = openFileWatch(db, directory);
    watched = files;
    if (lost) reportLostCommits(lost, db, logger);
    const numbering = openNumbering({ db, directory, logger });
    onClose(() => numbering.close());
    const storageProbe = openStorageProbe(directory, { milliseconds, random: Math.random });
    opened = storageProbe;
    const temporaryFiles = { directory: staging, reserveBytes: config.diskReserve };
    const store = openStore(db, { ...systemSources, temporaryFiles });
    // Before anything is changed: a server configured for another place than that of the evidence is refused.
    const home = { location: bindEvidenceLocation(store, access.configured), paths: { evidence, staging }, access };
    const logSync = openLogSync(db, directory);
    onClose(() => logSync.close());
    return { db, store, numbering, storageProbe, files, logSync, evidence, staging, temporaryFiles, home };
  });

export type Storage = Awaited<ReturnType<typeof openStorage>>;

/**
 * Logs what became of a damaged log.
 * @throws DamagedDatabaseError where the log is not needed, but the database file is damaged as well
 */
function reportLostCommits({ missing, copy }: LostCommits, db: Db, logger: Logger): void {
  if (missing > 0) {
    const todo = "restore a backup, or accept the loss with assay accept-loss; changes are refused until then";
    logger.error({ missing_commits: missing, log_copy: copy }, `acknowledged commits are missing: ${todo}`);
    return;
  }
  const damage = findDamage(db);
  if (damage.length > 0) throw new DamagedDatabaseError(damage);
  logger.warn(
    { log_copy: copy },
    "the write-ahead log was damaged and was set aside; the database already had all of its commits",
  );
}

/** Numbers the commits of the server. Reports a file that was of no use at this start, or cannot be written. */
function openNumbering({ db, directory, logger }: { db: Db; directory: string; logger: Logger }): CommitNumbering {
  if (!isCommitFileUsable(directory, db))
    logger.warn(
      { file: COMMIT_FILE },
      "the file with the latest commit number is damaged, or of another database: the database counts, and the file " +
        "is written again",
    );
  return openCommitNumbering(db, {
    isServer: true,
    onFile(error) {
      if (error === null) logger.info({ file: COMMIT_FILE }, "the latest commit number can be written again");
      else
        logger.warn(
          { err: error, file: COMMIT_FILE },
          "the latest commit number cannot be written: commits are durable, but a damaged log may go unnoticed",
        );
    },
  });
}

function closeDatabase(
  db: Db,
  { emptyWal, files, logger }: { emptyWal: boolean; files: FileWatch | null; logger: Logger },
): void {
  // SQLite would write the log into a file that it does not belong to. The end of the process closes the database.
  if (files && !files.mayCheckpoint()) {
    logger.error(
      { reason: files.problem() },
      "the write-ahead log is left as it is: it was not copied into the database",
    );
    return;
  }
  try {
    waitAgain(db);
    // Moves everything into the one file that is expected by people who copy the database of a stopped server.
    if (emptyWal) db.pragma("wal_checkpoint(TRUNCATE)");
  } catch (error) {
    // Nothing is lost: the next start reads the log.
    if (!isStorageFailure(error)) throw error;
    logger.warn({ err: error }, "the write-ahead log could not be emptied; the next start will read it");
  } finally {
    db.close();
  }
}
