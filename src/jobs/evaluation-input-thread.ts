/** The thread that reads the inputs of Rego evaluations, on its own connection, on which it cannot write. */
import { workerData } from "node:worker_threads";
import { openSecondWriter } from "../store/db/connection.ts";
import { openStore } from "../store/index.ts";
import { serveTasks } from "../workers/task-protocol.ts";
import { packInThread } from "./evaluation-inputs.ts";
import type { InputTask } from "../contract/evaluation-input.ts";
import type { ThreadInput } from "./evaluation-inputs.ts";

/** What the thread is started with: the data directory. */
export type InputWorkerData = { thread: "evaluation inputs"; directory: string };

const db = openSecondWriter((workerData as InputWorkerData).directory);
const refuseWrite = (): never => {
  throw new Error("the input of an evaluation is only read");
};
const store = openStore(db, { now: refuseWrite, newId: refuseWrite });
// Whatever the code above this connection does, SQLite refuses to write.
db.pragma("query_only = ON");
const inTransaction = db.transaction((work: () => unknown) => work());

serveTasks<InputTask, ThreadInput>((task, transfer) => {
  const input = packInThread(store, task, <T>(work: () => T) => inTransaction.deferred(work) as T);
  if ("packed" in input) transfer.push(input.packed.buffer as ArrayBuffer);
  return input;
});
