/**
 * Everything that can be told about an installation without touching it: each check is made by itself, and one that
 * cannot be made says so and holds up no other. Nothing is created and nothing is written: where the database cannot be
 * opened without that, its rows are not looked at.
 */
import { statSync } from "node:fs";
import { join } from "node:path";
import type { Config } from "../../config/options.ts";
import { loadAddon } from "../../store/db/native-addon.ts";
import { openReadOnly } from "../../store/db/database.ts";
import { isServed } from "../../store/db/data-directory-lock.ts";
import type { Check, Machine } from "./check.ts";
import { fail, realMachine as realMachine, ok, warn } from "./check.ts";
import { checkContents, checkDatabase, checkFreePages, checkWal } from "./database.ts";
import type { DatabaseContents, DatabaseState } from "./database.ts";
import { checkBackups, checkCopies, checkDirectory, checkPermissions, checkSpace } from "./directory.ts";
import { checkFileSystem } from "./file-system.ts";
import { checkAddress, checkClock, checkMemory, checkOpenFiles, checkServer, findLockHolder } from "./process.ts";
import type { ServerProcess } from "./process.ts";

export type DoctorOptions = {
  /** An absolute path. */
  directory: string;
  config: Config;
  /** The check of the certificate; null where none is configured. */
  certificate(): Check | null;
  /**
   * The check of where evidence is kept, and of what the database records of that; null: nothing, or it could not be
   * asked.
   */
  evidence(recorded: string | null): Promise<Check>;
  machine?: Machine;
};

/** `newer`: the database was written by a newer program. */
export type Diagnosis = { checks: Check[]; newer: boolean };

export async function diagnose({
  directory,
  config,
  certificate,
  evidence,
  machine = realMachine,
}: DoctorOptions): Promise<Diagnosis> {
  const checks: Check[] = [];
  const mode = config.networkFilesystem;
  const present = checkDirectory(directory);
  checks.push(
    present,
    guarded("file system", () => checkFileSystem(directory, mode, machine)),
    guarded("disk space", () => checkSpace(directory, config.diskReserve, machine)),
  );
  checks.push(guarded("native library", checkLibrary));
  let state: DatabaseState = { header: null, newer: false, usable: false };
  let [server, contents]: [ServerProcess | null, DatabaseContents | null] = [null, null];
  if (present.level === "ok") {
    checks.push(guarded("permissions", () => checkPermissions(directory, machine)));
    checks.push(guarded("server", () => checkServer((server = serverOf(directory, machine)))));
    checks.push(
      guarded("database", () => {
        const { check, state: found } = checkDatabase(directory, machine);
        state = found;
        return check;
      }),
    );
    const { header } = state;
    checks.push(
      guarded("write-ahead log", () => checkWal(directory, server !== null, config.checkpoints === "external")),
    );
    if (header) checks.push(checkFreePages(header));
    if (state.usable) {
      const looked = lookInside(directory, server !== null, machine);
      contents = "checks" in looked ? looked : null;
      for (const check of "checks" in looked ? looked.checks : [looked]) checks.push(check);
    }
    checks.push(
      guarded("clock", () => checkClock(directory, { newest: null, backwards: 0, clock: null, ...contents }, machine)),
    );
    const needed = header && header.pages * header.pageSize + (contents?.evidence ?? 0);
    checks.push(
      guarded("backup", () =>
        checkBackups(config.backupDirectory ?? join(directory, "backups"), needed, config.backupEvery, machine),
      ),
      guarded("copies before upgrades", () => checkCopies(directory)),
    );
    checks.push(await evidence(contents?.place ?? null).catch((error: unknown) => unmade("evidence store", error)));
  }
  checks.push(
    guarded("open files", () => checkOpenFiles(server, machine)),
    guarded("memory", () => checkMemory(machine)),
  );
  checks.push(await checkAddress(config.listen, server).catch((error: unknown) => unmade("address", error)));
  const certified = certificate();
  if (certified) checks.push(certified);
  return { checks, newer: state.newer };
}

function guarded(name: string, check: () => Check): Check {
  try {
    return check();
  } catch (error) {
    return unmade(name, error);
  }
}

const unmade = (name: string, error: unknown): Check =>
  warn(
    name,
    `could not be looked at: ${error instanceof Error ? error.message : String(error)}`,
    "run this command as the user of the server",
  );

/** Not by way of the data directory, where nothing is to change. */
function checkLibrary(): Check {
  try {
    loadAddon(null);
    return ok("native library", "SQLite can be loaded");
  } catch (error) {
    return fail(
      "native library",
      error instanceof Error ? error.message : String(error),
      "set ASSAY_NATIVE_DIR to a directory that is writable and not mounted noexec; the data directory will do",
    );
  }
}

const serverOf = (directory: string, machine: Machine): ServerProcess | null =>
  isServed(directory) ? findLockHolder(join(directory, "assay.lock"), machine) : null;

/** The rows, where looking at them changes nothing: beside a server, or in a file that nobody has to repair first. */
function lookInside(directory: string, served: boolean, machine: Machine): DatabaseContents | Check {
  const name = "contents";
  const log = statSync(join(directory, "assay.db-wal"), { throwIfNoEntry: false })?.size ?? 0;
  if (!served && log > 0)
    return warn(
      name,
      "not looked at: the log must be taken over first, which changes files",
      "start the server, or run assay verify, then ask again",
    );
  try {
    const db = openReadOnly(directory, { immutable: !served });
    try {
      return checkContents(db, served, machine);
    } finally {
      db.close();
    }
  } catch (error) {
    return fail(
      name,
      `cannot be read: ${error instanceof Error ? error.message : String(error)}`,
      "run this command as the user of the server; if it stays so, assay verify tells what is damaged",
    );
  }
}
