/**
 * Receiving request bodies other than forms: JSON within limits, and bodies that no operation wants. Also what applies
 * to every body: a client that waits for `100 Continue` gets it, a client that stalls gets 408, and one that
 * disconnects is noticed.
 */
import type { IncomingMessage } from "node:http";
import type { Readable } from "node:stream";
import type Koa from "koa";
import { badRequest, requestTimeout, tooLarge } from "../../errors.ts";
import type { AppError } from "../../errors.ts";
import { SMALL_BODY_BYTES } from "./body-budget.ts";
import type { BodyBudget, BodyLease } from "./body-budget.ts";
import { JsonScan } from "../../json/scan.ts";
import { progressOf } from "../watchdog/request-progress.ts";
import { scanError } from "./read-json.ts";
import type { ScannedShape } from "./read-json.ts";
import { countReleasedBytes } from "../../workers/memory-reclaim.ts";

export type BodyLimits = {
  /** Plain JSON bodies, bytes. */
  json: number;
  /** The JSON part of a form, bytes. */
  form: number;
  /** Files kept in memory: templates, policies, schemas; bytes (fixed by the contract). */
  document: number;
  /** Evidence attachments, bytes. */
  evidence: number;
  /** Evidence up to this size, in bytes, is stored in the database; 0: none. */
  smallEvidence: number;
  /** Seconds (or a fraction) without a byte after which a body is abandoned. */
  stallTimeoutS: number;
  /** Seconds for which the rest of a body is read and dropped after an early answer; a few unless stated. */
  lingerS?: number;
};

/** The client disconnected before its request was complete, so there is no one to answer. */
export class ClientGoneError extends Error {
  constructor() {
    super("the client closed the connection before its request was complete");
    this.name = "ClientGoneError";
  }
}

/** Content-Length in bytes, null if absent. */
export const declaredLength = (request: IncomingMessage): number | null => {
  const text = request.headers["content-length"];
  return text === undefined ? null : Number(text);
};

/** Whether the request has a body at all. */
export const hasBody = (request: IncomingMessage): boolean =>
  request.headers["transfer-encoding"] !== undefined || (declaredLength(request) ?? 0) > 0;

/** The budget that a large body counts against, and the owner whose share it takes. */
export type BodyIntake = { budget: BodyBudget; owner: string };

/** A JSON body that is not parsed yet. `lease`: of a large body, to be released when its bytes are no longer held. */
type ReceivedBody = { bytes: Buffer; lease: BodyLease | null };

/**
 * Receives a JSON body within its bounds; null if there is none. A large body waits, unread, until the budget has room
 * for it, and is scanned while it arrives, so that one with too many values is refused before all of it is in memory.
 * @throws AppError 400 for a compressed body or one nested too deep, 408 after a stall, 413 over a limit, 429 if the
 *   budget has no room for too long; ClientGoneError.
 */
export async function receiveJson(
  ctx: Koa.Context,
  {
    limits,
    intake,
    shape,
  }: {
    limits: Pick<BodyLimits, "json" | "stallTimeoutS">;
    intake: BodyIntake;
    shape: ScannedShape;
  },
): Promise<ReceivedBody | null> {
  if (!hasBody(ctx.req)) return null;
  progressOf(ctx).enter("reading");
  rejectEncodedBody(ctx.req);
  const declared = declaredLength(ctx.req);
  if ((declared ?? 0) > limits.json) throw tooLarge("Request body size", limits.json);
  const isLarge = (declared ?? 0) > SMALL_BODY_BYTES;
  let lease = isLarge ? await acquireBodyLease(ctx, intake, declared as number) : null;
  let isOver = false;
  try {
    sendContinue(ctx);
    const bytes = await collectBody(ctx.req, {
      limits,
      shape,
      declared: isLarge ? declared : null,
      isContended: intake.budget.isContended,
      async admitLarge() {
        lease ??= await acquireBodyLease(ctx, intake, limits.json);
        // The body may have ended in the meantime.
        if (isOver) lease.release();
      },
    });
    if (bytes.length > 0) return { bytes, lease };
    lease?.release();
    return null;
  } catch (error) {
    isOver = true;
    lease?.release();
    throw error;
  }
}

/**
 * Waits until the budget has room for that many bytes, unless the client disconnects.
 * @throws AppError 429; ClientGoneError.
 */
export async function acquireBodyLease(
  ctx: Koa.Context,
  { budget, owner }: BodyIntake,
  bytes: number,
): Promise<BodyLease> {
  const { req } = ctx;
  const gone = new AbortController();
  const leave = (): void => gone.abort(new ClientGoneError());
  if (req.destroyed) throw new ClientGoneError();
  req.once("close", leave);
  try {
    const lease = await budget.acquire({ bytes, owner, signal: gone.signal });
    // The reader of the body releases it. If reading never ends, the request does: the watchdog sees to that.
    progressOf(ctx).onOver(() => lease.release());
    return lease;
  } finally {
    req.off("close", leave);
  }
}

