/**
 * Access to the data directory for commands that do not serve it. They work beside a running server: SQLite admits one
 * writer at a time, and each command writes in one short transaction. Only creating or upgrading the schema locks the
 * directory, because no other process may read the tables meanwhile.
 */
import { statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { resolveEvidenceLocation, openEvidenceStore, readOnlyPaths } from "../evidence/location.ts";
import type { EvidenceAccess, OpenedEvidence } from "../evidence/location.ts";
import { recordDirectoryState } from "./fresh-directory.ts";
import type { DirectoryState } from "./fresh-directory.ts";
import { loadAddon } from "../store/db/native-addon.ts";
import { runNumbered } from "../store/db/commit-number.ts";
import { openReadOnly } from "../store/db/connection.ts";
import {
  openDatabase,
  readFileHeader,
  refuseIncompleteData,
  refuseUnknownSchema,
  schemaVersion,
} from "../store/db/database.ts";
import { IN_DIRECTORY } from "../store/attestations/evidence-location.ts";
import { openStore } from "../store/index.ts";
import type { Store } from "../store/index.ts";
import { DataDirectoryInUseError, isServed, lockDirectory } from "../store/db/data-directory-lock.ts";
import type { Lock } from "../store/db/data-directory-lock.ts";
import type { CommandOption } from "./args.ts";
import { CommandError } from "./framework.ts";
import type { Db, DbReader } from "../store/db/types.ts";
import { newPublicId, systemSources } from "../clock.ts";
import { refuseMissingTarget } from "../store/db/state-directory.ts";
import { prepareDirectory } from "../server/prepare-directory.ts";

/** The switch of commands that create a data directory. Not a setting: one that stays would defeat its purpose. */
export const NEW_DATABASE = "new-database";
export const NEW_DATABASE_OPTION: Readonly<Record<string, CommandOption>> = {
  [NEW_DATABASE]: {
    kind: "switch",
    description: "Begin an empty database although the directory holds evidence or a log of one that is gone",
  },
};

export type Data = { readonly db: Db; readonly store: Store };

/**
 * Opens the data, runs `work` and closes the data again.
 * @throws CommandError when the directory is missing or holds no data, NewerDatabaseError, ForeignDatabaseError,
 *   DataDirectoryInUseError when the schema needs an upgrade while a server runs
 */
export function withData<T>(directory: string, work: (data: Data) => T): T {
  const data = openData(directory);
  try {
    return work(data);
  } finally {
    data.db.close();
  }
}

/**
 * How data is opened. With `create` a missing directory is created, and removed again if `work` throws.
 * With `mayBeginAnew` an empty database may begin where data of a lost one is. With `locked` the caller holds the lock
 * of the directory.
 */
export type OpeningOptions = { create?: boolean; mayBeginAnew?: boolean; locked?: boolean };

/** Opens the data, runs `work` to its end and closes the data again. @throws as withData */
export async function withDataSteps<T>(
  directory: string,
  { create = false, mayBeginAnew = false, locked = false }: OpeningOptions,
  work: (data: Data) => Promise<T>,
): Promise<T> {
  const before = create ? recordDirectoryState(directory) : null;
  const data = openData(directory, { create, mayBeginAnew, locked, before });
  try {
    return await work(data);
  } catch (error) {
    if (before?.isFresh === true) undoCreation(data, directory, before);
    throw error;
  } finally {
    data.db.close();
  }
}

/** Removes a created directory in which nothing was stored, unless another process uses it by now. */
function undoCreation({ db, store }: Data, directory: string, before: DirectoryState): void {
  let lock: Lock;
  try {
    lock = lockDirectory(directory);
  } catch (error) {
    if (error instanceof DataDirectoryInUseError) return;
    throw error;
  }
  try {
    if (store.users.count() > 0 || store.organizations.list().length > 0) return;
    db.close();
    before.undo();
  } finally {
    lock.release();
  }
}

type OpenDataOptions = {
  create?: boolean;
  mayBeginAnew?: boolean;
  /** Whether the caller holds the lock of the directory. */
  locked?: boolean;
  /** The state of the directory, which is restored if this creates data there and cannot, as on a full disk. */
  before?: DirectoryState | null;
};

/** Opens the data for longer work than `withData` fits. The caller closes `db`. */
export function openData(
  directory: string,
  { create = false, mayBeginAnew = false, locked = false, before = null }: OpenDataOptions = {},
): Data {
  const file = join(directory, "assay.db");
  refuseIncompleteData(directory, { mayBeginAnew });
  let lock: Lock | null;
  try {
    if (create) prepareDirectory(directory);
    else requireDataDirectory(directory);
    loadSqlite(directory);
    lock = locked || !isWithoutSchema(file) ? null : lockDirectory(directory);
  } catch (error) {
    // Another process may have created its data meanwhile, or be about to.
    if (!(error instanceof DataDirectoryInUseError) && isWithoutSchema(file)) before?.undo();
    throw error;
  }
  const isNew = isWithoutSchema(file);
  let db: Db;
  try {
    db = openDatabase(directory, systemSources.now(), { mayBeginAnew });
  } catch (error) {
    if (lock !== null && isNew) before?.undo();
    throw error;
  } finally {
    lock?.release();
  }
  try {
    return { db, store: openStore(db, systemSources) };
  } catch (error) {
    db.close();
    throw error;
  }
}

/** Whether a database is missing, or has yet to get the tables of this version. @throws ForeignDatabaseError */
const isWithoutSchema = (file: string): boolean => (readFileHeader(file)?.schemaVersion ?? 0) < schemaVersion();

/**
 * Runs `work` on a read-only connection, beside a server or without one; the directory may then be on a read-only file
 * system. Creates, upgrades and changes nothing, except that SQLite recovers the write-ahead log after a crash.
 * @throws CommandError when the directory is missing, holds no data or data of an older schema, or was written while
 *   `work` read it without a lock; NewerDatabaseError, ForeignDatabaseError
 */
export async function withDataReadOnly<T>(directory: string, work: (db: DbReader) => Promise<T>): Promise<T> {
  const file = join(directory, "assay.db");
  requireDataDirectory(directory);
  loadSqlite(directory);
  refuseUnknownSchema(file, schemaVersion());
  const stored = readFileHeader(file)?.schemaVersion ?? 0;
  if (stored < schemaVersion())
    throw new CommandError(
      `the database ${file} has schema version ${stored}, but this program needs version ${schemaVersion()}: ` +
        "assay serve makes a copy and upgrades the database when it starts",
    );
  const immutable = isQuiescent(directory);
  const before = immutable ? fileStampOf(file) : null;
  const db = openReadOnly(directory, { immutable });
  let result: T;
  try {
    result = await work(db);
  } catch (error) {
    if (before !== null && before !== fileStampOf(file)) throw changedWhileRead(file);
    throw error;
  } finally {
    db.close();
  }
  if (before !== null && (before !== fileStampOf(file) || !isQuiescent(directory))) throw changedWhileRead(file);
  return result;
}

/**
 * Whether the database consists of its main file alone and no server has it open, so that it may be opened as
 * immutable.
 */
const isQuiescent = (directory: string): boolean =>
  (statSync(join(directory, "assay.db-wal"), { throwIfNoEntry: false })?.size ?? 0) === 0 && !isServed(directory);

/** Identifies the state of a file: any write changes it. */
function fileStampOf(file: string): string {
  const { mtimeMs, size, ino } = statSync(file);
  return `${ino} ${size} ${mtimeMs}`;
}

const changedWhileRead = (file: string): Error =>
  new CommandError(
    `${file} changed while it was being read, because a server started or another command wrote: ` +
      "there is no reliable result, run this again",
  );

/**
 * Opens the evidence of a data directory for reading or sweeping, at the location that its database records
 * (`recorded`). `access` comes from `resolveEvidenceAccess`. The caller closes the store.
 * @throws EvidencePlaceError when a location other than the recorded one is configured, or credentials are missing
 */
export async function openEvidence(
  directory: string,
  access: EvidenceAccess,
  recorded: string | null,
): Promise<OpenedEvidence> {
  const place = resolveEvidencePlace(recorded, access);
  return openEvidenceStore({ location: place, paths: readOnlyPaths(directory, place), access }, newPublicId);
}

/**
 * Returns the recorded evidence location: a command needs no option for what the database knows.
 * @throws EvidencePlaceError when another location is configured
 */
export const resolveEvidencePlace = (recorded: string | null, { configured }: EvidenceAccess): string =>
  configured === null ? (recorded ?? IN_DIRECTORY) : resolveEvidenceLocation(recorded, configured);

/**
 * Runs `work` in one write transaction, whose commit is numbered (store/db/commit-number.ts).
 * @throws CommandError when other processes keep the database busy; LostCommitsError; every error of `work`
 */
export function runTransaction<T>({ db }: Data, work: () => T): T {
  try {
    return runNumbered(db, work);
  } catch (error) {
    throw explainBusy(error);
  }
}

/** Runs a transaction that waits between its statements. @throws CommandError as runTransaction */
export async function refuseBusy<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw explainBusy(error);
  }
}

