/** Runs commands in this process on separate data directories. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { COMMANDS } from "../../src/cli/commands.ts";
import { runCli } from "../../src/cli/framework.ts";
import type { Io } from "../../src/cli/framework.ts";
import { openDatabase } from "../../src/store/db/database.ts";
import { openStore } from "../../src/store/index.ts";
import type { Store } from "../../src/store/index.ts";
import type { Db } from "../../src/store/db/types.ts";
import { systemSources } from "../../src/clock.ts";

export type Outcome = { code: number; out: string; err: string };
export type Surroundings = {
  stdin?: string | Buffer;
  stdinIsTty?: boolean;
  isTty?: boolean;
  env?: Record<string, string>;
  cwd?: string;
  /** Input at a prompt without echo; stdin is a terminal then. */
  typed?: (string | null)[];
};

/** Runs one command to its end. */
export async function cli(argv: readonly string[], surroundings: Surroundings = {}): Promise<Outcome> {
  const running = start(argv, surroundings);
  return running.ended;
}

export type Started = {
  ended: Promise<Outcome>;
  /** Everything on stdout so far. */
  out(): string;
  /** Resolves with the output of both streams once it matches; rejects if the command ends before. */
  wrote(pattern: RegExp): Promise<string>;
  /** Stops the command as SIGTERM does and waits for its end. */
  stop(): Promise<Outcome>;
  /** The command's handler for uncaught errors. */
  crash(error: unknown): void;
  /** The bytes on stdout so far. */
  bytes(): Buffer;
  /** Sends a signal that the command listens for. */
  signal(name: "SIGHUP" | "SIGUSR1"): void;
  /** Its remaining environment. */
  env(): Readonly<Record<string, string>>;
};

/** Starts a command that runs until it is stopped. */
export function start(argv: readonly string[], surroundings: Surroundings = {}): Started {
  let [out, err] = ["", ""];
  const written: Buffer[] = [];
  const env: Record<string, string> = { ...surroundings.env };
  const signals = new Map<string, () => void>();
  const listeners = new Set<() => void>();
  let requestStop: (signal: string) => void = () => undefined;
  const stopRequested = new Promise<string>((resolve) => (requestStop = resolve));
  let crash: (error: unknown) => void = () => undefined;
  const io: Io = {
    stdout(text) {
      out += text;
      for (const listener of listeners) listener();
    },
    stderr(text) {
      err += text;
      for (const listener of listeners) listener();
    },
    written: () => Promise.resolve(),
    stdin: (async function* () {
      yield typeof surroundings.stdin === "string"
        ? Buffer.from(surroundings.stdin)
        : (surroundings.stdin ?? Buffer.alloc(0));
    })(),
    env,
    pid: process.pid,
    forget(variables) {
      for (const variable of variables) delete env[variable];
    },
    becomeUser() {
      throw new Error("the process of the tests stays what it is");
    },
    cwd: surroundings.cwd ?? tmpdir(),
    isTty: surroundings.isTty ?? false,
    stdinIsTty: surroundings.stdinIsTty ?? surroundings.typed !== undefined,
    stderrIsTty: false,
    async askHidden(question) {
      err += question;
      return surroundings.typed?.shift() ?? null;
    },
    async writeBytes(bytes) {
      written.push(Buffer.from(bytes));
    },
    onSignal: (signal, listener) => void signals.set(signal, listener),
    stopRequested: () => stopRequested,
    onCrash: (listener) => void (crash = listener),
  };
  const ended = runCli(COMMANDS, argv, io).then((code) => ({ code, out, err }));
  return {
    ended,
    out: () => out,
    wrote: (pattern) =>
      new Promise((resolve, reject) => {
        const look = (): void => {
          if (pattern.test(out + err)) resolve(out + err);
        };
        listeners.add(look);
        look();
        void ended.then(({ code }) =>
          reject(new Error(`assay ${argv.join(" ")} ended with ${code} without writing ${pattern}:\n${out}${err}`)),
        );
      }),
    stop() {
      requestStop("SIGTERM");
      return ended;
    },
    crash: (error) => crash(error),
    bytes: () => Buffer.concat(written),
    signal: (name) => signals.get(name)?.(),
    env: () => env,
  };
}

/** Calls `body` with a new directory (absolute, 0700) and removes it afterwards. */
export async function inDirectory<T>(body: (directory: string) => Promise<T>): Promise<T> {
  const directory = mkdtempSync(join(tmpdir(), "assay-cli-"));
  try {
    return await body(directory);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

/** Reads from a data directory. */
export function look<T>(directory: string, body: (store: Store, db: Db) => T): T {
  const db = openDatabase(directory, systemSources.now());
  try {
    return body(openStore(db, systemSources), db);
  } finally {
    db.close();
  }
}

/**
 * Returns the audit log, oldest first, as "operation event target detail". The target of a key is left out, and its id
 * is ID.
 */
export const auditOf = (directory: string): string[] =>
  look(directory, (_, db) =>
    db
      .prepare<[], { line: string }>(
        `SELECT operation || ' ' || event || ' ' || (CASE WHEN event LIKE 'api_key.%' THEN '-' ELSE target END)
            || ' ' || detail_json AS line
       FROM audit_log ORDER BY id`,
      )
      .all()
      .map(({ line }) => line.replace(/"key_id":"[\w-]+"/, '"key_id":ID')),
  );

/** Counts the rows of each account table. */
export const countRows = (directory: string): Record<string, number> =>
  look(directory, (_, db) =>
    Object.fromEntries(
      ["organizations", "users", "memberships", "membership_events", "service_accounts", "api_keys", "audit_log"].map(
        (table) => [table, db.prepare<[], number>(`SELECT count(*) FROM ${table}`).pluck().get() ?? -1],
      ),
    ),
  );

/** Joins patterns that are too long for one line; all have the flags of the first. */
export const joinPatterns = (...parts: readonly RegExp[]): RegExp =>
  new RegExp(parts.map(({ source }) => source).join(""), parts[0]?.flags);
