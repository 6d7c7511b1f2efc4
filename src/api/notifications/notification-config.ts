/**
 * Recipients of notifications that the server sends on its own. The only type so far warns of API keys that expire
 * soon. Every role can read them, admins can change them.
 */
import { Type } from "typebox";
import type { Static } from "typebox";
import { NOTIFICATION_TYPES } from "../../domain/notification/key-expiry.ts";
import { normalizeTargets } from "../../domain/notification/targets.ts";
import type { Target } from "../../domain/notification/targets.ts";
import { TARGET_PATTERN } from "../../domain/network/webhook-url.ts";
import { hasMembers, readStoredJson } from "../../domain/stored-json.ts";
import { invalid } from "../../errors.ts";
import type { FieldErrors } from "../../errors.ts";
import { NO_BODY, json } from "../../http/operation.ts";
import { CheckedByHandler, Closed, ExactlyOne, Nullable, Ok, OneOf, PublishedAs, named } from "../../http/schema.ts";
import { operation, largeRead } from "../context.ts";
import type { ReadingContext, LargeReadContext } from "../context.ts";
import { Url } from "../../contract/shapes.ts";
import { Emails, MAX_TARGETS, PayloadVersion, Webhook, findAddressProblems, inputText } from "./targets.ts";
import { NoQuery } from "../paths.ts";

const ConfigPath = Closed({
  org: Type.String({ description: "Name of the organization" }),
  notification_type: OneOf(NOTIFICATION_TYPES, { description: "Type of the notification" }),
});

const TYPES = ["EMAIL", "SLACK", "WEBHOOK"] as const;
const NotificationTargetInput = Closed({
  type: OneOf(TYPES),
  webhook: Type.Optional({ ...Webhook, description: "For SLACK and WEBHOOK: a URL that begins with https://" }),
  payload_version: Type.Optional(PayloadVersion),
  emails: Type.Optional(Emails),
});

const HttpsWebhook = CheckedByHandler(
  { pattern: TARGET_PATTERN.replace("[sS]?", "[sS]"), format: "iri" },
  { ...Url, minLength: 1, description: "HTTPS URL that accepts a POST with JSON" },
);

/** The same target as the OpenAPI document shows it: one shape per type. */
const PublishedTarget = named(
  "NotificationConfigTarget",
  ExactlyOne(
    [
      named("SlackNotificationTarget", Closed({ type: OneOf(["SLACK"]), webhook: HttpsWebhook })),
      named(
        "WebhookNotificationTarget",
        Closed({ type: OneOf(["WEBHOOK"]), webhook: HttpsWebhook, payload_version: Type.Optional(PayloadVersion) }),
      ),
      named("EmailNotificationTarget", Closed({ type: OneOf(["EMAIL"]), emails: Emails })),
    ],
    { by: "type" },
  ),
);

