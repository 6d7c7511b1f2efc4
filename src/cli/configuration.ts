/** What commands read before they do anything: the configuration, and files that the operator names. */
import { closeSync, openSync, readSync } from "node:fs";
import { resolve } from "node:path";
import { configFileName, resolveConfig } from "../config.ts";
import { OPTIONS } from "../options.ts";
import type { Sources } from "../config.ts";
import type { Config, OptionName } from "../options.ts";
import type { Args, CommandOption } from "./args.ts";
import { commandFailure, EXIT } from "./frame.ts";
import type { Io } from "./frame.ts";

// The reader of YAML refuses more than a million characters, which UTF-8 never writes in more bytes than this.
const TEXT_LIMIT = 4 * 1_048_576;

/**
 * The resolved configuration of a command that takes all options; see `resolveConfig` for `required` and `defaults`.
 * @throws a command failure with exit code 2 that lists every mistake of every source.
 */
export async function configure(
  flags: Readonly<Record<string, string>>,
  io: Io,
  rules: { required?: readonly OptionName[]; defaults?: Readonly<Partial<Record<OptionName, string>>> } = {},
): Promise<{ config: Config; sources: Sources }> {
  const fileName = configFileName({ flags, env: io.env });
  const fileText = fileName === null ? null : await readText(io, fileName);
  const resolution = resolveConfig({ ...rules, flags, env: io.env, fileText, fileName });
  if (resolution.problems !== null) throw commandFailure(resolution.problems, EXIT.usage);
  return resolution;
}

/** The options of a command that works on a data directory without serving it. */
export const DATA_OPTIONS: Readonly<Record<string, CommandOption>> = Object.fromEntries(
  [OPTIONS.data, OPTIONS.configFile].map(({ flag, placeholder, description, variable }) => [
    flag,
    { kind: "text", placeholder, description: `${description} (${variable})` },
  ]),
);

/**
 * The data directory that a command with DATA_OPTIONS was given, as an absolute path. Only the two options are read from
 * the environment: what is wrong with the others is no reason to refuse the revocation of a key.
 * @throws a command failure with exit code 2.
 */
export async function dataDirectory(args: Args, io: Io): Promise<string> {
  const options = [OPTIONS.data, OPTIONS.configFile];
  const flags = Object.fromEntries(options.flatMap(({ flag }) => (args.texts.get(flag) ?? []).map((text) => [flag, text])));
  const env = Object.fromEntries(options.map(({ variable }) => [variable, io.env[variable]]));
  const { config } = await configure(flags, { ...io, env }, { required: ["data"] });
  return resolve(io.cwd, config.data ?? "");
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
