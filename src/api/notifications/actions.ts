/**
 * Actions: messages to targets about events in environments or flows. The older environment notifications
 * (environment-notifications.ts) are another view of the same records that has environment actions only.
 */
import { Type } from "typebox";
import type { Role } from "../../domain/access.ts";
import { NO_BODY, json } from "../../http/operation.ts";
import { Closed, Nullable, Ok, named } from "../../http/schema.ts";
import type { ActionRow } from "../../store/notifications/actions.ts";
import { operation, largeRead } from "../context.ts";
import type { LargeReadContext } from "../context.ts";
import { presentEach } from "../../contract/placeholders.ts";
import { OrgPath, NoQuery } from "../paths.ts";
import * as records from "./action-records.ts";

const ActionPath = Closed({
  org: Type.String({ description: "Name of the organization" }),
  action_number: Type.Integer({ description: "Number of the action in the organization" }),
});

const ActionResponse = named(
  "ActionResponse",
  Closed({
    ...records.actionProperties,
    environments: Nullable(Type.Array(Type.String(), { description: "For an action of type `env`" })),
    flows: Nullable(Type.Array(Type.String(), { description: "For an action of type `flow`" })),
  }),
);

const presentAction = (context: LargeReadContext, row: ActionRow, role: Role | null) => ({
  ...records.presentProperties(context, row, role),
  ...presentPlaces(context, row),
});

function presentPlaces({ store }: LargeReadContext, row: ActionRow) {
  const places = store.actions.listPlaces(row);
  return row.kind === "env" ? { environments: places, flows: null } : { environments: null, flows: places };
}

export const listActions = largeRead({
  id: "list_actions",
  method: "GET",
  path: "/actions/{org}",
  tag: "Actions",
  summary: "List the actions of an organization",
  description: "Environment and flow actions, by number.",
  permission: "action:read",
  audit: null,
  params: OrgPath,
  query: NoQuery,
  body: NO_BODY,
  responses: { 200: { description: "All actions", schema: Type.Array(ActionResponse) } },
  example: { params: { org: "acme" } },
  // The reader thread does not know the principal.
  prepare: async ({ role }) => role,
  handle: (context, _input, role) => ({
    status: 200,
    body: presentEach(
      context.store.actions.list(context.organization.id),
      (row) => presentAction(context, row, role),
      (row) => ({ ...records.placeholderProperties(row), ...presentPlaces(context, row) }),
    ),
  }),
});

export const putEnvironmentAction = operation({
  ...records.PUT_ENVIRONMENT_ACTION,
  method: "PUT",
  id: "create_or_update_env_action",
  path: "/actions/{org}/environments",
  tag: "Actions",
  summary: "Create or replace an environment action",
  description:
    "Sends messages about events in the environments to the targets. An existing action with the same name is " +
    "replaced and keeps its number. `ON_SCALED_ARTIFACT` covers running artifacts that became compliant or " +
    "non-compliant or got new provenance. A WEBHOOK target gets one message per event; SLACK and EMAIL targets get " +
    "one per trigger and snapshot. `ON_DAILY_CHANGES` sends one message a day (`daily_at`), about what changed in " +
    "all of the environments, if anything did. Archived environments are removed from the action; the action is " +
    "deleted with its last environment.",
  handle: (context, { body }) => records.putAction(context, body),
});

export const putFlowAction = operation({
  id: "create_or_update_flow_action",
  method: "PUT",
  path: "/actions/{org}/flows",
  tag: "Actions",
  summary: "Create or replace a flow action",
  description:
    "Sends messages about events in the flows to the targets. An existing action with the same name is replaced and " +
    "keeps its number. `ON_ATTESTED_PROVENANCE` means that an artifact was reported. `ON_APPROVAL` and `ON_RELEASE` " +
    "are accepted but never occur. Archived flows are removed from the action; the action is deleted with its last " +
    "flow.",
  permission: "action:write",
  audit: "action.put",
  params: OrgPath,
  query: NoQuery,
  body: json(records.FlowActionPutInput),
  responses: records.PUT_ENVIRONMENT_ACTION.responses,
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
  handle: (context, { body }) => records.putAction(context, body),
});

export const getAction = largeRead({
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
  responses: { 200: { description: "The action", schema: ActionResponse }, 404: records.ACTION_NOT_FOUND },
  example: { params: { org: "acme", action_number: "1" } },
  // The reader thread does not know the principal.
  prepare: async ({ role }) => role,
  handle: (context, { params }, role) => ({
    status: 200,
    body: presentAction(context, context.store.actions.require(context.organization, params.action_number), role),
  }),
});

export const deleteAction = operation({
  ...records.DELETE_ACTION,
  method: "DELETE",
  id: "delete_action",
  path: "/actions/{org}/{action_number}",
  tag: "Actions",
  summary: "Delete an action",
  description: "Its pending messages are not sent. Its number is not reused.",
  params: ActionPath,
  body: NO_BODY,
  responses: { 200: { description: "Deleted", schema: Ok }, 404: records.ACTION_NOT_FOUND },
  example: { params: { org: "acme", action_number: "1" } },
  handle: (context, { params }) =>
    records.deleteActionRecord(context, context.store.actions.require(context.organization, params.action_number)),
});
