/** The vocabulary of shell completion, from the tables of commands and options. */
import { OPTION_ROWS } from "../../config/options.ts";
import type { CommandOption } from "../args.ts";
import { commandOptions, listTopicNames } from "../framework.ts";
import type { Command } from "../framework.ts";

/** The kind of a value: a file name, a directory name, free text, or one of a few words. */
export type ValueKind = "file" | "directory" | "text" | readonly string[];

/** One option; `value` is null for a switch. */
export type OptionWord = {
  readonly flag: string;
  readonly description: string;
  readonly placeholder: string;
  readonly value: ValueKind | null;
};

/** One command with its own options. With `takesConfig` it also takes the configuration options. */
export type CommandWords = {
  readonly name: string;
  readonly summary: string;
  readonly options: readonly OptionWord[];
  readonly takesConfig: boolean;
  /** The kind of its positionals; null if it takes none. */
  readonly positional: ValueKind | null;
};

export type Vocabulary = { readonly commands: readonly CommandWords[]; readonly config: readonly OptionWord[] };

export function createVocabulary(commands: readonly Command[]): Vocabulary {
  const config = OPTION_ROWS.map(({ flag, description, placeholder, accepts, parse }): OptionWord => {
    return {
      flag,
      description,
      placeholder,
      value: parseChoices(accepts, (word) => parse(word) !== null) ?? valueKindOf(placeholder),
    };
  });
  const words = commands.map(
    (command): CommandWords => ({
      name: command.name,
      summary: command.summary,
      options: Object.entries(commandOptions(command)).map(([flag, option]) => ({ flag, ...optionWord(option) })),
      takesConfig: command.takesConfig,
      positional:
        (command.positionals?.max ?? 0) === 0 ? null : (command.positionals?.words ?? positionalKindOf(command.usage)),
    }),
  );
  const help: CommandWords = {
    name: "help",
    options: [],
    takesConfig: false,
    summary: "Show the help of a command or a topic of the operator's guide, or search for a word",
    positional: [...new Set([...commands.map(({ name }) => name.split(" ")[0] ?? ""), ...listTopicNames()])],
  };
  return { commands: [...words, help], config };
}

const optionWord = (option: CommandOption): Omit<OptionWord, "flag"> =>
  option.kind === "switch"
    ? { description: option.description, placeholder: "", value: null }
    : { description: option.description, placeholder: option.placeholder, value: valueKindOf(option.placeholder) };

/** Derives the kind of a value from its placeholder. */
function valueKindOf(placeholder: string): ValueKind {
  if (/FILE$/.test(placeholder)) return "file";
  return /^(DIR|DIRECTORY)$/.test(placeholder) ? "directory" : "text";
}

/** Parses a description that lists all accepted words, such as "refuse or allow"; null for any other description. */
function parseChoices(accepts: string, isAccepted: (word: string) => boolean): readonly string[] | null {
  const words = accepts.split(/, | or /);
  return words.length > 1 && words.every((word) => /^[a-z]+$/.test(word) && isAccepted(word)) ? words : null;
}

/** Derives the kind of the positionals from the first word of the usage line that is not an option. */
function positionalKindOf(usage: string): ValueKind {
  const [word = ""] = usage
    .replace(/\[?--[a-z-]+( [A-Z][^ ]*)?\]?/g, "")
    .trim()
    .split(" ");
  return valueKindOf(word.replace(/[[\].]/g, ""));
}

/** Lists the first words of the commands with descriptions; that of a group lists its members. */
export function listFirstWords({ commands }: Vocabulary): { word: string; description: string }[] {
  const words = new Map<string, string>();
  for (const { name, summary } of commands) {
    const [first = "", second] = name.split(" ");
    words.set(first, second === undefined ? summary : [words.get(first), second].filter(Boolean).join(", "));
  }
  return [...words].map(([word, description]) => ({ word, description }));
}

/** Returns the members of each command group by its first word, in the order of the table. */
export function groupCommands({ commands }: Vocabulary): Map<string, { word: string; description: string }[]> {
  const groups = new Map<string, { word: string; description: string }[]>();
  for (const { name, summary } of commands) {
    const [first = "", second] = name.split(" ");
    if (second !== undefined) groups.set(first, [...(groups.get(first) ?? []), { word: second, description: summary }]);
  }
  return groups;
}
