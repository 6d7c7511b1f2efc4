/**
 * Resolves the value of each option (options.ts): a flag overrides an ASSAY_* variable, which overrides the YAML file,
 * which overrides the default.
 *
 * Everything here is pure: the caller provides the flags, the environment and the text of the file. Every source is
 * checked even if another one overrides it, so that a mistake is found on the day it is made and not on the day the
 * overriding flag is dropped. All mistakes are reported together.
 */
import { isIPv6 } from "node:net";
import { isAbsolute, join } from "node:path";
import { isAlias, isMap, isScalar } from "yaml";
import { truncate } from "../domain/text/excerpt.ts";
import { findNearestNames } from "../domain/text/near-names.ts";
import { formatDuration, formatSize } from "../domain/text/units.ts";
import { OPERATOR_FILE, readYaml } from "../domain/text/yaml.ts";
import { INJECTED_VARIABLE, OPTIONS, OTHER_VARIABLES, OPTION_ROWS, describeDefault } from "./options.ts";
import type { Config, Option, OptionName } from "./options.ts";
import type { Listen, ListenPath } from "./types.ts";

/** The source of each option's value: "flag --x", "variable ASSAY_X", "file NAME line N" or "default". */
export type ConfigSources = { readonly [K in OptionName]: string };

type ResolvedConfig = { config: Config; sources: ConfigSources; problems: null } | { config: null; problems: string[] };

type Flags = Readonly<Record<string, string>>;
type Environment = Readonly<Record<string, string | undefined>>;

/** The configuration file to read before `resolveConfig`: the flag --config, else ASSAY_CONFIG, else null. */
export function findConfigFile(input: { flags: Flags; env: Environment }): string | null {
  return input.flags[OPTIONS.configFile.flag] || input.env[OPTIONS.configFile.variable] || null;
}

/**
 * The data directory where none is given: what systemd created for a unit (StateDirectory=), else the place for the
 * state of programs (XDG Base Directory Specification, which ignores relative paths); null without a home.
 */
export function findDefaultDataDirectory(env: Environment): string | null {
  // systemd separates several directories by colons.
  const [state = ""] = env["STATE_DIRECTORY"]?.split(":") ?? [];
  if (isAbsolute(state)) return state;
  const [xdg = "", home = ""] = [env["XDG_STATE_HOME"], env["HOME"]];
  if (isAbsolute(xdg)) return join(xdg, "assay");
  return isAbsolute(home) ? join(home, ".local", "state", "assay") : null;
}

/** The state of one resolution. */
type Resolution = {
  readonly problems: string[];
  readonly values: Map<OptionName, { value: unknown; source: string }>;
  /** Options with an invalid text in any source. */
  readonly refused: Set<OptionName>;
};

/**
 * Resolves all options. Never throws.
 * @param input.flags texts by flag name without dashes
 * @param input.env the environment; an empty variable counts as unset, because container definitions pass unset values
 *   on in that way
 * @param input.fileText text of the configuration file, null without one; `fileName` is its name for messages
 * @param input.required options that must have a value
 * @param input.defaults replaces defaults of the table; texts as an operator would write them
 */
export function resolveConfig(input: {
  flags: Flags;
  env: Environment;
  fileText: string | null;
  fileName: string | null;
  required?: readonly OptionName[];
  defaults?: Readonly<Partial<Record<OptionName, string>>>;
}): ResolvedConfig {
  const resolution: Resolution = { problems: [], values: new Map(), refused: new Set() };
  const { problems, values } = resolution;
  // In this order: the first source of an option wins.
  readFlags(resolution, input.flags);
  readEnvironment(resolution, input.env);
  if (input.fileText !== null) readConfigFile(resolution, input.fileText, input.fileName ?? "configuration file");
  for (const row of OPTION_ROWS) {
    const text = input.defaults?.[row.name] ?? row.default;
    if (text !== null) setValue(resolution, row, { text, source: "default" });
  }
  requireOptions(resolution, input.required ?? []);
  completeBaseUrl(values);

  const config = Object.fromEntries(
    OPTION_ROWS.map((row) => [row.name, values.get(row.name)?.value ?? null]),
  ) as Config;
  const sources = Object.fromEntries(
    OPTION_ROWS.map((row) => [row.name, values.get(row.name)?.source ?? "default"]),
  ) as ConfigSources;
  // The HTTP server of Node refuses to start with such a pair.
  checkOrder(resolution, { config, sources }, ["headerTimeout", "requestTimeout"]);
  checkOrder(resolution, { config, sources }, ["sessionIdle", "sessionLifetime"]);
  return problems.length > 0 ? { config: null, problems } : { config, sources, problems: null };
}

/** Checks a text, and uses its value unless a stronger source has set one. */
function setValue(resolution: Resolution, row: Option, { text, source }: { text: string; source: string }): void {
  const value = row.parse(text);
  if (value === null) {
    const given = row.secret ? "the given value" : quote(text);
    resolution.refused.add(row.name);
    resolution.problems.push(`${row.flag} (${source}): ${given} is not accepted, give ${row.accepts}`);
  } else if (!resolution.values.has(row.name)) resolution.values.set(row.name, { value, source });
}

