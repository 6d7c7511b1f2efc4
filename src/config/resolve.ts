/**
 * How the value of an option (options.ts) is found: a flag beats an ASSAY_* variable, which beats the YAML file, which
 * beats the default.
 *
 * Everything here is pure: the caller hands over the flags, the environment and the text of the file. Every source is
 * checked, also where a stronger one wins, so that a mistake is found on the day it is made and not on the day the flag
 * that covered it is dropped. All mistakes are reported together.
 */
import { isIPv6 } from "node:net";
import { isAlias, isMap, isScalar } from "yaml";
import { truncate } from "../domain/text/excerpt.ts";
import { findNearestNames } from "../domain/text/near-names.ts";
import { formatDuration, formatSize } from "../domain/text/units.ts";
import { OPERATOR_FILE, readYaml } from "../domain/text/yaml.ts";
import { INJECTED_VARIABLE, OPTIONS, OTHER_VARIABLES, OPTION_ROWS } from "./options.ts";
import type { Config, Option, OptionName } from "./options.ts";
import type { Listen, ListenPath } from "./types.ts";

/** For each option where its value came from: "flag --x", "variable ASSAY_X", "file NAME line N" or "default". */
export type ConfigSources = { readonly [K in OptionName]: string };

export type ResolvedConfig =
  | { config: Config; sources: ConfigSources; problems: null }
  | { config: null; problems: string[] };

/**
 * Says which configuration file to read before `resolveConfig` can run: the flag --config, else ASSAY_CONFIG, else
 * null.
 */
export function findConfigFile(input: {
  flags: Readonly<Record<string, string>>;
  env: Readonly<Record<string, string | undefined>>;
}): string | null {
  return input.flags[OPTIONS.configFile.flag] || input.env[OPTIONS.configFile.variable] || null;
}

/**
 * Resolves all options. `flags` maps flag names without dashes to their text, `env` is the environment, `fileText` the
 * text of the configuration file or null, `fileName` its name for messages. `required` lists options that must have a
 * value; `defaults` replaces defaults of the table, written as an operator would write them. An empty variable counts
 * as not set, because container definitions pass unset values on that way. Never throws.
 */
export function resolveConfig(input: {
  flags: Readonly<Record<string, string>>;
  env: Readonly<Record<string, string | undefined>>;
  fileText: string | null;
  fileName: string | null;
  required?: readonly OptionName[];
  defaults?: Readonly<Partial<Record<OptionName, string>>>;
}): ResolvedConfig {
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
    const row = OPTION_ROWS.find((candidate) => candidate.flag === flag);
    if (row) take(row, text, `flag --${flag}`);
    else {
      const near = findNearestNames(
        flag,
        OPTION_ROWS.map((option) => option.flag),
      ).map((name) => `--${name}`);
      problems.push(unknownName(`flag --${truncate(flag, 100)}`, near));
    }
  }
  for (const [variable, text] of Object.entries(input.env)) {
    if (!variable.startsWith(PREFIX) || OTHER_VARIABLES.includes(variable) || INJECTED_VARIABLE.test(variable))
      continue;
    const row = OPTION_ROWS.find((candidate) => candidate.variable === variable);
    if (!row) problems.push(unknownVariable(variable));
    else if (text !== undefined && text !== "") take(row, text, `variable ${variable}`);
  }
  if (input.fileText !== null) readFile(input.fileText, input.fileName ?? "configuration file", take, problems);
  for (const row of OPTION_ROWS) {
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
    found.set("baseUrl", {
      value: defaultBaseUrl(listen.value as Listen | ListenPath, { tls: found.has("tlsCert") }),
      source: "default",
    });
  }
  const [base, path] = [found.get("baseUrl"), found.get("basePath")];
  if (base && path) found.set("baseUrl", { ...base, value: withBasePath(base.value as string, path.value as string) });
  const values = Object.fromEntries(OPTION_ROWS.map((row) => [row.name, found.get(row.name)?.value ?? null])) as Config;
  const sources = Object.fromEntries(
    OPTION_ROWS.map((row) => [row.name, found.get(row.name)?.source ?? "default"]),
  ) as ConfigSources;

  // The HTTP server of Node refuses to start with such a pair.
  const comparable = !refused.has("headerTimeout") && !refused.has("requestTimeout");
  if (comparable && values.headerTimeout > values.requestTimeout) {
    problems.push(
      `header-timeout (${sources.headerTimeout}) is ${values.headerTimeout} seconds and request-timeout ` +
        `(${sources.requestTimeout}) ${values.requestTimeout} seconds: give a header-timeout that is not longer`,
    );
  }
  if (!refused.has("sessionIdle") && !refused.has("sessionLifetime") && values.sessionIdle > values.sessionLifetime) {
    problems.push(
      `session-idle (${sources.sessionIdle}) is ${values.sessionIdle} seconds and session-lifetime ` +
        `(${sources.sessionLifetime}) ${values.sessionLifetime} seconds: give a session-idle that is not longer`,
    );
  }
  return problems.length > 0 ? { config: null, problems } : { config: values, sources, problems: null };
}

