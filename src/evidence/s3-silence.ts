/**
 * What the latest requests say about a storage: whether it answers at all. Once a few in a row timed out, further ones
 * are refused at once, but for one every few seconds. So a silent storage makes a few clients wait,
 * not all of them.
 */
import { EvidenceUnavailableError } from "./errors.ts";

/** Requests in a row without an answer after which the storage counts as silent. */
const MAX_TIMEOUTS = 3;
/** Between two requests to a storage that counts as silent. */
const RETRY_INTERVAL_MS = 10_000;

export type SilenceGuard = {
  /** Runs a request. @throws EvidenceUnavailableError without running it while the storage is silent */
  run<T>(request: () => Promise<T>): Promise<T>;
};

/** @param milliseconds a monotonic clock */
export function createSilenceGuard(milliseconds: () => number): SilenceGuard {
  let timeouts = 0;
  let retryAt = 0;

  function admit(): void {
    if (timeouts < MAX_TIMEOUTS) return;
    const now = milliseconds();
    if (now < retryAt) {
      const seconds = Math.ceil((retryAt - now) / 1_000);
      throw new EvidenceUnavailableError(
        `the storage did not answer the latest ${timeouts} requests; the next attempt is in ${seconds} s`,
      );
    }
    retryAt = now + RETRY_INTERVAL_MS;
  }

  return {
    async run(request) {
      admit();
      try {
        const response = await request();
        timeouts = 0;
        return response;
      } catch (error) {
        if (isTimeout(error)) {
          timeouts += 1;
          retryAt = milliseconds() + RETRY_INTERVAL_MS;
        } else timeouts = 0;
        throw error;
      }
    },
  };
}

/**
 * Whether a request ended because nothing arrived in time. The library gives that name also to connections that were
 * reset, which have another code.
 */
const isTimeout = (error: unknown): boolean => {
  const { name, code = "ETIMEDOUT" } = error as { name?: unknown; code?: unknown };
  return name === "TimeoutError" && code === "ETIMEDOUT";
};
