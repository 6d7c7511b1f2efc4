/**
 * What a task may use of its thread's time. Time for which the thread waits for a processor does not count: whether
 * data is compliant, and what a server accepts, must not depend on what else its machine does.
 */
import { readFileSync, readlinkSync } from "node:fs";
import { constants, getPriority, setPriority } from "node:os";

/** A thread of the operating system, as "PID/task/TID"; null where the system does not say. */
export type ThreadName = string | null;

/** Begins an allowance of that thread. @returns how many milliseconds of it are left; none if that is not positive */
export type BeginAllowance = (allowanceMs: number, thread: ThreadName) => () => number;

/** Where the thread hardly ever gets a processor, its task ends after so many times its allowance. */
const MAX_STRETCH = 10;

/** The calling thread. */
export function nameOfThread(): ThreadName {
  try {
    return readlinkSync("/proc/thread-self");
  } catch {
    return null;
  }
}

/** So much lower is the priority of a thread with a tenth of the share of a processor that the others get. */
export const LOW_PRIORITY = 10;

/**
 * Lets other threads of the machine go first, for work that no request waits for: it hardly costs time on an idle
 * machine. Does nothing where the system does not number its threads, or refuses the call.
 */
export function lowerPriority(thread: ThreadName): void {
  const id = Number(thread?.split("/").at(-1));
  try {
    if (id > 0) setPriority(id, Math.min(getPriority(id) + LOW_PRIORITY, constants.priority.PRIORITY_LOW));
  } catch {
    // A sandbox may filter system calls, and the work can be done without this.
  }
}

export const beginAllowance: BeginAllowance = (allowanceMs, thread) =>
  countAllowance(allowanceMs, { nowMs: () => performance.now(), waitedMs: () => readWaitedMs(thread) });

/**
 * An allowance of `allowanceMs`.
 * @param clocks.waitedMs milliseconds for which the thread has waited for a processor
 */
export function countAllowance(
  allowanceMs: number,
  { nowMs, waitedMs }: { nowMs(): number; waitedMs(): number },
): () => number {
  const [begunMs, waitedBeforeMs] = [nowMs(), waitedMs()];
  return () => {
    const tookMs = nowMs() - begunMs;
    const usedMs = tookMs - (waitedMs() - waitedBeforeMs);
    return Math.min(allowanceMs - Math.max(0, usedMs), MAX_STRETCH * allowanceMs - tookMs);
  };
}

/**
 * Milliseconds for which a thread has waited for a processor since it began; 0 where the system does not say, so that
 * all time counts.
 */
export function readWaitedMs(thread: ThreadName): number {
  if (thread === null) return 0;
  try {
    // Nanoseconds on a processor, nanoseconds of waiting for one, turns (Documentation/scheduler/sched-stats of Linux).
    return Number(readFileSync(`/proc/${thread}/schedstat`, "latin1").split(" ")[1]) / 1e6;
  } catch {
    return 0;
  }
}
