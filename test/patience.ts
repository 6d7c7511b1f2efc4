/**
 * How long tests wait. A limit only ends what hangs: it counts seconds in which the processes below a test process
 * slept or had a processor. Seconds in which one of them waited for a processor do not count, so that a limit means the
 * same beside other load, at another priority and on fewer processors.
 */
import { readdirSync, readFileSync } from "node:fs";
import { availableParallelism, loadavg } from "node:os";
import { performance } from "node:perf_hooks";

/** Far more than anything takes that a test waits for. */
const PATIENCE_S = 60;
/** Between two looks at the processes. */
const CHECK_MS = 500;
/** The part of a second that counts at least: what never gets a processor ends, too. */
const MIN_SHARE = 1 / 20;
/** Turns of the event loop in which `until` looks, before it looks every few milliseconds. */
const EAGER_TURNS = 100;
const LOOK_MS = 2;

/** Seconds since a stopwatch was started. */
export type Passed = {
  clockS: number;
  /** Those that count for a limit. */
  ownS: number;
  /** Processor time of all processes. */
  processorS: number;
};

type Reading = {
  /** Seconds of a monotonic clock. */
  at: number;
  processorS: number;
  /** By thread: seconds for which it has waited for a processor. */
  waitedS: ReadonlyMap<string, number>;
};

/** Measures a process and all processes below it. Where the system has no /proc, every second counts. */
export function createStopwatch(root = process.pid) {
  let last = readProcesses(root);
  let passed: Passed = { clockS: 0, ownS: 0, processorS: 0 };
  return {
    read(): Passed {
      const now = readProcesses(root);
      passed = addInterval(passed, last, now);
      last = now;
      return passed;
    },
    restart(): void {
      last = readProcesses(root);
      passed = { clockS: 0, ownS: 0, processorS: 0 };
    },
  };
}

/** Adds the time between two readings. */
export function addInterval(passed: Passed, from: Reading, to: Reading): Passed {
  const clockS = to.at - from.at;
  // The thread that waited longest: the others may have waited at the same time, or for it.
  let waitedS = 0;
  for (const [thread, seconds] of to.waitedS) waitedS = Math.max(waitedS, seconds - (from.waitedS.get(thread) ?? 0));
  return {
    clockS: passed.clockS + clockS,
    ownS: passed.ownS + Math.max(clockS - waitedS, clockS * MIN_SHARE),
    // Less when a process ended for which nobody waited.
    processorS: passed.processorS + Math.max(0, to.processorS - from.processorS),
  };
}

/** "97 s, 37 s of them without a processor; 3.1 s of processor time; load average 6.2 on 2 processors" */
export function describePassed({ clockS, ownS, processorS }: Passed): string {
  return (
    `${clockS.toFixed(0)} s, ${(clockS - ownS).toFixed(0)} s of them without a processor; ` +
    `${processorS.toFixed(1)} s of processor time; ` +
    `load average ${loadavg()[0]?.toFixed(1)} on ${availableParallelism()} processors`
  );
}

/**
 * Looks until something is found, and returns that: null, undefined and false are nothing.
 * @param what subject and verb, for the Error that ends the wait
 * @param patienceS seconds that count
 */
export async function until<T>(
  what: string,
  look: () => T | null | undefined | false | Promise<T | null | undefined | false>,
  patienceS = PATIENCE_S,
): Promise<T> {
  let stop: (() => void) | null = null;
  let givenUp: string | null = null;
  try {
    for (let turn = 0; ; turn += 1) {
      const looked = look();
      const found = looked instanceof Promise ? await looked : looked;
      if (found) return found;
      if (givenUp !== null) throw new Error(`never happened: ${what} (${givenUp})`);
      if (turn >= EAGER_TURNS) stop ??= giveUpAfter(patienceS, (how) => (givenUp = how));
      await new Promise<void>((resolve) => {
        if (turn < EAGER_TURNS) setImmediate(resolve);
        else setTimeout(resolve, LOOK_MS);
      });
    }
  } finally {
    stop?.();
  }
}

/**
 * Calls back once when so many seconds have passed that count.
 * @param onGivenUp gets the time in words
 * @returns a function that ends the wait
 */
export function giveUpAfter(seconds: number, onGivenUp: (how: string) => void): () => void {
  const stopwatch = createStopwatch();
  const timer = setInterval(() => {
    const passed = stopwatch.read();
    if (passed.ownS < seconds) return;
    clearInterval(timer);
    onGivenUp(describePassed(passed));
  }, CHECK_MS).unref();
  return () => clearInterval(timer);
}

/** The ids of a process and of all processes below it. */
export function listProcesses(root: number): number[] {
  const found = [root];
  for (const pid of found)
    for (const thread of threadsOf(pid))
      for (const child of readProc(`${pid}/task/${thread}/children`).split(" "))
        if (child !== "") found.push(Number(child));
  return found;
}

function readProcesses(root: number): Reading {
  const waitedS = new Map<string, number>();
  let processorS = 0;
  for (const pid of listProcesses(root)) {
    processorS += readProcessorSeconds(pid);
    // proc(5) and the kernel's sched-stats: nanoseconds on a processor, nanoseconds of waiting for one, turns.
    for (const thread of threadsOf(pid))
      waitedS.set(thread, Number(readProc(`${pid}/task/${thread}/schedstat`).split(" ")[1] ?? 0) / 1e9);
  }
  return { at: performance.now() / 1000, processorS, waitedS };
}

/** Processor time of a process and of its child processes that ended, in seconds; 0 where the system does not say. */
export function readProcessorSeconds(pid: number): number {
  // proc(5): utime, stime, cutime and cstime are fields 14 to 17, in ticks of 10 ms; the name in field 2 may hold
  // spaces.
  const fields = readProc(`${pid}/stat`)
    .replace(/^.*\) /s, "")
    .split(" ");
  return fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0) / 100;
}

function threadsOf(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/task`);
  } catch {
    return [];
  }
}

/** The text of a file below /proc; empty when the process has ended, or where there is none. */
function readProc(path: string): string {
  try {
    return readFileSync(`/proc/${path}`, "latin1");
  } catch {
    return "";
  }
}
