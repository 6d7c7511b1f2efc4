/** Why a trail has its verdict. */
import { TrailExplanation } from "../../contract/explanation-shapes.ts";
import { presentTrailExplanation } from "../../contract/present-trail-explanation.ts";
import { NO_BODY } from "../../http/operation.ts";
import { Message } from "../../http/schema.ts";
import { largeRead } from "../context.ts";
import { NoQuery, ReadTrailPath } from "../paths.ts";
import { documentLane } from "./flows.ts";
import { requireTrailAt } from "./trails.ts";

/** A longer one is re-evaluated, with the records of its checks, in the reader thread: hundreds of checks. */
const MAX_INLINE_VERDICT_BYTES = 128 << 10;

export const explainTrail = largeRead({
  id: "explain_trail",
  method: "GET",
  path: "/explanations/{org}/trails/{flow_name}/{trail_name}",
  tag: "Explanations",
  summary: "Explain the verdict on a trail",
  description:
    "The checklist of the template, for the trail and for each artifact: what is expected and where the template " +
    "says so, the attestation that decided, an override of it, and what would make it compliant. The trail is " +
    "re-evaluated from the stored records: `same` says whether that gives the stored verdict, `problems` the " +
    "differences.",
  permission: "trail:read",
  audit: null,
  origin: "assay",
  params: ReadTrailPath,
  query: NoQuery,
  body: NO_BODY,
  responses: {
    200: { description: "The explanation", schema: TrailExplanation },
    404: { description: "No such flow or trail", schema: Message },
  },
  example: { params: { org: "acme", flow_name: "payments", trail_name: "release-1.4.0" } },
  // Reading a large template takes a while, so it happens before the transaction.
  async prepare(context, { params }) {
    const { templates } = context.store;
    const template = templates.get(requireTrailAt(context, params).trail.template_id);
    if (templates.findLines(template)) return;
    const lines = await context.documents.locateExpectations(documentLane(context), template.content);
    if (lines) templates.keepLines(template, lines);
  },
  isLarge: (context, { params }) =>
    context.store.trails.countComplianceBytes(requireTrailAt(context, params).trail.id) > MAX_INLINE_VERDICT_BYTES,
  handle(context, { params }) {
    const { store } = context;
    const { flow, trail: found } = requireTrailAt(context, params);
    const trail = store.trails.getListed(found.id);
    const lines = store.templates.findLines(store.templates.get(trail.template_id));
    const explained = store.trailExplanations.explain(trail);
    return { status: 200, body: presentTrailExplanation(context, explained, { trail, flow: flow.name, lines }) };
  },
});
