/**
 * What was decided about a control (semantics 7.2): decisions, and overrides of decisions, each under its own time. An
 * override is listed because it is what counts from then on, for policies too: without it the list would say the
 * opposite of the verdicts.
 */
import { Type } from "typebox";
import type { Static } from "typebox";
import { notFound } from "../../errors.ts";
import { NO_BODY } from "../../http/operation.ts";
import { Closed, Message, Nullable, Repeated, named } from "../../http/schema.ts";
import { AttestationItem, presentAttestations } from "../../contract/present-attestation.ts";
import { CONTROL_OPERATION, NO_CONTROL, CONTROL_PAGES, SortDirection } from "./controls.ts";
import { listAllowance, singleAllowance } from "../../contract/large-json.ts";
import type { Allowance } from "../../contract/large-json.ts";
import { operation } from "../context.ts";
import type { OperationContext } from "../context.ts";
import { Counts, counts } from "../paging.ts";
import type { PlacedAttestationRow } from "../../store/attestations/attestation-rows.ts";
import { ControlPath, NoQuery } from "../paths.ts";

const ControlDecision = named(
  "ControlDecision",
  Type.Object(
    {
      ...AttestationItem.properties,
      id: Type.String({ description: "The same as `attestation_id`" }),
      timestamp: Type.Number({ description: "Epoch seconds; the same as `created_at`" }),
      attestation_type: Type.String({
        description: "`system:decision`, or `override` for one that decides an earlier decision anew",
      }),
      control: Type.String(),
      control_version: Nullable(
        Type.Integer({
          description:
            "Version of the control at that time, of an override that of the decision; null: there was no such control yet",
        }),
      ),
      flow_id: Type.String({ description: "What the filter by flows takes" }),
      artifact_name: Nullable(Type.String()),
      artifact_fingerprint: Nullable(
        Type.String({
          description: "Of the artifact that it belongs to; null for a whole trail, and until the artifact is reported",
        }),
      ),
      attestation_data: Nullable(
        Type.Record(Type.String(), Type.Unknown(), { description: "As it was reported; null for an override" }),
      ),
      original_attestation_id: Nullable(Type.String({ description: "Of an override: the decision that it overrode" })),
    },
    { description: "A decision with all that is known of it, as attestations are shown" },
  ),
);
const ControlDecisionListPage = named(
  "ControlDecisionListPage",
  Closed({ ...Counts, decisions: Type.Array(ControlDecision) }),
);

function presentDecision(
  context: OperationContext,
  row: PlacedAttestationRow,
  control: string,
  allowance: Allowance,
): Static<typeof ControlDecision> {
  const { controlDecisions, attestations, flows } = context.store;
  // One by one through the list, so that a damaged record is marked there.
  const [item] = presentAttestations(context, [row], { allowance }) as [
    Static<typeof AttestationItem> & { attestation_data?: Record<string, unknown> },
  ];
  const artifact = controlDecisions.artifactOf(row);
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

const When = (description: string) =>
  Type.Optional(Type.Number({ description: `${description}, epoch seconds, inclusive` }));

export const listControlDecisions = operation({
  ...CONTROL_OPERATION,
  id: "list_control_decisions",
  method: "GET",
  path: "/controls/{org}/{identifier}/decisions",
  summary: "List the decisions on a control",
  description:
    "In pages, newest first unless asked otherwise. Overrides of decisions are among them. All filters combine.",
  permission: "control:read",
  audit: null,
  params: ControlPath,
  query: Closed({
    ...CONTROL_PAGES.query,
    is_compliant: Type.Optional(Type.Boolean()),
    from_timestamp: When("Decided at or after"),
    to_timestamp: When("Decided at or before"),
    flow_id: Repeated(Type.String(), { description: "Ids of flows; any may match" }),
    sort_direction: SortDirection("desc", "time"),
  }),
  body: NO_BODY,
  responses: { 200: { description: "One page", schema: ControlDecisionListPage }, 404: NO_CONTROL },
  example: { params: { org: "acme", identifier: "SDLC-7" }, query: { is_compliant: "false" } },
  handle(context, { params, query }) {
    const { store, organization } = context;
    const { identifier } = store.controls.require(organization, params.identifier);
    const filter = {
      isCompliant: query.is_compliant ?? null,
      from: query.from_timestamp ?? null,
      to: query.to_timestamp ?? null,
      flows: query.flow_id ?? null,
    };
    const { page, perPage, ...part } = CONTROL_PAGES.window(query);
    const rows = store.controlDecisions.list(organization.id, identifier, filter, query.sort_direction, part);
    const allowance = listAllowance();
    const decisions = rows.map((row) => presentDecision(context, row, identifier, allowance));
    return {
      status: 200,
      body: { ...counts(store.controlDecisions.count(organization.id, identifier, filter), page, perPage), decisions },
    };
  },
});

export const getControlDecision = operation({
  ...CONTROL_OPERATION,
  id: "get_control_decision",
  method: "GET",
  path: "/controls/{org}/{identifier}/decisions/{decision_id}",
  summary: "Read one decision on a control",
  permission: "control:read",
  audit: null,
  params: Closed({
    ...ControlPath.properties,
    decision_id: Type.String({ description: "Id of the decision, or of an override of one" }),
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
        `Decision '${params.decision_id}' on control '${identifier}' does not exist in organization '${organization.name}'`,
      );
    return { status: 200, body: presentDecision(context, row, identifier, singleAllowance()) };
  },
});
