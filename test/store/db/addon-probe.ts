// Run by native-addon.test.ts as a separate process: the main thread holds the write lock of a database, and a worker
// requests it. Arguments: how the addon is loaded ("shared", "copied" or "worker-only"), and the database file. Prints
// what the worker got.

import Database from "better-sqlite3";
import { dirname } from "node:path";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { ADDON_ASSET, readAsset } from "../../../src/assets.ts";
import { type Addon, loadAddon, loadPrivateCopy } from "../../../src/store/db/native-addon.ts";

interface Task {
  readonly file: string;
  /** null: through loadAddon. */
  readonly path: string | null;
}

function open(file: string, addon: Addon): Database.Database {
  return new Database(file, { nativeBinding: addon as unknown as string, timeout: 0 });
}

function startWorker(task: Task): void {
  const worker = new Worker(import.meta.filename, { workerData: task });
  worker.on("message", (message: string) => console.log(message));
}

function lockOrReason({ file, path }: Task): string {
  try {
    const module = { exports: {} };
    if (path !== null) process.dlopen(module, path);
    open(file, path === null ? loadAddon() : module.exports).exec("BEGIN IMMEDIATE");
    return "granted";
  } catch (error) {
    return error instanceof Database.SqliteError ? error.code : String(error);
  }
}

if (isMainThread) {
  const [mode = "", file = ""] = process.argv.slice(2);
  if (mode === "worker-only") {
    startWorker({ file, path: null });
  } else {
    const copy = mode === "copied" ? loadPrivateCopy(readAsset(ADDON_ASSET), [dirname(file)]) : null;
    const database = open(file, copy === null ? loadAddon() : copy.addon);
    database.exec("PRAGMA journal_mode = WAL; BEGIN IMMEDIATE");
    startWorker({ file, path: copy === null ? null : copy.path });
    process.on("exit", () => database.close());
  }
} else {
  parentPort?.postMessage(lockOrReason(workerData as Task));
}
