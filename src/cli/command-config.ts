/** Reads a command's input before it does any work: the configuration, and the files that the operator names. */
import { closeSync, openSync, readSync } from "node:fs";
import { resolve } from "node:path";
import { parseCertificates } from "../config/tls-certificate.ts";
import { findConfigFile, findDefaultDataDirectory, findMissingOptions, resolveConfig } from "../config/resolve.ts";
import { OPTIONS, OPTION_ROWS } from "../config/options.ts";
import type { Option } from "../config/options.ts";
import type { ConfigSources } from "../config/resolve.ts";
import { causeOf } from "../domain/text/system-errors.ts";
import type { EvidenceAccess } from "../evidence/location.ts";
import type { Config } from "../config/options.ts";
import { MB } from "../domain/text/units.ts";
import type { Args, CommandOption } from "./args.ts";
import { CommandError, EXIT } from "./command.ts";
import type { Command, ConfigurationRules, Io } from "./command.ts";

/**
 * The only limit on the size of an operator's file: 50,000 users, members, accounts and keys with all their fields.
 * An apply file takes some 150 MB of memory for each of its MB.
 */
const MAX_TEXT_MB = 8;

/**
 * Resolves the configuration of a command that takes all options.
 * @throws CommandError with exit code 2 that lists every mistake in every source
 */
export async function loadConfig(
  flags: Readonly<Record<string, string>>,
  io: Io,
  rules: ConfigurationRules = {},
): Promise<{ config: Config; sources: ConfigSources }> {
  const env = rules.ignoresVariables === true ? {} : io.env;
  const fileName = findConfigFile({ flags, env });
  const fileText = fileName === null ? null : await readText(io, fileName);
  const data = rules.defaultData === true ? findDefaultDataDirectory(io.env) : null;
  const defaults = { ...(data === null ? {} : { data }), ...rules.defaults };
  const resolution = resolveConfig({ ...rules, defaults, flags, env, fileText, fileName });
  if (resolution.problems !== null) throw new CommandError(resolution.problems, EXIT.usage);
  const missing = rules.complete === true ? findMissingOptions(resolution.config) : [];
  if (missing.length > 0) throw new CommandError(missing, EXIT.usage);
  return resolution;
}

/**
 * Finds the mistakes in a command's configuration, in flags, variables and the file. Called for a command line that is
 * refused anyway, so that one run reports all mistakes.
 */
export async function findConfigurationProblems(command: Command, args: Args, io: Io): Promise<readonly string[]> {
  try {
    const rows = OPTION_ROWS.filter(({ flag }) => {
      const option = command.options[flag];
      return option?.kind === "text" && option.isSetting === true;
    });
    if (command.takesConfig) await loadConfig(args.flags, io, command.configuration);
    else if (rows.length > 0) await loadConfigOf(rows, { args, io, ...command });
    return [];
  } catch (error) {
    if (error instanceof CommandError) return error.problems;
    throw error;
  }
}

