/** Mounts operations as routes under `/api/v2` and its alias `/api/fastapi`; the most specific pattern answers. */
import Router from "@koa/router";
import type Koa from "koa";
import { methodNotAllowed, routeNotFound } from "../errors.ts";
import type { AnyOperation, Method } from "./operation.ts";
import { canAnswer } from "./overlapping-routes.ts";
import { serveOperation } from "./pipeline.ts";
import { compareRoutes, routerPath } from "./route-order.ts";
import type { Membership, ServerContext } from "./server-context.ts";

const API_PREFIX = /^\/api\/(?:v2|fastapi)(?=\/|$)/;

/**
 * The Koa middleware that serves all operations under `/api/v2` and its alias `/api/fastapi`. Paths outside `/api` go
 * to the next middleware.
 */
export function mountOperations<Context, M extends Membership>(server: ServerContext<Context, M>): Koa.Middleware {
  // One router for each first segment: a request is matched against the patterns of its own resource only.
  const routers = new Map<string, Router>();
  const operations = new Map<unknown, AnyOperation<Context>>();
  for (const operation of [...server.operations].sort((a, b) => compareRoutes(a.path, b.path))) {
    const first = operation.path.split("/")[1] ?? "";
    const router = routers.get(first) ?? new Router({ strict: true, sensitive: true });
    routers.set(first, router);
    const verb = operation.method.toLowerCase() as Lowercase<Method>;
    router[verb](routerPath(operation.path), (ctx: Koa.Context & { params: Record<string, string> }) =>
      serveOperation({ server, operation, ctx }),
    );
    operations.set(router.stack.at(-1), operation);
  }

  return async function routeRequest(ctx, next) {
    const prefix = API_PREFIX.exec(ctx.path);
    if (!prefix) {
      if (ctx.path === "/api" || ctx.path.startsWith("/api/")) throw routeNotFound();
      return next();
    }
    const path = ctx.path.slice(prefix[0].length) || "/";
    const first = path.split("/", 2)[1] ?? "";
    const router = routers.get(first);
    if (!router) throw routeNotFound();
    // The router's own middleware would compose a chain for every request, although each route has one handler.
    const { path: matches, pathAndMethod } = router.match(path, ctx.method);
    type Route = (typeof matches)[number];
    const operationOf = (route: Route): AnyOperation<Context> => operations.get(route) as AnyOperation<Context>;
    const paramsOf = (route: Route): Record<string, string> => route.params(path, route.captures(path));
    // The router keeps the order of registration, so the first match is the most specific one.
    const takesPath = (route: Route): boolean =>
      canAnswer(operationOf(route), operationOf(matches[0] as Route).path, () => paramsOf(route));
    const route = pathAndMethod.find(takesPath);
    if (route) return route.stack[0]?.(Object.assign(ctx, { params: paramsOf(route) }) as never, next);
    const allowed = new Set(matches.filter(takesPath).flatMap((layer) => layer.methods));
    throw allowed.size === 0 ? routeNotFound() : methodNotAllowed([...allowed].sort());
  };
}
