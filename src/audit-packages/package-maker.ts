/**
 * The main thread's side of audit packages: streams (workers/byte-streams.ts) of what the package thread makes, a
 * bounded number at a time.
 */
import { buffer } from "node:stream/consumers";
import type { Readable } from "node:stream";
import { MessageChannel } from "node:worker_threads";
import type { MessagePort, Worker } from "node:worker_threads";
import { DamagedEvidenceError, EvidenceUnavailableError } from "../evidence/errors.ts";
import { UNBOUNDED_MEMORY } from "../workers/task-memory.ts";
import type { AcquireMemory, Lease } from "../workers/task-memory.ts";
import { createByteStreams } from "../workers/byte-streams.ts";
import { createDamagedFiles } from "./evidence.ts";
import type { PackageFailure, PackageRequest, PackageWorkerData } from "./package-worker.ts";
import { serveEvidence } from "./remote-evidence-reader.ts";
import type { RemoteEvidence } from "./remote-evidence-reader.ts";

export type PackageMaker = {
  /**
   * Resolves with the bytes of a package once it is assembled. Rejects with PackagesBusyError, PackageMemoryError,
   * PackageWorkerError, EvidenceUnavailableError when remote evidence cannot be reached, the reason of an aborted
   * `signal`, or an error with the `code` of the operating system. The stream fails with DamagedEvidenceError before
   * the last bytes of a damaged file, and with StalledError when the client stops reading.
   */
  open(request: Omit<PackageRequest, "what">, signal?: AbortSignal): Promise<Readable>;
  /** The readable report alone, a PDF. Rejects as `open` does. */
  report(request: Omit<PackageRequest, "what">): Promise<Buffer>;
  /** Fails all open and waiting requests and stops the thread. */
  close(): Promise<void>;
};

/** All places and the queue are taken; the client may retry. */
export class PackagesBusyError extends Error {
  override readonly name = "PackagesBusyError";
}

/** Other threads, bodies and answers take the memory; the client may retry. */
export class PackageMemoryError extends Error {
  override readonly name = "PackageMemoryError";
}

/** The package thread died, could not start, was closed, or failed to make the package. */
export class PackageWorkerError extends Error {
  override readonly name = "PackageWorkerError";
}

/** Concurrent packages. Each holds two unnamed files, an open one, and half a megabyte for a client that stalls. */
const MAX_ACTIVE = 64;
/** Requests that may wait for a place. */
const MAX_QUEUED = 256;
/** Requests that may wait for the report before theirs: a second of work each, for a trail with a long history. */
const MAX_QUEUED_REPORTS = 64;
/** For the wait for memory: shorter than clients wait for a response. */
const MAX_WAITING_MS = 60_000;
/** Chunks in transit to one stream. */
const MAX_CHUNKS_AHEAD = 3;
/** A stream without progress for this long ends, whether the client stopped reading or the thread stopped producing. */
const STALL_TIMEOUT_MS = 120_000;
/** Without a package for this long, the thread stops and frees its fonts and its database connection. */
const IDLE_TIMEOUT_MS = 60_000;

