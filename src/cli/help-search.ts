/** Full-text search of the help: `assay help WORD` for a word that is neither a command nor a topic. */
import { OPTION_ROWS } from "../config/options.ts";
import type { Command } from "./command.ts";

/** A page of the guide: its name, its heading without that name, and its text in Markdown. */
export type Topic = { readonly name: string; readonly title: string; readonly text: string };

/** Search results in display order, each as a name and a line that describes it. */
export type HelpMatches = {
  readonly topics: readonly (readonly [string, string])[];
  readonly commands: readonly (readonly [string, string])[];
  readonly options: readonly (readonly [string, string])[];
};

/** Further words are ignored; a command line may hold any number. */
const MAX_WORDS = 8;
const MAX_WORD_CHARS = 100;
const MAX_TOPICS = 8;

/**
 * Finds guide pages, commands (with their own options) and configuration options that contain all of `words`. Matches
 * prefixes of words, ignoring case, plural endings and leading dashes. Null if nothing matches.
 */
export function searchHelp(
  commands: readonly Command[],
  topics: readonly Topic[],
  words: readonly string[],
): HelpMatches | null {
  const bare = words.slice(0, MAX_WORDS).map((word) => word.replace(/^-+/, ""));
  const wanted = bare.filter((word) => /[\p{L}\p{N}]/u.test(word)).map(patternOf);
  if (wanted.length === 0) return null;
  const has = (...texts: readonly string[]): boolean => hasAll(texts.join("\n"), wanted);
  // These two pages are generated from the tables searched below.
  const isTable = (name: string): boolean => name === "options" || name === "commands";
  const pages = topics.filter(({ name, title, text }) => has(name, isTable(name) ? title : text));
  const found: HelpMatches = {
    topics: rankTopics(pages, wanted)
      .slice(0, MAX_TOPICS)
      .map(({ name, title, text }) => [name, `${title}${findSection(text, wanted)}`]),
    commands: commands
      .filter(({ name, summary, details = [], usage, options }) => {
        const own = Object.entries(options).filter(([, option]) => isCommandOption(option));
        return has(name, summary, usage, ...details, ...own.flatMap(([flag, option]) => [flag, option.description]));
      })
      .map(({ name, summary }) => [name, summary]),
    options: OPTION_ROWS.filter(({ flag, variable, key, description, accepts }) =>
      has(flag, variable, key ?? "", description, accepts),
    ).map(({ flag, placeholder, description }) => [`--${flag} ${placeholder}`, description]),
  };
  return found.topics.length + found.commands.length + found.options.length === 0 ? null : found;
}

/** Matches a prefix of a word, singular or plural: "roles" finds role, "policies" finds policy. */
function patternOf(word: string): RegExp {
  const stem = word.length > 3 ? word.replace(/(?:ies|y|s)$/i, "") : word;
  return new RegExp(`(?<![a-z0-9])${stem.slice(0, MAX_WORD_CHARS).replace(/[^a-z0-9]/gi, "\\$&")}`, "gi");
}

// search(), unlike test(), ignores the lastIndex of a global pattern.
const hasAll = (text: string, patterns: readonly RegExp[]): boolean =>
  patterns.every((pattern) => text.search(pattern) >= 0);

/** Configuration options are listed once, not with every command that takes them. */
const isCommandOption = (option: Command["options"][string]): boolean =>
  option.kind === "switch" || option.isSetting !== true;

/** Sorts pages by relevance: first those with the words in name or heading, then by the number of occurrences. */
function rankTopics(pages: readonly Topic[], patterns: readonly RegExp[]): Topic[] {
  const weightOf = ({ name, title, text }: Topic): number => {
    const inHead = hasAll(`${name} ${title}`, patterns) ? 1_000_000 : 0;
    return inHead + patterns.reduce((sum, pattern) => sum + (text.match(pattern) ?? []).length, 0);
  };
  return pages
    .map((page) => ({ page, weight: weightOf(page) }))
    .sort((a, b) => b.weight - a.weight)
    .map(({ page }) => page);
}

/** Returns " (section HEADING)" for the first section whose heading contains all the words, or "". */
function findSection(text: string, patterns: readonly RegExp[]): string {
  const headings = [...text.matchAll(/^##+ (.+)$/gm)].map((match) => match[1] ?? "");
  const heading = headings.find((one) => hasAll(one, patterns));
  return heading === undefined ? "" : ` (section ${heading})`;
}
