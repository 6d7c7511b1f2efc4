/** `assay help WORD` for a word that names neither a command nor a topic: what mentions it. */
import { ROWS } from "../config/options.ts";
import type { Command } from "./command.ts";

/** A page of the guide: its name, its heading without that name, and its text in Markdown. */
export type Topic = { readonly name: string; readonly title: string; readonly text: string };

/** What was found, in the order in which it is shown: each with its name and a line about it. */
export type HelpMatch = {
  readonly topics: readonly (readonly [string, string])[];
  readonly commands: readonly (readonly [string, string])[];
  readonly options: readonly (readonly [string, string])[];
};

/** Words of a search that count; a command line may hold any number. */
const MAX_WORDS = 8;
const MAX_WORD_CHARS = 100;
const MAX_TOPICS = 8;

/**
 * Looks for all of `words`, in whatever case, number and as beginnings of words, in the pages of the guide, in commands
 * with their own options, and in the options of the configuration. Dashes before a word do not count. Null where
 * nothing has them all.
 */
export function searchHelp(
  commands: readonly Command[],
  topics: readonly Topic[],
  words: readonly string[],
): HelpMatch | null {
  const bare = words.slice(0, MAX_WORDS).map((word) => word.replace(/^-+/, ""));
  const wanted = bare.filter((word) => /[\p{L}\p{N}]/u.test(word)).map(patternOf);
  if (wanted.length === 0) return null;
  const has = (...texts: readonly string[]): boolean => hasAll(texts.join("\n"), wanted);
  // These two pages are made of the tables below.
  const isTable = (name: string): boolean => name === "options" || name === "commands";
  const pages = topics.filter(({ name, title, text }) => has(name, isTable(name) ? title : text));
  const found: HelpMatch = {
    topics: ranked(pages, wanted)
      .slice(0, MAX_TOPICS)
      .map(({ name, title, text }) => [name, `${title}${section(text, wanted)}`]),
    commands: commands
      .filter(({ name, summary, details = [], usage, options }) => {
        const own = Object.entries(options).filter(([, option]) => isOwn(option));
        return has(name, summary, usage, ...details, ...own.flatMap(([flag, option]) => [flag, option.description]));
      })
      .map(({ name, summary }) => [name, summary]),
    options: ROWS.filter(({ flag, variable, key, description, accepts }) =>
      has(flag, variable, key ?? "", description, accepts),
    ).map(({ flag, placeholder, description }) => [`--${flag} ${placeholder}`, description]),
  };
  return found.topics.length + found.commands.length + found.options.length === 0 ? null : found;
}

/** Finds the beginnings of words, in the singular and the plural: roles finds role, policies policy. */
function patternOf(word: string): RegExp {
  const stem = word.length > 3 ? word.replace(/(?:ies|y|s)$/i, "") : word;
  return new RegExp(`(?<![a-z0-9])${stem.slice(0, MAX_WORD_CHARS).replace(/[^a-z0-9]/gi, "\\$&")}`, "gi");
}

// As search() does, and unlike test(), whatever was found before.
const hasAll = (text: string, patterns: readonly RegExp[]): boolean =>
  patterns.every((pattern) => text.search(pattern) >= 0);

/** Options of the configuration are told once, and not with every command that takes them. */
const isOwn = (option: Command["options"][string]): boolean => option.kind === "switch" || option.isSetting !== true;

/**
 * The pages that are about the words first: those with them in name or heading, then those that say them most often.
 */
function ranked(pages: readonly Topic[], patterns: readonly RegExp[]): Topic[] {
  const weightOf = ({ name, title, text }: Topic): number => {
    const inHead = hasAll(`${name} ${title}`, patterns) ? 1_000_000 : 0;
    return inHead + patterns.reduce((sum, pattern) => sum + (text.match(pattern) ?? []).length, 0);
  };
  return pages
    .map((page) => ({ page, weight: weightOf(page) }))
    .sort((a, b) => b.weight - a.weight)
    .map(({ page }) => page);
}

/** The first section of a page whose heading has all the words, as a remark behind the title. */
function section(text: string, patterns: readonly RegExp[]): string {
  const headings = [...text.matchAll(/^##+ (.+)$/gm)].map((match) => match[1] ?? "");
  const heading = headings.find((one) => hasAll(one, patterns));
  return heading === undefined ? "" : ` (section ${heading})`;
}
