/** Finds the operation of a path under `/api/v2` and its alias `/api/fastapi`; the most specific pattern answers. */
import type Koa from "koa";
import { decodePathPart } from "../../domain/network/urls.ts";
import { methodNotAllowed, routeNotFound } from "../../errors.ts";
import type { AnyOperation } from "../operation.ts";
import { canAnswer } from "./overlapping-routes.ts";
import { serveOperation } from "../pipeline.ts";
import { describeAlternatives } from "./route-hints.ts";
import { createRouteTable } from "./route-table.ts";
import type { Membership, ServerContext } from "../server-context.ts";

type Params = Record<string, string>;

/** The operation of a request, with its decoded path parameters. */
type RouteMatch<Context> = { operation: AnyOperation<Context>; params: Params };

/** @param method HEAD finds the operations of GET */
type FindRoute<Context> = (method: string, path: string) => RouteMatch<Context> | { allowed: readonly string[] } | null;

const API_PREFIX = /^\/api\/(?:v2|fastapi)(?=\/|$)/;

/**
 * A function that finds the operation of a request. `respell` turns other spellings of a path, below the API, into
 * that of the operations. It returns the methods that the path takes if the method is none
 * of them, without any for an unknown path; null for a path outside the API.
 */
export function createRouter<Context>(
  operations: readonly AnyOperation<Context>[],
  respell: (path: string) => string = (path) => path,
): FindRoute<Context> {
  const table = createRouteTable(
    operations.map((operation) => ({ pattern: operation.path, value: operation })),
    { strict: true },
  );

  return (method, path) => {
    const prefix = API_PREFIX.exec(path);
    if (!prefix) return null;
    const matched = table(respell(path.slice(prefix[0].length)));
    const mostSpecific = matched[0]?.pattern ?? "";
    const verb = method === "HEAD" ? "GET" : method;
    const allowed = new Set<string>();
    for (const { values, params } of matched) {
      let decoded: Params | null = null;
      const decodedParams = (): Params => (decoded ??= decodeAll(params()));
      for (const operation of values) {
        if (operation.method !== verb && allowed.has(operation.method)) continue;
        if (!canAnswer(operation, mostSpecific, decodedParams)) continue;
        if (operation.method === verb) return { operation, params: decodedParams() };
        allowed.add(operation.method);
        if (operation.method === "GET") allowed.add("HEAD");
      }
    }
    return { allowed: [...allowed].sort() };
  };
}

/**
 * The Koa middleware that serves all operations. Paths outside `/api` go to the next middleware.
 * @throws AppError 404, 405; those of the operation
 */
export function mountOperations<Context, M extends Membership>(
  server: ServerContext<Context, M>,
  find: FindRoute<Context> = createRouter(server.operations),
): Koa.Middleware {
  return function routeRequest(ctx, next) {
    const found = find(ctx.method, ctx.path);
    if (found && "operation" in found)
      return serveOperation({ server, operation: found.operation, ctx: Object.assign(ctx, { params: found.params }) });
    if (found) return refuseUnknown(server, ctx, found.allowed);
    if (ctx.path === "/api" || ctx.path.startsWith("/api/")) throw routeNotFound();
    return next();
  };
}

/** @throws AppError 404, 405 */
async function refuseUnknown<Context, M extends Membership>(
  server: ServerContext<Context, M>,
  ctx: Koa.Context,
  allowed: readonly string[],
): Promise<never> {
  await server.noteUnknownRoute(ctx);
  const hint = describeAlternatives(server.operations, ctx.method, ctx.path.replace(API_PREFIX, ""));
  throw allowed.length === 0 ? routeNotFound(hint ?? undefined) : methodNotAllowed([...allowed], hint);
}

function decodeAll(params: Params): Params {
  for (const [name, text] of Object.entries(params)) params[name] = decodePathPart(text);
  return params;
}
