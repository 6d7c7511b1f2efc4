/**
 * Actions: whom to tell of what. There are two doors to the same records: this one, and the older one of
 * environment-notifications.ts, which knows environments only.
 */
import { Type } from "typebox";
import type { Static } from "typebox";
import { ACTION_NAME } from "../../domain/names.ts";
import { ENVIRONMENT_TRIGGERS, FLOW_TRIGGERS } from "../../domain/notification/triggers.ts";
import { invalid } from "../../errors.ts";
import { NO_BODY, json } from "../../http/operation.ts";
import { Closed, Message, Nullable, Ok, OneOf, named } from "../../http/schema.ts";
import type { ActionFields, ActionKind, ActionRow } from "../../store/notifications/actions.ts";
import { operation } from "../context.ts";
import type { OperationContext } from "../context.ts";
import { keysNamed } from "../names.ts";
import { LIST_LENGTH, NAME_LENGTH, Name } from "../../contract/shapes.ts";
import { ActionTargets, TargetResponses, summarizeDeliveries, presentTarget, readTargets } from "./targets.ts";
import { UNREADABLE, presentEach } from "../../contract/placeholders.ts";
import { OrgPath, NoQuery } from "../paths.ts";

const ActionPath = Closed({
  org: Type.String({ description: "Name of the organization" }),
  action_number: Type.Integer({ description: "Number of the action in the organization" }),
});

const ActionName = Name(ACTION_NAME, {
  description: "Name of the action, unique in the organization; an action that has it is replaced",
});
const Names = (what: string) =>
  Type.Array(Type.String({ maxLength: NAME_LENGTH }), {
    maxItems: LIST_LENGTH,
    description: `Names of ${what}, whose order is kept`,
  });
/** Each trigger a few times at most: what is given twice counts once. */
const Triggers = <const T extends readonly string[]>(words: T) =>
  Type.Array(OneOf(words), { maxItems: 100, description: "What to tell of; the order is kept" });

export const EnvActionPutInput = named(
  "EnvActionPutInput",
  Closed({
    name: ActionName,
    type: Type.Optional(OneOf(["env"], { default: "env" })),
    environments: Names("environments, physical or logical"),
    triggers: Triggers(ENVIRONMENT_TRIGGERS),
    targets: ActionTargets,
  }),
);

const FlowActionPutInput = named(
  "FlowActionPutInput",
  Closed({
    name: ActionName,
    type: Type.Optional(OneOf(["flow"], { default: "flow" })),
    flows: Names("flows"),
    triggers: Triggers(FLOW_TRIGGERS),
    targets: ActionTargets,
  }),
);

/** The properties that both doors show. */
export const actionProperties = {
  name: Type.String(),
  type: Type.String({ description: "`env` or `flow`" }),
  number: Type.Integer({ description: "Counts up in the organization; no number is given twice" }),
  triggers: Type.Array(Type.String()),
  targets: TargetResponses,
  created_by: Type.String(),
  is_created_from_slack_app: Type.Boolean({ description: "Whether it was made with the channel of a chat as target" }),
  is_failing: Type.Boolean({ description: "Whether the latest message to one of the targets did not arrive" }),
  last_success_timestamp: Nullable(Type.Number({ description: "Epoch seconds" })),
  last_failure_timestamp: Nullable(Type.Number({ description: "Epoch seconds" })),
  created_at: Type.Number(),
  last_modified_at: Type.Number(),
};

const ActionResponse = named(
  "ActionResponse",
  Closed({
    ...actionProperties,
    environments: Nullable(Type.Array(Type.String(), { description: "Of an action of the type `env`" })),
    flows: Nullable(Type.Array(Type.String(), { description: "Of an action of the type `flow`" })),
  }),
);

/** What both doors show of an action. @throws Error for a damaged record. */
export function presentProperties({ store, role }: OperationContext, row: ActionRow) {
  const targets = store.actions.targets(row);
  return {
    ...frame(row),
    triggers: JSON.parse(row.triggers_json) as string[],
    // Their addresses let whoever knows them write there (decision 108).
    targets: role === null ? [] : presentEach(targets, presentTarget, () => UNREADABLE_TARGET),
    ...summarizeDeliveries(targets),
  };
}

