/**
 * The inbound webhooks of an organization, for admins: which products report to it. The webhooks themselves are
 * accepted by inbound-webhooks.ts. The address of a webhook is shown to admins at any time, its secret only when it is
 * made.
 */
import { Type } from "typebox";
import type { Static } from "typebox";
import { SONAR_NAME_AFFIX } from "../../domain/inbound-webhook/sonar.ts";
import type { SonarFlowNames } from "../../domain/inbound-webhook/sonar.ts";
import { isObject, readStoredJsonOrNull } from "../../domain/stored-json.ts";
import { badRequest, notFound } from "../../errors.ts";
import { NO_BODY, optionalJson } from "../../http/operation.ts";
import { CheckedByHandler, Closed, Matching, Message, Nullable, Ok, OneOf, named } from "../../http/schema.ts";
import { WEBHOOK_KINDS } from "../../store/notifications/inbound-webhooks.ts";
import type { InboundWebhookRow, WebhookKind } from "../../store/notifications/inbound-webhooks.ts";
import { UNREADABLE } from "../../contract/placeholders.ts";
import { changesOf } from "../changes.ts";
import { operation, largeRead } from "../context.ts";
import type { LargeReadContext } from "../context.ts";
import { NoQuery, OrgPath } from "../paths.ts";

const KindPath = Closed({
  org: OrgPath.properties.org,
  webhook_kind: CheckedByHandler(
    { pattern: `^(?:${WEBHOOK_KINDS.join("|")})$` },
    Type.String({ description: "`sonar` or `launch-darkly`" }),
  ),
});

const affix = (what: string) =>
  Type.Optional(
    Matching(SONAR_NAME_AFFIX, { maxLength: 100, default: "", description: `${what} of such a flow name` }),
  );
const SETTINGS = {
  flow_name: Type.Optional(
    OneOf(["key", "name"], {
      default: "key",
      description: "Name flows of scans that name none after the key or the name of the project",
    }),
  ),
  flow_prefix: affix("Beginning"),
  flow_suffix: affix("End"),
};
const InboundWebhookInput = named(
  "InboundWebhookInput",
  Closed(SETTINGS, { description: "Of SonarQube webhooks only; others take an empty object, or no body" }),
);

const FIELDS = {
  kind: OneOf(WEBHOOK_KINDS),
  url: Type.String({ description: "Address to enter in the other product" }),
  service_account: Nullable(Type.String({ description: "Service account that records what arrives" })),
  settings: Type.Record(Type.String(), Type.String(), {
    description: "`flow_name`, `flow_prefix` and `flow_suffix` of a SonarQube webhook",
  }),
  created_at: Type.Number({ description: "Epoch seconds" }),
  last_received_at: Nullable(Type.Number({ description: "Latest accepted call in epoch seconds" })),
};
const InboundWebhookResponse = named("InboundWebhookResponse", Closed(FIELDS));
const InboundWebhookSecretResponse = named(
  "InboundWebhookSecretResponse",
  Closed({ ...FIELDS, secret: Type.String({ description: "Signs the calls; it is not shown again" }) }),
);

function presentSettings({ kind, settings_json }: InboundWebhookRow): Record<string, string> {
  const settings = readStoredJsonOrNull(settings_json, isObject);
  if (settings === null) return { unreadable: UNREADABLE };
  if (kind !== "sonar") return {};
  const { from, prefix, suffix } = settings;
  return { flow_name: String(from), flow_prefix: String(prefix), flow_suffix: String(suffix) };
}

function present({ store, urls }: LargeReadContext, row: InboundWebhookRow): Static<typeof InboundWebhookResponse> {
  const { kind, public_id, service_account_id, created_at, last_received_at } = row;
  return {
    kind,
    url: `${urls.apiRoot}/webhooks/${kind}/${public_id}`,
    service_account: service_account_id === null ? null : store.serviceAccounts.get(service_account_id).name,
    settings: presentSettings(row),
    created_at,
    last_received_at,
  };
}

/** @throws AppError 404 */
function requireKind(word: string): WebhookKind {
  const kind = WEBHOOK_KINDS.find((one) => one === word);
  if (!kind) throw notFound(`There are no webhooks of kind '${word}': use ${WEBHOOK_KINDS.join(" or ")}`);
  return kind;
}

function requireEnabled({ store, organization }: LargeReadContext, word: string): InboundWebhookRow {
  const hook = store.inboundWebhooks.findEnabled(organization.id, requireKind(word));
  if (!hook) throw notFound(`Organization '${organization.name}' has no ${word} webhook`);
  return hook;
}

/** The settings to store. @throws AppError 400 for fields that the kind does not have */
function settingsOf(
  kind: WebhookKind,
  { flow_name, flow_prefix, flow_suffix }: Static<typeof InboundWebhookInput>,
  sent: ReadonlySet<string>,
): SonarFlowNames | Record<string, never> {
  if (kind === "sonar") return { from: flow_name ?? "key", prefix: flow_prefix ?? "", suffix: flow_suffix ?? "" };
  if (sent.size > 0) throw badRequest(`Only the sonar webhook has settings: remove ${[...sent].join(", ")}`);
  return {};
}

