/**
 * The table of options: everything that the operator can set, with its names, accepted values, default and description.
 * The help text, `assay config`, the README, the command-line parser and the masking of secrets read it; options are
 * listed nowhere else.
 */
import { parseMailbox, parseMailServer } from "../domain/network/mail-address.ts";
import type { MailTls } from "../domain/network/mail-address.ts";
import { KB, MB, TB, parseDuration, parseSize } from "../domain/text/units.ts";
import {
  parseBasePath,
  parseBaseUrl,
  parseCount,
  parseEndpoint,
  parseEvidenceStore,
  parseGroupRoles,
  parseIssuer,
  parseLine,
  parseListen,
  parseListenAddress,
  parseLogLevel,
  parsePath,
  parseProxies,
  parseRanges,
  parseToken,
} from "./parse-values.ts";
import type { GroupRole, Listen, ListenPath, LogLevel } from "./types.ts";

/** The resolved configuration. Relative paths are as the operator wrote them: relative to the working directory. */
export type Config = {
  /** Data directory; null without one. */
  data: string | null;
  /** Address that HTTP is served on; port 0 means any free port. */
  listen: Listen | ListenPath;
  /**
   * Public URL of the server, including `basePath`, without a trailing slash and without /api/v2. Derived from `listen`
   * by default.
   */
  baseUrl: string;
  /** Path of the configuration file; null without one. */
  configFile: string | null;
  /** Path of the apply file to run at start; null without one. */
  bootstrap: string | null;
  /** Largest evidence attachment, in bytes, inclusive. */
  evidenceLimit: number;
  smallEvidence: number;
  /** Largest plain JSON body, in bytes. */
  jsonLimit: number;
  /** Largest JSON part of a multipart body, in bytes. */
  formLimit: number;
  /** Time limit for receiving the headers of a request, in seconds. */
  headerTimeout: number;
  /** Time limit for receiving a whole request, in seconds; at least `headerTimeout`. */
  requestTimeout: number;
  /** Time without progress after which a request body, or a response that is not read, is aborted, in seconds. */
  stallTimeout: number;
  /** Normalized address ranges that webhook targets may be in although they are internal; null without any. */
  webhookAllow: readonly string[] | null;
  /** URL of the mail server with its password (parseMailServer); null if no mail is sent. */
  smtpUrl: string | null;
  /** Sender of mail; the server requires it if `smtpUrl` is set. */
  smtpFrom: string | null;
  /** TLS of an smtp:// connection; smtps:// always uses TLS. */
  smtpTls: MailTls;
  /**
   * Path of a CA bundle (PEM) to trust for webhooks, mail and evidence storage, in addition to the default CAs; null
   * without one.
   */
  caFile: string | null;
  /** Certificate chain and key in PEM for HTTPS; both or neither. */
  tlsCert: string | null;
  tlsKey: string | null;
  /** Path prefix of all URLs, such as `/assay`, without a trailing slash; null without one. */
  basePath: string | null;
  /** Normalized address ranges of trusted proxies, and the word `unix`; null without any. */
  trustedProxies: readonly string[] | null;
  /** Time limit of one Rego evaluation, in seconds, and its memory limit, in bytes. */
  regoTime: number;
  regoMemory: number;
  /** How long Rego evaluations without a decision are kept, in seconds. */
  evaluationRetention: number;
  /** Address of a separate listener for metrics; null without one. */
  metricsListen: Listen | null;
  /** Bearer token for reading /metrics on the server's own address; null if it is not served there. */
  metricsKey: string | null;
  /** Rate limits of one API key and of one client address, in requests per minute; null for no limit. */
  keyRate: number | null;
  addressRate: number | null;
  /** Failed logins within 15 minutes after which an address or account must wait. */
  loginLimit: number;
  /** Idle time after which a session expires, in seconds. */
  sessionIdle: number;
  /** Time after which a session expires even if it is in use, in seconds; at least `sessionIdle`. */
  sessionLifetime: number;
  /** Issuer URL of OpenID Connect; null without OpenID Connect. */
  oidcIssuer: string | null;
  oidcClientId: string | null;
  oidcClientSecret: string | null;
  /** How the client secret is sent: as HTTP Basic, in the form, or as the provider's metadata says. */
  oidcClientAuth: "basic" | "post" | "auto";
  oidcScopes: string;
  /** Claim that lists the user's groups. */
  oidcGroupsClaim: string;
  /** Roles granted to groups; null without any. */
  oidcRoles: readonly GroupRole[] | null;
  /** Interval between scheduled backups, in seconds; null without any. */
  backupEvery: number | null;
  /** Directory for scheduled backups; null for `backups` in the data directory. */
  backupDirectory: string | null;
  /** Number of scheduled backups to keep. */
  backupKeep: number;
  /** Free disk space, in bytes, below which the server enters read-only mode. */
  diskReserve: number;
  /** Location of evidence outside the data directory: `s3://BUCKET/PREFIX`; null for the data directory. */
  evidenceStore: string | null;
  s3Endpoint: string | null;
  s3Region: string;
  s3AccessKey: string | null;
  s3SecretKey: string | null;
  /** Who runs checkpoints of the write-ahead log: this server, or a replication engine beside it. */
  checkpoints: "own" | "external";
  /** Whether the data directory may be on a network file system. */
  networkFilesystem: "refuse" | "allow";
  /** Least severe level to log. */
  logLevel: LogLevel;
};

