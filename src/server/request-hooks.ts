/** What happens around every request, whatever it asks for: its id, its log line, its metrics, and error mapping. */
import Koa from "koa";
import { systemTimer } from "../clock.ts";
import { messageOf } from "../domain/text/system-errors.ts";
import type { Timer } from "../domain/time.ts";
import { AppError } from "../errors.ts";
import { createAnswerWatch } from "../http/memory/answer-watch.ts";
import type { BodyLimits } from "../http/body/body.ts";
import type { MalformedRequest } from "../http/malformed-request.ts";
import type { MemoryBudget } from "../http/memory/memory-budget.ts";
import type { RequestHooks } from "../http/request-boundary.ts";
import type { RequestEntry } from "../http/request-entry.ts";
import type { RequestLogFields } from "../http/request-log.ts";
import type { HungRequest } from "../http/watchdog/watchdog.ts";
import type { Logger } from "../log.ts";
import { translateStorageError } from "./disk-guard.ts";
import type { DiskGuard } from "./disk-guard.ts";
import type { Bindable } from "./listener.ts";
import { logRequest } from "./log-request.ts";
import type { Metrics } from "./metrics.ts";

export type RequestHookDependencies = {
  /** Makes the ids of requests. */
  sources: { newId(): string };
  limits: BodyLimits;
  logger: Logger;
  diskGuard: Pick<DiskGuard, "ensureWritable" | "readOnlyReason" | "reportFailure">;
  /** Bounds what callers can make the server hold. */
  memory: MemoryBudget;
  /** For clients that do not read; that of the system unless given. */
  unreadTimer?: Timer;
  /** null: nothing is measured. */
  metrics: { metrics: Metrics } | null;
  /** Of the watchdog; that of the system unless given. */
  watchdogTimer?: Timer;
};

export type App = Koa & Bindable;

export function requestHooks({
  sources,
  limits,
  logger,
  diskGuard,
  memory,
  unreadTimer: timer = systemTimer,
  metrics: measured,
  watchdogTimer = systemTimer,
}: RequestHookDependencies): RequestHooks {
  const metrics = measured?.metrics;
  return {
    limits,
    answerBudget: memory.answers,
    watchAnswer: createAnswerWatch({ limitS: limits.stallTimeoutS, timer }),
    newId: sources.newId,
    mapError(error, { isChange }) {
      if (isChange) diskGuard.reportFailure(error);
      return translateStorageError(error, { isChange });
    },
    onRequest: () => metrics?.requestStarted(),
    onHungRequest(hung) {
      metrics?.requestHung(hung.phase);
      logHungRequest(logger, hung);
    },
    watchdogTimer,
    logRequest(entry, error) {
      metrics?.requestFinished(entry);
      logOutcome(logger, entry, error);
    },
  };
}

/** The line of the request itself follows when it has ended. */
function logHungRequest(logger: Logger, { ctx, phase, idleS }: HungRequest): void {
  const { route, principal, organization } = ctx.state["log"] as RequestLogFields;
  logger.error(
    {
      request_id: ctx.state["requestId"],
      method: ctx.method,
      route,
      actor: principal?.name ?? null,
      org: organization,
      client: ctx.state["client"],
      phase,
      idle_s: idleS,
    },
    "the request makes no progress and is ended",
  );
}

/**
 * Writes the line of a request. The line of a failure has its reason. A bug (with its stack) and what the log alone may
 * hold about a refusal get a second line.
 */
function logOutcome(logger: Logger, entry: RequestEntry, error: unknown): void {
  const known = error instanceof AppError ? error : null;
  const isServerError = error !== null && (known === null || known.code === "internal") && entry.status >= 500;
  const reason = known && entry.status >= 500 && !isServerError ? reasonOf(known) : null;
  if (known) logRequest(logger, { ...entry, error_code: known.code, ...(reason === null ? {} : { reason }) });
  else logRequest(logger, isServerError ? { ...entry, error_id: entry.request_id } : entry);
  const request_id = entry.request_id;
  if (isServerError) logger.error({ request_id, err: error, internal: known?.internal ?? null }, "unexpected error");
  else if (known?.internal && reason === null) logger.info({ request_id, internal: known.internal }, "request refused");
}

/** Why a request failed: what the log alone may know, or else what the client reads. */
function reasonOf({ internal, message }: AppError): string {
  if (typeof internal === "string") return internal;
  if (internal instanceof AppError) return reasonOf(internal);
  return internal instanceof Error ? messageOf(internal) : message;
}

/** A connection that the client closed, or an answer that it does not read, is not a failure of the server. */
const isClientGone = ({ name, code }: Error & { code?: string }): boolean =>
  name === "StalledError" || code === "EPIPE" || code === "ECONNRESET" || code === "ERR_STREAM_PREMATURE_CLOSE";

/** An application without routes that logs connection errors and requests that are not valid HTTP. */
export function emptyApp({ sources, logger, metrics }: RequestHookDependencies): App {
  const app = new Koa();
  app.on("error", (error: Error & { code?: string }, ctx?: Koa.Context) => {
    if (!isClientGone(error))
      logger.error({ request_id: ctx?.state["requestId"], err: error }, "the response could not be sent completely");
  });
  return Object.assign(app, {
    recordMalformedRequest({ status, code, client, bytes }: MalformedRequest): string {
      const id = sources.newId();
      metrics?.metrics.malformedRequest(status);
      logRequest(logger, {
        method: null,
        route: null,
        path: null,
        actor: null,
        org: null,
        status,
        client,
        duration_ms: 0,
        request_id: id,
        bytes_in: 0,
        bytes_out: bytes,
        error_code: code,
      });
      return id;
    },
  });
}
