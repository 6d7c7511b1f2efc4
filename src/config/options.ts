/**
 * The table of options: everything that the operator can set, with its accepted values, default and description. Flag,
 * variable and YAML key follow from the name: `evidenceLimit` is --evidence-limit, ASSAY_EVIDENCE_LIMIT and
 * evidence_limit. The help text, `assay config`, the README, the command-line parser and the masking of secrets read
 * the table; options are listed nowhere else.
 *
 * Left out: nested keys and lists in the file, so that every source gives an option as one text, checked in one place.
 */
import { parseMailbox, parseMailServer } from "../domain/network/mail-address.ts";
import { KB, formatSize, parseSize } from "../domain/text/units.ts";
import { directory, duration, file, line, size, wholeNumber, word } from "./option-shapes.ts";
import type { Shape } from "./option-shapes.ts";
import {
  parseBasePath,
  parseBaseUrl,
  parseEndpoint,
  parseEvidenceStore,
  parseGroupRoles,
  parseIssuer,
  parseLine,
  parseListen,
  parseListenAddress,
  parseProxies,
  parseRanges,
  parseToken,
} from "./parse-values.ts";

/**
 * A row of the table as it is written. `default` is a text as an operator would write it; an option without one is null
 * if it is not set.
 */
type Row = Shape<unknown> & {
  readonly description: string;
  readonly default?: string;
  /** The default in words, where it depends on the environment (findDefaultDataDirectory). */
  readonly defaultText?: string;
  readonly secret?: true;
  /** The flag, where the name would be ambiguous in code. */
  readonly flag?: string;
  /** null if the file cannot set the option. */
  readonly key?: null;
};

const HOST_PORT = "HOST:PORT or [IPv6]:PORT with a port from 0 to 65535, where 0 means any free port";
const RANGES = "address ranges such as 10.20.0.0/16,fd00:1::/32, without bits set after the prefix";
// A JSON body becomes one V8 string, which holds about 512 million characters; half of that leaves room for UTF-16.
const MAX_JSON = "256MB";
/** The database accepts no larger content (schema.sql, small_evidence). */
const MAX_SMALL_EVIDENCE_BYTES = 64 * KB;
/** The most that an operator can allow one Rego evaluation, so the most that a completed one can have needed. */
export const MAX_REGO_MEMORY_BYTES = 2 * 1024 ** 3;

