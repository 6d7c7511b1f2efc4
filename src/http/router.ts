/** Finds the operation of a path under `/api/v2` and its alias `/api/fastapi`; the most specific pattern answers. */
import type Koa from "koa";
import { methodNotAllowed, routeNotFound } from "../errors.ts";
import type { AnyOperation } from "./operation.ts";
import { canAnswer } from "./overlapping-routes.ts";
import { serveOperation } from "./pipeline.ts";
import { compareRoutes } from "./route-order.ts";
import type { Membership, ServerContext } from "./server-context.ts";

type Params = Record<string, string>;

/** The operation of a request, with its decoded path parameters. */
type RouteMatch<Context> = { operation: AnyOperation<Context>; params: Params };

/** @param method HEAD finds the operations of GET */
type FindRoute<Context> = (method: string, path: string) => RouteMatch<Context> | { allowed: readonly string[] } | null;

/** A segment of a pattern: a literal, or the name of a parameter that takes one segment, or the rest of the path. */
type Segment = { literal: string } | { param: string } | { rest: string };
type Route<Context> = { operation: AnyOperation<Context>; segments: readonly Segment[] };

const API_PREFIX = /^\/api\/(?:v2|fastapi)(?=\/|$)/;

/**
 * A function that finds the operation of a request. It returns the methods that the path takes if the method is none
 * of them, without any for an unknown path; null for a path outside the API.
 */
export function createRouter<Context>(operations: readonly AnyOperation<Context>[]): FindRoute<Context> {
  // By first segment: a request is matched against the patterns of its own resource only.
  const resources = new Map<string, Route<Context>[]>();
  for (const operation of [...operations].sort((a, b) => compareRoutes(a.path, b.path))) {
    const [first = "", ...segments] = operation.path.slice(1).split("/");
    const routes = resources.get(first) ?? [];
    resources.set(first, routes);
    routes.push({ operation, segments: segments.map(parseSegment) });
  }

  return (method, path) => {
    const prefix = API_PREFIX.exec(path);
    if (!prefix) return null;
    const [, first = "", ...parts] = path.slice(prefix[0].length).split("/");
    const verb = method === "HEAD" ? "GET" : method;
    const allowed = new Set<string>();
    let mostSpecific: string | null = null;
    for (const { operation, segments } of resources.get(first) ?? []) {
      if (!takes(segments, parts)) continue;
      mostSpecific ??= operation.path;
      if (operation.method !== verb && allowed.has(operation.method)) continue;
      let params: Params | null = null;
      const decoded = (): Params => (params ??= paramsOf(segments, parts));
      if (!canAnswer(operation, mostSpecific, decoded)) continue;
      if (operation.method === verb) return { operation, params: decoded() };
      allowed.add(operation.method);
      if (operation.method === "GET") allowed.add("HEAD");
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
    if (found) throw found.allowed.length === 0 ? routeNotFound() : methodNotAllowed([...found.allowed]);
    if (ctx.path === "/api" || ctx.path.startsWith("/api/")) throw routeNotFound();
    return next();
  };
}

function parseSegment(text: string): Segment {
  const [, name, rest] = /^\{(\w+)(\*?)\}$/.exec(text) ?? [];
  if (name === undefined) return { literal: text };
  return rest === "*" ? { rest: name } : { param: name };
}

/** Whether a pattern matches a path. A parameter takes at least one character. */
function takes(segments: readonly Segment[], parts: readonly string[]): boolean {
  if (parts.length < segments.length) return false;
  for (let index = 0; index < segments.length; index += 1) {
    const segment = segments[index] as Segment;
    if ("rest" in segment) return parts.length > index + 1 || parts[index] !== "";
    if ("literal" in segment ? parts[index] !== segment.literal : parts[index] === "") return false;
  }
  return parts.length === segments.length;
}

function paramsOf(segments: readonly Segment[], parts: readonly string[]): Params {
  const params: Params = {};
  for (let index = 0; index < segments.length; index += 1) {
    const segment = segments[index] as Segment;
    if ("param" in segment) params[segment.param] = decode(parts[index] as string);
    else if ("rest" in segment) params[segment.rest] = decode(parts.slice(index).join("/"));
  }
  return params;
}

/** Text that is not correctly encoded is taken literally: some clients encode nothing. */
function decode(text: string): string {
  if (!text.includes("%")) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