function readFlags(resolution: Resolution, flags: Flags): void {
  for (const [flag, text] of Object.entries(flags)) {
    const row = OPTION_ROWS.find((candidate) => candidate.flag === flag);
    if (row) setValue(resolution, row, { text, source: `flag --${flag}` });
    else {
      const known = OPTION_ROWS.map((option) => option.flag);
      const near = findNearestNames(flag, known).map((name) => `--${name}`);
      resolution.problems.push(describeUnknown(`flag --${truncate(flag, 100)}`, near));
    }
  }
}

function readEnvironment(resolution: Resolution, env: Environment): void {
  for (const [variable, text] of Object.entries(env)) {
    if (!variable.startsWith(PREFIX) || OTHER_VARIABLES.includes(variable) || INJECTED_VARIABLE.test(variable))
      continue;
    const row = OPTION_ROWS.find((candidate) => candidate.variable === variable);
    if (!row) resolution.problems.push(describeUnknownVariable(variable));
    else if (text !== undefined && text !== "") setValue(resolution, row, { text, source: `variable ${variable}` });
  }
}

function requireOptions({ problems, values, refused }: Resolution, required: readonly OptionName[]): void {
  for (const name of required) {
    const row = OPTIONS[name];
    if (values.has(name) || refused.has(name)) continue;
    const places = [`--${row.flag} ${row.placeholder}`, row.variable];
    if (row.key !== null) places.push(`the key ${row.key} of the configuration file`);
    problems.push(`${row.flag} is not set: give ${row.accepts} with ${places.join(" or ")}`);
  }
}

/** Derives the base URL from the listen address if it is not set, and appends the base path. */
function completeBaseUrl(values: Resolution["values"]): void {
  const listen = values.get("listen");
  if (listen && !values.has("baseUrl")) {
    const value = defaultBaseUrl(listen.value as Listen | ListenPath, { tls: values.has("tlsCert") });
    values.set("baseUrl", { value, source: "default" });
  }
  const [base, path] = [values.get("baseUrl"), values.get("basePath")];
  if (base && path) values.set("baseUrl", { ...base, value: withBasePath(base.value as string, path.value as string) });
}

type DurationName = "headerTimeout" | "requestTimeout" | "sessionIdle" | "sessionLifetime";

/** Reports a shorter duration that is longer than the longer one. */
function checkOrder(
  { problems, refused }: Resolution,
  { config, sources }: { config: Config; sources: ConfigSources },
  [shorter, longer]: readonly [DurationName, DurationName],
): void {
  if (refused.has(shorter) || refused.has(longer) || config[shorter] <= config[longer]) return;
  const describe = (name: DurationName): string => `${OPTIONS[name].flag} (${sources[name]})`;
  const { flag } = OPTIONS[shorter];
  problems.push(
    `${describe(shorter)} is ${config[shorter]} seconds and ${describe(longer)} ${config[longer]} seconds: ` +
      `give a ${flag} that is not longer`,
  );
}

/** Options that only work together: if one of a group is set, all of them are required. */
const TOGETHER: readonly (readonly OptionName[])[] = [
  ["smtpUrl", "smtpFrom"],
  ["tlsCert", "tlsKey"],
  ["oidcIssuer", "oidcClientId", "oidcClientSecret"],
  ["s3AccessKey", "s3SecretKey"],
];

/** Options that have no effect without another one. */
const DEPENDENT: readonly (readonly [OptionName, OptionName])[] = [
  ["oidcRoles", "oidcIssuer"],
  ["s3Endpoint", "evidenceStore"],
  ["s3AccessKey", "evidenceStore"],
];

/**
 * Problems of a configuration with missing options. Only for commands that use all options: a command that uses two
 * must not fail because of the others.
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
  const ineffective = DEPENDENT.filter(([name, needed]) => config[name] !== null && config[needed] === null);
  return [
    ...groups,
    ...ineffective.map(
      ([name, needed]) =>
        `${OPTIONS[name].flag} has no effect without ${OPTIONS[needed].flag}: give ${named(needed)} too`,
    ),
  ];
}

function readConfigFile(resolution: Resolution, text: string, fileName: string): void {
  const { problems } = resolution;
  const yaml = readYaml(text, OPERATOR_FILE);
  for (const { line, column, text: problem } of yaml.problems) {
    problems.push(`file ${fileName} line ${line} column ${column}: ${problem}`);
  }
  if (yaml.root === null) return;
  const sourceOf = (node: unknown): string => `file ${fileName} line ${yaml.positionOf(node).line}`;
  if (!isMap(yaml.root)) {
    problems.push(`${sourceOf(yaml.root)}: a mapping of options to values is expected`);
    return;
  }
  for (const { key, value } of yaml.root.items) {
    const source = sourceOf(key);
    const name = isScalar(key) ? String(key.value) : "";
    const row = OPTION_ROWS.find((candidate) => candidate.key === name);
    if (!row) {
      const known = OPTION_ROWS.flatMap((option) => option.key ?? []);
      problems.push(describeUnknown(`key ${quote(name)} (${source})`, findNearestNames(name, known)));
    } else if (isScalar(value) && value.value !== null) {
      // A number or a boolean is used as it is written: a directory may be named 0123 or true.
      setValue(resolution, row, { text: typeof value.value === "string" ? value.value : (value.source ?? ""), source });
    } else if (!isAlias(value)) {
      problems.push(`${row.flag} (${source}): one value is expected, give ${row.accepts}`);
    }
  }
}

/**
 * The base URL if none is configured: the scheme and the listen address, with localhost instead of a Unix socket or an
 * address that means all interfaces. With port 0, call it again once the port is known.
 */
