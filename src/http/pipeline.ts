/**
 * The life of a request to an operation: authorize, read the body, validate, prepare, handle, commit, send. Routing
 * comes before it (router.ts), the error boundary and the log are around it (request-boundary.ts).
 *
 * The order is part of the contract. Nothing is read or looked up for a principal without permission; a request that
 * cannot succeed is refused before its body is read; rights are checked again inside the transaction that writes.
 */
import { gone } from "../errors.ts";
import { authenticateSignature, authorize, findSignedEndpoint, organizationOf, reauthorize } from "./authorize.ts";
import { declaredLength, hasBody } from "./body/body.ts";
import { readOperationBody } from "./body/read-body.ts";
import type { OperationBody } from "./body/read-body.ts";
import { noteIgnoredKeys } from "./body/unknown-keys.ts";
import { announceDeprecation } from "./deprecation.ts";
import { execute } from "./execute.ts";
import { isReading } from "./operation.ts";
import { checkParameters, parseQueryParameters } from "./query-parameters.ts";
import { MAX_INLINE_ANSWER_BYTES } from "./answers/large-answers.ts";
import { answerRoomOf } from "./memory/answer-room.ts";
import { STREAM_BYTES } from "./memory/memory-budget.ts";
import { charactersOf, sendRepresentation, wantsGzip } from "./representation.ts";
import { watchDeparture } from "./response.ts";
import type { Representation } from "./operation.ts";
import { recordForLog } from "./request-log.ts";
import { progressOf } from "./watchdog/request-progress.ts";
import { markDurable } from "./durable-answers.ts";
import { sendReply } from "./send-reply.ts";
import type { Exchange, Membership, RequestContext } from "./server-context.ts";

/** Serves one request. @throws AppError for every refusal; ClientGoneError. */
export async function serveOperation<Context, M extends Membership>(exchange: Exchange<Context, M>): Promise<void> {
  const { server, operation, ctx } = exchange;
  recordForLog(ctx, {
    route: operation.id,
    organization: organizationOf(exchange),
    path: operation.signature ? operation.path : null,
  });
  const request = authorize(exchange);
  if (operation.status === "removed") throw gone();
  if (!isReading(operation)) server.ensureWritable(declaredLength(ctx.req) ?? 0);
  // Before the body is read: an endpoint that does not exist receives none.
  if (operation.signature) findSignedEndpoint(exchange, operation.signature);
  const rawQuery = parseQueryParameters(operation.query, ctx.querystring);
  announceDeprecation(exchange, request.baseUrl, { query: rawQuery });
  const cache = cacheOf(exchange, request);
  if (cache && (await cache.send())) return;

  const isRead = isReading(operation);
  const params = checkParameters(operation.params, { ...ctx.params }, "path");
  const query = checkParameters(operation.query, rawQuery, "query");
  const body = await readOperationBody(exchange, request);
  try {
    announceDeprecation(exchange, request.baseUrl, { body: body.value });
    noteIgnoredKeys(server.noteUnknown, request, body.ignored);
    const reply = await execute(server, operation, {
      request,
      confirm: () => confirm(exchange, request, body),
      // Rights may have ended while the body arrived. A write without preparation checks in its transaction alone.
      confirmsFirst: operation.signature !== undefined || ((isRead || !!operation.prepare) && hasBody(ctx.req)),
      input: {
        params,
        query,
        body: body.value as never,
        asSent: body.asSent as never,
        file: body.file,
        sentFields: body.sentFields,
        rawBody: body.rawBody,
      },
      progress: progressOf(ctx),
      small: body.small,
      staged: body.staged,
      delivery: {
        isForPage: false,
        hasBody: ctx.method !== "HEAD",
        takeRoom: () => answerRoomOf(ctx).take(STREAM_BYTES, { isRead: true }),
        wantsGzip: () => wantsGzip(ctx, MAX_INLINE_ANSWER_BYTES),
        watchDeparture: () => watchDeparture(ctx),
      },
    });
    if (!isRead) markDurable(ctx);
    const sent = await sendReply(exchange, reply);
    if (sent && "dependsOn" in reply && reply.dependsOn) cache?.keep(sent, reply.dependsOn);
  } finally {
    body.lease?.release();
  }
}

/** The request with the rights of this moment. @throws AppError 401, 403, 404. */
function confirm<Context, M extends Membership>(
  exchange: Exchange<Context, M>,
  request: RequestContext<M>,
  { rawBody }: OperationBody,
): RequestContext<M> {
  const { signature } = exchange.operation;
  return signature
    ? authenticateSignature(exchange, signature, { request, body: rawBody })
    : reauthorize(exchange.server, exchange.operation, { request, organization: organizationOf(exchange) });
}

/** The place of this answer in the response cache; null if the operation is not cacheable. */
function cacheOf<Context, M extends Membership>(
  { server, operation, ctx }: Exchange<Context, M>,
  { membership, baseUrl }: RequestContext<M>,
) {
  if (!operation.cacheable || hasBody(ctx.req)) return null;
  const { responseCache } = server;
  const version = responseCache.version();
  const key = `${membership?.organizationId} ${baseUrl} ${ctx.url}`;
  return {
    /** Keeps an answer, once it is durable, until one of the subjects changes. */
    keep(answer: Representation, dependsOn: readonly (number | string)[]): void {
      const entry: Kept = { answer, dependsOn };
      const keep = (): void => responseCache.set(key, entry, { chars: charactersOf(answer), version, dependsOn });
      const pending = server.durable();
      if (pending) void pending.then(keep);
      else keep();
    },
    /** Sends the cached answer. @returns false if there is none. */
    async send(): Promise<boolean> {
      const entry = responseCache.get(key) as Kept | undefined;
      if (entry === undefined) return false;
      const { answer, dependsOn } = entry;
      // It was kept when it was durable.
      markDurable(ctx);
      const before = charactersOf(answer);
      await sendRepresentation(ctx, answer);
      // It grew if this was the first client that accepts gzip.
      const chars = charactersOf(answer);
      if (chars !== before) responseCache.set(key, entry, { chars, version, dependsOn });
      return true;
    },
  };
}

type Kept = { answer: Representation; dependsOn: readonly (number | string)[] };
