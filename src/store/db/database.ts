/**
 * Opens the database file: schema and migrations. Pragmas are those of connection.ts.
 *
 * Invariants: a database newer than this program is refused before any statement runs on it; migrations run in one
 * transaction, after a complete copy of the database was written and synced; an acknowledged commit survives a power
 * loss (WAL with synchronous=FULL).
 */
import { closeSync, existsSync, openSync, readSync, statSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { listAssets, readTextAsset } from "../../assets.ts";
import { readStoredText } from "../../domain/flow-template/stored.ts";
import { parsePolicy } from "../../domain/policy/document.ts";
import { serializePolicy } from "../../domain/policy/stored.ts";
import { withPath } from "../../domain/text/system-errors.ts";
import { ensureCommitNumber } from "./commit-number.ts";
import { connect, driverOptions, INCREMENTAL_AUTO_VACUUM, withOurStatements } from "./connection.ts";
import { FILE_HEADER_BYTES, parseFileHeader } from "./file-header.ts";
import type { FileHeader } from "./file-header.ts";
import { refuseLostCommits } from "./lost-commits.ts";
import { refuseLostDatabase } from "./lost-database.ts";
import { backUpBeforeMigration } from "./pre-migration-backup.ts";
import { compareSchemas, listSchemaObjects } from "./schema-comparison.ts";
import type { SchemaProblem } from "./schema-comparison.ts";
import type { Db, DbReader } from "./types.ts";

/** A boolean as SQLite stores it. null (unknown) stays null. */
export const toSqlBoolean = (value: boolean | null): 0 | 1 | null => (value === null ? null : value ? 1 : 0);

/** The inverse of `toSqlBoolean`. */
export const fromSqlBoolean = (value: 0 | 1 | null): boolean | null => (value === null ? null : value === 1);

/** "ASSY": identifies the file as a database of Assay. */
export const APPLICATION_ID = 0x41535359;

/** A newer program wrote the database. Nothing was changed. */
export class NewerDatabaseError extends Error {
  constructor(file: string, found: number, known: number) {
    super(
      `the database ${file} has schema version ${found}, but this program knows versions up to ${known}. ` +
        "It was written by a newer Assay: start that version, or restore the backup that was made before the upgrade",
    );
    this.name = "NewerDatabaseError";
  }
}

/** The file is a SQLite database of another program, or not a database. */
export class ForeignDatabaseError extends Error {
  constructor(file: string, reason: string) {
    super(`${file} is not a database of Assay: ${reason}`);
    this.name = "ForeignDatabaseError";
  }
}

/** A database, or a copy of one, is damaged; each problem is one line. */
export class DamagedDatabaseError extends Error {
  override readonly name = "DamagedDatabaseError";
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(`the database is damaged: ${problems.join("; ")}`);
    this.problems = problems;
  }
}

/** Whether SQLite reports that a file is damaged or not a database. */
export const isDamage = (error: unknown): error is Error & { code: string } =>
  error instanceof Error && /^SQLITE_(CORRUPT|NOTADB)/.test(String((error as { code?: unknown }).code));

/**
 * The marker of an unfinished restore: a file in the target directory, or in a directory of the same name inside it,
 * where the backup is unpacked. While it exists, the directory is not a data directory, whatever else it holds.
 */
export const UNFINISHED_RESTORE = "restore-unfinished";

/** The directory holds a partly restored backup. */
export class UnfinishedRestoreError extends Error {
  constructor(directory: string) {
    super(
      `${directory} holds part of a backup: a restore began and did not end. ` +
        "Run assay restore again, which starts over, or remove the directory",
    );
    this.name = "UnfinishedRestoreError";
  }
}

/** @throws UnfinishedRestoreError */
export function refuseUnfinishedRestore(directory: string): void {
  const mark = statSync(join(directory, UNFINISHED_RESTORE), { throwIfNoEntry: false });
  if (mark && (!mark.isDirectory() || existsSync(join(directory, UNFINISHED_RESTORE, UNFINISHED_RESTORE))))
    throw new UnfinishedRestoreError(directory);
}

/**
 * Refuses a directory whose database must not be created or opened: an unfinished restore, or what is left of data
 * whose database is gone, unless `mayBeginAnew`.
 * @throws UnfinishedRestoreError, LostDatabaseError
 */
export function refuseIncompleteData(directory: string, { mayBeginAnew = false } = {}): void {
  refuseUnfinishedRestore(directory);
  if (!mayBeginAnew) refuseLostDatabase(directory);
}

