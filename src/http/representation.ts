/**
 * The JSON of a read, as it is sent: with a validator, so that who has it already gets 304 and no body, and compressed
 * for who accepts that. Only what reads answer with 200 goes through here: answers of writes are small, and some of
 * them show a secret, which compression together with text of the caller would leak by its length. Files have their own
 * validators and are sent as they are (reply.ts).
 */
import { hash } from "node:crypto";
import { promisify } from "node:util";
import { gzip, gzipSync } from "node:zlib";
import type Koa from "koa";
import { etagMatches, sendText } from "./response.ts";

/** A body with what was made of it; kept as a whole where answers are kept. */
export type Representation = {
  readonly text: string | Buffer;
  readonly etag: string;
  /** Made when it is first asked for, and once. */
  gzipped: Buffer | Promise<Buffer> | null;
};

/** Characters from which on a body is compressed: less fits into one packet anyway. */
const COMPRESSED_FROM = 1024;
/**
 * Up to so many characters it is done at once, in 15 to 50 microseconds, which is less than handing it to another
 * thread costs; what is larger is done beside the event loop.
 */
const AT_ONCE = 16_384;
/** The fastest one: on our JSON the others save two percent more in up to twice the time. */
const GZIP = { level: 1 };

/**
 * A weak tag, because both codings of a body carry it. Of the bytes and not of a version, so that it also changes with
 * what is only shown, such as a new address of the server.
 */
export const createRepresentation = (text: string | Buffer): Representation => ({
  text,
  etag: `W/"${hash("sha256", text, "base64url").slice(0, 22)}"`,
  gzipped: null,
});

/** About how many characters it holds, what was made of it included. */
export const charactersOf = ({ text, gzipped }: Representation): number =>
  text.length + (Buffer.isBuffer(gzipped) ? gzipped.length : 0);

/**
 * Answers a read with 200, or with 304 when the caller has it already. Of HEAD the head is that of the body as it is.
 */
export async function sendRepresentation(ctx: Koa.Context, representation: Representation): Promise<void> {
  const { text, etag } = representation;
  const known = etagMatches(ctx.req.headers["if-none-match"], etag);
  const body = known || ctx.method === "HEAD" || !wantsGzip(ctx, text.length) ? null : await compressed(representation);
  const { res } = ctx;
  res.setHeader("ETag", etag);
  res.setHeader("Cache-Control", "private, no-cache");
  res.setHeader("Vary", "Accept-Encoding");
  if (known) {
    ctx.status = 304;
    return;
  }
  if (body) res.setHeader("Content-Encoding", "gzip");
  sendText(ctx, 200, body ?? text);
}

async function compressed(representation: Representation): Promise<Buffer> {
  const { text } = representation;
  representation.gzipped ??= text.length <= AT_ONCE ? gzipSync(text, GZIP) : inBackground(text, GZIP);
  const { gzipped } = representation;
  if (Buffer.isBuffer(gzipped)) return gzipped;
  try {
    return (representation.gzipped = await gzipped);
  } catch (error) {
    representation.gzipped = null;
    throw error;
  }
}

const inBackground = promisify<string | Buffer, { level: number }, Buffer>(gzip);

type EncodingPreference = { gzip: boolean; anyhow: boolean };
/** Clients send the same few headers for ever. Bounded, because they may send any. */
const encodingPreferences = new Map<string, EncodingPreference>();
const MOST_WISHES = 100;

/**
 * Whether the caller wants gzip for so many characters. Who refuses a body as it is (`identity;q=0`) gets it for few as
 * well.
 */
function wantsGzip(ctx: Koa.Context, characters: number): boolean {
  const header = ctx.req.headers["accept-encoding"];
  if (header === undefined) return false;
  const wish = encodingPreferences.get(header) ?? parseEncodingPreference(ctx, header as string);
  return characters >= COMPRESSED_FROM ? wish.gzip : wish.anyhow;
}

function parseEncodingPreference(ctx: Koa.Context, header: string): EncodingPreference {
  const gzip = ctx.acceptsEncodings("gzip", "identity") === "gzip";
  const wish = { gzip, anyhow: gzip && ctx.acceptsEncodings("identity") === false };
  if (encodingPreferences.size >= MOST_WISHES) encodingPreferences.clear();
  if (header.length <= 200) encodingPreferences.set(header, wish);
  return wish;
}
