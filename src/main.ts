/**
 * The program: runs the commands of cli/ in the real process. Streams, environment, signals and exit of the process are
 * accessed here and nowhere else.
 */
import { writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { Writable } from "node:stream";
import { isatty } from "node:tty";
import { COMMANDS } from "./cli/commands.ts";
import { runCli } from "./cli/framework.ts";
import type { Io } from "./cli/framework.ts";

// Everything that the program writes (database, evidence, backups, keys) is for its own user only.
process.umask(0o077);

// Node calls its main thread MainThread, which is what ps, top and the journal would show. Setting `process.title`
// instead would overwrite the command line.
try {
  writeFileSync("/proc/self/comm", "assay");
} catch {
  // Elsewhere there is no such file, and the name does not matter.
}

// Overrides Node's default for the signal, which opens the debugger. Commands that use it add their own listener.
process.on("SIGUSR1", () => undefined);

// A closed pipe (`assay openapi | head`) is not a failure, and must not end a server. Other errors of standard output
// are reported when the command ends; those of standard error have nowhere to be reported.
for (const stream of [process.stdout, process.stderr]) stream.on("error", () => undefined);

/** Exit codes of a process ended by a signal, as shells define them. */
const SIGNAL_EXIT_CODES = { SIGINT: 130, SIGTERM: 143 } as const;

/** Of writes after the reader of a pipe has gone away. */
const READER_GONE: readonly unknown[] = ["EPIPE", "ERR_STREAM_DESTROYED"];
/** Why text could not be written to standard output. */
let outputError: NodeJS.ErrnoException | null = null;

const io: Io = {
  stdout: (text) =>
    void process.stdout.write(text, (error: NodeJS.ErrnoException | null | undefined) => {
      if (error && !READER_GONE.includes(error.code)) outputError ??= error;
    }),
  stderr: (text) => void process.stderr.write(text),
  async written() {
    await flush(process.stdout);
    if (outputError !== null) throw outputError;
  },
  // Accessed lazily, by commands that read it: opening it would wait for a terminal.
  stdin: { [Symbol.asyncIterator]: () => process.stdin[Symbol.asyncIterator]() },
  env: process.env,
  cwd: process.cwd(),
  pid: process.pid,
  forget(variables) {
    for (const variable of variables) delete process.env[variable];
  },
  becomeUser({ uid, gid, groups }, directory) {
    process.chdir(directory);
    process.setgroups?.([...groups]);
    process.setgid?.(gid);
    process.setuid?.(uid);
  },
  isTty: process.stdout.isTTY === true,
  // By file descriptor: process.stdin.isTTY would open the stream.
  stdinIsTty: isatty(0),
  stderrIsTty: process.stderr.isTTY === true,
  askHidden: (question) =>
    new Promise((resolve) => {
      // readline edits the line, and the muted output hides it. It starts before the question is printed: until then
      // the terminal itself echoes what is typed.
      const lines = createInterface({
        input: process.stdin,
        output: new Writable({ write: (_chunk, _encoding, done) => done() }),
        terminal: true,
        historySize: 0,
      });
      process.stderr.write(question);
      let answer: string | null = null;
      lines.once("line", (line) => {
        answer = line;
        lines.close();
      });
      lines.once("SIGINT", () => lines.close());
      lines.once("close", () => {
        process.stderr.write("\n");
        resolve(answer);
      });
    }),
  writeBytes: (bytes) =>
    new Promise((resolve, reject) => {
      process.stdout.write(bytes, (error) => (error ? reject(error) : resolve()));
    }),
  onSignal: (signal, listener) => void process.on(signal, listener),
  stopRequested: () =>
    new Promise((resolve) => {
      let isRequested = false;
      for (const [signal, exitCode] of Object.entries(SIGNAL_EXIT_CODES)) {
        process.on(signal, () => {
          if (isRequested) process.exit(exitCode);
          isRequested = true;
          resolve(signal);
        });
      }
    }),
  onCrash: (listener) =>
    void process.on("uncaughtException", (error) => {
      try {
        listener(error);
      } finally {
        process.exit(1);
      }
    }),
};

/** Resolves when everything written so far has left the process, or cannot leave it any more. */
function flush(stream: NodeJS.WriteStream): Promise<void> {
  return new Promise((resolve) => void stream.write("", () => resolve()));
}

void runCli(COMMANDS, process.argv.slice(2), io).then(async (exitCode) => {
  await flush(process.stdout);
  await flush(process.stderr);
  process.exit(exitCode);
});