type Migration = { version: number; name: string; sql: string };

/** All migrations in order; the N-th one leads to schema version N. */
export function migrations(): Migration[] {
  return listAssets("migrations/").map((key, index) => {
    const name = key.slice("migrations/".length);
    const version = Number.parseInt(name, 10);
    if (version !== index + 1) throw new Error(`migration ${name} should have the number ${index + 1}`);
    return { version, name, sql: readTextAsset(key) };
  });
}

/** The schema version of this program. */
export const schemaVersion = (): number => listAssets("migrations/").length;

/** The steps of a schema upgrade, reported as each is done. `bytes` is the size of the copy. */
export type UpgradeStep =
  | { step: "begun"; from: number; to: number }
  | { step: "copied"; file: string; bytes: number }
  | { step: "migrated"; version: number; name: string }
  | { step: "done"; from: number; to: number };

type OpenOptions = {
  /** Every migration up to the current schema; tests pass others than those of this program. */
  steps?: readonly Migration[];
  /** Whether an empty database may begin where data of a lost one is (lost-database.ts). */
  mayBeginAnew?: boolean;
  /** Called for each step of an upgrade; never for a database that is new or current. */
  onUpgrade?(step: UpgradeStep): void;
  /**
   * Opens a current database also if it lacks commits: for a server, which refuses changes then, after it kept the log
   * (lost-commits.ts).
   */
  withLostCommits?: boolean;
};

/**
 * Opens (or creates) the database of a data directory and migrates it to the current schema.
 * @param directory the data directory; opens `assay.db` in it and writes copies before migrations to `backups/`.
 * @param now epoch seconds, for the name of the copy.
 * @throws NewerDatabaseError, ForeignDatabaseError, DamagedDatabaseError where the schema is not that of its version,
 *   UnfinishedRestoreError, LostDatabaseError, LostCommitsError, NoSpaceForBackupError.
 */
export function openDatabase(directory: string, now: number, options: OpenOptions = {}): Db {
  const { steps = migrations(), onUpgrade = () => undefined, mayBeginAnew = false, withLostCommits = false } = options;
  const file = join(directory, "assay.db");
  refuseIncompleteData(directory, { mayBeginAnew });
  refuseUnknownSchema(file, steps.length);
  // A migration is a change.
  const isCurrent = readFileHeader(file)?.schemaVersion === steps.length;
  if (!withLostCommits || !isCurrent) refuseLostCommits(directory);
  const db = connect(file, directory);
  try {
    migrate(db, { file, backups: join(directory, "backups"), now, steps, onUpgrade });
    ensureCommitNumber(db);
  } catch (error) {
    db.close();
    throw withPath(error, file);
  }
  return db;
}

/**
 * Opens the database of a data directory with whatever schema it has; creates and migrates nothing.
 * @throws NewerDatabaseError, ForeignDatabaseError, UnfinishedRestoreError, LostCommitsError unless `withLostCommits`,
 *   the driver's error for a missing file.
 */
export function openUnmigrated(directory: string, { withLostCommits = false } = {}): Db {
  const file = join(directory, "assay.db");
  refuseUnfinishedRestore(directory);
  refuseUnknownSchema(file, schemaVersion());
  if (!withLostCommits) refuseLostCommits(directory);
  return connect(file, directory, { fileMustExist: true });
}

/** A database in memory with the current schema, for tests. `image` is the result of `db.serialize()` of such a one. */
export function openMemory(image: Buffer | null = null): Db {
  const db = withOurStatements(new Database(image ?? ":memory:", driverOptions(null)));
  db.pragma(INCREMENTAL_AUTO_VACUUM);
  db.pragma("foreign_keys = ON");
  if (!image) createSchema(db);
  return db;
}

/**
 * Reads the header without opening the database. Migrations end with a checkpoint, so the main file always has the
 * right version. null when the file is missing or empty (created by a process that died before its first write).
 * @throws ForeignDatabaseError when the file is not a SQLite database.
 */
export function readFileHeader(file: string): FileHeader | null {
  if (!existsSync(file)) return null;
  const bytes = Buffer.alloc(FILE_HEADER_BYTES);
  const descriptor = openSync(file, "r");
  let size: number;
  try {
    size = readSync(descriptor, bytes, 0, FILE_HEADER_BYTES, 0);
  } finally {
    closeSync(descriptor);
  }
  if (size === 0) return null;
  const header = size < FILE_HEADER_BYTES ? null : parseFileHeader(bytes);
  if (!header) throw new ForeignDatabaseError(file, "it is not an SQLite database");
  return header;
}

