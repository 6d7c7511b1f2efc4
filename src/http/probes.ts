/** Probes at the host root: `/healthz` says that the process lives, `/ready` that it can do its work. Neither needs a login. */
import type Koa from "koa";
import { nameRequest } from "./arrive.ts";

/**
 * @param databaseAnswers asks the database a trivial question; false or an exception means "not ready".
 * `/ready` answers the bare text `OK` (wire-contract 2: clients use it as a print format) or 503.
 */
export function probes(databaseAnswers: () => boolean): Koa.Middleware {
  return async function probe(ctx, next) {
    if (ctx.path !== "/ready" && ctx.path !== "/healthz") return next();
    nameRequest(ctx, ctx.path === "/ready" ? "get_ready" : "get_healthz");
    const fine = ctx.path === "/healthz" || answers(databaseAnswers);
    ctx.type = "text/plain";
    ctx.status = fine ? 200 : 503;
    ctx.body = fine ? "OK" : "The database does not answer";
  };
}

function answers(question: () => boolean): boolean {
  try {
    return question();
  } catch {
    return false;
  }
}
