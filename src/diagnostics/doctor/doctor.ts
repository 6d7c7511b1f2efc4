/**
 * Everything that can be said about an installation without touching it. Checks are independent: one that cannot be
 * made reports that and blocks no other. Nothing is created or written: where the database cannot be opened without
 * that, its rows are not read.
 *
 * Root can read everything, so it takes the place of the server's user for the checks of files. These come last,
 * because it cannot go back.
 */
import { statSync } from "node:fs";
import { join } from "node:path";
import type { Config } from "../../config/options.ts";
import { messageOf } from "../../domain/text/system-errors.ts";
import { isServed } from "../../store/db/data-directory-lock.ts";
import { openReadOnly } from "../../store/db/connection.ts";
import { loadAddon } from "../../store/db/native-addon.ts";
import type { Check, Machine } from "./check.ts";
import { fail, nearestExisting, ok, realMachine, warn } from "./check.ts";
import {
  NO_DATABASE,
  checkCommits,
  checkContents,
  checkDatabase,
  checkFreePages,
  checkSchemaObjects,
  checkWal,
} from "./database.ts";
import type { DatabaseContents, DatabaseState } from "./database.ts";
import { checkBackups, checkCopies, checkDirectory, checkSpace } from "./directory.ts";
import { checkFileSystem } from "./file-system.ts";
import {
  checkAddress,
  checkClock,
  checkDatabaseFiles,
  checkMemory,
  checkOpenFiles,
  checkServer,
  checkSocket,
  findLockHolder,
} from "./process.ts";
import type { ServerProcess } from "./process.ts";
import {
  checkOptionFiles,
  checkPermissions,
  checkServerUser,
  findSocketDenial,
  standInFor,
  withoutCredentials,
} from "./rights.ts";
import type { Become, OptionFile } from "./rights.ts";
import { findServerUser, findUnit } from "./server-user.ts";
import type { ServerUser, Unit } from "./server-user.ts";

type DoctorOptions = {
  /** An absolute path. */
  directory: string;
  config: Config;
  /** What options name, and a start needs. */
  files: readonly OptionFile[];
  /** Called if this process is root and the server's user is another one. */
  become: Become;
  /** Checks the certificate; returns null where none is configured. */
  certificate(): Check | null;
  /**
   * Checks the evidence store. `recorded`: the location in the database; null: none, or it could not be read.
   * `inDatabase`: bytes of evidence that the database holds.
   */
  evidence(recorded: string | null, inDatabase: number): Promise<Check>;
  machine?: Machine;
};

/** `newer`: a newer program wrote the database. */
type DataDiagnosis = { checks: Check[]; newer: boolean; server: ServerProcess | null };

/** `user`: that of the server; null where there is no data directory that could tell. */
type Diagnosis = { checks: Check[]; newer: boolean; user: ServerUser | null };

export async function diagnose(options: DoctorOptions): Promise<Diagnosis> {
  const { directory, config, certificate, machine = realMachine } = options;
  const present = checkDirectory(directory);
  // Before anything opens a database, for which the library might be unpacked in the data directory.
  const library = guard("native library", checkLibrary);
  const data = present.level === "ok" ? await diagnoseData(options, machine) : diagnoseWithoutData(directory, machine);
  const certified = certificate();
  const around = [
    guard("file system", () => checkFileSystem(directory, config.networkFilesystem, machine)),
    guard("disk space", () => checkSpace(directory, config.diskReserve, machine)),
    library,
  ];
  const process = [
    guard("open files", () => checkOpenFiles(data.server, machine)),
    guard("memory", () => checkMemory(machine)),
  ];
  const port =
    "path" in config.listen
      ? null
      : await checkAddress(config.listen, data.server).catch((error: unknown) => couldNotCheck("address", error));
  const unit = findUnit(directory, data.server, machine);
  const rights = checkRights(options, { isData: present.level === "ok", server: data.server, unit, machine });
  const address = port ?? guard("address", () => rights.checkSocket(config.listen as { path: string }));
  const checks = [
    present,
    ...around,
    ...rights.checks,
    ...data.checks,
    ...process,
    address,
    ...(certified ? [certified] : []),
  ];
  return { checks, newer: data.newer, user: rights.user };
}

type RightsFacts = { isData: boolean; server: ServerProcess | null; unit: Unit | null; machine: Machine };

/** From here on, this process may be that of the server's user. */
function checkRights(
  { directory, files, become }: DoctorOptions,
  { isData, server, unit, machine }: RightsFacts,
): { checks: Check[]; user: ServerUser | null; checkSocket(listen: { path: string }): Check } {
  const optionFiles = withoutCredentials(files, unit);
  const real = nearestExisting(directory);
  const user = isData ? findServerUser(directory, { server, unit }, machine) : null;
  const standing = user && standInFor(user, real, { uid: machine.uid, become });
  const checks = standing
    ? [
        checkServerUser(standing),
        guard("permissions", () => checkPermissions(real, standing)),
        guard("files of options", () => checkOptionFiles(optionFiles, standing)),
      ]
    : [];
  return {
    checks: checks.filter((check) => check !== null),
    user,
    checkSocket: ({ path }) => checkSocket(path, server, findSocketDenial(path, standing, unit)),
  };
}

