/**
 * What a command is, what it may touch, and how it ends. The frame (frame.ts) runs commands; the files that commands
 * share import this one, so that the frame can import them.
 */
import type { OptionName } from "../config/options.ts";
import type { Args, CommandOption, Positionals } from "./args.ts";

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
   * Asks on the terminal, without showing what is typed; only where stdin is one. Null when the answer was given up
   * (Ctrl-C, Ctrl-D).
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
 * One command. `name` has one or two words; `summary` is one line for the list of commands; `details` more lines for
 * its own help; `usage` what follows `assay NAME` in the usage line; `options` its own options (--help and --json
 * belong to every command); `takesConfig` says whether it takes the options of config.ts too, and `configuration` how
 * those are resolved; `positionals` how many positional words it wants, none unless given.
 *
 * `check` lists what is wrong with the values on the command line, one problem each. It looks at nothing else, and
 * leaves missing positional words alone. The frame calls it also where it found mistakes itself, so that all are told
 * in one run; `run` is called only where there are none, and may rely on that. `run` resolves to an exit code, or fails
 * with `commandFailure` or any other error.
 */
export type Command = {
  readonly name: string;
  readonly summary: string;
  readonly details?: readonly string[];
  readonly usage: string;
  readonly options: Readonly<Record<string, CommandOption>>;
  readonly takesConfig: boolean;
  readonly configuration?: ConfigurationRules;
  readonly positionals?: Positionals;
  check?(args: Args, io: Io): readonly string[];
  run(args: Args, io: Io): Promise<number>;
};

/** How a command resolves the options of the configuration. */
export type ConfigurationRules = {
  /** Options that must have a value. */
  readonly required?: readonly OptionName[];
  /** Defaults in place of those of the table, as an operator would write them. */
  readonly defaults?: Readonly<Partial<Record<OptionName, string>>>;
  /** Whether options that only work together are demanded together: for a command that uses all of them. */
  readonly complete?: boolean;
  /** Whether only flags and the file count. */
  readonly ignoresVariables?: boolean;
};

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

type Failure = { problems: readonly string[]; exitCode: ExitCode };

const failures = new WeakMap<Error, Failure>();

/** What a command failure says; null for any other error. */
export const failureOf = (error: unknown): Failure | null =>
  error instanceof Error ? (failures.get(error) ?? null) : null;

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

/** A text of somebody else as part of one line: control characters are shown escaped. */
export function oneLine(text: string): string {
  return printable(text).replaceAll("\n", "\\u000a");
}

/** A text with control characters, but for line feeds, shown escaped. */
export function printable(text: string): string {
  return text.replace(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/g, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}
