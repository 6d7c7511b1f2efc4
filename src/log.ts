/**
 * The log: JSON lines through pino, written by this process itself (without transports, so that it survives bundling).
 *
 * No line ever contains a credential. Everything that is logged (fields, messages, bindings of child loggers, errors
 * with their causes) passes through `redact`, which hides values by field name, and credentials in any text by their
 * form. Stack traces go to the log and never to a response.
 */
import { pino } from "pino";
import type { Logger as PinoLogger } from "pino";
import type { LogLevel } from "./config/types.ts";
import { messageOf } from "./domain/text/system-errors.ts";

export type Logger = PinoLogger;

/** Where log lines go. Each call of `write` gets one line, line feed included. */
type LogDestination = { write(line: string): void };

/**
 * Creates a logger that writes to stdout, synchronously, unless a destination is given. A line has `level` as a word,
 * `time` as ISO 8601 in UTC, the given fields and `msg`. It has neither host nor process, which the log collector adds.
 */
export function createLogger(options: { level: LogLevel; destination?: LogDestination }): Logger {
  const logger = pino(
    {
      level: options.level,
      base: null,
      timestamp: formatTimeField,
      formatters: {
        level: (label) => ({ level: label }),
        log: (fields) => redact(fields) as Record<string, unknown>,
      },
      // An error is a plain object by now; pino's own serializer would drop its cause.
      serializers: { msg: (message: unknown) => redact(message), err: (error: unknown) => error },
    },
    options.destination ?? pino.destination({ fd: 1, sync: true }),
  );
  // pino formats the bindings of the root logger only, not those of child loggers.
  const child = logger.child;
  logger.child = function (this: Logger, bindings: object, childOptions?: object) {
    return child.call(this, redact(bindings) as object, childOptions);
  } as Logger["child"];
  return logger;
}

/** What `logFlat` writes: no objects, whose parts would have to be searched for credentials. */
type FlatFields = Readonly<Record<string, string | number | boolean | null | undefined>>;

/**
 * Writes the same line as the logger's own methods, for flat fields and in half the time. There is one such line for
 * every request.
 */
export function logFlat(
  logger: Logger,
  level: "debug" | "info" | "warn" | "error",
  { fields, message }: { fields: FlatFields; message: string },
): void {
  if (!logger.isLevelEnabled(level)) return;
  // The bindings of a child are kept as JSON text.
  const parts = logger as unknown as Readonly<Record<symbol, unknown>>;
  let line = `{"level":"${level}"${formatTimeField()}${parts[chindingsSym] as string}`;
  for (const name in fields) {
    const value = fields[name];
    if (value === undefined) continue;
    line += `,${quote(name)}:`;
    if (value !== null && isSecret(name)) line += quote(HIDDEN);
    else if (typeof value === "string") line += quote(redactText(value));
    else line += typeof value === "number" && !Number.isFinite(value) ? "null" : String(value);
  }
  (parts[streamSym] as LogDestination).write(`${line},"msg":${quote(redactText(message))}}\n`);
}

const { chindingsSym, streamSym } = pino.symbols as unknown as { chindingsSym: symbol; streamSym: symbol };