/**
 * The bytes of a small body, such as the form of a web page; null if there is none.
 * @throws AppError 400 for a compressed body, 408 after a stall, 413 over the limit; ClientGoneError.
 */
export async function readSmallBody(
  ctx: Koa.Context,
  limits: Pick<BodyLimits, "json" | "stallTimeoutS">,
): Promise<Buffer | null> {
  if (!hasBody(ctx.req)) return null;
  progressOf(ctx).enter("reading");
  rejectEncodedBody(ctx.req);
  if ((declaredLength(ctx.req) ?? 0) > limits.json) throw tooLarge("Request body size", limits.json);
  sendContinue(ctx);
  const bytes = await collectBody(ctx.req, { limits });
  return bytes.length === 0 ? null : bytes;
}

/**
 * Reads and drops a body that the operation does not use. Clients send `null` with calls that take nothing, even on GET
 * or DELETE (wire-contract 1.3); reading it to the end keeps the connection usable for the next request.
 * @throws AppError 408 after a stall, 413 over the limit for JSON; ClientGoneError.
 */
export async function discardBody(ctx: Koa.Context, limits: BodyLimits): Promise<void> {
  if (!hasBody(ctx.req) || ctx.req.complete) return;
  progressOf(ctx).enter("reading");
  if ((declaredLength(ctx.req) ?? 0) > limits.json) throw tooLarge("Request body size", limits.json);
  sendContinue(ctx);
  await collectBody(ctx.req, { limits, keep: false });
}

/** @throws AppError 400 for a compressed body, whose real size is unknown until it is unpacked. */
export function rejectEncodedBody(request: IncomingMessage): void {
  const encoding = request.headers["content-encoding"];
  if (encoding !== undefined && encoding.toLowerCase() !== "identity")
    throw badRequest(
      `Content-Encoding '${encoding.slice(0, 50)}' is not supported for request bodies. Send the body uncompressed`,
    );
}

/** Sends `100 Continue` to a client that waits for it (`Expect: 100-continue`). */
export function sendContinue(ctx: Koa.Context): void {
  if (ctx.req.headers.expect?.toLowerCase() === "100-continue" && !ctx.res.headersSent) ctx.res.writeContinue();
}

/** 408 for a body that stopped arriving. */
const bodyStalled = (seconds: number): AppError =>
  requestTimeout(`The request body did not arrive in time: nothing was received for ${seconds} seconds`);

/** 408 for a body that arrives so slowly that it blocks others that wait for the budget. */
const bodyTooSlow = (): AppError =>
  requestTimeout(
    `The request body arrives too slowly: less than ${MIN_PACE_BYTES / 1024}KB a second while other requests wait`,
  );

/** Bytes a second at which a large body must arrive while others wait, averaged over the window. */
const MIN_PACE_BYTES = 16_384;
const PACE_WINDOW_S = 30;

/**
 * Fails a body that stalls, and a large one that holds room in the budget but arrives too slowly while others wait.
 * Call `stop` when the body has ended.
 * @param options.isContended whether others wait for the budget; null for a small body, which holds no room
 */
export function watchPace(
  source: IncomingMessage,
  {
    stallTimeoutS,
    isContended,
    fail,
  }: { stallTimeoutS: number; isContended: (() => boolean) | null; fail: (error: AppError) => void },
): { stop(): void } {
  source.setTimeout(stallTimeoutS * 1000, () => fail(bodyStalled(stallTimeoutS)));
  if (isContended === null) return { stop: () => void source.setTimeout(0) };
  let received = 0;
  const count = (chunk: Buffer): void => void (received += chunk.length);
  source.on("data", count);
  const timer = setInterval(() => {
    if (received < MIN_PACE_BYTES * PACE_WINDOW_S && isContended()) fail(bodyTooSlow());
    received = 0;
  }, PACE_WINDOW_S * 1000);
  return {
    stop() {
      clearInterval(timer);
      source.off("data", count);
      source.setTimeout(0);
    },
  };
}

/**
 * The bytes of a body whose length is declared.
 * @param options.length bytes, which the caller has bounded
 * @param options.isContended as for `watchPace`
 * @throws AppError 408 after a stall; ClientGoneError.
 */
export const receiveWhole = (
  request: IncomingMessage,
  {
    length,
    stallTimeoutS,
    isContended,
  }: { length: number; stallTimeoutS: number; isContended: (() => boolean) | null },
): Promise<Buffer> =>
  collectBody(request, {
    limits: { json: length, stallTimeoutS },
    ...(isContended ? { declared: length, isContended } : {}),
  });

