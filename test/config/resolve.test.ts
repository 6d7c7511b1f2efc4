import { suite } from "uvu";
import * as assert from "uvu/assert";
import {
  findConfigFile,
  findDefaultDataDirectory,
  defaultBaseUrl,
  explainConfig,
  findMissingOptions,
  renderOptionsHelp,
  resolveConfig,
} from "../../src/config/resolve.ts";
import { INJECTED_VARIABLE, OPTIONS, OTHER_VARIABLES } from "../../src/config/options.ts";
import type { Config, Option, OptionName } from "../../src/config/options.ts";

type Input = Partial<Parameters<typeof resolveConfig>[0]>;

const resolve = (input: Input) => resolveConfig({ flags: {}, env: {}, fileText: null, fileName: null, ...input });

const configOf = (input: Input): Config => {
  const { config, problems } = resolve(input);
  assert.is(problems, null);
  return config as Config;
};

const DEFAULTS: Config = {
  data: null,
  listen: { host: "127.0.0.1", port: 8001 },
  baseUrl: "http://127.0.0.1:8001",
  configFile: null,
  bootstrap: null,
  evidenceLimit: 104_857_600,
  smallEvidence: 65_536,
  jsonLimit: 33_554_432,
  formLimit: 10_485_760,
  headerTimeout: 30,
  requestTimeout: 900,
  stallTimeout: 60,
  regoTime: 20,
  regoMemory: 268_435_456,
  evaluationRetention: 7_776_000,
  webhookAllow: null,
  smtpUrl: null,
  smtpFrom: null,
  smtpTls: "required",
  caFile: null,
  tlsCert: null,
  tlsKey: null,
  basePath: null,
  trustedProxies: null,
  metricsListen: null,
  metricsKey: null,
  keyRate: null,
  addressRate: null,
  loginLimit: 10,
  sessionIdle: 28_800,
  sessionLifetime: 604_800,
  oidcIssuer: null,
  oidcClientId: null,
  oidcClientSecret: null,
  oidcClientAuth: "auto",
  oidcScopes: "openid profile email",
  oidcGroupsClaim: "groups",
  oidcRoles: null,
  backupEvery: null,
  backupDirectory: null,
  backupKeep: 7,
  diskReserve: 268_435_456,
  evidenceStore: null,
  s3Endpoint: null,
  s3Region: "us-east-1",
  s3AccessKey: null,
  s3SecretKey: null,
  checkpoints: "own",
  networkFilesystem: "refuse",
  logLevel: "info",
};

const sources = suite("config/resolve: sources");

sources("uses the defaults without any source", () => {
  assert.equal(configOf({}), DEFAULTS);
});

sources("prefers a flag to a variable to the file to the default", () => {
  const flags = { listen: "a:1" };
  const env = { ASSAY_LISTEN: "b:2", ASSAY_LOG_LEVEL: "warn" };
  const fileText = "# comment\nlisten: c:3\nlog_level: debug\ndata: /srv\n";
  const resolution = resolve({ flags, env, fileText, fileName: "assay.yaml" });
  assert.equal(resolution, {
    config: { ...DEFAULTS, listen: { host: "a", port: 1 }, baseUrl: "http://a:1", logLevel: "warn", data: "/srv" },
    sources: {
      ...Object.fromEntries(Object.keys(DEFAULTS).map((name) => [name, "default"])),
      listen: "flag --listen",
      logLevel: "variable ASSAY_LOG_LEVEL",
      data: "file assay.yaml line 4",
    },
    problems: null,
  });
  assert.equal(configOf({ env, fileText }).listen, { host: "b", port: 2 });
  assert.equal(configOf({ fileText }).listen, { host: "c", port: 3 });
});

