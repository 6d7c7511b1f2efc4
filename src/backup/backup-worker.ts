// The thread that makes one backup and ends: copying, hashing and checking gigabytes would hold up the main thread. Any
// message tells it to stop, which leaves nothing behind.
import { randomUUID } from "node:crypto";
import { parentPort, workerData } from "node:worker_threads";
import { checkArchiveFile } from "./check.ts";
import { IncompleteEvidenceError, makeBackup } from "./make.ts";
import { openEvidenceStore } from "../evidence/location.ts";
import type { EvidenceStoreConfig } from "../evidence/location.ts";
import type { BackupSummary } from "./make.ts";

/**
 * What the thread is started with: the data directory, where its evidence is, what is to be written where, and the time
 * in epoch seconds.
 */
export type BackupWorkerData = {
  directory: string;
  evidence: EvidenceStoreConfig;
  file: string;
  partial: string;
  allowMissing: boolean;
  reserve: number;
  program: { version: string; commit: string | null };
  at: number;
};

/** `problems`: of IncompleteEvidenceError. `code` is the errno name where the operating system refused. */
export type BackupOutcome =
  | { made: BackupSummary }
  | { failed: { name: string; message: string; problems: readonly string[]; code: string | null } };

const port = parentPort;
if (port === null) throw new Error("this file runs as a worker thread only");
const { directory, evidence: home, file, partial, allowMissing, reserve, program, at } = workerData as BackupWorkerData;
const stop = new AbortController();
port.once("message", () => stop.abort(new Error("the server stops")));

void makeBackup({
  directory,
  allowMissing,
  reserve,
  program,
  target: { file, partial, overwrite: false },
  // The place of the server, with which the database agrees as long as it runs.
  evidence: async () => (await openEvidenceStore(home, randomUUID)).store,
  now: () => at,
  signal: stop.signal,
  progress: { begin: () => undefined, reach: () => undefined },
  // Whoever relies on it without ever looking at it needs one that was read back.
  check: (path) => checkArchiveFile(path, stop.signal),
})
  .then(
    ({ manifest: { database, files }, bytes, sha256 }): BackupOutcome => ({
      made: {
        bytes,
        sha256,
        rows: Object.values(database.rows).reduce((sum, count) => sum + count, 0),
        files: files.count,
        missing: files.missing.length,
      },
    }),
    (error: Error & { code?: unknown }): BackupOutcome => ({
      failed: {
        name: error.name,
        message: error.message,
        code: typeof error.code === "string" ? error.code : null,
        problems: error instanceof IncompleteEvidenceError ? error.problems : [],
      },
    }),
  )
  .then((news) => {
    port.postMessage(news);
    port.close();
  });
