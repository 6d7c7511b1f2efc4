/**
 * The frame around the commands: finding the command, help, errors and exit codes.
 *
 * A command never touches the process: what it reads and writes comes in as `Io`, and what it returns becomes the exit
 * code, so that a test runs a command like a function. Results go to stdout, everything else to stderr. A name may have
 * two words ("key create"); commands that share the first word form a group, which `assay help key` lists.
 */
import { listAssets, readTextAsset } from "../assets.ts";
import { optionsHelp } from "../config.ts";
import { nearestNames } from "../domain/near-names.ts";
import { ForeignDatabaseError, NewerDatabaseError, UnfinishedRestoreError } from "../store/database.ts";
import { DataDirectoryInUseError } from "../store/lock.ts";
import { EvidenceUnavailableError } from "../vault/errors.ts";
import { parseArguments } from "./args.ts";
import type { Args, CommandOption } from "./args.ts";

/** What a command may touch. `stdout` and `stderr` write the text as it is; `cwd` is an absolute path. */
export type Io = {
  stdout(text: string): void;
  stderr(text: string): void;
  stdin: AsyncIterable<Uint8Array | string>;
  env: Readonly<Record<string, string | undefined>>;
  cwd: string;
  /** The number of this process. */
  pid: number;
  /** Takes variables out of the environment: what this process starts does not get them, and `env` has them no more. */
  forget(variables: readonly string[]): void;
  /** Whether stdout is a terminal. */
  isTty: boolean;
  /** Whether stdin, and stderr, is one: whether somebody can be asked, and whether a progress bar is seen. */
  stdinIsTty: boolean;
  stderrIsTty: boolean;
  /**
   * Asks on the terminal, without showing what is typed; only where stdin is one. Null when the answer was given up (Ctrl-C, Ctrl-D).
   */
  askHidden(question: string): Promise<string | null>;
  /** Writes bytes to stdout and resolves when more may come. Rejects when nobody reads any more. */
  writeBytes(bytes: Uint8Array): Promise<void>;
  /** From now on the signal does not end the process but calls `listener`, each time it comes. */
  onSignal(signal: "SIGHUP" | "SIGUSR1", listener: () => void): void;
  /**
   * From now on the first request to stop (SIGTERM, SIGINT) does not end the process but resolves the promise with the
   * name of the signal; a second one ends the process at once. Never rejects.
   */
  stopRequested(): Promise<string>;
  /** From now on an error that nothing caught is given to `listener`, and then the process ends with exit code 1. */
  onCrash(listener: (error: unknown) => void): void;
};

/**
 * One command. `name` has one or two words; `summary` is one line for the list of commands; `details` more lines for its
 * own help; `usage` what follows `assay NAME` in the usage line; `options` its own options (--help and --json belong to every command);
 * `takesConfig` says whether it takes the options of config.ts too; `positionals` how many positional words it wants,
 * none unless given. `run` resolves to an exit code, or fails with `commandFailure` or any other error.
 */
export type Command = {
  readonly name: string;
  readonly summary: string;
  readonly details?: readonly string[];
  readonly usage: string;
  readonly options: Readonly<Record<string, CommandOption>>;
  readonly takesConfig: boolean;
  readonly positionals?: Positionals;
  run(args: Args, io: Io): Promise<number>;
};

/** How many positional words a command wants; `words` are the only ones that make sense, for completion by a shell. */
export type Positionals = { readonly least: number; readonly most: number; readonly words?: readonly string[] };