/** A text for every option, different from its default. */
const TEXTS: Record<OptionName, string> = {
  data: "d",
  listen: "h:9",
  baseUrl: "https://assay.example.com/x/",
  configFile: "c.yaml",
  bootstrap: "b.yaml",
  evidenceLimit: "5GB",
  smallEvidence: "16KB",
  jsonLimit: "1MB",
  formLimit: "64MB",
  headerTimeout: "10s",
  requestTimeout: "1h30m",
  stallTimeout: "2m",
  regoTime: "5s",
  regoMemory: "1GB",
  evaluationRetention: "30d",
  webhookAllow: "10.0.0.0/8, FD00:1::/32,127.0.0.1",
  smtpUrl: "smtp://u:p%40w@mail:25",
  smtpFrom: "Assay <a@b.example>",
  smtpTls: "off",
  caFile: "ca.pem",
  logLevel: "trace",
  tlsCert: "t.pem",
  tlsKey: "k.pem",
  basePath: "/assay/x/",
  trustedProxies: "10.0.0.0/8, unix",
  metricsListen: "127.0.0.1:9100",
  metricsKey: "0123456789abcdef",
  keyRate: "600",
  addressRate: "1200",
  loginLimit: "3",
  sessionIdle: "10m",
  sessionLifetime: "12h",
  oidcIssuer: "https://id.example.com/realm",
  oidcClientId: "assay",
  oidcClientSecret: "hush",
  oidcClientAuth: "post",
  oidcScopes: "openid",
  oidcGroupsClaim: "roles",
  oidcRoles: "CN=ops OU=x=acme:admin, devs=acme:reader",
  backupEvery: "24h",
  backupDirectory: "/backups",
  backupKeep: "3",
  diskReserve: "1GB",
  evidenceStore: "s3://assay-evidence/prod/",
  s3Endpoint: "http://127.0.0.1:9000/",
  s3Region: "eu-west-1",
  s3AccessKey: "id",
  s3SecretKey: "secret",
  checkpoints: "external",
  networkFilesystem: "allow",
};

sources("sets every option from every source", () => {
  const expected: Config = {
    data: "d",
    listen: { host: "h", port: 9 },
    baseUrl: "https://assay.example.com/x/assay/x",
    configFile: "c.yaml",
    bootstrap: "b.yaml",
    evidenceLimit: 5_368_709_120,
    smallEvidence: 16_384,
    jsonLimit: 1_048_576,
    formLimit: 67_108_864,
    headerTimeout: 10,
    requestTimeout: 5400,
    stallTimeout: 120,
    regoTime: 5,
    regoMemory: 1_073_741_824,
    evaluationRetention: 2_592_000,
    webhookAllow: ["10.0.0.0/8", "fd00:1::/32", "127.0.0.1/32"],
    smtpUrl: "smtp://u:p%40w@mail:25",
    smtpFrom: "Assay <a@b.example>",
    smtpTls: "off",
    caFile: "ca.pem",
    logLevel: "trace",
    tlsCert: "t.pem",
    tlsKey: "k.pem",
    basePath: "/assay/x",
    trustedProxies: ["10.0.0.0/8", "unix"],
    metricsListen: { host: "127.0.0.1", port: 9100 },
    metricsKey: "0123456789abcdef",
    keyRate: 600,
    addressRate: 1200,
    loginLimit: 3,
    sessionIdle: 600,
    sessionLifetime: 43_200,
    oidcIssuer: "https://id.example.com/realm",
    oidcClientId: "assay",
    oidcClientSecret: "hush",
    oidcClientAuth: "post",
    oidcScopes: "openid",
    oidcGroupsClaim: "roles",
    oidcRoles: [
      { group: "CN=ops OU=x", organization: "acme", role: "admin" },
      { group: "devs", organization: "acme", role: "reader" },
    ],
    backupEvery: 86_400,
    backupDirectory: "/backups",
    backupKeep: 3,
    diskReserve: 1_073_741_824,
    evidenceStore: "s3://assay-evidence/prod",
    s3Endpoint: "http://127.0.0.1:9000",
    s3Region: "eu-west-1",
    s3AccessKey: "id",
    s3SecretKey: "secret",
    checkpoints: "external",
    networkFilesystem: "allow",
  };
  const rows = Object.values(OPTIONS);
  assert.equal(configOf({ flags: Object.fromEntries(rows.map((row) => [row.flag, TEXTS[row.name]])) }), expected);
  assert.equal(configOf({ env: Object.fromEntries(rows.map((row) => [row.variable, TEXTS[row.name]])) }), expected);
  const fileText = rows
    .filter((row) => row.key !== null)
    .map((row) => `${row.key}: ${TEXTS[row.name]}\n`)
    .join("");
  assert.equal(configOf({ fileText, flags: { config: "c.yaml" } }), expected);
});

sources("spells flag, variable and key of an option alike", () => {
  for (const [name, row] of Object.entries(OPTIONS)) {
    assert.is(row.name, name);
    assert.is(row.variable, `ASSAY_${row.flag.replaceAll("-", "_").toUpperCase()}`);
    if (row.key !== null) assert.is(row.key, row.flag.replaceAll("-", "_"));
  }
});

sources("ignores empty variables, foreign variables and those of other parts", () => {
  const env = { ASSAY_LISTEN: "", ASSAY_DATA: undefined, PATH: "/bin", ASSAYER: "x", ASSAY_NATIVE_DIR: "/tmp" };
  assert.equal(configOf({ env }), DEFAULTS);
});

