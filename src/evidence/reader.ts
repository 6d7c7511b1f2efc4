// The main thread's side of evidence downloads: streams (feeds.ts) of chunks that the evidence worker reads. A client
// that does not read holds about 640 KB.
import type { Readable } from "node:stream";
import type { Worker } from "node:worker_threads";
import { DamagedEvidenceError, MissingEvidenceError } from "./errors.ts";
import { splitDigest } from "./layout.ts";
import type { ReadRequest, ReaderWorkerData, ReadFailure } from "./reader-worker.ts";
import { createByteStreams } from "../workers/byte-streams.ts";

export type EvidenceRequest = {
  digest: string;
  /** First and last byte, both inclusive and from 0, as in an HTTP range. Without them the whole file. */
  start?: number;
  end?: number;
  /** The size in bytes that the row promises: a file of another size is refused before the first byte. */
  size?: number;
};

export type LocalEvidenceReader = {
  /**
   * Opens a file and resolves when it is known to be there. Rejects with MissingEvidenceError, DamagedEvidenceError
   * (wrong size), RangeError (malformed digest, range outside the file), EvidenceWorkerError or an ErrnoException.
   * The stream fails with the same errors; one of a whole file fails with DamagedEvidenceError before its last bytes
   * when the content is not what the digest says. A destroyed stream closes the file.
   */
  open(request: EvidenceRequest): Promise<Readable>;
  /**
   * Fails the open streams, those that have all their chunks excepted, and stops the worker; later `open` calls reject.
   */
  close(): Promise<void>;
};

/** The reading thread died, could not be started, or was closed. The next `open` starts a new one unless closed. */
export class EvidenceWorkerError extends Error {
  override readonly name = "EvidenceWorkerError";
}

/** Chunks that may be on their way to one stream. */
const CREDITS_PER_STREAM = 4;

/**
 * `root` is the evidence root. `start` starts src/evidence/reader-worker.ts, from its file or from the bundle, with
 * the options it is given; the worker is started when it is first needed.
 */
export function createEvidenceReader({
  root,
  start,
}: {
  root: string;
  start: (options: { workerData: ReaderWorkerData }) => Worker;
}): LocalEvidenceReader {
  const feeds = createByteStreams<ReadRequest, ReadFailure>({
    start: () => start({ workerData: { root } }),
    credits: CREDITS_PER_STREAM,
    idleTimeoutMs: null,
    toError: ({ digest }, reason) => toError(digest, reason),
    toThreadError: (why, options) => new EvidenceWorkerError(`evidence cannot be read: ${why}`, options),
  });
  return {
    async open({ digest, start: first = 0, end, size }) {
      splitDigest(digest);
      if (!isOffset(first) || (end !== undefined && (!isOffset(end) || end < first))) {
        throw new RangeError(`bytes ${first} to ${end ?? "the end"} are not a range`);
      }
      return feeds.open({ digest, start: first, end: end ?? null, size: size ?? null });
    },
    close: feeds.close,
  };
}

function isOffset(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0;
}

function toError(digest: string, { kind, text, code }: ReadFailure): Error {
  if (kind === "missing") return new MissingEvidenceError(digest);
  if (kind === "damaged") return new DamagedEvidenceError(digest, text);
  if (kind === "range") return new RangeError(text);
  return Object.assign(new Error(text), code === null ? {} : { code });
}
