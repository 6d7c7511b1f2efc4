/**
 * The thread that records large reports, re-evaluates large environments and copies the write-ahead log, on its own
 * connection. It copies the log every few hundred writes, so it is there whenever the server is busy; the stores and
 * the policy language, which take 20 MB, are loaded with the first report that needs them (recording-tasks.ts).
 */
import { workerData } from "node:worker_threads";
import { delegateCheckpoints, openSecondWriter } from "../store/db/connection.ts";
import type { TemporaryFiles } from "../store/db/types.ts";
import { createGarbageCollector } from "../workers/memory-reclaim.ts";
import { serveTasks } from "../workers/task-protocol.ts";
import type { ReadResult, RecordingOrder, RecordingResult } from "./recording-orders.ts";
import type { RecordingTasks } from "./recording-tasks.ts";

/** What the thread is started with: the data directory, and which program checkpoints the write-ahead log. */
export type RecordingWorkerData = {
  thread: "recording";
  directory: string;
  checkpoints: "own" | "external";
  temporaryFiles: TemporaryFiles;
};

const { directory, checkpoints, temporaryFiles } = workerData as RecordingWorkerData;
const db = openSecondWriter(directory);
if (checkpoints === "external") delegateCheckpoints(db, checkpoints);

/** Of whole tasks: what is left when nothing of one is needed any more. */
const garbage = createGarbageCollector();

let loaded: Promise<RecordingTasks> | null = null;
const tasks = (): Promise<RecordingTasks> =>
  (loaded ??= import("./recording-tasks.ts").then(({ createRecordingTasks }) =>
    createRecordingTasks(db, temporaryFiles),
  ));

async function carryOut(order: RecordingOrder): Promise<RecordingResult | ReadResult | null> {
  switch (order.type) {
    case "read":
      return (await tasks()).read(order);
    case "plan":
      return (await tasks()).plan(order);
    case "apply":
      return (await tasks()).write(order);
    case "forget":
      (await loaded)?.forget();
      if (garbage.isDue()) garbage.collect();
      return null;
    case "checkpoint":
      return checkpoint(order.busyTimeoutMs);
  }
}

serveTasks(carryOut);

function checkpoint(busyTimeoutMs: number): null {
  if (busyTimeoutMs === 0) {
    db.pragma("wal_checkpoint(PASSIVE)");
    return null;
  }
  const defaultTimeoutMs = db.pragma("busy_timeout", { simple: true }) as number;
  db.pragma(`busy_timeout = ${busyTimeoutMs}`);
  try {
    db.pragma("wal_checkpoint(TRUNCATE)");
  } finally {
    db.pragma(`busy_timeout = ${defaultTimeoutMs}`);
  }
  return null;
}
