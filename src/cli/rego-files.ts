/** The files that commands give to the engine of Rego evaluations. */
import { readFileSync, readdirSync, statSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { MAX_INPUT_BYTES } from "../contract/evaluation-input.ts";
import { findBundleSizeProblem, findPathProblems, kindOfFile } from "../domain/rego/bundle.ts";
import type { RegoFiles } from "../domain/rego/bundle.ts";
import { findParamsProblem } from "../domain/rego/params.ts";
import { causeOf } from "../domain/text/system-errors.ts";
import { MB } from "../domain/text/units.ts";
import { decodeUtf8 } from "../domain/text/utf8.ts";
import { compactJson, memberTexts } from "../json/walk.ts";
import type { RegoFailure } from "../rego/types.ts";
import { fileLabel, readText } from "./command-config.ts";
import { CommandError } from "./framework.ts";
import type { Io } from "./framework.ts";

/** A bundle, and how its files are named for people: by the way to them. */
export type NamedBundle = { files: RegoFiles; show(path: string): string };

/** A mistake in a file; where the engine names none, `file` is the bundle, and `line` null. */
type RegoProblem = { file: string; line: number | null; message: string };

/** Names that are looked at in a directory; a policy has a hundred files. */
const MAX_ENTRIES = 10_000;

/**
 * The files of a directory, or the file, that the engine reads. Names that begin with a dot are left out.
 * @param options.tests whether files with tests are among them
 * @throws CommandError
 */
export function readBundle(
  { cwd }: Io,
  name: string,
  { tests, except = [] }: { tests: boolean; except?: readonly string[] },
): NamedBundle {
  const root = resolve(cwd, name);
  const isDirectory = trying(name, () => statSync(root)).isDirectory();
  const paths = isDirectory
    ? listFiles(name, root).filter((path) => isRead(path, tests) && !except.includes(path))
    : [basename(root)];
  const pathOf = (path: string): string => (isDirectory ? join(root, path) : root);
  const show = (path: string): string => (isDirectory ? join(name, path) : name);
  const [[path, problem] = []] = findPathProblems(paths);
  if (problem !== undefined) throw new CommandError(`${JSON.stringify(show(path ?? ""))}: ${problem}`);

  let bytes = 0;
  const files: Record<string, string> = Object.create(null);
  for (const path of paths) {
    const content = trying(show(path), () => readFileSync(pathOf(path)));
    bytes += Buffer.byteLength(path) + content.length;
    files[path] = decode(show(path), content);
  }
  const tooLarge = paths.length === 0 ? null : findBundleSizeProblem(paths.length, bytes);
  if (tooLarge !== null) throw new CommandError(`${name}: ${tooLarge}`);
  return { files, show };
}

const isRead = (path: string, tests: boolean): boolean => {
  const kind = kindOfFile(path);
  return kind === "module" || kind === "data" || (tests && kind === "test");
};

/** The paths below a directory, with `/`, in order. */
function listFiles(name: string, root: string): string[] {
  const found: string[] = [];
  let seen = 0;
  for (const directories = [""]; directories.length > 0; ) {
    const directory = directories.pop() as string;
    for (const entry of trying(join(name, directory), () => readdirSync(join(root, directory), OPTIONS))) {
      if (entry.name.startsWith(".")) continue;
      if ((seen += 1) > MAX_ENTRIES)
        throw new CommandError(`${name} has more than ${MAX_ENTRIES} files: give the directory of the policy`);
      const path = directory === "" ? entry.name : `${directory}/${entry.name}`;
      if (entry.isDirectory()) directories.push(path);
      else if (entry.isFile() || (entry.isSymbolicLink() && isFile(join(root, path)))) found.push(path);
    }
  }
  return found.sort();
}

const OPTIONS = { withFileTypes: true } as const;

const isFile = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isFile() ?? false;

function decode(name: string, bytes: Buffer): string {
  const { text, broken } = decodeUtf8(bytes);
  if (text === null) throw new CommandError(`${name}:${broken.line}:${broken.column}: this is not UTF-8 text`);
  return text;
}

function trying<Value>(name: string, read: () => Value): Value {
  try {
    return read();
  } catch (error) {
    throw new CommandError(`cannot read ${name}: ${causeOf(error)}`);
  }
}

/** The text of a JSON file; `-` is standard input. @throws CommandError for what is not JSON, with its place */
export async function readJsonText(io: Io, name: string): Promise<string> {
  const text = await readText(io, name, { maxMb: MAX_INPUT_BYTES / MB });
  try {
    JSON.parse(text);
    return text;
  } catch (error) {
    throw new CommandError(`${fileLabel(name)} is not JSON: ${(error as Error).message}`);
  }
}

/** The text of a JSON file with parameters. @throws CommandError */
export const readParamsText = async (io: Io, name: string): Promise<string> =>
  requireParams(await readJsonText(io, name), fileLabel(name));

/** @throws CommandError for what a server refuses, too */
function requireParams(text: string, label: string): string {
  const problem = findParamsProblem(compactJson(requireObject(text, label)));
  if (problem !== null) throw new CommandError(`${label}: ${problem}`);
  return text;
}

function requireObject(text: string, label: string): string {
  if (text.trimStart().startsWith("{")) return text;
  throw new CommandError(`${label} is not a JSON object: give values by name, such as {"max": 5}`);
}

/** An evaluation as files: JSON texts, and nanoseconds since the epoch; null for what the files do not say. */
type Fixture = { bundle: NamedBundle; input: string; params: string | null; timeNs: bigint | null };

/**
 * A directory with `input.json`, the policy (in `policy/` if there is one), and what the policy reads: `params.json`,
 * or `data.json` with `params` and `kosli`, as the export of an evaluation has it.
 * @throws CommandError
 */
export async function readFixture(io: Io, name: string): Promise<Fixture> {
  const has = (file: string): boolean => isFile(resolve(io.cwd, name, file));
  const dataName = join(name, "data.json");
  const data = has("data.json")
    ? Object.fromEntries(memberTexts(requireObject(await readJsonText(io, dataName), dataName)))
    : {};
  const isExport = "params" in data || "kosli" in data;
  const policy = resolve(io.cwd, name, "policy");
  const isApart = statSync(policy, { throwIfNoEntry: false })?.isDirectory() ?? false;
  const except = isExport ? ["data.json"] : [];
  const params = data["params"] === undefined ? null : requireParams(data["params"], `${dataName}: params`);
  const time = /"evaluation_time"\s*:\s*(\d+)/.exec(data["kosli"] ?? "")?.[1];
  return {
    bundle: readBundle(io, isApart ? join(name, "policy") : name, { tests: false, except: isApart ? [] : except }),
    input: await readJsonText(io, join(name, "input.json")),
    params: has("params.json") ? await readParamsText(io, join(name, "params.json")) : params,
    timeNs: time === undefined ? null : BigInt(time),
  };
}

/** What to do about a failure that names no place, by the engine's text; other texts say it themselves. */
const ADVICE: ReadonlyMap<string, string> = new Map([
  ["No package declares a rule named allow", "add one, such as 'default allow := false'"],
]);

/** The mistakes in a failure of the engine, one for each place. */
export function listProblems({ message }: RegoFailure, { files, show }: NamedBundle): RegoProblem[] {
  const problems: RegoProblem[] = [];
  for (const text of message.split("\n")) {
    const path = Object.keys(files).find((file) => text.startsWith(`${file}:`));
    const [, line, rest = ""] = (path && /^(?:(\d+):)? ?(.*)$/.exec(text.slice(path.length + 1))) || [];
    const last = problems.at(-1);
    if (path !== undefined)
      problems.push({ file: show(path), line: line === undefined ? null : Number(line), message: rest });
    // OPA adds the line of the source, and other places.
    else if (last && /^\s/.test(text)) last.message += `\n${text.replace(/^\t/, "    ").replaceAll("\t", " ")}`;
    else {
      const advice = ADVICE.get(text);
      problems.push({ file: show(""), line: null, message: advice === undefined ? text : `${text}: ${advice}` });
    }
  }
  return problems;
}

/** A problem as compilers print it. */
export const renderProblem = ({ file, line, message }: RegoProblem): string =>
  `${file}:${line === null ? "" : `${line}:`} ${message}`;

/** The place at the start of a text of the engine, by the name for people. */
export function showPlace(text: string, { files, show }: NamedBundle): string {
  const path = Object.keys(files).find((file) => text.startsWith(`${file}:`));
  return path === undefined ? text : show(path) + text.slice(path.length);
}