const NotificationConfigPutInput = named(
  "NotificationConfigPutInput",
  Closed({
    targets: Type.Array(PublishedAs(PublishedTarget, NotificationTargetInput), {
      minItems: 1,
      maxItems: MAX_TARGETS,
      description: "Replace the default recipients; all e-mail addresses become one target",
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
    scope: Nullable(Type.String({ description: "Always null: applies to the whole organization" })),
    targets: Type.Array(NotificationTarget, {
      description: "Empty: the default recipients, which are the admins and the member who created the key",
    }),
    detection: Type.Record(Type.String(), Type.Unknown(), { description: "Always empty" }),
    last_notified_at: Nullable(
      Type.Number({ description: "Epoch seconds of the latest message delivered to any of the targets" }),
    ),
    last_failure: Nullable(
      named(
        "NotificationFailure",
        Closed({ failed_at: Type.Number({ description: "Epoch seconds" }), error: Type.String() }),
      ),
    ),
  }),
);

type NotificationType = (typeof NOTIFICATION_TYPES)[number];

const isTarget = hasMembers<Static<typeof NotificationTarget>>("type");

function present(
  { store, organization }: LargeReadContext,
  type: NotificationType,
): Static<typeof NotificationConfigResponse> {
  const rows = store.notificationTargets.list({ organizationId: organization.id, notificationType: type });
  const deliveredAt = rows.flatMap(({ last_success_at }) => last_success_at ?? []);
  const failures = rows.flatMap(({ last_failure_at, last_error }) =>
    last_failure_at === null ? [] : [{ failed_at: last_failure_at, error: last_error ?? "" }],
  );
  return {
    notification_type: type,
    scope: null,
    targets: rows.map(({ target_json }) => readStoredJson(target_json, isTarget)),
    detection: {},
    last_notified_at: deliveredAt.length > 0 ? deliveredAt.reduce((latest, time) => Math.max(latest, time)) : null,
    last_failure: failures.sort((a, b) => b.failed_at - a.failed_at)[0] ?? null,
  };
}

type SentTarget = Static<typeof NotificationTargetInput>;

/** @throws AppError invalid, with a text for each invalid field, such as `targets.0.webhook` */
function readTargets(context: ReadingContext, sent: readonly SentTarget[]): Target[] {
  const problems: Record<string, string> = {};
  const targets = sent.map((target, index): Target => {
    const field = `targets.${index}`;
    Object.assign(problems, findShapeProblems(target, field));
    const read = toTarget(target);
    // Without an address, it is reported as missing only.
    if (requiredField(target) in target)
      Object.assign(problems, findHttpsProblems(read, field) ?? findAddressProblems(context, read, field));
    return read;
  });
  if (Object.keys(problems).length > 0) throw invalid(problems);
  return normalizeTargets(targets);
}

const requiredField = ({ type }: SentTarget): "emails" | "webhook" => (type === "EMAIL" ? "emails" : "webhook");

/** Fields that are missing, and fields that the type does not have. */
function findShapeProblems(target: SentTarget, field: string): FieldErrors {
  const problems: Record<string, string> = {};
  const required = requiredField(target);
  const allowed = ["type", required, ...(target.type === "WEBHOOK" ? ["payload_version"] : [])];
  if (!(required in target)) problems[`${field}.${required}`] = "Field required";
  for (const [name, value] of Object.entries(target))
    if (!allowed.includes(name))
      problems[`${field}.${name}`] = `Extra inputs are not permitted ${inputText(String(value))}`;
  return problems;
}

function toTarget({ type, webhook = "", emails = [], payload_version }: SentTarget): Target {
  if (type === "EMAIL") return { type, emails };
  if (type === "SLACK") return { type, webhook };
  return { type, webhook, ...(payload_version ? { payload_version } : {}) };
}

/** null for an e-mail target and for an https URL. */
function findHttpsProblems(target: Target, field: string): FieldErrors | null {
  if (target.type === "EMAIL" || /^https:\/\//i.test(target.webhook)) return null;
  return { [`${field}.webhook`]: `The URL must begin with https:// ${inputText(target.webhook)}` };
}

export const getNotificationConfig = largeRead({
  id: "get_notification_config",
  method: "GET",
  path: "/notification-config/{org}/{notification_type}",
  tag: "Notification Config",
  summary: "Read the recipients of a notification type",
  description: "Without a configuration, `targets` is empty and messages go to the default recipients.",
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
  summary: "Replace the recipients of a notification type",
  description:
    "The targets replace the default recipients. Each gets one message 14 days and one 3 days before an API key of a " +
    "service account expires. URLs of WEBHOOK and SLACK targets begin with `https://`. Host names and the domains of " +
    "e-mail addresses are stored in lower case, a trailing slash is removed, and all e-mail addresses become one " +
    "target. Warnings about personal keys go to their owners only.",
  permission: "notification_config:write",
  audit: "notification_config.put",
  params: ConfigPath,
  query: NoQuery,
  body: json(NotificationConfigPutInput),
  responses: { 201: { description: "The new configuration", schema: NotificationConfigResponse } },
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
  summary: "Restore the default recipients",
  description: "Removes the configured targets. Without a configuration, nothing changes.",
  permission: "notification_config:write",
  audit: "notification_config.deleted",
  params: ConfigPath,
  query: NoQuery,
  body: NO_BODY,
  responses: { 200: { description: "Messages go to the default recipients again", schema: Ok } },
  example: { params: { org: "acme", notification_type: "api_key_expiry" } },
  handle({ store, organization, note }, { params }) {
    const removed = store.notificationTargets.deleteAll({
      organizationId: organization.id,
      notificationType: params.notification_type,
    });
    note({ notification_type: params.notification_type, removed });
    return { status: 200, body: "OK" };
  },
});
