/**
 * Request bodies, but for forms: JSON with a limit, and bodies nobody asked for. What holds for every body is here too: a
 * client that waits for leave to send gets it, a client that stops sending is told so, and one that goes away is noticed.
 */
import type { IncomingMessage } from "node:http";
import type Koa from "koa";
import { badRequest, invalid, requestTimeout, tooLarge } from "../errors.ts";
import type { AppError } from "../errors.ts";
import { findUnstorable } from "./validate.ts";

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
  stall: number;
  /** For how many seconds the rest of a body is read away after an early answer; a few where it is not said. */
  linger?: number;
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

/**
 * The bytes of a JSON body, not read yet; null when there is none.
 * @throws AppError 400 for a compressed one, 413 over the limit, 408 after a stall; ClientGoneError.
 */
export async function readBytes(ctx: Koa.Context, limits: BodyLimits): Promise<Buffer | null> {
  if (!hasBody(ctx.req)) return null;
  refuseEncoded(ctx.req);
  if ((declaredLength(ctx.req) ?? 0) > limits.json) throw tooLarge("Request body size", limits.json);
  announce(ctx);
  const bytes = await collect(ctx.req, limits);
  return bytes.length === 0 ? null : bytes;
}

/**
 * Reads a body away that the operation has no use for. Clients send `null` with calls that take nothing, some with a body on
 * GET or DELETE (wire-contract 1.3); read to its end it leaves the connection fit for the next request.
 * @throws AppError 413 over the limit for JSON, 408 after a stall; ClientGoneError.
 */
export async function skipBody(ctx: Koa.Context, limits: BodyLimits): Promise<void> {
  if (!hasBody(ctx.req) || ctx.req.complete) return;
  if ((declaredLength(ctx.req) ?? 0) > limits.json) throw tooLarge("Request body size", limits.json);
  announce(ctx);
  await collect(ctx.req, limits);
}

/**
 * JSON in UTF-8 that can be stored. A field named `what` is blamed for what is wrong.
 * @throws AppError 400.
 */
export function parseJson(bytes: Buffer | string, what: string): unknown {
  let value: unknown;
  try {
    const text = typeof bytes === "string" ? bytes : new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    value = JSON.parse(text);
  } catch (error) {
    const reason = error instanceof SyntaxError ? jsonReason(error) : "the text is not UTF-8";
    throw invalid({ [what]: `Input should be valid JSON: ${reason}` });
  }
  const problem = findUnstorable(value);
  if (problem) throw invalid({ [problem[0] || what]: problem[1] });
  return value;
}

/** The parser's reason without the excerpt of the input that V8 puts into some messages. */
function jsonReason(error: SyntaxError): string {
  const position = /at position \d+(?: \(line \d+ column \d+\))?/.exec(error.message);
  return position ? `unexpected character ${position[0]}` : "the text ends early or is malformed";
}

/** @throws AppError 400 for a compressed body: its real size would be anybody's guess. */
export function refuseEncoded(request: IncomingMessage): void {
  const encoding = request.headers["content-encoding"];
  if (encoding !== undefined && encoding.toLowerCase() !== "identity")
    throw badRequest(`Content-Encoding '${encoding.slice(0, 50)}' is not supported for request bodies. Send the body uncompressed`);
}

/** Tells a client that waits (`Expect: 100-continue`) that its body is wanted. */
export function announce(ctx: Koa.Context): void {
  if (ctx.req.headers.expect?.toLowerCase() === "100-continue" && !ctx.res.headersSent) ctx.res.writeContinue();
}

/** 408 for a body that stopped arriving. */
export const stalled = (seconds: number): AppError =>
  requestTimeout(`The request body did not arrive in time: nothing was received for ${seconds} seconds`);

/** All bytes of a body, at most as many as JSON may have. */
function collect(source: IncomingMessage, limits: BodyLimits): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const stop = (): void => {
      source.removeListener("data", onData).removeListener("end", onEnd).removeListener("error", onGone).removeListener("close", onGone);
      source.setTimeout(0);
    };
    const fail = (error: Error): void => {
      stop();
      source.resume();
      reject(error);
    };
    const onData = (chunk: Buffer): void => {
      size += chunk.length;
      if (size > limits.json) fail(tooLarge("Request body size", limits.json));
      else chunks.push(chunk);
    };
    const onEnd = (): void => {
      stop();
      resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks, size));
    };
    const onGone = (): void => fail(new ClientGoneError());
    source.on("data", onData).on("end", onEnd).on("error", onGone).on("close", onGone);
    source.setTimeout(limits.stall * 1000, () => fail(stalled(limits.stall)));
  });
}
