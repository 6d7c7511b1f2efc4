/**
 * Decisions on a control (semantics 7.2): decisions and overrides of decisions, each at its own time. Overrides are
 * listed because they count from then on, for policies too: without them the list would contradict the verdicts.
 */
import { Type } from "typebox";
import type { Static } from "typebox";
import { notFound } from "../../errors.ts";
import { formatCsvLine } from "../../domain/text/csv.ts";
import { NO_BODY } from "../../http/operation.ts";
import { Closed, Message, Nullable, Repeated, named } from "../../http/schema.ts";
import { AttestationItem, presentAttestations } from "../../contract/present-attestation.ts";
import { CONTROL_OPERATION, NO_CONTROL, CONTROL_PAGES, SortDirection } from "./controls.ts";
import { listAllowance, singleAllowance } from "../../contract/large-json.ts";
import type { Allowance } from "../../contract/large-json.ts";
import { JsonList } from "../../json/text.ts";
import { largeRead, operation } from "../context.ts";
import type { LargeReadContext } from "../context.ts";
import { csvStream } from "../csv.ts";
import { PageCounts, pageCounts } from "../paging.ts";
import type { DecisionFilter } from "../../store/policies/control-decisions.ts";
import type { PlacedAttestationRow } from "../../store/attestations/attestation-rows.ts";
import { ControlPath, NoQuery } from "../paths.ts";

const ControlDecision = named(
  "ControlDecision",
  Type.Object(
    {
      ...AttestationItem.properties,
      id: Type.String({ description: "Same as `attestation_id`" }),
      timestamp: Type.Number({ description: "Epoch seconds; same as `created_at`" }),
      attestation_type: Type.String({
        description: "`system:decision`, or `override` for the override of an earlier decision",
      }),
      control: Type.String(),
      control_version: Nullable(
        Type.Integer({
          description:
            "Version of the control at that time, or at the time of the overridden decision; null if the control did " +
            "not exist yet",
        }),
      ),
      flow_id: Type.String({ description: "Id of the flow, as used by the filter `flow_id`" }),
      artifact_name: Nullable(Type.String()),
      artifact_fingerprint: Nullable(
        Type.String({
          description:
            "Fingerprint of the decision's artifact; null for a decision on a whole trail, and until the artifact " +
            "is reported",
        }),
      ),
      attestation_data: Nullable(
        Type.Record(Type.String(), Type.Unknown(), { description: "As reported; null for an override" }),
      ),
      original_attestation_id: Nullable(Type.String({ description: "For an override: the overridden decision" })),
    },
    { description: "A decision with all fields of an attestation" },
  ),
);
const ControlDecisionListPage = named(
  "ControlDecisionListPage",
  Closed({ ...PageCounts, decisions: Type.Array(ControlDecision) }),
);

function presentDecision(
  context: LargeReadContext,
  row: PlacedAttestationRow,
  { control, allowance }: { control: string; allowance: Allowance },
): Static<typeof ControlDecision> {
  const { controlDecisions, attestations, flows } = context.store;
  // Presented as a list of one, because lists mark damaged records.
  const [item] = [...presentAttestations(context, [row], { allowance })] as [
    Static<typeof AttestationItem> & { attestation_data?: Record<string, unknown> },
  ];
  const artifact = controlDecisions.findArtifact(row);
  return {
    ...item,
    id: row.public_id,
    timestamp: row.created_at,
    control,
    control_version: row.control_version,
    flow_id: flows.get(row.flow_id).public_id,
    artifact_name: artifact?.filename ?? null,
    artifact_fingerprint: row.artifact_fingerprint ?? artifact?.fingerprint ?? null,
    attestation_data: item.attestation_data ?? null,
    original_attestation_id: row.original_id === null ? null : attestations.get(row.original_id).public_id,
  };
}

const TimeBound = (description: string) =>
  Type.Optional(Type.Number({ description: `${description}, epoch seconds, inclusive` }));

/** The ids of the flows whose decisions match; null for all. */
function flowsAsked(
  { store, organization }: LargeReadContext,
  { flow_id: ids, flow_name: name }: { flow_id?: string[]; flow_name?: string },
): string[] | null {
  if (name === undefined) return ids ?? null;
  const id = store.flows.find(organization.id, name)?.public_id;
  return id === undefined || ids?.includes(id) === false ? [] : [id];
}

const FILTERS = {
  is_compliant: Type.Optional(Type.Boolean()),
  from_timestamp: TimeBound("Decided at or after"),
  to_timestamp: TimeBound("Decided at or before"),
  flow_id: Repeated(Type.String(), { description: "Ids of flows; any of them may match" }),
  flow_name: Type.Optional(Type.String({ description: "Name of a flow; an unknown one matches nothing" })),
};
const Filters = Closed(FILTERS);

const filterOf = (context: LargeReadContext, query: Static<typeof Filters>): DecisionFilter => ({
  isCompliant: query.is_compliant ?? null,
  from: query.from_timestamp ?? null,
  to: query.to_timestamp ?? null,
  flows: flowsAsked(context, query),
});

