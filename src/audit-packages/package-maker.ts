// The main thread's side of audit packages: streams (feeds.ts) of what the package worker makes, a bounded number at a
// time.
import { buffer } from "node:stream/consumers";
import type { Readable } from "node:stream";
import { MessageChannel } from "node:worker_threads";
import type { MessagePort, Worker } from "node:worker_threads";
import { DamagedEvidenceError, EvidenceUnavailableError } from "../evidence/errors.ts";
import { createFeeds } from "../workers/byte-streams.ts";
import type { PackageFailure, PackageRequest, PackageWorkerData } from "./package-worker.ts";
import { serveEvidence } from "./remote-evidence-reader.ts";
import type { RemoteEvidence } from "./remote-evidence-reader.ts";

export type PackageMaker = {
  /**
   * Resolves with the bytes of a package when it is put together. Rejects with PackagesBusyError, PackageWorkerError,
   * EvidenceUnavailableError when the evidence is elsewhere and cannot be looked at, what
   * `signal` was aborted with, or an error with the `code` of the operating system. The stream fails with
   * DamagedEvidenceError before the last bytes of a damaged file, and with StalledError when nobody reads.
   */
  open(request: Omit<PackageRequest, "what">, signal?: AbortSignal): Promise<Readable>;
  /** The readable report alone, a PDF. Rejects as `open` does. */
  report(request: Omit<PackageRequest, "what">): Promise<Buffer>;
  /** Fails what is open and waiting, and stops the thread. */
  close(): Promise<void>;
};

/** As many packages are under way, and as many wait, as the server takes; the client may come again. */
export class PackagesBusyError extends Error {
  override readonly name = "PackagesBusyError";
}

/** The thread died, could not be started, or was closed; or it could not make the package. */
export class PackageWorkerError extends Error {
  override readonly name = "PackageWorkerError";
}

/**
 * Packages under way at once: each takes two files without a name, half a megabyte for a client that does not read, and
 * an open one.
 */
const ACTIVE = 64;
/** Requests that may wait for their turn. */
const WAITING = 256;
/** Chunks that may be on their way to one stream. */
const CREDITS = 3;
/** A client that takes nothing for so many milliseconds makes room; so does a thread that gives nothing. */
const PATIENCE = 120_000;
/** How many damaged files are remembered; beyond that each cuts a package once more. */
const REMEMBERED = 10_000;
/** After so many milliseconds without a package the thread, its fonts and its connection go. */
const IDLE = 60_000;

export function createPackageMaker({
  data,
  remote = null,
  start,
  stallTimeoutMs: patience = PATIENCE,
}: {
  data: Omit<PackageWorkerData, "damaged" | "remote">;
  /** The evidence where it is not below its root in the data directory. */
  remote?: RemoteEvidence | null;
  start: (options: { workerData: PackageWorkerData; transferList: MessagePort[] }) => Worker;
  /** For tests. */
  stallTimeoutMs?: number;
}): PackageMaker {
  // Here, because threads come and go: what cut one package is left out of all later ones, and told there.
  const damaged = new Map<string, string>();
  const feeds = createFeeds<PackageRequest, PackageFailure>({
    start() {
      if (!remote) return start({ workerData: { ...data, damaged, remote: null }, transferList: [] });
      const { port1, port2 } = new MessageChannel();
      serveEvidence(port1, remote);
      return start({ workerData: { ...data, damaged, remote: port2 }, transferList: [port2] });
    },
    credits: CREDITS,
    idle: IDLE,
    toError(_, { text, damaged: found, unreachable, code }) {
      if (unreachable) return new EvidenceUnavailableError(text);
      if (!found) return Object.assign(new PackageWorkerError(text), code === null ? {} : { code });
      if (damaged.size >= REMEMBERED) damaged.clear();
      damaged.set(found.digest, found.signature);
      return new DamagedEvidenceError(found.digest, "it was found while a package was made");
    },
    died: (why, options) => new PackageWorkerError(`no package can be made: ${why}`, options),
  });
  const places = createPlaces(ACTIVE, WAITING);

  async function open(request: PackageRequest, signal?: AbortSignal): Promise<Readable> {
    const leave = await places.take(signal);
    try {
      const stream = await feeds.open(request, { patience, ...(signal ? { signal } : {}) });
      stream.once("close", leave);
      return stream;
    } catch (error) {
      leave();
      throw error;
    }
  }

  return {
    open: (request, signal) => open({ ...request, what: "package" }, signal),
    report: async (request) => buffer(await open({ ...request, what: "report" })),
    close: feeds.close,
  };
}

/** Lets `size` in at once and `queue` wait, first come, first served. */
function createPlaces(size: number, queue: number) {
  const waiting: (() => void)[] = [];
  let taken = 0;

  /** Hands the place on, once. */
  function leaver(): () => void {
    let left = false;
    return () => {
      if (left) return;
      left = true;
      const next = waiting.shift();
      if (next) next();
      else taken -= 1;
    };
  }

  return {
    /** Resolves with what gives the place back. @throws PackagesBusyError, what the signal was aborted with */
    async take(signal?: AbortSignal): Promise<() => void> {
      signal?.throwIfAborted();
      if (taken < size) {
        taken += 1;
        return leaver();
      }
      if (waiting.length >= queue)
        throw new PackagesBusyError(`${size} packages are under way and ${queue} wait already`);
      return new Promise((resolve, reject) => {
        const enter = (): void => {
          signal?.removeEventListener("abort", give);
          resolve(leaver());
        };
        const give = (): void => {
          const place = waiting.indexOf(enter);
          if (place >= 0) waiting.splice(place, 1);
          reject(signal?.reason as Error);
        };
        signal?.addEventListener("abort", give, { once: true });
        waiting.push(enter);
      });
    },
  };
}
