/**
 * Runs commands: dispatch, help, error reports and exit codes.
 *
 * A command never touches the process. It reads and writes through `Io`, and its result becomes the exit code, so a
 * test can call it like a function. Results go to stdout, everything else to stderr. Names may have two words ("key
 * create"); commands that share the first word form a group, which `assay help key` lists.
 */
import { listAssets, readTextAsset } from "../assets.ts";
import { renderOptionsHelp } from "../config/resolve.ts";
import { findNearestNames } from "../domain/text/near-names.ts";
import { messageOf, withPath } from "../domain/text/system-errors.ts";
import { LostCommitsError } from "../store/db/commit-number.ts";
import {
  DamagedDatabaseError,
  ForeignDatabaseError,
  NewerDatabaseError,
  UnfinishedRestoreError,
  isDamage,
} from "../store/db/database.ts";
import { LostDatabaseError } from "../store/db/lost-database.ts";
import { DataDirectoryInUseError } from "../store/db/data-directory-lock.ts";
import { EvidenceUnavailableError } from "../evidence/errors.ts";
import { AppError } from "../errors.ts";
import { parseArguments } from "./args.ts";
import type { CommandOption } from "./args.ts";
import { CommandError, escapeControls, EXIT } from "./command.ts";
import type { Command, ExitCode, Io } from "./command.ts";
import { findConfigurationProblems } from "./command-config.ts";
import { searchHelp } from "./help-search.ts";
import type { HelpMatches, Topic } from "./help-search.ts";

export { CommandError, EXIT, EXIT_MEANINGS, escapeLine } from "./command.ts";
export type { Command, ExitCode, Io } from "./command.ts";

/**
 * Writes problems to stderr, one line each as `assay: ...`, or with `json` one line {"error": "..."} that joins them.
 * Escapes control characters, because untrusted text must not control the operator's terminal.
 */
export function reportProblems(io: Io, problems: readonly string[], { json }: { json: boolean }): void {
  if (json) io.stderr(`${JSON.stringify({ error: problems.join("; ") })}\n`);
  else for (const problem of problems) io.stderr(`assay: ${escapeControls(problem)}\n`);
}

const COMMON_OPTIONS: Readonly<Record<string, CommandOption>> = {
  help: { kind: "switch", description: "Show this help" },
  json: { kind: "switch", description: "Write results and errors as JSON" },
};

/**
 * Runs the command that `argv` (the arguments after the program's name) selects, and resolves to the exit code. Also
 * handles `assay`, `assay help [COMMAND|TOPIC|WORD]`, --help anywhere, and --version if a command named "version"
 * exists. Explains a usage error on stderr and resolves to 2. Reports an error of the command and resolves to the exit
 * code of its CommandError, to that of a newer database or a data directory in use, or to 1. Also to 1 when the command
 * succeeded and its output could not be written. Never rejects.
 */
export async function runCli(commands: readonly Command[], argv: readonly string[], io: Io): Promise<number> {
  const exitCode = await runWords(commands, argv, io);
  try {
    await io.written();
    return exitCode;
  } catch (error) {
    reportProblems(io, [messageOf(withPath(error, "standard output"))], { json: argv.includes("--json") });
    return exitCode === EXIT.done ? EXIT.failed : exitCode;
  }
}

async function runWords(commands: readonly Command[], argv: readonly string[], io: Io): Promise<number> {
  const [first] = argv;
  if (first === undefined || first === "--help" || first === "-h") {
    io.stdout(renderOverview(commands));
    return EXIT.done;
  }
  if (first === "help") return runHelp(commands, argv.slice(1), io);

  const version = first === "--version" && commands.some(({ name }) => name === "version");
  const words = version ? ["version", ...argv.slice(1)] : argv;
  const end = words.indexOf("--");
  const options = end < 0 ? words : words.slice(0, end);
  const json = options.includes("--json");
  const command = findSpecialCommand(commands, words);
  if (!command) {
    const group = listGroup(commands, first);
    if (group.length > 0 && (options.includes("--help") || options.includes("-h"))) {
      io.stdout(renderGroupHelp(group, first));
      return EXIT.done;
    }
    reportProblems(io, [describeUnknownCommand(commands, words)], { json });
    return EXIT.usage;
  }

  const { args, problems } = parseArguments(words.slice(command.name.split(" ").length), {
    options: commandOptions(command),
    takesConfig: command.takesConfig,
    positionals: command.positionals ?? { min: 0, max: 0, names: [] },
  });
  // --help wins over any mistake in the rest of the line.
  if (options.includes("--help") || options.includes("-h")) {
    io.stdout(renderCommandHelp(command));
    return EXIT.done;
  }
  const mistakes = [...problems, ...(command.check?.(args, io) ?? [])];
  if (mistakes.length > 0) {
    // Not otherwise: the command itself resolves the configuration, and standard input can be read only once.
    for (const problem of await findConfigurationProblems(command, args, io)) mistakes.push(problem);
    reportProblems(io, [...new Set(mistakes), `see assay help ${command.name}`], { json });
    return EXIT.usage;
  }
  try {
    return await command.run(args, io);
  } catch (error) {
    const { problems, exitCode } = describeError(error);
    reportProblems(io, problems, { json });
    return exitCode;
  }
}

