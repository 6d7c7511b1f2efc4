// Drives the packaged executable as an operator would: start it, wait until it reports where it listens, stop it.
//
// A child process sees exactly the environment that the test passes (by default an empty one, as under `env -i`), so
// that no test passes because of the developer's shell. Children still running when the test process ends are killed.

import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { giveUpAfter } from "../patience.ts";

export interface Options {
  /** The whole environment of the process; default: empty. */
  readonly env?: Readonly<Record<string, string>>;
  /** Default: the checkout. */
  readonly cwd?: string;
  /** What to run in place of dist/assay: a copy of it, or a program that in turn runs it. */
  readonly executable?: string;
  /** Descriptors that it inherits, numbered from 3. */
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
  /** Sends the signal (default SIGTERM) if the process still runs, and waits for it to end. */
  stop(signal?: NodeJS.Signals): Promise<Exit>;
  /** Its output so far, stdout and stderr in one. */
  output(): string;
  /** Resolves with all output, of both streams, once that matches; rejects when the process ends without a match. */
  wrote(pattern: RegExp): Promise<string>;
}

/** The executable under test: dist/assay of this checkout unless ASSAY_EXECUTABLE names another one. */
export const EXECUTABLE = process.env["ASSAY_EXECUTABLE"] ?? join(import.meta.dirname, "..", "..", "dist", "assay");

const CHECKOUT = join(import.meta.dirname, "..", "..");

/** A start takes well under a second. */
const MAX_START_S = 60;

/** The server gives up on open requests sooner than this, so a process that still runs then hangs. */
const MAX_STOP_S = 60;

/** A line that a test waits for comes within seconds; a text that was reworded never comes. */
const MAX_WRITE_S = 90;

const LISTENING = /listening on ((?:https?:\/\/|unix:|fd:)[^\s"]+)/;

const children = new Set<ChildProcess>();
process.on("exit", () => {
  for (const child of children) child.kill("SIGKILL");
});

/**
 * Starts the executable and waits for its line "listening on ...".
 * Throws an Error with all its output when it ends, or MAX_START_S pass, before that line.
 */
export function start(args: readonly string[], options: Options = {}): Promise<Running> {
  const { child, output, exited } = launch(args, options);
  const stop = (signal: NodeJS.Signals = "SIGTERM"): Promise<Exit> => {
    child.kill(signal);
    return exited.finally(giveUpAfter(MAX_STOP_S, () => child.kill("SIGKILL")));
  };
  const wrote = (pattern: RegExp): Promise<string> =>
    new Promise((resolve, reject) => {
      const fail = (reason: string): void =>
        reject(new Error(`assay ${args.join(" ")} ${reason}; its output:\n${output.all()}`));
      const stopWaiting = giveUpAfter(MAX_WRITE_S, (how) => fail(`did not write ${pattern} within ${how}`));
      const check = (): void => {
        if (!pattern.test(output.all())) return;
        stopWaiting();
        resolve(output.all());
      };
      output.onChange(check);
      check();
      void exited.then(() => {
        stopWaiting();
        fail(`ended without writing ${pattern}`);
      });
    });

  return new Promise((resolve, reject) => {
    const fail = (reason: string): void =>
      reject(new Error(`assay ${args.join(" ")} ${reason}; its output:\n${output.all()}`));
    const stopWaiting = giveUpAfter(MAX_START_S, (how) => {
      fail(`did not listen within ${how}`);
      child.kill("SIGKILL");
    });
    child.once("error", (error) => fail(`cannot be started (${error.message})`));
    void exited.then((exit) => {
      stopWaiting();
      fail(`ended with ${exit.signal ?? `exit code ${exit.code}`} before it listened`);
    });
    const unsubscribe = output.onChange(() => {
      const url = LISTENING.exec(output.all())?.[1];
      if (url === undefined || child.pid === undefined) return;
      unsubscribe();
      stopWaiting();
      resolve({ url, pid: child.pid, exited, stop, output: output.all, wrote });
    });
  });
}

/** Runs a command of the executable to its end. Throws an Error when the process cannot start. */
export async function run(args: readonly string[], options: Options = {}): Promise<Result> {
  const { child, output, exited } = launch(args, options);
  const failure = new Promise<never>((_, reject) => child.once("error", reject));
  const exit = await Promise.race([exited, failure]);
  return { ...exit, stdout: output.stdout(), stderr: output.stderr() };
}

/** Calls `body` with a new empty directory and removes the directory afterwards, also when `body` throws. */
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
  /** Calls `listener` after each chunk of output. Returns the function that unsubscribes it. */
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
  children.add(child);
  const output = collect(child);
  const exited = new Promise<Exit>((resolve) => {
    child.once("close", (code, signal) => {
      children.delete(child);
      resolve({ code, signal });
    });
  });
  return { child, output, exited };
}

function collect(child: ChildProcess): Output {
  const chunks: { from: "stdout" | "stderr"; bytes: Buffer }[] = [];
  const listeners = new Set<() => void>();
  for (const from of ["stdout", "stderr"] as const) {
    child[from]?.on("data", (bytes: Buffer) => {
      chunks.push({ from, bytes });
      for (const listener of listeners) listener();
    });
  }
  const text = (from: "stdout" | "stderr" | null): string =>
    Buffer.concat(chunks.filter((chunk) => from === null || chunk.from === from).map((chunk) => chunk.bytes)).toString(
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
