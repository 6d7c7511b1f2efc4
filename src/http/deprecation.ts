/**
 * Announces deprecations in answers: the header `Deprecation` with the date since which something is deprecated (RFC
 * 9745), and `Link` (RFC 8288) to the documentation and the replacement. Operations declare them, and so do the shapes
 * of their queries and bodies.
 */
import type Koa from "koa";
import type { TSchema } from "typebox";
import type { AnyOperation } from "./operation.ts";
import type { Deprecation } from "./schema.ts";
import type { Exchange, Membership } from "./server-context.ts";

/** Deprecated parameters or fields of one level, by name. */
type Names = ReadonlyMap<string, Deprecation>;
type Deprecations = { query: Names; body: Names };

/** By operation: searching the shapes for every request would cost more than the request itself. */
const cache = new WeakMap<object, Deprecations>();

/** The deprecated query parameters and top-level body fields of an operation. */
export function deprecationsOf<Context>(operation: AnyOperation<Context>): Deprecations {
  let found = cache.get(operation);
  if (found === undefined) {
    const { query, body } = operation;
    found = { query: namesIn(query), body: body.kind === "none" ? new Map() : namesIn(body.schema) };
    cache.set(operation, found);
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
 * Sets the headers if the operation, or any value that was sent, is deprecated. Called with the query, and again with
 * the body once it is read. A value that is absent, empty or null does not count as used: clients send those for
 * options that their user never set.
 * @param root public URL of the server, without a trailing slash
 */
export function announceDeprecation<Context, M extends Membership>(
  { operation, ctx }: Pick<Exchange<Context, M>, "operation" | "ctx">,
  root: string,
  sent: { query?: Readonly<Record<string, unknown>>; body?: unknown },
): void {
  const { query, body } = deprecationsOf(operation);
  if (operation.deprecation === undefined && query.size === 0 && body.size === 0) return;
  const used = [...findUsed(query, sent.query), ...findUsed(body, sent.body)];
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

function findUsed(names: Names, values: unknown): Deprecation[] {
  if (typeof values !== "object" || values === null) return [];
  return [...names].flatMap(([name, deprecation]) => {
    const value = Object.hasOwn(values, name) ? (values as Record<string, unknown>)[name] : undefined;
    return value === undefined || value === null || value === "" ? [] : [deprecation];
  });
}

/** Sets the headers of an answer. A `Link` that announces a deprecation is kept beside the links of the answer. */
export function setResponseHeaders(ctx: Koa.Context, headers: Readonly<Record<string, string>>): void {
  const announced = ctx.res.getHeader("Link");
  ctx.set(headers);
  if (typeof announced === "string" && headers["Link"] !== undefined)
    ctx.res.setHeader("Link", `${headers["Link"]}, ${announced}`);
}
