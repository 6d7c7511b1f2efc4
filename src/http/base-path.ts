/**
 * Serving below a path (option `base-path`). The path is removed here, before anything else sees the request, and no
 * code behind knows it: routes, cache keys and audit entries are the same wherever the server is mounted.
 */
import type Koa from "koa";
import { routeNotFound } from "../errors.ts";

/** Removes the base path from the request's URL; a URL outside it stays as it is. Comes first. */
export function stripBasePath(basePath: string): Koa.Middleware {
  return function stripPath(ctx, next) {
    if (isBelow(basePath, ctx.originalUrl)) ctx.url = ctx.originalUrl.slice(basePath.length).replace(/^(?!\/)/, "/");
    return next();
  };
}

/**
 * Answers 404 outside the base path. Comes after the health probes, which also answer at the host root: a load balancer
 * knows the host only.
 */
export function requireBasePath(basePath: string): Koa.Middleware {
  return function requirePath(ctx, next) {
    if (!isBelow(basePath, ctx.originalUrl)) throw routeNotFound();
    return next();
  };
}

const isBelow = (basePath: string, url: string): boolean =>
  url.startsWith(basePath) && /^(?:[/?]|$)/.test(url.slice(basePath.length, basePath.length + 1));
