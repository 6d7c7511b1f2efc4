// The main thread's side of scheduled backups: each backup runs in a thread of its own, which ends with it.
import type { Worker } from "node:worker_threads";
import { UNBOUNDED_MEMORY } from "../workers/task-memory.ts";
import type { AcquireMemory } from "../workers/task-memory.ts";
import type { BackupOutcome, BackupWorkerData } from "./backup-worker.ts";
import { BackupError, IncompleteEvidenceError } from "./errors.ts";
import type { BackupSummary } from "./make.ts";

type BackupMaker = {
  /**
   * Makes one backup. Rejects with IncompleteEvidenceError, BackupError (also after `close`), or an error with the name
   * and `code` of the error in the thread.
   */
  make(data: BackupWorkerData): Promise<BackupSummary>;
  /**
   * Stops running backups, and starts no more. Waits up to CLOSE_TIMEOUT_MS, because a thread that syncs gigabytes
   * notices only then.
   */
  close(): Promise<void>;
};

const CLOSE_TIMEOUT_MS = 20_000;

export function createBackupMaker({
  start,
  acquireMemory = UNBOUNDED_MEMORY,
}: {
  start(options: { workerData: BackupWorkerData }): Worker;
  /** Takes the memory of a backup for as long as its thread runs. */
  acquireMemory?: AcquireMemory;
}): BackupMaker {
  const running = new Set<{ worker: Worker; ended: Promise<void> }>();
  const closing = new AbortController();

  /** Runs a thread to its end. @returns its last message */
  async function runThread(data: BackupWorkerData): Promise<BackupOutcome> {
    const worker = start({ workerData: data });
    const messages: BackupOutcome[] = [];
    let cause: unknown = null;
    const ended = new Promise<void>((resolve) => {
      worker.on("message", (outcome: BackupOutcome) => void messages.push(outcome));
      worker.on("error", (error) => {
        cause = error;
      });
      worker.on("exit", () => resolve());
    });
    const backup = { worker, ended };
    running.add(backup);
    await ended;
    running.delete(backup);
    const outcome = messages.at(-1);
    if (outcome === undefined) throw new Error("the backup thread ended without a result", { cause });
    return outcome;
  }

  return {
    async make(data) {
      // A thread that starts now would be cut off by the end of the process, and leave its partial file.
      closing.signal.throwIfAborted();
      const memory = await acquireMemory(closing.signal);
      const outcome = await runThread(data).finally(() => memory.release());
      if ("made" in outcome) return outcome.made;
      throw toError(outcome.failed);
    },
    async close() {
      closing.abort(new BackupError("the server is stopping"));
      for (const { worker } of running) worker.postMessage("stop");
      const timeout = new Promise<void>((resolve) => setTimeout(resolve, CLOSE_TIMEOUT_MS).unref());
      await Promise.race([Promise.all([...running].map(({ ended }) => ended)), timeout]);
      for (const { worker } of running) void worker.terminate();
    },
  };
}

/** Errors lose their class on the way between threads. */
function toError({ name, message, problems, code }: Extract<BackupOutcome, { failed: unknown }>["failed"]): Error {
  if (name === "IncompleteEvidenceError") return new IncompleteEvidenceError(problems);
  if (name === "BackupError") return new BackupError(message);
  return Object.assign(new Error(message), { name }, code === null ? {} : { code });
}