const explainBusy = (error: unknown): unknown =>
  String((error as { code?: unknown }).code).startsWith("SQLITE_BUSY")
    ? new CommandError("the database is busy with writes of another process; nothing was changed, try again")
    : error;

/**
 * `runTransaction`, and then a pause for as long as it held the write lock: for one of many transactions of a command,
 * so that a server beside it can write between them.
 */
export const runOneOfMany = <T>(data: Data, work: () => T): Promise<T> =>
  letOthersWrite(async (begun) =>
    runTransaction(data, () => {
      begun();
      return work();
    }),
  );

/** Runs a transaction, which calls `begun` once it holds the write lock, and pauses for as long as it held it. */
export async function letOthersWrite<T>(transaction: (begun: () => void) => Promise<T>): Promise<T> {
  // Measured inside the transaction: waiting for the write lock blocks no other process.
  let startedAt = 0;
  const result = await transaction(() => void (startedAt = performance.now()));
  await sleep(performance.now() - startedAt);
  return result;
}

/**
 * Loads the built-in SQLite early, so that a machine that forbids it yields an explanation and not a stack trace.
 * @throws CommandError that lists the directories that were tried
 */
export function loadSqlite(directory: string | null): void {
  try {
    loadAddon(directory);
  } catch (error) {
    throw new CommandError(error instanceof Error ? error.message : String(error));
  }
}

/**
 * @throws CommandError when the path is not a data directory; DanglingLinkError, UnfinishedRestoreError,
 *   LostDatabaseError
 */
export function requireDataDirectory(directory: string): void {
  refuseMissingTarget(directory);
  refuseIncompleteData(directory);
  const hint =
    "give another with --data (assay dev keeps its own in .assay-dev of its working directory), or create one with " +
    "assay serve, assay dev, assay init or assay apply";
  if (!statSync(directory, { throwIfNoEntry: false })?.isDirectory()) {
    throw new CommandError(`there is no data directory ${directory}; ${hint}`);
  }
  if (!statSync(join(directory, "assay.db"), { throwIfNoEntry: false })?.isFile()) {
    throw new CommandError(`${directory} is not a data directory: it contains no assay.db; ${hint}`);
  }
}
