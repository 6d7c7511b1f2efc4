/**
 * The program: the commands of cli/ over the real process. Everything a process has (streams, environment, signals,
 * exit) is touched here and nowhere else.
 */
import { createInterface } from "node:readline";
import { Writable } from "node:stream";
import { isatty } from "node:tty";
import { COMMANDS } from "./cli/commands.ts";
import { runCli } from "./cli/framework.ts";
import type { Io } from "./cli/framework.ts";

// Whatever the program writes (database, evidence, backups, keys) is nobody else's business.
process.umask(0o077);

// Takes the signal from Node, which would open its debugger. Commands that want it listen too.
process.on("SIGUSR1", () => undefined);

// A reader that goes away (`assay openapi | head`) is no failure, and no reason for a server to end. What else goes
// wrong with the streams could not be told anywhere.
for (const stream of [process.stdout, process.stderr]) stream.on("error", () => undefined);

/** Exit codes of a process that a signal ended, as shells count them. */
const SIGNALS = { SIGINT: 130, SIGTERM: 143 } as const;

const io: Io = {
  stdout: (text) => void process.stdout.write(text),
  stderr: (text) => void process.stderr.write(text),
  // Looked at only by a command that reads it: merely opening it would wait for a terminal.
  stdin: { [Symbol.asyncIterator]: () => process.stdin[Symbol.asyncIterator]() },
  env: process.env,
  cwd: process.cwd(),
  pid: process.pid,
  forget(variables) {
    for (const variable of variables) delete process.env[variable];
  },
  isTty: process.stdout.isTTY === true,
  // Looked at by what it is: asking the stream would open it.
  stdinIsTty: isatty(0),
  stderrIsTty: process.stderr.isTTY === true,
  askHidden: (question) =>
    new Promise((resolve) => {
      // Editing a line is the library's business; that it shows nothing is ours. It is asked first: until then the
      // terminal itself shows what is typed.
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
      let asked = false;
      for (const [signal, exitCode] of Object.entries(SIGNALS)) {
        process.on(signal, () => {
          if (asked) process.exit(exitCode);
          asked = true;
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

/** Resolves when everything written so far has left the process, or never can. */
const flushed = (stream: NodeJS.WriteStream): Promise<void> =>
  new Promise((resolve) => void stream.write("", () => resolve()));

void runCli(COMMANDS, process.argv.slice(2), io).then(async (exitCode) => {
  await flushed(process.stdout);
  await flushed(process.stderr);
  process.exit(exitCode);
});