/** Characters that stand for themselves in JSON. */
const NEEDS_NO_ESCAPE = /^[ !#-[\]-~]*$/;
const quote = (text: string): string => (NEEDS_NO_ESCAPE.test(text) ? `"${text}"` : JSON.stringify(text));

/** Buffered characters that trigger a write: a system call for each line would cost more than formatting it. */
const FLUSH_CHARS = 16_384;
/** How long a line stays buffered: unnoticeable for a reader, and all that a killed process loses. */
const MAX_BUFFERED_MS = 50;

/**
 * A destination that writes lines in larger chunks. `flushSync` writes the buffer: pino calls it after a fatal line,
 * the owner before the process exits.
 */
export function bufferedDestination(write: (text: string) => void): LogDestination & { flushSync(): void } {
  let buffer = "";
  let timer: NodeJS.Timeout | null = null;
  function flushSync(): void {
    if (timer !== null) clearTimeout(timer);
    timer = null;
    const text = buffer;
    buffer = "";
    if (text !== "") write(text);
  }
  return {
    write(line) {
      buffer += line;
      if (buffer.length >= FLUSH_CHARS) flushSync();
      else timer ??= setTimeout(flushSync, MAX_BUFFERED_MS).unref();
    },
    flushSync,
  };
}

let lastSecond = 0;
let secondText = "";
/** Formats the time field, ISO 8601 in UTC. The text up to the second is cached: only milliseconds differ within it. */
function formatTimeField(): string {
  const now = Date.now();
  const milliseconds = now % 1000;
  if (now - milliseconds !== lastSecond) {
    lastSecond = now - milliseconds;
    secondText = new Date(lastSecond).toISOString().slice(0, -4);
  }
  return `,"time":"${secondText}${String(milliseconds).padStart(3, "0")}Z"`;
}

const HIDDEN = "[hidden]";

// Compared in lower case without hyphens and underscores: X-Api-Key, api_key and apiKey are one name.
const SECRET_WHOLE_NAMES = "keys?|passphrase|rawheaders|sid|session|codeverifier|authorizationcode";
const SECRET_NAME_ENDINGS =
  "authorization|cookie|(?:api|private|secret|access|metrics|signing|encryption)key|secret|token|password|signature|" +
  "credential|assertion|sessionid";
const SECRET_NAME = new RegExp(`^(?:${SECRET_WHOLE_NAMES}|.*(?:${SECRET_NAME_ENDINGS})s?)$`);

const SECRET_PARAMETERS = "api[-_]?key|key|token|secret|password|signature|credential|assertion|verifier|code";

// In this order: an authorization value in running text, a cookie, the signature of a call to S3, a JSON web token, a
// credential in a query, one in the user part of a URL.
const CREDENTIALS: readonly (readonly [RegExp, string])[] = [
  [/\b(bearer|basic)(?:\s|%20|\+)+[^\s"',;]+/gi, `$1 ${HIDDEN}`],
  [/\b(cookie:\s?)[^\r\n"']+/gi, `$1${HIDDEN}`],
  [/\b(aws4-hmac-sha256\s)[^\r\n"']+/gi, `$1${HIDDEN}`],
  [/\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*){1,3}/g, HIDDEN],
  [new RegExp(`([?&;](?:[a-z0-9]{1,20}[-_]){0,4}(?:${SECRET_PARAMETERS})=)[^&#\\s"']+`, "gi"), `$1${HIDDEN}`],
  [/(\b[a-z][a-z0-9+.-]{1,20}:\/\/)[^\s/@"']{1,1000}@/gi, `$1${HIDDEN}@`],
];

// Matches every text that any of them changes. Nearly no text does, so this saves all the other searches.
const SUSPICIOUS = /bearer|basic|=|:\/\/|eyJ/i;

// Bounds of one line: an object graph or a body that is logged by mistake must not fill the disk.
const MAX_DEPTH = 6;
const MAX_ITEMS = 100;
const MAX_TEXT_CHARS = 16_384;

/**
 * A copy of a value that is safe to log: credentials hidden, errors as `{type, message, code?, stack, cause?}`, binary
 * data as its length; long texts, large lists and deep or cyclic objects are truncated. Never throws.
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
    const entries = fields.slice(0, MAX_ITEMS).map(([name, field]) => {
      const hide = isSecret(name) && field !== null && field !== undefined;
      return [name, hide ? HIDDEN : redact(field, level + 1)] as const;
    });
    if (fields.length > MAX_ITEMS) entries.push(["...", `[${fields.length - MAX_ITEMS} more]`]);
    return Object.fromEntries(entries);
  } catch {
    return "[unreadable]";
  }
}

function redactError(error: Error, level: number): Record<string, unknown> {
  const entry: Record<string, unknown> = { type: error.name, message: redactText(messageOf(error)) };
  if ("code" in error) entry["code"] = redact(error.code, level + 1);
  entry["stack"] = redactText(error.stack ?? "");
  if (error.cause !== undefined) entry["cause"] = redact(error.cause, level + 1);
  return entry;
}

/**
 * Whether a field name is secret, by name. A server logs the same few fields all the time, and looks each of them up
 * for every line, so this stops growing at its bound rather than evicting: a lookup must not write.
 */
const secretNames = new Map<string, boolean>();
const MAX_CACHED_NAMES = 500;
const MAX_NAME_CHARS = 100;

function isSecret(name: string): boolean {
  let secret = secretNames.get(name);
  if (secret === undefined) {
    secret = name.length <= MAX_NAME_CHARS && SECRET_NAME.test(name.toLowerCase().replace(/[-_]/g, ""));
    if (name.length <= MAX_NAME_CHARS && secretNames.size < MAX_CACHED_NAMES) secretNames.set(name, secret);
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