sources("sets nothing from an empty file or one of comments", () => {
  for (const fileText of ["", "# nothing\n", "---\n", "{}\n", "\ufeff"]) assert.equal(configOf({ fileText }), DEFAULTS);
});

sources("uses a number or boolean in the file as it is written", () => {
  assert.is(configOf({ fileText: "data: 0123" }).data, "0123");
  assert.is(configOf({ fileText: "data: true" }).data, "true");
  assert.is(configOf({ fileText: "data: 1e3" }).data, "1e3");
});

sources("a command may replace defaults and demand values", () => {
  assert.is(configOf({ defaults: { data: ".assay-dev" }, required: ["data"] }).data, ".assay-dev");
  assert.equal(resolve({ required: ["data"] }).problems, [
    "data is not set: give the path of a directory with --data DIRECTORY or ASSAY_DATA or the key data of " +
      "the configuration file",
  ]);
  assert.equal(resolve({ required: ["data"], flags: { data: "" } }).problems, [
    'data (flag --data): "" is not accepted, give the path of a directory',
  ]);
});

sources("finds the configuration file by flag, else by variable", () => {
  const env = { ASSAY_CONFIG: "e.yaml" };
  assert.is(findConfigFile({ flags: { config: "f.yaml" }, env }), "f.yaml");
  assert.is(findConfigFile({ flags: {}, env }), "e.yaml");
  assert.is(findConfigFile({ flags: {}, env: { ASSAY_CONFIG: "" } }), null);
});

sources.run();

const mistakes = suite("config/resolve: mistakes");

mistakes("reports all mistakes of all sources at once, even of overridden ones", () => {
  const { problems } = resolve({
    flags: { listen: "nowhere", "log-level": "loud" },
    env: { ASSAY_LISTEN: "h:99999", ASSAY_EVIDENCE_LIMIT: "100" },
    fileText: "listen: h:1\nstall_timeout: soon\nform_limit: 9MB\n",
    fileName: "assay.yaml",
  });
  const listen =
    "HOST:PORT or [IPv6]:PORT with a port from 0 to 65535, where 0 means any free port, or unix:/PATH with a " +
    "path of at most 107 bytes";
  assert.equal(problems, [
    `listen (flag --listen): "nowhere" is not accepted, give ${listen}`,
    'log-level (flag --log-level): "loud" is not accepted, give trace, debug, info, warn, error or fatal',
    `listen (variable ASSAY_LISTEN): "h:99999" is not accepted, give ${listen}`,
    'evidence-limit (variable ASSAY_EVIDENCE_LIMIT): "100" is not accepted, give a size such as 100MB or ' +
      "5GB, from 1B to 1024TB",
    'stall-timeout (file assay.yaml line 2): "soon" is not accepted, give a duration such as 60s, from 1s to 1h',
    'form-limit (file assay.yaml line 3): "9MB" is not accepted, give a size such as 32MB, from 10MB to 256MB',
  ]);
});

mistakes("suggests similar names for unknown ones", () => {
  const { problems } = resolve({
    flags: { lisen: "x", zzzzzz: "x" },
    env: {
      ASSAY_LISEN: "",
      ASSAY_Oidc_issuer: "x",
      ASSAY_ZZZZZZ: "x",
      ASSAY_METRICS_SERVICE_HOST: "10.0.0.7",
      ASSAY_WEB_PORT_9100_TCP_ADDR: "10.0.0.8",
    },
    fileText: "a: 1\nlisen: x\nconfig: y",
    fileName: "f",
  });
  const links = "if Kubernetes injects it for a service, set enableServiceLinks: false in the pod";
  const all = "assay config explain lists all options";
  assert.equal(problems, [
    "unknown flag --lisen; did you mean --listen?",
    `unknown flag --zzzzzz; ${all}`,
    "unknown variable ASSAY_LISEN; did you mean ASSAY_LISTEN?",
    "unknown variable ASSAY_Oidc_issuer; did you mean ASSAY_OIDC_ISSUER?",
    `unknown variable ASSAY_ZZZZZZ; ${all}`,
    `unknown variable ASSAY_METRICS_SERVICE_HOST; ${all}; ${links}`,
    `unknown variable ASSAY_WEB_PORT_9100_TCP_ADDR; ${all}; ${links}`,
    `unknown key "a" (file f line 1); did you mean address_rate?`,
    'unknown key "lisen" (file f line 2); did you mean listen?',
    `unknown key "config" (file f line 3); ${all}`,
  ]);
});

