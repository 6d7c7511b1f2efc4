/**
 * The database file: opening, pragmas, the schema and its migrations.
 *
 * Invariants: a database newer than this program is refused before a single statement runs on it; migrations run in one
 * transaction, after a complete copy of the database was written and synced; a commit that was acknowledged survives
 * the loss of power (WAL with synchronous=FULL).
 */
import { closeSync, existsSync, openSync, readSync, statSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import Database from "better-sqlite3";
import { listAssets, readTextAsset } from "../../assets.ts";
import { parsePolicy } from "../../domain/policy/document.ts";
import { serializePolicy } from "../../domain/policy/stored.ts";
import { loadAddon } from "./native-addon.ts";
import { backUpBeforeMigration } from "./pre-migration-backup.ts";
import { readStoredText } from "../flows/templates.ts";
import type { Db } from "./types.ts";
/** A truth value as SQLite keeps it; null stays null: unknown is not false. */
export const toSqlBoolean = (value: boolean | null): 0 | 1 | null => (value === null ? null : value ? 1 : 0);

/** What integerOf made of a truth value, back. */
export const fromSqlBoolean = (value: 0 | 1 | null): boolean | null => (value === null ? null : value === 1);

/** "ASSY": marks the file as ours. */
export const APPLICATION_ID = 0x41535359;

/** The database was written by a newer program. Nothing was touched. */
export class NewerDatabaseError extends Error {
  constructor(file: string, found: number, known: number) {
    super(
      `the database ${file} has schema version ${found}, but this program knows versions up to ${known}. ` +
        "It was written by a newer Assay: start that version, or restore the backup that was made before the upgrade",
    );
    this.name = "NewerDatabaseError";
  }
}

/** The file is a SQLite database of somebody else, or no database at all. */
export class ForeignDatabaseError extends Error {
  constructor(file: string, why: string) {
    super(`${file} is not a database of Assay: ${why}`);
    this.name = "ForeignDatabaseError";
  }
}

/**
 * The mark of a restore that has not ended: a file in a directory, or in a directory of the same name in it, where the
 * backup is unpacked. It is no data directory yet, whatever else is there.
 */
export const UNFINISHED_RESTORE = "restore-unfinished";

/** The directory holds part of a restored backup. */
export class UnfinishedRestoreError extends Error {
  constructor(directory: string) {
    super(
      `${directory} holds part of a backup: a restore began and did not end. Run assay restore again, which starts anew, or remove the directory`,
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

export type Migration = { version: number; name: string; sql: string };

/** All migrations in order; version N is the N-th. */
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

/**
 * What happens while the schema of a database is upgraded, each told when it is done. `bytes`: the size of the copy.
 */
export type UpgradeStep =
  | { step: "begun"; from: number; to: number }
  | { step: "copied"; file: string; bytes: number }
  | { step: "migrated"; version: number; name: string }
  | { step: "done"; from: number; to: number };

export type OpenOptions = {
  /** The migrations that lead to the present; those of this program unless a test says otherwise. */
  steps?: readonly Migration[];
  /** Called for each step of an upgrade; never for a database that is new or up to date. */
  onUpgrade?(step: UpgradeStep): void;
};

/**
 * Opens (and creates) the database of a data directory and brings it to the present schema.
 * @param directory the data directory; `assay.db` in it is opened, copies before migrations go to `backups/`.
 * @param now epoch seconds, for the name of the copy.
 * @throws NewerDatabaseError, ForeignDatabaseError, UnfinishedRestoreError, NoRoomForCopyError.
 */
export function openDatabase(directory: string, now: number, options: OpenOptions = {}): Db {
  const { steps = migrations(), onUpgrade = () => undefined } = options;
  const file = join(directory, "assay.db");
  refuseUnfinishedRestore(directory);
  refuseUnknownSchema(file, steps.length);
  const db = connect(file, directory);
  try {
    migrate(db, { file, backups: join(directory, "backups"), now, steps, onUpgrade });
  } catch (error) {
    db.close();
    throw error;
  }
  return db;
}

/**
 * The database of a data directory as it is, whatever its schema: nothing is created and nothing migrated.
 * @throws NewerDatabaseError, ForeignDatabaseError, UnfinishedRestoreError, the driver's error for a missing file.
 */
export function openUnmigrated(directory: string): Db {
  const file = join(directory, "assay.db");
  refuseUnfinishedRestore(directory);
  refuseUnknownSchema(file, schemaVersion());
  return connect(file, directory, { fileMustExist: true });
}

/** A copy of the database in a file of its own, which nobody else has open. */
export const openCopy = (file: string, readonly = true): Db =>
  withPlannerStability(new Database(file, { ...options(null), readonly, fileMustExist: true }));

/**
 * A further connection to a database that this process has open, for a thread that writes while the right to do so is
 * lent to it (writer.ts).
 */
export function openSecondWriter(directory: string): Db {
  const db = connect(join(directory, "assay.db"), directory);
  db.pragma("cache_size = -2048"); // 2 MiB: it reads what it writes, and holds on to nothing between two tasks
  return db;
}

/**
 * Checkpoints are somebody else's business: that of the recording thread (jobs/checkpoints.ts), and this connection
 * only helps out when the log has 64 MiB; or of a program beside this server ("external"), and this connection never
 * does any.
 */
export const delegateCheckpoints = (db: Db, to: "own" | "external" = "own"): void =>
  void db.pragma(`wal_autocheckpoint = ${to === "own" ? 16_384 : 0}`);

/**
 * A connection that only reads, beside a server or without one. `immutable`: nobody writes meanwhile and the log is
 * empty, which the caller answers for; then nothing is created beside the file, and it may lie where nobody can write.
 */
export function openReadOnly(directory: string, { immutable = false } = {}): Db {
  const file = join(directory, "assay.db");
  const db = withPlannerStability(
    new Database(immutable ? `${pathToFileURL(file).href}?immutable=1` : file, {
      ...options(directory),
      readonly: true,
      fileMustExist: true,
    }),
  );
  db.pragma("trusted_schema = OFF");
  db.pragma("cache_size = -16384");
  return db;
}

/** A database in memory with the present schema, for tests; `image` is what `db.serialize()` of such a one gave. */
export function openMemory(image: Buffer | null = null): Db {
  const db = withPlannerStability(new Database(image ?? ":memory:", options(null)));
  db.pragma(INCREMENTAL_AUTO_VACUUM);
  db.pragma("foreign_keys = ON");
  if (!image) createSchema(db);
  return db;
}

const options = (directory: string | null): Database.Options =>
  // better-sqlite3 takes the loaded addon; its types know only the path form.
  ({ nativeBinding: loadAddon(directory) as unknown as string, timeout: BUSY_TIMEOUT_MS });

/** How long a command line that writes beside a serving process may hold the write lock before the other gives up. */
const BUSY_TIMEOUT_MS = 5_000;

/**
 * Compiles every statement once. SQLite with STAT4, as the driver builds it, compiles a statement again whenever a
 * parameter that is compared with an indexed column gets another value, because the value might suggest another plan
 * (its page on sqlite3_prepare_v2), and the driver then makes a new function for the rows. Together that costs ten to
 * twenty times what the query itself does. A unary plus hides the parameter from the planner and means nothing else; we
 * never ANALYZE, so a value could not have told it anything.
 */
function withPlannerStability(db: Db): Db {
  const prepare = db.prepare;
  db.prepare = ((sql: string) =>
    prepare.call(
      db,
      sql.replace(PARAMETER, (text, parameter?: string) => (parameter ? `+${text}` : text)),
    )) as Db["prepare"];
  return db;
}

/** A parameter, or a quoted text, in which there are none. */
const PARAMETER = /'[^']*'|"[^"]*"|([?@]\w*)/g;

/**
 * Pages that deleted rows leave can be given back to the file system in small steps (store/space.ts). It counts for an
 * empty file, before another pragma writes to it (in any other one it would be a write of its own); an older file stays
 * as it is until `assay vacuum`.
 */
const INCREMENTAL_AUTO_VACUUM = "auto_vacuum = INCREMENTAL";

/** A connection with the pragmas that every connection of ours has. */
function connect(file: string, directory: string, more: Database.Options = {}): Db {
  const db = withPlannerStability(new Database(file, { ...options(directory), ...more }));
  if (db.pragma("page_count", { simple: true }) === 0) db.pragma(INCREMENTAL_AUTO_VACUUM);
  db.pragma("journal_mode = WAL");
  // FULL, not the driver's NORMAL: in WAL mode NORMAL may lose acknowledged commits when the power goes.
  db.pragma("synchronous = FULL");
  db.pragma("foreign_keys = ON");
  db.pragma("trusted_schema = OFF");
  db.pragma("temp_store = MEMORY");
  db.pragma("cache_size = -16384"); // 16 MiB: the working set of a busy installation; the system caches the rest of the file
  // 16 MiB: the pages that every write changes are copied to the main file once for thousands of writes.
  db.pragma("wal_autocheckpoint = 4096");
  db.pragma("journal_size_limit = 67108864"); // a WAL that once grew is cut back to 64 MiB
  return db;
}

/**
 * What the first page of a database tells (SQLite file format, 1.3), as far as migrations and the state of the file go.
 */
export type FileHeader = {
  schemaVersion: number;
  applicationId: number;
  pageSize: number;
  pages: number;
  freePages: number;
  autoVacuum: "none" | "full" | "incremental";
};

/**
 * Reads the header without opening the database. Migrations end with a checkpoint, so the main file always tells the
 * truth about its version. null where there is no file, or an empty one: created, but never written, because the
 * process died at once.
 * @throws ForeignDatabaseError when it is no SQLite database.
 */
export function readFileHeader(file: string): FileHeader | null {
  if (!existsSync(file)) return null;
  const header = Buffer.alloc(100);
  const descriptor = openSync(file, "r");
  let size: number;
  try {
    size = readSync(descriptor, header, 0, 100, 0);
  } finally {
    closeSync(descriptor);
  }
  if (size === 0) return null;
  if (size < 100 || header.toString("latin1", 0, 15) !== "SQLite format 3")
    throw new ForeignDatabaseError(file, "it is no SQLite database");
  const field = (at: number): number => header.readUInt32BE(at);
  // A page of 65536 bytes is written as 1.
  const pageSize = header.readUInt16BE(16) === 1 ? 65_536 : header.readUInt16BE(16);
  return {
    schemaVersion: field(60),
    applicationId: field(68),
    pageSize,
    pages: field(28),
    freePages: field(36),
    autoVacuum: field(52) === 0 ? "none" : field(64) === 0 ? "full" : "incremental",
  };
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

type Migrating = Required<OpenOptions> & { file: string; backups: string; now: number };

function migrate(db: Db, { file, backups, now, steps, onUpgrade }: Migrating): void {
  const found = db.pragma("user_version", { simple: true }) as number;
  const target = steps.length;
  if (found > target) throw new NewerDatabaseError(file, found, target);
  if (found === target) return;
  if (found === 0) {
    if (db.prepare("SELECT count(*) FROM sqlite_schema").pluck().get() !== 0)
      throw new ForeignDatabaseError(file, "it has tables but no schema version");
    createSchema(db);
  } else {
    onUpgrade({ step: "begun", from: found, to: target });
    onUpgrade({ step: "copied", ...backUpBeforeMigration(db, backups, found, target, now) });
    const pending = steps.filter((migration) => migration.version > found);
    applyMigrations(db, pending, ({ version, name }) => onUpgrade({ step: "migrated", version, name }));
    onUpgrade({ step: "done", from: found, to: target });
  }
  // So that the header of the main file carries the new version, see readHeader.
  db.pragma("wal_checkpoint(TRUNCATE)");
}

/** The present schema in an empty database, in one transaction. */
export function createSchema(db: Db): void {
  inTransaction(db, () => {
    db.exec(readTextAsset("schema.sql"));
    db.pragma(`application_id = ${APPLICATION_ID}`);
    db.pragma(`user_version = ${schemaVersion()}`);
  });
}

/** Applies migrations in one transaction: all or none. `applied` is called after each, before the commit. */
export function applyMigrations(
  db: Db,
  pending: readonly Migration[],
  applied: (migration: Migration) => void = () => undefined,
): void {
  // For 0005-corrections.sql. What earlier versions accepted is read within their bounds, before the server listens.
  db.function("assay_parsed_template", (text) => JSON.stringify(readStoredText(String(text))));
  db.function("assay_parsed_policy", (text) => {
    const { policy } = parsePolicy(String(text), true);
    return policy && serializePolicy(policy);
  });
  inTransaction(db, () => {
    for (const migration of pending) {
      db.exec(migration.sql);
      db.pragma(`user_version = ${migration.version}`);
      applied(migration);
    }
    db.pragma(`application_id = ${APPLICATION_ID}`);
    const broken = db.pragma("foreign_key_check") as unknown[];
    if (broken.length > 0)
      throw new Error(`the migration would leave ${broken.length} rows that point at nothing; nothing was changed`);
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
