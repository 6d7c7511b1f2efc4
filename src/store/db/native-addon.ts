/**
 * Loads the native addon of better-sqlite3; no other module does.
 *
 * Invariant: a process never maps two copies of the addon. Two copies are two SQLite libraries, and POSIX file locks do
 * not exclude each other within one process: both would get the write lock of one database, which corrupts it. So the
 * main thread chooses the path once and leaves it in the environment data that worker threads inherit; a worker loads
 * that path or fails.
 *
 * The kernel maps only real files on a mount without noexec. A packed executable therefore writes its copy into a
 * private directory, opens it, unlinks it and loads it as /proc/self/fd/N: no file remains, no other process can
 * replace it, and simultaneous starts do not collide. The descriptor stays open for the life of the process, because
 * workers load the addon by that path. $HOME plays no part: services often have none.
 */

import { closeSync, mkdtempSync, openSync, realpathSync, rmdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { getEnvironmentData, isMainThread, setEnvironmentData } from "node:worker_threads";
import { ADDON_ASSET, findCheckoutPath, readAsset } from "../../assets.ts";
import { causeOf } from "../../domain/text/system-errors.ts";

/** What better-sqlite3 accepts as `nativeBinding`; its published types know only the string form. */
export type Addon = object;

interface Loaded {
  readonly addon: Addon;
  readonly path: string;
}

const ENVIRONMENT_KEY = "assay.addon-path";

let loaded: Loaded | null = null;

/**
 * Returns the addon for `new Database(file, { nativeBinding })`; loads it on the first call in each thread. The main
 * thread must call this before it starts a worker that opens a database.
 * @param dataDirectory one of the directories tried for the private copy, or null.
 * @throws Error that lists every directory that was tried and why it failed.
 */
export function loadAddon(dataDirectory: string | null = null): Addon {
  loaded ??= isMainThread ? loadInMainThread(dataDirectory) : loadInWorker();
  return loaded.addon;
}

function loadInMainThread(dataDirectory: string | null): Loaded {
  const onDisk = findCheckoutPath(ADDON_ASSET);
  const result =
    onDisk === null
      ? loadPrivateCopy(readAsset(ADDON_ASSET), copyDirectories(process.env, dataDirectory))
      : loadFile(realpathSync(onDisk));
  setEnvironmentData(ENVIRONMENT_KEY, result.path);
  return result;
}

function loadInWorker(): Loaded {
  const path = getEnvironmentData(ENVIRONMENT_KEY);
  if (typeof path !== "string") {
    throw new Error("the main thread must load the SQLite addon before it starts a worker that opens a database");
  }
  return loadFile(path);
}

function loadFile(path: string): Loaded {
  const module = { exports: {} };
  // The addon reads this when it is loaded: it lets file names be URIs, which is how a database is opened immutable.
  process.env["SQLITE_USE_URI"] = "1";
  process.dlopen(module, path);
  return { addon: module.exports, path };
}

/**
 * The directories to try for the private copy, in order and without duplicates: $ASSAY_NATIVE_DIR, then the temporary
 * directory, the data directory (always writable for us), and the usual places.
 */
export function copyDirectories(environment: NodeJS.ProcessEnv, dataDirectory: string | null): string[] {
  const candidates = [
    environment["ASSAY_NATIVE_DIR"],
    environment["TMPDIR"],
    dataDirectory,
    environment["XDG_RUNTIME_DIR"],
    "/dev/shm",
    "/var/tmp",
    "/tmp",
  ];
  return [...new Set(candidates.filter((directory) => typeof directory === "string" && directory !== ""))] as string[];
}

/**
 * Writes an addon image into the first directory from which it can be loaded, and loads it. Afterwards no directory
 * holds the file, and the returned path (/proc/self/fd/N) is valid until the process ends.
 * @throws Error that lists every directory that was tried and why it failed.
 */
export function loadPrivateCopy(image: Buffer, directories: readonly string[]): Loaded {
  const refusals: string[] = [];
  for (const directory of directories) {
    try {
      return loadFrom(directory, image);
    } catch (error) {
      refusals.push(`  ${directory}: ${causeOf(error)}`);
    }
  }
  throw new Error(
    "cannot load the built-in SQLite library: " +
      "it must be written to a directory that is writable and not mounted noexec.\n" +
      `These were tried:\n${refusals.join("\n")}\n` +
      "Set ASSAY_NATIVE_DIR to a directory that will do; nothing stays in it.",
  );
}

function loadFrom(directory: string, image: Buffer): Loaded {
  const descriptor = openUnlinkedCopy(directory, image);
  try {
    return loadFile(`/proc/self/fd/${descriptor}`);
  } catch (error) {
    closeSync(descriptor);
    throw error;
  }
}

/** A read-only descriptor of an already unlinked file with these bytes. */
function openUnlinkedCopy(directory: string, image: Buffer): number {
  const temporary = mkdtempSync(join(directory, ".assay-native-"));
  try {
    const file = join(temporary, ADDON_ASSET);
    try {
      writeFileSync(file, image, { flag: "wx", mode: 0o600 });
      return openSync(file, "r");
    } finally {
      rmSync(file, { force: true });
    }
  } finally {
    rmdirSync(temporary);
  }
}
