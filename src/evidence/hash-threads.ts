/**
 * Hashing of evidence in a thread of its own: the main thread's side. Blocks move to the thread and back, so that
 * nothing is copied. The thread is started with the first large upload, and ended when there was none for a while.
 */
import type { Worker } from "node:worker_threads";
import { HashingError } from "./hashing.ts";
import type { ContentHash, Hasher } from "./hashing.ts";
import type { HashResponse, HashRequest } from "./hash-worker.ts";

/** Milliseconds without content after which the thread is ended. */
const IDLE_MS = 30_000;

type PendingCall = { resolve(answer: HashResponse): void; reject(error: Error): void };

export type HashingThread = Hasher & {
  /** Ends the thread; content that is being hashed fails. */
  close(): Promise<void>;
};

export function createHashingThread(start: () => Worker): HashingThread {
  /** Content that is being hashed, with the call that waits for the thread. */
  const open = new Map<number, PendingCall | null>();
  let worker: Worker | null = null;
  let idle: NodeJS.Timeout | null = null;
  let lastId = 0;

  function running(): Worker {
    if (worker !== null) return worker;
    const started = start();
    let cause: unknown = null;
    started.on("message", (answer: HashResponse) => {
      const waiting = open.get(answer.id);
      if (waiting === undefined) return;
      open.set(answer.id, null);
      waiting?.resolve(answer);
    });
    started.on("error", (error) => {
      cause = error;
    });
    started.on("exit", () => {
      if (worker !== started) return;
      worker = null;
      failAll(new HashingError("the thread that hashes evidence ended", { cause }));
    });
    worker = started;
    return started;
  }

  function failAll(error: Error): void {
    const waiting = [...open.values()];
    open.clear();
    for (const one of waiting) one?.reject(error);
  }

  function forget(id: number): void {
    if (!open.delete(id) || open.size > 0) return;
    if (idle !== null) clearTimeout(idle);
    idle = setTimeout(() => {
      if (open.size > 0) return;
      const stopping = worker;
      worker = null;
      void stopping?.terminate();
    }, IDLE_MS).unref();
  }

  function ask(order: HashRequest, transfer: ArrayBuffer[]): Promise<HashResponse> {
    return new Promise((resolve, reject) => {
      // The thread that had the beginning of this content is gone.
      if (!open.has(order.id)) return reject(new HashingError("the thread that hashes evidence ended"));
      open.set(order.id, { resolve, reject });
      running().postMessage(order, transfer);
    });
  }

  return {
    begin(): ContentHash {
      const id = (lastId += 1);
      open.set(id, null);
      return {
        async update(block, length) {
          const { buffer, byteOffset, byteLength } = block as Buffer<ArrayBuffer>;
          const answer = await ask({ id, block: new Uint8Array(buffer, byteOffset, byteLength), length }, [buffer]);
          if (!("block" in answer))
            throw new HashingError("the thread that hashes evidence gave a digest in place of a block");
          return Buffer.from(answer.block.buffer, answer.block.byteOffset, answer.block.byteLength);
        },
        async digest() {
          try {
            const answer = await ask({ id, end: true }, []);
            if (!("digest" in answer))
              throw new HashingError("the thread that hashes evidence gave a block in place of a digest");
            return answer.digest;
          } finally {
            forget(id);
          }
        },
        abandon() {
          if (!open.has(id)) return;
          forget(id);
          worker?.postMessage({ id, abandon: true } satisfies HashRequest);
        },
      };
    },
    async close() {
      if (idle !== null) clearTimeout(idle);
      const stopping = worker;
      worker = null;
      failAll(new HashingError("the server stops"));
      await stopping?.terminate();
    },
  };
}