function findCommand(commands: readonly Command[], words: readonly string[]): Command | null {
  const [first, second] = words;
  const pair = `${first} ${second}`;
  return commands.find(({ name }) => name === pair) ?? commands.find(({ name }) => name === first) ?? null;
}

/** The command that the words select, for these words. */
function findSpecialCommand(commands: readonly Command[], words: readonly string[]): Command | null {
  const command = findCommand(commands, words);
  return command?.specialize?.(words.slice(command.name.split(" ").length)) ?? command;
}

function listGroup(commands: readonly Command[], word: string): readonly Command[] {
  return commands.filter(({ name }) => name.startsWith(`${word} `));
}

function runHelp(commands: readonly Command[], argv: readonly string[], io: Io): number {
  const words = argv.filter((word) => word !== "--json" && word !== "--help" && word !== "-h");
  const [first] = words;
  const command = findSpecialCommand(commands, words);
  const group = first === undefined ? [] : listGroup(commands, first);
  const topic = first !== undefined && words.length === 1 ? findTopicText(first.toLowerCase()) : null;
  if (first === undefined) io.stdout(renderOverview(commands));
  else if (command && words.length === command.name.split(" ").length)
    io.stdout(renderCommandHelp(command) + (topic === null ? "" : `\n${topic}`));
  else if (group.length > 0 && words.length === 1)
    io.stdout(renderGroupHelp(group, first) + (topic === null ? "" : `\n${topic}`));
  else if (topic !== null) io.stdout(topic);
  else {
    const found = isMistyped(commands, words) ? null : searchHelp(commands, listTopics(), words);
    if (found === null) {
      const text = command
        ? `there is no command ${JSON.stringify(words.join(" ").slice(0, 100))}; see assay help ${command.name}`
        : describeUnknownCommand(commands, words);
      reportProblems(io, [text], { json: argv.includes("--json") });
      return EXIT.usage;
    }
    io.stdout(renderSearch(words, found));
  }
  return EXIT.done;
}

/** Whether the second word looks like a mistyped member of the group that the first word names. */
function isMistyped(commands: readonly Command[], [first = "", second]: readonly string[]): boolean {
  const group = listGroup(commands, first).map(({ name }) => name);
  return second !== undefined && findNearestNames(`${first} ${second}`, group).length > 0;
}

function renderSearch(words: readonly string[], found: HelpMatches): string {
  const parts = [
    ["Topics", found.topics],
    ["Commands", found.commands],
    ["Options", found.options],
  ] as const;
  const sections = parts.flatMap(([head, rows]) => (rows.length === 0 ? [] : [`${head}:\n${renderColumns(rows)}`]));
  const more = "For details: assay help TOPIC, assay help COMMAND or assay config explain OPTION.";
  const name = JSON.stringify(words.join(" ").slice(0, 100));
  return `No topic or command is named ${name}. Matches:\n\n${sections.join("\n")}\n${more}\n`;
}

function describeUnknownCommand(commands: readonly Command[], words: readonly string[]): string {
  const [first = "", second] = words;
  if (first.startsWith("-"))
    return `options come after the command: assay COMMAND ${first.slice(0, 100)}; see assay help`;
  const group = listGroup(commands, first).map(({ name }) => name);
  if (group.length > 0 && (second === undefined || second.startsWith("-"))) {
    return `${first} needs a subcommand: ${group.join(", ")}`;
  }
  const word = group.length > 0 ? `${first} ${second}` : first;
  const firstWords = new Set(commands.map(({ name }) => name.split(" ")[0] ?? ""));
  const near = findNearestNames(word, group.length > 0 ? group : [...firstWords]);
  const hint = near.length > 0 ? `did you mean ${near.join(" or ")}?` : "see assay help";
  return `unknown command ${JSON.stringify(word.slice(0, 100))}; ${hint}`;
}

