/**
 * Strict parser for the options and positionals after a command's name. It uses the tokens of node:util parseArgs,
 * whose own strict mode stops at the first mistake; this one reports all mistakes, each with its remedy.
 *
 * Options come from two lists: the command's own, and the table of configuration options if the command takes a
 * configuration. The values of the latter are passed on as text, for config/resolve.ts to validate.
 */
import { parseArgs } from "node:util";
import { OPTIONS } from "../config/options.ts";
import { truncate } from "../domain/text/excerpt.ts";
import { findNearestNames } from "../domain/text/near-names.ts";

/** An option of one command. A "text" option takes a value, shown as `placeholder` in the help; a "switch" does not. */
export type CommandOption =
  | {
      readonly kind: "text";
      readonly placeholder: string;
      readonly repeatable?: boolean;
      readonly description: string;
      /** Whether it is a configuration option, whose value config/resolve.ts validates. */
      readonly isSetting?: boolean;
    }
  | { readonly kind: "switch"; readonly description: string };

/** A parsed command line. */
export type Args = {
  /** The switches that were set. */
  switches: ReadonlySet<string>;
  /** The values of each text option that was set, in order; one value unless the option is repeatable. */
  texts: ReadonlyMap<string, readonly string[]>;
  /** The values of configuration options by flag name, as text. */
  flags: Readonly<Record<string, string>>;
  positionals: readonly string[];
};

/**
 * The positionals of a command: at least `min` and at most `max` of them. `names` are their names in the usage line, in
 * order; `words` are the only valid values, for error messages and shell completion.
 */
export type Positionals = {
  readonly min: number;
  readonly max: number;
  readonly names: readonly string[];
  readonly words?: readonly string[];
};

/** With problems, `args` still holds everything that parsed, so that the caller can look for further problems. */
type ArgsResult = { args: Args; problems: readonly string[] };

const SHORT_NAMES: ReadonlyMap<string, string> = new Map([["h", "help"]]);

/**
 * Parses `argv`, the arguments after the command's name. `options` maps the names of the command's own options, without
 * dashes; `takesConfig` says whether configuration options are accepted too.
 * -h means --help if "help" is among the options. Everything after -- is positional. Never throws.
 */
export function parseArguments(
  argv: readonly string[],
  accepts: {
    options: Readonly<Record<string, CommandOption>>;
    takesConfig: boolean;
    positionals: Positionals;
  },
): ArgsResult {
  const ownOptions = new Map(Object.entries(accepts.options));
  const configFlags = new Set(accepts.takesConfig ? Object.values(OPTIONS).map((option) => option.flag) : []);
  const takesValue = [
    ...configFlags,
    ...[...ownOptions].filter(([, option]) => option.kind === "text").map(([name]) => name),
  ];
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
    const option = ownOptions.get(name);
    if (!option && !configFlags.has(name)) {
      const near = findNearestNames(name, [...ownOptions.keys(), ...configFlags]).map((known) => `--${known}`);
      problems.push(`unknown option ${dashed}${near.length > 0 ? `; did you mean ${near.join(" or ")}?` : ""}`);
    } else if (option?.kind === "switch") {
      if (token.value !== undefined) problems.push(`${dashed} takes no value`);
      switches.add(name);
    } else if (token.value === undefined || (!token.inlineValue && /^-./.test(token.value))) {
      // If the next word looks like an option, the value was most likely forgotten.
      problems.push(`${dashed} needs a value; write ${dashed}=VALUE if the value begins with a dash`);
    } else if (configFlags.has(name) && !option) {
      if (Object.hasOwn(flags, name)) problems.push(`${dashed} is given more than once`);
      flags[name] = token.value;
    } else {
      const values = texts.get(name) ?? [];
      if (values.length === 1 && option?.repeatable !== true) problems.push(`${dashed} is given more than once`);
      texts.set(name, [...values, token.value]);
    }
  }

  const { min, max, names, words } = accepts.positionals;
  if (positionals.length > max) {
    problems.push(`unexpected argument ${JSON.stringify(truncate(positionals[max] ?? "", 100))}`);
  }
  for (const name of names.slice(positionals.length, min)) {
    problems.push(`argument ${name} is missing${words === undefined ? "" : `: give ${joinAlternatives(words)}`}`);
  }
  return { args: { switches, texts, flags, positionals }, problems: [...new Set(problems)] };
}

/** Joins words as alternatives in a sentence: a, b or c. */
export const joinAlternatives = (words: readonly string[]): string =>
  words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} or ${words.at(-1)}`;
