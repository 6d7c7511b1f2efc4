/** `GET /metrics`: what Prometheus collects. */
import { hash, timingSafeEqual } from "node:crypto";
import type Koa from "koa";
import { methodNotAllowed, unauthenticated } from "../errors.ts";
import { setRoute } from "./request-boundary.ts";
import { parseCredential } from "./authenticate.ts";
import type { RateLimits } from "./rate-limits.ts";

export type MetricsSource = { collect(): Promise<string>; readonly contentType: string };

/**
 * @param key the token that opens the page, also as user name of basic authentication; null on a listener that has no
 * other page, where
 *   who can connect may read. Requests without the right one count for the rate of their address.
 */
export function createMetricsPage(
  metrics: MetricsSource,
  key: { token: string; rates: RateLimits } | null,
): Koa.Middleware {
  const due = key && digest(key.token);
  return async function page(ctx, next) {
    if (ctx.path !== "/metrics") return next();
    setRoute(ctx, "get_metrics");
    if (key && due) {
      const sent = parseCredential(ctx.req.headers.authorization);
      if (sent === null || !timingSafeEqual(digest(sent), due)) {
        key.rates.countAddress(ctx.state["client"] as string);
        throw unauthenticated();
      }
    }
    if (ctx.method !== "GET" && ctx.method !== "HEAD") throw methodNotAllowed(["GET", "HEAD"]);
    const text = await metrics.collect();
    ctx.status = 200;
    ctx.res.setHeader("Content-Type", metrics.contentType);
    ctx.body = text;
  };
}

/** Of one length whatever the text is, as the comparison needs it. */
const digest = (text: string): Buffer => hash("sha256", text, "buffer");
