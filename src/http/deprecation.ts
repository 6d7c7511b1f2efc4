/**
 * Tells callers that they use something deprecated: the header `Deprecation` with the date since when it is (RFC 9745),
 * and `Link` (RFC 8288) to the documentation and to what replaces it. Operations and the shapes of their queries and
 * bodies declare it.
 */
import type Koa from "koa";
import type { TSchema } from "typebox";
import type { AnyOperation } from "./operation.ts";
import type { Deprecation } from "./schema.ts";

/** Deprecated parameters or fields of one level, by name. */
type Names = ReadonlyMap<string, Deprecation>;
type Deprecated = { query: Names; body: Names };

/** By operation: looking through the shapes for every request would cost more than the request. */
const known = new WeakMap<object, Deprecated>();

export function deprecationsOf<Context>(operation: AnyOperation<Context>): Deprecated {
  let found = known.get(operation);
  if (found === undefined) {
    const { query, body } = operation;
    found = { query: namesIn(query), body: body.kind === "none" ? new Map() : namesIn(body.schema) };
    known.set(operation, found);
  }
  return found;
}

function namesIn(schema: TSchema): Names {
  const { properties = {} } = schema as { properties?: Record<string, { "x-deprecation"?: Deprecation }> };
  return new Map(
    Object.entries(properties).flatMap(([name, shape]) =>
      shape["x-deprecation"] ? [[name, shape["x-deprecation"]] as const] : [],
    ),
  );
}

/**
 * Sets the headers of a request to `operation` that sent these values: of the query, then of the body once it was read.
 * A value that is absent, empty or null is not used: clients send such for everything that nobody asked for.
 * @param root public address of the server, without a trailing slash
 */
export function announceDeprecation<Context>(
  ctx: Koa.Context & { params: Record<string, string> },
  operation: AnyOperation<Context>,
  root: string,
  sent: { query?: Readonly<Record<string, unknown>>; body?: unknown },
): void {
  const { query, body } = deprecationsOf(operation);
  if (operation.deprecation === undefined && query.size === 0 && body.size === 0) return;
  const used = [...usedOf(query, sent.query), ...usedOf(body, sent.body)];
  const first = operation.deprecation ?? used.sort((a, b) => a.since.localeCompare(b.since))[0];
  if (first === undefined || ctx.res.hasHeader("Deprecation")) return;
  ctx.res.setHeader("Deprecation", `@${Date.parse(`${first.since}T00:00:00Z`) / 1000}`);
  const links = [`<${root}/api/v2/doc/>; rel="deprecation"; type="text/html"`];
  const { successor } = operation.deprecation ?? {};
  if (successor !== undefined) {
    const path = successor.replace(/\{(\w+)\}/g, (_all, name: string) =>
      encodeURIComponent((ctx.params[name] ?? "").toWellFormed()),
    );
    links.push(`<${root}/api/v2${path}>; rel="successor-version"`);
  }
  ctx.res.setHeader("Link", links.join(", "));
}

function usedOf(names: Names, values: unknown): Deprecation[] {
  if (typeof values !== "object" || values === null) return [];
  return [...names].flatMap(([name, deprecation]) => {
    const value = Object.hasOwn(values, name) ? (values as Record<string, unknown>)[name] : undefined;
    return value === undefined || value === null || value === "" ? [] : [deprecation];
  });
}

/** Sets the headers of an answer. A `Link` of a deprecation stays, beside those that the answer has. */
export function setResponseHeaders(ctx: Koa.Context, headers: Readonly<Record<string, string>>): void {
  const announced = ctx.res.getHeader("Link");
  ctx.set(headers);
  if (typeof announced === "string" && headers["Link"] !== undefined)
    ctx.res.setHeader("Link", `${headers["Link"]}, ${announced}`);
}
