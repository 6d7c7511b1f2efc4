/**
 * The JSON answer of a read: sent with a validator, so that a client with a current copy gets 304 without a body, and
 * compressed for clients that accept gzip. Only 200 answers of reads come here. Answers of writes are small, and some
 * contain a secret, whose compression together with text of the caller would leak it through the length. Files have
 * validators of their own and are never compressed here (response.ts).
 */
import { hash } from "node:crypto";
import type Koa from "koa";
import { gzipWhole } from "../archive/compress.ts";
import { createLru } from "../domain/lru.ts";
import { MAX_INLINE_ANSWER_BYTES } from "./answers/large-answers.ts";
import type { LargeAnswer } from "./answers/large-answers.ts";
import { answerRoomOf, bodyBytes } from "./memory/answer-room.ts";
import type { Representation } from "./operation.ts";
import { JSON_TYPE, etagMatches, sendText } from "./response.ts";

/** Smaller bodies are not compressed: they fit into one packet anyway. */
const MIN_GZIP_CHARS = 1024;
/** The fastest level: on our JSON the others save two percent more in up to twice the time. */
export const GZIP_LEVEL = 1;
const GZIP = { level: GZIP_LEVEL };

/**
 * The validator is weak, because both codings of a body share it. It is derived from the bytes and not from a version,
 * so that it also changes with details such as a new public URL of the server. A large answer has none: hashing it
 * would take milliseconds, and making it in a thread would take as long as before.
 */
export const createRepresentation = (text: string | Buffer): Representation => ({
  text,
  etag: text.length > MAX_INLINE_ANSWER_BYTES ? null : `W/"${hash("sha256", text, "base64url").slice(0, 22)}"`,
  gzipped: null,
});

/** Approximate size in characters, compressed form included. */
export const charactersOf = ({ text, gzipped }: Representation): number =>
  text.length + (Buffer.isBuffer(gzipped) ? gzipped.length : 0);

/**
 * Answers a read with 200, or with 304 if the copy of the client is current. HEAD describes the uncompressed body.
 * @throws AppError 429 if the memory budget has no room for it.
 */
export async function sendRepresentation(ctx: Koa.Context, representation: Representation): Promise<void> {
  const { text, etag } = representation;
  const isKnown = etag !== null && etagMatches(ctx.req.headers["if-none-match"], etag);
  const isPlain = isKnown || ctx.method === "HEAD" || !wantsGzip(ctx, text.length);
  // Before it is compressed, which takes a while for megabytes.
  if (!isKnown && ctx.method !== "HEAD") answerRoomOf(ctx).take(bodyBytes(text) ?? 0, { isRead: true });
  const body = isPlain ? null : await compress(representation);
  const { res } = ctx;
  if (etag !== null) res.setHeader("ETag", etag);
  res.setHeader("Cache-Control", "private, no-cache");
  res.setHeader("Vary", "Accept-Encoding");
  if (isKnown) {
    ctx.status = 304;
    return;
  }
  if (body) res.setHeader("Content-Encoding", "gzip");
  sendText(ctx, 200, body ?? text);
}

/** Answers a read with an answer that is in a file; null for HEAD, for which none was made. */
export function sendLargeAnswer(ctx: Koa.Context, answer: LargeAnswer | null): void {
  const { res } = ctx;
  res.setHeader("Cache-Control", "private, no-cache");
  res.setHeader("Vary", "Accept-Encoding");
  ctx.status = 200;
  if (answer) {
    if (answer.gzipped) res.setHeader("Content-Encoding", "gzip");
    ctx.body = answer.open();
    ctx.length = answer.bytes;
  }
  // After the body: Koa sets a type with it.
  res.setHeader("Content-Type", JSON_TYPE);
}

async function compress(representation: Representation): Promise<Buffer> {
  const { text } = representation;
  representation.gzipped ??= gzipWhole(text, GZIP);
  const { gzipped } = representation;
  if (Buffer.isBuffer(gzipped)) return gzipped;
  try {
    return (representation.gzipped = await gzipped);
  } catch (error) {
    representation.gzipped = null;
    throw error;
  }
}

/** `gzip`: accepted and preferred; `always`: the uncompressed form is refused (`identity;q=0`), whatever the size. */
type EncodingPreference = { gzip: boolean; always: boolean };
/** By Accept-Encoding header: clients keep sending the same few. */
const encodingPreferences = createLru<string, EncodingPreference>({ maxEntries: 100 });
/** Longer headers are parsed each time, so that clients cannot fill the memory with them. */
const MAX_CACHED_HEADER_CHARS = 200;

export function wantsGzip(ctx: Koa.Context, characters: number): boolean {
  const header = ctx.req.headers["accept-encoding"];
  if (header === undefined) return false;
  const preference = encodingPreferences.get(header as string) ?? parseEncodingPreference(ctx, header as string);
  return characters >= MIN_GZIP_CHARS ? preference.gzip : preference.always;
}

function parseEncodingPreference(ctx: Koa.Context, header: string): EncodingPreference {
  const acceptsGzip = ctx.acceptsEncodings("gzip", "identity") === "gzip";
  const preference = { gzip: acceptsGzip, always: acceptsGzip && ctx.acceptsEncodings("identity") === false };
  if (header.length <= MAX_CACHED_HEADER_CHARS) encodingPreferences.set(header, preference);
  return preference;
}
