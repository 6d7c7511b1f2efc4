/** The main thread's side of large answers: it orders them from the reader thread, and sends their files. */
import { closeSync, openSync, read, rmSync } from "node:fs";
import { join } from "node:path";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { AppError, tooManyRequests, unavailable } from "../../errors.ts";
import { countReleasedBytes } from "../../workers/memory-reclaim.ts";
import { DeadlineError, PoolClosedError, QueueFullError, WorkerDiedError } from "../../workers/pool.ts";
import type { Pool, PoolLoad } from "../../workers/pool.ts";
import { SPOOL_BLOCK_BYTES, UNWANTED, returnBlocks } from "./large-answers.ts";
import type { AnswerTask, FreeBlocks, LargeAnswer, SpoolControl, SpoolResult, SpoolTask } from "./large-answers.ts";

/** For the wait for the thread: shorter than clients wait for a response. */
const MAX_WAITING_MS = 60_000;
/** For making one answer: a hundred times what a snapshot of 20,000 artifacts takes. */
const MAX_MAKING_MS = 120_000;
const RETRY_AFTER_S = 5;
/** Longer names of answers are not compared: their answers are not shared. */
const MAX_NAME_CHARS = 4_096;

export type SpoolPool = Pool<SpoolTask, SpoolResult>;

export type AnswerReader = {
  /**
   * Makes an answer, or joins a request for the same one.
   * @param options.state a number that is another one after any change of the database
   * @param options.signal ends the wait; the answer is given up unless others want it too
   * @throws AppError what the handler throws; 429 while others have the disk or the thread; 503; the signal's reason
   */
  make(task: AnswerTask, options: { state: number; signal: AbortSignal }): Promise<LargeAnswer>;
  /** Answers that wait for the thread, and that it makes. */
  load(): PoolLoad;
  close(): Promise<void>;
};

type Options = {
  pool: SpoolPool;
  /** Where the files are made. */
  directory: string;
  newId: () => string;
  freeBlocks: FreeBlocks;
};

/** A file with an answer, or that gets one, and how many requests want it. `made`: resolves with its size in bytes. */
type Spool = { fd: number; users: number; control: SpoolControl; made: Promise<number> };

export function createAnswerReader({ pool, directory, newId, freeBlocks }: Options): AnswerReader {
  const shared = new Map<string, Spool>();

  function leave(spool: Spool, name: string | null): void {
    spool.users -= 1;
    if (spool.users > 0) return;
    if (name !== null && shared.get(name) === spool) shared.delete(name);
    Atomics.store(spool.control, UNWANTED, 1);
    returnBlocks(freeBlocks, spool.control);
    // The thread has a descriptor of its own.
    closeSync(spool.fd);
  }

  function begin(task: AnswerTask): Spool {
    const path = join(directory, `answer-${newId()}`);
    const fd = openSync(path, "wx+", 0o600);
    const control = new Int32Array(new SharedArrayBuffer(8));
    const made = pool
      .run(
        { ...task, path, control },
        { lane: `${task.organizationId}`, deadlineMs: MAX_WAITING_MS, allowanceMs: MAX_MAKING_MS },
      )
      .then(bytesOf)
      .catch((error: unknown) => {
        // The thread unlinks the file; without a thread it is still there.
        rmSync(path, { force: true });
        throw toAnswerError(error);
      });
    made.catch(() => undefined);
    return { fd, users: 0, control, made };
  }

  return {
    async make(task, { state, signal }) {
      signal.throwIfAborted();
      const name = nameOf(task, state);
      const known = name === null ? undefined : shared.get(name);
      const spool = known ?? begin(task);
      if (name !== null) shared.set(name, spool);
      spool.users += 1;
      const close = once(() => leave(spool, name));
      try {
        const bytes = await orAborted(spool.made, signal);
        return {
          bytes,
          gzipped: task.gzip,
          open: () => readSpool(spool.fd, bytes).once("close", close),
          read: () => buffer(readSpool(spool.fd, bytes)),
          close,
        };
      } catch (error) {
        if (name !== null && shared.get(name) === spool && !signal.aborted) shared.delete(name);
        close();
        throw error;
      }
    },
    load: pool.load,
    close: pool.close,
  };
}

/** What the answers of two requests are compared by; null for one that is not shared. */
function nameOf(task: AnswerTask, state: number): string | null {
  const name = JSON.stringify([state, task]);
  return name.length > MAX_NAME_CHARS ? null : name;
}

/**
 * The bytes of an open file up to `end`, from the start, at the pace of their reader; several streams can read the same
 * file. It fails when the file is shorter. It is closed when its last read has ended, and leaves the file open.
 */
function readSpool(fd: number, end: number): Readable {
  let position = 0;
  let isReading = false;
  const stream: Readable = new Readable({
    highWaterMark: SPOOL_BLOCK_BYTES,
    read() {
      const block = Buffer.allocUnsafeSlow(Math.min(SPOOL_BLOCK_BYTES, end - position));
      isReading = true;
      read(fd, block, 0, block.length, position, (error, bytes) => {
        isReading = false;
        stream.emit("read");
        if (stream.destroyed) return;
        if (error || bytes === 0) return void stream.destroy(error ?? new Error("the file of an answer is too short"));
        position += bytes;
        countReleasedBytes(block.length);
        stream.push(block.subarray(0, bytes));
        if (position === end) stream.push(null);
      });
    },
    destroy(error, done) {
      if (isReading) stream.once("read", () => done(error));
      else done(error);
    },
  });
  return stream;
}

function orAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason as Error);
    signal.addEventListener("abort", onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}

function once(work: () => void): () => void {
  let isDone = false;
  return () => {
    if (isDone) return;
    isDone = true;
    work();
  };
}

/** @throws AppError */
function bytesOf(result: SpoolResult): number {
  if ("bytes" in result) return result.bytes;
  if ("refusal" in result) {
    const { code, message, fields, headers } = result.refusal;
    throw new AppError(code, message, { ...(fields ? { fields } : {}), headers });
  }
  throw tooManyRequests("The server is sending too many large answers", RETRY_AFTER_S);
}

function toAnswerError(error: unknown): unknown {
  if (error instanceof QueueFullError)
    return tooManyRequests("The server is making too many large answers", RETRY_AFTER_S);
  const isBusy = [DeadlineError, WorkerDiedError, PoolClosedError].some((kind) => error instanceof kind);
  return isBusy
    ? unavailable("The server could not make this answer. Ask for smaller pages, or try again", RETRY_AFTER_S, error)
    : error;
}