/** The exit codes of the program; scripts rely on them. */
export const EXIT = {
  done: 0,
  failed: 1,
  usage: 2,
  /** The database was written by a newer version of the program. */
  newerDatabase: 3,
  /** Another process uses the data directory. */
  dataInUse: 4,
  /** A verification found damage. */
  damaged: 5,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** What the exit codes say, for the manual. */
export const EXIT_MEANINGS: Readonly<Record<keyof typeof EXIT, string>> = {
  done: "Done.",
  failed: "Failed; the reason is on standard error.",
  usage: "Wrong usage: an option, an argument or the configuration.",
  newerDatabase: "The database was written by a newer version of the program.",
  dataInUse: "Another process uses the data directory.",
  damaged: "A verification found damage.",
};

const failures = new WeakMap<Error, { problems: readonly string[]; exitCode: ExitCode }>();

/**
 * An error for `throw` that ends the command: its message, or each of several, is shown as it is, and `exitCode` is the
 * program's.
 */
export function commandFailure(message: string | readonly string[], exitCode: ExitCode = EXIT.failed): Error {
  const problems = typeof message === "string" ? [message] : message;
  const error = new Error(problems.join("; "));
  failures.set(error, { problems, exitCode });
  return error;
}

/**
 * Writes problems to stderr, one line each as `assay: ...`, or with `json` one line {"error": "..."} that joins them.
 * Control characters are shown escaped, because texts of other people must not steer the operator's terminal.
 */
export function reportProblems(io: Io, problems: readonly string[], json: boolean): void {
  if (json) io.stderr(`${JSON.stringify({ error: problems.join("; ") })}\n`);
  else for (const problem of problems) io.stderr(`assay: ${printable(problem)}\n`);
}

const COMMON_OPTIONS: Readonly<Record<string, CommandOption>> = {
  help: { kind: "switch", description: "Show this help" },
  json: { kind: "switch", description: "Write results and errors as JSON" },
};

/**
 * Runs the command that `argv` (the words after the program's name) asks for, and resolves to the exit code. Also serves
 * `assay`, `assay help [COMMAND]`, --help anywhere, and --version where a command named "version" exists. Wrong usage is
 * explained on stderr with exit code 2. An error of a command is reported and gives the exit code of `commandFailure`,
 * that of a newer database or a data directory in use, or 1. Never rejects.
 */
export async function runCli(commands: readonly Command[], argv: readonly string[], io: Io): Promise<number> {
  const [first] = argv;
  if (first === undefined || first === "--help" || first === "-h") {
    io.stdout(overview(commands));
    return EXIT.done;
  }
  if (first === "help") return help(commands, argv.slice(1), io);

  const version = first === "--version" && commands.some(({ name }) => name === "version");
  const words = version ? ["version", ...argv.slice(1)] : argv;
  const end = words.indexOf("--");
  const options = end < 0 ? words : words.slice(0, end);
  const json = options.includes("--json");
  const command = find(commands, words);
  if (!command) {
    const group = groupOf(commands, first);
    if (group.length > 0 && (options.includes("--help") || options.includes("-h"))) {
      io.stdout(groupHelp(group, first));
      return EXIT.done;
    }
    reportProblems(io, [unknownCommand(commands, words)], json);
    return EXIT.usage;
  }

  const { args, problems } = parseArguments(words.slice(command.name.split(" ").length), {
    options: commandOptions(command),
    takesConfig: command.takesConfig,
    positionals: command.positionals ?? { least: 0, most: 0 },
  });
  // Whoever asks for help gets it, whatever else is wrong with the line.
  if (options.includes("--help") || options.includes("-h")) {
    io.stdout(commandHelp(command));
    return EXIT.done;
  }
  if (problems !== null) {
    reportProblems(io, [...problems, `see assay help ${command.name}`], json);
    return EXIT.usage;
  }
  try {
    return await command.run(args, io);
  } catch (error) {
    const { problems, exitCode } = describe(error);
    reportProblems(io, problems, json);
    return exitCode;
  }
}

function find(commands: readonly Command[], words: readonly string[]): Command | null {
  const [first, second] = words;
  const pair = `${first} ${second}`;
  return commands.find(({ name }) => name === pair) ?? commands.find(({ name }) => name === first) ?? null;
}

function groupOf(commands: readonly Command[], word: string): readonly Command[] {
  return commands.filter(({ name }) => name.startsWith(`${word} `));
}

function help(commands: readonly Command[], argv: readonly string[], io: Io): number {
  const words = argv.filter((word) => !word.startsWith("-"));
  const [first] = words;
  const command = find(commands, words);
  const group = first === undefined ? [] : groupOf(commands, first);
  const topic = first !== undefined && words.length === 1 ? topicText(first.toLowerCase()) : null;
  if (first === undefined) io.stdout(overview(commands));
  else if (command && words.length === command.name.split(" ").length) io.stdout(commandHelp(command) + (topic === null ? "" : `\n${topic}`));
  else if (group.length > 0 && words.length === 1) io.stdout(groupHelp(group, first) + (topic === null ? "" : `\n${topic}`));
  else if (topic !== null) io.stdout(topic);
  else {
    const text = command ? `there is no command ${JSON.stringify(words.join(" "))}` : unknownCommand(commands, words);
    reportProblems(io, [text], argv.includes("--json"));
    return EXIT.usage;
  }
  return EXIT.done;
}

function unknownCommand(commands: readonly Command[], words: readonly string[]): string {
  const [first = "", second] = words;
  if (first.startsWith("-")) return `options follow the command: assay COMMAND ${first.slice(0, 100)}; see assay help`;
  const group = groupOf(commands, first).map(({ name }) => name);
  if (group.length > 0 && (second === undefined || second.startsWith("-"))) {
    return `${first} needs another word: ${group.join(", ")}`;
  }
  const word = group.length > 0 ? `${first} ${second}` : first;
  const firstWords = new Set(commands.map(({ name }) => name.split(" ")[0] ?? ""));
  const near = nearestNames(word, group.length > 0 ? group : [...firstWords]);
  const hint = near.length > 0 ? `did you mean ${near.join(" or ")}?` : "see assay help";
  return `unknown command ${JSON.stringify(word.slice(0, 100))}; ${hint}`;
}

// An error with a code is of a known kind (the operating system, the database, the application) and its message says
// enough, as does that of an error class of the store. Any other one is a mistake of the program, whose stack somebody
// will want to see.
function describe(error: unknown): { problems: readonly string[]; exitCode: ExitCode } {
  if (!(error instanceof Error)) return { problems: [`unexpected failure: ${String(error)}`], exitCode: EXIT.failed };
  const failure = failures.get(error);
  if (failure) return failure;
  if (error instanceof NewerDatabaseError) return { problems: [error.message], exitCode: EXIT.newerDatabase };
  if (error instanceof EvidenceUnavailableError) return { problems: [`the storage of the evidence gives no answer: ${error.why}`], exitCode: EXIT.failed };
  if (error instanceof DataDirectoryInUseError) return { problems: [error.message], exitCode: EXIT.dataInUse };
  const known = error instanceof ForeignDatabaseError || error instanceof UnfinishedRestoreError || ("code" in error && typeof error.code === "string");
  return { problems: [known ? error.message : `unexpected failure: ${error.stack ?? error.message}`], exitCode: EXIT.failed };
}

function overview(commands: readonly Command[]): string {
  const topics = columns(topicNames().map((name) => [name, topicTitle(name)]));
  const more = "assay help COMMAND tells more about one of them, assay help TOPIC is the operator's guide.";
  return `Usage: assay COMMAND [OPTIONS]\n\nCommands:\n${list(commands)}\nTopics:\n${topics}\n${more}\n`;
}

const GUIDE = "guide/";

/** The topics of the operator's guide (src/guide/), which ships inside the executable. */
export const topicNames = (): string[] => listAssets(GUIDE).map((key) => key.slice(GUIDE.length, -".md".length));

/** The text of a topic in Markdown; null where there is no such topic. */
export const topicText = (name: string): string | null => (topicNames().includes(name) ? readTextAsset(`${GUIDE}${name}.md`) : null);

/** What a topic is about: its heading without the name of the topic that it begins with. */
export const topicTitle = (name: string): string => (/^# (.+)$/m.exec(topicText(name) ?? "")?.[1] ?? "").replace(/^[^:]*: /, "");

function groupHelp(group: readonly Command[], word: string): string {
  return `Usage: assay ${word} COMMAND [OPTIONS]\n\nCommands:\n${list(group)}`;
}

function list(commands: readonly Command[]): string {
  return columns(commands.map(({ name, summary }) => [name, summary]));
}

/** The options of a command beside the configuration: its own ones and those that every command has. */
export const commandOptions = (command: Command): Readonly<Record<string, CommandOption>> => ({ ...command.options, ...COMMON_OPTIONS });

function commandHelp(command: Command): string {
  const own = Object.entries(commandOptions(command)).map(([name, option]): [string, string] => [
    option.kind === "text" ? `--${name} ${option.placeholder}` : `--${name}`,
    option.description,
  ]);
  const usage = `Usage: assay ${command.name} ${command.usage}`.trimEnd();
  const config = command.takesConfig ? `\nConfiguration:\n${optionsHelp()}` : "";
  const details = command.details ? `\n\n${command.details.join("\n")}` : "";
  return `${usage}\n\n${command.summary}${details}\n\nOptions:\n${columns(own)}${config}`;
}

function columns(rows: readonly (readonly [string, string])[]): string {
  const width = Math.max(0, ...rows.map(([head]) => head.length)) + 2;
  return rows.map(([head, text]) => `  ${head.padEnd(width)}${text}\n`).join("");
}

/** A text of somebody else as part of one line: control characters are shown escaped. */
export function oneLine(text: string): string {
  return printable(text).replaceAll("\n", "\\u000a");
}

function printable(text: string): string {
  return text.replace(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/g, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}
