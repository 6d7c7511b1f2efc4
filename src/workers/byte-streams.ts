// Streams whose bytes a worker thread produces: the main thread's side, a Readable per stream. A stream grants the
// thread a credit for each chunk that it has passed on, so at most `credits` chunks are in transit or queued, and one
// is in its buffer. A client that does not read costs no more than that, and the thread does no work for it.
import { Readable } from "node:stream";
import type { Worker } from "node:worker_threads";
import { countReleasedBytes } from "./memory-reclaim.ts";

/** Orders to the thread. `open` grants `credits` chunks; `more` grants another one; `cancel` ends a stream early. */
export type StreamOrder<Request> =
  | { type: "open"; id: number; credits: number; request: Request }
  | { type: "more"; id: number }
  | { type: "cancel"; id: number };

/** Reports of the thread. After `last` or `failed` none follows for this id, and the thread has released the stream. */
export type StreamReport<Reason> =
  | { type: "opened"; id: number }
  | { type: "chunk"; id: number; bytes: Uint8Array<ArrayBuffer>; last: boolean }
  | { type: "failed"; id: number; reason: Reason };

type StreamOptions = {
  /** Cancels the stream, even before it is opened; `open` then rejects with the signal's reason. */
  signal?: AbortSignal;
  /** Milliseconds without progress after which the stream fails with StalledError; unlimited by default. */
  stallTimeoutMs?: number;
};

type ByteStreams<Request> = {
  /** Resolves once the thread has opened the stream. Rejects with the result of `toError` for the thread's reason. */
  open(request: Request, options?: StreamOptions): Promise<Readable>;
  /** Fails all streams that have not received all their chunks, stops the thread, and refuses further `open` calls. */
  close(): Promise<void>;
};

/** The consumer did not read from the stream for too long. */
export class StalledError extends Error {
  override readonly name = "StalledError";
}

type ByteStreamOptions<Request, Reason> = {
  /** Starts the thread, on first use and after its end. */
  start: () => Worker;
  /** Chunks in transit per stream: enough to hide the two thread switches that each one costs. */
  credits: number;
  /** Milliseconds without a stream after which the thread is stopped, which frees its memory; null keeps it. */
  idleTimeoutMs: number | null;
  /** The error of a stream that the thread refused or failed. */
  toError: (request: Request, reason: Reason) => Error;
  /** The error of streams whose thread has ended. */
  toThreadError: (why: string, options?: ErrorOptions) => Error;
};

type StreamState<Request> = {
  readonly request: Request;
  readonly resolve: (stream: Readable) => void;
  readonly reject: (error: Error) => void;
  /** null until the thread has opened it. */
  stream: Readable | null;
  /** Chunks that arrived while the stream did not want any. */
  readonly chunks: Uint8Array[];
  /**
   * The error of the stream after these chunks. It is emitted only when the consumer reads: an error between `open` and
   * the caller's first listener would end the process.
   */
  failure: Error | null;
  wanting: boolean;
  /** The thread has sent its last chunk or a failure, so there is nothing to cancel. */
  done: boolean;
  readonly timer: NodeJS.Timeout | null;
};

export function createByteStreams<Request, Reason>(options: ByteStreamOptions<Request, Reason>): ByteStreams<Request> {
  const streams = new ThreadStreams(options);
  return {
    open: (request, streamOptions) => streams.open(request, streamOptions),
    close: () => streams.close(),
  };
}

class ThreadStreams<Request, Reason> implements ByteStreams<Request> {
  readonly #options: ByteStreamOptions<Request, Reason>;
  readonly #states = new Map<number, StreamState<Request>>();
  #worker: Worker | null = null;
  #idleTimer: NodeJS.Timeout | null = null;
  #lastId = 0;
  #closed = false;

  constructor(options: ByteStreamOptions<Request, Reason>) {
    this.#options = options;
  }

