/**
 * What the operator may set, and how a value is found: a flag beats an ASSAY_* variable, which beats the YAML file,
 * which beats the default.
 *
 * Everything here is pure: the caller hands over the flags, the environment and the text of the file. OPTIONS is the
 * only list of options; the help text, the parser of the command line and the masking of secrets read it too. Every
 * source is checked, also where a stronger one wins, so that a mistake is found on the day it is made and not on the day
 * the flag that covered it is dropped. All mistakes are reported together.
 */
import { isIPv4, isIPv6 } from "node:net";
import { isAlias, isMap, isScalar } from "yaml";
import { cut } from "./domain/excerpt.ts";
import { normalRange } from "./domain/outgoing/addresses.ts";
import { parseMailbox, parseMailServer } from "./domain/outgoing/mail.ts";
import type { MailTls } from "./domain/outgoing/mail.ts";
import { KB, MB, TB, parseDuration, parseSize } from "./domain/quantities.ts";
import { PLAIN, readYaml } from "./domain/yaml.ts";

export type LogLevel = "trace" | "debug" | "info" | "warn" | "error" | "fatal";

/** An address to listen on. `host` is an IPv4 address, an IPv6 address without brackets, or a host name. */
export type Listen = { host: string; port: number };

/** The resolved configuration. Relative paths are as the operator wrote them: relative to the working directory. */
export type Config = {
  /** Data directory; null where no source names one. */
  data: string | null;
  /** Address of the HTTP server; port 0 stands for any free port. */
  listen: Listen;
  /** Public URL of the host, without a trailing slash and without /api/v2. Derived from `listen` unless given. */
  baseUrl: string;
  /** Name of the configuration file; null without one. */
  configFile: string | null;
  /** Name of the apply file that is run at start; null without one. */
  bootstrap: string | null;
  /** Largest evidence attachment, in bytes; exactly this size still passes. */
  evidenceLimit: number;
  /** Largest plain JSON body, in bytes. */
  jsonLimit: number;
  /** Largest JSON part of a multipart body, in bytes. */
  formLimit: number;
  /** Time for the headers of a request to arrive, in seconds. */
  headerTimeout: number;
  /** Time for a whole request to arrive, in seconds; never shorter than `headerTimeout`. */
  requestTimeout: number;
  /** A body that brings no byte for this long is cut, in seconds. */
  stallTimeout: number;
  /** Ranges of addresses, in their normal form, that targets of webhooks may have although they are internal; null: none. */
  webhookAllow: readonly string[] | null;
  /** The mail server (domain/outgoing/mail.ts), with its password; null: nothing is mailed. */
  smtpUrl: string | null;
  /** Who mail is from; serving demands it where `smtpUrl` is set. */
  smtpFrom: string | null;
  /** How an smtp:// connection is protected; smtps:// always is. */
  smtpTls: MailTls;
  /** Name of a PEM file with authorities to trust in webhooks and mail beside the usual ones; null without one. */
  caFile: string | null;
  /** Least severe level that is logged. */
  logLevel: LogLevel;
};

export type OptionName = keyof Config;

/**
 * One row of the table. `key` is the YAML key, null where the file cannot set the option. `parse` gets the text of any
 * source and returns null when it refuses it; `accepts` is the sentence shown then. `default` is written as an operator
 * would write it, null when there is none. `unit` is the unit of the parsed number.
 */
export type Option<K extends OptionName = OptionName> = {
  readonly name: K;
  readonly flag: string;
  readonly variable: string;
  readonly key: string | null;
  readonly placeholder: string;
  readonly parse: (text: string) => NonNullable<Config[K]> | null;
  readonly accepts: string;
  readonly default: string | null;
  readonly description: string;
  readonly secret: boolean;
  readonly unit: "bytes" | "seconds" | null;
};

/** For each option where its value came from: "flag --x", "variable ASSAY_X", "file NAME line N" or "default". */
export type Sources = { readonly [K in OptionName]: string };

export type Resolution = { config: Config; sources: Sources; problems: null } | { config: null; problems: string[] };

/** ASSAY_* variables that other parts of the program read and that are no options. */
export const OTHER_VARIABLES: readonly string[] = ["ASSAY_NATIVE_DIR"];