// The message of an error with a code (from the operating system, the database or the application) is enough, as is
// that of an error class of the store. Any other error is a bug, and its report needs the stack.
function describeError(error: unknown): { problems: readonly string[]; exitCode: ExitCode } {
  if (!(error instanceof Error)) return { problems: [`unexpected failure: ${String(error)}`], exitCode: EXIT.failed };
  if (error instanceof CommandError) return error;
  if (error instanceof NewerDatabaseError) return { problems: [error.message], exitCode: EXIT.newerDatabase };
  if (error instanceof DamagedDatabaseError || isDamage(error)) {
    const problems = error instanceof DamagedDatabaseError ? error.problems : [error.message];
    return {
      problems: [
        ...problems.map((problem) => `the database is damaged: ${problem}`),
        "keep it as it is; assay help troubleshooting says what to do",
      ],
      exitCode: EXIT.damaged,
    };
  }
  if (error instanceof EvidenceUnavailableError)
    return { problems: [`the evidence store does not respond: ${error.why}`], exitCode: EXIT.failed };
  if (error instanceof LostCommitsError) return { problems: [error.message], exitCode: EXIT.damaged };
  if (error instanceof DataDirectoryInUseError) return { problems: [error.message], exitCode: EXIT.dataInUse };
  if (error instanceof AppError) return { problems: describeRefusal(error), exitCode: EXIT.failed };
  const known =
    error instanceof ForeignDatabaseError ||
    error instanceof UnfinishedRestoreError ||
    error instanceof LostDatabaseError ||
    ("code" in error && typeof error.code === "string");
  return {
    problems: [known ? messageOf(error) : `unexpected failure: ${error.stack ?? error.message}`],
    exitCode: EXIT.failed,
  };
}

/** The server hides from clients why a write failed; the operator needs it. */
function describeRefusal(error: AppError): string[] {
  if (error.fields) return Object.entries(error.fields).map(([field, problem]) => `${field}: ${problem}`);
  return [error.internal instanceof Error ? `${error.message} (${messageOf(error.internal)})` : error.message];
}

function renderOverview(commands: readonly Command[]): string {
  const guide = renderColumns(listTopicNames().map((name) => [name, topicTitle(name)]));
  const more =
    "assay help COMMAND    show the usage and options of a command\n" +
    "assay help TOPIC      read a topic of the operator's guide\n" +
    "assay help WORD       search topics, commands and options for a word";
  return `Usage: assay COMMAND [OPTIONS]\n\nCommands:\n${renderCommandList(commands)}\nTopics:\n${guide}\n${more}\n`;
}

const GUIDE_PREFIX = "guide/";

/** Lists the topics of the operator's guide (src/guide/), which ships inside the executable. */
export const listTopicNames = (): string[] =>
  listAssets(GUIDE_PREFIX).map((key) => key.slice(GUIDE_PREFIX.length, -".md".length));

const listTopics = (): Topic[] =>
  listTopicNames().map((name) => ({ name, title: topicTitle(name), text: findTopicText(name) ?? "" }));

/**
 * Returns the Markdown text of a topic; null if there is no such topic. Comments, which mark the parts that
 * `make golden` writes, are left out.
 */
export const findTopicText = (name: string): string | null =>
  listTopicNames().includes(name) ? readTextAsset(`${GUIDE_PREFIX}${name}.md`).replace(/^<!-- .* -->\n/gm, "") : null;

/** Returns the heading of a topic without the name that it begins with, in sentence case. */
export function topicTitle(name: string): string {
  const title = (/^# (.+)$/m.exec(findTopicText(name) ?? "")?.[1] ?? "").replace(/^[^:]*: /, "");
  return title.charAt(0).toUpperCase() + title.slice(1);
}

function renderGroupHelp(group: readonly Command[], word: string): string {
  return `Usage: assay ${word} COMMAND [OPTIONS]\n\nCommands:\n${renderCommandList(group)}`;
}

function renderCommandList(commands: readonly Command[]): string {
  return renderColumns(commands.map(({ name, summary }) => [name, summary]));
}

/** Returns the command's own options and those of every command, without configuration options. */
export const commandOptions = (command: Command): Readonly<Record<string, CommandOption>> => ({
  ...command.options,
  ...COMMON_OPTIONS,
});

function renderCommandHelp(command: Command): string {
  const ownOptions = Object.entries(commandOptions(command)).map(([name, option]): [string, string] => [
    option.kind === "text" ? `--${name} ${option.placeholder}` : `--${name}`,
    option.description,
  ]);
  const usage = `Usage: assay ${command.name} ${command.usage}`.trimEnd();
  const config = command.takesConfig ? `\nConfiguration:\n${renderOptionsHelp()}` : "";
  const details = command.details ? `\n\n${command.details.map(wrapText).join("\n")}` : "";
  return `${usage}\n\n${command.summary}${details}\n\nOptions:\n${renderColumns(ownOptions)}${config}`;
}

const HELP_COLUMNS = 80;

/** Breaks a paragraph between words into lines of at most HELP_COLUMNS characters. */
function wrapText(paragraph: string): string {
  const lines: string[] = [];
  for (const word of paragraph.split(" ")) {
    const line = lines.at(-1);
    if (line === undefined || line.length + 1 + word.length > HELP_COLUMNS) lines.push(word);
    else lines[lines.length - 1] = `${line} ${word}`;
  }
  return lines.join("\n");
}

function renderColumns(rows: readonly (readonly [string, string])[]): string {
  const width = Math.max(0, ...rows.map(([head]) => head.length)) + 2;
  return rows.map(([head, text]) => `  ${head.padEnd(width)}${text}\n`).join("");
}
