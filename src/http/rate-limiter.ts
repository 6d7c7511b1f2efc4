/**
 * How often somebody may do something. Each key (an address, an account) has a store of `burst` tries that fills up
 * evenly: one try comes back every `perSeconds / burst` seconds. So a client that keeps to the rate is never refused,
 * and one that was refused waits for the next try and not for the end of a window. (The generic cell rate algorithm:
 * all that is kept of a key is one number.)
 *
 * Memory is bounded: a key whose store is full again is forgotten, and of more than `most` keys the one that was
 * longest without a try. Who commands more addresses than that is not stopped by counting addresses. Keys are kept as
 * they are given: bound what comes from outside.
 */

export type RateLimiter = {
  /**
   * Takes a try. @returns 0 when there was one, else the whole seconds after which there is one again; nothing is taken
   * then. To limit failures, take before the attempt and `reset` after a success: attempts that run at the same time
   * then count too.
   */
  take(key: string): number;
  /** What `take` would return, without taking anything. */
  peek(key: string): number;
  /** Fills the store of a key up again. */
  reset(key: string): void;
  /** How many keys are remembered. */
  readonly size: number;
};

/** Keys that are remembered at most: about 15 MB of addresses. */
const MAX_KEYS = 100_000;

/**
 * @param burst tries at once, and in each `perSeconds`.
 * @param now seconds, with fraction, of a clock that never goes back.
 */
export function createRateLimiter({
  burst,
  perSeconds,
  now,
  maxKeys = MAX_KEYS,
}: {
  burst: number;
  perSeconds: number;
  now(): number;
  maxKeys?: number;
}): RateLimiter {
  const interval = perSeconds / burst;
  /**
   * Key -> when its store is full again. In the order of the latest try, so what stands first is full again first or
   * nearly so.
   */
  const fullAt = new Map<string, number>();

  /** When the store would be full again after one try more. */
  const after = (key: string, at: number): number => Math.max(fullAt.get(key) ?? at, at) + interval;
  // A thousandth of a try: sums of fractions must not refuse the last one.
  const waitFor = (full: number, at: number): number =>
    Math.max(0, Math.ceil(full - at - perSeconds - interval / 1000));

  function makeRoom(at: number): void {
    for (const [key, full] of fullAt) {
      if (full > at && fullAt.size < maxKeys) return;
      fullAt.delete(key);
    }
  }

  return {
    take(key) {
      const at = now();
      const full = after(key, at);
      const wait = waitFor(full, at);
      if (wait > 0) return wait;
      fullAt.delete(key);
      makeRoom(at);
      fullAt.set(key, full);
      return 0;
    },
    peek(key) {
      const at = now();
      return waitFor(after(key, at), at);
    },
    reset: (key) => void fullAt.delete(key),
    get size() {
      return fullAt.size;
    },
  };
}
