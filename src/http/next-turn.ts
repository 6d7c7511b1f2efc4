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

/**
 * Creates a function that finishes tasks which assemble long answers. Beyond its first step a task waits until the
 * earlier ones of its lane have ended, so that each lane assembles one at a time in memory.
 */
export function createStepQueue() {
  const lanes = new Map<number, Promise<void>>();
  /** @param lane tasks of different lanes do not wait for each other. @returns what the task returns; it may throw */
  return async function finish<T>(lane: number, steps: Generator<undefined, T>): Promise<T> {
    const first = steps.next();
    if (first.done) return first.value;
    const earlier = lanes.get(lane);
    const { promise: ended, resolve: end } = Promise.withResolvers<void>();
    lanes.set(lane, ended);
    try {
      await earlier;
      await nextTurn();
      return await inTurns(steps);
    } finally {
      end();
      if (lanes.get(lane) === ended) lanes.delete(lane);
    }
  };
}
