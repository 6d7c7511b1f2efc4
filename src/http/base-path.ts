/**
 * A server below a path of its own (`base-path`). The path is taken away here, before anything else looks at a request,
 * and nobody behind knows of it: routes, keys of kept answers and audit entries are the same wherever the server
 * stands.
 */
import type Koa from "koa";
import { routeNotFound } from "../errors.ts";

/** Takes the base path off the address of a request; one that lies outside goes on as it is. Comes first. */
export function stripBasePath(basePath: string): Koa.Middleware {
  return function strip(ctx, next) {
    if (isBelow(basePath, ctx.originalUrl)) ctx.url = ctx.originalUrl.slice(basePath.length).replace(/^(?!\/)/, "/");
    return next();
  };
}

/**
 * Refuses what lies outside of the base path. Comes after the probes, which answer there too: who asks them knows the
 * host alone.
 */
export function requireBasePath(basePath: string): Koa.Middleware {
  return function refuse(ctx, next) {
    if (!isBelow(basePath, ctx.originalUrl)) throw routeNotFound();
    return next();
  };
}

const isBelow = (basePath: string, url: string): boolean =>
  url.startsWith(basePath) && /^(?:[/?]|$)/.test(url.slice(basePath.length, basePath.length + 1));