/** Options that only work together: where one of a group is set, all of them are demanded. */
const TOGETHER: readonly (readonly OptionName[])[] = [
  ["smtpUrl", "smtpFrom"],
  ["tlsCert", "tlsKey"],
  ["oidcIssuer", "oidcClientId", "oidcClientSecret"],
  ["s3AccessKey", "s3SecretKey"],
];

/** Options that say nothing without another one. */
const NEEDED: readonly (readonly [OptionName, OptionName])[] = [
  ["oidcRoles", "oidcIssuer"],
  ["s3Endpoint", "evidenceStore"],
  ["s3AccessKey", "evidenceStore"],
];

/**
 * What is missing in a configuration, for who uses all of it: a command that reads two options is not held up by the
 * others.
 */
export function findMissingOptions(config: Config): string[] {
  const named = (name: OptionName): string =>
    `--${OPTIONS[name].flag} ${OPTIONS[name].placeholder} or ${OPTIONS[name].variable}`;
  const groups = TOGETHER.filter((group) => group.some((name) => config[name] !== null)).flatMap((group) =>
    group
      .filter((name) => config[name] === null)
      .map((name) => {
        const others = group.map((one) => OPTIONS[one].flag);
        return `${others.slice(0, -1).join(", ")} and ${others.at(-1)} belong together: give ${named(name)} too`;
      }),
  );
  const lonely = NEEDED.filter(([name, needed]) => config[name] !== null && config[needed] === null);
  return [
    ...groups,
    ...lonely.map(
      ([name, needed]) =>
        `${OPTIONS[name].flag} says nothing without ${OPTIONS[needed].flag}: give ${named(needed)} too`,
    ),
  ];
}

function readFile(
  text: string,
  fileName: string,
  take: (row: Option, text: string, source: string) => void,
  problems: string[],
): void {
  const yaml = readYaml(text, OPERATOR_FILE);
  for (const { line, column, text: problem } of yaml.problems) {
    problems.push(`file ${fileName} line ${line} column ${column}: ${problem}`);
  }
  if (yaml.root === null) return;
  if (!isMap(yaml.root)) {
    problems.push(
      `file ${fileName} line ${yaml.positionOf(yaml.root).line}: a mapping of options to values is expected`,
    );
    return;
  }
  for (const { key, value } of yaml.root.items) {
    const place = `file ${fileName} line ${yaml.positionOf(key).line}`;
    const name = isScalar(key) ? String(key.value) : "";
    const row = OPTION_ROWS.find((candidate) => candidate.key === name);
    if (!row) {
      const near = findNearestNames(
        name,
        OPTION_ROWS.flatMap((option) => option.key ?? []),
      );
      problems.push(unknownName(`key ${quote(name)} (${place})`, near));
    } else if (isScalar(value) && value.value !== null) {
      // A number or a boolean is taken as it is written: a directory may be called 0123 or true.
      take(row, typeof value.value === "string" ? value.value : (value.source ?? ""), place);
    } else if (!isAlias(value)) {
      problems.push(`${row.flag} (${place}): one value is expected, give ${row.accepts}`);
    }
  }
}

