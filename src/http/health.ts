/**
 * Probes at the host root, without a login: `/healthz` says that the process lives, `/ready` and `/readyz` whether it
 * can do its work, as a word and as JSON.
 */
import type Koa from "koa";
import { setRoute } from "./request-boundary.ts";

/** What `/readyz` answers. `reason` and `problem` are sentences for the operator, null where all is well. */
export type ReadinessReport = {
  state: "ready" | "read-only" | "unavailable";
  /** Why the state is not "ready". */
  reason: string | null;
  version: string;
  /** null: not known. */
  commit: string | null;
  /** The version of the database schema. */
  schema: number;
  clock: { state: "right" | "ahead" | "behind"; problem: string | null };
};

const ROUTES: ReadonlyMap<string, string> = new Map([
  ["/healthz", "get_healthz"],
  ["/ready", "get_ready"],
  ["/readyz", "get_readyz"],
]);

/**
 * @param readiness is asked for each `/ready` and `/readyz`, and must not reject
 * `/ready` answers the bare text `OK` (wire-contract 2: clients use it as a print format), or 503 with the reason. A
 * server that takes no changes is ready: a load balancer that took it away would end its reads as well.
 */
export function createHealthProbes(readiness: () => Promise<ReadinessReport>): Koa.Middleware {
  return async function probe(ctx, next) {
    const route = ROUTES.get(ctx.path);
    if (route === undefined) return next();
    setRoute(ctx, route);
    const report = ctx.path === "/healthz" ? null : await readiness();
    ctx.status = report?.state === "unavailable" ? 503 : 200;
    if (ctx.path === "/readyz") {
      ctx.type = "application/json";
      ctx.body = `${JSON.stringify(report)}\n`;
      return;
    }
    ctx.type = "text/plain";
    ctx.body = report?.state === "unavailable" ? report.reason : "OK";
  };
}
