// The main thread's side of evidence downloads: a Readable per stream, fed by the evidence worker (which see) in
// chunks. A stream grants a credit for each chunk it passed on, so at most CREDITS chunks are under way or waiting for
// it, and one is in its buffer: about 640 KB for a client that does not read.
import { Readable } from "node:stream";
import type { Worker } from "node:worker_threads";
import { DamagedEvidenceError, MissingEvidenceError } from "../vault/errors.ts";
import { placeOf } from "../vault/layout.ts";
import { countHandedOver } from "./reclaim.ts";
import type { EvidenceNews, EvidenceOrder, EvidenceWorkerData, Failure } from "./evidence-worker.ts";

export type EvidenceRequest = {
  digest: string;
  /** First and last byte, both inclusive and from 0, as in an HTTP range. Without them the whole file. */
  start?: number;
  end?: number;
  /** The size in bytes that the row promises: a file of another size is refused before the first byte. */
  size?: number;
};

export type EvidenceReader = {
  /**
   * Opens a file and resolves when it is known to be there. Rejects with MissingEvidenceError, DamagedEvidenceError
   * (wrong size), RangeError (malformed digest, range outside the file), EvidenceWorkerError or an ErrnoException.
   * The stream fails with the same errors; one of a whole file fails with DamagedEvidenceError before its last bytes
   * when the content is not what the digest says. A destroyed stream closes the file.
   */
  open(request: EvidenceRequest): Promise<Readable>;
  /** Fails the open streams, those that have all their chunks excepted, and stops the worker; later `open` calls reject. */
  close(): Promise<void>;
};

/** The reading thread died, could not be started, or was closed. The next `open` starts a new one unless closed. */
export class EvidenceWorkerError extends Error {
  override readonly name = "EvidenceWorkerError";
}

/** Chunks that may be on their way to one stream: enough to hide the two thread changes that each one costs. */
const CREDITS = 4;

type Feed = {
  readonly digest: string;
  readonly opened: (stream: Readable) => void;
  readonly refused: (error: Error) => void;
  /** Null until the worker opened the file. */
  stream: Readable | null;
  /** Chunks that came while the stream did not want any. */
  readonly chunks: Uint8Array[];
  /**
   * What the stream fails with after these chunks. It waits until somebody reads: an error emitted between `open` and
   * the caller's first listener would end the process.
   */
  failure: Error | null;
  wanting: boolean;
  /** The worker sent its last chunk or a failure: there is nothing to cancel any more. */
  done: boolean;
};

/**
 * `root` is the evidence root. `start` starts src/workers/evidence-worker.ts, from its file or from the bundle, with
 * the options it is given; the worker is started when it is first needed.
 */
export function createEvidenceReader({ root, start }: {
  root: string;
  start: (options: { workerData: EvidenceWorkerData }) => Worker;
}): EvidenceReader {
  const feeds = new Map<number, Feed>();
  let worker: Worker | null = null;
  let lastId = 0;
  let closed = false;

  function running(): Worker {
    if (closed) throw new EvidenceWorkerError("the evidence reader is closed");
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
      failAll(new EvidenceWorkerError(`the evidence worker stopped (exit code ${code})`, { cause }));
    });
    worker = started;
    return started;
  }

  function launch(): Worker {
    try {
      return start({ workerData: { root } });
    } catch (cause) {
      throw new EvidenceWorkerError("the evidence worker could not be started", { cause });
    }
  }

  function receive(news: EvidenceNews): void {
    const feed = feeds.get(news.id);
    if (feed === undefined) return;
    if (news.type === "opened") {
      feed.stream = createStream(news.id, feed);
      feed.opened(feed.stream);
    } else if (news.type === "chunk") {
      countHandedOver(news.bytes.length);
      feed.chunks.push(news.bytes);
      if (news.last) feed.done = true;
      deliver(news.id, feed);
    } else {
      fail(news.id, feed, toError(feed.digest, news.reason));
    }
  }

  function createStream(id: number, feed: Feed): Readable {
    return new Readable({
      // One byte: the stream asks again only when its buffer is empty, the chunks wait where they are counted.
      highWaterMark: 1,
      read() {
        feed.wanting = true;
        deliver(id, feed);
      },
      destroy(error, callback) {
        feeds.delete(id);
        feed.chunks.length = 0;
        if (!feed.done) tell({ type: "cancel", id });
        callback(error);
      },
    });
  }

  /** Hands the stream what it wants, as long as it wants more, and grants the worker a chunk for each. */
  function deliver(id: number, feed: Feed): void {
    while (feed.wanting && feed.stream !== null) {
      const chunk = feed.chunks.shift();
      if (chunk === undefined) {
        if (feed.failure !== null) feed.stream.destroy(feed.failure);
        break;
      }
      if (!feed.done) tell({ type: "more", id });
      if (feed.done && feed.failure === null && feed.chunks.length === 0) {
        feeds.delete(id);
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

  function tell(order: EvidenceOrder): void {
    worker?.postMessage(order);
  }

  function fail(id: number, feed: Feed, error: Error): void {
    if (feed.failure !== null) return;
    // Chunks that are all here already need no worker any more.
    if (feed.stream !== null && feed.done) return;
    feed.done = true;
    feed.failure = error;
    if (feed.stream !== null) return deliver(id, feed);
    feeds.delete(id);
    feed.refused(error);
  }

  function failAll(error: Error): void {
    for (const [id, feed] of feeds) fail(id, feed, error);
  }

  return {
    async open({ digest, start: first = 0, end, size }) {
      placeOf(digest);
      if (!isOffset(first) || (end !== undefined && (!isOffset(end) || end < first))) {
        throw new RangeError(`bytes ${first} to ${end ?? "the end"} are not a range`);
      }
      const reading = running();
      lastId += 1;
      const id = lastId;
      return new Promise<Readable>((opened, refused) => {
        feeds.set(id, { digest, opened, refused, stream: null, chunks: [], failure: null, wanting: false, done: false });
        reading.postMessage({
          type: "open", id, digest, start: first, end: end ?? null, size: size ?? null, credits: CREDITS,
        } satisfies EvidenceOrder);
      });
    },

    async close() {
      closed = true;
      const stopping = worker;
      worker = null;
      failAll(new EvidenceWorkerError("the evidence reader was closed"));
      await stopping?.terminate();
    },
  };
}

function isOffset(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0;
}

function toError(digest: string, { kind, text, code }: Failure): Error {
  if (kind === "missing") return new MissingEvidenceError(digest);
  if (kind === "damaged") return new DamagedEvidenceError(digest, text);
  if (kind === "range") return new RangeError(text);
  return Object.assign(new Error(text), code === null ? {} : { code });
}
