/**
 * The log: JSON lines through pino, written by this process itself (no transports, so it survives bundling).
 *
 * No line ever holds a credential. Everything that is logged (fields, messages, bindings of child loggers, errors with
 * their causes) passes through `redact`, which hides values by the name of their field and credentials by their form in
 * any text. Stack traces belong into the log and never into a response.
 */
import { pino } from "pino";
import type { Logger as PinoLogger } from "pino";
import type { LogLevel } from "./config/types.ts";

export type Logger = PinoLogger;

/** Where log lines go; each call of `write` gets one whole line with its line feed. */
export type LogDestination = { write(line: string): void };

/**
 * Creates the logger. Writes to stdout, synchronously, unless a destination is given. Lines hold `level` as a word,
 * `time` as ISO 8601 in UTC, the given fields and `msg`; not the host or process, which the collector of the log knows.
 */
export function createLogger(options: { level: LogLevel; destination?: LogDestination }): Logger {
  const logger = pino(
    {
      level: options.level,
      base: null,
      timestamp: timeField,
      formatters: {
        level: (label) => ({ level: label }),
        log: (fields) => redact(fields) as Record<string, unknown>,
      },
      // An error is a plain object by the time it gets here; pino's own serializer would drop its cause.
      serializers: { msg: (message: unknown) => redact(message), err: (error: unknown) => error },
    },
    options.destination ?? pino.destination({ fd: 1, sync: true }),
  );
  // pino has a formatter for the bindings of the first logger only, not for those of child loggers.
  const child = logger.child;
  logger.child = function (this: Logger, bindings: object, childOptions?: object) {
    return child.call(this, redact(bindings) as object, childOptions);
  } as Logger["child"];
  return logger;
}

/**
 * Bytes (as characters) after which waiting lines are written: a system call for each line costs more than making it.
 */
const FLUSH_CHARS = 16_384;
/**
 * Milliseconds that a line waits at most: an eye does not notice, and a process that is killed loses no more than this.
 */
const MAX_BUFFERED_MS = 50;

/**
 * A destination that hands lines on in larger pieces. What waits is written by `flushSync`, which pino calls by itself
 * after a fatal line and which the owner calls before the process ends.
 */
export function bufferedDestination(write: (text: string) => void): LogDestination & { flushSync(): void } {
  let waiting = "";
  let timer: NodeJS.Timeout | null = null;
  function flushSync(): void {
    if (timer !== null) clearTimeout(timer);
    timer = null;
    const text = waiting;
    waiting = "";
    if (text !== "") write(text);
  }
  return {
    write(line) {
      waiting += line;
      if (waiting.length >= FLUSH_CHARS) flushSync();
      else timer ??= setTimeout(flushSync, MAX_BUFFERED_MS).unref();
    },
    flushSync,
  };
}

let lastSecond = 0;
let secondText = "";
/** The time field of a line, ISO 8601 in UTC; only the milliseconds differ between lines of one second. */
function timeField(): string {
  const now = Date.now();
  const milliseconds = now % 1000;
  if (now - milliseconds !== lastSecond) {
    lastSecond = now - milliseconds;
    secondText = new Date(lastSecond).toISOString().slice(0, -4);
  }
  return `,"time":"${secondText}${String(milliseconds).padStart(3, "0")}Z"`;
}

/**
 * What is known of a request once it was answered. `route` is the pattern that matched, null where none did; `path` may
 * still carry its query; both are null, and the method too, of bytes that are no request. `duration_ms` is in
 * milliseconds, `bytes_in` and `bytes_out` are bytes of the bodies. `actor` and `org` are names, null where unknown;
 * `client` is the address that it came from. `aborted`: the connection ended before the answer did. `error_id` is the
 * id that a client was given with a 500.
 */
export type RequestEntry = {
  method: string | null;
  route: string | null;
  path: string | null;
  status: number;
  duration_ms: number;
  actor: string | null;
  org: string | null;
  /** Address of the client, see http/peer.ts. */
  client: string;
  request_id: string;
  bytes_in: number;
  bytes_out: number;
  aborted?: boolean;
  error_code?: string;
  error_id?: string;
};

/**
 * Writes the one line of a request: error for a status of 500 and above, warn for a slow request, else info. Slow means
 * longer than one second plus one second for each MB carried, so that a large upload over a slow link is no warning.
 * The query is left out, because keys end up there by mistake; so is the path of an inbound webhook, whose id is its
 * only credential (operations, Authentication and roles). What only asks whether all is well, every few seconds, and is
 * told so, is debug. Pass the logger that is not bound to a request: the entry brings its own request_id.
 */
