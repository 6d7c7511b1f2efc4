/**
 * Whom the server tells of what it notices by itself: one kind so far, API keys that are about to end. Every role
 * reads, admins write.
 */
import { Type } from "typebox";
import type { Static } from "typebox";
import { excerpt } from "../../domain/text/excerpt.ts";
import { NOTIFICATION_TYPES } from "../../domain/notification/key-expiry.ts";
import { normalizedTargets } from "../../domain/notification/targets.ts";
import type { Target } from "../../domain/notification/targets.ts";
import { TARGET_PATTERN } from "../../domain/network/webhook-url.ts";
import { invalid } from "../../errors.ts";
import { NO_BODY, json } from "../../http/operation.ts";
import { CheckedByHandler, Closed, Nullable, Ok, OneOf, PublishedAs, named } from "../../http/schema.ts";
import { operation } from "../context.ts";
import type { OperationContext } from "../context.ts";
import { Url } from "../../contract/shapes.ts";
import { Emails, MAX_TARGETS, PayloadVersion, Webhook, addressProblems } from "./targets.ts";
import { NoQuery } from "../paths.ts";

const ConfigPath = Closed({
  org: Type.String({ description: "Name of the organization" }),
  notification_type: OneOf(NOTIFICATION_TYPES, { description: "What the server tells of" }),
});

const TYPES = ["EMAIL", "SLACK", "WEBHOOK"] as const;
const NotificationTargetInput = Closed({
  type: OneOf(TYPES),
  webhook: Type.Optional({ ...Webhook, description: "Of SLACK and WEBHOOK: an address that begins with https://" }),
  payload_version: Type.Optional(PayloadVersion),
  emails: Type.Optional(Emails),
});

const HttpsWebhook = CheckedByHandler(
  { pattern: TARGET_PATTERN.replace("[sS]?", "[sS]"), format: "iri" },
  { ...Url, minLength: 1, description: "Address that takes a POST with JSON, over https" },
);

/** The same target as the document shows it: one shape for each type. */
const PublishedTarget = Type.Union([
  named("SlackNotificationTarget", Closed({ type: OneOf(["SLACK"]), webhook: HttpsWebhook })),
  named(
    "WebhookNotificationTarget",
    Closed({ type: OneOf(["WEBHOOK"]), webhook: HttpsWebhook, payload_version: Type.Optional(PayloadVersion) }),
  ),
  named("EmailNotificationTarget", Closed({ type: OneOf(["EMAIL"]), emails: Emails })),
]);

const NotificationConfigPutInput = named(
  "NotificationConfigPutInput",
  Closed({
    targets: Type.Array(PublishedAs(PublishedTarget, NotificationTargetInput), {
      minItems: 1,
      maxItems: MAX_TARGETS,
      description: "In place of the default recipients; all addresses become one target",
    }),
  }),
);

const NotificationTarget = named(
  "NotificationTarget",
  Closed({
    type: OneOf(TYPES),
    webhook: Type.Optional(Type.String()),
    payload_version: Type.Optional(Type.String()),
    emails: Type.Optional(Type.Array(Type.String())),
  }),
);

const NotificationConfigResponse = named(
  "NotificationConfigResponse",
  Closed({
    notification_type: OneOf(NOTIFICATION_TYPES),
    scope: Nullable(Type.String({ description: "Always null: it holds for the whole organization" })),
    targets: Type.Array(NotificationTarget, {
      description: "Empty: the default recipients, which are the admins and the member who made the key",
    }),
    detection: Type.Record(Type.String(), Type.Unknown(), { description: "Always empty" }),
    last_notified_at: Nullable(
      Type.Number({ description: "Epoch seconds of the latest message that reached one of the targets" }),
    ),
    last_failure: Nullable(
      named(
        "NotificationFailure",
        Closed({ failed_at: Type.Number({ description: "Epoch seconds" }), error: Type.String() }),
      ),
    ),
  }),
);

type Kind = (typeof NOTIFICATION_TYPES)[number];

function present({ store, organization }: OperationContext, kind: Kind): Static<typeof NotificationConfigResponse> {
  const rows = store.notificationTargets.list({ organizationId: organization.id, notificationType: kind });
  const reached = rows.flatMap(({ last_success_at }) => last_success_at ?? []);
  const failures = rows.flatMap(({ last_failure_at, last_error }) =>
    last_failure_at === null ? [] : [{ failed_at: last_failure_at, error: last_error ?? "" }],
  );
  return {
    notification_type: kind,
    scope: null,
    targets: rows.map(({ target_json }) => JSON.parse(target_json) as Static<typeof NotificationTarget>),
    detection: {},
    last_notified_at: reached.length > 0 ? reached.reduce((latest, time) => Math.max(latest, time)) : null,
    last_failure: failures.sort((one, other) => other.failed_at - one.failed_at)[0] ?? null,
  };
}

