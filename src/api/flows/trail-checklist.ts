/** The checklist of a trail in pages. */
import { Type } from "typebox";
import { presentChecklist } from "../../contract/present-checklist.ts";
import { TrailChecklist } from "../../contract/trail-shapes.ts";
import { CHECK_STATES } from "../../domain/compliance/checklist.ts";
import { NO_BODY } from "../../http/operation.ts";
import { Closed, Message, OneOf } from "../../http/schema.ts";
import { largeRead } from "../context.ts";
import { MAX_PAGE_NUMBER, definePaging } from "../paging.ts";
import { ReadTrailPath } from "../paths.ts";
import { requireTrailAt } from "./trails.ts";

const PAGES = definePaging({ perPage: 50, maxPerPage: 100 });

/** A longer one is parsed in the reader thread: five thousand checks. */
const MAX_INLINE_VERDICT_BYTES = 1 << 20;
/** The same for the checks of one artifact, for which half of the work is done. */
const MAX_INLINE_VERDICT_BYTES_OF_ONE = 2 << 20;

export const getTrailChecklist = largeRead({
  id: "get_trail_checklist",
  origin: "assay",
  method: "GET",
  path: "/trails/{org}/{flow_name}/{trail_name}/checklist",
  tag: "Trails",
  summary: "Read the checklist of a trail in pages",
  description:
    "What the template expects of the trail and of its artifacts and what else was reported, as one list: the " +
    "verdict of each check, without template and history. A list that is longer than a page begins with what fails; " +
    "others, and all with `order=template`, are in the order of the template.",
  permission: "trail:read",
  audit: null,
  params: ReadTrailPath,
  query: Closed({
    search: Type.Optional(
      Type.String({
        maxLength: 256,
        description:
          "Part of the name of the check or of its artifact, in any case, or the beginning of a fingerprint, at " +
          "least 5 characters of it",
      }),
    ),
    state: Type.Optional(OneOf(CHECK_STATES, { description: "Only checks in it" })),
    order: Type.Optional(OneOf(["failing_first", "template"], { description: "Which checks come first" })),
    artifact_id: Type.Optional(
      Type.String({
        description:
          "Only the checks of this artifact, if it is the latest of its name, and of the trail, in all figures, too: " +
          "what fails first, its own before those of the trail",
      }),
    ),
    attestation_id: Type.Optional(
      Type.String({ description: "The check of this record is `opened`; without `page`, its page is shown" }),
    ),
    ...PAGES.query,
    page: Type.Optional(
      Type.Integer({ minimum: 1, maximum: MAX_PAGE_NUMBER, description: "Page number, starting at 1" }),
    ),
  }),
  body: NO_BODY,
  responses: {
    200: { description: "One page", schema: TrailChecklist },
    404: { description: "No such flow or trail", schema: Message },
  },
  example: {
    params: { org: "acme", flow_name: "payments", trail_name: "release-1.4.0" },
    query: { state: "NON-COMPLIANT" },
  },
  isLarge: (context, { params, query }) =>
    context.store.trails.countComplianceBytes(requireTrailAt(context, params).trail.id) >
    (query.artifact_id === undefined ? MAX_INLINE_VERDICT_BYTES : MAX_INLINE_VERDICT_BYTES_OF_ONE),
  handle(context, { params, query }) {
    const body = presentChecklist(context, requireTrailAt(context, params).trail, {
      search: query.search ?? "",
      state: query.state ?? null,
      order: query.order ?? null,
      artifactId: query.artifact_id ?? null,
      opened: query.attestation_id ?? null,
      page: query.page ?? null,
      perPage: PAGES.window(query).perPage,
    });
    return { status: 200, body };
  },
});
