/** What commands read before they do anything: the configuration, and files that the operator names. */
import { closeSync, openSync, readSync } from "node:fs";
import { resolve } from "node:path";
import { certificatesOf } from "../config/tls-certificate.ts";
import { configFileName, missingOptions, resolveConfig } from "../config/resolve.ts";
import { OPTIONS, ROWS } from "../config/options.ts";
import type { Option } from "../config/options.ts";
import type { ConfigSources } from "../config/resolve.ts";
import type { EvidenceAccess } from "../evidence/location.ts";
import type { Config } from "../config/options.ts";
import type { Args, CommandOption } from "./args.ts";
import { commandFailure, EXIT, failureOf } from "./command.ts";
import type { Command, ConfigurationRules, Io } from "./command.ts";

// The reader of YAML refuses more than a million characters, which UTF-8 never writes in more bytes than this.
const TEXT_LIMIT = 4 * 1_048_576;

/**
 * The resolved configuration of a command that takes all options.
 * @throws a command failure with exit code 2 that lists every mistake of every source.
 */
export async function configure(
  flags: Readonly<Record<string, string>>,
  io: Io,
  rules: ConfigurationRules = {},
): Promise<{ config: Config; sources: ConfigSources }> {
  const env = rules.ignoresVariables === true ? {} : io.env;
  const fileName = configFileName({ flags, env });
  const fileText = fileName === null ? null : await readText(io, fileName);
  const resolution = resolveConfig({ ...rules, flags, env, fileText, fileName });
  if (resolution.problems !== null) throw commandFailure(resolution.problems, EXIT.usage);
  const missing = rules.complete === true ? missingOptions(resolution.config) : [];
  if (missing.length > 0) throw commandFailure(missing, EXIT.usage);
  return resolution;
}

/**
 * What is wrong with the options of the configuration on a command line, in variables and in the file, for a command
 * line that is refused anyway: all mistakes are told in one run. Empty where nothing is.
 */
export async function configurationProblems(command: Command, args: Args, io: Io): Promise<readonly string[]> {
  try {
    const rows = ROWS.filter(({ flag }) => {
      const option = command.options[flag];
      return option?.kind === "text" && option.isSetting === true;
    });
    if (command.takesConfig) await configure(args.flags, io, command.configuration);
    else if (rows.length > 0) await configureSome(rows, args, io);
    return [];
  } catch (error) {
    const failure = failureOf(error);
    if (failure === null) throw error;
    return failure.problems;
  }
}

/** These rows of the table as options of a command. */
const optionsOf = (rows: readonly Option[]): Readonly<Record<string, CommandOption>> =>
  Object.fromEntries(
    rows.map(({ flag, placeholder, description, variable }) => {
      return [flag, { kind: "text", isSetting: true, placeholder, description: `${description} (${variable})` }];
    }),
  );

const DATA_ROWS: readonly Option[] = [OPTIONS.data, OPTIONS.configFile];
const EVIDENCE_ROWS: readonly Option[] = [
  ...DATA_ROWS,
  OPTIONS.evidenceStore,
  OPTIONS.s3Endpoint,
  OPTIONS.s3Region,
  OPTIONS.s3AccessKey,
  OPTIONS.s3SecretKey,
  OPTIONS.caFile,
];

/** What the public URL of a server follows from. */
const PUBLIC_URL_ROWS: readonly Option[] = [
  ...DATA_ROWS,
  OPTIONS.baseUrl,
  OPTIONS.basePath,
  OPTIONS.listen,
  OPTIONS.tlsCert,
];

/** The options of a command that works on a data directory without serving it. */
export const DATA_OPTIONS = optionsOf(DATA_ROWS);

/** The options of a command that tells URLs of the server too. */
export const PUBLIC_URL_OPTIONS = optionsOf(PUBLIC_URL_ROWS);

/** The options of a command that works on the evidence too, wherever that is kept. */
export const EVIDENCE_OPTIONS = optionsOf(EVIDENCE_ROWS);

/**
 * The data directory that a command with DATA_OPTIONS was given, as an absolute path. Only the two options are read
 * from the environment: what is wrong with the others is no reason to refuse the revocation of a key.
 * @throws a command failure with exit code 2.
 */
export async function dataDirectory(args: Args, io: Io): Promise<string> {
  return resolve(io.cwd, (await configureSome(DATA_ROWS, args, io)).config.data ?? "");
}

/**
 * The data directory that a command with PUBLIC_URL_OPTIONS was given, as an absolute path, and the public URL of its
 * server without a trailing slash. `isDerived`: nobody set base-url, so that it follows from the listen address.
 * @throws a command failure with exit code 2.
 */