export function logRequest(logger: Logger, entry: RequestEntry): void {
  const bare = entry.path?.replace(/[?#].*$/s, "") ?? null;
  const path = bare?.replace(/(\/api\/+[^/]+\/+webhooks\/).*$/is, `$1${HIDDEN}`) ?? null;
  const slow = entry.duration_ms > 1000 * (1 + (entry.bytes_in + entry.bytes_out) / 1_048_576);
  const fields = { ...entry, path, duration_ms: Math.round(entry.duration_ms * 10) / 10 };
  if (entry.status >= 500) logger.error(fields, "request failed");
  else if (slow) logger.warn(fields, "slow request");
  else if (entry.status < 400 && WATCHING.includes(entry.route ?? "")) logger.debug(fields, "request");
  else logger.info(fields, "request");
}

/** Routes of probes, and of the collector of metrics. */
const WATCHING = ["get_ready", "get_readyz", "get_healthz", "get_metrics"];

const HIDDEN = "[hidden]";

// Compared without case, hyphens and underscores: X-Api-Key, api_key and apiKey are one name.
const SECRET_NAME =
  /^(?:keys?|passphrase|rawheaders|sid|session|codeverifier|authorizationcode|.*(?:authorization|cookie|(?:api|private|secret|access|metrics|signing|encryption)key|secret|token|password|signature|credential|assertion|sessionid)s?)$/;

// An authorization value in running text, a cookie, what signs a call to S3, a JSON web token; then a credential in a
// query, then one in the user part of a URL.
const CREDENTIALS: readonly (readonly [RegExp, string])[] = [
  [/\b(bearer|basic)(?:\s|%20|\+)+[^\s"',;]+/gi, `$1 ${HIDDEN}`],
  [/\b(cookie:\s?)[^\r\n"']+/gi, `$1${HIDDEN}`],
  [/\b(aws4-hmac-sha256\s)[^\r\n"']+/gi, `$1${HIDDEN}`],
  [/\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*){1,3}/g, HIDDEN],
  [
    /([?&;](?:[a-z0-9]{1,20}[-_]){0,4}(?:api[-_]?key|key|token|secret|password|signature|credential|assertion|verifier|code)=)[^&#\s"']+/gi,
    `$1${HIDDEN}`,
  ],
  [/(\b[a-z][a-z0-9+.-]{1,20}:\/\/)[^\s/@"']{1,1000}@/gi, `$1${HIDDEN}@`],
];

// What every text has that any of them changes; nearly no text does, and one look costs less than three.
const SUSPICIOUS = /bearer|basic|=|:\/\/|eyJ/i;

// Bounds of one line: an object graph or a body that got into the log by mistake must not fill the disk.
const MAX_DEPTH = 6;
const MAX_ITEMS = 100;
const MAX_TEXT_CHARS = 16_384;

/**
 * A copy of a value that may be logged: credentials hidden, errors as `{type, message, code?, stack, cause?}`, binary
 * data as its length, long texts, large lists and deep objects cut, cycles included. Never throws.
 */
export function redact(value: unknown, level = 0): unknown {
  if (typeof value === "string") return redactText(value);
  if (typeof value === "bigint") return String(value);
  if (typeof value !== "object" || value === null) return value;
  if (level >= MAX_DEPTH) return "[deeper]";
  try {
    if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`;
    if (value instanceof Error) return redactError(value, level);
    if (value instanceof Date) return Number.isNaN(value.getTime()) ? null : value.toISOString();
    if (value instanceof Set) return redact([...value], level);
    if (value instanceof Map) return redact(Object.fromEntries(value), level);
    if (Array.isArray(value)) {
      const items = value.slice(0, MAX_ITEMS).map((item) => redact(item, level + 1));
      return value.length > MAX_ITEMS ? [...items, `[${value.length - MAX_ITEMS} more]`] : items;
    }
    const fields = Object.entries(value);
    const shown = fields.slice(0, MAX_ITEMS).map(([name, field]) => {
      const hide = isSecret(name) && field !== null && field !== undefined;
      return [name, hide ? HIDDEN : redact(field, level + 1)] as const;
    });
    if (fields.length > MAX_ITEMS) shown.push(["...", `[${fields.length - MAX_ITEMS} more]`]);
    return Object.fromEntries(shown);
  } catch {
    return "[unreadable]";
  }
}

function redactError(error: Error, level: number): Record<string, unknown> {
  const shown: Record<string, unknown> = { type: error.name, message: redactText(error.message) };
  if ("code" in error) shown["code"] = redact(error.code, level + 1);
  shown["stack"] = redactText(error.stack ?? "");
  if (error.cause !== undefined) shown["cause"] = redact(error.cause, level + 1);
  return shown;
}

/**
 * Names that were judged before: a server logs the same fields all the time. Bounded, because an object may bring any.
 */
const judged = new Map<string, boolean>();
const JUDGED_NAMES = 500;

function isSecret(name: string): boolean {
  let secret = judged.get(name);
  if (secret === undefined) {
    secret = name.length <= 100 && SECRET_NAME.test(name.toLowerCase().replace(/[-_]/g, ""));
    if (name.length <= 100 && judged.size < JUDGED_NAMES) judged.set(name, secret);
  }
  return secret;
}

function redactText(text: string): string {
  const left = text.length - MAX_TEXT_CHARS;
  const start = left > 0 ? text.slice(0, MAX_TEXT_CHARS) : text;
  const hidden = !SUSPICIOUS.test(start)
    ? start
    : CREDENTIALS.reduce((result, [pattern, replacement]) => result.replace(pattern, replacement), start);
  return left > 0 ? `${hidden}... (${left} characters more)` : hidden;
}
