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
