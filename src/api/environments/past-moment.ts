/** The time that an expression for a moment means. */
import { Type } from "typebox";
import { NO_BODY } from "../../http/operation.ts";
import { Closed, named } from "../../http/schema.ts";
import { largeRead } from "../context.ts";
import { AtMoment, prepareMoment, resolveMoment } from "../moment.ts";
import { OrgPath } from "../paths.ts";

const Moment = named("Moment", Closed({ at: Type.Number({ description: "Epoch seconds" }) }));

export const getMoment = largeRead({
  id: "get_moment",
  method: "GET",
  path: "/past/{org}/moment",
  tag: "Past",
  summary: "Resolve an expression for a moment",
  description: "The time that `at` of the other reads as of a moment means now.",
  permission: "environment:read",
  audit: null,
  origin: "assay",
  params: OrgPath,
  query: Closed(AtMoment),
  body: NO_BODY,
  responses: { 200: { description: "The moment", schema: Moment } },
  example: { params: { org: "acme" }, query: { at: "production#1" } },
  prepare: prepareMoment,
  handle: (context, _request, moment) => ({ status: 200, body: { at: resolveMoment(context, moment) } }),
});
