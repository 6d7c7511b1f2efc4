// Streams whose bytes a thread makes: the main thread's side, a Readable per stream. A stream grants a credit for each
// chunk it passed on, so that at most `credits` chunks are under way or waiting for it, and one is in its buffer; a
// client that does not read costs no more than that, and the thread does nothing for it.
import { Readable } from "node:stream";
import type { Worker } from "node:worker_threads";
import { countReleasedBytes } from "./memory-reclaim.ts";

/** Orders. `open` allows `credits` chunks at once; `more` grants one more chunk; `cancel` ends a stream early. */
export type StreamOrder<Request> =
  | { type: "open"; id: number; credits: number; request: Request }
  | { type: "more"; id: number }
  | { type: "cancel"; id: number };

/** Answers. After `last` or `failed` there are no more for this id, and the thread holds nothing for it. */
export type StreamReport<Reason> =
  | { type: "opened"; id: number }
  | { type: "chunk"; id: number; bytes: Uint8Array<ArrayBuffer>; last: boolean }
  | { type: "failed"; id: number; reason: Reason };

export type StreamOptions = {
  /** Frees the request, also one that is not opened yet; `open` then rejects with the signal's reason. */
  signal?: AbortSignal;
  /** Ends a stream of which nothing was passed on for so many milliseconds. Without it a stream may wait for ever. */
  stallTimeoutMs?: number;
};

export type ByteStreams<Request> = {
  /** Resolves when the thread opened what was asked for. Rejects with what `toError` makes of its refusal. */
  open(request: Request, options?: StreamOptions): Promise<Readable>;
  /**
   * Fails the open streams, those that have all their chunks excepted, and stops the thread; later `open` calls reject.
   */
  close(): Promise<void>;
};

/** Nobody read from the stream for too long. */
export class StalledError extends Error {
  override readonly name = "StalledError";
}

type Feed<Request> = {
  readonly request: Request;
  readonly opened: (stream: Readable) => void;
  readonly refused: (error: Error) => void;
  /** Null until the thread opened it. */
  stream: Readable | null;
  /** Chunks that came while the stream did not want any. */
  readonly chunks: Uint8Array[];
  /**
   * What the stream fails with after these chunks. It waits until somebody reads: an error emitted between `open` and
   * the caller's first listener would end the process.
   */
  failure: Error | null;
  wanting: boolean;
  /** The thread sent its last chunk or a failure: there is nothing to cancel any more. */
  done: boolean;
  readonly timer: NodeJS.Timeout | null;
};

/**
 * `start` starts the thread when it is first needed, and again after it died; `credits`: chunks that may be on their
 * way to one stream, enough to hide the two thread changes that each one costs. `idle`: the thread is stopped after so
 * many milliseconds without a stream; null: it stays. `died` makes the error of streams whose thread is no more.
 */
