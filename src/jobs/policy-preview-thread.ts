/**
 * The thread of the previews of policies and templates, on its own connection, on which it cannot write. An evaluation
 * reads one moment of the database, and so does a comparison with the names of the organization.
 */
import { workerData } from "node:worker_threads";
import { openSecondWriter } from "../store/db/connection.ts";
import { openStore } from "../store/index.ts";
import { serveTasks } from "../workers/task-protocol.ts";
import { runPreview } from "./policy-previews.ts";
import type { PreviewResult, PreviewTask } from "./policy-previews.ts";

/** What the thread is started with: the data directory. */
export type PreviewWorkerData = { thread: "policy previews"; directory: string };

const db = openSecondWriter((workerData as PreviewWorkerData).directory);
const refuseWrite = (): never => {
  throw new Error("a preview does not write to the database");
};
const store = openStore(db, { now: refuseWrite, newId: refuseWrite });
// Whatever the code above this connection does, SQLite refuses to write.
db.pragma("query_only = ON");

serveTasks<PreviewTask, PreviewResult>((task) => runPreview(store, task));
