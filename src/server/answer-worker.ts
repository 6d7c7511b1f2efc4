/**
 * The thread that makes large answers (http/answers/large-answers.ts), on its own connection, on which it cannot write.
 * It runs the handler of an operation in one read transaction, and writes the answer to a file while it is made.
 */
import { workerData } from "node:worker_threads";
import { urlsFor } from "../contract/urls.ts";
import { AppError } from "../errors.ts";
import { textsOf, unboundedAnswer } from "../http/answers/large-answers.ts";
import type { SpoolResult, SpoolTask } from "../http/answers/large-answers.ts";
import { openSecondWriter } from "../store/db/connection.ts";
import { openStore } from "../store/index.ts";
import { serveTasks } from "../workers/task-protocol.ts";
import type { LargeReadContext } from "../api/context.ts";
import { operations } from "../api/index.ts";
import { spoolAnswer } from "./spool-answer.ts";
import type { SpoolLimits } from "./spool-answer.ts";

/** What the thread is started with. */
export type AnswerWorkerData = SpoolLimits;

const limits = workerData as AnswerWorkerData;
const db = openSecondWriter(limits.directory);
const refuseWrite = (): never => {
  throw new Error("the reader does not write to the database");
};
// What one page of a large environment reads is read again by the next one: 6 MB of rows.
db.pragma("cache_size = -16384");
const store = openStore(db, { now: refuseWrite, newId: refuseWrite });
// Whatever the code above this connection does, SQLite refuses to write.
db.pragma("query_only = ON");

function makeAnswer(task: SpoolTask): SpoolResult {
  const operation = operations.find(({ id }) => id === task.operation);
  if (!operation?.isLarge) throw new Error(`${task.operation} is not made in this thread`);
  db.exec("BEGIN");
  try {
    const organization = store.organizations.get(task.organizationId);
    const context: LargeReadContext = {
      store,
      organization,
      urls: urlsFor(task.baseUrl),
      answerBounds: unboundedAnswer(task),
    };
    const reply = operation.handle(context as never, task.input as never, task.prepared);
    return spoolAnswer(textsOf(reply), task, limits);
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    const { code, message, fields, headers } = error;
    return { refusal: { code, message, fields, headers } };
  } finally {
    if (db.inTransaction) db.exec("COMMIT");
  }
}

serveTasks(makeAnswer);
