/** The secrets that sign messages to webhooks, which only the operator may see. */
import { Type } from "typebox";
import { NOTIFICATION_TYPES } from "../../domain/notification/key-expiry.ts";
import { badRequest } from "../../errors.ts";
import { NO_BODY } from "../../http/operation.ts";
import { Closed, Message, named } from "../../http/schema.ts";
import type { TargetOwner } from "../../store/notifications/notification-targets.ts";
import { changesOf } from "../changes.ts";
import { operation } from "../context.ts";
import type { ReadingContext } from "../context.ts";
import { NoQuery } from "../paths.ts";
import { OPERATOR } from "./operator.ts";

const OwnerPath = Closed({
  org: Type.String({ description: "Name of the organization" }),
  owner: Type.String({ description: `Number of an action, or ${NOTIFICATION_TYPES.join(" or ")}` }),
});
const EXAMPLE = { params: { org: "acme", owner: "1" } };

const TargetSecrets = named(
  "TargetSecrets",
  Type.Array(Closed({ webhook: Type.String({ description: "URL of the target" }), secret: Type.String() })),
);
const ANSWERS = {
  200: { description: "The secrets of the WEBHOOK targets, in their order", schema: TargetSecrets },
  404: { description: "No such action", schema: Message },
} as const;

/** @throws AppError 404 when there is no such action, 400 for any other word */
function requireOwner({ store, organization }: ReadingContext, owner: string): TargetOwner {
  const organizationId = organization.id;
  if ((NOTIFICATION_TYPES as readonly string[]).includes(owner)) return { organizationId, notificationType: owner };
  if (!/^[1-9]\d{0,14}$/.test(owner)) throw badRequest(`'${owner}' is neither a number nor a notification type`);
  return { organizationId, actionId: store.actions.require(organization, Number(owner)).id };
}

const answer = ({ store }: ReadingContext, owner: TargetOwner) => ({
  status: 200 as const,
  body: store.notificationTargets.listSecrets(owner).map(({ webhook, secret }) => ({ webhook, secret })),
});

export const listTargetSecrets = operation({
  ...OPERATOR,
  id: "list_target_secrets",
  method: "GET",
  path: "/operator/target-secrets/{org}/{owner}",
  summary: "Show the secrets that sign messages to webhooks",
  description: "Of an action or a notification type, one for each WEBHOOK target.",
  audit: null,
  params: OwnerPath,
  query: NoQuery,
  body: NO_BODY,
  responses: ANSWERS,
  example: EXAMPLE,
  handle: (context, { params }) => answer(context, requireOwner(context, params.owner)),
});

export const rotateTargetSecrets = operation({
  ...OPERATOR,
  id: "rotate_target_secrets",
  method: "POST",
  path: "/operator/target-secrets/{org}/{owner}/rotate",
  summary: "Replace the secrets that sign messages to webhooks",
  description: "A running server signs with the new ones at once; the old ones are lost.",
  audit: "action.secret_rotated",
  params: OwnerPath,
  query: NoQuery,
  body: NO_BODY,
  responses: ANSWERS,
  example: EXAMPLE,
  handle(context, { params }) {
    const owner = requireOwner(context, params.owner);
    const changes = changesOf(context);
    for (const { id } of context.store.notificationTargets.listSecrets(owner))
      changes.setTargetSecret(owner.organizationId, { id, owner: params.owner }, context.newSecret());
    return { ...answer(context, owner), unaudited: true };
  },
});
