/**
 * The messages of an action: testing whether its targets receive them, what became of each, and sending one again.
 *
 * Errors are shown in the words that an organization may read. What names addresses or quotes responses is for the
 * operator (`assay deliveries show`): otherwise messages were a way to explore the operator's network.
 */
import { Type } from "typebox";
import { deliverySubject, readDeliverySubject } from "../../domain/notification/delivery-subject.ts";
import { buildTestPayload, composeTestMessage, TEST_EVENT } from "../../domain/notification/test-message.ts";
import { renderForTarget } from "../../domain/notification/render.ts";
import { TARGET_TYPES, describeTarget, isTarget } from "../../domain/notification/targets.ts";
import type { Target } from "../../domain/notification/targets.ts";
import { readStoredJsonOrNull } from "../../domain/stored-json.ts";
import { badRequest, notFound } from "../../errors.ts";
import { NO_BODY } from "../../http/operation.ts";
import { Closed, Message, Nullable, OneOf, named } from "../../http/schema.ts";
import { presentEach, UNREADABLE } from "../../contract/placeholders.ts";
import type { ActionRow } from "../../store/notifications/actions.ts";
import type { ActionDeliveryRow } from "../../store/notifications/delivery-log.ts";
import { queueOf } from "../../store/notifications/notification-targets.ts";
import { changesOf } from "../changes.ts";
import { operation, largeRead } from "../context.ts";
import type { ReadingContext } from "../context.ts";
import { parseCursor, toCursor } from "../paging.ts";
import { NoQuery, OrgPath } from "../paths.ts";
import { ACTION_NOT_FOUND } from "./action-records.ts";

const ActionPath = Closed({
  org: OrgPath.properties.org,
  action_number: Type.Integer({ description: "Number of the action in the organization" }),
});
const DeliveryPath = Closed({
  ...ActionPath.properties,
  delivery_id: Type.String({ description: "Id of the message, which its receiver gets as `X-Assay-Delivery`" }),
});

const STATES = ["waiting", "delivered", "dead"] as const;
const DEFAULT_PER_PAGE = 20;

const ActionDelivery = named(
  "ActionDelivery",
  Closed({
    id: Type.String({ description: "A webhook gets it as `X-Assay-Delivery`" }),
    subject: Type.String({
      description:
        "Name of the action, the event, and where it happened: the environment with its snapshot, or the flow with " +
        "its trail. Messages of version 0.1 do not have the place",
    }),
    is_test: Type.Boolean({ description: "Whether it only tests the target" }),
    type: OneOf(TARGET_TYPES),
    to: Type.String({ description: "E-mail addresses, or the origin of the URL, whose path works as a password" }),
    state: OneOf(STATES, {
      description: "`dead`: refused, or not delivered within ten attempts or a day; retried on request only",
    }),
    attempts: Type.Integer({ description: "Since it was created or last retried" }),
    created_at: Type.Number({ description: "Epoch seconds" }),
    last_attempt_at: Nullable(Type.Number({ description: "Epoch seconds" })),
    next_attempt_at: Nullable(
      Type.Number({ description: "For a waiting message, or later: after those before it to the same target" }),
    ),
    finished_at: Nullable(Type.Number({ description: "When it was delivered or given up" })),
    last_status: Nullable(Type.Integer({ description: "HTTP or SMTP status of the latest attempt, if answered" })),
    last_error: Nullable(
      Type.String({ description: "Of the latest attempt; known for the latest failure of a target" }),
    ),
  }),
);
const ActionDeliveryPage = named(
  "ActionDeliveryPage",
  Closed({
    deliveries: Type.Array(ActionDelivery),
    next: Nullable(Type.String({ description: "Value of `after` for the next page; null on the last one" })),
  }),
);
const ActionTestResponse = named(
  "ActionTestResponse",
  Closed({ deliveries: Type.Array(ActionDelivery, { description: "A message for each target" }) }),
);

const subjectOf = (action: ActionRow): string => deliverySubject(action.name, TEST_EVENT, []);

const presentWithout = (row: ActionDeliveryRow, to: string) => ({
  id: row.public_id,
  subject: row.subject,
  is_test: readDeliverySubject(row.subject).event === TEST_EVENT,
  type: row.type,
  to,
  state: row.state,
  attempts: row.attempts,
  created_at: row.created_at,
  last_attempt_at: row.attempted_at,
  next_attempt_at: row.state === "waiting" ? row.due_at : null,
  finished_at: row.finished_at,
  last_status: row.status,
  last_error: row.public_error,
});
const present = (row: ActionDeliveryRow) => presentWithout(row, describeTarget(row.target_json));
const presentAll = (rows: readonly ActionDeliveryRow[]) =>
  presentEach(rows, present, (row) => presentWithout(row, UNREADABLE));

const EXAMPLE_PATH = { org: "acme", action_number: "1" };