/** A target is an object of any form, so that the mark of a damaged one needs no field of its own. */
const UNREADABLE_TARGET = { unreadable: UNREADABLE };

/** In place of a damaged record. */
export const placeholderProperties = (row: ActionRow) => ({
  ...frame(row),
  triggers: [UNREADABLE],
  targets: [],
  is_failing: false,
  last_success_timestamp: null,
  last_failure_timestamp: null,
});

const frame = ({ name, kind, number, created_by, from_chat, created_at, last_modified_at }: ActionRow) => ({
  name,
  type: kind,
  number,
  created_by,
  is_created_from_slack_app: from_chat === 1,
  created_at,
  last_modified_at,
});

const presentAction = (context: OperationContext, row: ActionRow) => ({
  ...presentProperties(context, row),
  ...placesOf(context, row),
});

function placesOf({ store }: OperationContext, row: ActionRow) {
  const places = store.actions.places(row);
  return row.kind === "env" ? { environments: places, flows: null } : { environments: null, flows: places };
}

type EnvInput = Static<typeof EnvActionPutInput>;
type FlowInput = Static<typeof FlowActionPutInput>;

/** @throws AppError invalid for an environment, flow or target that cannot be one. */
function fieldsOf(context: OperationContext, input: EnvInput | FlowInput): ActionFields {
  const { store, organization } = context;
  const places =
    "environments" in input
      ? keysNamed(
          "environments",
          input.environments,
          (name) => store.environments.requireWritable(organization, name).id,
        )
      : keysNamed("flows", input.flows, (name) => store.flows.requireWritable(organization, name).id);
  return {
    name: input.name,
    triggers: [...new Set<string>(input.triggers)],
    places,
    targets: readTargets(context, input.targets),
    newSecret: context.newSecret,
  };
}

const isTaken = (name: string, kind: ActionKind): string =>
  `${kind === "env" ? "An environment" : "A flow"} action with this name already exists [input: ${name}]`;

/**
 * Creates an action, or replaces the one that has its name. @throws AppError invalid, also for the name of an action of
 * the other kind.
 */
export function putAction(context: OperationContext, input: EnvInput | FlowInput): { status: 200 | 201; body: "OK" } {
  const { store, organization, principal, note } = context;
  const kind = "environments" in input ? "env" : "flow";
  const existing = store.actions.named(organization.id, input.name);
  if (existing && existing.kind !== kind) throw invalid({ name: isTaken(input.name, existing.kind) });
  const fields = fieldsOf(context, input);
  const types = fields.targets.map(({ type }) => type ?? "other");
  if (existing) {
    const changed = store.actions.update(existing, fields);
    note({ action: input.name, number: existing.number, created: false, changed, targets: types });
    return { status: 200, body: "OK" };
  }
  const fromChat = fields.targets.some(
    ({ type, target }) => type === "SLACK" && "context" in target && target.context != null,
  );
  const { number } = store.actions.create(organization.id, kind, fields, { user: principal.displayName, fromChat });
  note({ action: input.name, number, created: true, targets: types });
  return { status: 201, body: "OK" };
}

/** Replaces an action of environments. @throws AppError invalid, also for a name that another action has. */
export function replaceAction(context: OperationContext, row: ActionRow, input: EnvInput): { status: 200; body: "OK" } {
  const { store, organization, note } = context;
  const holder = store.actions.named(organization.id, input.name);
  if (holder && holder.id !== row.id) throw invalid({ name: isTaken(input.name, holder.kind) });
  const fields = fieldsOf(context, input);
  const changed = store.actions.update(row, fields);
  note({
    action: input.name,
    number: row.number,
    created: false,
    changed,
    targets: fields.targets.map(({ type }) => type ?? "other"),
  });
  return { status: 200, body: "OK" };
}

export function deleteActionRow({ store, note }: OperationContext, row: ActionRow): { status: 200; body: "OK" } {
  store.actions.remove(row);
  note({ action: row.name, number: row.number });
  return { status: 200, body: "OK" };
}

export const EXAMPLE: EnvInput = {
  name: "production-alerts",
  type: "env",
  environments: ["production"],
  triggers: ["ON_NON_COMPLIANT_ENV", "ON_COMPLIANT_ENV"],
  targets: [{ type: "WEBHOOK", webhook: "https://hooks.example.com/assay", payload_version: "1.0" }],
};

