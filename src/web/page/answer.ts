/** Sending pages: their headers, and their compression. */
import type Koa from "koa";
import { gzipWhole } from "../../archive/compress.ts";
import type { RawAnswer } from "./page.ts";

/**
 * Headers that replace or extend those of every response (http/security-headers.ts). Browsers send the Origin of a form
 * only under a referrer policy that permits it (Fetch, "append a request Origin header").
 */
const HEADERS: Readonly<Record<string, string>> = {
  "Referrer-Policy": "same-origin",
  "Cross-Origin-Opener-Policy": "same-origin",
};

/** Of the pages without a session, which need no scripts. */
const PLAIN_POLICY =
  "default-src 'none'; style-src 'self'; img-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; " +
  "frame-ancestors 'none'";
/**
 * `frame-src` is for previews of evidence, which have a policy of their own; `worker-src` for the stream that pages
 * share (client/live-stream.ts).
 */
const POLICY = `${PLAIN_POLICY}; script-src 'self'; worker-src 'self'; connect-src 'self'; frame-src 'self'`;

/** Smaller pages fit into one packet. */
const MIN_GZIP_CHARS = 1024;

/** @param prefetch path of the rules by which a browser fetches pages ahead; null for a page without a session */
export async function sendHtml(
  ctx: Koa.Context,
  text: string,
  { status, prefetch }: { status: number; prefetch: string | null },
): Promise<void> {
  ctx.set(HEADERS);
  ctx.set("Content-Security-Policy", prefetch === null ? PLAIN_POLICY : POLICY);
  if (prefetch !== null) ctx.set("Speculation-Rules", `"${prefetch}"`);
  ctx.status = status;
  ctx.type = "text/html; charset=utf-8";
  ctx.set("Vary", "Accept-Encoding");
  if (text.length < MIN_GZIP_CHARS || ctx.acceptsEncodings("gzip", "identity") !== "gzip") {
    ctx.body = text;
    return;
  }
  ctx.set("Content-Encoding", "gzip");
  ctx.body = await gzipWhole(text, { level: 4 });
}

/**
 * Sends what a page embeds. The sandbox gives it an origin of its own, so even a file that a browser takes for a page
 * can neither run scripts nor read anything of this server.
 */
export function sendRaw(ctx: Koa.Context, { type, body, sources = [], status = 200 }: RawAnswer["raw"]): void {
  ctx.set(HEADERS);
  const policy = ["sandbox", "default-src 'none'", ...sources, "base-uri 'none'", "form-action 'none'"];
  ctx.set("Content-Security-Policy", [...policy, "frame-ancestors 'self'"].join("; "));
  ctx.set("X-Frame-Options", "SAMEORIGIN");
  ctx.status = status;
  ctx.type = type;
  ctx.body = body;
}

/** Redirects the browser to an address, which may be relative to the requested page. */
export function redirect(ctx: Koa.Context, address: string): void {
  ctx.set(HEADERS);
  ctx.set("Content-Security-Policy", PLAIN_POLICY);
  ctx.status = 303;
  ctx.set("Location", address);
  ctx.body = "";
}
