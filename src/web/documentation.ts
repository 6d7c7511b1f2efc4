/**
 * The interactive API reference at `<API root>/doc/`: Swagger UI on the server's own OpenAPI document. Open to
 * everybody, for it holds no data (semantics 8.12). Everything the page needs comes out of the program itself, and the
 * policy it is sent with forbids the browser to speak to anybody but this server, because people paste keys here.
 *
 * Every file but the page has a digest of its content in its name, so it may be cached for ever. All addresses are
 * relative: a proxy may put the server below a path of its own.
 */
import { createHash } from "node:crypto";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import type Koa from "koa";
import { readBuildInfo, readAsset, readTextAsset } from "../assets.ts";
import { methodNotAllowed, routeNotFound } from "../errors.ts";
import { recordForLog } from "../http/request-log.ts";

/** Name in the page -> asset. */
const FILES: readonly { name: string; asset: string }[] = [
  { name: "swagger-ui.css", asset: "swagger-ui/swagger-ui.css" },
  { name: "swagger-ui-bundle.js", asset: "swagger-ui/swagger-ui-bundle.js" },
  { name: "swagger-ui-license.txt", asset: "swagger-ui/LICENSE" },
  { name: "swagger-ui-notice.txt", asset: "swagger-ui/NOTICE" },
  { name: "house.css", asset: "ui/house.css" },
  { name: "reference.css", asset: "ui/reference/reference.css" },
  { name: "reference.js", asset: "ui/reference/reference.js" },
  { name: "icon.svg", asset: "ui/reference/icon.svg" },
];
const PAGE = "ui/reference/index.html";

const TYPES: Readonly<Record<string, string>> = {
  html: "text/html; charset=utf-8",
  css: "text/css; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  svg: "image/svg+xml",
  txt: "text/plain; charset=utf-8",
};

/**
 * In place of, and beside, what every answer has. Swagger UI draws its icons from data: addresses and needs nothing
 * else beyond this server.
 */
const PAGE_HEADERS: Readonly<Record<string, string>> = {
  "Content-Security-Policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "Cross-Origin-Opener-Policy": "same-origin",
};

/**
 * Where people look for the page -> the way from there, relative (wire-contract 1.1: the alias has the same routes).
 */
const REDIRECTS: ReadonlyMap<string, string> = new Map([
  ["/doc", "api/v2/doc/"],
  ["/doc/", "../api/v2/doc/"],
  ["/api/v2/doc", "doc/"],
  ["/api/fastapi/doc", "doc/"],
]);
const ROOTS = ["/api/v2/doc/", "/api/fastapi/doc/"];

export type Served = {
  bytes: Buffer;
  type: string;
  /** Digest of the bytes, safe in file names and entity tags. */
  digest: string;
  cacheControl: string;
  /** The bytes compressed, made once. */
  gzipped(): Promise<Buffer>;
};

/**
 * Serves the reference and leads people to it; everything else is the next middleware's. Nothing is read before the
 * first request for it. The middleware throws AppErrors: 404 for an unknown file below doc/, 405 for all methods but
 * GET and HEAD.
 */
export function documentation(): Koa.Middleware {
  let files: ReadonlyMap<string, Served> | null = null;

  return async function reference(ctx, next) {
    const target = REDIRECTS.get(ctx.path);
    const root = ROOTS.find((prefix) => ctx.path.startsWith(prefix));
    if (target === undefined && root === undefined) return next();
    recordForLog(ctx, { route: "get_api_docs" });
    const file = root === undefined ? undefined : (files ??= load()).get(ctx.path.slice(root.length));
    if (target === undefined && file === undefined) throw routeNotFound();
    if (ctx.method !== "GET" && ctx.method !== "HEAD") throw methodNotAllowed(["GET", "HEAD"]);
    ctx.set(PAGE_HEADERS);
    if (file !== undefined) return sendFile(ctx, file);
    // Not a permanent redirect: browsers would keep it after the server behind the address has changed.
    ctx.status = 302;
    ctx.set({ Location: target as string, "Cache-Control": "no-cache" });
    ctx.body = "";
  };
}

/** Sends one of these files, compressed where the browser takes that. */
export async function sendFile(ctx: Koa.Context, file: Served): Promise<void> {
  const compressed = ctx.acceptsEncodings("gzip", "identity") === "gzip";
  ctx.set({
    // Two representations, two tags (RFC 9110, 8.8.3.3).
    ETag: compressed ? `"${file.digest}-gzip"` : `"${file.digest}"`,
    Vary: "Accept-Encoding",
    "Cache-Control": file.cacheControl,
  });
  ctx.status = 200;
  if (ctx.fresh) {
    ctx.status = 304;
    return;
  }
  ctx.set("Content-Type", file.type);
  if (compressed) ctx.set("Content-Encoding", "gzip");
  ctx.body = compressed ? await file.gzipped() : file.bytes;
}

/** Everything below doc/ by its name in addresses; the page itself has the empty one. */
function load(): ReadonlyMap<string, Served> {
  const files = new Map<string, Served>();
  const words = new Map([["version", readBuildInfo().version]]);
  for (const { name, asset } of FILES) {
    const { address, file } = loadFile(name, asset);
    files.set(address, file);
    words.set(name, address);
  }
  const page = readTextAsset(PAGE).replace(/\{\{([^}]+)\}\}/g, (_, word: string) => {
    const text = words.get(word);
    if (text === undefined) throw new Error(`${PAGE} names "${word}", which documentation.ts does not know`);
    return text;
  });
  return files.set("", served(Buffer.from(page), "html", "no-cache"));
}

/** A file whose name in addresses changes with its content. */
export function loadFile(name: string, asset: string): { address: string; file: Served } {
  const file = served(readAsset(asset), extension(name), "public, max-age=31536000, immutable");
  return { address: name.replace(/\.[a-z]+$/, `.${file.digest}$&`), file };
}

function served(bytes: Buffer, kind: string, cacheControl: string): Served {
  let compressed: Promise<Buffer> | null = null;
  return {
    bytes,
    type: TYPES[kind] as string,
    digest: createHash("sha256").update(bytes).digest("hex").slice(0, 16),
    cacheControl,
    gzipped: () => (compressed ??= compress(bytes, { level: 9 })),
  };
}

const compress = promisify(gzip);
const extension = (name: string): string => name.slice(name.lastIndexOf(".") + 1);