const EXAMPLE_PATH = { org: "acme", webhook_kind: "sonar" };
const NO_KIND = { description: "No such kind", schema: Message };
const NO_WEBHOOK = { description: "No such webhook", schema: Message };

export const listInboundWebhooks = largeRead({
  id: "list_inbound_webhooks",
  origin: "assay",
  method: "GET",
  path: "/inbound-webhooks/{org}",
  tag: "Webhooks",
  summary: "List the webhooks that an organization accepts",
  description: "At most one of each kind, without secrets. Disabled ones are not listed.",
  permission: "org:settings",
  audit: null,
  params: OrgPath,
  query: NoQuery,
  body: NO_BODY,
  responses: { 200: { description: "The webhooks", schema: Type.Array(InboundWebhookResponse) } },
  example: { params: { org: "acme" } },
  handle(context) {
    const { store, organization } = context;
    const hooks = WEBHOOK_KINDS.flatMap((kind) => store.inboundWebhooks.findEnabled(organization.id, kind) ?? []);
    return { status: 200, body: hooks.map((hook) => present(context, hook)) };
  },
});

export const putInboundWebhook = operation({
  id: "put_inbound_webhook",
  origin: "assay",
  method: "PUT",
  path: "/inbound-webhooks/{org}/{webhook_kind}",
  tag: "Webhooks",
  summary: "Accept webhooks of another product, or change how",
  description:
    "Creates the webhook, with a service account that records what arrives. The response then contains the secret, " +
    "which is never shown again. Repeating the request replaces the settings, and keeps address and secret. Personal " +
    "organizations have no webhooks.",
  permission: "org:settings",
  audit: "webhook.enabled",
  params: KindPath,
  query: NoQuery,
  body: optionalJson(InboundWebhookInput),
  responses: {
    200: { description: "Its settings are as requested, changed or not", schema: InboundWebhookResponse },
    201: { description: "Created", schema: InboundWebhookSecretResponse },
    404: NO_KIND,
  },
  example: { params: EXAMPLE_PATH, body: { flow_name: "name", flow_prefix: "sonar-" } },
  handle(context, { params, body, sentFields }) {
    const { store, organization, newSecret } = context;
    const kind = requireKind(params.webhook_kind);
    const settings = settingsOf(kind, body ?? {}, sentFields);
    if (organization.kind === "personal")
      throw badRequest("Personal organizations have no service accounts, which webhooks need");
    const changes = changesOf(context);
    const known = store.inboundWebhooks.findEnabled(organization.id, kind);
    if (known) {
      if (known.settings_json !== JSON.stringify(settings)) changes.configureWebhook(organization.id, known, settings);
      const changed = { ...known, settings_json: JSON.stringify(settings) };
      return { status: 200, body: present(context, changed), unaudited: true };
    }
    const hook = changes.createWebhook(organization.id, {
      kind,
      settings,
      publicId: newSecret(),
      secret: newSecret(),
    });
    return { status: 201, body: { ...present(context, hook), secret: hook.secret }, unaudited: true };
  },
});

export const rotateInboundWebhookSecret = operation({
  id: "rotate_inbound_webhook_secret",
  origin: "assay",
  method: "POST",
  path: "/inbound-webhooks/{org}/{webhook_kind}/rotate-secret",
  tag: "Webhooks",
  summary: "Replace the secret of a webhook",
  description: "The old secret is refused at once: enter the new one in the other product right away.",
  permission: "org:settings",
  audit: "webhook.secret_rotated",
  params: KindPath,
  query: NoQuery,
  body: NO_BODY,
  responses: { 200: { description: "Replaced", schema: InboundWebhookSecretResponse }, 404: NO_WEBHOOK },
  example: { params: EXAMPLE_PATH },
  handle(context, { params }) {
    const hook = requireEnabled(context, params.webhook_kind);
    const secret = context.newSecret();
    changesOf(context).setWebhookSecret(context.organization.id, hook, secret);
    return { status: 200, body: { ...present(context, hook), secret }, unaudited: true };
  },
});

export const deleteInboundWebhook = operation({
  id: "delete_inbound_webhook",
  origin: "assay",
  method: "DELETE",
  path: "/inbound-webhooks/{org}/{webhook_kind}",
  tag: "Webhooks",
  summary: "Stop accepting the webhooks of another product",
  description:
    "The address becomes invalid at once and for good. What was recorded stays, and so does the service account, " +
    "which can then be deleted.",
  permission: "org:settings",
  audit: "webhook.disabled",
  params: KindPath,
  query: NoQuery,
  body: NO_BODY,
  responses: { 200: { description: "Disabled", schema: Ok }, 404: NO_WEBHOOK },
  example: { params: EXAMPLE_PATH },
  handle(context, { params }) {
    const hook = requireEnabled(context, params.webhook_kind);
    changesOf(context).disableWebhook(context.organization.id, hook);
    return { status: 200, body: "OK", unaudited: true };
  },
});
