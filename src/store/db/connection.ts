/**
 * Connections to a database file, whose schema database.ts checks and migrates. A thread that only copies the log uses
 * this file alone, without the stores and parsers that migrations need.
 */
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import Database from "better-sqlite3";
import type { Statement } from "better-sqlite3";
import { onPathSync } from "../../domain/text/system-errors.ts";
import { lazyStatement } from "./lazy-statement.ts";
import { loadAddon } from "./native-addon.ts";
import type { Db, DbReader } from "./types.ts";

/**
 * Opens another connection to a database that this process has open, for a thread that writes while it has exclusive
 * write access (GroupCommitWriter.withExclusiveWrite).
 */
export function openSecondWriter(directory: string): Db {
  const db = connect(join(directory, "assay.db"), directory, { fileMustExist: true });
  db.pragma("cache_size = -2048"); // 2 MiB: it reads back what it writes and keeps nothing between two tasks
  return db;
}

/**
 * Leaves WAL checkpoints to others. "own": another thread of this process runs them (jobs/wal-checkpointer.ts), and
 * this connection steps in only when the log reaches 64 MiB. "external": another program beside this server runs them,
 * and this connection never does.
 */
export const delegateCheckpoints = (db: Db, to: "own" | "external" = "own"): void =>
  void db.pragma(`wal_autocheckpoint = ${to === "own" ? 16_384 : 0}`);

/** The options of each connection. `directory` is where the native addon may be unpacked, see native-addon.ts. */
export const driverOptions = (directory: string | null): Database.Options =>
  // better-sqlite3 accepts the loaded addon; its types know only the path form.
  ({ nativeBinding: loadAddon(directory) as unknown as string, timeout: LOCK_TIMEOUT_MS });

/**
 * How long a write waits for the write lock while another process has it: in commands and threads inside SQLite, in a
 * server in the queue of the writer (write-lock.ts).
 */
export const LOCK_TIMEOUT_MS = 5_000;

/**
 * Makes SQLite return SQLITE_BUSY at once instead of waiting. For the connection of a thread that serves requests:
 * while it waits, nothing is answered, not even a health probe.
 */
export const neverWait = (db: Db): void => void db.pragma("busy_timeout = 0");

/** Undoes `neverWait`, when nothing is served any more. */
export const waitAgain = (db: Db): void => void db.pragma(`busy_timeout = ${LOCK_TIMEOUT_MS}`);

/**
 * Makes SQLite compile each statement once. SQLite's own switch is the query planner stability guarantee (QPSG,
 * SQLITE_DBCONFIG_ENABLE_QPSG), but the driver exposes no sqlite3_db_config, its build leaves SQLITE_ENABLE_QPSG off
 * and there is no pragma for it; so every parameter gets a unary plus, which hides its value from the planner and
 * changes nothing else. A statement is compiled on its first use (lazy-statement.ts).
 *
 * Without this, a build with STAT4 (the driver's) compiles a statement again whenever a parameter that is compared with
 * an indexed column gets another value, because the value might suggest another plan (sqlite3_prepare_v2), and the
 * driver rebuilds its row function: ten to twenty times the cost of the query. We never run ANALYZE, so values cannot
 * improve a plan.
 */
export function withOurStatements(db: Db): Db {
  const prepare = db.prepare;
  db.prepare = ((sql: string) => {
    const stable = sql.replace(PARAMETER, (text, parameter?: string) => (parameter === undefined ? text : `+${text}`));
    return lazyStatement(stable, () => prepare.call(db, stable) as Statement<unknown[]>);
  }) as Db["prepare"];
  return db;
}

/** A parameter (captured), or a quoted text, which contains none. */
const PARAMETER = /'[^']*'|"[^"]*"|([?@]\w*)/g;

/**
 * Lets free pages be returned to the file system in small steps (jobs/incremental-vacuum.ts). Takes effect on an
 * empty file only, before any other pragma writes to it; on an existing file it would be an extra write. An older file
 * stays as it is until `assay vacuum`.
 */
export const INCREMENTAL_AUTO_VACUUM = "auto_vacuum = INCREMENTAL";

/**
 * KiB of the page cache for a database of that many bytes: a thirty-second of it, from 16 to 64 MiB. That holds the
 * working set of a busy installation: the upper pages of all indexes, and the trails that pipelines report to now. The
 * system caches the rest, but each page that it has to copy costs a system call.
 */
export const pageCacheKib = (bytes: number): number =>
  Math.round(Math.min(Math.max(bytes / 1024 / 32, 16 * 1024), 64 * 1024));

/** The size of a database in bytes, without its write-ahead log. */
export const sizeOf = (db: Db): number =>
  (db.pragma("page_count", { simple: true }) as number) * (db.pragma("page_size", { simple: true }) as number);

/** Opens a connection with the pragmas that all our read-write connections share. */
export const connect = (file: string, directory: string, more: Database.Options = {}): Db =>
  onPathSync(file, () => openConnection(file, directory, more));

function openConnection(file: string, directory: string, more: Database.Options): Db {
  const db = withOurStatements(new Database(file, { ...driverOptions(directory), ...more }));
  if (db.pragma("page_count", { simple: true }) === 0) db.pragma(INCREMENTAL_AUTO_VACUUM);
  db.pragma("journal_mode = WAL");
  // FULL, not the driver's NORMAL: in WAL mode NORMAL may lose acknowledged commits on a power loss.
  db.pragma("synchronous = FULL");
  db.pragma("foreign_keys = ON");
  db.pragma("trusted_schema = OFF");
  db.pragma("temp_store = MEMORY");
  db.pragma(`cache_size = -${pageCacheKib(sizeOf(db))}`);
  // 16 MiB: pages that every write changes are copied to the main file once for thousands of writes.
  db.pragma("wal_autocheckpoint = 4096");
  db.pragma("journal_size_limit = 67108864"); // a WAL that grew beyond 64 MiB is truncated back to that
  return db;
}

/**
 * Opens a connection that only reads, with or without a server beside it. The caller sets `immutable` only if no
 * process writes meanwhile and the write-ahead log is empty. SQLite then creates no files, so the directory may be
 * read-only.
 */
export function openReadOnly(directory: string, { immutable = false } = {}): DbReader {
  const file = join(directory, "assay.db");
  const name = immutable ? `${pathToFileURL(file).href}?immutable=1` : file;
  const options = { ...driverOptions(directory), readonly: true, fileMustExist: true };
  const db = withOurStatements(onPathSync(file, () => new Database(name, options)));
  db.pragma("trusted_schema = OFF");
  db.pragma("cache_size = -16384");
  return db;
}

/** Opens a single-file copy of a database that no other process has open. */
export const openCopy = (file: string, { readonly = true } = {}): Db =>
  onPathSync(file, () =>
    withOurStatements(new Database(file, { ...driverOptions(null), readonly, fileMustExist: true })),
  );
