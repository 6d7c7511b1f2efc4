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

/** How long work that can be interrupted keeps others waiting, in milliseconds; a single part of it may take longer. */
const TURN_MS = 5;

/**
 * What long work calls before each of its parts: null, or a promise to wait for when it has had its turn.
 * @param clock milliseconds since any moment
 */
export function createPace(clock = (): number => performance.now()): () => Promise<void> | null {
  let endsMs = clock() + TURN_MS;
  return () => (clock() < endsMs ? null : nextTurn().then(() => void (endsMs = clock() + TURN_MS)));
}
