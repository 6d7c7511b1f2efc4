// Loads the native half of better-sqlite3, and is the only module that does.
//
// Invariant: a process never maps two copies of the addon. Two copies are two SQLite libraries, and POSIX file locks do
// not exclude each other inside one process: both would be granted the write lock of one database, which corrupts it.
// So the main thread chooses the path once and leaves it in the environment data that every later worker thread
// inherits; a worker opens that very path or refuses.
//
// The kernel maps only real files that lie on a mount without noexec. An executable therefore writes its copy into a
// private directory, opens it, unlinks it and loads it as /proc/self/fd/N: nothing stays behind, nobody else can
// replace it, simultaneous starts do not meet. The descriptor stays open for the life of the process, because N is the
// name under which workers find it. $HOME plays no part: services often have none.

import { closeSync, mkdtempSync, openSync, realpathSync, rmdirSync, unlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { getEnvironmentData, isMainThread, setEnvironmentData } from "node:worker_threads";
import { ADDON_ASSET, findCheckoutPath, readAsset } from "../../assets.ts";

/** What better-sqlite3 takes as `nativeBinding`; its published types know only the string form. */
export type Addon = object;

interface Loaded {
  readonly addon: Addon;
  readonly path: string;
}

const ENVIRONMENT_KEY = "assay.addon-path";

let loaded: Loaded | null = null;

/**
 * The addon, loaded at the first call of each thread, for `new Database(file, { nativeBinding })`.
 *
 * `dataDirectory` (or null) is one of the directories tried for the private copy. A worker thread loads what the main
 * thread loaded, so the main thread must have called this before it starts a worker that opens a database.
 * Throws one Error that lists every directory with the reason why it would not do.
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
  // Read by the addon when it is loaded: names of files may be URLs then, which is how a database is opened that nobody
  // can write to.
  process.env["SQLITE_USE_URI"] = "1";
  process.dlopen(module, path);
  return { addon: module.exports, path };
}

/**
 * The directories to try for the private copy, in order and each once: $ASSAY_NATIVE_DIR, where the operator says so;
 * then what is meant for temporary files, the data directory (always writable to us), and the usual places.
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
 * Writes the image of an addon into the first directory that lets it be loaded, and loads it from there. On return no
 * directory holds anything of it, and the returned path (/proc/self/fd/N) is good until the process ends.
 * Throws one Error that lists every directory with the reason why it would not do.
 */
export function loadPrivateCopy(image: Buffer, directories: readonly string[]): Loaded {
  const refusals: string[] = [];
  for (const directory of directories) {
    try {
      return loadFrom(directory, image);
    } catch (error) {
      refusals.push(`  ${directory}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  throw new Error(
    "cannot load the built-in SQLite library: it must be written to a directory that is writable and not mounted noexec.\n" +
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

/** A read-only descriptor of a file with these bytes that has no name any more. */
function openUnlinkedCopy(directory: string, image: Buffer): number {
  const own = mkdtempSync(join(directory, ".assay-native-"));
  try {
    const file = join(own, ADDON_ASSET);
    try {
      writeFileSync(file, image, { flag: "wx", mode: 0o600 });
      return openSync(file, "r");
    } finally {
      unlinkSync(file);
    }
  } finally {
    rmdirSync(own);
  }
}