export async function directoryAndUrl(
  args: Args,
  io: Io,
): Promise<{ directory: string; baseUrl: string; isDerived: boolean }> {
  const { config, sources } = await configureSome(PUBLIC_URL_ROWS, args, io);
  return {
    directory: resolve(io.cwd, config.data ?? ""),
    baseUrl: config.baseUrl,
    isDerived: sources.baseUrl === "default",
  };
}

/**
 * The data directory that a command with EVIDENCE_OPTIONS was given, as an absolute path, and the way to its evidence.
 * @throws a command failure with exit code 2.
 */
export async function evidenceDirectory(args: Args, io: Io): Promise<{ directory: string; access: EvidenceAccess }> {
  const { config } = await configureSome(EVIDENCE_ROWS, args, io);
  return {
    directory: resolve(io.cwd, config.data ?? ""),
    access: evidenceAccess(config, await readAuthorities(config, io), io),
  };
}

/** The configuration of a command that takes some options alone. */
async function configureSome(
  rows: readonly Option[],
  args: Args,
  io: Io,
): Promise<{ config: Config; sources: ConfigSources }> {
  const flags = Object.fromEntries(
    rows.flatMap(({ flag }) => (args.texts.get(flag) ?? []).map((text) => [flag, text])),
  );
  const env = Object.fromEntries(rows.map(({ variable }) => [variable, io.env[variable]]));
  return configure(flags, { ...io, env }, { required: ["data"] });
}

/**
 * What it takes to reach the evidence; keys that are no options come from the variables that every client of such
 * storage knows.
 */
export function evidenceAccess(
  config: Config,
  authorities: readonly string[] | null,
  { env }: Pick<Io, "env">,
): EvidenceAccess {
  const { evidenceStore: configured, s3Endpoint: endpoint, s3Region: region } = config;
  const given = config.s3AccessKey !== null;
  const [accessKey, secretKey] = given
    ? [config.s3AccessKey, config.s3SecretKey]
    : [env["AWS_ACCESS_KEY_ID"] || null, env["AWS_SECRET_ACCESS_KEY"] || null];
  return {
    configured,
    endpoint,
    region,
    accessKey,
    secretKey,
    sessionToken: given ? null : env["AWS_SESSION_TOKEN"] || null,
    authorities,
  };
}

/**
 * The certificates of the PEM file that `ca-file` names; null without one.
 * @throws a command failure when one of them cannot be read, or there is none: a server that trusts less than its
 * operator
 *   believes would tell so at the first message only.
 */
export async function readAuthorities({ caFile: name }: Config, io: Io): Promise<readonly string[] | null> {
  if (name === null) return null;
  const certificates = certificatesOf(await readText(io, name));
  if (certificates.length === 0) throw commandFailure(`${name} holds no certificate in PEM form`);
  return certificates.map((certificate, index) => {
    if (certificate === null) throw commandFailure(`${name}: certificate ${index + 1} cannot be read`);
    return certificate.toString();
  });
}

/**
 * The text of a file (UTF-8, at most 4 MB), relative to the working directory; `-` stands for standard input.
 * @throws a command failure that names the file.
 */
export async function readText(io: Io, name: string): Promise<string> {
  const shown = name === "-" ? "standard input" : name;
  let bytes: Buffer;
  try {
    bytes = name === "-" ? await readInput(io) : readHead(resolve(io.cwd, name));
  } catch (error) {
    throw commandFailure(`cannot read ${shown}: ${error instanceof Error ? error.message : String(error)}`);
  }
  if (bytes.length > TEXT_LIMIT) throw commandFailure(`cannot read ${shown}: it is larger than 4 MB`);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw commandFailure(`cannot read ${shown}: it is not UTF-8 text`);
  }
}

async function readInput(io: Io): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of io.stdin) {
    const bytes = Buffer.from(chunk as Uint8Array);
    chunks.push(bytes);
    size += bytes.length;
    if (size > TEXT_LIMIT) break;
  }
  return Buffer.concat(chunks);
}

/** The first bytes of a file, one more than the limit: a pipe or a device may have no end. */
function readHead(path: string): Buffer {
  const descriptor = openSync(path, "r");
  try {
    const buffer = Buffer.alloc(TEXT_LIMIT + 1);
    let size = 0;
    for (let read = -1; read !== 0 && size < buffer.length; size += read) {
      read = readSync(descriptor, buffer, size, buffer.length - size, null);
    }
    return buffer.subarray(0, size);
  } finally {
    closeSync(descriptor);
  }
}