export type OptionName = keyof Config;

/**
 * A row of the table. `key` is the YAML key, null if the file cannot set the option. `parse` converts the text of any
 * source and returns null if it is invalid; `accepts` describes valid texts. `default` is a text as an operator would
 * write it, null without one. `unit` is the unit of the parsed number.
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
  /** The default in words, where it depends on the environment (findDefaultDataDirectory). */
  readonly defaultText?: string | null;
  readonly secret: boolean;
  readonly unit: "bytes" | "seconds" | null;
};

/** The default of an option for people; null without one. */
export const describeDefault = (row: Pick<Option, "default" | "defaultText">): string | null =>
  row.default ?? row.defaultText ?? null;

/** ASSAY_* variables that are not options; other parts of the program read them. */
export const OTHER_VARIABLES: readonly string[] = ["ASSAY_NATIVE_DIR"];

/**
 * Variables that Kubernetes injects into every pod for a service named `assay`, and `docker --link` for a container of
 * that name. They are not about this server, and no option may have such a name.
 */
export const INJECTED_VARIABLE = /^ASSAY_(?:SERVICE_HOST|SERVICE_PORT(?:_.+)?|PORT(?:_.+)?|NAME|ENV_.+)$/;

// A JSON body becomes one V8 string, which holds about 512 million characters; half of that leaves room for UTF-16.
const MAX_JSON_BYTES = 256 * MB;
/** The database accepts no larger content (schema.sql, small_evidence). */
const MAX_SMALL_EVIDENCE_BYTES = 64 * KB;