export const listActions = operation({
  id: "list_actions",
  method: "GET",
  path: "/actions/{org}",
  tag: "Actions",
  summary: "List the actions of an organization",
  description: "Those of environments and of flows, by number.",
  permission: "action:read",
  audit: null,
  params: OrgPath,
  query: NoQuery,
  body: NO_BODY,
  responses: { 200: { description: "All actions", schema: Type.Array(ActionResponse) } },
  example: { params: { org: "acme" } },
  handle: (context) => ({
    status: 200,
    body: presentEach(
      context.store.actions.list(context.organization.id),
      (row) => presentAction(context, row),
      (row) => ({ ...placeholderProperties(row), ...placesOf(context, row) }),
    ),
  }),
});

export const putEnvironmentAction = operation({
  id: "create_or_update_env_action",
  method: "PUT",
  path: "/actions/{org}/environments",
  tag: "Actions",
  summary: "Create or replace an action of environments",
  description:
    "Tells the targets of what happens in the environments. The action that has the name is replaced and keeps its number. `ON_SCALED_ARTIFACT` means that a running artifact became compliant or non-compliant, or got new provenance. A WEBHOOK gets one message for each event, SLACK and EMAIL get one for each trigger and snapshot. Environments that are archived leave the action, which ends with the last of them.",
  permission: "action:write",
  audit: "action.put",
  params: OrgPath,
  query: NoQuery,
  body: json(EnvActionPutInput),
  responses: { 200: { description: "Replaced", schema: Ok }, 201: { description: "Created", schema: Ok } },
  example: { params: { org: "acme" }, body: EXAMPLE },
  handle: (context, { body }) => putAction(context, body),
});

export const putFlowAction = operation({
  id: "create_or_update_flow_action",
  method: "PUT",
  path: "/actions/{org}/flows",
  tag: "Actions",
  summary: "Create or replace an action of flows",
  description:
    "Tells the targets of what happens in the flows. The action that has the name is replaced and keeps its number. `ON_ATTESTED_PROVENANCE` tells of an artifact that was reported. `ON_APPROVAL` and `ON_RELEASE` are accepted, and nothing raises them. Flows that are archived leave the action, which ends with the last of them.",
  permission: "action:write",
  audit: "action.put",
  params: OrgPath,
  query: NoQuery,
  body: json(FlowActionPutInput),
  responses: { 200: { description: "Replaced", schema: Ok }, 201: { description: "Created", schema: Ok } },
  example: {
    params: { org: "acme" },
    body: {
      name: "builds",
      type: "flow",
      flows: ["payments"],
      triggers: ["ON_ATTESTED_PROVENANCE"],
      targets: [{ type: "EMAIL", emails: ["team@example.com"] }],
    },
  },
  handle: (context, { body }) => putAction(context, body),
});

export const getAction = operation({
  id: "get_action",
  method: "GET",
  path: "/actions/{org}/{action_number}",
  tag: "Actions",
  summary: "Read an action",
  description: "By its number in the organization, which it keeps when it is replaced.",
  permission: "action:read",
  audit: null,
  params: ActionPath,
  query: NoQuery,
  body: NO_BODY,
  responses: {
    200: { description: "The action", schema: ActionResponse },
    404: { description: "No such action", schema: Message },
  },
  example: { params: { org: "acme", action_number: "1" } },
  handle: (context, { params }) => ({
    status: 200,
    body: presentAction(context, context.store.actions.require(context.organization, params.action_number)),
  }),
});

export const deleteAction = operation({
  id: "delete_action",
  method: "DELETE",
  path: "/actions/{org}/{action_number}",
  tag: "Actions",
  summary: "Delete an action",
  description: "Messages that still wait to be sent for it are not sent any more. Its number is not given again.",
  permission: "action:write",
  audit: "action.deleted",
  params: ActionPath,
  query: NoQuery,
  body: NO_BODY,
  responses: { 200: { description: "Deleted", schema: Ok }, 404: { description: "No such action", schema: Message } },
  example: { params: { org: "acme", action_number: "1" } },
  handle: (context, { params }) =>
    deleteActionRow(context, context.store.actions.require(context.organization, params.action_number)),
});
