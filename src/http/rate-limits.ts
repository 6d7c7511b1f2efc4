/** Rate limits: requests a minute of one address, and with one API key. Both are off unless the operator sets them. */
import { isIP } from "node:net";
import type Koa from "koa";
import { networkOf } from "../domain/network/client-network.ts";
import { tooManyRequests } from "../errors.ts";
import { createRateLimiter } from "./rate-limiter.ts";

export type RateLimits = {
  /**
   * Counts a request of a client.
   * @param address not counted unless it is an IP address: clients behind a Unix socket cannot be distinguished
   * @throws AppError 429.
   */
  countAddress(address: string): void;
  /** Counts a request with an API key, by its public id. @throws AppError 429. */
  countKey(id: string): void;
};

/**
 * @param options.address requests a minute of one address, null for no limit
 * @param options.key requests a minute with one key, null for no limit
 * @param options.now seconds of a monotonic clock
 */
export function createRateLimits({
  address,
  key,
  now,
}: {
  address: number | null;
  key: number | null;
  now(): number;
}): RateLimits {
  const createPerMinute = (burst: number | null) =>
    burst === null ? null : createRateLimiter({ burst, perSeconds: 60, now });
  const [addresses, keys] = [createPerMinute(address), createPerMinute(key)];
  return {
    countAddress(from) {
      const wait = addresses && isIP(from) !== 0 ? addresses.take(networkOf(from)) : 0;
      if (wait > 0) throw tooManyRequests("Too many requests from this address", wait);
    },
    countKey(id) {
      const wait = keys?.take(id) ?? 0;
      if (wait > 0) throw tooManyRequests("Too many requests with this key", wait);
    },
  };
}

/** Counts each request for its address before anything of it is read. Middleware before this one is not counted. */
export const limitByAddress = (rates: RateLimits): Koa.Middleware => {
  return function countRequest(ctx, next) {
    rates.countAddress(ctx.state["client"] as string);
    return next();
  };
};
