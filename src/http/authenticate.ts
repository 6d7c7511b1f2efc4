/**
 * Who calls. A key arrives in one of two ways (http-api-v2, Authentication): `Bearer KEY`, or `Basic
 * base64(KEY:anything)` with the key as user name; or somebody signed in with a browser. Whether what arrives is valid
 * is the store's business.
 */
import { hash, timingSafeEqual } from "node:crypto";
import type Koa from "koa";
import { csrfMissing, sessionExpired, unauthenticated } from "../errors.ts";
import type { Principal, ServerContext } from "./server-context.ts";

/**
 * The holder of the key in the Authorization header; only a request without such a header may come by session. A change
 * by session must bring the token of the session: pages of others can make a browser send its cookies, but cannot read
 * that.
 * @throws AppError 401, 403.
 */
export function authenticate(
  house: Pick<ServerContext<unknown>, "authenticate" | "findSession">,
  ctx: Koa.Context,
): Principal {
  const { authorization } = ctx.req.headers;
  if (authorization === undefined) {
    const session = house.findSession(ctx);
    const token = ctx.get(CSRF_HEADER);
    // Only a page that somebody signed in to sends the token. A browser that is told of HTTP basic would ask for a
    // password.
    if (!session) throw token === "" ? unauthenticated() : sessionExpired();
    if (ctx.method !== "GET" && ctx.method !== "HEAD" && !equalsInConstantTime(token, session.csrfToken))
      throw csrfMissing();
    return session.principal;
  }
  const key = parseCredential(authorization);
  const caller = key === null ? null : house.authenticate(hash("sha256", key));
  if (!caller) throw unauthenticated();
  return caller;
}

const CSRF_HEADER = "X-CSRF-Token";

/** A key longer than this is nobody's: ours have 43 characters, the apply file takes up to 1024. */
const MAX_KEY_CHARS = 1024;

/** The key of an Authorization header, null when there is none or it is malformed. */
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

/** Whether two texts are the same; how long that takes says nothing about where they differ. */
export const equalsInConstantTime = (one: string, other: string): boolean =>
  timingSafeEqual(hash("sha256", one, "buffer"), hash("sha256", other, "buffer"));