/** In the order of the help text. */
const ROWS = {
  data: {
    ...directory,
    defaultText: "$STATE_DIRECTORY, $XDG_STATE_HOME/assay or ~/.local/state/assay",
    description: "Directory of the database and the evidence",
  },
  listen: {
    placeholder: "HOST:PORT",
    parse: parseListenAddress,
    accepts: `${HOST_PORT}, or unix:/PATH with a path of at most 107 bytes`,
    default: "127.0.0.1:8001",
    description: "Address to listen on, or unix:/PATH of a socket",
  },
  baseUrl: {
    placeholder: "URL",
    parse: parseBaseUrl,
    accepts: "an http or https URL of the host, without /api/v2, user name, query or fragment",
    description: "Public URL for links; base-path is appended if missing; derived from the listen address by default",
  },
  configFile: { ...file("a YAML file"), flag: "config", key: null, description: "YAML file with these options" },
  bootstrap: { ...file("an apply file"), description: "Apply file to run at every start" },
  /** Inclusive. */
  evidenceLimit: {
    ...size("1B", "1024TB", "100MB or 5GB"),
    default: "100MB",
    description: "Largest evidence attachment",
  },
  smallEvidence: {
    placeholder: "SIZE",
    parse: (text) => (/^0B?$/.test(text) ? 0 : parseSize(text, 1, MAX_SMALL_EVIDENCE_BYTES)),
    accepts: "a size such as 16KB, at most 64KB, or 0",
    unit: "bytes",
    default: "64KB",
    description: "Evidence up to this size is stored in the database instead of a file; 0 stores all of it in files",
  },
  jsonLimit: { ...size("1KB", MAX_JSON, "32MB"), default: "32MB", description: "Largest plain JSON body" },
  // The lower bound is promised to clients (semantics 10). It also decides when an oversized upload is refused at once:
  // only a Content-Length above file limit plus form limit proves that a part exceeds its limit.
  formLimit: {
    ...size("10MB", MAX_JSON, "32MB"),
    default: "10MB",
    description: "Largest JSON part of a multipart body",
  },
  headerTimeout: {
    ...duration("1s", "10m", "30s"),
    default: "30s",
    description: "Time limit for receiving the headers of a request",
  },
  // Gigabytes of evidence over a slow link take minutes; the stall timeout detects a dead client earlier.
  requestTimeout: {
    ...duration("1s", "24h", "15m or 1h30m"),
    default: "15m",
    description: "Time limit for receiving a whole request, including uploads",
  },
  stallTimeout: {
    ...duration("1s", "1h", "60s"),
    default: "60s",
    description:
      "Time without progress after which a request body, or a response that the client does not read, is aborted",
  },
  /** Normalized. */
  webhookAllow: {
    placeholder: "CIDR,...",
    parse: parseRanges,
    accepts: RANGES,
    description: "Internal address ranges that webhooks may be sent to",
  },
  /** With the password. */
  smtpUrl: {
    placeholder: "URL",
    parse: (text) => (parseMailServer(text) ? text : null),
    accepts:
      "smtp://USER:PASSWORD@HOST:PORT or smtps://..., where user, password and port are optional; " +
      "percent-encode special characters as in %40",
    secret: true,
    description: "Mail server for notifications; without it, no mail is sent",
  },
  smtpFrom: {
    placeholder: "ADDRESS",
    parse: (text) => (parseMailbox(text) ? text : null),
    accepts: "ADDRESS or Name <ADDRESS>",
    description: "Sender address of notification mail",
  },
  smtpTls: {
    ...word("MODE", ["required", "optional", "off"]),
    default: "required",
    description: "Whether smtp:// connections must use STARTTLS",
  },
  caFile: {
    ...file("a PEM file"),
    description: "CA bundle to trust for webhooks, mail and evidence storage, in addition to the default CAs",
  },
  tlsCert: { ...file("a PEM file"), description: "Certificate chain for HTTPS; reloaded on SIGHUP" },
  tlsKey: { ...file("a PEM file"), description: "Private key of the certificate" },
  /** Such as `/assay`, without a trailing slash. */
  basePath: {
    placeholder: "PATH",
    parse: parseBasePath,
    accepts: "a path such as /assay, of letters, digits and ._~-, not below /api, /ready, /readyz or /healthz",
    description: "Path prefix of all URLs, for a proxy that does not strip it",
  },
  /** Normalized address ranges, and the word `unix`. */
  trustedProxies: {
    placeholder: "CIDR,...",
    parse: parseProxies,
    accepts: `${RANGES}, and unix for the Unix socket`,
    description: "Trusted proxies, whose X-Forwarded-* headers are used; unix for those at the Unix socket",
  },
  metricsListen: {
    placeholder: "HOST:PORT",
    parse: parseListen,
    accepts: HOST_PORT,
    description: "Address of a separate listener for Prometheus metrics",
  },
  /** /metrics is not served there without one. */
  metricsKey: {
    placeholder: "TOKEN",
    parse: parseToken,
    accepts: "at least 16 visible characters without spaces",
    secret: true,
    description: "Bearer token for reading /metrics on the server's own address",
  },
  keyRate: { ...wholeNumber(1, 1_000_000), description: "Rate limit of one API key, in requests per minute" },
  addressRate: {
    ...wholeNumber(1, 1_000_000),
    description: "Rate limit of one client address, in requests per minute",
  },
  loginLimit: {
    ...wholeNumber(1, 1000),
    default: "10",
    description: "Failed logins within 15 minutes after which an address or account must wait",
  },
  sessionIdle: {
    ...duration("1m", "30d", "8h"),
    default: "8h",
    description: "Idle time after which a session expires",
  },
  sessionLifetime: {
    ...duration("1m", "365d", "7d or 12h"),
    default: "168h",
    description: "Time after which a session expires even if it is in use",
  },
  oidcIssuer: {
    placeholder: "URL",
    parse: parseIssuer,
    accepts: "an https URL without query or fragment; http on a loopback address",
    description: "Issuer URL for OpenID Connect logins",
  },
  oidcClientId: { ...line("ID"), description: "Client ID of this server at the issuer" },
  oidcClientSecret: { ...line("SECRET"), secret: true, description: "Client secret of this server at the issuer" },
  oidcClientAuth: {
    ...word("METHOD", ["auto", "basic", "post"]),
    default: "auto",
    description: "Client authentication: client_secret_basic, client_secret_post, or whichever the issuer supports",
  },
  oidcScopes: {
    placeholder: "SCOPES",
    parse: parseLine,
    accepts: "scopes separated by spaces",
    default: "openid profile email",
    description: "Scopes to request",
  },
  oidcGroupsClaim: { ...line("NAME"), default: "groups", description: "Claim that lists the user's groups" },
  oidcRoles: {
    placeholder: "GROUP=ORG:ROLE,...",
    parse: parseGroupRoles,
    accepts:
      "entries such as platform=acme:admin,devs=acme:member with the roles admin, member, snapshotter and reader",
    description: "Roles granted to groups",
  },
  backupEvery: { ...duration("1m", "365d", "24h or 7d"), description: "Interval between scheduled backups" },
  backupDirectory: {
    ...directory,
    description: "Directory for scheduled backups; backups/ in the data directory by default",
  },
  backupKeep: { ...wholeNumber(1, 10_000), default: "7", description: "Number of scheduled backups to keep" },
  regoTime: { ...duration("1s", "20s"), default: "20s", description: "Time limit of one Rego evaluation" },
  regoMemory: {
    ...size("64MB", formatSize(MAX_REGO_MEMORY_BYTES)),
    default: "256MB",
    description: "Memory limit of one Rego evaluation",
  },
  evaluationRetention: {
    ...duration("1h", "3650d", "24h or 90d"),
    default: "90d",
    description: "How long Rego evaluations without a decision are kept",
  },
  diskReserve: {
    ...size("1MB", "1024TB", "256MB or 5GB"),
    default: "256MB",
    description: "Free disk space below which the server enters read-only mode",
  },
  evidenceStore: {
    placeholder: "URL",
    parse: parseEvidenceStore,
    accepts: "s3://BUCKET or s3://BUCKET/PREFIX",
    description: "S3-compatible storage for evidence instead of the data directory",
  },
  s3Endpoint: {
    placeholder: "URL",
    parse: parseEndpoint,
    accepts: "an http or https URL without path, user name, query or fragment",
    description: "Endpoint of the S3-compatible storage, if it is not Amazon S3",
  },
  s3Region: { ...line("NAME"), default: "us-east-1", description: "Region of the S3-compatible storage" },
  s3AccessKey: {
    ...line("KEY"),
    secret: true,
    description:
      "Access key for the storage; by default AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN",
  },
  s3SecretKey: { ...line("SECRET"), secret: true, description: "Secret of the access key" },
  checkpoints: {
    ...word("WHO", ["own", "external"]),
    default: "own",
    description: "Who runs checkpoints of the write-ahead log: this server, or a replication engine beside it",
  },
  networkFilesystem: {
    ...word("MODE", ["refuse", "allow"]),
    default: "refuse",
    description: "Whether the data directory may be on a network file system",
  },
  logLevel: {
    ...word("LEVEL", ["trace", "debug", "info", "warn", "error", "fatal"]),
    default: "info",
    description: "Least severe level to log",
  },
} satisfies Readonly<Record<string, Row>>;