  async open(request: Request, { signal, stallTimeoutMs }: StreamOptions = {}): Promise<Readable> {
    signal?.throwIfAborted();
    const worker = this.#runningWorker();
    this.#lastId += 1;
    const id = this.#lastId;
    return new Promise<Readable>((resolve, reject) => {
      const onAbort = (): void => this.#abandon(id, state, signal?.reason as Error);
      const settle =
        <T>(callback: (value: T) => void) =>
        (value: T): void => {
          signal?.removeEventListener("abort", onAbort);
          callback(value);
        };
      const onStall = (): void =>
        this.#abandon(id, state, new StalledError(`nothing was passed on for ${stallTimeoutMs} ms`));
      const state: StreamState<Request> = {
        request,
        resolve: settle(resolve),
        reject: settle(reject),
        stream: null,
        chunks: [],
        failure: null,
        wanting: false,
        done: false,
        timer: stallTimeoutMs === undefined ? null : setTimeout(onStall, stallTimeoutMs).unref(),
      };
      signal?.addEventListener("abort", onAbort, { once: true });
      this.#states.set(id, state);
      worker.postMessage({
        type: "open",
        id,
        credits: this.#options.credits,
        request,
      } satisfies StreamOrder<Request>);
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    if (this.#idleTimer) clearTimeout(this.#idleTimer);
    const worker = this.#worker;
    this.#worker = null;
    this.#failAll(this.#options.toThreadError("it was closed"));
    await worker?.terminate();
  }

  #runningWorker(): Worker {
    if (this.#closed) throw this.#options.toThreadError("it is closed");
    if (this.#worker !== null) return this.#worker;
    const worker = this.#startWorker();
    let cause: unknown = null;
    worker.on("message", (report: StreamReport<Reason>) => this.#receive(report));
    worker.on("error", (error) => {
      cause = error;
    });
    worker.on("exit", (code) => {
      if (this.#worker !== worker) return;
      this.#worker = null;
      this.#failAll(this.#options.toThreadError(`its thread stopped (exit code ${code})`, { cause }));
    });
    this.#worker = worker;
    return worker;
  }

  #startWorker(): Worker {
    try {
      return this.#options.start();
    } catch (cause) {
      throw this.#options.toThreadError("its thread could not be started", { cause });
    }
  }

  #receive(report: StreamReport<Reason>): void {
    const { id } = report;
    const state = this.#states.get(id);
    if (state === undefined) return;
    if (report.type === "opened") {
      state.stream = this.#createStream(id, state);
      state.timer?.refresh();
      state.resolve(state.stream);
    } else if (report.type === "chunk") {
      countReleasedBytes(report.bytes.length);
      state.chunks.push(report.bytes);
      if (report.last) state.done = true;
      this.#deliver(id, state);
    } else {
      this.#fail(id, state, this.#options.toError(state.request, report.reason));
    }
  }

  #createStream(id: number, state: StreamState<Request>): Readable {
    return new Readable({
      // One byte, so that the stream asks again only when its buffer is empty: chunks queue where they are counted.
      highWaterMark: 1,
      read: () => {
        state.wanting = true;
        this.#deliver(id, state);
      },
      destroy: (error, callback) => {
        this.#forget(id, state);
        state.chunks.length = 0;
        if (!state.done) this.#send({ type: "cancel", id });
        callback(error);
      },
    });
  }

  /** Pushes chunks while the stream wants more, and grants the thread a credit for each. */
  #deliver(id: number, state: StreamState<Request>): void {
    while (state.wanting && state.stream !== null) {
      const chunk = state.chunks.shift();
      if (chunk === undefined) {
        if (state.failure !== null) state.stream.destroy(state.failure);
        break;
      }
      state.timer?.refresh();
      if (!state.done) this.#send({ type: "more", id });
      if (state.done && state.failure === null && state.chunks.length === 0) {
        this.#forget(id, state);
        state.wanting = false;
        state.stream.push(chunk);
        state.stream.push(null);
      } else {
        // In this order: a listener may read during push, and its request must not be overwritten.
        state.wanting = false;
        if (state.stream.push(chunk)) state.wanting = true;
      }
    }
  }

  #send(order: StreamOrder<Request>): void {
    this.#worker?.postMessage(order);
  }

  #forget(id: number, state: StreamState<Request>): void {
    const { idleTimeoutMs } = this.#options;
    if (state.timer) clearTimeout(state.timer);
    if (!this.#states.delete(id) || this.#states.size > 0 || idleTimeoutMs === null) return;
    if (this.#idleTimer) clearTimeout(this.#idleTimer);
    this.#idleTimer = setTimeout(() => this.#stopIdleWorker(), idleTimeoutMs).unref();
  }

  #stopIdleWorker(): void {
    if (this.#states.size > 0) return;
    const worker = this.#worker;
    this.#worker = null;
    void worker?.terminate();
  }

  /** Gives up a stream, whether it is open or not. */
  #abandon(id: number, state: StreamState<Request>, error: Error): void {
    if (state.stream) return void state.stream.destroy(error);
    this.#send({ type: "cancel", id });
    this.#fail(id, state, error);
  }

  #fail(id: number, state: StreamState<Request>, error: Error): void {
    if (state.failure !== null) return;
    // A stream that has received all its chunks no longer needs the thread.
    if (state.stream !== null && state.done) return;
    state.done = true;
    state.failure = error;
    if (state.stream !== null) {
      this.#deliver(id, state);
      return;
    }
    this.#forget(id, state);
    state.reject(error);
  }

  #failAll(error: Error): void {
    for (const [id, state] of this.#states) this.#fail(id, state, error);
  }
}
