// Starts the measured processes, with their output in a file as under a service manager, because reading their log
// lines from a pipe would cost the driver time; and reads their figures from /proc.
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { closeSync, mkdirSync, mkdtempSync, openSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { MALLOC_SETTINGS } from "../../src/cli/malloc.ts";

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

/**
 * Creates a directory below .build that is removed when this process ends, also by SIGINT or SIGTERM. The servers are
 * killed before that.
 */
export function temporaryDirectory(prefix: string): string {
  const parent = join(import.meta.dirname, "..", "..", ".build");
  mkdirSync(parent, { recursive: true });
  const directory = mkdtempSync(join(parent, prefix));
  process.on("exit", () => rmSync(directory, { recursive: true, force: true }));
  process.on("SIGINT", () => process.exit(130));
  process.on("SIGTERM", () => process.exit(143));
  return directory;
}

const living = new Set<ChildProcess>();
process.on("exit", () => {
  for (const child of living) child.kill("SIGKILL");
});

/**
 * Starts a server and waits until its output shows its address; with `ready`, until it responded to GET /ready. Its
 * environment has the settings of our systemd unit and image, the environment of this process, which may have others
 * (`ASSAY_LOG_LEVEL=error make bench`, `NODE_OPTIONS`), and `env`.
 * @throws Error with its output when it ends before that
 */
export async function startServer(
  command: readonly string[],
  options: { output: string; env?: Record<string, string>; ready?: boolean; timeoutMs?: number },
): Promise<Server> {
  const file = openSync(options.output, "w");
  const startedAt = performance.now();
  const env = { ...MALLOC_SETTINGS, ...process.env, ...options.env };
  const child = spawn(command[0] ?? "", command.slice(1), { stdio: ["ignore", file, file], env });
  closeSync(file);
  living.add(child);
  const ended = new Promise<void>((resolve) =>
    child.once("close", () => {
      living.delete(child);
      resolve();
    }),
  );
  const deadline = startedAt + (options.timeoutMs ?? START_TIMEOUT_MS);
  const url = await address(child, options.output, deadline);
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

async function address(child: ChildProcess, output: string, deadline: number): Promise<string> {
  for (;;) {
    const text = readFileSync(output, "utf8");
    const url = LISTENING.exec(text)?.[1];
    if (url !== undefined) return url;
    if (child.exitCode !== null || child.signalCode !== null || performance.now() > deadline)
      throw new Error(`${child.spawnargs.join(" ")} does not listen; its output:\n${text}`);
    await sleep(2);
  }
}

/** What a process used in a while. */
export type Cost = {
  /** Seconds on a processor: of the main thread, and of all threads together. */
  main: number;
  all: number;
  /** Bytes that it caused to be written to storage: of the log, of checkpoints and of evidence. */
  written: number;
  /** System calls that read or write a file or a pipe; those of sockets are not all among them. */
  calls: number;
};

/** @returns a function that returns what the process has used since this call */
export function startMeter(pid: number): () => Cost {
  const [threads, io] = [threadTimes(pid), ioCounters(pid)];
  return () => {
    const ioNow = ioCounters(pid);
    let [main, all] = [0, 0];
    // A thread that began since then counts from zero. One that ended is missed, which happens to no thread under load.
    for (const [thread, time] of threadTimes(pid)) {
      const used = (time - (threads.get(thread) ?? 0)) / 1e9;
      all += used;
      if (thread === pid) main = used;
    }
    return { main, all, written: ioNow.written - io.written, calls: ioNow.calls - io.calls };
  };
}

/**
 * Nanoseconds on a processor of every thread by its id: the first field of schedstat. Its clock is exact, while that of
 * /proc/PID/stat advances by hundredths of a second, which is as much as a short slice may take.
 */
function threadTimes(pid: number): Map<number, number> {
  const times = new Map<number, number>();
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    try {
      times.set(Number(thread), Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "latin1").split(" ")[0]));
    } catch (error) {
      // It ended since the directory was read.
      if (!["ENOENT", "ESRCH"].includes((error as NodeJS.ErrnoException).code ?? "")) throw error;
    }
  }
  return times;
}

function ioCounters(pid: number): { written: number; calls: number } {
  const text = readFileSync(`/proc/${pid}/io`, "latin1");
  const field = (name: string): number => Number(new RegExp(`^${name}: (\\d+)$`, "m").exec(text)?.[1]);
  return { written: field("write_bytes") - field("cancelled_write_bytes"), calls: field("syscr") + field("syscw") };
}

/** Resident memory of a process in MB: current, its anonymous part, and the peak. */
export function memory(pid: number): { now: number; anonymous: number; peak: number } {
  const text = readFileSync(`/proc/${pid}/status`, "latin1");
  const megabytes = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(text)?.[1]) / 1024;
  return { now: megabytes("VmRSS"), anonymous: megabytes("RssAnon"), peak: megabytes("VmHWM") };
}
