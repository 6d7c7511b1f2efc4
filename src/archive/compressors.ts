/**
 * Compressors in threads that may be ended at any time. Node aborts the whole process ("close before init") when a
 * thread ends after a compressor was created and before it was initialized. So a thread makes them while it holds a
 * lock, and is ended by who has taken the lock from it for good.
 */
import { getEnvironmentData, isMainThread, setEnvironmentData } from "node:worker_threads";
import type { Worker } from "node:worker_threads";

/** One number, which a thread shares with the one that started it. */
type Lock = Int32Array<SharedArrayBuffer>;
const FREE = 0;
const TAKEN = 1;
const ENDING = 2;

const LOCK_KEY = "assay: lock of compressors";
const ownLock = isMainThread ? null : ((getEnvironmentData(LOCK_KEY) as Lock | undefined) ?? null);
let depth = 0;

/**
 * Runs `make`, which may create compressors: synchronous functions of node:zlib, or streams. The thread is not ended
 * meanwhile, so `make` must be bounded. On the main thread it just runs.
 */
export function withCompressors<T>(make: () => T): T {
  if (ownLock === null) return make();
  // Waits for the end of this thread.
  if (depth === 0 && Atomics.compareExchange(ownLock, 0, FREE, TAKEN) === ENDING) Atomics.wait(ownLock, 0, ENDING);
  depth += 1;
  try {
    return make();
  } finally {
    depth -= 1;
    if (depth === 0) release(ownLock);
  }
}

function release(lock: Lock): void {
  Atomics.store(lock, 0, FREE);
  Atomics.notify(lock, 0);
}

/** Starts a thread and lets its `terminate` wait until it makes no compressor. @param start starts it at once */
export function startEndable(start: () => Worker): Worker {
  const lock: Lock = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  setEnvironmentData(LOCK_KEY, lock);
  const worker = start();
  setEnvironmentData(LOCK_KEY, undefined);
  // It may have ended by itself while it made one, as without memory.
  worker.once("exit", () => release(lock));
  const end = worker.terminate.bind(worker);
  worker.terminate = async () => {
    while (Atomics.compareExchange(lock, 0, FREE, ENDING) === TAKEN) await Atomics.waitAsync(lock, 0, TAKEN).value;
    return end();
  };
  return worker;
}
