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
import { PackagesBusyError, createAdmission } from "./admission.ts";
import type { Asking } from "./admission.ts";
import { createDamagedFiles } from "./evidence.ts";
import type { PackageFailure, PackageRequest, PackageWorkerData } from "./package-worker.ts";
import { serveEvidence } from "./remote-evidence-reader.ts";
import type { RemoteEvidence } from "./remote-evidence-reader.ts";

type Asked = Omit<PackageRequest, "what"> & Asking;

export type PackageMaker = {
  /**
   * Resolves with the bytes of a package once it is assembled, which organizations and callers have in turns. Rejects
   * with PackagesBusyError, PackageMemoryError, PackageWorkerError, EvidenceUnavailableError when remote evidence
   * cannot be reached, the reason of an aborted `signal`, or an error with the `code` of the operating system. The
   * stream fails with DamagedEvidenceError before the last bytes of a damaged file, and with StalledError when the
   * client stops reading.
   */
  open(request: Asked, signal?: AbortSignal): Promise<Readable>;
  /** The readable report alone, a PDF. Rejects as `open` does. */
  report(request: Asked): Promise<Buffer>;
  /** Fails all open and waiting requests and stops the thread. */
  close(): Promise<void>;
};

/** Other threads, bodies and answers take the memory; the client may retry. */
export class PackageMemoryError extends Error {
  override readonly name = "PackageMemoryError";
}

/** The package thread died, could not start, was closed, or failed to make the package. */
export class PackageWorkerError extends Error {
  override readonly name = "PackageWorkerError";
}

/**
 * Packages in progress: in all, and of one caller. Each holds two unnamed files, an open one, and half a megabyte for a
 * client that stalls.
 */
const IN_PROGRESS = { active: 64, activeOfCaller: 16, queued: 256, queuedOfCaller: 64 };
/**
 * Of these, those that the thread assembles, which takes seconds for tens of thousands of artifacts. It does so one
 * after the other; the second may be one whose evidence elsewhere is being described. One of a caller, so that the wait
 * of another does not grow with what one asks for. All that are in progress may wait for it.
 */
const ASSEMBLED = { active: 2, activeOfCaller: 1, queued: IN_PROGRESS.active, queuedOfCaller: IN_PROGRESS.active };
/**
 * A report is composed from all records of its trail in memory: the memory of two would add up. Each takes a second,
 * for a trail with a long history.
 */
const REPORTS = { active: 1, activeOfCaller: 1, queued: 64, queuedOfCaller: 16 };
/** For the wait for a turn, and then for memory: shorter than clients wait for a response. */
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
  const places = createAdmission(IN_PROGRESS);
  const assembly = createAdmission(ASSEMBLED);
  const reportTurns = createAdmission(REPORTS);

  /** Waits until `signal` is aborted or the time has passed. @throws the reason of the signal, the error of `toLate` */
  async function waitFor<T>(
    signal: AbortSignal | undefined,
    { wait, toLate }: { wait(signal: AbortSignal): Promise<T>; toLate(): Error },
  ): Promise<T> {
    const timeout = AbortSignal.timeout(maxWaitingMs);
    try {
      return await wait(signal ? AbortSignal.any([signal, timeout]) : timeout);
    } catch (error) {
      if (signal?.aborted || !timeout.aborted) throw error;
      throw toLate();
    }
  }

  const waitForTurn = (asking: Asking, signal: AbortSignal | undefined): Promise<() => void> =>
    waitFor(signal, {
      wait: (until) => assembly.enter(asking, until),
      toLate: () => new PackagesBusyError(`the package did not have its turn within ${maxWaitingMs} ms`),
    });

  const waitForMemory = (signal: AbortSignal | undefined): Promise<Lease> =>
    waitFor(signal, {
      wait: acquireMemory,
      toLate: () => new PackageMemoryError(`there was no memory for a package within ${maxWaitingMs} ms`),
    });

  /** Opens a stream while it holds memory, and passes it to `use` until that has settled. */
  async function open<T>(
    { what, asked: { caller, ...asked } }: { what: PackageRequest["what"]; asked: Asked },
    { signal, use }: { signal?: AbortSignal | undefined; use(stream: Readable): T | Promise<T> },
  ): Promise<T> {
    const asking = { organizationId: asked.organizationId, caller };
    const leave = await places.enter(asking, signal);
    try {
      const endTurn = await waitForTurn(asking, signal);
      try {
        const memory = await waitForMemory(signal);
        try {
          const stream = await streams.open({ ...asked, what }, { stallTimeoutMs, ...(signal ? { signal } : {}) });
          stream.once("close", leave);
          endTurn();
          return await use(stream);
        } finally {
          memory.release();
        }
      } finally {
        endTurn();
      }
    } catch (error) {
      leave();
      throw error;
    }
  }

  return {
    open: (asked, signal) => open({ what: "package", asked }, { signal, use: (stream) => stream }),
    async report(asked) {
      const leave = await reportTurns.enter(asked);
      try {
        return await open({ what: "report", asked }, { use: buffer });
      } finally {
        leave();
      }
    },
    close: streams.close,
  };
}
