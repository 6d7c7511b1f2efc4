/**
 * How long trails and evidence files are kept, and legal holds, for admins. Rules and holds alone delete nothing: only
 * the operator does, with `assay retention run`.
 */
import { Type } from "typebox";
import { MAX_NAME_CHARS } from "../../domain/names.ts";
import { badRequest, notFound } from "../../errors.ts";
import { NO_BODY, json } from "../../http/operation.ts";
import { Closed, Maybe, Message, Nullable, Ok, named } from "../../http/schema.ts";
import { MAX_HOLD_REASON_CHARS, MAX_RETENTION_DAYS, isEvidenceFirst } from "../../store/retention/retention-rules.ts";
import type { LegalHoldRow, RetentionRuleRow } from "../../store/retention/retention-rules.ts";
import { changesOf } from "../changes.ts";
import type { NamedScope } from "../changes.ts";
import { operation, largeRead } from "../context.ts";
import type { ReadingContext } from "../context.ts";
import { parseCursor, toCursor } from "../paging.ts";
import { NoQuery, OrgPath } from "../paths.ts";

const FlowField = Maybe(
  Type.String({ maxLength: MAX_NAME_CHARS, description: "Name of a flow; null or absent for the whole organization" }),
);
const Days = (what: string) =>
  Nullable(
    Type.Integer({
      minimum: 1,
      maximum: MAX_RETENTION_DAYS,
      description: `Days after the last event on a trail, from which on ${what} may be deleted; null: never`,
    }),
  );
const DAYS = {
  trails_after_days: Days("the trail with everything on it"),
  evidence_after_days: Days("the files attached to its records"),
};

const RetentionRule = named(
  "RetentionRule",
  Closed({ flow: Nullable(Type.String({ description: "null: every flow without a rule of its own" })), ...DAYS }),
);
const RetentionRuleInput = named("RetentionRuleInput", Closed({ flow: FlowField, ...DAYS }));

const LegalHold = named(
  "LegalHold",
  Closed({
    id: Type.String(),
    flow: Nullable(Type.String({ description: "null: the whole organization" })),
    trail: Nullable(Type.String({ description: "Name of the trail at the time; null: the whole flow" })),
    reason: Type.String(),
    placed_by: Type.String(),
    placed_at: Type.Number({ description: "Epoch seconds" }),
    released_by: Nullable(Type.String()),
    released_at: Nullable(Type.Number({ description: "Epoch seconds; null while the hold is in force" })),
  }),
);
const LegalHoldInput = named(
  "LegalHoldInput",
  Closed({
    flow: FlowField,
    trail: Maybe(Type.String({ maxLength: MAX_NAME_CHARS, description: "Name of a trail of the flow" })),
    reason: Type.String({ minLength: 1, maxLength: MAX_HOLD_REASON_CHARS, description: "Reason, for the history" }),
  }),
);
const LegalHoldPage = named(
  "LegalHoldPage",
  Closed({
    holds: Type.Array(LegalHold),
    next: Nullable(Type.String({ description: "Value of `after` for the next page; null on the last one" })),
  }),
);

const presentRule = ({ flow_name, trails_after_days, evidence_after_days }: RetentionRuleRow) => ({
  flow: flow_name,
  trails_after_days,
  evidence_after_days,
});
const presentHold = (row: LegalHoldRow) => ({
  id: row.public_id,
  flow: row.flow_name,
  trail: row.trail_name,
  reason: row.reason,
  placed_by: row.placed_by,
  placed_at: row.placed_at,
  released_by: row.released_by,
  released_at: row.released_at,
});

/** The organization, or one of its flows. @throws AppError 404 */
function requireScope({ store, organization }: ReadingContext, flowName: string | null | undefined): NamedScope {
  const organizationId = organization.id;
  if (flowName === null || flowName === undefined) return { organizationId, flowId: null, name: organization.name };
  const flow = store.flows.require(organization, flowName);
  return { organizationId, flowId: flow.id, name: `${organization.name}/${flow.name}` };
}

const NO_FLOW = { description: "No such flow", schema: Message };
const EXAMPLE_PATH = { org: "acme" };

export const listRetentionRules = largeRead({
  id: "list_retention_rules",
  origin: "assay",
  method: "GET",
  path: "/retention/{org}/rules",
  tag: "Retention",
  summary: "List retention rules",
  description: "The rule of the organization comes first, then those of flows by name. Without a rule, all is kept.",
  permission: "org:settings",
  audit: null,
  params: OrgPath,
  query: NoQuery,
  body: NO_BODY,
  responses: { 200: { description: "The rules", schema: Type.Array(RetentionRule) } },
  example: { params: EXAMPLE_PATH },
  handle: ({ store, organization }) => ({
    status: 200,
    body: store.retentionRules.listOf(organization.id).map(presentRule),
  }),
});

export const putRetentionRule = operation({
  id: "put_retention_rule",
  origin: "assay",
  method: "PUT",
  path: "/retention/{org}/rules",
  tag: "Retention",
  summary: "Set how long trails and evidence files are kept",
  description:
    "Replaces the rule of the organization or of a flow. The rule of a flow replaces that of its organization as a " +
    "whole: both days null keep everything in the flow. Nothing is deleted before the operator runs a plan.",
  permission: "org:settings",
  audit: "retention.rule_set",
  params: OrgPath,
  query: NoQuery,
  body: json(RetentionRuleInput),
  responses: { 200: { description: "The rule, changed or not", schema: RetentionRule }, 404: NO_FLOW },
  example: { params: EXAMPLE_PATH, body: { trails_after_days: 730, evidence_after_days: 180 } },
  handle(context, { body }) {
    const { trails_after_days: trails, evidence_after_days: evidence } = body;
    if (!isEvidenceFirst({ trails, evidence }))
      throw badRequest(
        "Files are deleted before their trails: evidence_after_days must be less than trails_after_days",
      );
    const scope = requireScope(context, body.flow);
    const known = context.store.retentionRules
      .listOf(scope.organizationId)
      .find(({ flow_id }) => flow_id === scope.flowId);
    const isSame = known?.trails_after_days === trails && known.evidence_after_days === evidence;
    const rule = known && isSame ? known : changesOf(context).setRetentionRule(scope, { trails, evidence });
    return { status: 200, body: presentRule(rule), unaudited: true };
  },
});

