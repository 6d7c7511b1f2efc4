/**
 * The outermost layer of every request: its id, the headers of every answer, the single error boundary, and one log
 * line however the request ends. Code inside neither handles errors for the client nor writes that line.
 */
import { Readable } from "node:stream";
import type Koa from "koa";
import { bodyBytes, createAnswerRoom, sendInPieces } from "./memory/answer-room.ts";
import type { AnswerRoom } from "./memory/answer-room.ts";
import { ClientGoneError, hasBody } from "./body/body.ts";
import { clientAddress, isSecure } from "./client-address.ts";
import { requireClearHead } from "./malformed-request.ts";
import { emptyLogFields } from "./request-log.ts";
import type { RequestEntry } from "./request-entry.ts";
import type { RequestLogFields } from "./request-log.ts";
import { sendError } from "./response.ts";
import { setSecurityHeaders } from "./security-headers.ts";
import type { ServerContext } from "./server-context.ts";
import { createWatchdog } from "./watchdog/watchdog.ts";
import type { Watched } from "./watchdog/watchdog.ts";

/**
 * Seconds for which the rest of a body is read and dropped after an early answer, before the connection is closed:
 * enough for a client on a slow link to notice the answer while it is still sending.
 */
const LINGER_S = 5;

/** Sent by clients and proxies to correlate logs; anything else is replaced by an id of our own. */
const REQUEST_ID = /^[A-Za-z0-9._-]{1,100}$/;

/** What the boundary needs of the server. */
export type RequestHooks = Pick<
  ServerContext<unknown>,
  | "limits"
  | "newId"
  | "onRequest"
  | "onHungRequest"
  | "logRequest"
  | "mapError"
  | "answerBudget"
  | "watchAnswer"
  | "watchdogTimer"
>;

/** One request as the boundary sees it from start to end. */
type Passage = {
  readonly startedMs: number;
  readonly requestId: string;
  /** Address of the client. */
  readonly client: string;
  readonly log: Readonly<RequestLogFields>;
  /** The error that ended it, null for none. */
  readonly failure: unknown;
  /** Bytes that the connection had sent before a streamed answer; null for an answer of known size. */
  readonly bytesBeforeStream: number | null;
  readonly room: AnswerRoom;
  readonly watched: Watched;
};

/**
 * The outermost middleware. Inside, `ctx.state` has `requestId`, `client` (the address that rate limits count), `log`
 * (request-log.ts), `answerRoom` (answer-room.ts) and `progress` (watchdog/request-progress.ts).
 */
export function createRequestBoundary(hooks: RequestHooks): Koa.Middleware {
  const watchdog = createWatchdog({
    timer: hooks.watchdogTimer,
    stallTimeoutS: hooks.limits.stallTimeoutS,
    onHung: hooks.onHungRequest,
  });
  return async function requestBoundary(ctx, next) {
    const startedMs = performance.now();
    hooks.onRequest();
    const sentId = ctx.get("X-Request-ID");
    const requestId = REQUEST_ID.test(sentId) ? sentId : hooks.newId();
    const client = clientAddress(ctx.req);
    const log = emptyLogFields();
    const watched = watchdog.watch(ctx);
    ctx.state = { log, requestId, client, progress: watched.progress };
    const room = createAnswerRoom(ctx, hooks.answerBudget);
    ctx.state["answerRoom"] = room;
    ctx.res.setHeader("X-Request-ID", requestId);
    setSecurityHeaders(ctx.res, { isSecure: isSecure(ctx.req) });
    let failure: unknown = null;
    try {
      requireClearHead(ctx.req);
      await watched.run(next);
      if (ctx.method !== "HEAD") room.take(bodyBytes(ctx.body) ?? 0, { isRead: ctx.method === "GET" });
    } catch (error) {
      const isChange = ctx.method !== "GET" && ctx.method !== "HEAD";
      failure = error instanceof ClientGoneError ? error : hooks.mapError(error, { isChange });
      if (failure instanceof ClientGoneError) ctx.respond = false;
      else sendError(ctx, failure, requestId);
    }
    const bytesBeforeStream = ctx.body instanceof Readable ? ctx.req.socket.bytesWritten : null;
    watched.progress.enter("sending");
    const passage: Passage = { startedMs, requestId, client, log, failure, bytesBeforeStream, room, watched };
    await endRequest(ctx, hooks, passage);
  };
}

/** Logs the request once its answer is sent, and drains an unread body. */
async function endRequest(ctx: Koa.Context, hooks: RequestHooks, passage: Passage): Promise<void> {
  let unread = false;
  const logEnd = (aborted: boolean): void => {
    passage.watched.end();
    hooks.logRequest(logEntry(ctx, passage, { aborted, unread }), passage.failure);
  };
  if (isStillSending(ctx)) {
    // A small body usually arrived together with the head and is merely not parsed yet; that connection can be kept.
    ctx.req.resume();
    await new Promise((resolve) => setImmediate(resolve));
  }
  const { res } = ctx;
  if (res.destroyed || res.writableFinished) {
    passage.room.release();
    logEnd(!res.writableFinished);
    return;
  }
  const stopWatching = hooks.watchAnswer(res, () => {
    unread = true;
    res.destroy();
  });
  const isEarly = isStillSending(ctx);
  res.once("close", () => {
    stopWatching();
    passage.room.release();
    if (!isEarly) logEnd(!res.writableFinished);
  });
  if (!isEarly) {
    sendInPieces(ctx);
    return;
  }
  answerEarly(ctx);
  logEnd(false);
  await bodyEnds(ctx, hooks.limits.lingerS ?? LINGER_S);
  res.end();
}

function logEntry(
  ctx: Koa.Context,
  passage: Passage,
  { aborted, unread }: { aborted: boolean; unread: boolean },
): RequestEntry {
  const { log, failure, bytesBeforeStream } = passage;
  const bodyBytes = ctx.method === "HEAD" ? 0 : Number(ctx.res.getHeader("Content-Length") ?? 0);
  return {
    method: ctx.method,
    route: log.route,
    // With the base path, if the server is mounted below one.
    path: log.path ?? ctx.originalUrl,
    status: failure instanceof ClientGoneError ? 499 : ctx.res.statusCode,
    duration_ms: performance.now() - passage.startedMs,
    actor: log.principal?.name ?? null,
    org: log.organization,
    client: passage.client,
    request_id: passage.requestId,
    bytes_in: Number(ctx.req.headers["content-length"] ?? 0),
    // For a stream, what was actually sent, head included: its size may be unknown, and it may have been cut.
    bytes_out: bytesBeforeStream === null ? bodyBytes : ctx.req.socket.bytesWritten - bytesBeforeStream,
    ...(aborted && failure === null ? { aborted } : {}),
    ...(unread ? { unread } : {}),
  };
}

/** Whether the answer is ready while the client is still sending a body that will not be read. */
const isStillSending = ({ req, body }: Koa.Context): boolean =>
  hasBody(req) &&
  !req.complete &&
  !req.destroyed &&
  (body == null || typeof body === "string" || Buffer.isBuffer(body));

/**
 * Writes an answer before the whole body has arrived, all of it except the end. Ending it would close the connection at
 * once, and closing with unread bytes resets it: the client would see a broken connection instead of its refusal.
 */
function answerEarly(ctx: Koa.Context): void {
  const { res, body } = ctx;
  ctx.respond = false;
  res.setHeader("Connection", "close");
  if (ctx.method !== "HEAD" && body != null) res.write(body as string | Buffer);
  else res.flushHeaders();
}

/** Resolves when the body has ended, the client is gone, or `seconds` have passed. */
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
