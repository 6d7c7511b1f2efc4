/**
 * The table of options: everything that the operator may set, with its names, what it accepts, its default and what it
 * is. The help text, `assay config`, the page of the README, the parser of the command line and the masking of secrets
 * read it; nothing else lists options.
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
  /** Data directory; null where no source names one. */
  data: string | null;
  /** Where HTTP is served; port 0 stands for any free port. */
  listen: Listen | ListenPath;
  /**
   * Public URL of the server, `basePath` included, without a trailing slash and without /api/v2. Derived from `listen`
   * unless given.
   */
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
  /**
   * Ranges of addresses, in their normal form, that targets of webhooks may have although they are internal; null:
   * none.
   */
  webhookAllow: readonly string[] | null;
  /** The mail server (domain/outgoing/mail.ts), with its password; null: nothing is mailed. */
  smtpUrl: string | null;
  /** Who mail is from; serving demands it where `smtpUrl` is set. */
  smtpFrom: string | null;
  /** How an smtp:// connection is protected; smtps:// always is. */
  smtpTls: MailTls;
  /**
   * Name of a PEM file with authorities to trust in webhooks, mail and the storage of evidence beside the usual ones;
   * null without one.
   */
  caFile: string | null;
  /** Certificate chain and key in PEM for HTTPS; both or neither. */
  tlsCert: string | null;
  tlsKey: string | null;
  /** Path before everything that is served, such as `/assay`, without a slash at its end; null: none. */
  basePath: string | null;
  /**
   * Ranges of addresses, in their normal form, whose X-Forwarded-* headers count, and the word `unix`; null: nobody's.
   */
  trustedProxies: readonly string[] | null;
  /** Where metrics are served on a listener of their own; null: not there. */
  metricsListen: Listen | null;
  /** The bearer token with which metrics are read at /metrics of the server; null: not there. */
  metricsKey: string | null;
  /** Requests a minute that one key, and one address, may send; null: any number. */
  keyRate: number | null;
  addressRate: number | null;
  /** Failed logins in 15 minutes after which an address, and an account, has to wait. */
  loginLimit: number;
  /** A session that is not used for so long ends, in seconds. */
  sessionIdle: number;
  /** A session ends after so long whatever happens, in seconds; never shorter than `sessionIdle`. */
  sessionLifetime: number;
  /** OpenID Connect: the issuer's URL; null: no such login. */
  oidcIssuer: string | null;
  oidcClientId: string | null;
  oidcClientSecret: string | null;
  /** How the client secret reaches the provider: as HTTP Basic, in the form, or as the provider's description says. */
  oidcClientAuth: "basic" | "post" | "auto";
  oidcScopes: string;
  /** The claim with the groups of a person. */
  oidcGroupsClaim: string;
  /** Which group gives which role where; null: groups give none. */
  oidcRoles: readonly GroupRole[] | null;
  /** Seconds between two scheduled backups; null: none. */
  backupEvery: number | null;
  /** Where scheduled backups go; null: `backups` in the data directory. */
  backupDirectory: string | null;
  /** How many scheduled backups are kept. */
  backupKeep: number;
  /** With less free space, in bytes, the server takes no writes. */
  diskReserve: number;
  /** Where evidence is kept when not in the data directory: `s3://BUCKET/PREFIX`. */
  evidenceStore: string | null;
  s3Endpoint: string | null;
  s3Region: string;
  s3AccessKey: string | null;
  s3SecretKey: string | null;
  /** Who copies the write-ahead log into the database: this server, or a replication engine beside it. */
  checkpoints: "own" | "external";
  /** Whether a data directory on a network file system is accepted. */
  networkFilesystem: "refuse" | "allow";
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

/** ASSAY_* variables that other parts of the program read and that are no options. */
export const OTHER_VARIABLES: readonly string[] = ["ASSAY_NATIVE_DIR"];

/**
 * Variables that Kubernetes injects into every pod for a service called `assay`, and `docker --link` for a container of
 * that name. They say nothing about this server; no option of ours may have such a name.
 */
export const INJECTED_VARIABLE = /^ASSAY_(?:SERVICE_HOST|SERVICE_PORT(?:_.+)?|PORT(?:_.+)?|NAME|ENV_.+)$/;

