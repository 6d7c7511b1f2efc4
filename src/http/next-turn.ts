/** Lets the server do other work in the middle of a long task. */
import { setImmediate } from "node:timers/promises";

/**
 * Resolves after the event loop has looked for timers, requests and connections. One immediate is not enough: set by
 * a request that has just arrived, it runs before the loop looks again.
 */
export async function nextTurn(): Promise<void> {
  await setImmediate();
  await setImmediate();
}

/** Finishes the steps of a task, with other work between them. @returns what the task returns; it may throw */
export async function inTurns<T>(steps: Generator<undefined, T>): Promise<T> {
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
    await nextTurn();
  }
}
