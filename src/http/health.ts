/**
 * Health probes at the host root, without authentication: `/healthz` says that the process is alive, `/ready` (text)
 * and `/readyz` (JSON) whether it can serve.
 */
import type Koa from "koa";
import { recordForLog } from "./request-log.ts";

/** The answer of `/readyz`. `reason` and `problem` are sentences for the operator, null if all is well. */
export type ReadinessReport = {
  state: "ready" | "read-only" | "unavailable";
  /** Why the state is not "ready". */
  reason: string | null;
  version: string;
  /** null if unknown. */
  commit: string | null;
  /** Version of the database schema. */
  schema: number;
  clock: { state: "right" | "ahead" | "behind"; problem: string | null };
  /** Whether evidence storage elsewhere answers; null: not known yet, or the evidence is in the data directory. */
  evidence_reachable: boolean | null;
};

const ROUTES: ReadonlyMap<string, string> = new Map([
  ["/healthz", "get_healthz"],
  ["/ready", "get_ready"],
  ["/readyz", "get_readyz"],
]);

/**
 * `/ready` answers the bare text `OK` (wire-contract 2: clients use it as a print format), or 503 with the reason. A
 * server in read-only mode is ready: a load balancer that dropped it would end its reads too.
 * @param readiness is called for each `/ready` and `/readyz`, and must not reject
 */
export function createHealthProbes(readiness: () => Promise<ReadinessReport>): Koa.Middleware {
  return async function healthProbe(ctx, next) {
    const route = ROUTES.get(ctx.path);
    if (route === undefined) return next();
    recordForLog(ctx, { route });
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
