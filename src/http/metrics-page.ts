/** `GET /metrics`, which Prometheus scrapes. */
import type Koa from "koa";
import { methodNotAllowed, unauthenticated } from "../errors.ts";
import { equalsInConstantTime, parseCredential } from "./authenticate.ts";
import type { RateLimits } from "./rate-limits.ts";
import { recordForLog } from "./request-log.ts";

type MetricsSource = { collect(): Promise<string>; readonly contentType: string };

/**
 * @param key the token that opens the page, as bearer token or as user name of basic authentication. Requests without
 *   it count against the rate limit of their address. null on a listener of its own, where everyone who can connect may
 *   read.
 */
export function createMetricsPage(
  metrics: MetricsSource,
  key: { token: string; rates: RateLimits } | null,
): Koa.Middleware {
  return async function metricsPage(ctx, next) {
    if (ctx.path !== "/metrics") return next();
    recordForLog(ctx, { route: "get_metrics" });
    if (key) {
      const sent = parseCredential(ctx.req.headers.authorization);
      if (sent === null || !equalsInConstantTime(sent, key.token)) {
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
