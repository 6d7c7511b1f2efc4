/**
 * The words after a command's name: options and positionals, strictly. Built on the tokens of node:util parseArgs,
 * whose own strict mode stops at the first mistake; here all mistakes are found, each with what to do.
 *
 * An option is known from one of two lists: the command's own options, or the table of configuration options when the
 * command takes a configuration. The texts of the latter are passed on unparsed, for config.ts to judge.
 */
import { parseArgs } from "node:util";
import { OPTIONS } from "../config/options.ts";
import { truncate } from "../domain/text/excerpt.ts";
import { nearestNames } from "../domain/text/near-names.ts";

/** An option of one command. A "text" option takes a value, named `placeholder` in the help; a "switch" takes none. */
export type CommandOption =
  | {
      readonly kind: "text";
      readonly placeholder: string;
      readonly repeatable?: boolean;
      readonly description: string;
      /** Whether it is an option of the configuration, which config.ts judges. */
      readonly isSetting?: boolean;
    }
  | { readonly kind: "switch"; readonly description: string };

/**
 * What was said on the command line. `switches` holds the switches that were given; `texts` has each text option that
 * was given with its values in order, one value unless the option is repeatable; `flags` the texts of configuration
 * options by flag name.
 */
export type Args = {
  switches: ReadonlySet<string>;
  texts: ReadonlyMap<string, readonly string[]>;
  flags: Readonly<Record<string, string>>;
  positionals: readonly string[];
};

/**
 * How many positional words a command wants. `names` are what its usage line calls them, in order; `words` the only
 * ones that make sense, for completion by a shell.
 */
export type Positionals = {
  readonly least: number;
  readonly most: number;
  readonly names: readonly string[];
  readonly words?: readonly string[];
};

/** What was understood, and what was not: with problems `args` holds the rest, for whoever looks for more of them. */
export type ArgsResult = { args: Args; problems: readonly string[] };

const SHORT_NAMES: ReadonlyMap<string, string> = new Map([["h", "help"]]);

/**
 * Parses `argv`, the words after the command's name. `options` are the command's own options by name without dashes;
 * `takesConfig` says whether the options of config.ts are allowed too; `positionals` how many positional words may
 * come, and what they are called.
 * -h is --help where "help" is among the options. After -- everything is positional. Never throws.
 */
export function parseArguments(
  argv: readonly string[],
  accepts: {
    options: Readonly<Record<string, CommandOption>>;
    takesConfig: boolean;
    positionals: Positionals;
  },
): ArgsResult {
  const own = new Map(Object.entries(accepts.options));
  const configFlags = new Set(accepts.takesConfig ? Object.values(OPTIONS).map((option) => option.flag) : []);
  const takesValue = [...configFlags, ...[...own].filter(([, option]) => option.kind === "text").map(([name]) => name)];
  const { tokens } = parseArgs({
    args: [...argv],
    strict: false,
    tokens: true,
    options: Object.fromEntries(takesValue.map((name) => [name, { type: "string" }] as const)),
  });

  const problems: string[] = [];
  const switches = new Set<string>();
  const texts = new Map<string, string[]>();
  const flags: Record<string, string> = {};
  const positionals: string[] = [];

  for (const token of tokens) {
    if (token.kind === "positional") positionals.push(token.value);
    if (token.kind !== "option") continue;
    const dashed = truncate(token.rawName, 100);
    const name = token.rawName.startsWith("--") ? token.name : (SHORT_NAMES.get(token.name) ?? `-${token.name}`);
    const option = own.get(name);
    if (!option && !configFlags.has(name)) {
      const near = nearestNames(name, [...own.keys(), ...configFlags]).map((known) => `--${known}`);
      problems.push(`unknown option ${dashed}${near.length > 0 ? `; did you mean ${near.join(" or ")}?` : ""}`);
    } else if (option?.kind === "switch") {
      if (token.value !== undefined) problems.push(`${dashed} takes no value`);
      switches.add(name);
    } else if (token.value === undefined || (!token.inlineValue && /^-./.test(token.value))) {
      // A value taken from the next word that looks like an option is far more often a forgotten value.
      problems.push(`${dashed} needs a value; one that begins with a dash is written ${dashed}=VALUE`);
    } else if (configFlags.has(name) && !option) {
      if (Object.hasOwn(flags, name)) problems.push(`${dashed} is given more than once`);
      flags[name] = token.value;
    } else {
      const values = texts.get(name) ?? [];
      if (values.length === 1 && option?.repeatable !== true) problems.push(`${dashed} is given more than once`);
      texts.set(name, [...values, token.value]);
    }
  }

  const { least, most, names, words } = accepts.positionals;
  if (positionals.length > most) {
    problems.push(`unexpected argument ${JSON.stringify(truncate(positionals[most] ?? "", 100))}`);
  }
  for (const name of names.slice(positionals.length, least)) {
    problems.push(`argument ${name} is missing${words === undefined ? "" : `: give ${listed(words)}`}`);
  }
  return { args: { switches, texts, flags, positionals }, problems: [...new Set(problems)] };
}

/** Words as a sentence lists them: a, b or c. */
export const listed = (words: readonly string[]): string =>
  words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} or ${words.at(-1)}`;
