// The thread that makes one backup and ends: copying, hashing and checking gigabytes would block the main thread. Any
// message stops it, which leaves nothing behind.
import { randomUUID } from "node:crypto";
import { parentPort, workerData } from "node:worker_threads";
import { messageOf } from "../domain/text/system-errors.ts";
import { openEvidenceStore } from "../evidence/location.ts";
import type { EvidenceStoreConfig } from "../evidence/location.ts";
import { checkArchiveFile } from "./check.ts";
import { IncompleteEvidenceError } from "./errors.ts";
import { makeBackup } from "./make.ts";
import type { BackupSummary } from "./make.ts";

export type BackupWorkerData = {
  /** The data directory, and where its evidence is. */
  directory: string;
  evidence: EvidenceStoreConfig;
  /** The archive, and its name until it is complete. */
  file: string;
  partial: string;
  allowMissing: boolean;
  /** Bytes that stay free where the data directory is. */
  reserve: number;
  program: { version: string; commit: string | null };
  /** The time of the backup in epoch seconds. */
  at: number;
};

/** `problems` are those of IncompleteEvidenceError; `code` is the errno name of a system error. */
export type BackupOutcome =
  | { made: BackupSummary }
  | { failed: { name: string; message: string; problems: readonly string[]; code: string | null } };

const port = parentPort;
if (port === null) throw new Error("this file runs as a worker thread only");
const { directory, evidence, file, partial, allowMissing, reserve, program, at } = workerData as BackupWorkerData;
const stop = new AbortController();
port.once("message", () => stop.abort(new Error("the server is stopping")));

void makeBackup({
  directory,
  allowMissing,
  reserve,
  program,
  target: { file, partial, overwrite: false },
  // The server's location: the database agrees with it as long as the server runs.
  evidence: async () => (await openEvidenceStore(evidence, randomUUID)).store,
  now: () => at,
  signal: stop.signal,
  progress: { begin: () => undefined, reach: () => undefined },
  // Scheduled backups run unattended, so each is read back before it counts.
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
        message: messageOf(error),
        code: typeof error.code === "string" ? error.code : null,
        problems: error instanceof IncompleteEvidenceError ? error.problems : [],
      },
    }),
  )
  .then((outcome) => {
    port.postMessage(outcome);
    port.close();
  });