/**
 * The base URL of an installation that names none: the scheme and the listen address, with localhost in place of an
 * address that stands for all interfaces, and of a Unix socket. With port 0 call it again once the port is known.
 */
export function defaultBaseUrl(listen: Listen | ListenPath, { tls }: { tls: boolean }): string {
  const scheme = tls ? "https" : "http";
  if ("path" in listen) return `${scheme}://localhost`;
  const everywhere = listen.host === "0.0.0.0" || listen.host === "::";
  const host = everywhere ? "localhost" : isIPv6(listen.host) ? `[${listen.host}]` : listen.host;
  return `${scheme}://${host}:${listen.port}`;
}

/** The public URL of a server below a path: operators give the base URL with that path or without it. */
export const withBasePath = (baseUrl: string, basePath: string | null): string =>
  basePath === null || new URL(baseUrl).pathname.endsWith(basePath) ? baseUrl : `${baseUrl}${basePath}`;

/**
 * The configuration as text, one entry per option in the order of the table, for a command that shows it: `value` is
 * null where there is none, "(secret)" for a secret that is set, and else a text that the option accepts.
 */
export function explainConfig(
  config: Config,
  sources: ConfigSources,
  options: Readonly<Record<OptionName, Option>> = OPTIONS,
): { option: string; value: string | null; source: string }[] {
  return Object.values(options).map((row) => {
    const value = config[row.name];
    const shown = value === null ? null : row.secret ? "(secret)" : textOf(value, row.unit);
    return { option: row.flag, value: shown, source: sources[row.name] };
  });
}

/** A value as an operator would write it: the option makes the same value of this text. */
function textOf(value: NonNullable<Config[OptionName]>, unit: Option["unit"]): string {
  if (typeof value === "number" && unit !== null) return unit === "bytes" ? formatSize(value) : formatDuration(value);
  if (typeof value !== "object") return String(value);
  if ("host" in value || "path" in value) return formatListenAddress(value);
  return value
    .map((entry) => (typeof entry === "string" ? entry : `${entry.group}=${entry.organization}:${entry.role}`))
    .join(",");
}

/** A place to listen on as an operator writes it. */
export function formatListenAddress(listen: Listen | ListenPath): string {
  return "path" in listen
    ? `unix:${listen.path}`
    : `${isIPv6(listen.host) ? `[${listen.host}]` : listen.host}:${listen.port}`;
}

/**
 * The options as lines for --help, each ending in a line feed: the flag, then what it is, its default and its variable.
 */
export function renderOptionsHelp(): string {
  const heads = OPTION_ROWS.map((row) => `  --${row.flag} ${row.placeholder}`);
  const width = Math.max(...heads.map((head) => head.length)) + 2;
  return OPTION_ROWS.map((row, index) => {
    const preset = row.default === null ? "" : `default ${row.default}; `;
    return `${(heads[index] ?? "").padEnd(width)}${row.description} (${preset}${row.variable})\n`;
  }).join("");
}

const PREFIX = "ASSAY_";

/** What Kubernetes calls the variables of a service, whatever that service is called. */
const SERVICE_LINK = /_SERVICE_(?:HOST|PORT(?:_\w+)?)$|_PORT(?:_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)?$/;

function unknownVariable(variable: string): string {
  // Compared without the common prefix, which would make every short name look near.
  const names = [...OPTION_ROWS.map((option) => option.variable), ...OTHER_VARIABLES].map((name) =>
    name.slice(PREFIX.length),
  );
  const near = findNearestNames(variable.slice(PREFIX.length).toUpperCase(), names).map((name) => `${PREFIX}${name}`);
  const problem = unknownName(`variable ${truncate(variable, 100)}`, near);
  if (near.length > 0 || !SERVICE_LINK.test(variable)) return problem;
  return `${problem}; if Kubernetes injects it for a service, set enableServiceLinks: false in the pod`;
}

const unknownName = (what: string, near: readonly string[]): string =>
  `unknown ${what}; ${near.length > 0 ? `did you mean ${near.join(" or ")}?` : "assay config explain lists all options"}`;

function quote(text: string): string {
  return JSON.stringify(truncate(text, 100));
}