// One V8 string holds about 512 million characters, and a JSON body is one string; half of that leaves room for UTF-16.
const LARGEST_JSON = 256 * MB;

/** The table of options, in the order of the help text. */
export const OPTIONS: { readonly [K in OptionName]: Option<K> } = {
  data: {
    name: "data", flag: "data", variable: "ASSAY_DATA", key: "data", placeholder: "DIRECTORY",
    parse: parsePath, accepts: "the path of a directory",
    default: null, secret: false, unit: null,
    description: "Directory that holds the database and the evidence",
  },
  listen: {
    name: "listen", flag: "listen", variable: "ASSAY_LISTEN", key: "listen", placeholder: "HOST:PORT",
    parse: parseListen, accepts: "HOST:PORT or [IPv6]:PORT with a port from 0 to 65535; 0 takes any free port",
    default: "127.0.0.1:8001", secret: false, unit: null,
    description: "Address to listen on",
  },
  baseUrl: {
    name: "baseUrl", flag: "base-url", variable: "ASSAY_BASE_URL", key: "base_url", placeholder: "URL",
    parse: parseBaseUrl,
    accepts: "an http or https URL of the host, without /api/v2, user name, query or fragment",
    default: null, secret: false, unit: null,
    description: "Public URL of this host, used in links; derived from the listen address unless given",
  },
  configFile: {
    name: "configFile", flag: "config", variable: "ASSAY_CONFIG", key: null, placeholder: "FILE",
    parse: parsePath, accepts: "the path of a YAML file",
    default: null, secret: false, unit: null,
    description: "YAML file with these options",
  },
  bootstrap: {
    name: "bootstrap", flag: "bootstrap", variable: "ASSAY_BOOTSTRAP", key: "bootstrap", placeholder: "FILE",
    parse: parsePath, accepts: "the path of an apply file",
    default: null, secret: false, unit: null,
    description: "Apply file that is run at every start",
  },
  evidenceLimit: {
    name: "evidenceLimit", flag: "evidence-limit", variable: "ASSAY_EVIDENCE_LIMIT", key: "evidence_limit",
    placeholder: "SIZE",
    parse: (text) => parseSize(text, 1, 1024 * TB), accepts: "a size such as 100MB or 5GB, from 1B to 1024TB",
    default: "100MB", secret: false, unit: "bytes",
    description: "Largest evidence attachment",
  },
  jsonLimit: {
    name: "jsonLimit", flag: "json-limit", variable: "ASSAY_JSON_LIMIT", key: "json_limit", placeholder: "SIZE",
    parse: (text) => parseSize(text, 1 * KB, LARGEST_JSON), accepts: "a size such as 32MB, from 1KB to 256MB",
    default: "32MB", secret: false, unit: "bytes",
    description: "Largest plain JSON body",
  },
  formLimit: {
    name: "formLimit", flag: "form-limit", variable: "ASSAY_FORM_LIMIT", key: "form_limit", placeholder: "SIZE",
    // The lower bound is promised to clients (semantics 10). It is also what an upload that is far too large is measured by:
    // only a Content-Length above file limit plus form limit says at once that a part is over its limit.
    parse: (text) => parseSize(text, 10 * MB, LARGEST_JSON), accepts: "a size such as 32MB, from 10MB to 256MB",
    default: "10MB", secret: false, unit: "bytes",
    description: "Largest JSON part of a multipart body",
  },
  headerTimeout: {
    name: "headerTimeout", flag: "header-timeout", variable: "ASSAY_HEADER_TIMEOUT", key: "header_timeout",
    placeholder: "DURATION",
    parse: (text) => parseDuration(text, 1, 600), accepts: "a duration such as 30s, from 1s to 10m",
    default: "30s", secret: false, unit: "seconds",
    description: "Time for the headers of a request to arrive",
  },
  requestTimeout: {
    name: "requestTimeout", flag: "request-timeout", variable: "ASSAY_REQUEST_TIMEOUT", key: "request_timeout",
    placeholder: "DURATION",
    // Gigabytes of evidence over a slow link take minutes; a client that dies is caught earlier by the stall timeout.
    parse: (text) => parseDuration(text, 1, 86_400), accepts: "a duration such as 15m or 1h30m, from 1s to 24h",
    default: "15m", secret: false, unit: "seconds",
    description: "Time for a whole request to arrive, uploads included",
  },
  stallTimeout: {
    name: "stallTimeout", flag: "stall-timeout", variable: "ASSAY_STALL_TIMEOUT", key: "stall_timeout",
    placeholder: "DURATION",
    parse: (text) => parseDuration(text, 1, 3600), accepts: "a duration such as 60s, from 1s to 1h",
    default: "60s", secret: false, unit: "seconds",
    description: "A body that brings no byte for this long is cut",
  },
  webhookAllow: {
    name: "webhookAllow", flag: "webhook-allow", variable: "ASSAY_WEBHOOK_ALLOW", key: "webhook_allow", placeholder: "CIDR,...",
    parse: parseRanges, accepts: "ranges of addresses such as 10.20.0.0/16,fd00:1::/32, without bits behind the prefix",
    default: null, secret: false, unit: null,
    description: "Internal addresses that webhooks may be sent to",
  },
  smtpUrl: {
    name: "smtpUrl", flag: "smtp-url", variable: "ASSAY_SMTP_URL", key: "smtp_url", placeholder: "URL",
    parse: (text) => (parseMailServer(text) ? text : null),
    accepts: "smtp://USER:PASSWORD@HOST:PORT or smtps://..., user, password and port may be left out; encode special characters as in %40",
    default: null, secret: true, unit: null,
    description: "Mail server for notifications; without one none are mailed",
  },
  smtpFrom: {
    name: "smtpFrom", flag: "smtp-from", variable: "ASSAY_SMTP_FROM", key: "smtp_from", placeholder: "ADDRESS",
    parse: (text) => (parseMailbox(text) ? text : null), accepts: "ADDRESS or Name <ADDRESS>",
    default: null, secret: false, unit: null,
    description: "Who notifications are mailed from",
  },
  smtpTls: {
    name: "smtpTls", flag: "smtp-tls", variable: "ASSAY_SMTP_TLS", key: "smtp_tls", placeholder: "MODE",
    parse: (text) => (text === "required" || text === "optional" || text === "off" ? text : null), accepts: "required, optional or off",
    default: "required", secret: false, unit: null,
    description: "Whether a mail server at smtp:// must offer STARTTLS",
  },
  caFile: {
    name: "caFile", flag: "ca-file", variable: "ASSAY_CA_FILE", key: "ca_file", placeholder: "FILE",
    parse: parsePath, accepts: "the path of a PEM file",
    default: null, secret: false, unit: null,
    description: "Certificates of authorities to trust in webhooks and mail, beside the usual ones",
  },
  logLevel: {
    name: "logLevel", flag: "log-level", variable: "ASSAY_LOG_LEVEL", key: "log_level", placeholder: "LEVEL",
    parse: parseLogLevel, accepts: "trace, debug, info, warn, error or fatal",
    default: "info", secret: false, unit: null,
    description: "Least severe level that is logged",
  },
};

