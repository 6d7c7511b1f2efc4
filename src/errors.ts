/**
 * The errors that Assay reports to people. An AppError addresses two audiences: `message` and `fields` are sent to the
 * client as they are; `internal` goes to the log only and never reaches a response. Anything that is not an AppError is
 * a bug and becomes a bare 500. Errors have codes, not HTTP statuses; the table from code to status is in
 * http/response.ts.
 */

export type ErrorCode =
  | "invalid"
  | "unauthenticated"
  | "forbidden"
  | "not_found"
  | "method_not_allowed"
  | "timeout"
  | "conflict"
  | "gone"
  | "too_large"
  | "too_many"
  | "no_space"
  | "http_version"
  | "unavailable"
  | "internal";

/** Field texts of a validation error: dotted path of the field -> one line (messages 1 and 2). */
export type FieldErrors = Readonly<Record<string, string>>;

/**
 * A mistake in an uploaded text. `line` and `column` start at 1, columns in UTF-16 code units; `path` is the dotted
 * path of the value, "" for the text as a whole; `message` is one line.
 */
export type SourceProblem = Readonly<{ line: number; column: number; path: string; message: string }>;

export class AppError extends Error {
  readonly code: ErrorCode;
  /** null unless this is a validation error, and then never empty. */
  readonly fields: FieldErrors | null;
  /** The problems of a text, for pages of our own; answers have them as one text in `fields`. */
  readonly problems: readonly SourceProblem[];
  /** For the log only. */
  readonly internal: unknown;
  /** Response headers of the error, such as Allow. */
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    code: ErrorCode,
    message: string,
    extra: {
      fields?: FieldErrors;
      problems?: readonly SourceProblem[];
      internal?: unknown;
      headers?: Record<string, string>;
    } = {},
  ) {
    super(message);
    this.name = "AppError";
    this.code = code;
    this.fields = extra.fields ?? null;
    this.problems = extra.problems ?? [];
    this.internal = extra.internal ?? null;
    this.headers = extra.headers ?? {};
  }
}

/** The message of every validation error (semantics 9). */
const VALIDATION_MESSAGE = "Input payload validation failed";
/** The text of every 403 below an organization, whether the organization exists or not (messages 3). */
const ACCESS_MESSAGE = "You don't have permission to access this resource";

/** 400 with one text per field. `fields` must not be empty. */
export const invalid = (fields: FieldErrors, internal?: unknown): AppError =>
  new AppError("invalid", VALIDATION_MESSAGE, { fields, internal });

/** 400 for an uploaded text with mistakes. `text` lists them for the client, `problems` for callers in this process. */
export const invalidText = (field: string, text: string, problems: readonly SourceProblem[]): AppError =>
  new AppError("invalid", VALIDATION_MESSAGE, { fields: { [field]: text }, problems });

/** 400 that is not about a field: only a message. */
export const badRequest = (message: string, internal?: unknown): AppError =>
  new AppError("invalid", message, { internal });

export const unauthenticated = (internal?: unknown): AppError =>
  new AppError("unauthenticated", "Authentication credentials are missing or invalid", {
    internal,
    headers: { "WWW-Authenticate": 'Bearer realm="assay", Basic realm="assay", charset="UTF-8"' },
  });

/** 401 for a page whose session has ended. Offers no HTTP basic, for which a browser would open a password dialog. */
export const sessionExpired = (): AppError =>
  new AppError("unauthenticated", "Authentication credentials are missing or invalid", {
    headers: { "WWW-Authenticate": 'Bearer realm="assay"' },
  });

export const forbidden = (internal?: unknown, message: string = ACCESS_MESSAGE): AppError =>
  new AppError("forbidden", message, { internal });

export const notFound = (message: string): AppError => new AppError("not_found", message);

/** @param hint what the caller probably meant; by default, where the API is described */
export const routeNotFound = (hint = "the API is described at /api/v2/doc/ of this server"): AppError =>
  new AppError("not_found", `The requested URL was not found on the server: ${hint}`);

/** @param hint what the caller probably meant; null without one */
export const methodNotAllowed = (allow: readonly string[], hint: string | null = null): AppError =>
  new AppError(
    "method_not_allowed",
    `The method is not allowed for the requested URL${hint === null ? "" : `: ${hint}`}`,
    { headers: { Allow: allow.join(", ") } },
  );

export const conflict = (message = "The resource is being changed by another request. Please try again"): AppError =>
  new AppError("conflict", message);

export const gone = (): AppError => new AppError("gone", "This operation has been removed from the API");

/** 413 for a file part, with the limit in MB of 1,048,576 bytes (semantics 13.111). */
export const fileTooLarge = (limitBytes: number): AppError =>
  new AppError("too_large", `File size exceeds the ${formatLimit(limitBytes)} limit`);

/** 413 for anything but a file part. `what` is the subject of the sentence. */
export const tooLarge = (what: string, limitBytes: number): AppError =>
  new AppError("too_large", `${what} exceeds the ${formatLimit(limitBytes)} limit`);

/**
 * 413 for JSON with too many values of a kind, whatever its size in bytes. `what` is the subject of the sentence.
 */
export const tooManyValues = (
  what: string,
  limit: number,
  kind: "values" | "objects and lists" | "texts, numbers and words" | "keys" | "different keys",
): AppError =>
  new AppError("too_large", `${what} has more than ${limit} ${kind}, which is the most that this operation takes`);

/**
 * 413 for JSON that exceeds the time or memory budget of one request. `what` is the subject of the sentence.
 */
export const tooCostly = (what: string, internal?: unknown): AppError =>
  new AppError("too_large", `${what} takes more time or memory to read than the server has for one request`, {
    internal,
  });

/** 408: the client did not send its request in time. The connection is closed afterwards. */
export const requestTimeout = (message: string): AppError =>
  new AppError("timeout", message, { headers: { Connection: "close" } });

/** 503 with Retry-After in seconds: the server cannot process the request now, and nothing was stored. */
export const unavailable = (message: string, retryAfter: number, internal?: unknown): AppError =>
  new AppError("unavailable", message, { internal, headers: { "Retry-After": String(retryAfter) } });

/** 429 with Retry-After in seconds. `what` names the requests or attempts that were too many. */
export const tooManyRequests = (what: string, retryAfter: number): AppError =>
  new AppError("too_many", `${what}. Please try again in ${retryAfter} ${retryAfter === 1 ? "second" : "seconds"}`, {
    headers: { "Retry-After": String(retryAfter) },
  });

/** 507: the server is in read-only mode, reads go on. `reason` is for client and operator. */
export const readOnly = (reason: string): AppError =>
  new AppError("no_space", `The server is in read-only mode: ${reason}. Nothing was stored`, {
    headers: { "Retry-After": "60" },
  });

/** 507: the server entered read-only mode while it stored the change. `reason` as in `readOnly`. */
export class UnconfirmedError extends AppError {
  constructor(reason: string) {
    super("no_space", `The server is in read-only mode: ${reason}. It is not known whether the change was stored`, {
      headers: { "Retry-After": "60" },
    });
  }
}

/** 403 for a change by session without a valid CSRF token (http-api-v2 5.3, messages 3). */
export const csrfMissing = (): AppError => new AppError("forbidden", "CSRF token missing");

/** Bytes as the contract writes limits: in MB from 1 MB on, else in KB or bytes, with at most one decimal. */
function formatLimit(bytes: number): string {
  if (bytes >= 1_048_576) return `${Number((bytes / 1_048_576).toFixed(1))}MB`;
  if (bytes >= 1024) return `${Number((bytes / 1024).toFixed(1))}KB`;
  return `${bytes} byte`;
}