/** The table of options, in the order of the help text. */
export const OPTIONS: { readonly [K in OptionName]: Option<K> } = {
  data: {
    name: "data",
    flag: "data",
    variable: "ASSAY_DATA",
    key: "data",
    placeholder: "DIRECTORY",
    parse: parsePath,
    accepts: "the path of a directory",
    default: null,
    secret: false,
    unit: null,
    defaultText: "$STATE_DIRECTORY, $XDG_STATE_HOME/assay or ~/.local/state/assay",
    description: "Directory of the database and the evidence",
  },
  listen: {
    name: "listen",
    flag: "listen",
    variable: "ASSAY_LISTEN",
    key: "listen",
    placeholder: "HOST:PORT",
    parse: parseListenAddress,
    accepts:
      "HOST:PORT or [IPv6]:PORT with a port from 0 to 65535, where 0 means any free port, " +
      "or unix:/PATH with a path of at most 107 bytes",
    default: "127.0.0.1:8001",
    secret: false,
    unit: null,
    description: "Address to listen on, or unix:/PATH of a socket",
  },
  baseUrl: {
    name: "baseUrl",
    flag: "base-url",
    variable: "ASSAY_BASE_URL",
    key: "base_url",
    placeholder: "URL",
    parse: parseBaseUrl,
    accepts: "an http or https URL of the host, without /api/v2, user name, query or fragment",
    default: null,
    secret: false,
    unit: null,
    description: "Public URL for links; base-path is appended if missing; derived from the listen address by default",
  },
  configFile: {
    name: "configFile",
    flag: "config",
    variable: "ASSAY_CONFIG",
    key: null,
    placeholder: "FILE",
    parse: parsePath,
    accepts: "the path of a YAML file",
    default: null,
    secret: false,
    unit: null,
    description: "YAML file with these options",
  },
  bootstrap: {
    name: "bootstrap",
    flag: "bootstrap",
    variable: "ASSAY_BOOTSTRAP",
    key: "bootstrap",
    placeholder: "FILE",
    parse: parsePath,
    accepts: "the path of an apply file",
    default: null,
    secret: false,
    unit: null,
    description: "Apply file to run at every start",
  },
  evidenceLimit: {
    name: "evidenceLimit",
    flag: "evidence-limit",
    variable: "ASSAY_EVIDENCE_LIMIT",
    key: "evidence_limit",
    placeholder: "SIZE",
    parse: (text) => parseSize(text, 1, 1024 * TB),
    accepts: "a size such as 100MB or 5GB, from 1B to 1024TB",
    default: "100MB",
    secret: false,
    unit: "bytes",
    description: "Largest evidence attachment",
  },
  smallEvidence: {
    name: "smallEvidence",
    flag: "small-evidence",
    variable: "ASSAY_SMALL_EVIDENCE",
    key: "small_evidence",
    placeholder: "SIZE",
    parse: (text) => (/^0B?$/.test(text) ? 0 : parseSize(text, 1, MAX_SMALL_EVIDENCE_BYTES)),
    accepts: "a size such as 16KB, at most 64KB, or 0",
    default: "64KB",
    secret: false,
    unit: "bytes",
    description: "Evidence up to this size is stored in the database instead of a file; 0 stores all of it in files",
  },
  jsonLimit: {
    name: "jsonLimit",
    flag: "json-limit",
    variable: "ASSAY_JSON_LIMIT",
    key: "json_limit",
    placeholder: "SIZE",
    parse: (text) => parseSize(text, 1 * KB, MAX_JSON_BYTES),
    accepts: "a size such as 32MB, from 1KB to 256MB",
    default: "32MB",
    secret: false,
    unit: "bytes",
    description: "Largest plain JSON body",
  },
  formLimit: {
    name: "formLimit",
    flag: "form-limit",
    variable: "ASSAY_FORM_LIMIT",
    key: "form_limit",
    placeholder: "SIZE",
    // The lower bound is promised to clients (semantics 10). It also decides when an oversized upload is refused at
    // once: only a Content-Length above file limit plus form limit proves that a part exceeds its limit.
    parse: (text) => parseSize(text, 10 * MB, MAX_JSON_BYTES),
    accepts: "a size such as 32MB, from 10MB to 256MB",
    default: "10MB",
    secret: false,
    unit: "bytes",
    description: "Largest JSON part of a multipart body",
  },
  headerTimeout: {
    name: "headerTimeout",
    flag: "header-timeout",
    variable: "ASSAY_HEADER_TIMEOUT",
    key: "header_timeout",
    placeholder: "DURATION",
    parse: (text) => parseDuration(text, 1, 600),
    accepts: "a duration such as 30s, from 1s to 10m",
    default: "30s",
    secret: false,
    unit: "seconds",
    description: "Time limit for receiving the headers of a request",
  },
  requestTimeout: {
    name: "requestTimeout",
    flag: "request-timeout",
    variable: "ASSAY_REQUEST_TIMEOUT",
    key: "request_timeout",
    placeholder: "DURATION",
    // Gigabytes of evidence over a slow link take minutes; the stall timeout detects a dead client earlier.
    parse: (text) => parseDuration(text, 1, 86_400),
    accepts: "a duration such as 15m or 1h30m, from 1s to 24h",
    default: "15m",
    secret: false,
    unit: "seconds",
    description: "Time limit for receiving a whole request, including uploads",
  },
  stallTimeout: {
    name: "stallTimeout",
    flag: "stall-timeout",
    variable: "ASSAY_STALL_TIMEOUT",
    key: "stall_timeout",
    placeholder: "DURATION",
    parse: (text) => parseDuration(text, 1, 3600),
    accepts: "a duration such as 60s, from 1s to 1h",
    default: "60s",
    secret: false,
    unit: "seconds",
    description:
      "Time without progress after which a request body, or a response that the client does not read, is aborted",
  },
  webhookAllow: {
    name: "webhookAllow",
    flag: "webhook-allow",
    variable: "ASSAY_WEBHOOK_ALLOW",
    key: "webhook_allow",
    placeholder: "CIDR,...",
    parse: parseRanges,
    accepts: "address ranges such as 10.20.0.0/16,fd00:1::/32, without bits set after the prefix",
    default: null,
    secret: false,
    unit: null,
    description: "Internal address ranges that webhooks may be sent to",
  },
  smtpUrl: {
    name: "smtpUrl",
    flag: "smtp-url",
    variable: "ASSAY_SMTP_URL",
    key: "smtp_url",
    placeholder: "URL",
    parse: (text) => (parseMailServer(text) ? text : null),
    accepts:
      "smtp://USER:PASSWORD@HOST:PORT or smtps://..., where user, password and port are optional; " +
      "percent-encode special characters as in %40",
    default: null,
    secret: true,
    unit: null,
    description: "Mail server for notifications; without it, no mail is sent",
  },
  smtpFrom: {
    name: "smtpFrom",
    flag: "smtp-from",
    variable: "ASSAY_SMTP_FROM",
    key: "smtp_from",
    placeholder: "ADDRESS",
    parse: (text) => (parseMailbox(text) ? text : null),
    accepts: "ADDRESS or Name <ADDRESS>",
    default: null,
    secret: false,
    unit: null,
    description: "Sender address of notification mail",
  },
  smtpTls: {
    name: "smtpTls",
    flag: "smtp-tls",
    variable: "ASSAY_SMTP_TLS",
    key: "smtp_tls",
    placeholder: "MODE",
    parse: (text) => (text === "required" || text === "optional" || text === "off" ? text : null),
    accepts: "required, optional or off",
    default: "required",
    secret: false,
    unit: null,
    description: "Whether smtp:// connections must use STARTTLS",
  },
  caFile: {
    name: "caFile",
    flag: "ca-file",
    variable: "ASSAY_CA_FILE",
    key: "ca_file",
    placeholder: "FILE",
    parse: parsePath,
    accepts: "the path of a PEM file",
    default: null,
    secret: false,
    unit: null,
    description: "CA bundle to trust for webhooks, mail and evidence storage, in addition to the default CAs",
  },
  tlsCert: {
    name: "tlsCert",
    flag: "tls-cert",
    variable: "ASSAY_TLS_CERT",
    key: "tls_cert",
    placeholder: "FILE",
    parse: parsePath,
    accepts: "the path of a PEM file",
    default: null,
    secret: false,
    unit: null,
    description: "Certificate chain for HTTPS; reloaded on SIGHUP",
  },
  tlsKey: {
    name: "tlsKey",
    flag: "tls-key",
    variable: "ASSAY_TLS_KEY",
    key: "tls_key",
    placeholder: "FILE",
    parse: parsePath,
    accepts: "the path of a PEM file",
    default: null,
    secret: false,
    unit: null,
    description: "Private key of the certificate",
  },
  basePath: {
    name: "basePath",
    flag: "base-path",
    variable: "ASSAY_BASE_PATH",
    key: "base_path",
    placeholder: "PATH",
    parse: parseBasePath,
    accepts: "a path such as /assay, of letters, digits and ._~-, not below /api, /ready, /readyz or /healthz",
    default: null,
    secret: false,
    unit: null,
    description: "Path prefix of all URLs, for a proxy that does not strip it",
  },
  trustedProxies: {
    name: "trustedProxies",
    flag: "trusted-proxies",
    variable: "ASSAY_TRUSTED_PROXIES",
    key: "trusted_proxies",
    placeholder: "CIDR,...",
    parse: parseProxies,
    accepts:
      "address ranges such as 10.20.0.0/16,fd00:1::/32, without bits set after the prefix, " +
      "and unix for the Unix socket",
    default: null,
    secret: false,
    unit: null,
    description: "Trusted proxies, whose X-Forwarded-* headers are used; unix for those at the Unix socket",
  },
  metricsListen: {
    name: "metricsListen",
    flag: "metrics-listen",
    variable: "ASSAY_METRICS_LISTEN",
    key: "metrics_listen",
    placeholder: "HOST:PORT",
    parse: parseListen,
    accepts: "HOST:PORT or [IPv6]:PORT with a port from 0 to 65535, where 0 means any free port",
    default: null,
    secret: false,
    unit: null,
    description: "Address of a separate listener for Prometheus metrics",
  },
  metricsKey: {
    name: "metricsKey",
    flag: "metrics-key",
    variable: "ASSAY_METRICS_KEY",
    key: "metrics_key",
    placeholder: "TOKEN",
    parse: parseToken,
    accepts: "at least 16 visible characters without spaces",
    default: null,
    secret: true,
    unit: null,
    description: "Bearer token for reading /metrics on the server's own address",
  },
  keyRate: {
    name: "keyRate",
    flag: "key-rate",
    variable: "ASSAY_KEY_RATE",
    key: "key_rate",
    placeholder: "NUMBER",
    parse: (text) => parseCount(text, 1, 1_000_000),
    accepts: "a number from 1 to 1000000",
    default: null,
    secret: false,
    unit: null,
    description: "Rate limit of one API key, in requests per minute",
  },
  addressRate: {
    name: "addressRate",
    flag: "address-rate",
    variable: "ASSAY_ADDRESS_RATE",
    key: "address_rate",
    placeholder: "NUMBER",
    parse: (text) => parseCount(text, 1, 1_000_000),
    accepts: "a number from 1 to 1000000",
    default: null,
    secret: false,
    unit: null,
    description: "Rate limit of one client address, in requests per minute",
  },
  loginLimit: {
    name: "loginLimit",
    flag: "login-limit",
    variable: "ASSAY_LOGIN_LIMIT",
    key: "login_limit",
    placeholder: "NUMBER",
    parse: (text) => parseCount(text, 1, 1000),
    accepts: "a number from 1 to 1000",
    default: "10",
    secret: false,
    unit: null,
    description: "Failed logins within 15 minutes after which an address or account must wait",
  },
  sessionIdle: {
    name: "sessionIdle",
    flag: "session-idle",
    variable: "ASSAY_SESSION_IDLE",
    key: "session_idle",
    placeholder: "DURATION",
    parse: (text) => parseDuration(text, 60, 2_592_000),
    accepts: "a duration such as 8h, from 1m to 30d",
    default: "8h",
    secret: false,
    unit: "seconds",
    description: "Idle time after which a session expires",
  },
  sessionLifetime: {
    name: "sessionLifetime",
    flag: "session-lifetime",
    variable: "ASSAY_SESSION_LIFETIME",
    key: "session_lifetime",
    placeholder: "DURATION",
    parse: (text) => parseDuration(text, 60, 31_536_000),
    accepts: "a duration such as 7d or 12h, from 1m to 365d",
    default: "168h",
    secret: false,
    unit: "seconds",
    description: "Time after which a session expires even if it is in use",
  },
  oidcIssuer: {
    name: "oidcIssuer",
    flag: "oidc-issuer",
    variable: "ASSAY_OIDC_ISSUER",
    key: "oidc_issuer",
    placeholder: "URL",
    parse: parseIssuer,
    accepts: "an https URL without query or fragment; http on a loopback address",
    default: null,
    secret: false,
    unit: null,
    description: "Issuer URL for OpenID Connect logins",
  },
  oidcClientId: {
    name: "oidcClientId",
    flag: "oidc-client-id",
    variable: "ASSAY_OIDC_CLIENT_ID",
    key: "oidc_client_id",
    placeholder: "ID",
    parse: parseLine,
    accepts: "a single line of text",
    default: null,
    secret: false,
    unit: null,
    description: "Client ID of this server at the issuer",
  },
  oidcClientSecret: {
    name: "oidcClientSecret",
    flag: "oidc-client-secret",
    variable: "ASSAY_OIDC_CLIENT_SECRET",
    key: "oidc_client_secret",
    placeholder: "SECRET",
    parse: parseLine,
    accepts: "a single line of text",
    default: null,
    secret: true,
    unit: null,
    description: "Client secret of this server at the issuer",
  },
  oidcClientAuth: {
    name: "oidcClientAuth",
    flag: "oidc-client-auth",
    variable: "ASSAY_OIDC_CLIENT_AUTH",
    key: "oidc_client_auth",
    placeholder: "METHOD",
    parse: (text) => (text === "auto" || text === "basic" || text === "post" ? text : null),
    accepts: "auto, basic or post",
    default: "auto",
    secret: false,
    unit: null,
    description: "Client authentication: client_secret_basic, client_secret_post, or whichever the issuer supports",
  },
  oidcScopes: {
    name: "oidcScopes",
    flag: "oidc-scopes",
    variable: "ASSAY_OIDC_SCOPES",
    key: "oidc_scopes",
    placeholder: "SCOPES",
    parse: parseLine,
    accepts: "scopes separated by spaces",
    default: "openid profile email",
    secret: false,
    unit: null,
    description: "Scopes to request",
  },
  oidcGroupsClaim: {
    name: "oidcGroupsClaim",
    flag: "oidc-groups-claim",
    variable: "ASSAY_OIDC_GROUPS_CLAIM",
    key: "oidc_groups_claim",
    placeholder: "NAME",
    parse: parseLine,
    accepts: "a single line of text",
    default: "groups",
    secret: false,
    unit: null,
    description: "Claim that lists the user's groups",
  },
  oidcRoles: {
    name: "oidcRoles",
    flag: "oidc-roles",
    variable: "ASSAY_OIDC_ROLES",
    key: "oidc_roles",
    placeholder: "GROUP=ORG:ROLE,...",
    parse: parseGroupRoles,
    accepts:
      "entries such as platform=acme:admin,devs=acme:member with the roles admin, member, snapshotter and reader",
    default: null,
    secret: false,
    unit: null,
    description: "Roles granted to groups",
  },
  backupEvery: {
    name: "backupEvery",
    flag: "backup-every",
    variable: "ASSAY_BACKUP_EVERY",
    key: "backup_every",
    placeholder: "DURATION",
    parse: (text) => parseDuration(text, 60, 31_536_000),
    accepts: "a duration such as 24h or 7d, from 1m to 365d",
    default: null,
    secret: false,
    unit: "seconds",
    description: "Interval between scheduled backups",
  },
  backupDirectory: {
    name: "backupDirectory",
    flag: "backup-directory",
    variable: "ASSAY_BACKUP_DIRECTORY",
    key: "backup_directory",
    placeholder: "DIRECTORY",
    parse: parsePath,
    accepts: "the path of a directory",
    default: null,
    secret: false,
    unit: null,
    description: "Directory for scheduled backups; backups/ in the data directory by default",
  },
  backupKeep: {
    name: "backupKeep",
    flag: "backup-keep",
    variable: "ASSAY_BACKUP_KEEP",
    key: "backup_keep",
    placeholder: "NUMBER",
    parse: (text) => parseCount(text, 1, 10_000),
    accepts: "a number from 1 to 10000",
    default: "7",
    secret: false,
    unit: null,
    description: "Number of scheduled backups to keep",
  },
  regoTime: {
    name: "regoTime",
    flag: "rego-time",
    variable: "ASSAY_REGO_TIME",
    key: "rego_time",
    placeholder: "DURATION",
    parse: (text) => parseDuration(text, 1, 20),
    accepts: "a duration from 1s to 20s",
    default: "20s",
    secret: false,
    unit: "seconds",
    description: "Time limit of one Rego evaluation",
  },
  regoMemory: {
    name: "regoMemory",
    flag: "rego-memory",
    variable: "ASSAY_REGO_MEMORY",
    key: "rego_memory",
    placeholder: "SIZE",
    parse: (text) => parseSize(text, 64 * MB, 2048 * MB),
    accepts: "a size from 64MB to 2GB",
    default: "256MB",
    secret: false,
    unit: "bytes",
    description: "Memory limit of one Rego evaluation",
  },
  evaluationRetention: {
    name: "evaluationRetention",
    flag: "evaluation-retention",
    variable: "ASSAY_EVALUATION_RETENTION",
    key: "evaluation_retention",
    placeholder: "DURATION",
    parse: (text) => parseDuration(text, 3_600, 315_360_000),
    accepts: "a duration such as 24h or 90d, from 1h to 3650d",
    default: "90d",
    secret: false,
    unit: "seconds",
    description: "How long Rego evaluations without a decision are kept",
  },
  diskReserve: {
    name: "diskReserve",
    flag: "disk-reserve",
    variable: "ASSAY_DISK_RESERVE",
    key: "disk_reserve",
    placeholder: "SIZE",
    parse: (text) => parseSize(text, 1 * MB, 1024 * TB),
    accepts: "a size such as 256MB or 5GB, from 1MB to 1024TB",
    default: "256MB",
    secret: false,
    unit: "bytes",
    description: "Free disk space below which the server enters read-only mode",
  },
  evidenceStore: {
    name: "evidenceStore",
    flag: "evidence-store",
    variable: "ASSAY_EVIDENCE_STORE",
    key: "evidence_store",
    placeholder: "URL",
    parse: parseEvidenceStore,
    accepts: "s3://BUCKET or s3://BUCKET/PREFIX",
    default: null,
    secret: false,
    unit: null,
    description: "S3-compatible storage for evidence instead of the data directory",
  },
  s3Endpoint: {
    name: "s3Endpoint",
    flag: "s3-endpoint",
    variable: "ASSAY_S3_ENDPOINT",
    key: "s3_endpoint",
    placeholder: "URL",
    parse: parseEndpoint,
    accepts: "an http or https URL without path, user name, query or fragment",
    default: null,
    secret: false,
    unit: null,
    description: "Endpoint of the S3-compatible storage, if it is not Amazon S3",
  },
  s3Region: {
    name: "s3Region",
    flag: "s3-region",
    variable: "ASSAY_S3_REGION",
    key: "s3_region",
    placeholder: "NAME",
    parse: parseLine,
    accepts: "a single line of text",
    default: "us-east-1",
    secret: false,
    unit: null,
    description: "Region of the S3-compatible storage",
  },
  s3AccessKey: {
    name: "s3AccessKey",
    flag: "s3-access-key",
    variable: "ASSAY_S3_ACCESS_KEY",
    key: "s3_access_key",
    placeholder: "KEY",
    parse: parseLine,
    accepts: "a single line of text",
    default: null,
    secret: true,
    unit: null,
    description:
      "Access key for the storage; by default AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN",
  },
  s3SecretKey: {
    name: "s3SecretKey",
    flag: "s3-secret-key",
    variable: "ASSAY_S3_SECRET_KEY",
    key: "s3_secret_key",
    placeholder: "SECRET",
    parse: parseLine,
    accepts: "a single line of text",
    default: null,
    secret: true,
    unit: null,
    description: "Secret of the access key",
  },
  checkpoints: {
    name: "checkpoints",
    flag: "checkpoints",
    variable: "ASSAY_CHECKPOINTS",
    key: "checkpoints",
    placeholder: "WHO",
    parse: (text) => (text === "own" || text === "external" ? text : null),
    accepts: "own or external",
    default: "own",
    secret: false,
    unit: null,
    description: "Who runs checkpoints of the write-ahead log: this server, or a replication engine beside it",
  },
  networkFilesystem: {
    name: "networkFilesystem",
    flag: "network-filesystem",
    variable: "ASSAY_NETWORK_FILESYSTEM",
    key: "network_filesystem",
    placeholder: "MODE",
    parse: (text) => (text === "refuse" || text === "allow" ? text : null),
    accepts: "refuse or allow",
    default: "refuse",
    secret: false,
    unit: null,
    description: "Whether the data directory may be on a network file system",
  },
  logLevel: {
    name: "logLevel",
    flag: "log-level",
    variable: "ASSAY_LOG_LEVEL",
    key: "log_level",
    placeholder: "LEVEL",
    parse: parseLogLevel,
    accepts: "trace, debug, info, warn, error or fatal",
    default: "info",
    secret: false,
    unit: null,
    description: "Least severe level to log",
  },
};

export const OPTION_ROWS: readonly Option[] = Object.values(OPTIONS);
