/**
 * The interactive API reference at `<API root>/doc/`: Swagger UI over the server's own OpenAPI document. It is public,
 * because it contains no data (semantics 8.12). Everything the page needs ships with the program, and its content
 * security policy forbids the browser to contact any other server, because people paste keys here.
 *
 * Every file but the page has a digest of its content in its name, so it may be cached forever. All links are relative:
 * a proxy may serve this server below another path.
 */
import type Koa from "koa";
import { readBuildInfo, readTextAsset } from "../assets.ts";
import { methodNotAllowed, routeNotFound } from "../errors.ts";
import { recordForLog } from "../http/request-log.ts";
import { loadFile, sendFile, served } from "./served-file.ts";
import type { Served } from "./served-file.ts";

/** Files of the page, by the name that the page uses. */
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

/**
 * Headers that replace or extend those of every response. Swagger UI takes its icons from data: URLs and needs nothing
 * else from outside this server.
 */
const PAGE_HEADERS: Readonly<Record<string, string>> = {
  "Content-Security-Policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "Cross-Origin-Opener-Policy": "same-origin",
};

/**
 * Where people look for the page -> the relative path from there (wire-contract 1.1: the alias has the same routes).
 */
const REDIRECTS: ReadonlyMap<string, string> = new Map([
  ["/doc", "api/v2/doc/"],
  ["/doc/", "../api/v2/doc/"],
  ["/api/v2/doc", "doc/"],
  ["/api/fastapi/doc", "doc/"],
]);
const ROOTS = ["/api/v2/doc/", "/api/fastapi/doc/"];

/**
 * Serves the reference, redirects to it from nearby paths, and leaves all other paths to the next middleware. Files are
 * read on the first request. Throws AppErrors: 404 for an unknown file below doc/, 405 for methods other than GET and
 * HEAD.
 */
export function apiReference(): Koa.Middleware {
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
    // Not permanent: browsers would remember it after another server has taken over the address.
    ctx.status = 302;
    ctx.set({ Location: target as string, "Cache-Control": "no-cache" });
    ctx.body = "";
  };
}

/** Everything below doc/, by its name in URLs; the page itself has the empty name. */
function load(): ReadonlyMap<string, Served> {
  const files = new Map<string, Served>();
  const replacements = new Map([["version", readBuildInfo().version]]);
  for (const { name, asset } of FILES) {
    const { address, file } = loadFile(name, asset);
    files.set(address, file);
    replacements.set(name, address);
  }
  const page = readTextAsset(PAGE).replace(/\{\{([^}]+)\}\}/g, (_, placeholder: string) => {
    const text = replacements.get(placeholder);
    if (text === undefined) throw new Error(`${PAGE} has the placeholder "${placeholder}", which has no value`);
    return text;
  });
  return files.set("", served(Buffer.from(page), "html", "no-cache"));
}
