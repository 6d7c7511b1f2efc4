/**
 * The older door to actions of environments: the same records with the same numbers, for clients that know no others.
 */
import { Type } from "typebox";
import { NO_BODY, json } from "../../http/operation.ts";
import { Closed, Message, Ok, named } from "../../http/schema.ts";
import type { ActionRow } from "../../store/notifications/actions.ts";
import {
  EXAMPLE,
  EnvActionPutInput,
  actionProperties,
  deleteActionRow,
  placeholderProperties,
  presentProperties,
  putAction,
  replaceAction,
} from "./actions.ts";
import { operation } from "../context.ts";
import type { OperationContext } from "../context.ts";
import { presentEach } from "../../contract/placeholders.ts";
import { OrgPath, NoQuery } from "../paths.ts";

const NotificationPath = Closed({
  org: Type.String({ description: "Name of the organization" }),
  notification_number: Type.Integer({ description: "Number of the action in the organization" }),
});

const EnvironmentNotificationResponse = named(
  "EnvironmentNotificationResponse",
  Closed({ ...actionProperties, environments: Type.Array(Type.String()) }),
);

const present = (context: OperationContext, row: ActionRow) => ({
  ...presentProperties(context, row),
  environments: context.store.actions.places(row),
});

/** An action of flows is none here. @throws AppError not_found. */
const requireRow = ({ store, organization }: OperationContext, number: number): ActionRow =>
  store.actions.require(organization, number, "env");

export const listEnvironmentNotifications = operation({
  id: "get_environment_notifications",
  method: "GET",
  path: "/organizations/{org}/environments_notifications",
  tag: "Organizations",
  summary: "List the actions of environments",
  description: "By number. `GET /actions/{org}` shows those of flows too.",
  permission: "action:read",
  audit: null,
  params: OrgPath,
  query: NoQuery,
  body: NO_BODY,
  responses: {
    200: { description: "All actions of environments", schema: Type.Array(EnvironmentNotificationResponse) },
  },
  example: { params: { org: "acme" } },
  handle: (context) => ({
    status: 200,
    body: presentEach(
      context.store.actions.list(context.organization.id).filter(({ kind }) => kind === "env"),
      (row) => present(context, row),
      (row) => ({ ...placeholderProperties(row), environments: context.store.actions.places(row) }),
    ),
  }),
});

export const putEnvironmentNotification = operation({
  id: "put_environment_notifications",
  method: "PUT",
  path: "/organizations/{org}/environments_notifications",
  tag: "Organizations",
  summary: "Create or replace an action of environments by name",
  description: "The same as `PUT /actions/{org}/environments`.",
  permission: "action:write",
  audit: "action.put",
  params: OrgPath,
  query: NoQuery,
  body: json(EnvActionPutInput),
  responses: { 200: { description: "Replaced", schema: Ok }, 201: { description: "Created", schema: Ok } },
  example: { params: { org: "acme" }, body: EXAMPLE },
  handle: (context, { body }) => putAction(context, body),
});

export const getEnvironmentNotification = operation({
  id: "get_environment_notification",
  method: "GET",
  path: "/organizations/{org}/environments_notifications/{notification_number}",
  tag: "Organizations",
  summary: "Read an action of environments",
  description: "By its number in the organization; actions of flows are not found here.",
  permission: "action:read",
  audit: null,
  params: NotificationPath,
  query: NoQuery,
  body: NO_BODY,
  responses: {
    200: { description: "The action", schema: EnvironmentNotificationResponse },
    404: { description: "No such action of environments", schema: Message },
  },
  example: { params: { org: "acme", notification_number: "1" } },
  handle: (context, { params }) => ({
    status: 200,
    body: present(context, requireRow(context, params.notification_number)),
  }),
});

export const updateEnvironmentNotification = operation({
  id: "update_environment_notification",
  method: "PUT",
  path: "/organizations/{org}/environments_notifications/{notification_number}",
  tag: "Organizations",
  summary: "Replace an action of environments by number",
  description: "It keeps its number, also under another name, which no other action may have.",
  permission: "action:write",
  audit: "action.put",
  params: NotificationPath,
  query: NoQuery,
  body: json(EnvActionPutInput),
  responses: {
    200: { description: "Replaced", schema: Ok },
    404: { description: "No such action of environments", schema: Message },
  },
  example: { params: { org: "acme", notification_number: "1" }, body: EXAMPLE },
  handle: (context, { params, body }) => replaceAction(context, requireRow(context, params.notification_number), body),
});

export const deleteEnvironmentNotification = operation({
  id: "delete_environment_notification",
  method: "DELETE",
  path: "/organizations/{org}/environments_notifications/{notification_number}",
  tag: "Organizations",
  summary: "Delete an action of environments",
  description: "The same as `DELETE /actions/{org}/{action_number}`.",
  permission: "action:write",
  audit: "action.deleted",
  params: NotificationPath,
  query: NoQuery,
  body: NO_BODY,
  responses: {
    200: { description: "Deleted", schema: Ok },
    404: { description: "No such action of environments", schema: Message },
  },
  example: { params: { org: "acme", notification_number: "1" } },
  handle: (context, { params }) => deleteActionRow(context, requireRow(context, params.notification_number)),
});
