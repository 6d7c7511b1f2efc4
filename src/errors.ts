/**
 * The errors that Assay tells people about. An AppError carries two audiences: `message` and `fields` are for the
 * caller and are sent as they are; `internal` is for the log only and can never reach a response. Everything that is
 * not an AppError is a bug and becomes a bare 500. Codes, not HTTP statuses: the one table from code to status is in
 * http/reply.ts.
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
  | "unavailable"
  | "internal";

/** Field texts of a validation error: dotted path of the field -> one line (messages 1 and 2). */
export type FieldErrors = Readonly<Record<string, string>>;

export class AppError extends Error {
  readonly code: ErrorCode;
  /** null unless this is a validation error; then never empty. */
  readonly fields: FieldErrors | null;
  /** For the log only. */
  readonly internal: unknown;
  /** Response headers that belong to the error, such as Allow. */
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    code: ErrorCode,
    message: string,
    extra: { fields?: FieldErrors; internal?: unknown; headers?: Record<string, string> } = {},
  ) {
    super(message);
    this.name = "AppError";
    this.code = code;
    this.fields = extra.fields ?? null;
    this.internal = extra.internal ?? null;
    this.headers = extra.headers ?? {};
  }
}

/** The fixed message of every validation error (semantics 9). */
export const VALIDATION_MESSAGE = "Input payload validation failed";
/** The one text of every 403 below an organization, whether it exists or not (messages 3). */
export const ACCESS_MESSAGE = "You don't have permission to access this resource";

/** 400 with one text per field. `fields` must not be empty. */
export const invalid = (fields: FieldErrors, internal?: unknown): AppError =>
  new AppError("invalid", VALIDATION_MESSAGE, { fields, internal });

/** 400 that is not about one field: a message alone. */
export const badRequest = (message: string, internal?: unknown): AppError =>
  new AppError("invalid", message, { internal });

export const unauthenticated = (internal?: unknown): AppError =>
  new AppError("unauthenticated", "Authentication credentials are missing or invalid", {
    internal,
    headers: { "WWW-Authenticate": 'Bearer realm="assay", Basic realm="assay", charset="UTF-8"' },
  });

/** 401 for a page whose session ended: without HTTP basic, for which a browser would ask with a window of its own. */
export const sessionExpired = (): AppError =>
  new AppError("unauthenticated", "Authentication credentials are missing or invalid", {
    headers: { "WWW-Authenticate": 'Bearer realm="assay"' },
  });

export const forbidden = (internal?: unknown, message: string = ACCESS_MESSAGE): AppError =>
  new AppError("forbidden", message, { internal });

export const notFound = (message: string): AppError => new AppError("not_found", message);

export const routeNotFound = (): AppError => new AppError("not_found", "The requested URL was not found on the server");

export const methodNotAllowed = (allow: readonly string[]): AppError =>
  new AppError("method_not_allowed", "The method is not allowed for the requested URL", {
    headers: { Allow: allow.join(", ") },
  });

export const conflict = (message = "The resource is being changed by another request. Please try again"): AppError =>
  new AppError("conflict", message);

export const gone = (): AppError => new AppError("gone", "This operation has been removed from the API");

/** 413 for a file part: names the limit in whole MB of 1,048,576 bytes (semantics 13, row 111). */
export const fileTooLarge = (limitBytes: number): AppError =>
  new AppError("too_large", `File size exceeds the ${limitText(limitBytes)} limit`);

/** 413 for everything that is not a file part. `what` begins the sentence. */
export const tooLarge = (what: string, limitBytes: number): AppError =>
  new AppError("too_large", `${what} exceeds the ${limitText(limitBytes)} limit`);

/**
 * 413 for JSON of more values of a kind than an operation takes, whatever its size in bytes. `what` begins the
 * sentence.
 */
export const tooManyValues = (
  what: string,
  limit: number,
  kind: "values" | "objects and lists" | "texts, numbers and words" | "keys" | "different keys",
): AppError =>
  new AppError("too_large", `${what} has more than ${limit} ${kind}, which is the most that this operation takes`);

/**
 * 413 for what cannot be read with the time and memory that the server has for one request. `what` begins the sentence.
 */
export const tooCostly = (what: string, internal?: unknown): AppError =>
  new AppError("too_large", `${what} takes more time or memory to read than the server has for one request`, {
    internal,
  });

/** 408: the client did not send its request in time; the connection is closed afterwards. */
export const requestTimeout = (message: string): AppError =>
  new AppError("timeout", message, { headers: { Connection: "close" } });

/** 503 with Retry-After in seconds: the server cannot take the request now and nothing was stored. */
export const unavailable = (message: string, retryAfter: number, internal?: unknown): AppError =>
  new AppError("unavailable", message, { internal, headers: { "Retry-After": String(retryAfter) } });

/** 429 with Retry-After in seconds. `what` says whose requests, or which attempts, there were too many of. */
export const tooManyRequests = (what: string, retryAfter: number): AppError =>
  new AppError("too_many", `${what}. Please try again in ${retryAfter} ${retryAfter === 1 ? "second" : "seconds"}`, {
    headers: { "Retry-After": String(retryAfter) },
  });

/** 507: the server takes no writes. `reason` is for the caller and the operator alike; reads go on. */
export const readOnly = (reason: string): AppError =>
  new AppError("no_space", `The server takes no changes at the moment: ${reason}. Nothing was stored`, {
    headers: { "Retry-After": "60" },
  });

/** 403 of a change by a session that brings no token (semantics, Authentication; messages 3). */
export const csrfMissing = (): AppError => new AppError("forbidden", "CSRF token missing");

/** Bytes as the contract writes limits: whole MB where possible, else KB or bytes. */
function limitText(bytes: number): string {
  if (bytes >= 1_048_576) return `${Number((bytes / 1_048_576).toFixed(1))}MB`;
  if (bytes >= 1024) return `${Number((bytes / 1024).toFixed(1))}KB`;
  return `${bytes} byte`;
}