// One V8 string holds about 512 million characters, and a JSON body is one string; half of that leaves room for UTF-16.
const LARGEST_JSON = 256 * MB;

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
    description: "Directory that holds the database and the evidence",
  },
  listen: {
    name: "listen",
    flag: "listen",
    variable: "ASSAY_LISTEN",
    key: "listen",
    placeholder: "HOST:PORT",
    parse: parseListenAddress,
    accepts:
      "HOST:PORT or [IPv6]:PORT with a port from 0 to 65535, where 0 takes any free port, or unix:/PATH with at most 107 bytes of path",
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
    description:
      "Public URL, used in links; base-path is added unless it ends in it; derived from the listen address unless given",
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
    description: "Apply file that is run at every start",
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
  jsonLimit: {
    name: "jsonLimit",
    flag: "json-limit",
    variable: "ASSAY_JSON_LIMIT",
    key: "json_limit",
    placeholder: "SIZE",
    parse: (text) => parseSize(text, 1 * KB, LARGEST_JSON),
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
    // The lower bound is promised to clients (semantics 10). It is also what an upload that is far too large is
    // measured by: only a Content-Length above file limit plus form limit says at once that a part is over its limit.
    parse: (text) => parseSize(text, 10 * MB, LARGEST_JSON),
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
    description: "Time for the headers of a request to arrive",
  },
  requestTimeout: {
    name: "requestTimeout",
    flag: "request-timeout",
    variable: "ASSAY_REQUEST_TIMEOUT",
    key: "request_timeout",
    placeholder: "DURATION",
    // Gigabytes of evidence over a slow link take minutes; a client that dies is caught earlier by the stall timeout.
    parse: (text) => parseDuration(text, 1, 86_400),
    accepts: "a duration such as 15m or 1h30m, from 1s to 24h",
    default: "15m",
    secret: false,
    unit: "seconds",
    description: "Time for a whole request to arrive, uploads included",
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
    description: "A body that brings no byte for this long is cut",
  },
  webhookAllow: {
    name: "webhookAllow",
    flag: "webhook-allow",
    variable: "ASSAY_WEBHOOK_ALLOW",
    key: "webhook_allow",
    placeholder: "CIDR,...",
    parse: parseRanges,
    accepts: "ranges of addresses such as 10.20.0.0/16,fd00:1::/32, without bits behind the prefix",
    default: null,
    secret: false,
    unit: null,
    description: "Internal addresses that webhooks may be sent to",
  },
  smtpUrl: {
    name: "smtpUrl",
    flag: "smtp-url",
    variable: "ASSAY_SMTP_URL",
    key: "smtp_url",
    placeholder: "URL",
    parse: (text) => (parseMailServer(text) ? text : null),
    accepts:
      "smtp://USER:PASSWORD@HOST:PORT or smtps://..., user, password and port may be left out; encode special characters as in %40",
    default: null,
    secret: true,
    unit: null,
    description: "Mail server for notifications; without one none are mailed",
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
    description: "Who notifications are mailed from",
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
    description: "Whether a mail server at smtp:// must offer STARTTLS",
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
    description:
      "Certificates of authorities to trust in webhooks, mail and the storage of evidence, beside the usual ones",
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
    description: "Certificate chain for HTTPS; read again on SIGHUP",
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
    description: "Path before everything that is served, for a proxy that passes it on",
  },
  trustedProxies: {
    name: "trustedProxies",
    flag: "trusted-proxies",
    variable: "ASSAY_TRUSTED_PROXIES",
    key: "trusted_proxies",
    placeholder: "CIDR,...",
    parse: parseProxies,
    accepts:
      "ranges of addresses such as 10.20.0.0/16,fd00:1::/32, without bits behind the prefix, and unix for the Unix socket",
    default: null,
    secret: false,
    unit: null,
    description: "Proxies whose X-Forwarded-* headers count; unix for those at the Unix socket",
  },
  metricsListen: {
    name: "metricsListen",
    flag: "metrics-listen",
    variable: "ASSAY_METRICS_LISTEN",
    key: "metrics_listen",
    placeholder: "HOST:PORT",
    parse: parseListen,
    accepts: "HOST:PORT or [IPv6]:PORT with a port from 0 to 65535; 0 takes any free port",
    default: null,
    secret: false,
    unit: null,
    description: "Address of a listener for Prometheus metrics alone",
  },
  metricsKey: {
    name: "metricsKey",
    flag: "metrics-key",
    variable: "ASSAY_METRICS_KEY",
    key: "metrics_key",
    placeholder: "TOKEN",
    parse: parseToken,
    accepts: "at least 16 visible characters without blanks",
    default: null,
    secret: true,
    unit: null,
    description: "Bearer token with which /metrics is read on the server's own address",
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
    description: "Requests a minute that one key may send",
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
    description: "Requests a minute that one address may send",
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
    description: "Failed logins in 15 minutes after which an address or account has to wait",
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
    description: "A session that is not used for so long ends",
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
    description: "A session ends after so long",
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
    description: "Issuer of OpenID Connect logins",
  },
  oidcClientId: {
    name: "oidcClientId",
    flag: "oidc-client-id",
    variable: "ASSAY_OIDC_CLIENT_ID",
    key: "oidc_client_id",
    placeholder: "ID",
    parse: parseLine,
    accepts: "a text on one line",
    default: null,
    secret: false,
    unit: null,
    description: "What the issuer knows this server as",
  },
  oidcClientSecret: {
    name: "oidcClientSecret",
    flag: "oidc-client-secret",
    variable: "ASSAY_OIDC_CLIENT_SECRET",
    key: "oidc_client_secret",
    placeholder: "SECRET",
    parse: parseLine,
    accepts: "a text on one line",
    default: null,
    secret: true,
    unit: null,
    description: "What this server proves itself with to the issuer",
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
    description: "How the secret is sent: client_secret_basic, client_secret_post, or what the issuer offers",
  },
  oidcScopes: {
    name: "oidcScopes",
    flag: "oidc-scopes",
    variable: "ASSAY_OIDC_SCOPES",
    key: "oidc_scopes",
    placeholder: "SCOPES",
    parse: parseLine,
    accepts: "scopes with a blank between them",
    default: "openid profile email",
    secret: false,
    unit: null,
    description: "Scopes that are asked for",
  },
  oidcGroupsClaim: {
    name: "oidcGroupsClaim",
    flag: "oidc-groups-claim",
    variable: "ASSAY_OIDC_GROUPS_CLAIM",
    key: "oidc_groups_claim",
    placeholder: "NAME",
    parse: parseLine,
    accepts: "a text on one line",
    default: "groups",
    secret: false,
    unit: null,
    description: "Claim that lists the groups of a person",
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
    description: "Roles that groups give",
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
    description: "How often the server makes a backup by itself",
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
    description: "Where these backups go; backups/ of the data directory unless given",
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
    description: "How many of these backups are kept",
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
    description: "With less free space the server takes no writes",
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
    description: "S3-compatible storage for evidence in place of the data directory",
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
    description: "Address of that storage where it is not Amazon's",
  },
  s3Region: {
    name: "s3Region",
    flag: "s3-region",
    variable: "ASSAY_S3_REGION",
    key: "s3_region",
    placeholder: "NAME",
    parse: parseLine,
    accepts: "a text on one line",
    default: "us-east-1",
    secret: false,
    unit: null,
    description: "Its region",
  },
  s3AccessKey: {
    name: "s3AccessKey",
    flag: "s3-access-key",
    variable: "ASSAY_S3_ACCESS_KEY",
    key: "s3_access_key",
    placeholder: "KEY",
    parse: parseLine,
    accepts: "a text on one line",
    default: null,
    secret: true,
    unit: null,
    description: "Access key for it; without one AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN count",
  },
  s3SecretKey: {
    name: "s3SecretKey",
    flag: "s3-secret-key",
    variable: "ASSAY_S3_SECRET_KEY",
    key: "s3_secret_key",
    placeholder: "SECRET",
    parse: parseLine,
    accepts: "a text on one line",
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
    description: "Who empties the write-ahead log: this server, or a replication engine beside it",
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
    description: "Whether the data directory may lie on a network file system",
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
    description: "Least severe level that is logged",
  },
};

export const OPTION_ROWS: readonly Option[] = Object.values(OPTIONS);
