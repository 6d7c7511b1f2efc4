/** The interactive API reference. */
import type Koa from "koa";

export function documentation(): Koa.Middleware {
  return async (_ctx, next) => next();
}
