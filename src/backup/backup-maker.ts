// The main thread's side of scheduled backups: one thread for each, which ends with it.
import type { Worker } from "node:worker_threads";
import { BackupError, IncompleteEvidenceError } from "./make.ts";
import type { BackupOutcome, BackupWorkerData } from "./backup-worker.ts";
import type { BackupSummary } from "./make.ts";

export type BackupMaker = {
  /**
   * Makes one backup. Rejects with IncompleteEvidenceError, BackupError, or an error that has name and `code` of the
   * one in the thread.
   */
  make(order: BackupWorkerData): Promise<BackupSummary>;
  /**
   * Stops what is under way. Waits for it for a few seconds: a thread that syncs gigabytes looks up only afterwards.
   */
  close(): Promise<void>;
};

/** Milliseconds. */
const CLOSE_TIMEOUT_MS = 20_000;

export function createBackupMaker({
  start,
}: {
  start(options: { workerData: BackupWorkerData }): Worker;
}): BackupMaker {
  const running = new Set<{ worker: Worker; ended: Promise<void> }>();
  return {
    async make(order) {
      const worker = start({ workerData: order });
      let news: BackupOutcome | null = null;
      let cause: unknown = null;
      const ended = new Promise<void>((resolve) => {
        worker.on("message", (told: BackupOutcome) => (news = told));
        worker.on("error", (error) => (cause = error));
        worker.on("exit", () => resolve());
      });
      const one = { worker, ended };
      running.add(one);
      await ended;
      running.delete(one);
      const told = news as BackupOutcome | null;
      if (told === null) throw new Error("the thread that makes backups ended", { cause });
      if ("made" in told) return told.made;
      const { name, message, problems, code } = told.failed;
      if (name === "IncompleteEvidenceError") throw new IncompleteEvidenceError(problems);
      if (name === "BackupError") throw new BackupError(message);
      throw Object.assign(new Error(message), { name }, code === null ? {} : { code });
    },
    async close() {
      for (const { worker } of running) worker.postMessage("stop");
      const patience = new Promise<void>((resolve) => setTimeout(resolve, CLOSE_TIMEOUT_MS).unref());
      await Promise.race([Promise.all([...running].map(({ ended }) => ended)), patience]);
      for (const { worker } of running) void worker.terminate();
    },
  };
}