export function createByteStreams<Request, Reason>({
  start,
  credits,
  idle,
  toError,
  died,
}: {
  start: () => Worker;
  credits: number;
  idle: number | null;
  toError: (request: Request, reason: Reason) => Error;
  died: (why: string, options?: ErrorOptions) => Error;
}): ByteStreams<Request> {
  const feeds = new Map<number, Feed<Request>>();
  let worker: Worker | null = null;
  let resting: NodeJS.Timeout | null = null;
  let lastId = 0;
  let closed = false;

  function running(): Worker {
    if (closed) throw died("it is closed");
    if (worker !== null) return worker;
    const started = launch();
    let cause: unknown = null;
    started.on("message", receive);
    started.on("error", (error) => {
      cause = error;
    });
    started.on("exit", (code) => {
      if (worker !== started) return;
      worker = null;
      failAll(died(`its thread stopped (exit code ${code})`, { cause }));
    });
    worker = started;
    return started;
  }

  function launch(): Worker {
    try {
      return start();
    } catch (cause) {
      throw died("its thread could not be started", { cause });
    }
  }

  function receive(news: StreamReport<Reason>): void {
    const feed = feeds.get(news.id);
    if (feed === undefined) return;
    if (news.type === "opened") {
      feed.stream = createStream(news.id, feed);
      feed.timer?.refresh();
      feed.opened(feed.stream);
    } else if (news.type === "chunk") {
      countReleasedBytes(news.bytes.length);
      feed.chunks.push(news.bytes);
      if (news.last) feed.done = true;
      deliver(news.id, feed);
    } else {
      fail(news.id, feed, toError(feed.request, news.reason));
    }
  }

  function createStream(id: number, feed: Feed<Request>): Readable {
    return new Readable({
      // One byte: the stream asks again only when its buffer is empty, the chunks wait where they are counted.
      highWaterMark: 1,
      read() {
        feed.wanting = true;
        deliver(id, feed);
      },
      destroy(error, callback) {
        forget(id, feed);
        feed.chunks.length = 0;
        if (!feed.done) tell({ type: "cancel", id });
        callback(error);
      },
    });
  }

  /** Hands the stream what it wants, as long as it wants more, and grants the thread a chunk for each. */
  function deliver(id: number, feed: Feed<Request>): void {
    while (feed.wanting && feed.stream !== null) {
      const chunk = feed.chunks.shift();
      if (chunk === undefined) {
        if (feed.failure !== null) feed.stream.destroy(feed.failure);
        break;
      }
      feed.timer?.refresh();
      if (!feed.done) tell({ type: "more", id });
      if (feed.done && feed.failure === null && feed.chunks.length === 0) {
        forget(id, feed);
        feed.wanting = false;
        feed.stream.push(chunk);
        feed.stream.push(null);
      } else {
        // In this order: a listener may read from within push, and that wish must not be overwritten.
        feed.wanting = false;
        if (feed.stream.push(chunk)) feed.wanting = true;
      }
    }
  }

  function tell(order: StreamOrder<Request>): void {
    worker?.postMessage(order);
  }

  function forget(id: number, feed: Feed<Request>): void {
    if (feed.timer) clearTimeout(feed.timer);
    if (!feeds.delete(id) || feeds.size > 0 || idle === null) return;
    if (resting) clearTimeout(resting);
    resting = setTimeout(rest, idle).unref();
  }

  /** A thread that nobody needs gives its memory back. */
  function rest(): void {
    if (feeds.size > 0) return;
    const stopping = worker;
    worker = null;
    void stopping?.terminate();
  }

  function fail(id: number, feed: Feed<Request>, error: Error): void {
    if (feed.failure !== null) return;
    // Chunks that are all here already need no thread any more.
    if (feed.stream !== null && feed.done) return;
    feed.done = true;
    feed.failure = error;
    if (feed.stream !== null) return deliver(id, feed);
    forget(id, feed);
    feed.refused(error);
  }

  function failAll(error: Error): void {
    for (const [id, feed] of feeds) fail(id, feed, error);
  }

  return {
    async open(request, { signal, stallTimeoutMs } = {}) {
      signal?.throwIfAborted();
      const making = running();
      lastId += 1;
      const id = lastId;
      return new Promise<Readable>((resolve, reject) => {
        const leave = (): void => abandon(signal?.reason as Error);
        const settled =
          <T>(then: (value: T) => void) =>
          (value: T): void => {
            signal?.removeEventListener("abort", leave);
            then(value);
          };
        /** Gives up what is asked for, whether it is opened or not. */
        const abandon = (error: Error): void => {
          if (feed.stream) return void feed.stream.destroy(error);
          tell({ type: "cancel", id });
          fail(id, feed, error);
        };
        const feed: Feed<Request> = {
          request,
          opened: settled(resolve),
          refused: settled(reject),
          stream: null,
          chunks: [],
          failure: null,
          wanting: false,
          done: false,
          timer:
            stallTimeoutMs === undefined
              ? null
              : setTimeout(
                  () => abandon(new StalledError(`nothing was passed on for ${stallTimeoutMs} ms`)),
                  stallTimeoutMs,
                ).unref(),
        };
        signal?.addEventListener("abort", leave, { once: true });
        feeds.set(id, feed);
        making.postMessage({ type: "open", id, credits, request } satisfies StreamOrder<Request>);
      });
    },

    async close() {
      closed = true;
      if (resting) clearTimeout(resting);
      const stopping = worker;
      worker = null;
      failAll(died("it was closed"));
      await stopping?.terminate();
    },
  };
}