export const listControlDecisions = largeRead({
  ...CONTROL_OPERATION,
  id: "list_control_decisions",
  method: "GET",
  path: "/controls/{org}/{identifier}/decisions",
  summary: "List the decisions on a control",
  description: "In pages, by default newest first, including overrides of decisions. All filters must match.",
  permission: "control:read",
  audit: null,
  params: ControlPath,
  query: Closed({
    ...CONTROL_PAGES.query,
    ...FILTERS,
    sort_direction: SortDirection("desc", "time"),
  }),
  body: NO_BODY,
  responses: { 200: { description: "One page", schema: ControlDecisionListPage }, 404: NO_CONTROL },
  example: { params: { org: "acme", identifier: "SDLC-7" }, query: { is_compliant: "false" } },
  handle(context, { params, query }) {
    const { store, organization } = context;
    const { identifier } = store.controls.require(organization, params.identifier);
    const filter = filterOf(context, query);
    const { page, perPage, ...slice } = CONTROL_PAGES.window(query);
    const rows = store.controlDecisions.list({ organizationId: organization.id, control: identifier }, filter, {
      direction: query.sort_direction,
      ...slice,
    });
    const allowance = listAllowance(context);
    const decisions = JsonList.from(rows, (row) => presentDecision(context, row, { control: identifier, allowance }));
    return {
      status: 200,
      body: {
        ...pageCounts(
          store.controlDecisions.count({ organizationId: organization.id, control: identifier }, filter),
          page,
          perPage,
        ),
        decisions,
      },
    };
  },
});

const CSV_COLUMNS = [
  "timestamp",
  "time",
  "control",
  "control_version",
  "decision",
  "type",
  "flow",
  "trail",
  "artifact",
  "artifact_fingerprint",
  "decided_by",
  "reason",
  "decision_id",
  "overridden_decision_id",
];

/** Decisions that are read at a time: a few milliseconds. */
const CSV_SLICE = 200;

/** @param control the identifier */
function renderLine({ store }: Pick<LargeReadContext, "store">, control: string, row: PlacedAttestationRow): string {
  const artifact = store.controlDecisions.findArtifact(row);
  return formatCsvLine([
    row.created_at,
    new Date(row.created_at * 1000).toISOString(),
    control,
    row.control_version,
    row.is_compliant === 1 ? "compliant" : "non-compliant",
    row.overridden_type === null ? "decision" : "override",
    row.flow_name,
    row.trail_name,
    artifact?.filename ?? null,
    row.artifact_fingerprint ?? artifact?.fingerprint ?? null,
    row.reported_by,
    row.description,
    row.public_id,
    row.original_id === null ? null : store.attestations.get(row.original_id).public_id,
  ]);
}

/** @param read up to so many decisions behind the one with that row id, oldest first */
function* generateLines(
  read: (after: number, limit: number) => PlacedAttestationRow[],
  render: (row: PlacedAttestationRow) => string,
): Generator<string> {
  for (let after = 0; ; ) {
    const rows = read(after, CSV_SLICE);
    yield rows.map(render).join("");
    const last = rows.at(-1);
    if (!last || rows.length < CSV_SLICE) return;
    after = last.id;
  }
}

export const downloadControlDecisions = operation({
  ...CONTROL_OPERATION,
  id: "download_control_decisions",
  origin: "assay",
  method: "GET",
  path: "/controls/{org}/{identifier}/decisions/csv",
  summary: "Download the decisions on a control",
  description:
    "The decisions and their overrides as `text/csv` in UTF-8, oldest first, after a line with the column names. All " +
    "filters must match. A value that a spreadsheet would evaluate as a formula is prefixed with an apostrophe.",
  permission: "control:read",
  audit: null,
  params: ControlPath,
  query: Filters,
  body: NO_BODY,
  responses: {
    200: { description: "The decisions", schema: Type.String(), contentType: "text/csv", isStream: true },
    404: NO_CONTROL,
  },
  example: { params: { org: "acme", identifier: "SDLC-7" }, query: { from_timestamp: "1767225600" } },
  handle(context, { params, query }) {
    const { store, organization } = context;
    const { identifier } = store.controls.require(organization, params.identifier);
    const key = { organizationId: organization.id, control: identifier };
    const filter = filterOf(context, query);
    // Here, so that the answer shows nothing newer than this read: it is sent once that is durable.
    const upTo = store.controlDecisions.findLatestId(key, filter);
    const slices = () =>
      generateLines(
        (after, limit) => store.controlDecisions.listBetween(key, filter, { after, upTo, limit }),
        (row) => renderLine({ store }, identifier, row),
      );
    const filename = `${organization.name}-${identifier}-decisions.csv`;
    return { status: 200, stream: csvStream({ filename, columns: CSV_COLUMNS, slices }) };
  },
});

export const getControlDecision = largeRead({
  ...CONTROL_OPERATION,
  id: "get_control_decision",
  method: "GET",
  path: "/controls/{org}/{identifier}/decisions/{decision_id}",
  summary: "Read a decision on a control",
  description: "With its reasons and data. An override of a decision is one, too.",
  permission: "control:read",
  audit: null,
  params: Closed({
    ...ControlPath.properties,
    decision_id: Type.String({ description: "Id of a decision or of an override" }),
  }),
  query: NoQuery,
  body: NO_BODY,
  responses: {
    200: { description: "The decision", schema: ControlDecision },
    404: { description: "No such control, or no such decision on it", schema: Message },
  },
  example: { params: { org: "acme", identifier: "SDLC-7", decision_id: "0f5c9a1d-2b3e-4f50-8172-8394a5b6" } },
  handle(context, { params }) {
    const { store, organization } = context;
    const { identifier } = store.controls.require(organization, params.identifier);
    const row = store.attestations.findByPublicId(organization.id, params.decision_id);
    if (row?.control !== identifier)
      throw notFound(
        `Decision '${params.decision_id}' on control '${identifier}' does not exist ` +
          `in organization '${organization.name}'`,
      );
    return {
      status: 200,
      body: presentDecision(context, row, { control: identifier, allowance: singleAllowance(context) }),
    };
  },
});
