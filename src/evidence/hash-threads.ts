/**
 * Hashing of evidence in a worker thread: the main thread's side. Blocks are transferred to the thread and back, never
 * copied. The thread starts with the first large upload and ends after a time without one.
 */
import type { Worker } from "node:worker_threads";
import { HashingError } from "./hashing.ts";
import type { ContentHash, Hasher } from "./hashing.ts";
import type { HashRequest, HashResponse } from "./hash-worker.ts";

/** The thread ends after this long without content. */
const IDLE_TIMEOUT_MS = 30_000;

export type HashingThread = Hasher & {
  /** Ends the thread; content that is being hashed fails. */
  close(): Promise<void>;
};

export function createHashingThread(start: () => Worker): HashingThread {
  const thread = createThread(start);
  let lastId = 0;
  return {
    begin() {
      lastId += 1;
      return beginHash(thread, lastId);
    },
    close: thread.close,
  };
}

function beginHash(thread: Thread, id: number): ContentHash {
  thread.open(id);
  return {
    async update(block, length) {
      const { buffer, byteOffset, byteLength } = block as Buffer<ArrayBuffer>;
      const message = { id, block: new Uint8Array(buffer, byteOffset, byteLength), length };
      const response = await thread.call(message, [buffer]);
      if (!("block" in response)) throw new HashingError("the hashing thread returned a digest instead of a block");
      return Buffer.from(response.block.buffer, response.block.byteOffset, response.block.byteLength);
    },
    async digest() {
      try {
        const response = await thread.call({ id, end: true }, []);
        if (!("digest" in response)) throw new HashingError("the hashing thread returned a block instead of a digest");
        return response.digest;
      } finally {
        thread.release(id);
      }
    },
    abandon: () => thread.abandon(id),
  };
}

type PendingCall = { resolve(response: HashResponse): void; reject(error: Error): void };

type Thread = {
  /** Registers content, which keeps the thread alive until its release. */
  open(id: number): void;
  call(request: HashRequest, transfer: ArrayBuffer[]): Promise<HashResponse>;
  release(id: number): void;
  /** Releases content before its end; content that ended is ignored. */
  abandon(id: number): void;
  close(): Promise<void>;
};

function createThread(start: () => Worker): Thread {
  /** The content being hashed, each with the call that waits for the thread. */
  const contents = new Map<number, PendingCall | null>();
  let worker: Worker | null = null;
  let idleTimer: NodeJS.Timeout | null = null;

  function ensureStarted(): Worker {
    if (worker !== null) return worker;
    const started = start();
    let cause: unknown = null;
    started.on("message", (response: HashResponse) => {
      const pending = contents.get(response.id);
      if (pending === undefined) return;
      contents.set(response.id, null);
      pending?.resolve(response);
    });
    started.on("error", (error) => {
      cause = error;
    });
    started.on("exit", () => {
      if (worker !== started) return;
      worker = null;
      failAll(new HashingError("the hashing thread ended", { cause }));
    });
    worker = started;
    return started;
  }

  function failAll(error: Error): void {
    const pending = [...contents.values()];
    contents.clear();
    for (const call of pending) call?.reject(error);
  }

  function terminate(): Promise<number> | undefined {
    const stopping = worker;
    worker = null;
    return stopping?.terminate();
  }

  function release(id: number): void {
    if (!contents.delete(id) || contents.size > 0) return;
    if (idleTimer !== null) clearTimeout(idleTimer);
    idleTimer = setTimeout(() => {
      if (contents.size === 0) void terminate();
    }, IDLE_TIMEOUT_MS).unref();
  }

  return {
    open: (id) => void contents.set(id, null),
    call: (request, transfer) =>
      new Promise((resolve, reject) => {
        // The thread that held the beginning of this content is gone.
        if (!contents.has(request.id)) return reject(new HashingError("the hashing thread ended"));
        contents.set(request.id, { resolve, reject });
        ensureStarted().postMessage(request, transfer);
      }),
    release,
    abandon(id) {
      if (!contents.has(id)) return;
      release(id);
      worker?.postMessage({ id, abandon: true } satisfies HashRequest);
    },
    async close() {
      if (idleTimer !== null) clearTimeout(idleTimer);
      const stopped = terminate();
      failAll(new HashingError("the server is stopping"));
      await stopped;
    },
  };
}
