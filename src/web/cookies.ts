/**
 * The cookies of the pages. Over TLS their names have the prefix `__Host-`: the browser then accepts them only from
 * this very host, and only over TLS. The prefix requires the path `/`, which is used below a base path as well: a
 * browser does not isolate programs on one host by their paths anyway.
 */
import { randomBytes } from "node:crypto";
import type Koa from "koa";
import { equalsInConstantTime } from "../http/authenticate.ts";
import { peerOf } from "../http/client-address.ts";
import { PREFERENCE_NAMES } from "./page/preferences.ts";
import type { PreferenceName } from "./page/preferences.ts";

export type Cookies = ReturnType<typeof createCookies>;

/**
 * `session` holds the session; `form` the CSRF token of forms before there is a session; `oidc` a login that is in
 * progress at the provider. The others are what the browser chose (page/preferences.ts).
 */
const NAMES = { session: "assay", form: "assay-form", oidc: "assay-oidc" } as const;
type Name = keyof typeof NAMES | PreferenceName;

const isPreference = (name: Name): name is PreferenceName => PREFERENCE_NAMES.some((one) => one === name);

/** Time for a login at the provider. */
const MAX_OIDC_LOGIN_S = 600;
/** What a browser chose is chosen again after a year. */
const PREFERENCE_S = 365 * 86_400;

/** Other cookies last as long as the browser runs. */
const lifetimeOf = (name: Name): { maxAge?: number } =>
  name === "oidc" ? { maxAge: MAX_OIDC_LOGIN_S * 1000 } : isPreference(name) ? { maxAge: PREFERENCE_S * 1000 } : {};

/**
 * @param baseUrl the public address: if it is https, clients use TLS even when a proxy does not forward the scheme
 */
export function createCookies(baseUrl: string) {
  const isSecure = (ctx: Koa.Context): boolean => baseUrl.startsWith("https:") || peerOf(ctx.req).secure;
  const nameOf = (ctx: Koa.Context, name: Name): string =>
    `${isSecure(ctx) ? "__Host-" : ""}${isPreference(name) ? `assay-${name}` : NAMES[name]}`;

  function set(ctx: Koa.Context, name: Name, value: string | null): void {
    const secure = isSecure(ctx);
    // Otherwise the library would decide by this connection, which may come from a proxy.
    ctx.cookies.secure = secure;
    ctx.cookies.set(nameOf(ctx, name), value, {
      httpOnly: true,
      sameSite: "lax",
      path: "/",
      secure,
      overwrite: true,
      ...(value === null ? {} : lifetimeOf(name)),
    });
  }
  const get = (ctx: Koa.Context, name: Name): string | null => ctx.cookies.get(nameOf(ctx, name)) ?? null;

  return {
    get,
    set,
    isSecure,
    /** The CSRF token of forms in a browser without a session; creates one if needed. */
    formToken(ctx: Koa.Context): string {
      const existing = get(ctx, "form");
      if (existing !== null && /^[\w-]{43}$/.test(existing)) return existing;
      const token = randomBytes(32).toString("base64url");
      set(ctx, "form", token);
      return token;
    },
    /** Whether a form comes from a page that this server sent to this browser. */
    isFormToken(ctx: Koa.Context, token: string): boolean {
      const expected = get(ctx, "form");
      return expected !== null && expected !== "" && equalsInConstantTime(expected, token);
    },
    /** Whether the request comes from a page of this server, or the browser does not say where it comes from. */
    isOwnOrigin(ctx: Koa.Context): boolean {
      const origin = ctx.get("Origin");
      if (origin === "") return ["", "same-origin", "none"].includes(ctx.get("Sec-Fetch-Site"));
      return [
        new URL(baseUrl).origin,
        peerOf(ctx.req).origin,
        `${isSecure(ctx) ? "https" : "http"}://${ctx.get("Host")}`,
      ].includes(origin);
    },
  };
}
