/**
 * The thread that previews policies, on its own connection, on which it cannot write. One preview reads one moment of
 * the database.
 */
import { workerData } from "node:worker_threads";
import { openSecondWriter } from "../store/db/connection.ts";
import { openStore } from "../store/index.ts";
import type { PolicyPreview } from "../store/policies/policy-previews.ts";
import { serveTasks } from "../workers/task-protocol.ts";
import { evaluateDraft } from "./policy-previews.ts";
import type { PreviewTask } from "./policy-previews.ts";

/** What the thread is started with: the data directory. */
export type PreviewWorkerData = { thread: "policy previews"; directory: string };

const db = openSecondWriter((workerData as PreviewWorkerData).directory);
const refuseWrite = (): never => {
  throw new Error("a preview does not write to the database");
};
const store = openStore(db, { now: refuseWrite, newId: refuseWrite });
// Whatever the code above this connection does, SQLite refuses to write.
db.pragma("query_only = ON");

serveTasks<PreviewTask, PolicyPreview>((task) => evaluateDraft(store, task));
