// Errors of the evidence store, apart from those of the operating system (ENOSPC, EIO ...), which pass through
// unchanged. These errors know no HTTP: the caller chooses the status and the text that a client sees.
import { AppError } from "../errors.ts";

/** A source yielded more than `limit` bytes. None of its content is left behind when this is thrown. */
export class TooLargeError extends Error {
  override readonly name = "TooLargeError";
  /** The limit that was exceeded, in bytes; a source of exactly this size is accepted. */
  readonly limit: number;

  constructor(limit: number) {
    super(`larger than ${limit} bytes`);
    this.limit = limit;
  }
}

/**
 * No file has this content address: the row that names it outlived the file (a restore without the evidence directory).
 */
export class MissingEvidenceError extends Error {
  override readonly name = "MissingEvidenceError";
  readonly digest: string;

  constructor(digest: string) {
    super(`evidence ${digest} is missing`);
    this.digest = digest;
  }
}

/** Evidence and staging are on different file systems, where a rename between them would not be atomic. */
export class StagingElsewhereError extends Error {
  override readonly name = "StagingElsewhereError";
  readonly code = "STAGING_ELSEWHERE";

  constructor(staging: string, evidence: string) {
    super(
      `${staging} and ${evidence} are on different file systems, so no file can be renamed from one to the other: ` +
        "put both on one file system",
    );
  }
}

/** The file exists, but its size or content does not match its address or its row. */
export class DamagedEvidenceError extends Error {
  override readonly name = "DamagedEvidenceError";
  readonly digest: string;

  constructor(digest: string, reason: string) {
    super(`evidence ${digest} is damaged: ${reason}`);
    this.digest = digest;
  }
}

/** Seconds after which a client may retry a request that failed because evidence storage was unreachable. */
const RETRY_AFTER_S = 10;

/**
 * Evidence storage gave no conclusive answer: it is down, overloaded, or rejects our credentials. This never means that
 * a file is missing. Nothing may be concluded about the file, so the client is asked to retry.
 */
export class EvidenceUnavailableError extends AppError {
  /** `why` is for the log and the operator; clients must not see it because it may name hosts. */
  constructor(why: string) {
    super("unavailable", "Evidence storage cannot be reached. Please try again", {
      internal: why,
      headers: { "Retry-After": String(RETRY_AFTER_S) },
    });
    this.name = "EvidenceUnavailableError";
    this.why = why;
  }

  readonly why: string;
}
