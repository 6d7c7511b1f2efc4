// What can be wrong with evidence, apart from what the operating system reports (ENOSPC, EIO ... pass through as they
// are). These know no HTTP: the caller says which status and which words a client sees.
import { AppError } from "../errors.ts";

/** A source gave more than `limit` bytes. Nothing of it is left behind when this is thrown. */
export class TooLargeError extends Error {
  override readonly name = "TooLargeError";
  /** The limit that was passed, in bytes; a source of exactly this size is accepted. */
  readonly limit: number;

  constructor(limit: number) {
    super(`larger than ${limit} bytes`);
    this.limit = limit;
  }
}

/**
 * No file has this content address: the row that names it outlived its file (a restore without the evidence directory).
 */
export class MissingEvidenceError extends Error {
  override readonly name = "MissingEvidenceError";
  readonly digest: string;

  constructor(digest: string) {
    super(`evidence ${digest} is missing`);
    this.digest = digest;
  }
}

/** A file is there, but its size or content is not what its address or its row promises. */
export class DamagedEvidenceError extends Error {
  override readonly name = "DamagedEvidenceError";
  readonly digest: string;

  constructor(digest: string, reason: string) {
    super(`evidence ${digest} is damaged: ${reason}`);
    this.digest = digest;
  }
}

/** Seconds after which a client that could not be served because of the storage may come again. */
const RETRY_AFTER_S = 10;

/**
 * The storage of the evidence gave no answer that tells anything: it is down, overloaded, or refuses our key. This is
 * never the same as a file that is missing: nothing may be concluded about the file, so the caller is asked to come
 * again.
 */
export class EvidenceUnavailableError extends AppError {
  /** `why` is for the log and the operator, not for callers: it may name hosts. */
  constructor(why: string) {
    super("unavailable", "The storage of the evidence cannot be reached now. Please try again", {
      internal: why,
      headers: { "Retry-After": String(RETRY_AFTER_S) },
    });
    this.name = "EvidenceUnavailableError";
    this.why = why;
  }

  readonly why: string;
}