const INJECTED = {
  ASSAY_SERVICE_HOST: "10.96.0.12",
  ASSAY_SERVICE_PORT: "8001",
  ASSAY_SERVICE_PORT_HTTP: "8001",
  ASSAY_SERVICE_PORT_HTTP_METRICS: "9100",
  ASSAY_PORT: "tcp://10.96.0.12:8001",
  ASSAY_PORT_8001_TCP: "tcp://10.96.0.12:8001",
  ASSAY_PORT_8001_TCP_PROTO: "tcp",
  ASSAY_PORT_8001_TCP_PORT: "8001",
  ASSAY_PORT_8001_TCP_ADDR: "10.96.0.12",
  ASSAY_NAME: "/web/assay",
  ASSAY_ENV_PATH: "/usr/bin",
};

mistakes("ignores variables that Kubernetes and docker --link inject for a service named assay", () => {
  assert.equal(configOf({ env: INJECTED }), DEFAULTS);
  const near = [
    "ASSAY_SERVICE",
    "ASSAY_SERVICE_HOSTS",
    "ASSAY_SERVICE_PORTS",
    "ASSAY_PORTS",
    "ASSAY_NAMES",
    "ASSAY_ENV",
    "ASSAY_ENV_",
  ];
  const { problems } = resolve({ env: Object.fromEntries(near.map((name) => [name, "x"])) });
  assert.equal(
    problems?.map((problem) => /^unknown variable (\w+);/.exec(problem)?.[1]),
    near,
    "nothing else is passed over",
  );
});

mistakes("has no option with the name of an injected variable", () => {
  const names = [...Object.values(OPTIONS).map((row) => row.variable), ...OTHER_VARIABLES];
  assert.equal(
    names.filter((name) => INJECTED_VARIABLE.test(name)),
    [],
  );
});

mistakes("refuses lists, mappings and null as values", () => {
  const { problems } = resolve({ fileText: "data:\nlisten: [a]\nlog_level: {a: 1}\nbootstrap: ~\n", fileName: "f" });
  assert.equal(
    problems?.map((problem) => problem.split(", give")[0]),
    [
      "data (file f line 1): one value is expected",
      "listen (file f line 2): one value is expected",
      "log-level (file f line 3): one value is expected",
      "bootstrap (file f line 4): one value is expected",
    ],
  );
});

mistakes("refuses files that are not a mapping or not YAML", () => {
  const table: [string, string[]][] = [
    ["- a", ["file f line 1: a mapping of options to values is expected"]],
    ["text", ["file f line 1: a mapping of options to values is expected"]],
    ["data: a\ndata: b", ['file f line 2 column 1: the key "data" is given more than once, first in line 1']],
    ["data: *x", ["file f line 1 column 7: aliases (*) are not supported, put quotes around a text"]],
    ["data: a\n---\ndata: b", ["file f line 2 column 1: a second document begins here, one file holds one document"]],
    [
      "data: [",
      ["file f line 1 column 8: Flow sequence in block collection must be sufficiently indented and end with a ]"],
    ],
  ];
  for (const [fileText, expected] of table)
    assert.equal(resolve({ fileText, fileName: "f" }).problems, expected, fileText);
  assert.equal(resolve({ fileText: "- a" }).problems, [
    "file configuration file line 1: a mapping of options to values is expected",
  ]);
});

mistakes("refuses a header timeout longer than the request timeout", () => {
  assert.equal(resolve({ flags: { "request-timeout": "10s" } }).problems, [
    "header-timeout (default) is 30 seconds and request-timeout (flag --request-timeout) 10 seconds: give a " +
      "header-timeout that is not longer",
  ]);
  assert.is(resolve({ flags: { "request-timeout": "30s" } }).problems, null);
  assert.is(resolve({ flags: { "request-timeout": "10s", "header-timeout": "x" } }).problems?.length, 1);
});

mistakes("truncates and escapes long and unprintable values", () => {
  const [problem] = resolve({ flags: { listen: `\u001b[31m${"x".repeat(500)}` } }).problems ?? [];
  assert.ok(problem?.startsWith('listen (flag --listen): "\\u001b[31mxxx'));
  assert.ok((problem?.length ?? 0) < 300);
});

mistakes.run();

const values = suite("config/resolve: values");

