// Evidence downloads: the main thread's side of streams (workers/byte-streams.ts) whose chunks the reader thread reads.
// A client that does not read holds about 640 KB.
import type { Readable } from "node:stream";
import type { Worker } from "node:worker_threads";
import { assertRange } from "./byte-range.ts";
import { DamagedEvidenceError, MissingEvidenceError } from "./errors.ts";
import { splitDigest } from "./layout.ts";
import type { ReaderWorkerData, ReadFailure, ReadRequest } from "./reader-worker.ts";
import { createByteStreams } from "../workers/byte-streams.ts";

type EvidenceRequest = {
  digest: string;
  /** First and last byte, both inclusive and from 0, as in an HTTP range. The whole file by default. */
  start?: number;
  end?: number;
  /** The size in bytes that the row promises: a file of another size is refused before the first byte. */
  size?: number;
};

type LocalEvidenceReader = {
  /**
   * Opens a file and resolves when it is known to exist. Rejects with MissingEvidenceError, DamagedEvidenceError (wrong
   * size), RangeError (malformed digest, range outside the file), EvidenceWorkerError or an ErrnoException. The stream
   * fails with the same errors; a stream of a whole file fails with DamagedEvidenceError before its last bytes when the
   * content does not match the digest. Destroying the stream closes the file.
   */
  open(request: EvidenceRequest): Promise<Readable>;
  /** Fails the open streams that still wait for chunks, and stops the worker; later `open` calls reject. */
  close(): Promise<void>;
};

/** The reader thread died, could not be started, or was closed. Unless closed, the next `open` starts a new one. */
export class EvidenceWorkerError extends Error {
  override readonly name = "EvidenceWorkerError";
}

/** Chunks that may be in flight for one stream. */
const CREDITS_PER_STREAM = 4;

/**
 * `root` is the evidence root. `start` starts reader-worker.ts, from its file or from the bundle, with the given
 * options; it is called when the worker is first needed.
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
      assertRange(first, end);
      return feeds.open({ digest, start: first, end: end ?? null, size: size ?? null });
    },
    close: feeds.close,
  };
}

function toError(digest: string, { kind, text, code }: ReadFailure): Error {
  if (kind === "missing") return new MissingEvidenceError(digest);
  if (kind === "damaged") return new DamagedEvidenceError(digest, text);
  if (kind === "range") return new RangeError(text);
  return Object.assign(new Error(text), code === null ? {} : { code });
}