const ROWS: readonly Option[] = Object.values(OPTIONS);

/**
 * Says which configuration file to read before `resolveConfig` can run: the flag --config, else ASSAY_CONFIG, else null.
 */
export function configFileName(input: {
  flags: Readonly<Record<string, string>>;
  env: Readonly<Record<string, string | undefined>>;
}): string | null {
  return input.flags[OPTIONS.configFile.flag] || input.env[OPTIONS.configFile.variable] || null;
}

/**
 * Resolves all options. `flags` maps flag names without dashes to their text, `env` is the environment, `fileText` the
 * text of the configuration file or null, `fileName` its name for messages. `required` lists options that must have a
 * value; `defaults` replaces defaults of the table, written as an operator would write them. An empty variable counts as
 * not set, because container definitions pass unset values on that way. Never throws.
 */
export function resolveConfig(input: {
  flags: Readonly<Record<string, string>>;
  env: Readonly<Record<string, string | undefined>>;
  fileText: string | null;
  fileName: string | null;
  required?: readonly OptionName[];
  defaults?: Readonly<Partial<Record<OptionName, string>>>;
}): Resolution {
  const problems: string[] = [];
  const found = new Map<OptionName, { value: unknown; source: string }>();
  const refused = new Set<OptionName>();

  // Called with the strongest source first: what is found already stays.
  const take = (row: Option, text: string, source: string): void => {
    const value = row.parse(text);
    if (value === null) {
      const given = row.secret ? "the given value" : quote(text);
      refused.add(row.name);
      problems.push(`${row.flag} (${source}): ${given} is not accepted, give ${row.accepts}`);
    } else if (!found.has(row.name)) found.set(row.name, { value, source });
  };

  for (const [flag, text] of Object.entries(input.flags)) {
    const row = ROWS.find((candidate) => candidate.flag === flag);
    if (row) take(row, text, `flag --${flag}`);
    else problems.push(`unknown flag --${cut(flag, 100)}: known are ${ROWS.map((known) => `--${known.flag}`).join(", ")}`);
  }
  for (const [variable, text] of Object.entries(input.env)) {
    if (!variable.startsWith("ASSAY_") || OTHER_VARIABLES.includes(variable)) continue;
    const row = ROWS.find((candidate) => candidate.variable === variable);
    if (!row) {
      const known = [...ROWS.map((option) => option.variable), ...OTHER_VARIABLES].join(", ");
      problems.push(`unknown variable ${cut(variable, 100)}: known are ${known}`);
    } else if (text !== undefined && text !== "") take(row, text, `variable ${variable}`);
  }
  if (input.fileText !== null) readFile(input.fileText, input.fileName ?? "configuration file", take, problems);
  for (const row of ROWS) {
    const text = input.defaults?.[row.name] ?? row.default;
    if (text !== null) take(row, text, "default");
  }

  for (const name of input.required ?? []) {
    const row = OPTIONS[name];
    if (found.has(name) || refused.has(name)) continue;
    const places = [`--${row.flag} ${row.placeholder}`, row.variable];
    if (row.key !== null) places.push(`the key ${row.key} of the configuration file`);
    problems.push(`${row.flag} is not set: give ${row.accepts} with ${places.join(" or ")}`);
  }

  const listen = found.get("listen");
  if (listen && !found.has("baseUrl")) {
    found.set("baseUrl", { value: defaultBaseUrl(listen.value as Listen), source: "default" });
  }
  const values = Object.fromEntries(ROWS.map((row) => [row.name, found.get(row.name)?.value ?? null])) as Config;
  const sources = Object.fromEntries(ROWS.map((row) => [row.name, found.get(row.name)?.source ?? "default"])) as Sources;

  // The HTTP server of Node refuses to start with such a pair.
  const comparable = !refused.has("headerTimeout") && !refused.has("requestTimeout");
  if (comparable && values.headerTimeout > values.requestTimeout) {
    problems.push(
      `header-timeout (${sources.headerTimeout}) is ${values.headerTimeout} seconds and request-timeout ` +
        `(${sources.requestTimeout}) ${values.requestTimeout} seconds: give a header-timeout that is not longer`,
    );
  }
  return problems.length > 0 ? { config: null, problems } : { config: values, sources, problems: null };
}

