// What a request makes the server do, counted over some hundred requests whose time does not count: SQL statements, in
// a server of this checkout over the same data, and system calls, of the executable under strace.
import { fork, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { drive } from "./load.ts";
import { number } from "./targets.ts";
import type { StatementCounts } from "./count-statements.ts";
import { CONNECTIONS } from "./slices.ts";
import type { Work } from "./slices.ts";

const MAIN = join(import.meta.dirname, "..", "..", "src", "main.ts");
const COUNTER = pathToFileURL(join(import.meta.dirname, "count-statements.ts")).href;
/** Counted requests, after as many that fill caches. */
const REQUESTS = 1_000;
const SHOWN = 8;

/** A server that executes at most that many statements in this time, those of periodic tasks, has finished starting. */
const IDLE_STATEMENTS = 20;
const IDLE_MS = 300;

/** Why system calls cannot be counted here, null when they can. */
export const straceProblem = (): string | null =>
  spawnSync("strace", ["-V"], { stdio: "ignore" }).status === 0 ? null : "strace is not installed";

/** Sends REQUESTS requests of `work`; those of connections beside it are among them. */
async function send(url: string, { next, expect, beside }: Work): Promise<void> {
  const written = Math.round((REQUESTS * (beside?.connections ?? 0)) / CONNECTIONS);
  const upTo = (count: number, nextOf: Work["next"]): Work["next"] => {
    let sent = 0;
    return () => (sent < count ? nextOf(sent++) : null);
  };
  const connections = CONNECTIONS - (beside?.connections ?? 0);
  await Promise.all([
    drive({ url, connections, expect, next: upTo(REQUESTS - written, next) }),
    beside && drive({ url, ...beside, next: upTo(written, beside.next) }),
  ]);
}

/** The number of system calls for a request as text, the most frequent ones by name. @param output for strace */
export async function countSystemCalls(server: { url: string; pid: number }, work: Work, output: string) {
  const strace = spawn("strace", ["-f", "-c", "-o", output, "-p", String(server.pid)], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  const ended = once(strace, "close");
  // It says so once it is attached to all threads; or why it cannot.
  const [said] = (await once(strace.stderr, "data")) as [Buffer];
  if (!said.toString().includes("attached")) {
    await ended;
    return `not counted: ${said.toString().trim()}`;
  }
  strace.stderr.resume();
  await send(server.url, work);
  strace.kill("SIGINT");
  await ended;
  const rows = [...readFileSync(output, "utf8").matchAll(/^ *[\d.]+ +[\d.]+ +\d+ +(\d+) +(?:\d+ +)?(\w+)$/gm)]
    .map(([, calls, name]) => ({ name: name as string, calls: Number(calls) }))
    .filter(({ name }) => name !== "total")
    .sort((a, b) => b.calls - a.calls);
  return perRequest(rows, "system calls");
}

function perRequest(rows: readonly { name: string; calls: number }[], what: string): string {
  const all = rows.reduce((sum, { calls }) => sum + calls, 0);
  const some = rows.slice(0, SHOWN).map(({ name, calls }) => `${name} ${number(calls / REQUESTS)}`);
  return `${number(all / REQUESTS)} ${what} a request: ${some.join(", ")}`;
}

/** A server of this checkout that counts its statements. */
export type CountingServer = {
  url: string;
  /**
   * `before` runs between the requests that fill caches and those that count.
   * @returns the number for a request, and the texts with how often a request executes each
   */
  count(
    work: Work,
    before?: () => Promise<unknown>,
  ): Promise<{ total: number; texts: readonly { text: string; times: number }[] }>;
  stop(): Promise<void>;
};

/** Starts one over a data directory. It ends with this process. */
export async function startCounting(data: string): Promise<CountingServer> {
  const args = ["serve", "--data", data, "--listen", "127.0.0.1:0", "--log-level", "error"];
  const child = fork(MAIN, args, {
    execArgv: ["--import", COUNTER],
    stdio: ["ignore", "pipe", "inherit", "ipc"],
    env: {},
  });
  const kill = (): void => void child.kill("SIGKILL");
  process.once("exit", kill);
  let output = "";
  const url = await new Promise<string>((resolve, reject) => {
    child.stdout?.on("data", (bytes: Buffer) => {
      output += bytes.toString();
      const found = /listening on (http:\/\/[^\s"]+)/.exec(output)?.[1];
      if (found) resolve(found);
    });
    child.once("exit", (code, signal) => reject(new Error(`the counting server ended with ${signal ?? code}`)));
  });
  const ask = async (question: "reset" | "report"): Promise<StatementCounts> => {
    const answer = once(child, "message") as Promise<[StatementCounts]>;
    child.send(question);
    return (await answer)[0];
  };
  // The work of a start, such as the first sweep of evidence, is not that of a request.
  do {
    await ask("reset");
    await sleep(IDLE_MS);
  } while (Object.values(await ask("report")).reduce((sum, times) => sum + times, 0) > IDLE_STATEMENTS);
  return {
    url,
    async count(work, before) {
      await send(url, work);
      await before?.();
      await ask("reset");
      await send(url, work);
      const texts = Object.entries(await ask("report"))
        .map(([text, times]) => ({ text: text.replace(/\s+/g, " ").trim(), times: times / REQUESTS }))
        .sort((a, b) => b.times - a.times);
      return { total: texts.reduce((sum, { times }) => sum + times, 0), texts };
    },
    async stop() {
      process.off("exit", kill);
      const ended = once(child, "exit");
      child.kill("SIGTERM");
      await ended;
    },
  };
}
