/**
 * Who is calling. An API key arrives as `Bearer KEY`, or as the user name of `Basic base64(KEY:anything)` (http-api-v2
 * 5); without either, the cookie of a browser session counts. Whether a key or session is valid is decided
 * by the store.
 */
import { hash, timingSafeEqual } from "node:crypto";
import type Koa from "koa";
import { csrfMissing, sessionExpired, unauthenticated } from "../errors.ts";
import type { Principal, ServerContext } from "./server-context.ts";

/**
 * The principal of the key in the Authorization header; without that header, of the session. A change by session must
 * carry the session's CSRF token: a foreign page can make the browser send its cookies but cannot read the token.
 * @throws AppError 401, 403.
 */
export function authenticate(
  server: Pick<ServerContext<unknown>, "authenticate" | "findSession">,
  ctx: Koa.Context,
): Principal {
  const { authorization } = ctx.req.headers;
  if (authorization === undefined) {
    const session = server.findSession(ctx);
    const token = ctx.get(CSRF_HEADER);
    // Only a page with a session sends the token. It gets a 401 that does not offer HTTP basic, for which the browser
    // would open a password dialog.
    if (!session) throw token === "" ? unauthenticated() : sessionExpired();
    const isRead = ctx.method === "GET" || ctx.method === "HEAD";
    if (!isRead && !equalsInConstantTime(token, session.csrfToken)) throw csrfMissing();
    return session.principal;
  }
  const key = parseCredential(authorization);
  const principal = key === null ? null : server.authenticate(hash("sha256", key));
  if (!principal) throw unauthenticated();
  return principal;
}

const CSRF_HEADER = "X-CSRF-Token";

/** Our keys have 43 characters; the declarative file accepts keys of up to 1024. */
const MAX_KEY_CHARS = 1024;

/** The key in an Authorization header; null if there is none or the header is malformed. */
export function parseCredential(header: string | undefined): string | null {
  if (header === undefined) return null;
  const [, scheme = "", rest = ""] = /^(\S+) +(\S+) *$/.exec(header) ?? [];
  const key = scheme.toLowerCase() === "bearer" ? rest : scheme.toLowerCase() === "basic" ? userName(rest) : null;
  return key === null || key === "" || key.length > MAX_KEY_CHARS ? null : key;
}

function userName(base64: string): string | null {
  const text = Buffer.from(base64, "base64").toString("utf8");
  const colon = text.indexOf(":");
  return colon === -1 ? text : text.slice(0, colon);
}

/** Whether two texts are equal, in a time that does not reveal where they differ. */
export const equalsInConstantTime = (one: string, other: string): boolean =>
  timingSafeEqual(hash("sha256", one, "buffer"), hash("sha256", other, "buffer"));
