/**
 * Request bodies, but for forms: JSON with a limit, and bodies nobody asked for. What holds for every body is here too:
 * a client that waits for leave to send gets it, a client that stops sending is told so, and one that goes away is
 * noticed.
 */
import type { IncomingMessage } from "node:http";
import type Koa from "koa";
import { badRequest, requestTimeout, tooLarge } from "../../errors.ts";
import type { AppError } from "../../errors.ts";
import { SMALL_BODY_BYTES } from "./body-budget.ts";
import type { BodyBudget, BodyLease } from "./body-budget.ts";
import { JsonScan } from "../../json/scan.ts";
import { scanError } from "./read-json.ts";
import type { ScannedShape } from "./read-json.ts";

export type BodyLimits = {
  /** Plain JSON bodies, bytes. */
  json: number;
  /** The JSON part of a form, bytes. */
  form: number;
  /** Files kept in memory: templates, policies, schemas; bytes (fixed by the contract). */
  document: number;
  /** Evidence attachments, bytes. */
  evidence: number;
  /** A body of which nothing arrives for this many seconds (also a fraction) is given up. */
  stallTimeoutS: number;
  /** For how many seconds the rest of a body is read away after an early answer; a few where it is not said. */
  lingerS?: number;
};

/** The client went away before its request was complete: nobody is left to answer. */
export class ClientGoneError extends Error {
  constructor() {
    super("the client closed the connection before its request was complete");
    this.name = "ClientGoneError";
  }
}

/** Content-Length, null where there is none. */
export const declaredLength = (request: IncomingMessage): number | null => {
  const text = request.headers["content-length"];
  return text === undefined ? null : Number(text);
};

/** Whether the request brings any body at all. */
export const hasBody = (request: IncomingMessage): boolean =>
  request.headers["transfer-encoding"] !== undefined || (declaredLength(request) ?? 0) > 0;

/** Who brings a body, and the budget that it is counted in. */
export type BodyIntake = { budget: BodyBudget; owner: string };

/**
 * A JSON body that was received, not parsed yet. `lease`: of a large one, to be released when nothing of it is held any
 * more.
 */
export type ReceivedBody = { bytes: Buffer; lease: BodyLease | null };

/**
 * Receives a JSON body within its bounds; null when there is none. A large one waits, unread, until the budget has room
 * for it, and is scanned while it arrives, so that one of too many values is refused before it was held whole.
 * @throws AppError 400 for a compressed one or too deep nesting, 413 over a limit, 429 when the budget has no room for
 * too long, 408
 *   after a stall; ClientGoneError.
 */
