/** Files as browsers get them: with a validator, compressed if that helps, and cached as long as they may be. */
import { createHash } from "node:crypto";
import type Koa from "koa";
import { gzipWhole } from "../archive/compress.ts";
import { readAsset } from "../assets.ts";

const TYPES: Readonly<Record<string, string>> = {
  html: "text/html; charset=utf-8",
  css: "text/css; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  svg: "image/svg+xml",
  txt: "text/plain; charset=utf-8",
  woff2: "font/woff2",
  json: "application/speculationrules+json",
};

export type Served = {
  bytes: Buffer;
  type: string;
  /** Digest of the bytes, safe in file names and entity tags. */
  digest: string;
  cacheControl: string;
  /** The content security policy of a script that is a worker: a worker does not have that of the page. */
  policy?: string;
  /** The bytes compressed; computed once. */
  gzipped(): Buffer | Promise<Buffer>;
};

/** Sends a file, compressed if the browser accepts that. */
export async function sendFile(ctx: Koa.Context, file: Served): Promise<void> {
  // A font is compressed already.
  const compressed = file.type !== TYPES["woff2"] && ctx.acceptsEncodings("gzip", "identity") === "gzip";
  ctx.set({
    // Two representations, two tags (RFC 9110, 8.8.3.3).
    ETag: compressed ? `"${file.digest}-gzip"` : `"${file.digest}"`,
    Vary: "Accept-Encoding",
    "Cache-Control": file.cacheControl,
  });
  if (file.policy !== undefined) ctx.set("Content-Security-Policy", file.policy);
  ctx.status = 200;
  if (ctx.fresh) {
    ctx.status = 304;
    return;
  }
  ctx.set("Content-Type", file.type);
  if (compressed) ctx.set("Content-Encoding", "gzip");
  ctx.body = compressed ? await file.gzipped() : file.bytes;
}

/** A file whose name in URLs changes with its content. */
type Addressed = { address: string; file: Served };

/** Loads an asset. */
export const loadFile = (name: string, asset: string): Addressed => addressed(name, readAsset(asset));

/** A file whose content is text of ours. */
export const loadText = (name: string, text: string): Addressed => addressed(name, Buffer.from(text));

function addressed(name: string, bytes: Buffer): Addressed {
  const file = served(bytes, extension(name), "public, max-age=31536000, immutable");
  return { address: name.replace(/\.[a-z0-9]+$/, `.${file.digest}$&`), file };
}

/** A file with its digest. `kind` is the extension of its name. */
export function served(bytes: Buffer, kind: string, cacheControl: string): Served {
  let compressed: Buffer | Promise<Buffer> | null = null;
  return {
    bytes,
    type: TYPES[kind] as string,
    digest: createHash("sha256").update(bytes).digest("hex").slice(0, 16),
    cacheControl,
    gzipped: () => (compressed ??= gzipWhole(bytes, { level: 9 })),
  };
}

const extension = (name: string): string => name.slice(name.lastIndexOf(".") + 1);
