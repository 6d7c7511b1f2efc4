/** Ends a group of tests that hangs or loops, and says how long it was silent and what it did meanwhile. */
import type { ChildProcess } from "node:child_process";
import { createStopwatch, describePassed, listProcesses } from "./patience.ts";
import type { Passed } from "./patience.ts";

/** A sign of life is a test that ended, and whatever is printed. Seconds count as patience.ts says. */
const SILENCE_S = {
  /** Of processes that hardly do anything: three times the longest pause of any test. */
  idle: 300,
  /** Of processes that compute. */
  busy: 900,
};
/** Processor time per second up to which processes hardly do anything: servers look at their files now and then. */
const IDLE_SHARE = 0.1;
const CHECK_MS = 1_000;

/**
 * Watches a group and kills its processes when it has been silent for too long.
 * @param options.onKilled gets the reason in words
 */
export function watchGroup(
  group: ChildProcess,
  { silenceS = SILENCE_S, onKilled }: { silenceS?: typeof SILENCE_S; onKilled(why: string): void },
) {
  const { pid } = group;
  if (pid === undefined) return { noteLife: () => undefined, stop: () => undefined };
  const stopwatch = createStopwatch(pid);
  let isAlive = false;
  function check(): void {
    if (isAlive) stopwatch.restart();
    isAlive = false;
    const problem = findProblem(stopwatch.read(), silenceS);
    if (problem === null || isStopped) return;
    stop();
    onKilled(problem);
    for (const process of listProcesses(pid as number)) kill(process);
  }
  // What was printed while this process waited for a processor is read before the check.
  const timer = setInterval(() => setImmediate(check), CHECK_MS);
  let isStopped = false;
  const stop = (): void => {
    isStopped = true;
    clearInterval(timer);
  };
  return {
    noteLife: (): void => void (isAlive = true),
    stop,
  };
}

/** What is wrong with processes that have been silent for so long; null for nothing. */
function findProblem(passed: Passed, silenceS: typeof SILENCE_S): string | null {
  const isIdle = passed.processorS < IDLE_SHARE * passed.ownS;
  const limitS = isIdle ? silenceS.idle : silenceS.busy;
  if (passed.ownS < limitS) return null;
  return (
    `${isIdle ? "hangs" : "loops, or takes too long"}: no test ended and nothing was printed for ` +
    `${describePassed(passed)}. The limit is ${limitS} s with a processor or asleep`
  );
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It ended before.
  }
}
