/** The records of a trail, of the trail itself and of its artifacts, in pages. */
import { Type } from "typebox";
import { ATTESTATION_NAME } from "../../domain/names.ts";
import { badRequest } from "../../errors.ts";
import { NO_BODY } from "../../http/operation.ts";
import { Closed, Message, Repeated } from "../../http/schema.ts";
import { presentAttestations, presentAttestationsOf, AttestationItem } from "../../contract/present-attestation.ts";
import { Name } from "../../contract/shapes.ts";
import { JsonList } from "../../json/text.ts";
import { largeRead } from "../context.ts";
import { requireTrail } from "../flows/trails.ts";
import { PageOf, definePaging } from "../paging.ts";
import { presentPagination } from "../../http/pagination.ts";
import { ReadTrailPath } from "../paths.ts";

const MAX_IDS = 100;
const PAGING = definePaging({ perPage: 20, maxPerPage: MAX_IDS });

export const listTrailAttestations = largeRead({
  id: "list_trail_attestations",
  method: "GET",
  path: "/attestations/{org}/{flow_name}/trail/{trail_name}",
  tag: "Attestation",
  summary: "List the attestations of a trail",
  description:
    "Every record that was reported to the trail or to an artifact in it, overrides included, newest first, in " +
    "pages. `attestation_id` and `attestation_name` are not for one request.",
  permission: "attestation:read",
  audit: null,
  origin: "assay",
  params: ReadTrailPath,
  query: Closed({
    attestation_id: Repeated(Type.String(), { maxItems: MAX_IDS, description: "Only these records" }),
    attestation_name: Type.Optional(
      Name(ATTESTATION_NAME, { description: "Only records of this name, of the trail and of its artifacts" }),
    ),
    ...PAGING.query,
  }),
  body: NO_BODY,
  responses: {
    200: { description: "One page", schema: PageOf("TrailAttestationListPage", AttestationItem) },
    404: { description: "No such flow or trail", schema: Message },
  },
  example: {
    params: { org: "acme", flow_name: "backend", trail_name: "release-1" },
    query: { attestation_name: "unit-tests" },
  },
  handle(context, { params, query }) {
    const { store, organization } = context;
    const flow = store.flows.require(organization, params.flow_name);
    const trail = requireTrail(context, { id: flow.id, name: params.flow_name }, params.trail_name);
    const { attestation_id: ids, attestation_name: name } = query;
    if (ids !== undefined && name !== undefined)
      throw badRequest("Only one of 'attestation_id' and 'attestation_name' can be given");
    const records = ids !== undefined ? { ids } : name !== undefined ? { name } : null;
    const { limit, offset, page, perPage } = PAGING.window(query);
    const lists = store.attestationLists;
    const rows = lists.listInTrail(trail.id, records, { limit, offset });
    return {
      status: 200,
      body: {
        data: new JsonList(records ? presentAttestationsOf(context, rows) : presentAttestations(context, rows)),
        pagination: presentPagination(lists.countInTrail(trail.id, records), page, perPage),
      },
    };
  },
});
