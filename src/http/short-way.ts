/**
 * The short way of a request with an API key to an operation, which nearly all requests of a busy server are. Such a
 * request passes every middleware between the boundary and the router unchanged, so it goes from one to the other at
 * once: the same boundary, router and pipeline serve it, and answers, log lines and metrics are the same. A test sends
 * generated requests both ways and compares every byte.
 */
import type { RequestListener } from "node:http";
import type Koa from "koa";
import { serveOperation } from "./pipeline.ts";
import type { createRouter } from "./routing/router.ts";
import type { Membership, ServerContext } from "./server-context.ts";

type Ways<Context, M extends Membership> = {
  app: Koa;
  server: ServerContext<Context, M>;
  find: ReturnType<typeof createRouter<Context>>;
  /** request-boundary.ts */
  boundary: Koa.Middleware;
  /** Path below which everything is served; null for the root. */
  basePath: string | null;
};

/** A target that a URL parser would not read as it stands. */
const UNUSUAL_TARGET = /[^!-~]|#/;

/** A listener that serves requests with an API key to an operation, and passes all others on to the application. */
export function createShortWay<Context, M extends Membership>({
  app,
  server,
  find,
  boundary,
  basePath,
}: Ways<Context, M>): RequestListener {
  const longWay = app.callback();
  const start = `${basePath ?? ""}/api/`;
  const cut = basePath?.length ?? 0;
  return (request, response) => {
    const { url = "", method = "", headers } = request;
    // Without the header it may be a browser, whose session is renewed on any request.
    const isShort = headers.authorization !== undefined && url.startsWith(start) && !UNUSUAL_TARGET.test(url);
    const found = isShort ? find(method, (url.split("?", 1)[0] as string).slice(cut)) : null;
    if (!found || !("operation" in found)) {
      longWay(request, response);
      return;
    }
    const { operation, params } = found;
    const ctx = Object.assign(app.createContext(request, response), { params });
    if (cut > 0) ctx.url = url.slice(cut);
    boundary(ctx, async () => {
      server.rateLimits.countAddress(ctx.state["client"] as string);
      await serveOperation({ server, operation, ctx });
    }).then(
      () => finish(app, ctx),
      (error: Error) => ctx.onerror(error),
    );
  };
}

/** Sends the answer: one that is a text or bytes at once, anything else as Koa does. */
function finish(app: Koa, ctx: Koa.Context): void {
  if (ctx.respond === false) return;
  const { body, method } = ctx;
  const { statusCode } = ctx.res;
  const isPlain = typeof body === "string" || Buffer.isBuffer(body);
  if (isPlain && method !== "HEAD" && statusCode !== 304 && ctx.writable) ctx.res.end(body);
  else void koaOf(app).handleRequest(ctx, async () => void (ctx.res.statusCode = statusCode));
}

/** What the types of Koa hide: it runs `work`, after it set the status to 404, and sends what is in the context. */
const koaOf = (app: Koa) =>
  app as unknown as { handleRequest(ctx: Koa.Context, work: () => Promise<void>): Promise<void> };
