/**
 * Finds the patterns that match a path, the most specific one first (route-order.ts). @koa/router does the matching. It
 * tests one pattern after the other, so each first segment and number of segments has a router of its own: one router
 * for all operations would test 170 patterns for each request, these test three on average. Each is made for the first
 * path that needs it: most processes need few of the hundreds.
 */
import Router from "@koa/router";
import type { Layer, RouterMiddleware } from "@koa/router";
import { compareRoutes } from "./route-order.ts";

/** A pattern that matches, and what is registered under it. */
type Matched<T> = {
  pattern: string;
  values: readonly T[];
  /** The path parameters as they stand in the path, still percent-encoded. */
  params(): Record<string, string>;
};

/** @returns what matches a path, in route order */
type RouteTable<T> = (path: string) => Matched<T>[];

/**
 * @param routes patterns as OpenAPI spells them: `{name}` takes one segment, `{name*}` the rest of the path
 * @param options.strict whether a slash at the end makes another path
 */
export function createRouteTable<T>(
  routes: readonly { pattern: string; value: T }[],
  { strict }: { strict: boolean },
): RouteTable<T> {
  const registered = new Map<string, T[]>();
  for (const { pattern, value } of routes) registered.set(pattern, [...(registered.get(pattern) ?? []), value]);
  const patterns = [...registered.keys()].sort(compareRoutes);
  // Patterns for all longer paths match a path of this size, too.
  const longest = patterns.reduce((most, pattern) => Math.max(most, countSegments(pattern)), 0) + 1;
  const valuesOf = new WeakMap<Layer, Pick<Matched<T>, "pattern" | "values">>();

  function createRouterFor(first: string | null, size: number): Router {
    const router = new Router({ strict, sensitive: true });
    for (const pattern of patterns.filter((known) => canMatch(known, first, size))) {
      const layer = router.register(expressionOf(pattern), ["GET"], passOn) as Layer;
      valuesOf.set(layer, { pattern, values: registered.get(pattern) as T[] });
    }
    return router;
  }

  const firsts = patterns.map(firstSegment).filter((first) => !first.startsWith("{"));
  /** By first segment, null for any that no pattern names, and number of segments. */
  const routers = new Map<string | null, Router[]>([null, ...firsts].map((first) => [first, []]));

  return (path) => {
    const sized = !strict && path.endsWith("/") ? path.slice(0, -1) : path;
    const known = firstSegment(sized);
    const first = routers.has(known) ? known : null;
    const bySize = routers.get(first) as Router[];
    const size = Math.min(countSegments(sized), longest);
    const router = (bySize[size] ??= createRouterFor(first, size));
    return router.match(path, "GET").path.map((layer) => ({
      ...(valuesOf.get(layer as Layer) as Pick<Matched<T>, "pattern" | "values">),
      params: () => paramsOf(layer as Layer, path),
    }));
  };
}

/** Nothing is called through these routers: they only match. */
const passOn: RouterMiddleware = (_, next) => next();

/** The spelling of @koa/router: `:name`, and `*name` for the rest of the path. */
const expressionOf = (pattern: string): string =>
  pattern.replace(/\{(\w+)(\*?)\}/g, (_, name: string, rest: string) => (rest ? `*${name}` : `:${name}`));

function firstSegment(path: string): string {
  const end = path.indexOf("/", 1);
  return end < 0 ? path.slice(1) : path.slice(1, end);
}

function countSegments(path: string): number {
  let count = 0;
  for (let at = path.indexOf("/"); at >= 0; at = path.indexOf("/", at + 1)) count += 1;
  return count;
}

/** Whether a path with that first segment, null for any that no pattern names, and so many segments can match. */
function canMatch(pattern: string, first: string | null, size: number): boolean {
  const own = firstSegment(pattern);
  if (!own.startsWith("{") && own !== first) return false;
  return pattern.endsWith("*}") ? size >= countSegments(pattern) : size === countSegments(pattern);
}

function paramsOf(layer: Layer, path: string): Record<string, string> {
  const captures = layer.captures(path);
  return Object.fromEntries(layer.paramNames.map(({ name }, at) => [name, captures[at] as string]));
}