type CollectOptions = {
  limits: Pick<BodyLimits, "json" | "stallTimeoutS">;
  /** Whether the bytes are wanted at all. */
  keep?: boolean;
  /** Length of a large body in bytes, if it is known. */
  declared?: number | null;
  /** Bounds for the scan of a large body. */
  shape?: ScannedShape;
  /** Resolves when a body of unknown length that turned out to be large may be read on. */
  admitLarge?(): Promise<void>;
  isContended?(): boolean;
};

/** Receives all bytes of a body, at most as many as JSON may have. */
async function collectBody(source: IncomingMessage, options: CollectOptions): Promise<Buffer> {
  // Node has parsed all of the segment that brought the headers when this continues, so most small bodies are there.
  await null;
  if (source.destroyed) throw new ClientGoneError();
  return takeArrived(source, options) ?? collectArriving(source, options);
}

/** A small body that has arrived as a whole; null for any other, of which nothing is taken. */
function takeArrived(source: IncomingMessage, { limits, keep = true }: CollectOptions): Buffer | null {
  const { readableLength: size } = source;
  const isTaken = keep && source.complete && size > 0 && size <= Math.min(limits.json, SMALL_BODY_BYTES);
  return isTaken ? (source.read() as Buffer | null) : null;
}

/** The rest of collectBody, for a body that is still arriving. */
function collectArriving(
  source: IncomingMessage,
  { limits, keep = true, declared = null, shape, admitLarge, isContended }: CollectOptions,
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const received = createBodyBuffer(declared);
    const { stallTimeoutS } = limits;
    let scan: JsonScan | null = null;
    let isOver = false;
    let pace = watchPace(source, {
      stallTimeoutS,
      isContended: declared !== null && isContended ? isContended : null,
      fail,
    });
    const stop = (): void => {
      isOver = true;
      source.off("data", onData).off("end", onEnd).off("error", onGone).off("close", onGone);
      pace.stop();
    };
    function fail(error: unknown): void {
      if (isOver) return;
      stop();
      received.clear();
      source.resume();
      reject(error);
    }
    const inspect = (chunk: Buffer): void => {
      if (!shape || isOver) return;
      const problem = (scan ??= new JsonScan(shape.bounds, declared === null ? {} : { length: declared })).add(chunk);
      if (problem) fail(scanError(problem, received.bytes(), shape));
    };
    /** A body of unknown length turned out to be large: it waits for the budget like any other. */
    const becomeLarge = (): void => {
      source.pause();
      pace.stop();
      void admitLarge?.().then(() => {
        if (isOver) return;
        pace = watchPace(source, { stallTimeoutS, isContended: isContended ?? null, fail });
        for (const chunk of received.chunks()) inspect(chunk);
        source.resume();
      }, fail);
    };
    const onData = (chunk: Buffer): void => {
      const before = received.size;
      received.add(chunk, { keep });
      if (received.size > limits.json) fail(tooLarge("Request body size", limits.json));
      else if (!keep) return;
      else if (declared !== null || before > SMALL_BODY_BYTES) inspect(chunk);
      else if (received.size > SMALL_BODY_BYTES && admitLarge) becomeLarge();
    };
    const onEnd = (): void => {
      if (isOver) return;
      stop();
      resolve(received.bytes());
    };
    const onGone = (): void => fail(new ClientGoneError());
    source.on("data", onData).on("end", onEnd).on("error", onGone).on("close", onGone);
  });
}

/**
 * The bytes of a body as they arrive. If the length is known they go into one allocation: joining megabytes at the end
 * would block the event loop.
 */
function createBodyBuffer(declared: number | null) {
  const whole = declared === null ? null : Buffer.allocUnsafeSlow(declared);
  let chunks: Buffer[] = [];
  let size = 0;
  return {
    /** Bytes that arrived, kept or not. */
    get size() {
      return size;
    },
    add(chunk: Buffer, { keep }: { keep: boolean }): void {
      if (keep && whole) whole.set(chunk, size);
      else if (keep) chunks.push(chunk);
      // What was copied is garbage: that of a few large bodies would take more memory than the bodies.
      if (!keep || whole) countReleasedBytes(chunk.length);
      size += chunk.length;
    },
    /** Everything so far. */
    bytes: (): Buffer =>
      whole?.subarray(0, size) ?? (chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks, size)),
    chunks: (): readonly Buffer[] => chunks,
    clear(): void {
      chunks = [];
    },
  };
}

/** The content of a part. @throws the error that `tooLargeError` makes beyond `limitBytes` */
export async function readAll(source: Readable, limitBytes: number, tooLargeError: () => AppError): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of source as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > limitBytes) throw tooLargeError();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, size);
}
