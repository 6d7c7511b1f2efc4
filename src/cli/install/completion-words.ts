/** What a shell has to know to complete command lines, from the tables of commands and options. */
import { ROWS } from "../../config/options.ts";
import type { CommandOption } from "../args.ts";
import { commandOptions, topicNames } from "../framework.ts";
import type { Command } from "../framework.ts";

/**
 * What may stand where a value is expected: the name of a file or a directory, one of a few words, or a text nobody can
 * guess.
 */
export type Value = "file" | "directory" | "text" | readonly string[];

/** One option: `value` is null for a switch. */
export type OptionWord = {
  readonly flag: string;
  readonly description: string;
  readonly placeholder: string;
  readonly value: Value | null;
};

/** One command with its own options; those of the configuration come beside them where `takesConfig` says so. */
export type CommandWords = {
  readonly name: string;
  readonly summary: string;
  readonly options: readonly OptionWord[];
  readonly takesConfig: boolean;
  /** What its positional words may be; null where it takes none. */
  readonly positional: Value | null;
};

/** All that a shell has to know. */
export type Vocabulary = { readonly commands: readonly CommandWords[]; readonly config: readonly OptionWord[] };

export function vocabularyOf(commands: readonly Command[]): Vocabulary {
  const config = ROWS.map(({ flag, description, placeholder, accepts, parse }): OptionWord => {
    return {
      flag,
      description,
      placeholder,
      value: choices(accepts, (word) => parse(word) !== null) ?? valueOf(placeholder),
    };
  });
  const words = commands.map(
    (command): CommandWords => ({
      name: command.name,
      summary: command.summary,
      options: Object.entries(commandOptions(command)).map(([flag, option]) => ({ flag, ...optionWord(option) })),
      takesConfig: command.takesConfig,
      positional:
        (command.positionals?.most ?? 0) === 0 ? null : (command.positionals?.words ?? positionalOf(command.usage)),
    }),
  );
  const help: CommandWords = {
    name: "help",
    options: [],
    takesConfig: false,
    summary: "Tell more about a command or a topic of the operator's guide, or find what mentions a word",
    positional: [...new Set([...commands.map(({ name }) => name.split(" ")[0] ?? ""), ...topicNames()])],
  };
  return { commands: [...words, help], config };
}

const optionWord = (option: CommandOption): Omit<OptionWord, "flag"> =>
  option.kind === "switch"
    ? { description: option.description, placeholder: "", value: null }
    : { description: option.description, placeholder: option.placeholder, value: valueOf(option.placeholder) };

/** Placeholders say what they stand for. */
function valueOf(placeholder: string): Value {
  if (/FILE$/.test(placeholder)) return "file";
  return /^(DIR|DIRECTORY)$/.test(placeholder) ? "directory" : "text";
}

/** "refuse or allow" and the like are all that is accepted; in other sentences there is some word that is not. */
function choices(accepts: string, isAccepted: (word: string) => boolean): readonly string[] | null {
  const words = accepts.split(/, | or /);
  return words.length > 1 && words.every((word) => /^[a-z]+$/.test(word) && isAccepted(word)) ? words : null;
}

/** The first word of a usage line that is no option. */
function positionalOf(usage: string): Value {
  const [word = ""] = usage
    .replace(/\[?--[a-z-]+( [A-Z][^ ]*)?\]?/g, "")
    .trim()
    .split(" ");
  return valueOf(word.replace(/[[\].]/g, ""));
}

/** The first words of commands, each with what it does: a group with the names of its members. */
export function firstWords({ commands }: Vocabulary): { word: string; description: string }[] {
  const words = new Map<string, string>();
  for (const { name, summary } of commands) {
    const [first = "", second] = name.split(" ");
    words.set(first, second === undefined ? summary : [words.get(first), second].filter(Boolean).join(", "));
  }
  return [...words].map(([word, description]) => ({ word, description }));
}

/** The members of each group by the group's word, in the order of the table. */
export function commandGroups({ commands }: Vocabulary): Map<string, { word: string; description: string }[]> {
  const groups = new Map<string, { word: string; description: string }[]>();
  for (const { name, summary } of commands) {
    const [first = "", second] = name.split(" ");
    if (second !== undefined) groups.set(first, [...(groups.get(first) ?? []), { word: second, description: summary }]);
  }
  return groups;
}