export const testAction = operation({
  id: "test_action",
  origin: "assay",
  method: "POST",
  path: "/actions/{org}/{action_number}/test",
  tag: "Actions",
  summary: "Send a test message to the targets of an action",
  description:
    "The messages are queued behind others to the same targets, and delivered and logged as they are; they say that " +
    `they are a test, webhooks with the \`event_type\` \`${TEST_EVENT}\`. Refused while an earlier test is waiting.`,
  permission: "action:write",
  audit: "action.tested",
  params: ActionPath,
  query: NoQuery,
  body: NO_BODY,
  responses: { 201: { description: "Queued", schema: ActionTestResponse }, 404: ACTION_NOT_FOUND },
  example: { params: EXAMPLE_PATH },
  handle(context, { params }) {
    const { store, organization, note } = context;
    const action = store.actions.require(organization, params.action_number);
    const targets = listReachable(context, action);
    if (targets.length === 0) throw badRequest(`Action '${action.name}' has no target that messages can be sent to`);
    const subject = subjectOf(action);
    if (targets.some(({ id }) => store.outbox.isWaiting(queueOf(id), subject)))
      throw badRequest(`An earlier test of action '${action.name}' is still waiting: see its deliveries`);
    const ids = targets.map(({ id, target }) =>
      store.outbox.add({
        organizationId: organization.id,
        queue: queueOf(id),
        targetId: id,
        subject,
        message: renderTest(context, action, target),
      }),
    );
    note({ action: action.name, number: action.number, deliveries: ids });
    const rows = ids.flatMap((id) => store.deliveryLog.findOfAction(action, id) ?? []);
    return { status: 201, body: { deliveries: rows.map(present) } };
  },
});

/** The targets of an action of the types that messages are sent to. A damaged one receives nothing else either. */
function listReachable({ store }: ReadingContext, action: ActionRow): { id: number; target: Target }[] {
  return store.actions.listTargets(action).flatMap(({ id, type, target_json }) => {
    const target = type === null ? null : readStoredJsonOrNull(target_json, isTarget);
    return target === null ? [] : [{ id, target }];
  });
}

function renderTest({ organization, principal, now, urls }: ReadingContext, action: ActionRow, target: Target) {
  const test = { org: organization.name, action: action.name, number: action.number, by: principal.displayName };
  return renderForTarget(
    target,
    () => buildTestPayload(test, now()),
    () => composeTestMessage(test, urls.root),
  );
}

export const listActionDeliveries = largeRead({
  id: "list_action_deliveries",
  origin: "assay",
  method: "GET",
  path: "/actions/{org}/{action_number}/deliveries",
  tag: "Actions",
  summary: "List the messages of an action",
  description:
    "Newest first, in pages: request the next one with `after`. Delivered messages are kept for 30 days, dead ones " +
    "until they are retried or the operator deletes them. Those of removed targets are not listed.",
  // Every member, but no outsider of a public organization, who may not see the targets either.
  permission: "notification_config:read",
  audit: null,
  params: ActionPath,
  query: Closed({
    state: Type.Optional(OneOf(STATES)),
    after: Type.Optional(Type.String({ maxLength: 100, description: "`next` of the previous page" })),
    per_page: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, default: DEFAULT_PER_PAGE })),
  }),
  body: NO_BODY,
  responses: { 200: { description: "One page", schema: ActionDeliveryPage }, 404: ACTION_NOT_FOUND },
  example: { params: EXAMPLE_PATH, query: { state: "dead" } },
  handle({ store, organization }, { params, query }) {
    const action = store.actions.require(organization, params.action_number);
    const size = query.per_page ?? DEFAULT_PER_PAGE;
    const rows = store.deliveryLog.listByTargets(store.actions.listTargets(action), {
      state: query.state ?? null,
      before: query.after === undefined ? null : parseCursor("after", query.after),
      limit: size + 1,
    });
    const page = rows.slice(0, size);
    const last = page.at(-1);
    const next = rows.length > size && last ? toCursor(last.id) : null;
    return { status: 200, body: { deliveries: presentAll(page), next } };
  },
});

export const retryActionDelivery = operation({
  id: "retry_action_delivery",
  origin: "assay",
  method: "POST",
  path: "/actions/{org}/{action_number}/deliveries/{delivery_id}/retry",
  tag: "Actions",
  summary: "Send a message of an action again",
  description:
    "A dead message is sent again, a waiting one without waiting for its next attempt. It gets the full number of " +
    "attempts again and keeps its place among the messages to its target. A delivered message is not sent twice.",
  permission: "action:write",
  audit: "delivery.retried",
  params: DeliveryPath,
  query: NoQuery,
  body: NO_BODY,
  responses: {
    200: { description: "Queued", schema: ActionDelivery },
    404: { description: "No such action, or no such message of it", schema: Message },
  },
  example: { params: { ...EXAMPLE_PATH, delivery_id: "019a2b3c-4d5e-7f60-8a9b-0c1d2e3f" } },
  handle(context, { params }) {
    const { store, organization } = context;
    const action = store.actions.require(organization, params.action_number);
    const row = store.deliveryLog.findOfAction(action, params.delivery_id);
    if (!row) throw notFound(`Action '${action.name}' has no message '${params.delivery_id}'`);
    if (!changesOf(context).retryDelivery({ ...row, organization_id: organization.id }))
      throw badRequest(`Message '${row.public_id}' was delivered: only dead or waiting messages can be sent again`);
    const retried = store.deliveryLog.findOfAction(action, row.public_id);
    return { status: 200, body: present(retried ?? row), unaudited: true };
  },
});