/** @throws NewerDatabaseError, ForeignDatabaseError. */
export function refuseUnknownSchema(file: string, known: number): void {
  const header = readFileHeader(file);
  if (!header) return;
  const { schemaVersion: version, applicationId: application } = header;
  if (application !== APPLICATION_ID && (version !== 0 || application !== 0))
    throw new ForeignDatabaseError(file, `its application id is ${application}`);
  if (version > known) throw new NewerDatabaseError(file, version, known);
}

type Migrating = Required<Pick<OpenOptions, "steps" | "onUpgrade">> & { file: string; backups: string; now: number };

function migrate(db: Db, { file, backups, now, steps, onUpgrade }: Migrating): void {
  const found = db.pragma("user_version", { simple: true }) as number;
  const target = steps.length;
  if (found > target) throw new NewerDatabaseError(file, found, target);
  // Not after a migration, which leads from the schema of one version to that of another.
  if (found > 0) requireSchema(db, steps.slice(0, found));
  if (found === target) return;
  if (found === 0) {
    if (db.prepare("SELECT count(*) FROM sqlite_schema").pluck().get() !== 0)
      throw new ForeignDatabaseError(file, "it has tables but no schema version");
    createSchema(db);
  } else {
    onUpgrade({ step: "begun", from: found, to: target });
    onUpgrade({ step: "copied", ...backUpBeforeMigration(db, backups, { from: found, to: target, now }) });
    const pending = steps.filter((migration) => migration.version > found);
    applyMigrations(db, pending, ({ version, name }) => onUpgrade({ step: "migrated", version, name }));
    onUpgrade({ step: "done", from: found, to: target });
  }
  // Writes the new version into the header of the main file, see readFileHeader.
  db.pragma("wal_checkpoint(TRUNCATE)");
}

/**
 * What differs between the objects of a database and those of its schema version, which this program must know. Takes
 * some 10 ms.
 * @param steps the migrations that led to it
 */
export function findSchemaProblems(
  db: DbReader,
  steps: readonly Migration[] = migrations().slice(0, db.pragma("user_version", { simple: true }) as number),
): SchemaProblem[] {
  const fresh = new Database(":memory:", driverOptions(null));
  try {
    // schema.sql is what all migrations lead to, in a third of the time.
    if (steps.length === schemaVersion()) createSchema(fresh);
    else applyMigrations(fresh, steps);
    return compareSchemas(listSchemaObjects(db), listSchemaObjects(fresh));
  } finally {
    fresh.close();
  }
}

/** @throws DamagedDatabaseError */
export function requireSchema(db: Db, steps?: readonly Migration[]): void {
  const problems = findSchemaProblems(db, steps).map(({ about, problem }) => `${about} ${problem}`);
  if (problems.length > 0) throw new DamagedDatabaseError(problems);
}

/** Creates the current schema in an empty database, in one transaction. */
export function createSchema(db: Db): void {
  inTransaction(db, () => {
    db.exec(readTextAsset("schema.sql"));
    db.pragma(`application_id = ${APPLICATION_ID}`);
    db.pragma(`user_version = ${schemaVersion()}`);
  });
}

/** Applies migrations in one transaction: all or none. `onApplied` is called after each, before the commit. */
export function applyMigrations(
  db: Db,
  pending: readonly Migration[],
  onApplied: (migration: Migration) => void = () => undefined,
): void {
  // For 0005-corrections.sql. Reads what earlier versions accepted, within their limits, before the server listens.
  db.function("assay_parsed_template", (text) => JSON.stringify(readStoredText(String(text))));
  db.function("assay_parsed_policy", (text) => {
    const { policy } = parsePolicy(String(text), { isStored: true });
    return policy && serializePolicy(policy);
  });
  inTransaction(db, () => {
    for (const migration of pending) {
      db.exec(migration.sql);
      db.pragma(`user_version = ${migration.version}`);
      onApplied(migration);
    }
    db.pragma(`application_id = ${APPLICATION_ID}`);
    const broken = db.pragma("foreign_key_check") as unknown[];
    if (broken.length > 0)
      throw new Error(
        `the migration would leave ${broken.length} rows that refer to missing rows; nothing was changed`,
      );
  });
}

function inTransaction(db: Db, work: () => void): void {
  db.exec("BEGIN IMMEDIATE");
  try {
    work();
    db.exec("COMMIT");
  } catch (error) {
    if (db.inTransaction) db.exec("ROLLBACK");
    throw error;
  }
}