const check = (flag: string, name: OptionName, accepted: [string, unknown][], refused: string[]) => {
  for (const [text, value] of accepted)
    assert.equal(configOf({ flags: { [flag]: text } })[name], value, `${flag} ${text}`);
  for (const text of refused) {
    const { problems } = resolve({ flags: { [flag]: text } });
    assert.is(problems?.length, 1, `${flag} ${text}`);
    assert.ok(problems?.[0]?.startsWith(`${flag} (flag --${flag}): `), problems?.[0]);
  }
};

values("listen", () => {
  check(
    "listen",
    "listen",
    [
      ["0.0.0.0:80", { host: "0.0.0.0", port: 80 }],
      ["[::1]:8001", { host: "::1", port: 8001 }],
      ["[::ffff:1.2.3.4]:1", { host: "::ffff:1.2.3.4", port: 1 }],
      ["assay-1.example.com:65535", { host: "assay-1.example.com", port: 65_535 }],
      ["localhost:0", { host: "localhost", port: 0 }],
      ["unix:/run/assay/assay.sock", { path: "/run/assay/assay.sock" }],
      [`unix:/${"x".repeat(106)}`, { path: `/${"x".repeat(106)}` }],
    ],
    [
      "unix:",
      "unix:/",
      "unix:assay.sock",
      "unix:/run/assay/",
      "unix:/a\0b",
      `unix:/${"x".repeat(107)}`,
      `unix:/${"\u00e9".repeat(54)}`,
      "Unix:/a",
      "unix://",
      "",
      ":80",
      "host",
      "host:",
      "8001",
      "host:65536",
      "host:-1",
      "host:1.5",
      "host:0x10",
      "::1:80",
      "[::1]",
      "[1.2.3.4]:80",
      "[x]:80",
      "[fe80::1%eth0]:80",
      "300.1.1.1:80",
      "1.2.3:80",
      "-a:80",
      "a..b:80",
      "ho st:80",
      "http://h:80",
      "h:80/",
      "h:80\n",
    ],
  );
});

values("base-url", () => {
  check(
    "base-url",
    "baseUrl",
    [
      ["https://assay.example.com", "https://assay.example.com"],
      ["HTTP://Assay.Example.com:8080///", "http://assay.example.com:8080"],
      ["https://h/prefix/", "https://h/prefix"],
      ["http://[::1]:8001", "http://[::1]:8001"],
      ["http://h/api", "http://h/api"],
    ],
    [
      "",
      "assay.example.com",
      "//h",
      "ftp://h",
      "http://",
      "http:///x",
      "http://h?x=1",
      "http://h#x",
      "http://u:p@h",
      "http://h/api/v2",
      "http://h/x/API/v2//",
      "http://h:99999",
      "http://a b",
      " http://h",
      "http:\\\\h",
      "javascript:1",
    ],
  );
});

values("sizes", () => {
  check(
    "evidence-limit",
    "evidenceLimit",
    [
      ["1B", 1],
      ["1KB", 1024],
      ["100mb", 104_857_600],
      ["1.5 GB", 1_610_612_736],
      ["1TB", 1_099_511_627_776],
    ],
    ["", "100", "0MB", "-1MB", "1.1MB", "MB", "1M", "1e3MB", "1025TB", "999999999999999TB", "1  MB", "1MB ", "١MB"],
  );
  check(
    "small-evidence",
    "smallEvidence",
    [
      ["0", 0],
      ["1B", 1],
      ["64KB", 65_536],
    ],
    ["", "-1B", "65537B", "1MB", "00", "off"],
  );
  check(
    "json-limit",
    "jsonLimit",
    [
      ["1KB", 1024],
      ["256MB", 268_435_456],
    ],
    ["1023B", "257MB"],
  );
  check(
    "form-limit",
    "formLimit",
    [
      ["10MB", 10_485_760],
      ["256MB", 268_435_456],
    ],
    ["10485759B", "257MB"],
  );
});

values("durations", () => {
  check(
    "request-timeout",
    "requestTimeout",
    [
      ["30s", 30],
      ["15m", 900],
      ["24h", 86_400],
      ["1h1m1s", 3661],
      ["90m", 5400],
      ["1d", 86_400],
    ],
    ["", "15", "0s", "-1s", "1.5h", "1s1m", "1h1h", "1w", "d", "100ms", "25h", "1h 1m", "15M", "999999999999999h"],
  );
  check(
    "session-lifetime",
    "sessionLifetime",
    [
      ["90d", 7_776_000],
      ["2w", 1_209_600],
      ["1w1d", 691_200],
      ["365d", 31_536_000],
      ["720h", 2_592_000],
    ],
    ["366d", "1d1w", "1M"],
  );
  check(
    "header-timeout",
    "headerTimeout",
    [
      ["1s", 1],
      ["10m", 600],
    ],
    ["0s", "601s"],
  );
  check(
    "stall-timeout",
    "stallTimeout",
    [
      ["1s", 1],
      ["1h", 3600],
    ],
    ["0s", "61m"],
  );
});