/** Turns rows of the option table into options of a command. */
const commandOptionsOf = (rows: readonly Option[]): Readonly<Record<string, CommandOption>> =>
  Object.fromEntries(
    rows.map(({ flag, placeholder, description, variable, defaultText }) => {
      const preset = defaultText == null ? "" : `default ${defaultText}; `;
      return [
        flag,
        { kind: "text", isSetting: true, placeholder, description: `${description} (${preset}${variable})` },
      ];
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

/** The options that determine a server's public URL. */
const PUBLIC_URL_ROWS: readonly Option[] = [
  ...DATA_ROWS,
  OPTIONS.baseUrl,
  OPTIONS.basePath,
  OPTIONS.listen,
  OPTIONS.tlsCert,
];

/** Options of a command that works on a data directory without serving it. */
export const DATA_OPTIONS = commandOptionsOf(DATA_ROWS);

/** Comes after the options of a command that `namesData`: its help shows no default. */
export const NAMED_DATA_OPTION = commandOptionsOf([{ ...OPTIONS.data, defaultText: null }]);

/** Options of a command that also prints URLs of the server. */
export const PUBLIC_URL_OPTIONS = commandOptionsOf(PUBLIC_URL_ROWS);

/** Options of a command that also accesses the evidence, wherever it is stored. */
export const EVIDENCE_OPTIONS = commandOptionsOf(EVIDENCE_ROWS);

/** What decides whether the data directory has a default. */
type DataRules = Pick<Command, "namesData">;

/**
 * Returns the absolute path of the data directory of a command with DATA_OPTIONS. Reads only those two options: a
 * mistake in another variable must not prevent the revocation of a key.
 * @throws CommandError with exit code 2
 */
export async function resolveDataDirectory(args: Args, io: Io, command: DataRules = {}): Promise<string> {
  return resolve(io.cwd, (await loadConfigOf(DATA_ROWS, { args, io, ...command })).config.data ?? "");
}

/**
 * Returns the absolute path of the data directory of a command with PUBLIC_URL_OPTIONS, and the server's public URL
 * without a trailing slash. `isDerived`: base-url is not set, so the URL is derived from the listen address.
 * @throws CommandError with exit code 2
 */
export async function resolveDirectoryAndUrl(
  args: Args,
  io: Io,
): Promise<{ directory: string; baseUrl: string; isDerived: boolean }> {
  const { config, sources } = await loadConfigOf(PUBLIC_URL_ROWS, { args, io });
  return {
    directory: resolve(io.cwd, config.data ?? ""),
    baseUrl: config.baseUrl,
    isDerived: sources.baseUrl === "default",
  };
}

/**
 * Returns the absolute path of the data directory of a command with EVIDENCE_OPTIONS, and the access to its evidence.
 * @throws CommandError with exit code 2
 */
export async function resolveEvidenceAccess(
  args: Args,
  io: Io,
  command: DataRules = {},
): Promise<{ directory: string; access: EvidenceAccess }> {
  const { config } = await loadConfigOf(EVIDENCE_ROWS, { args, io, ...command });
  return {
    directory: resolve(io.cwd, config.data ?? ""),
    access: evidenceAccessOf(config, await readCaBundle(config, io), io),
  };
}

/** Resolves the configuration of a command that takes only some of the options. */
async function loadConfigOf(
  rows: readonly Option[],
  { args, io, namesData = false }: DataRules & { args: Args; io: Io },
): Promise<{ config: Config; sources: ConfigSources }> {
  const flags = Object.fromEntries(
    rows.flatMap(({ flag }) => (args.texts.get(flag) ?? []).map((text) => [flag, text])),
  );
  const variables = new Set(rows.map(({ variable }) => variable));
  const isRead = ([name]: [string, unknown]): boolean => variables.has(name) || !name.startsWith("ASSAY_");
  const env = Object.fromEntries(Object.entries(io.env).filter(isRead));
  return loadConfig(flags, { ...io, env }, { required: ["data"], defaultData: !namesData });
}

/**
 * Returns what opening the evidence store needs. Keys that no option sets come from the AWS_* variables that every S3
 * client reads.
 */
export function evidenceAccessOf(
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
    caCertificates: authorities,
  };
}

/**
 * Reads the certificates of the CA bundle (PEM) that `ca-file` names; null when it is not set.
 * @throws CommandError when the file holds no certificate or one that cannot be read: a server that trusts fewer
 *   authorities than its operator expects would otherwise fail only when it sends its first message
 */
export async function readCaBundle(
  { caFile: name }: Pick<Config, "caFile">,
  io: Io,
): Promise<readonly string[] | null> {
  if (name === null) return null;
  const certificates = parseCertificates(await readText(io, name));
  if (certificates.length === 0) throw new CommandError(`the CA bundle ${name} holds no certificate in PEM form`);
  return certificates.map((certificate, index) => {
    if (certificate === null) throw new CommandError(`the CA bundle ${name}: certificate ${index + 1} cannot be read`);
    return certificate.toString();
  });
}

/** What messages call a file that a person named; `-` is standard input. */
export const fileLabel = (name: string): string => (name === "-" ? "standard input" : name);

/**
 * Reads a UTF-8 text file of at most so many megabytes, relative to the working directory; `-` is standard input.
 * @throws CommandError that names the file
 */
export async function readText(io: Io, name: string, { maxMb = MAX_TEXT_MB } = {}): Promise<string> {
  const maxBytes = maxMb * MB;
  const label = fileLabel(name);
  let bytes: Buffer;
  try {
    bytes = name === "-" ? await readStdin(io, maxBytes) : readFileHead(resolve(io.cwd, name), maxBytes);
  } catch (error) {
    throw new CommandError(`cannot read ${label}: ${causeOf(error)}`);
  }
  if (bytes.length > maxBytes) throw new CommandError(`cannot read ${label}: it is larger than ${maxMb} MB`);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new CommandError(`cannot read ${label}: it is not UTF-8 text`);
  }
}

async function readStdin(io: Io, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of io.stdin) {
    const bytes = Buffer.from(chunk as Uint8Array);
    chunks.push(bytes);
    size += bytes.length;
    if (size > maxBytes) break;
  }
  return Buffer.concat(chunks);
}

/** Reads at most one byte more than the limit, because a pipe or a device may be endless. */
function readFileHead(path: string, maxBytes: number): Buffer {
  const descriptor = openSync(path, "r");
  try {
    const buffer = Buffer.alloc(maxBytes + 1);
    let size = 0;
    for (let read = -1; read !== 0 && size < buffer.length; size += read) {
      read = readSync(descriptor, buffer, size, buffer.length - size, null);
    }
    return buffer.subarray(0, size);
  } finally {
    closeSync(descriptor);
  }
}
