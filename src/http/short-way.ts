/**
 * The short way of a request with an API key to an operation, which nearly all requests of a busy server are. Such a
 * request passes every middleware between the boundary and the router unchanged, so it goes from one to the other at
 * once: the same boundary, router and pipeline serve it, and answers, log lines and metrics are the same. A test sends
 * generated requests both ways and compares every byte.
 */
import type { RequestListener } from "node:http";
import { pipeline, Readable } from "node:stream";
import type Koa from "koa";
import { holdUntilDurable } from "./durable-answers.ts";
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
      await holdUntilDurable(ctx, server.durable, () => serveOperation({ server, operation, ctx }));
    }).then(
      () => send(ctx),
      (error: Error) => ctx.onerror(error),
    );
  };
}

/**
 * Sends the answer as Koa does, for the bodies that operations and errors have: a text, bytes, a stream, or none, as
 * with 304. Koa itself would cost what this way saves: it watches the end of each response in an AsyncResource.
 */
function send(ctx: Koa.Context): void {
  const { res, body } = ctx;
  if (ctx.respond === false) return;
  if (!ctx.writable || ctx.method === "HEAD") res.end();
  else if (body instanceof Readable) pipeline(body, res, (error) => error && ctx.onerror(error));
  else res.end(body);
}
