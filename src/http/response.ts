/**
 * Answers. The only table from error code to HTTP status, the only place that writes error bodies, and file downloads
 * with ranges or as streams. Success is 200 or 201 with a body (wire-contract 1.4); 206 and 304 are answers to
 * conditional requests only.
 */
import type { Readable } from "node:stream";
import type Koa from "koa";
import { AppError } from "../errors.ts";
import type { ErrorCode } from "../errors.ts";
import { ClientGoneError } from "./body/body.ts";
import type { Download, Stream } from "./operation.ts";
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
};

const JSON_TYPE = "application/json; charset=utf-8";

/** Writes a JSON body. */
export const sendJson = (ctx: Koa.Context, status: number, body: unknown): void =>
  sendText(ctx, status, JSON.stringify(body));

/**
 * The bytes of a text. For megabytes this costs half of joining the pieces: nothing is copied twice, and no string of
 * that size is made.
 */
export function encodeUtf8(pieces: readonly string[]): Buffer {
  let size = 0;
  for (const piece of pieces) size += Buffer.byteLength(piece);
  const bytes = Buffer.allocUnsafe(size);
  let end = 0;
  for (const piece of pieces) end += bytes.write(piece, end);
  return bytes;
}

/** Writes a JSON body that is text already, or the UTF-8 bytes of it. */
export function sendText(ctx: Koa.Context, status: number, text: string | Buffer): void {
  ctx.status = status;
  // Set on the raw response: Koa's own setter parses the type anew on every reply.
  ctx.res.setHeader("Content-Type", JSON_TYPE);
  // Node makes room for three bytes a character of a text that it is to write; bytes go out as they are.
  ctx.body = typeof text === "string" && text.length > LONG_TEXT ? Buffer.from(text) : text;
}

/** Characters from which on that counts. */
const LONG_TEXT = 65_536;

/**
 * Writes an error. `errors` is left out unless there are field errors: its mere presence changes what clients print
 * (wire-contract 1.5). Anything that is not an AppError is a bug: the caller learns an id to quote and nothing else.
 */
export function sendError(ctx: Koa.Context, error: unknown, errorId: string): void {
  // What was to be sent may have set its headers already.
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

/** Types that a browser shows by itself could run script in our origin, so every file is an attachment. */
function disposition(filename: string): string {
  const ascii = filename.replace(/[^\x20-\x7e]|["\\%]/g, "_");
  const encoded = encodeURIComponent(filename.toWellFormed()).replace(
    /['()*]/g,
    (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return ascii === filename
    ? `attachment; filename="${ascii}"`
    : `attachment; filename="${ascii}"; filename*=UTF-8''${encoded}`;
}

/** Sends a file: whole, one byte range (RFC 9110, 14), or 304 when the caller already has it. */
export async function sendDownload(ctx: Koa.Context, download: Download): Promise<void> {
  const etag = `"${download.etag}"`;
  ctx.set({
    ETag: etag,
    "Accept-Ranges": "bytes",
    "Content-Disposition": disposition(download.filename),
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
  const stream = ctx.method === "HEAD" ? null : await download.open(range);
  ctx.status = range ? 206 : 200;
  if (range) ctx.set("Content-Range", `bytes ${range.start}-${range.end}/${download.size}`);
  if (stream) ctx.body = stream;
  // Exactly what the uploader stated: Koa's own setter would add a charset to text types, which nobody stated.
  ctx.res.setHeader("Content-Type", download.contentType);
  ctx.length = range ? range.end - range.start + 1 : download.size;
}

/** Sends a file of unknown size in chunks. @throws ClientGoneError when the client left before it began. */
export async function sendStream(ctx: Koa.Context, { contentType, filename, encoding, open }: Stream): Promise<void> {
  const stream = ctx.method === "HEAD" ? null : await openFor(ctx, open);
  ctx.set({ "Content-Disposition": disposition(filename), "Cache-Control": "private, no-cache" });
  if (encoding) ctx.set("Content-Encoding", encoding);
  ctx.status = 200;
  if (stream) ctx.body = stream;
  ctx.res.setHeader("Content-Type", contentType);
}

/** Opens a stream as long as its client is there. */
async function openFor(ctx: Koa.Context, open: Stream["open"]): Promise<Readable> {
  const gone = new AbortController();
  const leave = (): void => gone.abort(new ClientGoneError());
  ctx.res.once("close", leave);
  try {
    const stream = await open(gone.signal);
    // Nobody else would ever end it.
    if (gone.signal.aborted) stream.destroy();
    gone.signal.throwIfAborted();
    return stream;
  } finally {
    ctx.res.off("close", leave);
  }
}

/** Whether an If-None-Match header names the tag, compared weakly (RFC 9110, 13.1.2). */
export function etagMatches(header: string | undefined, etag: string): boolean {
  if (header === undefined) return false;
  const opaque = opaqueOf(etag);
  return header.trim() === "*" || header.split(",").some((tag) => opaqueOf(tag.trim()) === opaque);
}

const opaqueOf = (tag: string): string => tag.replace(/^W\//, "");
