/**
 * Writing answers: the only table from error code to HTTP status, the only place that writes error bodies, and file
 * downloads with ranges or as streams. Success is 200 or 201 with a body (wire-contract 1.4); 206 and 304 answer range
 * and conditional requests only.
 */
import type { Readable } from "node:stream";
import type Koa from "koa";
import { AppError } from "../errors.ts";
import type { ErrorCode } from "../errors.ts";
import { answerRoomOf } from "./memory/answer-room.ts";
import { ClientGoneError } from "./body/body.ts";
import { STREAM_BYTES } from "./memory/memory-budget.ts";
import type { Download, Stream } from "./operation.ts";
import type { Departure } from "./execute.ts";
import { parseRange } from "./range.ts";

export const STATUS_BY_ERROR: Record<ErrorCode, number> = {
  invalid: 400,
  unauthenticated: 401,
  forbidden: 403,
  not_found: 404,
  method_not_allowed: 405,
  timeout: 408,
  conflict: 409,
  gone: 410,
  too_large: 413,
  too_many: 429,
  internal: 500,
  unavailable: 503,
  no_space: 507,
  http_version: 505,
};

export const JSON_TYPE = "application/json; charset=utf-8";

/** Writes a JSON body. */
const sendJson = (ctx: Koa.Context, status: number, body: unknown): void => sendText(ctx, status, JSON.stringify(body));

/**
 * The UTF-8 bytes of a text in pieces. For megabytes this takes half the time of joining them: nothing is copied twice,
 * and no string of that size is created.
 */
export function encodeUtf8(pieces: readonly string[]): Buffer {
  let size = 0;
  for (const piece of pieces) size += Buffer.byteLength(piece);
  const bytes = Buffer.allocUnsafe(size);
  let end = 0;
  for (const piece of pieces) end += bytes.write(piece, end);
  return bytes;
}

/** Writes a JSON body that is serialised already, as text or UTF-8 bytes. */
export function sendText(ctx: Koa.Context, status: number, text: string | Buffer): void {
  ctx.status = status;
  // Set on the raw response: Koa's setter would parse the type again for every answer.
  ctx.res.setHeader("Content-Type", JSON_TYPE);
  // Node allocates three bytes for each character of a string that it writes; buffers are written as they are.
  ctx.body = typeof text === "string" && text.length > MAX_STRING_BODY_CHARS ? Buffer.from(text) : text;
}

/** Longer texts are converted to bytes before they are written. */
const MAX_STRING_BODY_CHARS = 65_536;

/**
 * Writes an error. `errors` is omitted unless there are field errors: its mere presence changes what clients print
 * (wire-contract 1.5). Anything that is not an AppError is a bug; the client gets an id to quote and nothing else.
 */
export function sendError(ctx: Koa.Context, error: unknown, errorId: string): void {
  // The answer that failed may have set headers already.
  for (const name of REPRESENTATION_HEADERS) ctx.res.removeHeader(name);
  ctx.res.setHeader("Cache-Control", "no-store");
  if (error instanceof AppError) {
    for (const [name, value] of Object.entries(error.headers)) ctx.set(name, value);
    sendJson(
      ctx,
      STATUS_BY_ERROR[error.code],
      error.fields ? { message: error.message, errors: error.fields } : { message: error.message },
    );
    return;
  }
  sendJson(ctx, 500, { message: `Internal server error. The operator finds it in the log as error ${errorId}` });
}

const REPRESENTATION_HEADERS = ["ETag", "Accept-Ranges", "Content-Disposition", "Content-Encoding"];