function readFile(
  text: string,
  fileName: string,
  take: (row: Option, text: string, source: string) => void,
  problems: string[],
): void {
  const yaml = readYaml(text, PLAIN);
  for (const { line, column, text: problem } of yaml.problems) {
    problems.push(`file ${fileName} line ${line} column ${column}: ${problem}`);
  }
  if (yaml.root === null) return;
  if (!isMap(yaml.root)) {
    problems.push(`file ${fileName} line ${yaml.place(yaml.root).line}: a mapping of options to values is expected`);
    return;
  }
  for (const { key, value } of yaml.root.items) {
    const place = `file ${fileName} line ${yaml.place(key).line}`;
    const name = isScalar(key) ? String(key.value) : "";
    const row = ROWS.find((candidate) => candidate.key === name);
    if (!row) {
      const known = ROWS.flatMap((option) => option.key ?? []).join(", ");
      problems.push(`unknown key ${quote(name)} (${place}): known are ${known}`);
    } else if (isScalar(value) && value.value !== null) {
      // A number or a boolean is taken as it is written: a directory may be called 0123 or true.
      take(row, typeof value.value === "string" ? value.value : (value.source ?? ""), place);
    } else if (!isAlias(value)) {
      problems.push(`${row.flag} (${place}): one value is expected, give ${row.accepts}`);
    }
  }
}

