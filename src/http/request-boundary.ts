/**
 * The beginning and the end of every request: its id, the headers of every answer, the one boundary for errors, and one
 * line in the log however it ends. What comes in between neither sees errors nor writes the log.
 */
import { Readable } from "node:stream";
import type Koa from "koa";
import { ClientGoneError, hasBody } from "./body/body.ts";
import { requireOneHost } from "./malformed-request.ts";
import { clientAddress, isSecure } from "./client-address.ts";
import { sendError } from "./response.ts";
import { setSecurityHeaders } from "./security-headers.ts";
import type { RequestContext, ServerContext } from "./server-context.ts";

/**
 * What becomes known of a request on its way, for its line in the log. `path`: what stands there in place of a path
 * that holds a secret.
 */
export type RequestState = {
  operationId: string | null;
  facts: RequestContext | null;
  organization: string | null;
  path: string | null;
};

/** Says what the request is about, for log and metrics, where no operation does: a page, a probe. */
export const setRoute = (ctx: Koa.Context, name: string): void =>
  void ((ctx.state["assay"] as RequestState).operationId = name);

/**
 * After an answer that did not wait for the rest of the body, the rest is read away for this many seconds before the
 * connection is cut: enough for a client on a slow link to notice the answer while it is still sending.
 */
const LINGER_S = 5;

type Reception = Pick<ServerContext<unknown>, "limits" | "newId" | "onRequest" | "logRequest" | "mapError">;

/**
 * The outermost middleware. `ctx.state` then has `requestId`, and `client`, the address that the request is counted
 * for.
 */
export function createRequestBoundary(house: Reception): Koa.Middleware {
  return async function arrival(ctx, next) {
    const started = performance.now();
    house.onRequest();
    const asked = ctx.get("X-Request-ID");
    const requestId = /^[A-Za-z0-9._-]{1,100}$/.test(asked) ? asked : house.newId();
    const state: RequestState = { operationId: null, facts: null, organization: null, path: null };
    const client = clientAddress(ctx.req);
    ctx.state = { assay: state, requestId, client };
    ctx.res.setHeader("X-Request-ID", requestId);
    setSecurityHeaders(ctx.res, isSecure(ctx.req));
    let failure: unknown = null;
    try {
      requireOneHost(ctx.req);
      await next();
    } catch (error) {
      failure =
        error instanceof ClientGoneError ? error : house.mapError(error, ctx.method !== "GET" && ctx.method !== "HEAD");
      if (failure instanceof ClientGoneError) ctx.respond = false;
      else sendError(ctx, failure, requestId);
    }
    const { socket } = ctx.req;
    const before = ctx.body instanceof Readable ? socket.bytesWritten : null;
    const done = (aborted: boolean): void => {
      house.logRequest(
        {
          method: ctx.method,
          route: state.operationId,
          // Whole, also where the server stands below a path.
          path: state.path ?? ctx.originalUrl,
          status: failure instanceof ClientGoneError ? 499 : ctx.res.statusCode,
          duration_ms: performance.now() - started,
          actor: state.facts?.principal?.name ?? null,
          org: state.organization,
          client,
          request_id: requestId,
          bytes_in: Number(ctx.req.headers["content-length"] ?? 0),
          // Of a stream what really left, its head included: it may have been cut, and its size need not have been
          // known.
          bytes_out:
            before !== null
              ? socket.bytesWritten - before
              : ctx.method === "HEAD"
                ? 0
                : Number(ctx.res.getHeader("Content-Length") ?? 0),
          ...(aborted && failure === null ? { aborted } : {}),
        },
        failure,
      );
    };
    if (isStillSending(ctx)) {
      // A small body mostly came with the head and is only not parsed yet: such a connection is kept.
      ctx.req.resume();
      await new Promise((resolve) => setImmediate(resolve));
    }
    if (ctx.res.destroyed || ctx.res.writableFinished) done(!ctx.res.writableFinished);
    else if (isStillSending(ctx)) {
      answerEarly(ctx);
      done(false);
      await bodyEnds(ctx, house.limits.lingerS ?? LINGER_S);
      ctx.res.end();
    } else ctx.res.once("close", () => done(!ctx.res.writableFinished));
  };
}

/** Whether the client is still sending a body for which nobody waits, and the answer is at hand. */
const isStillSending = ({ req, body }: Koa.Context): boolean =>
  hasBody(req) &&
  !req.complete &&
  !req.destroyed &&
  (body == null || typeof body === "string" || Buffer.isBuffer(body));

/**
 * Writes an answer that came before the whole body did, all of it but the end. Ending it would close the connection at
 * once, and closing with bytes unread resets it: the client would see a broken connection in place of its refusal.
 */
function answerEarly(ctx: Koa.Context): void {
  const { res, body } = ctx;
  ctx.respond = false;
  res.setHeader("Connection", "close");
  if (ctx.method !== "HEAD" && body != null) res.write(body as string | Buffer);
  else res.flushHeaders();
}

/** Resolves when the body has ended, the client is gone, or `seconds` are over. */
function bodyEnds(ctx: Koa.Context, seconds: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, seconds * 1000);
    const ended = (): void => {
      clearTimeout(timer);
      resolve();
    };
    ctx.req.once("end", ended).once("close", ended).once("error", ended);
  });
}
