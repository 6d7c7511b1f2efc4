/**
 * The cookies of the pages. Over TLS they carry the prefix `__Host-`: the browser then takes them from this very host
 * alone and over TLS alone. The prefix demands the path `/`, so it is that everywhere, also below a base path: programs
 * on one host are no strangers to a browser whatever their paths.
 */
import { randomBytes } from "node:crypto";
import type Koa from "koa";
import { equalsInConstantTime } from "../http/authenticate.ts";
import { peerOf } from "../http/client-address.ts";

export type Cookies = ReturnType<typeof cookiesOf>;

/**
 * What a form of somebody who has not signed in brings back is remembered in a cookie; so is a login that went to the
 * provider.
 */
const NAMES = { session: "assay", form: "assay-form", oidc: "assay-oidc" } as const;
type Name = keyof typeof NAMES;

/** Seconds for a login at the provider. */
const OIDC_SECONDS = 600;

/**
 * @param baseUrl the public address: where it is https, a proxy that says nothing about itself speaks TLS all the same
 */
export function cookiesOf(baseUrl: string) {
  const isSecure = (ctx: Koa.Context): boolean => baseUrl.startsWith("https:") || peerOf(ctx.req).secure;
  const nameOf = (ctx: Koa.Context, name: Name): string => (isSecure(ctx) ? `__Host-${NAMES[name]}` : NAMES[name]);

  function set(ctx: Koa.Context, name: Name, value: string | null): void {
    const secure = isSecure(ctx);
    // Whether this connection is the one that is encrypted is not for the library to say.
    ctx.cookies.secure = secure;
    ctx.cookies.set(nameOf(ctx, name), value, {
      httpOnly: true,
      sameSite: "lax",
      path: "/",
      secure,
      overwrite: true,
      ...(name === "oidc" && value !== null ? { maxAge: OIDC_SECONDS * 1000 } : {}),
    });
  }
  const get = (ctx: Koa.Context, name: Name): string | null => ctx.cookies.get(nameOf(ctx, name)) ?? null;

  return {
    get,
    set,
    isSecure,
    /** The token of forms of a browser in which nobody signed in yet. */
    formToken(ctx: Koa.Context): string {
      const known = get(ctx, "form");
      if (known !== null && /^[\w-]{43}$/.test(known)) return known;
      const token = randomBytes(32).toString("base64url");
      set(ctx, "form", token);
      return token;
    },
    /** Whether a form was sent from a page that this browser got from here. */
    isFormToken(ctx: Koa.Context, token: string): boolean {
      const known = get(ctx, "form");
      return known !== null && known !== "" && equalsInConstantTime(known, token);
    },
    /** Whether the browser says that the request comes from a page of this server, or does not say. */
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