values("levels and paths", () => {
  check(
    "log-level",
    "logLevel",
    ["trace", "debug", "info", "warn", "error", "fatal"].map((level) => [level, level]),
    ["", "INFO", "silent", "toString"],
  );
  for (const flag of ["data", "bootstrap", "config"])
    check(flag, flag === "config" ? "configFile" : (flag as OptionName), [["a b", "a b"]], ["", "a\0b"]);
});

values("ranges that webhooks may reach, the mail server, and who mails", () => {
  check(
    "webhook-allow",
    "webhookAllow",
    [
      ["10.0.0.0/8", ["10.0.0.0/8"]],
      ["127.0.0.1, fd00::/32", ["127.0.0.1/32", "fd00::/32"]],
    ],
    [
      "",
      ",",
      "10.0.0.0/8,",
      "10.0.0.1/8",
      "10.0.0.0/8 11.0.0.0/8",
      "localhost",
      "*",
      "0x0a000000/8",
      "::ffff:10.0.0.0/104",
    ],
  );
  const servers = [
    "smtp://mail",
    "smtp://mail.example.com:25/",
    "smtps://u:p@mail.example.com",
    "smtp://[::1]:2525",
    "smtp://a%40b:p%2Fw@127.0.0.1:587",
  ];
  check(
    "smtp-url",
    "smtpUrl",
    servers.map((text) => [text, text]),
    [
      "mail:25",
      "http://mail",
      "smtp://",
      "smtp://mail:0",
      "smtp://mail:70000",
      "smtp://u@mail",
      "smtp://u:p%zz@mail",
      "smtp://mail/path",
      "smtp://mail?x=1",
      "smtp://u:p@@mail",
    ],
  );
  const people = ["a@b.example", "Assay <a@b.example>", "Ops, Team <a.b+c@d.example>"];
  check(
    "smtp-from",
    "smtpFrom",
    people.map((text) => [text, text]),
    [
      "Assay",
      "a@b.example, c@d.example",
      "Assay <>",
      "Assay <a@b.example",
      "A\r\nBcc: x@y.example <a@b.example>",
      '"q" <a@b>',
    ],
  );
  check(
    "smtp-tls",
    "smtpTls",
    [
      ["required", "required"],
      ["optional", "optional"],
      ["off", "off"],
    ],
    ["", "on", "true"],
  );
});

values("refuses invalid paths, tokens, counts, stores and roles", () => {
  check(
    "base-path",
    "basePath",
    [
      ["/a", "/a"],
      ["/a/b-c/", "/a/b-c"],
    ],
    ["", "/", "a", "//a", "/a//b", "/a/../b", "/a?b", "/api", "/api/v2", "/ready", "/healthz/x", "/a b"],
  );
  check(
    "trusted-proxies",
    "trustedProxies",
    [
      ["10.0.0.0/8, unix", ["10.0.0.0/8", "unix"]],
      ["unix", ["unix"]],
      ["::1", ["::1/128"]],
    ],
    ["", "unix,", "Unix", "10.0.0.1/8", "localhost", "*"],
  );
  check(
    "metrics-key",
    "metricsKey",
    [["0123456789abcdef", "0123456789abcdef"]],
    ["short", "0123456789 abcdef", "0123456789abcde\u00e9"],
  );
  check(
    "login-limit",
    "loginLimit",
    [
      ["1", 1],
      ["1000", 1000],
    ],
    ["0", "1001", "1.5", "-1", "x", ""],
  );
  check(
    "oidc-issuer",
    "oidcIssuer",
    [
      ["https://id.example/r", "https://id.example/r"],
      ["http://127.0.0.1:9", "http://127.0.0.1:9"],
    ],
    ["http://id.example", "https://id.example?x", "https://u@id.example", "id"],
  );
  check(
    "evidence-store",
    "evidenceStore",
    [
      ["s3://abc", "s3://abc"],
      ["s3://abc/p/q/", "s3://abc/p/q"],
    ],
    ["s3://", "s3://A", "https://abc", "s3://abc//p", "s3://abc/p q"],
  );
  check(
    "s3-endpoint",
    "s3Endpoint",
    [["https://s3.example:9000/", "https://s3.example:9000"]],
    ["s3.example", "https://s3.example/x", "https://u@s3.example", "ftp://x"],
  );
  check(
    "oidc-roles",
    "oidcRoles",
    [["a=b:admin", [{ group: "a", organization: "b", role: "admin" }]]],
    ["", "a", "a=b", "a=b:owner", "a=b:admin,", "=b:admin"],
  );
  check(
    "oidc-client-auth",
    "oidcClientAuth",
    [
      ["auto", "auto"],
      ["basic", "basic"],
      ["post", "post"],
    ],
    ["", "client_secret_basic", "none"],
  );
  check("checkpoints", "checkpoints", [["external", "external"]], ["", "none"]);
  check("network-filesystem", "networkFilesystem", [["allow", "allow"]], ["", "yes"]);
});