/** Every file is an attachment: a type that the browser renders could run scripts in our origin. */
function contentDisposition(filename: string): string {
  const ascii = filename.replace(/[^\x20-\x7e]|["\\%]/g, "_");
  const encoded = encodeURIComponent(filename.toWellFormed()).replace(
    /['()*]/g,
    (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return ascii === filename
    ? `attachment; filename="${ascii}"`
    : `attachment; filename="${ascii}"; filename*=UTF-8''${encoded}`;
}

/**
 * Sends a file: whole, one byte range (RFC 9110, 14), or 304 if the copy of the client is current.
 * @throws AppError 429 if the memory budget has no room for its buffers.
 */
export async function sendDownload(ctx: Koa.Context, download: Download): Promise<void> {
  const etag = `"${download.etag}"`;
  ctx.set({
    ETag: etag,
    "Accept-Ranges": "bytes",
    "Content-Disposition": contentDisposition(download.filename),
    "Cache-Control": "private, no-cache",
  });
  if (etagMatches(ctx.req.headers["if-none-match"], etag)) {
    ctx.status = 304;
    return;
  }
  const condition = ctx.get("If-Range");
  const range =
    condition === "" || condition === etag ? parseRange(ctx.get("Range") || undefined, download.size) : null;
  if (range === "unsatisfiable") {
    ctx.set("Content-Range", `bytes */${download.size}`);
    ctx.remove("Content-Disposition");
    sendJson(ctx, 416, { message: `The requested range lies outside the file of ${download.size} bytes` });
    return;
  }
  if (ctx.method !== "HEAD") answerRoomOf(ctx).take(Math.min(STREAM_BYTES, download.size), { isRead: true });
  const stream = ctx.method === "HEAD" ? null : await download.open(range);
  ctx.status = range ? 206 : 200;
  if (range) ctx.set("Content-Range", `bytes ${range.start}-${range.end}/${download.size}`);
  if (stream) ctx.body = stream;
  // Exactly as uploaded: Koa's setter would add a charset to text types.
  ctx.res.setHeader("Content-Type", download.contentType);
  ctx.length = range ? range.end - range.start + 1 : download.size;
}

/**
 * Sends a file of unknown size in chunks.
 * @throws AppError 429 if the memory budget has no room for its buffers; ClientGoneError if the client disconnects
 *   before it is open.
 */
export async function sendStream(
  ctx: Koa.Context,
  { contentType, filename, encoding, isNeverKept, open }: Stream,
): Promise<void> {
  if (ctx.method !== "HEAD") answerRoomOf(ctx).take(STREAM_BYTES, { isRead: true });
  const stream = ctx.method === "HEAD" ? null : await openWhileConnected(ctx, open);
  const caching = isNeverKept ? "private, no-store" : "private, no-cache";
  ctx.set({ "Content-Disposition": contentDisposition(filename), "Cache-Control": caching });
  if (encoding) ctx.set("Content-Encoding", encoding);
  ctx.status = 200;
  if (stream) ctx.body = stream;
  ctx.res.setHeader("Content-Type", contentType);
}

/** Opens a stream, unless its client disconnects first. */
async function openWhileConnected(ctx: Koa.Context, open: Stream["open"]): Promise<Readable> {
  const { signal, end } = watchDeparture(ctx);
  try {
    const stream = await open(signal);
    // No one else would ever end it.
    if (signal.aborted) stream.destroy();
    signal.throwIfAborted();
    return stream;
  } finally {
    end();
  }
}

/** A signal that aborts with ClientGoneError when the client disconnects before `end` is called. */
export function watchDeparture({ res }: Koa.Context): Departure {
  const closed = new AbortController();
  const onClose = (): void => closed.abort(new ClientGoneError());
  res.once("close", onClose);
  return { signal: closed.signal, end: () => void res.off("close", onClose) };
}

/** Whether an If-None-Match header contains the tag, by weak comparison (RFC 9110, 13.1.2). */
export function etagMatches(header: string | undefined, etag: string): boolean {
  if (header === undefined) return false;
  const opaque = opaqueOf(etag);
  return header.trim() === "*" || header.split(",").some((tag) => opaqueOf(tag.trim()) === opaque);
}

const opaqueOf = (tag: string): string => tag.replace(/^W\//, "");