/**
 * The base URL of an installation that names none: http and the listen address, with localhost in place of an address
 * that stands for all interfaces. With port 0 call it again once the port is known.
 */
export function defaultBaseUrl(listen: Listen): string {
  const everywhere = listen.host === "0.0.0.0" || listen.host === "::";
  const host = everywhere ? "localhost" : isIPv6(listen.host) ? `[${listen.host}]` : listen.host;
  return `http://${host}:${listen.port}`;
}

/**
 * The configuration as text, one entry per option in the order of the table, for a command that shows it: `value` is
 * null where there is none, carries its unit, and is "(secret)" for a secret that is set.
 */
export function explainConfig(
  config: Config,
  sources: Sources,
  options: Readonly<Record<OptionName, Option>> = OPTIONS,
): { option: string; value: string | null; source: string }[] {
  return Object.values(options).map((row) => {
    const value = config[row.name];
    const text = typeof value === "object" && value !== null && "host" in value ? listenText(value) : value === null ? null : String(value);
    const shown = text !== null && row.unit !== null ? `${text} ${row.unit}` : text;
    return { option: row.flag, value: shown !== null && row.secret ? "(secret)" : shown, source: sources[row.name] };
  });
}

function listenText(listen: Listen): string {
  return `${isIPv6(listen.host) ? `[${listen.host}]` : listen.host}:${listen.port}`;
}

/** The options as lines for --help, each ending in a line feed: the flag, then what it is, its default and its variable. */
export function optionsHelp(): string {
  const heads = ROWS.map((row) => `  --${row.flag} ${row.placeholder}`);
  const width = Math.max(...heads.map((head) => head.length)) + 2;
  return ROWS.map((row, index) => {
    const preset = row.default === null ? "" : `default ${row.default}; `;
    return `${(heads[index] ?? "").padEnd(width)}${row.description} (${preset}${row.variable})\n`;
  }).join("");
}

function parsePath(text: string): string | null {
  return text === "" || text.includes("\0") ? null : text;
}

function parseListen(text: string): Listen | null {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^[\]:]+)):(\d{1,5})$/.exec(text);
  if (!match) return null;
  const [, v6, name, digits] = match;
  const port = Number(digits);
  const hostIsGood = v6 !== undefined ? isIPv6(v6) : name !== undefined && isHost(name);
  return hostIsGood && port <= 65_535 ? { host: v6 ?? name ?? "", port } : null;
}

// A name whose last label is a number is a mistyped address, never a host name.
function isHost(name: string): boolean {
  if (isIPv4(name)) return true;
  if (name.length > 253 || /(?:^|\.)\d+$/.test(name)) return false;
  return name.split(".").every((label) => /^[a-zA-Z0-9_](?:[a-zA-Z0-9_-]{0,61}[a-zA-Z0-9_])?$/.test(label));
}

function parseBaseUrl(text: string): string | null {
  // The URL parser forgives blanks, backslashes and missing slashes; a setting should be what it looks like.
  if (!/^https?:\/\/[^\s\\/?#@][^\s\\?#@]*$/i.test(text) || !URL.canParse(text)) return null;
  const url = new URL(text);
  const path = url.pathname.replace(/^(.*[^/])?\/*$/, "$1");
  return /\/api\/v2$/i.test(path) ? null : `${url.origin}${path}`;
}

function parseRanges(text: string): readonly string[] | null {
  const ranges = text.split(",").map((range) => normalRange(range.trim()));
  return ranges.every((range) => range !== null) ? ranges : null;
}

function parseLogLevel(text: string): LogLevel | null {
  switch (text) {
    case "trace": case "debug": case "info": case "warn": case "error": case "fatal":
      return text;
    default:
      return null;
  }
}

function quote(text: string): string {
  return JSON.stringify(cut(text, 100));
}
