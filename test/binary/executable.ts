// Drives the packaged executable as an operator would: start it, wait until it says where it listens, stop it.
//
// A child sees exactly the environment it is given (by default none at all, as under `env -i`), so that no test passes
// because of something the developer's shell had. Whatever still runs when the test process ends is killed.

import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface Options {
  /** The whole environment of the process; default: empty. */
  readonly env?: Readonly<Record<string, string>>;
  /** Default: the checkout. */
  readonly cwd?: string;
  /** What to run in place of dist/assay: a copy of it, or a program that ends up running it. */
  readonly executable?: string;
  /** Descriptors that it inherits as 3 and what follows. */
  readonly descriptors?: readonly number[];
}

export interface Exit {
  /** null when a signal ended the process. */
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface Result extends Exit {
  readonly stdout: string;
  readonly stderr: string;
}

export interface Running {
  /** Where it listens, for instance "http://127.0.0.1:41233" or "unix:/run/assay.sock". */
  readonly url: string;
  readonly pid: number;
  /** Settles when the process has ended and its output is complete. Never rejects. */
  readonly exited: Promise<Exit>;
  /** Sends the signal (default SIGTERM), if the process still runs, and waits for its end. */
  stop(signal?: NodeJS.Signals): Promise<Exit>;
  /** What it wrote so far, both streams together. */
  output(): string;
  /**
   * Resolves with everything it wrote to stdout and stderr once that matches; rejects when the process ends without.
   */
  wrote(pattern: RegExp): Promise<string>;
}

/** The executable under test; ASSAY_EXECUTABLE names another one than this checkout's. */
export const EXECUTABLE = process.env["ASSAY_EXECUTABLE"] ?? join(import.meta.dirname, "..", "..", "dist", "assay");

const CHECKOUT = join(import.meta.dirname, "..", "..");

// A start takes well under a second; a machine whose two cores are busy with eight of them at once takes a few.
const START_SECONDS = 30;

// The server itself gives up on open requests before this; a process still there then hangs.
const STOP_SECONDS = 30;

const LISTENING = /listening on ((?:https?:\/\/|unix:|fd:)[^\s"]+)/;

const living = new Set<ChildProcess>();
process.on("exit", () => {
  for (const child of living) child.kill("SIGKILL");
});

/**
 * Starts the executable and waits for its line "listening on ...".
 * Throws an Error with all its output when it ends, or stays silent for 30 seconds, before that line.
 */
export function start(args: readonly string[], options: Options = {}): Promise<Running> {
  const { child, output, exited } = launch(args, options);
  const stop = (signal: NodeJS.Signals = "SIGTERM"): Promise<Exit> => {
    child.kill(signal);
    const impatience = setTimeout(() => child.kill("SIGKILL"), STOP_SECONDS * 1000);
    return exited.finally(() => clearTimeout(impatience));
  };
  const wrote = (pattern: RegExp): Promise<string> =>
    new Promise((resolve, reject) => {
      const look = (): void => {
        if (pattern.test(output.all())) resolve(output.all());
      };
      output.onChange(look);
      look();
      void exited.then(() =>
        reject(new Error(`assay ${args.join(" ")} ended without writing ${pattern}; its output:\n${output.all()}`)),
      );
    });

  return new Promise((resolve, reject) => {
    const fail = (why: string): void =>
      reject(new Error(`assay ${args.join(" ")} ${why}; its output:\n${output.all()}`));
    const impatience = setTimeout(() => {
      fail(`did not listen within ${START_SECONDS} s`);
      child.kill("SIGKILL");
    }, START_SECONDS * 1000);
    child.once("error", (error) => fail(`cannot be started (${error.message})`));
    void exited.then((exit) => {
      clearTimeout(impatience);
      fail(`ended with ${exit.signal ?? `exit code ${exit.code}`} before it listened`);
    });
    const forget = output.onChange(() => {
      const url = LISTENING.exec(output.all())?.[1];
      if (url === undefined || child.pid === undefined) return;
      forget();
      clearTimeout(impatience);
      resolve({ url, pid: child.pid, exited, stop, output: output.all, wrote });
    });
  });
}

/** Runs a command of the executable to its end. Throws an Error when the process cannot be started at all. */
export async function run(args: readonly string[], options: Options = {}): Promise<Result> {
  const { child, output, exited } = launch(args, options);
  const failure = new Promise<never>((_, reject) => child.once("error", reject));
  const exit = await Promise.race([exited, failure]);
  return { ...exit, stdout: output.stdout(), stderr: output.stderr() };
}

/** Calls `body` with a new empty directory and removes that directory afterwards, whatever happens. */
export async function inDirectory<T>(body: (directory: string) => Promise<T>): Promise<T> {
  const directory = mkdtempSync(join(tmpdir(), "assay-test-"));
  try {
    return await body(directory);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

interface Output {
  stdout(): string;
  stderr(): string;
  all(): string;
  /** Has `listener` called after each piece of output; the returned function ends that. */
  onChange(listener: () => void): () => void;
}

function launch(
  args: readonly string[],
  options: Options,
): { child: ChildProcess; output: Output; exited: Promise<Exit> } {
  const child = spawn(options.executable ?? EXECUTABLE, args, {
    cwd: options.cwd ?? CHECKOUT,
    env: { ...options.env },
    stdio: ["ignore", "pipe", "pipe", ...(options.descriptors ?? [])],
  });
  living.add(child);
  const output = collect(child);
  const exited = new Promise<Exit>((resolve) => {
    child.once("close", (code, signal) => {
      living.delete(child);
      resolve({ code, signal });
    });
  });
  return { child, output, exited };
}

function collect(child: ChildProcess): Output {
  const pieces: { from: "stdout" | "stderr"; bytes: Buffer }[] = [];
  const listeners = new Set<() => void>();
  for (const from of ["stdout", "stderr"] as const) {
    child[from]?.on("data", (bytes: Buffer) => {
      pieces.push({ from, bytes });
      for (const listener of listeners) listener();
    });
  }
  const text = (from: "stdout" | "stderr" | null): string =>
    Buffer.concat(pieces.filter((piece) => from === null || piece.from === from).map((piece) => piece.bytes)).toString(
      "utf8",
    );
  return {
    stdout: () => text("stdout"),
    stderr: () => text("stderr"),
    all: () => text(null),
    onChange: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}