export function createPackageMaker({
  data,
  remote = null,
  start,
  stallTimeoutMs = STALL_TIMEOUT_MS,
  acquireMemory = UNBOUNDED_MEMORY,
  maxWaitingMs = MAX_WAITING_MS,
}: {
  data: Omit<PackageWorkerData, "damaged" | "remote">;
  /** Where the evidence is when it is not in its directory below the data directory. */
  remote?: RemoteEvidence | null;
  start: (options: { workerData: PackageWorkerData; transferList: MessagePort[] }) => Worker;
  /** Takes the memory that the thread needs to assemble a package. What it sends then takes little. */
  acquireMemory?: AcquireMemory;
  /** For tests. */
  stallTimeoutMs?: number;
  maxWaitingMs?: number;
}): PackageMaker {
  // Kept here because threads come and go: a file that cut off one package is omitted from all later ones.
  const damaged = createDamagedFiles();
  const streams = createByteStreams<PackageRequest, PackageFailure>({
    start() {
      const known = { ...data, damaged: [...damaged.entries()] };
      if (!remote) return start({ workerData: { ...known, remote: null }, transferList: [] });
      const { port1, port2 } = new MessageChannel();
      serveEvidence(port1, remote);
      return start({ workerData: { ...known, remote: port2 }, transferList: [port2] });
    },
    credits: MAX_CHUNKS_AHEAD,
    idleTimeoutMs: IDLE_TIMEOUT_MS,
    toError(_, { text, damaged: file, isUnreachable, code }) {
      if (isUnreachable) return new EvidenceUnavailableError(text);
      if (!file) return Object.assign(new PackageWorkerError(text), code === null ? {} : { code });
      damaged.set(file.digest, file.signature);
      return new DamagedEvidenceError(file.digest, "this was found while a package was being made");
    },
    toThreadError: (why, options) => new PackageWorkerError(`no package can be made: ${why}`, options),
  });
  const admission = createAdmission(MAX_ACTIVE, MAX_QUEUED);
  // A report is composed from all records of its trail in memory: the memory of two would add up.
  const reportTurns = createAdmission(1, MAX_QUEUED_REPORTS);

  /** @throws PackageMemoryError, the reason of the signal */
  async function waitForMemory(signal: AbortSignal | undefined): Promise<Lease> {
    const timeout = AbortSignal.timeout(maxWaitingMs);
    try {
      return await acquireMemory(signal ? AbortSignal.any([signal, timeout]) : timeout);
    } catch (error) {
      if (signal?.aborted || !timeout.aborted) throw error;
      throw new PackageMemoryError(`there was no memory for a package within ${maxWaitingMs} ms`);
    }
  }

  /** Opens a stream while it holds memory, and passes it to `use` until that has settled. */
  async function open<T>(
    request: PackageRequest,
    { signal, use }: { signal?: AbortSignal | undefined; use(stream: Readable): T | Promise<T> },
  ): Promise<T> {
    const leave = await admission.enter(signal);
    try {
      const memory = await waitForMemory(signal);
      try {
        const stream = await streams.open(request, { stallTimeoutMs, ...(signal ? { signal } : {}) });
        stream.once("close", leave);
        return await use(stream);
      } finally {
        memory.release();
      }
    } catch (error) {
      leave();
      throw error;
    }
  }

  return {
    open: (request, signal) => open({ ...request, what: "package" }, { signal, use: (stream) => stream }),
    async report(request) {
      const leave = await reportTurns.enter();
      try {
        return await open({ ...request, what: "report" }, { use: buffer });
      } finally {
        leave();
      }
    },
    close: streams.close,
  };
}

/** Admits `maxActive` at a time and lets `maxQueued` wait, first come, first served. */
function createAdmission(maxActive: number, maxQueued: number) {
  const queue: (() => void)[] = [];
  let active = 0;

  /** Returns a function that passes the place on; further calls do nothing. */
  function createLeave(): () => void {
    let hasLeft = false;
    return () => {
      if (hasLeft) return;
      hasLeft = true;
      const next = queue.shift();
      if (next) next();
      else active -= 1;
    };
  }

  const waitForPlace = (signal: AbortSignal | undefined): Promise<() => void> =>
    new Promise((resolve, reject) => {
      const admit = (): void => {
        signal?.removeEventListener("abort", giveUp);
        resolve(createLeave());
      };
      const giveUp = (): void => {
        const index = queue.indexOf(admit);
        if (index >= 0) queue.splice(index, 1);
        reject(signal?.reason as Error);
      };
      signal?.addEventListener("abort", giveUp, { once: true });
      queue.push(admit);
    });

  return {
    /**
     * Resolves with the function that gives the place back. Rejects with PackagesBusyError, or the reason of an aborted
     * signal.
     */
    async enter(signal?: AbortSignal): Promise<() => void> {
      signal?.throwIfAborted();
      if (active < maxActive) {
        active += 1;
        return createLeave();
      }
      if (queue.length >= maxQueued)
        throw new PackagesBusyError(`${maxActive} packages are in progress and ${maxQueued} requests are queued`);
      return waitForPlace(signal);
    },
  };
}
