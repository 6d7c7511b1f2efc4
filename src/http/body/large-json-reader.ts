/** Reads large JSON, bodies and JSON inside them, in a worker thread with bounded time and memory. */
import type { TSchema } from "typebox";
import { AppError, tooCostly, unavailable } from "../../errors.ts";
import type { LargeJsonReader } from "./read-json.ts";
import type { ConcurrencyLimit } from "../../workers/concurrency-limit.ts";
import { assembleJson } from "./json-pieces.ts";
import type { JsonResult, JsonTask } from "./json-worker.ts";
import { DeadlineError, PoolClosedError, QueueFullError, WorkerDiedError } from "../../workers/pool.ts";
import type { Pool } from "../../workers/pool.ts";
import { transferableOf } from "../../workers/transfer.ts";

export type JsonPool = Pool<JsonTask, JsonResult>;

/** Time to read one body: twenty times what the largest legitimate one needs. */
const ALLOWANCE_MS = 10_000;
/** Time to wait for a thread. */
const DEADLINE_MS = 60_000;

/** Each schema is serialised once. */
const schemaTexts = new WeakMap<TSchema, string>();

function serializeSchema(schema: TSchema): string {
  let text = schemaTexts.get(schema);
  if (text === undefined) schemaTexts.set(schema, (text = JSON.stringify(schema)));
  return text;
}

/** @param turns admits one large text at a time, in any thread: the memory of two would add up */
export function createLargeJsonReader(pool: JsonPool, turns: ConcurrencyLimit): LargeJsonReader {
  return {
    async read(bytes, { schema, ...shape }, asText) {
      const task: JsonTask = { bytes, shape: { ...shape, schema: schema && serializeSchema(schema) }, asText };
      const options = {
        allowanceMs: ALLOWANCE_MS,
        deadlineMs: DEADLINE_MS,
        transfer: transferableOf(bytes),
      };
      const result = await turns
        .run(() => pool.run(task, options))
        .catch((error: unknown) => {
          throw toReadError(error, shape.what);
        });
      if ("refusal" in result) {
        const { code, message, fields } = result.refusal;
        throw new AppError(code, message, fields ? { fields } : {});
      }
      const { pieces, asSent, sentFields, ignored } = result;
      const value = await assembleJson(pieces);
      return { value, asSent: asSent === null ? value : await assembleJson(asSent), sentFields, ignored };
    },
  };
}

function toReadError(error: unknown, what: string): unknown {
  if ((error instanceof DeadlineError && error.started) || (error instanceof WorkerDiedError && error.began))
    return tooCostly(what, error);
  const isBusy =
    error instanceof DeadlineError ||
    error instanceof WorkerDiedError ||
    error instanceof QueueFullError ||
    error instanceof PoolClosedError;
  return isBusy ? unavailable("The server has too many large requests to read. Please try again", 5, error) : error;
}