/** @throws AppError invalid with one text for each field of a target that is none. */
function readTargets(context: OperationContext, sent: Static<typeof NotificationConfigPutInput>["targets"]): Target[] {
  const problems: Record<string, string> = {};
  const targets = sent.map((target, place): Target => {
    const field = `targets.${place}`;
    const { type, webhook, emails, payload_version } = target;
    const wanted = type === "EMAIL" ? ["emails"] : ["webhook"];
    const allowed = type === "WEBHOOK" ? [...wanted, "payload_version"] : wanted;
    for (const name of wanted) if (!(name in target)) problems[`${field}.${name}`] = "Field required";
    for (const [name, value] of Object.entries(target))
      if (name !== "type" && !allowed.includes(name))
        problems[`${field}.${name}`] = `Extra inputs are not permitted [input: ${excerpt(String(value), 200)}]`;
    const address = webhook ?? "";
    const read: Target =
      type === "EMAIL"
        ? { type, emails: emails ?? [] }
        : type === "SLACK"
          ? { type, webhook: address }
          : { type, webhook: address, ...(payload_version ? { payload_version } : {}) };
    if (wanted.some((name) => !(name in target))) return read;
    if (type === "EMAIL" || /^https:\/\//i.test(address))
      Object.assign(problems, addressProblems(context, read, field));
    else problems[`${field}.webhook`] = `The URL must begin with https:// [input: ${excerpt(address, 200)}]`;
    return read;
  });
  if (Object.keys(problems).length > 0) throw invalid(problems);
  return normalizedTargets(targets);
}

export const getNotificationConfig = operation({
  id: "get_notification_config",
  method: "GET",
  path: "/notification-config/{org}/{notification_type}",
  tag: "Notification Config",
  summary: "Read whom the server tells",
  description: "Nothing configured: no targets, and the default recipients are told.",
  permission: "notification_config:read",
  audit: null,
  params: ConfigPath,
  query: NoQuery,
  body: NO_BODY,
  responses: { 200: { description: "The recipients", schema: NotificationConfigResponse } },
  example: { params: { org: "acme", notification_type: "api_key_expiry" } },
  handle: (context, { params }) => ({ status: 200, body: present(context, params.notification_type) }),
});

export const putNotificationConfig = operation({
  id: "put_notification_config",
  method: "PUT",
  path: "/notification-config/{org}/{notification_type}",
  tag: "Notification Config",
  summary: "Replace whom the server tells",
  description:
    "The targets replace the default recipients: 14 and 3 days before a key of a service account ends, each of them is told once. Addresses of WEBHOOK and SLACK begin with `https://`. Hosts and the domains of e-mail addresses are kept in lower case, a slash at the end goes, and all e-mail addresses become one target. Personal keys are told of to their owner only.",
  permission: "notification_config:write",
  audit: "notification_config.put",
  params: ConfigPath,
  query: NoQuery,
  body: json(NotificationConfigPutInput),
  responses: { 201: { description: "Replaced; this is how it is now", schema: NotificationConfigResponse } },
  example: {
    params: { org: "acme", notification_type: "api_key_expiry" },
    body: {
      targets: [
        { type: "EMAIL", emails: ["platform@example.com"] },
        { type: "WEBHOOK", webhook: "https://hooks.example.com/keys", payload_version: "1.0" },
      ],
    },
  },
  handle(context, { params, body }) {
    const { store, organization, note, newSecret } = context;
    const owner = { organizationId: organization.id, notificationType: params.notification_type };
    const targets = readTargets(context, body.targets).map((target) => ({ type: target.type, target }));
    const changed = store.notificationTargets.replace(owner, targets, newSecret);
    note({ notification_type: params.notification_type, changed, targets: targets.map(({ type }) => type) });
    return { status: 201, body: present(context, params.notification_type) };
  },
});

export const deleteNotificationConfig = operation({
  id: "delete_notification_config",
  method: "DELETE",
  path: "/notification-config/{org}/{notification_type}",
  tag: "Notification Config",
  summary: "Go back to the default recipients",
  description: "Removes the configured targets. Where nothing is configured, nothing changes.",
  permission: "notification_config:write",
  audit: "notification_config.deleted",
  params: ConfigPath,
  query: NoQuery,
  body: NO_BODY,
  responses: { 200: { description: "The default recipients are told, as before anything was configured", schema: Ok } },
  example: { params: { org: "acme", notification_type: "api_key_expiry" } },
  handle({ store, organization, note }, { params }) {
    const removed = store.notificationTargets.removeAll({
      organizationId: organization.id,
      notificationType: params.notification_type,
    });
    note({ notification_type: params.notification_type, removed });
    return { status: 200, body: "OK" };
  },
});
