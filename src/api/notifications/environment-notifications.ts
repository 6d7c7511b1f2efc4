/**
 * Environment notifications: an older view of the environment actions, with the same records and numbers, for clients
 * that do not know actions.
 */
import { Type } from "typebox";
import type { Role } from "../../domain/access.ts";
import { NO_BODY } from "../../http/operation.ts";
import { Closed, Ok, named } from "../../http/schema.ts";
import type { ActionRow } from "../../store/notifications/actions.ts";
import { operation, largeRead } from "../context.ts";
import type { LargeReadContext } from "../context.ts";
import { presentEach } from "../../contract/placeholders.ts";
import { OrgPath, NoQuery } from "../paths.ts";
import * as records from "./action-records.ts";

const NotificationPath = Closed({
  org: Type.String({ description: "Name of the organization" }),
  notification_number: Type.Integer({ description: "Number of the action in the organization" }),
});

const EnvironmentNotificationResponse = named(
  "EnvironmentNotificationResponse",
  Closed({ ...records.actionProperties, environments: Type.Array(Type.String()) }),
);

const present = (context: LargeReadContext, row: ActionRow, role: Role | null) => ({
  ...records.presentProperties(context, row, role),
  environments: context.store.actions.listPlaces(row),
});

/** @throws AppError not_found, also for a flow action */
const requireRow = ({ store, organization }: LargeReadContext, number: number): ActionRow =>
  store.actions.require(organization, number, "env");

export const listEnvironmentNotifications = largeRead({
  id: "get_environment_notifications",
  method: "GET",
  path: "/organizations/{org}/environments_notifications",
  tag: "Organizations",
  summary: "List the environment actions",
  description: "By number. `GET /actions/{org}` also lists flow actions.",
  permission: "action:read",
  audit: null,
  params: OrgPath,
  query: NoQuery,
  body: NO_BODY,
  responses: {
    200: { description: "All environment actions", schema: Type.Array(EnvironmentNotificationResponse) },
  },
  example: { params: { org: "acme" } },
  // The reader thread does not know the principal.
  prepare: async ({ role }) => role,
  handle: (context, _input, role) => ({
    status: 200,
    body: presentEach(
      context.store.actions.list(context.organization.id).filter(({ kind }) => kind === "env"),
      (row) => present(context, row, role),
      (row) => ({ ...records.placeholderProperties(row), environments: context.store.actions.listPlaces(row) }),
    ),
  }),
});

export const putEnvironmentNotification = operation({
  ...records.PUT_ENVIRONMENT_ACTION,
  method: "PUT",
  id: "put_environment_notifications",
  path: "/organizations/{org}/environments_notifications",
  tag: "Organizations",
  summary: "Create or replace an environment action by name",
  description: "Same as `PUT /actions/{org}/environments`.",
  handle: (context, { body }) => records.putAction(context, body),
});

export const getEnvironmentNotification = largeRead({
  id: "get_environment_notification",
  method: "GET",
  path: "/organizations/{org}/environments_notifications/{notification_number}",
  tag: "Organizations",
  summary: "Read an environment action",
  description: "By its number in the organization. Flow actions are not available here.",
  permission: "action:read",
  audit: null,
  params: NotificationPath,
  query: NoQuery,
  body: NO_BODY,
  responses: {
    200: { description: "The action", schema: EnvironmentNotificationResponse },
    404: records.ENVIRONMENT_ACTION_NOT_FOUND,
  },
  example: { params: { org: "acme", notification_number: "1" } },
  // The reader thread does not know the principal.
  prepare: async ({ role }) => role,
  handle: (context, { params }, role) => ({
    status: 200,
    body: present(context, requireRow(context, params.notification_number), role),
  }),
});

export const updateEnvironmentNotification = operation({
  id: "update_environment_notification",
  method: "PUT",
  path: "/organizations/{org}/environments_notifications/{notification_number}",
  tag: "Organizations",
  summary: "Replace an environment action by number",
  description: "The action keeps its number, also under a new name. No other action may have that name.",
  permission: "action:write",
  audit: "action.put",
  params: NotificationPath,
  query: NoQuery,
  body: records.ENVIRONMENT_ACTION_BODY.body,
  responses: {
    200: { description: "Replaced", schema: Ok },
    404: records.ENVIRONMENT_ACTION_NOT_FOUND,
  },
  example: { params: { org: "acme", notification_number: "1" }, body: records.ENVIRONMENT_ACTION_BODY.example },
  handle: (context, { params, body }) =>
    records.replaceAction(context, requireRow(context, params.notification_number), body),
});

export const deleteEnvironmentNotification = operation({
  ...records.DELETE_ACTION,
  method: "DELETE",
  id: "delete_environment_notification",
  path: "/organizations/{org}/environments_notifications/{notification_number}",
  tag: "Organizations",
  summary: "Delete an environment action",
  description: "Same as `DELETE /actions/{org}/{action_number}`.",
  params: NotificationPath,
  body: NO_BODY,
  responses: { 200: { description: "Deleted", schema: Ok }, 404: records.ENVIRONMENT_ACTION_NOT_FOUND },
  example: { params: { org: "acme", notification_number: "1" } },
  handle: (context, { params }) => records.deleteActionRecord(context, requireRow(context, params.notification_number)),
});