values("the derived base URL", () => {
  assert.is(defaultBaseUrl({ host: "0.0.0.0", port: 80 }, { tls: false }), "http://localhost:80");
  assert.is(defaultBaseUrl({ host: "::", port: 80 }, { tls: false }), "http://localhost:80");
  assert.is(defaultBaseUrl({ host: "::1", port: 80 }, { tls: false }), "http://[::1]:80");
  assert.is(defaultBaseUrl({ host: "assay", port: 80 }, { tls: false }), "http://assay:80");
  assert.is(defaultBaseUrl({ host: "assay", port: 443 }, { tls: true }), "https://assay:443");
  assert.is(defaultBaseUrl({ path: "/run/assay.sock" }, { tls: false }), "http://localhost");
  assert.is(defaultBaseUrl({ path: "/run/assay.sock" }, { tls: true }), "https://localhost");
  const tls = { "tls-cert": "c.pem", "tls-key": "k.pem" };
  assert.is(configOf({ flags: { listen: "h:1", ...tls } }).baseUrl, "https://h:1");
  assert.is(configOf({ flags: { listen: "unix:/a", ...tls, "base-path": "/x" } }).baseUrl, "https://localhost/x");
});

values("appends the base path to the public URL once", () => {
  for (const [base, path, url] of [
    ["https://h", "/x", "https://h/x"],
    ["https://h/x", "/x", "https://h/x"],
    ["https://h/x/", "/x/", "https://h/x"],
    ["https://h/a/x", "/x", "https://h/a/x"],
    ["https://h/x/a", "/x", "https://h/x/a/x"],
    ["https://h/xx", "/x", "https://h/xx/x"],
    ["https://x", "/x", "https://x/x"],
    ["https://h:8/x", "/x/y", "https://h:8/x/x/y"],
  ] as const)
    assert.is(configOf({ flags: { "base-url": base, "base-path": path } }).baseUrl, url, `${base} ${path}`);
});

values.run();

const shown = suite("config/resolve: display");

shown("explained as options accept it, and with sources", () => {
  const resolution = resolve({ flags: { listen: "[::1]:1" }, env: { ASSAY_JSON_LIMIT: "1MB" } });
  if (resolution.problems !== null) throw new Error("unexpected");
  const explained = explainConfig(resolution.config, resolution.sources);
  assert.is(explained.length, Object.keys(DEFAULTS).length);
  assert.equal(
    explained.filter(({ option }) => ["data", "listen", "json-limit", "stall-timeout"].includes(option)),
    [
      { option: "data", value: null, source: "default" },
      { option: "listen", value: "[::1]:1", source: "flag --listen" },
      { option: "json-limit", value: "1MB", source: "variable ASSAY_JSON_LIMIT" },
      { option: "stall-timeout", value: "1m", source: "default" },
    ],
  );
});

shown("every value that is shown is accepted by its option, and means the same", () => {
  for (const texts of [{}, TEXTS, AWKWARD]) {
    const flags = Object.fromEntries(
      Object.entries(texts).map(([name, text]) => [OPTIONS[name as OptionName].flag, text]),
    );
    const first = resolve({ flags });
    if (first.problems !== null) throw new Error(first.problems.join());
    const values = explainConfig(first.config, first.sources);
    const again = values.flatMap(({ option, value }) =>
      value === null ? [] : [[option, value === "(secret)" ? (flags[option] ?? "") : value]],
    );
    const second = resolve({ flags: Object.fromEntries(again) as Record<string, string> });
    assert.equal(second.problems, null);
    assert.equal(second.config, first.config);
    assert.equal(explainConfig(second.config as Config, first.sources), values);
  }
});

