/**
 * What the stages of a request record for its log line. The line is written when the request ends
 * (request-boundary.ts), by whatever stage ended it, so each stage records a fact as soon as it knows it:
 * `recordForLog` is the only way to do that.
 */
import type Koa from "koa";
import type { Principal } from "./server-context.ts";

export type RequestLogFields = {
  /** Id of the operation, or the name of a page or probe, for log and metrics; null if no route matched. */
  route: string | null;
  /** Recorded as soon as it is authenticated, so that the line of a refusal names it. */
  principal: Principal | null;
  /** Name of the organization, whether it exists or not. */
  organization: string | null;
  /** Logged instead of the path of the request, where that path contains part of a credential. */
  path: string | null;
};

/** The fields of a request on which nothing is recorded yet, for `ctx.state.log`. */
export const emptyLogFields = (): RequestLogFields => ({
  route: null,
  principal: null,
  organization: null,
  path: null,
});

/** Adds to the log line of the request, replacing fields that were recorded before. */
export const recordForLog = (ctx: Koa.Context, fields: Partial<RequestLogFields>): void =>
  void Object.assign(ctx.state["log"] as RequestLogFields, fields);
