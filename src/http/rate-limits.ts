/**
 * How many requests a minute one address, and one key, may send. Both are switched off unless the operator sets them.
 */
import { isIP } from "node:net";
import type Koa from "koa";
import { networkOf } from "../domain/network/client-network.ts";
import { tooManyRequests } from "../errors.ts";
import { createRateLimiter } from "./rate-limiter.ts";

export type RateLimits = {
  /**
   * @param address one that is none, as behind a Unix socket, is not counted: nobody is to be told apart there. @throws
   * AppError 429.
   */
  countAddress(address: string): void;
  /** @param id the public id of the key. @throws AppError 429. */
  countKey(id: string): void;
};

/**
 * @param address and `key` requests a minute; null: any number.
 * @param now seconds of a clock that never goes back.
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
  const limiterOf = (burst: number | null) =>
    burst === null ? null : createRateLimiter({ burst, perSeconds: 60, now });
  const [addresses, keys] = [limiterOf(address), limiterOf(key)];
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

/**
 * Counts the request for its address, before anything of it is looked at. What comes before this middleware is not
 * counted.
 */
export const limitByAddress = (rates: RateLimits): Koa.Middleware => {
  return function counted(ctx, next) {
    rates.countAddress(ctx.state["client"] as string);
    return next();
  };
};
