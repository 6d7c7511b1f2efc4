/**
 * The data directory as commands see it that do not serve it. They work beside a running server: SQLite lets one writer
 * in at a time, and each command writes in one short transaction. Only where the schema must be made or brought up to
 * date the directory is taken exclusively, because no other process may look at the tables meanwhile.
 */
import { statSync } from "node:fs";
import { join } from "node:path";
import { newPublicId, prepareDirectory, systemSources } from "../server/app.ts";
import { agreedPlace, openPlace, partsToRead } from "../evidence/location.ts";
import type { EvidenceAccess, OpenedEvidence } from "../evidence/location.ts";
import { noteDirectory } from "./fresh-directory.ts";
import type { DirectoryBefore } from "./fresh-directory.ts";
import { loadAddon } from "../store/db/native-addon.ts";
import {
  openDatabase,
  openReadOnly,
  readFileHeader,
  refuseUnfinishedRestore,
  refuseUnknownSchema,
  schemaVersion,
} from "../store/db/database.ts";
import { IN_DIRECTORY } from "../store/flows/evidence-location.ts";
import { openStore } from "../store/index.ts";
import type { Store } from "../store/index.ts";
import { DataDirectoryInUseError, isServed, lockDirectory } from "../store/db/data-directory-lock.ts";
import type { Lock } from "../store/db/data-directory-lock.ts";
import { commandFailure } from "./framework.ts";
import type { Db } from "../store/db/types.ts";

export type Data = { readonly db: Db; readonly store: Store };

/**
 * Runs `work` on the opened data and closes it again. `create` says whether a missing directory is made, which is taken
 * back where `work` fails.
 * @throws a command failure for a directory that is missing or holds no data, NewerDatabaseError, ForeignDatabaseError,
 *   DataDirectoryInUseError when the schema must be brought up to date while a server runs.
 */
export function withData<T>(directory: string, work: (data: Data) => T, create = false): T {
  const before = create ? noteDirectory(directory) : null;
  const data = openData(directory, { create });
  try {
    return work(data);
  } catch (error) {
    if (before?.isFresh === true) undoCreation(data, directory, before);
    throw error;
  } finally {
    data.db.close();
  }
}

/** Takes back a directory in which nothing was stored, unless somebody else uses it by now. */
function undoCreation({ db, store }: Data, directory: string, before: DirectoryBefore): void {
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

/**
 * As `withData`, for work that takes its time. Whoever opened the data closes its `db`. `locked`: the caller has locked
 * the directory.
 */
export function openData(directory: string, { create = false, locked = false } = {}): Data {
  const file = join(directory, "assay.db");
  if (create) prepareDirectory(directory);
  else requireData(directory);
  loadLibrary(directory);
  const stored = readFileHeader(file);
  const lock = !locked && (stored === null || stored.schemaVersion < schemaVersion()) ? lockDirectory(directory) : null;
  let db: Db;
  try {
    db = openDatabase(directory, systemSources.now());
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

/**
 * Runs `work` on a connection that only reads, beside a server or on a directory that nobody serves, which may then lie
 * where nobody can write: nothing is made, brought up to date or changed, except that SQLite takes over the log that a
 * crash left.
 * @throws a command failure for a directory that is missing, holds no data or data of an older schema, or that a server
 * took over in the
 *   middle of it; NewerDatabaseError, ForeignDatabaseError.
 */
export async function withDataReadOnly<T>(directory: string, work: (db: Db) => Promise<T>): Promise<T> {
  const file = join(directory, "assay.db");
  requireData(directory);
  loadLibrary(directory);
  refuseUnknownSchema(file, schemaVersion());
  const stored = readFileHeader(file)?.schemaVersion ?? 0;
  if (stored < schemaVersion())
    throw commandFailure(
      `the database ${file} has schema version ${stored}, and this program works with ${schemaVersion()}: assay serve brings it up to date when it starts, after a copy was made`,
    );
  const immutable = isAtRest(directory);
  const before = immutable ? stampOf(file) : null;
  const db = openReadOnly(directory, { immutable });
  let result: T;
  try {
    result = await work(db);
  } catch (error) {
    if (before !== null && before !== stampOf(file)) throw movedOn(file);
    throw error;
  } finally {
    db.close();
  }
  if (before !== null && (before !== stampOf(file) || !isAtRest(directory))) throw movedOn(file);
  return result;
}

/**
 * Whether the main file is all there is of the database, and nobody has it open to write: then it may be read as if it
 * could not change.
 */
export const isAtRest = (directory: string): boolean =>
  (statSync(join(directory, "assay.db-wal"), { throwIfNoEntry: false })?.size ?? 0) === 0 && !isServed(directory);

/** Differs once the file was written. */
function stampOf(file: string): string {
  const { mtimeMs, size, ino } = statSync(file);
  return `${ino} ${size} ${mtimeMs}`;
}

const movedOn = (file: string): Error =>
  commandFailure(
    `${file} was changed while it was read, because a server started or a command wrote: nothing can be said, run this again`,
  );

/**
 * The evidence of a data directory to be read or swept, where its database says that it is kept (`recorded`); `access`
 * is what `evidenceDirectory` gave (configuration.ts). Whoever opened it closes it.
 * @throws EvidencePlaceError when another storage is configured than the one that the evidence is on, or its keys are
 * not given.
 */
export async function openEvidence(
  directory: string,
  access: EvidenceAccess,
  recorded: string | null,
): Promise<OpenedEvidence> {
  const place = placeFor(recorded, access);
  return openPlace({ place, parts: partsToRead(directory, place), access }, newPublicId);
}

/**
 * The recorded place; a command need not be told what the database knows. @throws EvidencePlaceError where another one
 * is configured
 */
export const placeFor = (recorded: string | null, { configured }: EvidenceAccess): string =>
  configured === null ? (recorded ?? IN_DIRECTORY) : agreedPlace(recorded, configured);

/**
 * Runs `work` in one transaction: all of it or nothing.
 * @throws a command failure when another process keeps the database from being written; what `work` threw.
 */
export function change<T>({ db }: Data, work: () => T): T {
  try {
    return db.transaction(work).immediate();
  } catch (error) {
    if (!String((error as { code?: unknown }).code).startsWith("SQLITE_BUSY")) throw error;
    throw commandFailure("another process keeps writing to the database; nothing was changed, try again");
  }
}

/**
 * Loads the built-in SQLite, so that a machine that does not allow it is told in words and not as a bug of the program.
 * @throws a command failure that lists what was tried.
 */
export function loadLibrary(directory: string | null): void {
  try {
    loadAddon(directory);
  } catch (error) {
    throw commandFailure(error instanceof Error ? error.message : String(error));
  }
}

/** @throws a command failure where there is no data directory; UnfinishedRestoreError. */
export function requireData(directory: string): void {
  refuseUnfinishedRestore(directory);
  const makers = "assay serve, assay dev, assay init and assay apply create one";
  if (!statSync(directory, { throwIfNoEntry: false })?.isDirectory()) {
    throw commandFailure(`there is no data directory ${directory}; ${makers}`);
  }
  if (!statSync(join(directory, "assay.db"), { throwIfNoEntry: false })?.isFile()) {
    throw commandFailure(`${directory} is no data directory: it holds no assay.db; ${makers}`);
  }
}
