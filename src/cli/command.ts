/**
 * The types of a command, its access to the process, and its exit codes. `framework.ts` runs commands and imports the
 * modules that commands share; those modules import this file, which keeps the import graph acyclic.
 */
import type { OptionName } from "../config/options.ts";
import type { Args, CommandOption, Positionals } from "./args.ts";

/** A command's access to the process. `stdout` and `stderr` write text unchanged; `cwd` is an absolute path. */
export type Io = {
  stdout(text: string): void;
  stderr(text: string): void;
  /**
   * Resolves when all text given to `stdout` has left the process, or its reader has gone away. Rejects with the
   * system's error when the text could not be written.
   */
  written(): Promise<void>;
  stdin: AsyncIterable<Uint8Array | string>;
  env: Readonly<Record<string, string | undefined>>;
  cwd: string;
  pid: number;
  /** Removes variables from the environment: neither `env` nor child processes see them afterwards. */
  forget(variables: readonly string[]): void;
  /**
   * Makes this process one of another user for the rest of its life, after it went to a directory that this user may
   * not be able to reach by its name. @throws the system's error unless this process is root
   */
  becomeUser(user: { uid: number; gid: number; groups: readonly number[] }, directory: string): void;
  /** Whether stdout is a terminal. */
  isTty: boolean;
  /** Whether stdin is a terminal, so that a password can be prompted for. */
  stdinIsTty: boolean;
  /** Whether stderr is a terminal, so that a progress bar is visible. */
  stderrIsTty: boolean;
  /**
   * Prompts on the terminal without echoing the input; call it only when `stdinIsTty`. Null when the prompt was
   * cancelled (Ctrl-C, Ctrl-D).
   */
  askHidden(question: string): Promise<string | null>;
  /** Writes bytes to stdout and resolves when it accepts more. Rejects when the reader has gone away. */
  writeBytes(bytes: Uint8Array): Promise<void>;
  /** Calls `listener` on each such signal, which no longer ends the process. */
  onSignal(signal: "SIGHUP" | "SIGUSR1", listener: () => void): void;
  /**
   * Resolves with the name of the first stop signal (SIGTERM, SIGINT), which no longer ends the process; a second one
   * ends it at once. Never rejects.
   */
  stopRequested(): Promise<string>;
  /** Passes an uncaught error to `listener` and then ends the process with exit code 1. */
  onCrash(listener: (error: unknown) => void): void;
};

/** One command of the program. */
export type Command = {
  /** One or two words. */
  readonly name: string;
  /** One line for the list of commands: an imperative sentence without a full stop. */
  readonly summary: string;
  /** Paragraphs for the command's own help, which wraps them. */
  readonly details?: readonly string[];
  /** The part of the usage line that follows `assay NAME`. */
  readonly usage: string;
  /** The command's own options; every command takes --help and --json besides. */
  readonly options: Readonly<Record<string, CommandOption>>;
  /** Whether the command also takes the configuration options (`config/options.ts`). */
  readonly takesConfig: boolean;
  readonly configuration?: ConfigurationRules;
  /**
   * Whether the data directory has to be named, and has no default, because the command may create another one by
   * mistake, deletes records or gives them up.
   */
  readonly namesData?: boolean;
  /** Positional arguments; none by default. */
  readonly positionals?: Positionals;
  /**
   * Returns one problem for each invalid value on the command line. Reads nothing else, and ignores missing
   * positionals. The framework also calls it when it found mistakes itself, so that one run reports all of them.
   */
  check?(args: Args, io: Io): readonly string[];
  /**
   * For a command whose options follow from its first argument: the command for these words, which come after its name.
   */
  readonly specialize?: (words: readonly string[]) => Command;
  /** Resolves to an exit code; called only when `check` found no problem. Rejects with CommandError or any error. */
  run(args: Args, io: Io): Promise<number>;
};

/** How a command resolves the configuration options. */
export type ConfigurationRules = {
  /** Options that must have a value. */
  readonly required?: readonly OptionName[];
  /** Whether the data directory has a default that depends on the environment (findDefaultDataDirectory). */
  readonly defaultData?: boolean;
  /** Defaults that replace those of the option table, in the text form an operator would write. */
  readonly defaults?: Readonly<Partial<Record<OptionName, string>>>;
  /** Whether options that only work together are required together: set by commands that use all of them. */
  readonly complete?: boolean;
  /** Whether environment variables are ignored, so that only flags and the file count. */
  readonly ignoresVariables?: boolean;
};

/** The exit codes of the program. Scripts depend on them, so they never change. */
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

/** Descriptions of the exit codes for the manual page. */
export const EXIT_MEANINGS: Readonly<Record<keyof typeof EXIT, string>> = {
  done: "Success.",
  failed: "Failure; the reason is on standard error.",
  usage: "Usage error in an option, an argument or the configuration.",
  newerDatabase: "The database was written by a newer version of the program.",
  dataInUse: "Another process is using the data directory.",
  damaged: "A check found damaged data.",
};

/**
 * An expected failure that ends the command. The operator sees each of `problems` unchanged, without a stack trace, and
 * the program exits with `exitCode`.
 */
export class CommandError extends Error {
  readonly problems: readonly string[];
  readonly exitCode: ExitCode;

  constructor(problems: string | readonly string[], exitCode: ExitCode = EXIT.failed) {
    const all = typeof problems === "string" ? [problems] : problems;
    super(all.join("; "));
    this.name = "CommandError";
    this.problems = all;
    this.exitCode = exitCode;
  }
}

/** Escapes all control characters of untrusted text, including line feeds, so that it fits on one line. */
export function escapeLine(text: string): string {
  return escapeControls(text).replaceAll("\n", "\\u000a");
}

/** Escapes the control characters of untrusted text, except line feeds. */
export function escapeControls(text: string): string {
  return text.replace(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/g, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}