export async function receiveJson(
  ctx: Koa.Context,
  {
    limits,
    intake,
    shape,
  }: { limits: Pick<BodyLimits, "json" | "stallTimeoutS">; intake: BodyIntake; shape: ScannedShape },
): Promise<ReceivedBody | null> {
  if (!hasBody(ctx.req)) return null;
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
        // The body may have ended meanwhile.
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
 * Waits for room for so many bytes of a large body, as long as its client is there.
 * @throws AppError 429; ClientGoneError.
 */
export async function acquireBodyLease(
  { req }: Koa.Context,
  { budget, owner }: BodyIntake,
  bytes: number,
): Promise<BodyLease> {
  const gone = new AbortController();
  const leave = (): void => gone.abort(new ClientGoneError());
  if (req.destroyed) throw new ClientGoneError();
  req.once("close", leave);
  try {
    return await budget.acquire({ bytes, owner, signal: gone.signal });
  } finally {
    req.off("close", leave);
  }
}

/**
 * The bytes of a small body, such as the form of a page; null when there is none.
 * @throws AppError 400 for a compressed one, 413 over the limit, 408 after a stall; ClientGoneError.
 */
export async function readSmallBody(
  ctx: Koa.Context,
  limits: Pick<BodyLimits, "json" | "stallTimeoutS">,
): Promise<Buffer | null> {
  if (!hasBody(ctx.req)) return null;
  rejectEncodedBody(ctx.req);
  if ((declaredLength(ctx.req) ?? 0) > limits.json) throw tooLarge("Request body size", limits.json);
  sendContinue(ctx);
  const bytes = await collectBody(ctx.req, { limits });
  return bytes.length === 0 ? null : bytes;
}

/**
 * Reads a body away that the operation has no use for. Clients send `null` with calls that take nothing, some with a
 * body on GET or DELETE (wire-contract 1.3); read to its end it leaves the connection fit for the next request. Nothing
 * of it is kept.
 * @throws AppError 413 over the limit for JSON, 408 after a stall; ClientGoneError.
 */
export async function discardBody(ctx: Koa.Context, limits: BodyLimits): Promise<void> {
  if (!hasBody(ctx.req) || ctx.req.complete) return;
  if ((declaredLength(ctx.req) ?? 0) > limits.json) throw tooLarge("Request body size", limits.json);
  sendContinue(ctx);
  await collectBody(ctx.req, { limits, keep: false });
}

/** @throws AppError 400 for a compressed body: its real size would be anybody's guess. */
export function rejectEncodedBody(request: IncomingMessage): void {
  const encoding = request.headers["content-encoding"];
  if (encoding !== undefined && encoding.toLowerCase() !== "identity")
    throw badRequest(
      `Content-Encoding '${encoding.slice(0, 50)}' is not supported for request bodies. Send the body uncompressed`,
    );
}

/** Tells a client that waits (`Expect: 100-continue`) that its body is wanted. */
export function sendContinue(ctx: Koa.Context): void {
  if (ctx.req.headers.expect?.toLowerCase() === "100-continue" && !ctx.res.headersSent) ctx.res.writeContinue();
}

/** 408 for a body that stopped arriving. */
export const bodyStalled = (seconds: number): AppError =>
  requestTimeout(`The request body did not arrive in time: nothing was received for ${seconds} seconds`);

/** 408 for a body that arrives so slowly that it keeps others from their turn. */
const bodyTooSlow = (): AppError =>
  requestTimeout(
    `The request body arrives too slowly: less than ${MIN_PACE_BYTES / 1024}KB a second while other requests wait`,
  );

/** Bytes a second that a large body must bring while others wait, and the seconds over which that is measured. */
const MIN_PACE_BYTES = 16_384;
const PACE_WINDOW_S = 30;

/**
 * Ends a body that stalls, or that keeps room and brings next to nothing while others wait for it. Call `stop` at its
 * end.
 * @param pace of a large body alone.
 */
export function watchPace(
  source: IncomingMessage,
  stall: number,
  { isContended, fail }: { isContended: (() => boolean) | null; fail: (error: AppError) => void },
): { stop(): void } {
  source.setTimeout(stall * 1000, () => fail(bodyStalled(stall)));
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

type Collecting = {
  limits: Pick<BodyLimits, "json" | "stallTimeoutS">;
  /** Whether the bytes are wanted. */
  keep?: boolean;
  /** Bytes that will come, of a large body whose length is known. */
  declared?: number | null;
  /** Scans what is larger than a small body. */
  shape?: ScannedShape;
  /** Resolves when more than a small body may be read. */
  admitLarge?(): Promise<void>;
  isContended?(): boolean;
};

/** All bytes of a body, at most as many as JSON may have. */
function collectBody(
  source: IncomingMessage,
  { limits, keep = true, declared = null, shape, admitLarge, isContended }: Collecting,
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    // In one piece that grows as it is filled: joining megabytes at the end would hold up everybody else.
    const whole = declared === null ? null : Buffer.allocUnsafeSlow(declared);
    let chunks: Buffer[] = [];
    let size = 0;
    let scan: JsonScan | null = null;
    let isOver = false;
    let pace = watchPace(source, limits.stallTimeoutS, {
      isContended: whole && isContended ? isContended : null,
      fail,
    });
    const stop = (): void => {
      isOver = true;
      source
        .removeListener("data", onData)
        .removeListener("end", onEnd)
        .removeListener("error", onGone)
        .removeListener("close", onGone);
      pace.stop();
    };
    function fail(error: unknown): void {
      if (isOver) return;
      stop();
      chunks = [];
      source.resume();
      reject(error);
    }
    const received = (): Buffer => whole?.subarray(0, size) ?? Buffer.concat(chunks, size);
    const inspect = (chunk: Buffer): void => {
      if (!shape || isOver) return;
      const problem = (scan ??= new JsonScan(shape.bounds)).add(chunk);
      if (problem) fail(scanError(problem, received(), shape));
    };
    /** A body of unknown length turned out to be large: it waits for its turn like any other. */
    const becomeLarge = (): void => {
      source.pause();
      pace.stop();
      void admitLarge?.().then(() => {
        if (isOver) return;
        pace = watchPace(source, limits.stallTimeoutS, { isContended: isContended ?? null, fail });
        for (const chunk of chunks) inspect(chunk);
        source.resume();
      }, fail);
    };
    const onData = (chunk: Buffer): void => {
      const before = size;
      size += chunk.length;
      if (size > limits.json) return fail(tooLarge("Request body size", limits.json));
      if (!keep) return;
      if (whole) whole.set(chunk, before);
      else chunks.push(chunk);
      if (whole || before > SMALL_BODY_BYTES) inspect(chunk);
      else if (size > SMALL_BODY_BYTES && admitLarge) becomeLarge();
    };
    const onEnd = (): void => {
      if (isOver) return;
      stop();
      resolve(whole ?? (chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks, size)));
    };
    const onGone = (): void => fail(new ClientGoneError());
    source.on("data", onData).on("end", onEnd).on("error", onGone).on("close", onGone);
  });
}