export function defaultBaseUrl(listen: Listen | ListenPath, { tls }: { tls: boolean }): string {
  const scheme = tls ? "https" : "http";
  if ("path" in listen) return `${scheme}://localhost`;
  const isWildcard = listen.host === "0.0.0.0" || listen.host === "::";
  const host = isWildcard ? "localhost" : isIPv6(listen.host) ? `[${listen.host}]` : listen.host;
  return `${scheme}://${host}:${listen.port}`;
}

/** Appends the base path to the public URL, unless the operator's base URL already has it. */
export const withBasePath = (baseUrl: string, basePath: string | null): string =>
  basePath === null || new URL(baseUrl).pathname.endsWith(basePath) ? baseUrl : `${baseUrl}${basePath}`;

/**
 * The configuration for display, one entry per option in table order. `value` is null if unset, "(secret)" for a secret
 * that is set, and otherwise a text that the option accepts.
 */
export function explainConfig(
  config: Config,
  sources: ConfigSources,
  options: Readonly<Record<OptionName, Option>> = OPTIONS,
): { option: string; value: string | null; source: string }[] {
  return Object.values(options).map((row) => {
    const value = config[row.name];
    const text = value === null ? null : row.secret ? "(secret)" : formatValue(value, row.unit);
    return { option: row.flag, value: text, source: sources[row.name] };
  });
}

/** A value as an operator would write it; the option parses the text into the same value. */
function formatValue(value: NonNullable<Config[OptionName]>, unit: Option["unit"]): string {
  if (typeof value === "number" && unit !== null) return unit === "bytes" ? formatSize(value) : formatDuration(value);
  if (typeof value !== "object") return String(value);
  if ("host" in value || "path" in value) return formatListenAddress(value);
  return value
    .map((entry) => (typeof entry === "string" ? entry : `${entry.group}=${entry.organization}:${entry.role}`))
    .join(",");
}

/** A listen address as an operator would write it. */
export function formatListenAddress(listen: Listen | ListenPath): string {
  return "path" in listen
    ? `unix:${listen.path}`
    : `${isIPv6(listen.host) ? `[${listen.host}]` : listen.host}:${listen.port}`;
}

/** The options as lines for --help, each with a line feed at its end: flag, description, default and variable. */
export function renderOptionsHelp(): string {
  const heads = OPTION_ROWS.map((row) => `  --${row.flag} ${row.placeholder}`);
  const width = Math.max(...heads.map((head) => head.length)) + 2;
  return OPTION_ROWS.map((row, index) => {
    const value = describeDefault(row);
    const preset = value === null ? "" : `default ${value}; `;
    return `${(heads[index] ?? "").padEnd(width)}${row.description} (${preset}${row.variable})\n`;
  }).join("");
}

const PREFIX = "ASSAY_";

/** Variables that Kubernetes injects for a service of any name. */
const SERVICE_LINK = /_SERVICE_(?:HOST|PORT(?:_\w+)?)$|_PORT(?:_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)?$/;

function describeUnknownVariable(variable: string): string {
  // Compared without the common prefix, which would make all short names similar.
  const names = [...OPTION_ROWS.map((option) => option.variable), ...OTHER_VARIABLES].map((name) =>
    name.slice(PREFIX.length),
  );
  const near = findNearestNames(variable.slice(PREFIX.length).toUpperCase(), names).map((name) => `${PREFIX}${name}`);
  const problem = describeUnknown(`variable ${truncate(variable, 100)}`, near);
  if (near.length > 0 || !SERVICE_LINK.test(variable)) return problem;
  return `${problem}; if Kubernetes injects it for a service, set enableServiceLinks: false in the pod`;
}

function describeUnknown(what: string, near: readonly string[]): string {
  const hint = near.length > 0 ? `did you mean ${near.join(" or ")}?` : "assay config explain lists all options";
  return `unknown ${what}; ${hint}`;
}

function quote(text: string): string {
  return JSON.stringify(truncate(text, 100));
}