export type OptionName = keyof typeof ROWS;

type Parsed<K extends OptionName> = NonNullable<ReturnType<(typeof ROWS)[K]["parse"]>>;

/**
 * The resolved configuration: the value of each option, null without one. Sizes are in bytes, durations in seconds.
 * Paths are as the operator wrote them: relative to the working directory.
 */
export type Config = {
  -readonly [K in keyof typeof ROWS]: Parsed<K> | ((typeof ROWS)[K] extends { default: string } ? never : null);
} & {
  /** Public URL of the server, including `basePath`, without a trailing slash and without /api/v2. */
  baseUrl: string;
};

/** A row of the table, complete: `variable` is its ASSAY_* variable, `key` its YAML key. */
export type Option<K extends OptionName = OptionName> = Omit<Shape<Parsed<K>>, "unit"> & {
  readonly name: K;
  readonly flag: string;
  readonly variable: string;
  readonly key: string | null;
  readonly default: string | null;
  readonly defaultText: string | null;
  readonly description: string;
  readonly secret: boolean;
  readonly unit: "bytes" | "seconds" | null;
};

const UNSET = { default: null, defaultText: null, secret: false, unit: null };

function completeRow([name, row]: [string, Row]): [string, unknown] {
  const { flag = name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`) } = row;
  const key = flag.replaceAll("-", "_");
  const variable = `ASSAY_${key.toUpperCase()}`;
  return [name, { name, flag, variable, key, ...UNSET, ...row }];
}

/** The table of options, in the order of the help text. */
export const OPTIONS = Object.fromEntries(Object.entries<Row>(ROWS).map(completeRow)) as {
  readonly [K in OptionName]: Option<K>;
};

export const OPTION_ROWS: readonly Option[] = Object.values(OPTIONS);

/** The default of an option for people; null without one. */
export const describeDefault = (row: Pick<Option, "default" | "defaultText">): string | null =>
  row.default ?? row.defaultText;

/** ASSAY_* variables that are not options; other parts of the program read them. */
export const OTHER_VARIABLES: readonly string[] = ["ASSAY_NATIVE_DIR"];

/**
 * Variables that Kubernetes injects into every pod for a service named `assay`, and `docker --link` for a container of
 * that name. They are not about this server, and no option may have such a name.
 */
export const INJECTED_VARIABLE = /^ASSAY_(?:SERVICE_HOST|SERVICE_PORT(?:_.+)?|PORT(?:_.+)?|NAME|ENV_.+)$/;