/** Sizes and durations that are not a whole number of a large unit. */
const AWKWARD: Partial<Record<OptionName, string>> = {
  evidenceLimit: "1048577B",
  smallEvidence: "0",
  jsonLimit: "1.5MB",
  diskReserve: "1023TB",
  requestTimeout: "23h59m59s",
  sessionIdle: "61s",
  sessionLifetime: "1w1d1h",
  backupEvery: "25h",
  listen: "[::1]:0",
  baseUrl: "http://[::1]:8001",
  trustedProxies: "unix,::1",
};

shown("a secret that is set is masked, one that is not set is null", () => {
  const resolution = resolve({ flags: { data: "hunter2" } });
  if (resolution.problems !== null) throw new Error("unexpected");
  const table: Record<OptionName, Option> = {
    ...OPTIONS,
    data: { ...OPTIONS.data, secret: true },
    bootstrap: { ...OPTIONS.bootstrap, secret: true },
  };
  const explained = explainConfig(resolution.config, resolution.sources, table);
  assert.equal(
    explained.filter(({ option }) => ["data", "bootstrap"].includes(option)),
    [
      { option: "data", value: "(secret)", source: "flag --data" },
      { option: "bootstrap", value: null, source: "default" },
    ],
  );
  assert.not.match(JSON.stringify(explained), "hunter2");
});

shown("the help has one line per option with its default and variable", () => {
  const lines = renderOptionsHelp().trimEnd().split("\n");
  assert.is(lines.length, Object.keys(DEFAULTS).length);
  assert.is(
    lines[1],
    "  --listen HOST:PORT               Address to listen on, or unix:/PATH of a socket (default " +
      "127.0.0.1:8001; ASSAY_LISTEN)",
  );
  assert.is(
    lines[0],
    "  --data DIRECTORY                 Directory of the database and the evidence (default $STATE_DIRECTORY, " +
      "$XDG_STATE_HOME/assay or ~/.local/state/assay; ASSAY_DATA)",
  );
});

shown("ranges, roles and addresses are shown as they are written", () => {
  const flags = {
    listen: "unix:/run/a",
    "trusted-proxies": "10.0.0.0/8,::1,unix",
    "oidc-roles": "ops=acme:admin, devs=acme:reader",
    "metrics-listen": "[::1]:9",
  };
  const resolution = resolve({ flags });
  if (resolution.problems !== null) throw new Error("unexpected");
  const values = Object.fromEntries(
    explainConfig(resolution.config, resolution.sources).map(({ option, value }) => [option, value]),
  );
  assert.is(values["trusted-proxies"], "10.0.0.0/8,::1/128,unix");
  assert.is(values["listen"], "unix:/run/a");
  assert.is(values["oidc-roles"], "ops=acme:admin,devs=acme:reader");
  assert.is(values["metrics-listen"], "[::1]:9");
});

shown("reports all missing options at once", () => {
  assert.equal(findMissingOptions(configOf({})), []);
  const flags = {
    "tls-key": "k.pem",
    "oidc-issuer": "https://id.example",
    "oidc-client-id": "x",
    "s3-endpoint": "http://s3.example",
  };
  assert.equal(findMissingOptions(configOf({ flags })), [
    "tls-cert and tls-key belong together: give --tls-cert FILE or ASSAY_TLS_CERT too",
    "oidc-issuer, oidc-client-id and oidc-client-secret belong together: give --oidc-client-secret SECRET or " +
      "ASSAY_OIDC_CLIENT_SECRET too",
    "s3-endpoint has no effect without evidence-store: give --evidence-store URL or ASSAY_EVIDENCE_STORE too",
  ]);
});

shown.run();

const place = suite("config/default-data-directory");

place("the default data directory is that of systemd, else that of the XDG state, else below the home", () => {
  const all = { STATE_DIRECTORY: "/var/lib/assay", XDG_STATE_HOME: "/x", HOME: "/home/ada" };
  const cases: [Record<string, string | undefined>, string | null][] = [
    [all, "/var/lib/assay"],
    [{ ...all, STATE_DIRECTORY: "/var/lib/assay:/var/lib/more" }, "/var/lib/assay"],
    [{ ...all, STATE_DIRECTORY: "relative" }, "/x/assay"],
    [{ ...all, STATE_DIRECTORY: "" }, "/x/assay"],
    [{ XDG_STATE_HOME: "relative", HOME: "/home/ada" }, "/home/ada/.local/state/assay"],
    [{ XDG_STATE_HOME: "", HOME: "/" }, "/.local/state/assay"],
    [{ HOME: "home" }, null],
    [{ HOME: undefined }, null],
    [{}, null],
  ];
  for (const [env, directory] of cases) assert.is(findDefaultDataDirectory(env), directory, JSON.stringify(env));
});

place.run();
