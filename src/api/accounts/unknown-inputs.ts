/** What clients sent that this server does not know: admins see a newer client before it needs what is missing. */
import { Type } from "typebox";
import { NO_BODY } from "../../http/operation.ts";
import { Closed, OneOf, named } from "../../http/schema.ts";
import { MAX_UNKNOWN_INPUTS } from "../../store/accounts/unknown-inputs.ts";
import { largeRead } from "../context.ts";
import { NoQuery, OrgPath } from "../paths.ts";

const UnknownInput = named(
  "UnknownInput",
  Closed({
    client: Type.String({ description: "A release of the Kosli CLI, such as `Kosli/v2.53.0`; `other` for all others" }),
    kind: OneOf(["key", "route", "attestation_kind"], {
      description:
        "A top-level key of a body, which was ignored; or a route or a kind of attestation, which was refused. The " +
        "last two are counted for releases of the Kosli CLI only",
    }),
    operation: Type.String({
      description: "`operationId` of the request; for what was refused, its method and path, with `*` for values",
    }),
    name: Type.String({ description: "The key or the kind, at most 64 characters; empty for a route" }),
    count: Type.Integer(),
    first_at: Type.Number({ description: "Epoch seconds, to the minute" }),
    last_at: Type.Number({ description: "Epoch seconds, to the minute" }),
  }),
);

export const listUnknownInputs = largeRead({
  id: "list_unknown_inputs",
  origin: "assay",
  method: "GET",
  path: "/unknown-inputs/{org}",
  tag: "Organizations",
  summary: "List what clients sent that this server does not know",
  description:
    "Newest releases of the Kosli CLI first. The server counts in memory and saves once a minute. It keeps at most " +
    `${MAX_UNKNOWN_INPUTS} entries of all organizations together, and none that was not seen for 90 days.`,
  permission: "org:settings",
  audit: null,
  params: OrgPath,
  query: NoQuery,
  body: NO_BODY,
  responses: { 200: { description: "All of them", schema: Type.Array(UnknownInput) } },
  example: { params: { org: "acme" } },
  handle: ({ store, organization }) => ({ status: 200, body: store.unknownInputs.listByOrganization(organization.id) }),
});
