/**
 * The frame around the commands: finding the command, help, errors and exit codes.
 *
 * A command never touches the process: what it reads and writes comes in as `Io`, and what it returns becomes the exit
 * code, so that a test runs a command like a function. Results go to stdout, everything else to stderr. A name may have
 * two words ("key create"); commands that share the first word form a group, which `assay help key` lists.
 */
import { listAssets, readTextAsset } from "../assets.ts";
import { optionsHelp } from "../config/resolve.ts";
import { nearestNames } from "../domain/text/near-names.ts";
import { ForeignDatabaseError, NewerDatabaseError, UnfinishedRestoreError } from "../store/db/database.ts";
import { DataDirectoryInUseError } from "../store/db/data-directory-lock.ts";
import { EvidenceUnavailableError } from "../evidence/errors.ts";
import { parseArguments } from "./args.ts";
import type { CommandOption } from "./args.ts";
import { EXIT, failureOf, printable } from "./command.ts";
import type { Command, ExitCode, Io } from "./command.ts";
import { configurationProblems } from "./command-config.ts";
import { searchHelp } from "./help-search.ts";
import type { HelpMatch, Topic } from "./help-search.ts";

export { commandFailure, EXIT, EXIT_MEANINGS, oneLine } from "./command.ts";
export type { Command, ExitCode, Io } from "./command.ts";

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
 * Runs the command that `argv` (the words after the program's name) asks for, and resolves to the exit code. Also
 * serves `assay`, `assay help [COMMAND|TOPIC|WORD]`, --help anywhere, and --version where a command named "version"
 * exists. Wrong usage is explained on stderr with exit code 2. An error of a command is reported and gives the exit
 * code of `commandFailure`, that of a newer database or a data directory in use, or 1. Never rejects.
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
    positionals: command.positionals ?? { least: 0, most: 0, names: [] },
  });
  // Whoever asks for help gets it, whatever else is wrong with the line.
  if (options.includes("--help") || options.includes("-h")) {
    io.stdout(commandHelp(command));
    return EXIT.done;
  }
  const mistakes = [...problems, ...(command.check?.(args, io) ?? [])];
  if (mistakes.length > 0) {
    // Without other mistakes the command finds these itself: files and standard input are read only once.
    for (const problem of await configurationProblems(command, args, io)) mistakes.push(problem);
    reportProblems(io, [...new Set(mistakes), `see assay help ${command.name}`], json);
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
  const words = argv.filter((word) => word !== "--json" && word !== "--help" && word !== "-h");
  const [first] = words;
  const command = find(commands, words);
  const group = first === undefined ? [] : groupOf(commands, first);
  const topic = first !== undefined && words.length === 1 ? topicText(first.toLowerCase()) : null;
  if (first === undefined) io.stdout(overview(commands));
  else if (command && words.length === command.name.split(" ").length)
    io.stdout(commandHelp(command) + (topic === null ? "" : `\n${topic}`));
  else if (group.length > 0 && words.length === 1)
    io.stdout(groupHelp(group, first) + (topic === null ? "" : `\n${topic}`));
  else if (topic !== null) io.stdout(topic);
  else {
    const found = isMistyped(commands, words) ? null : searchHelp(commands, topics(), words);
    if (found === null) {
      const text = command
        ? `there is no command ${JSON.stringify(words.join(" ").slice(0, 100))}`
        : unknownCommand(commands, words);
      reportProblems(io, [text], argv.includes("--json"));
      return EXIT.usage;
    }
    io.stdout(searchText(words, found));
  }
  return EXIT.done;
}

/** Whether the second word was meant to name a member of the group that the first one names. */
function isMistyped(commands: readonly Command[], [first = "", second]: readonly string[]): boolean {
  const group = groupOf(commands, first).map(({ name }) => name);
  return second !== undefined && nearestNames(`${first} ${second}`, group).length > 0;
}

function searchText(words: readonly string[], found: HelpMatch): string {
  const parts = [
    ["Topics", found.topics],
    ["Commands", found.commands],
    ["Options", found.options],
  ] as const;
  const shown = parts.flatMap(([head, rows]) => (rows.length === 0 ? [] : [`${head}:\n${columns(rows)}`]));
  const more = "assay help TOPIC and assay help COMMAND tell all of one, assay config explain OPTION does for options.";
  return `No topic or command is called ${JSON.stringify(words.join(" ").slice(0, 100))}. Matches:\n\n${shown.join("\n")}\n${more}\n`;
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
  const failure = failureOf(error);
  if (failure) return failure;
  if (error instanceof NewerDatabaseError) return { problems: [error.message], exitCode: EXIT.newerDatabase };
  if (error instanceof EvidenceUnavailableError)
    return { problems: [`the storage of the evidence gives no answer: ${error.why}`], exitCode: EXIT.failed };
  if (error instanceof DataDirectoryInUseError) return { problems: [error.message], exitCode: EXIT.dataInUse };
  const known =
    error instanceof ForeignDatabaseError ||
    error instanceof UnfinishedRestoreError ||
    ("code" in error && typeof error.code === "string");
  return {
    problems: [known ? error.message : `unexpected failure: ${error.stack ?? error.message}`],
    exitCode: EXIT.failed,
  };
}

function overview(commands: readonly Command[]): string {
  const guide = columns(topicNames().map((name) => [name, topicTitle(name)]));
  const more =
    "assay help COMMAND tells more about one of them, assay help TOPIC is the operator's guide, and\n" +
    "assay help WORD finds what mentions a word.";
  return `Usage: assay COMMAND [OPTIONS]\n\nCommands:\n${list(commands)}\nTopics:\n${guide}\n${more}\n`;
}

const GUIDE = "guide/";

/** The topics of the operator's guide (src/guide/), which ships inside the executable. */
export const topicNames = (): string[] => listAssets(GUIDE).map((key) => key.slice(GUIDE.length, -".md".length));

/** All pages of the guide. */
const topics = (): Topic[] =>
  topicNames().map((name) => ({ name, title: topicTitle(name), text: topicText(name) ?? "" }));

/** The text of a topic in Markdown; null where there is no such topic. */
export const topicText = (name: string): string | null =>
  topicNames().includes(name) ? readTextAsset(`${GUIDE}${name}.md`) : null;

/** What a topic is about: its heading without the name of the topic that it begins with. */
export const topicTitle = (name: string): string =>
  (/^# (.+)$/m.exec(topicText(name) ?? "")?.[1] ?? "").replace(/^[^:]*: /, "");

function groupHelp(group: readonly Command[], word: string): string {
  return `Usage: assay ${word} COMMAND [OPTIONS]\n\nCommands:\n${list(group)}`;
}

function list(commands: readonly Command[]): string {
  return columns(commands.map(({ name, summary }) => [name, summary]));
}

/** The options of a command beside the configuration: its own ones and those that every command has. */
export const commandOptions = (command: Command): Readonly<Record<string, CommandOption>> => ({
  ...command.options,
  ...COMMON_OPTIONS,
});

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