/** What can be said of a directory that holds no database: perhaps it was taken from a server that runs. */
function diagnoseWithoutData(directory: string, machine: Machine): DataDiagnosis {
  const server = findServerSafely(directory, machine);
  const files = server && checkDatabaseFiles(directory, server, machine);
  return { checks: server ? [checkServer(server), ...(files ? [files] : [])] : [], newer: false, server };
}

function findServerSafely(directory: string, machine: Machine): ServerProcess | null {
  try {
    return findServer(directory, machine);
  } catch {
    return null;
  }
}

/** The checks of what is in the data directory. */
async function diagnoseData({ directory, config, evidence }: DoctorOptions, machine: Machine): Promise<DataDiagnosis> {
  let server: ServerProcess | null = null;
  let state: DatabaseState = NO_DATABASE;
  const checks = [
    guard("server", () => {
      server = findServer(directory, machine);
      return checkServer(server);
    }),
  ];
  const served = server as ServerProcess | null;
  const files = served && checkDatabaseFiles(directory, served, machine);
  if (files) checks.push(files);
  checks.push(
    guard("database", () => {
      const database = checkDatabase(directory, machine);
      state = database.state;
      return database.check;
    }),
  );
  const { header, known, usable, newer } = state as DatabaseState;
  const hasServer = server !== null;
  checks.push(
    guard("write-ahead log", () =>
      checkWal(directory, { isServed: hasServer, isExternal: config.checkpoints === "external" }),
    ),
  );
  if (header) checks.push(checkFreePages(header));
  // A connection beside the server would create a log and an index in place of those that it has open.
  const contents =
    known && files?.level !== "fail" ? readContents(directory, { hasServer, usable }, machine) : NO_CONTENTS;
  const neededBytes = header && header.pages * header.pageSize + contents.evidence.files;
  const backups = {
    directory: config.backupDirectory ?? join(directory, "backups"),
    neededBytes,
    intervalS: config.backupEvery,
  };
  for (const check of contents.checks) checks.push(check);
  checks.push(
    guard("clock", () => checkClock(directory, contents, machine)),
    guard("backup", () => checkBackups(backups, machine)),
    guard("copies before upgrades", () => checkCopies(directory)),
    await evidence(contents.place, contents.evidence.database).catch((error: unknown) =>
      couldNotCheck("evidence store", error),
    ),
  );
  return { checks, newer, server };
}

function guard<Result extends Check | null>(name: string, check: () => Result): Check | Result {
  try {
    return check();
  } catch (error) {
    return couldNotCheck(name, error);
  }
}

const couldNotCheck = (name: string, error: unknown): Check =>
  warn(name, `could not be checked: ${messageOf(error)}`, "run this command as root or as the user of the server");

/** Loads the library without using the data directory, where nothing may change. */
function checkLibrary(): Check {
  try {
    loadAddon(null);
    return ok("native library", "SQLite can be loaded");
  } catch (error) {
    return fail(
      "native library",
      messageOf(error),
      "set ASSAY_NATIVE_DIR to a directory that is writable and not mounted noexec, such as the data directory",
    );
  }
}

const findServer = (directory: string, machine: Machine): ServerProcess | null =>
  isServed(directory) ? findLockHolder(join(directory, "assay.lock"), machine) : null;

/** The contents of a database that cannot be read. */
const NO_CONTENTS: DatabaseContents = {
  evidence: { files: 0, database: 0 },
  place: null,
  newest: null,
  clock: null,
  backwards: 0,
  checks: [],
};

/**
 * Reads the schema, and the rows of a `usable` one, where that changes nothing: beside a server, or from a file that
 * needs no recovery.
 */
function readContents(
  directory: string,
  { hasServer, usable }: { hasServer: boolean; usable: boolean },
  machine: Machine,
): DatabaseContents {
  const name = "contents";
  const walBytes = statSync(join(directory, "assay.db-wal"), { throwIfNoEntry: false })?.size ?? 0;
  if (!hasServer && walBytes > 0) {
    const check = warn(
      name,
      "not checked: the write-ahead log must be applied first, which changes files",
      "start the server, or run assay verify, then run this command again",
    );
    return { ...NO_CONTENTS, checks: [check] };
  }
  try {
    const db = openReadOnly(directory, { immutable: !hasServer });
    try {
      const schema = checkSchemaObjects(db);
      if (!usable || schema.level === "fail") return { ...NO_CONTENTS, checks: [schema] };
      const commits = guard("commits", () => checkCommits(directory, db));
      const contents = checkContents(db, { isServed: hasServer, now: machine.now() });
      return { ...contents, checks: [schema, commits, ...contents.checks] };
    } finally {
      db.close();
    }
  } catch (error) {
    const check = fail(
      name,
      `cannot be read: ${messageOf(error)}`,
      "run this command as the user of the server; if it still fails, assay verify shows what is damaged",
    );
    return { ...NO_CONTENTS, checks: [check] };
  }
}