export const deleteRetentionRule = operation({
  id: "delete_retention_rule",
  origin: "assay",
  method: "DELETE",
  path: "/retention/{org}/rules",
  tag: "Retention",
  summary: "Remove a retention rule",
  description: "A flow without a rule of its own falls under that of its organization.",
  permission: "org:settings",
  audit: "retention.rule_removed",
  params: OrgPath,
  query: Closed({
    flow: Type.Optional(
      Type.String({ maxLength: MAX_NAME_CHARS, description: "Absent: the rule of the organization" }),
    ),
  }),
  body: NO_BODY,
  responses: {
    200: { description: "Removed", schema: Ok },
    404: { description: "No such flow, or it has no rule", schema: Message },
  },
  example: { params: EXAMPLE_PATH },
  handle(context, { query }) {
    const scope = requireScope(context, query.flow);
    if (!changesOf(context).removeRetentionRule(scope))
      throw notFound(`There is no retention rule for '${scope.name}'`);
    return { status: 200, body: "OK", unaudited: true };
  },
});

export const listLegalHolds = largeRead({
  id: "list_legal_holds",
  origin: "assay",
  method: "GET",
  path: "/retention/{org}/holds",
  tag: "Retention",
  summary: "List legal holds",
  description: "Newest first, in pages: request the next one with `after`.",
  permission: "org:settings",
  audit: null,
  params: OrgPath,
  query: Closed({
    with_released: Type.Optional(Type.Boolean({ default: false, description: "Include holds that were released" })),
    after: Type.Optional(Type.String({ maxLength: 100, description: "`next` of the previous page" })),
    per_page: Type.Optional(Type.Integer({ minimum: 1, maximum: 500, default: 100 })),
  }),
  body: NO_BODY,
  responses: { 200: { description: "One page", schema: LegalHoldPage } },
  example: { params: EXAMPLE_PATH, query: { with_released: "true" } },
  handle({ store, organization }, { query }) {
    const size = query.per_page ?? 100;
    const rows = store.retentionRules.listHoldPage(organization.id, {
      withReleased: query.with_released ?? false,
      before: query.after === undefined ? null : parseCursor("after", query.after),
      limit: size + 1,
    });
    const page = rows.slice(0, size);
    const last = page.at(-1);
    const next = rows.length > size && last ? toCursor(last.id) : null;
    return { status: 200, body: { holds: page.map(presentHold), next } };
  },
});

export const placeLegalHold = operation({
  id: "place_legal_hold",
  origin: "assay",
  method: "POST",
  path: "/retention/{org}/holds",
  tag: "Retention",
  summary: "Place a legal hold on an organization, a flow or a trail",
  description: "Nothing under the hold is deleted, whatever the rules say, until it is released.",
  permission: "org:settings",
  audit: "retention.hold_placed",
  params: OrgPath,
  query: NoQuery,
  body: json(LegalHoldInput),
  responses: {
    201: { description: "Placed", schema: LegalHold },
    404: { description: "No such flow or trail", schema: Message },
  },
  example: { params: EXAMPLE_PATH, body: { reason: "case 2026-117" } },
  handle(context, { body }) {
    const { store, principal } = context;
    const reason = body.reason.trim();
    if (reason === "") throw badRequest("The reason of a legal hold must not be blank");
    const scope = requireScope(context, body.flow);
    const name = body.trail ?? null;
    if (name !== null && scope.flowId === null)
      throw badRequest("A trail belongs to a flow: give the flow too, or no trail");
    const trail = name === null || scope.flowId === null ? null : store.trails.find(scope.flowId, name);
    if (name !== null && !trail) throw notFound(`'${scope.name}' has no trail '${name}'`);
    const hold = changesOf(context).placeHold(scope, trail, { reason, by: principal.displayName });
    return { status: 201, body: presentHold(hold), unaudited: true };
  },
});

export const releaseLegalHold = operation({
  id: "release_legal_hold",
  origin: "assay",
  method: "POST",
  path: "/retention/{org}/holds/{hold_id}/release",
  tag: "Retention",
  summary: "Release a legal hold",
  description: "The hold stays in the history.",
  permission: "org:settings",
  audit: "retention.hold_released",
  params: Closed({ org: OrgPath.properties.org, hold_id: Type.String({ description: "Id of the hold" }) }),
  query: NoQuery,
  body: NO_BODY,
  responses: {
    200: { description: "Released", schema: LegalHold },
    404: { description: "No such hold", schema: Message },
  },
  example: { params: { ...EXAMPLE_PATH, hold_id: "019a2b3c-4d5e-7f60-8a9b-0c1d2e3f" } },
  handle(context, { params }) {
    const { store, organization, principal } = context;
    const hold = store.retentionRules.findHold(params.hold_id);
    if (hold?.organization_id !== organization.id) throw notFound(`There is no legal hold '${params.hold_id}'`);
    const released = changesOf(context).releaseHold(hold, principal.displayName);
    if (!released) throw badRequest(`The legal hold '${hold.public_id}' was already released`);
    return { status: 200, body: presentHold(released), unaudited: true };
  },
});
