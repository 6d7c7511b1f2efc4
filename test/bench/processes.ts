// Starts the measured processes, with their output in a file as under a service manager, because reading their log
// lines from a pipe would cost the driver time; and reads their figures from /proc.
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { closeSync, openSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

export type Server = {
  url: string;
  pid: number;
  /**
   * Milliseconds from the start of the process to its first response to GET /ready, null when that was not measured.
   */
  firstReply: number | null;
  stop(): Promise<void>;
};

const LISTENING = /listening on (http:\/\/[^\s"]+)/;
/** How long a start may take. */
const START_TIMEOUT_MS = 30_000;

const living = new Set<ChildProcess>();
process.on("exit", () => {
  for (const child of living) child.kill("SIGKILL");
});

/**
 * Starts a server and waits until its output shows its address; with `ready`, until it responded to GET /ready.
 * @throws Error with its output when it ends before that
 */
export async function startServer(
  command: readonly string[],
  options: { output: string; env?: Record<string, string>; ready?: boolean },
): Promise<Server> {
  const file = openSync(options.output, "w");
  const startedAt = performance.now();
  const child = spawn(command[0] ?? "", command.slice(1), { stdio: ["ignore", file, file], env: { ...options.env } });
  closeSync(file);
  living.add(child);
  const ended = new Promise<void>((resolve) =>
    child.once("close", () => {
      living.delete(child);
      resolve();
    }),
  );
  const url = await address(child, options.output, startedAt);
  if (options.ready) await (await fetch(`${url}/ready`)).text();
  const firstReply = options.ready ? performance.now() - startedAt : null;
  return {
    url,
    firstReply,
    pid: child.pid as number,
    async stop() {
      child.kill("SIGTERM");
      await ended;
    },
  };
}

async function address(child: ChildProcess, output: string, startedAt: number): Promise<string> {
  for (;;) {
    const text = readFileSync(output, "utf8");
    const url = LISTENING.exec(text)?.[1];
    if (url !== undefined) return url;
    if (child.exitCode !== null || child.signalCode !== null || performance.now() - startedAt > START_TIMEOUT_MS)
      throw new Error(`${child.spawnargs.join(" ")} does not listen; its output:\n${text}`);
    await sleep(2);
  }
}

/** CPU seconds of the main thread of a process, and of all its threads together. */
export function cpuSeconds(pid: number): { main: number; all: number } {
  return { main: ticks(`/proc/${pid}/task/${pid}/stat`), all: ticks(`/proc/${pid}/stat`) };
}

/**
 * User and system time in a stat file of proc(5): the 14th and 15th field, in hundredths of a second on every Linux.
 */
function ticks(path: string): number {
  const text = readFileSync(path, "latin1");
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

/** Resident memory of a process in MB: current and peak. */
export function memory(pid: number): { now: number; peak: number } {
  const text = readFileSync(`/proc/${pid}/status`, "latin1");
  const megabytes = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(text)?.[1]) / 1024;
  return { now: megabytes("VmRSS"), peak: megabytes("VmHWM") };
}
