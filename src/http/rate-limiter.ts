/**
 * Rate limiting by key (an address, an account), with the generic cell rate algorithm: the state of a key is one
 * number. Each key has a bucket of `burst` attempts that refills evenly, one attempt every `perSeconds / burst`
 * seconds. A client that keeps to the rate is never refused, and one that was refused waits for the next attempt and
 * not for the end of a window.
 *
 * Memory is bounded: a key with a full bucket is forgotten, and above `maxKeys` the key with the oldest attempt is
 * evicted. An attacker with more addresses than that defeats per-address limits anyway. Keys are stored as given, so
 * callers bound the length of those that come from outside.
 */

type RateLimiter = {
  /**
   * Takes an attempt. To limit failures, take before the attempt and `reset` after a success, so that concurrent
   * attempts count too.
   * @returns 0 if there was one, else the whole seconds until there is one again; nothing is taken then
   */
  take(key: string): number;
  /** What `take` would return, without taking anything. */
  peek(key: string): number;
  /** Refills the bucket of a key. */
  reset(key: string): void;
  /** Number of keys in memory. */
  readonly size: number;
};

/** About 15 MB of addresses. */
const MAX_KEYS = 100_000;

/**
 * @param options.burst attempts at once, and in each period of `perSeconds`
 * @param options.now seconds, with fraction, of a monotonic clock
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
  /** Key -> time at which its bucket is full. Ordered by the latest attempt, so about in the order of those times. */
  const fullAt = new Map<string, number>();

  /** When the bucket would be full after one more attempt. */
  const after = (key: string, at: number): number => Math.max(fullAt.get(key) ?? at, at) + interval;
  // Tolerates a thousandth of an attempt: rounding errors must not refuse the last one.
  const waitFor = (full: number, at: number): number =>
    Math.max(0, Math.ceil(full - at - perSeconds - interval / 1000));

  function evict(at: number): void {
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
      evict(at);
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
