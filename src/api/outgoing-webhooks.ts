/**
 * Payload 1.0 of the webhooks that actions and notification configs send (wire-contract 20), for the OpenAPI document.
 * All scalars are strings, and unknown members are omitted. domain/notification/ makes the payloads; a test validates
 * every kind of payload against these shapes.
 */
import { Type } from "typebox";
import { TEST_EVENT } from "../domain/notification/test-message.ts";
import { PAYLOAD_VERSION } from "../domain/notification/targets.ts";
import { ENVIRONMENT_TRIGGERS, FLOW_TRIGGERS, eventTypeOf } from "../domain/notification/triggers.ts";
import type { OutgoingMessage } from "../http/openapi/document.ts";
import { Closed, OneOf, named } from "../http/schema.ts";

const Seconds = (description: string) =>
  Type.String({ pattern: "^[0-9]+$", description: `${description}, in whole epoch seconds as text` });
const TEXT = Type.String();
const Page = Type.String({ description: "URL of the web page" });
const Api = Type.String({ description: "URL of the object in this API" });
/** States of artifacts and trails, in lowercase. */
const Status = OneOf(["compliant", "non-compliant", "incomplete"]);

/** The record of an artifact in a flow. */
const RECORD_BOUNDS = {
  status: Status,
  commit: TEXT,
  commit_url: TEXT,
  html_url: Page,
  api_url: Api,
  build_url: TEXT,
};

const HEAD = {
  version: OneOf([PAYLOAD_VERSION], { description: "Version of the payload" }),
  timestamp: Seconds("Time of the event"),
  org: Type.String({ description: "Name of the organization" }),
};
const DESCRIPTION = Type.String({ description: "The event in one readable sentence" });

const EnvironmentWebhook = named(
  "EnvironmentWebhook",
  Closed({
    ...HEAD,
    environment: Type.String({ description: "Name of the environment" }),
    event_type: OneOf(ENVIRONMENT_TRIGGERS.map(eventTypeOf), { description: "The trigger without `ON_`" }),
    description: DESCRIPTION,
    snapshot: Closed({
      index: Type.String({ pattern: "^[0-9]+$", description: "Number of the snapshot, 0 before the first" }),
      status: OneOf(["compliant", "non-compliant"]),
      html_url: Page,
      api_url: Api,
    }),
    artifact: Type.Optional(
      Closed(
        {
          name: TEXT,
          fingerprint: TEXT,
          provenance: Type.Optional(
            Closed(
              {
                flow: TEXT,
                ...RECORD_BOUNDS,
              },
              { description: "The record in the flow that built it; absent without provenance" },
            ),
          ),
        },
        { description: "Absent if the event concerns the environment as a whole" },
      ),
    ),
    allowlist_entry: Type.Optional(
      Closed(
        { id: TEXT, description: Type.String({ description: "Reason" }), expires_at: Seconds("End of the entry") },
        { description: "With `ALLOWLIST_EXPIRY` only" },
      ),
    ),
  }),
);

const FlowWebhook = named(
  "FlowWebhook",
  Closed({
    ...HEAD,
    flow: Type.String({ description: "Name of the flow" }),
    event_type: OneOf(FLOW_TRIGGERS.map(eventTypeOf), { description: "The trigger without `ON_`" }),
    description: DESCRIPTION,
    trail: Type.Optional(Closed({ name: TEXT, status: Status, html_url: Page, api_url: Api })),
    html_url: Type.Optional(Type.String({ description: "URL of the flow's web page, if there is no trail" })),
    api_url: Type.Optional(Type.String({ description: "URL of the flow in this API, if there is no trail" })),
    artifact: Type.Optional(
      Closed({
        name: TEXT,
        fingerprint: TEXT,
        ...RECORD_BOUNDS,
      }),
    ),
    attestation: Type.Optional(
      Closed({
        id: TEXT,
        name: TEXT,
        type: TEXT,
        status: OneOf(["compliant", "non-compliant"]),
        html_url: Page,
        api_url: Api,
      }),
    ),
  }),
);

const KeyExpiryWebhook = named(
  "KeyExpiryWebhook",
  Closed({
    ...HEAD,
    event_type: OneOf(["API_KEY_EXPIRY"]),
    description: DESCRIPTION,
    api_key: Closed({ id: TEXT, description: TEXT, service_account: TEXT, expires_at: Seconds("Expiry of the key") }),
  }),
);

const TestWebhook = named(
  "TestWebhook",
  Closed({
    ...HEAD,
    event_type: OneOf([TEST_EVENT]),
    description: DESCRIPTION,
    action: Closed({ name: TEXT, number: Type.String({ pattern: "^[0-9]+$" }) }),
  }),
);

const SITE = "https://assay.example.com";
const FINGERPRINT = "7b1f5c9a1d2b3e4f5061728394a5b6c7d8e9f00112233445566778899aabbccd";
const DELIVERY =
  "Messages to one target arrive in order, each at least once. Any 2xx response accepts a message; after any other " +
  "response but 410, or a timeout, the message is retried.";

/** Requests list targets, any of which may be a webhook: an expression can name only one. */
const FIRST_TARGET = "{$request.body#/targets/0/webhook}";

const TEST = {
  summary: "Receive a test message",
  description: `Sent to the WEBHOOK targets of an action on request (\`test_action\`). ${DELIVERY}`,
  payload: TestWebhook,
  example: {
    version: PAYLOAD_VERSION,
    timestamp: "1769860800",
    org: "acme",
    event_type: TEST_EVENT,
    description: "Test of action builds (number 1) of organization acme, sent by Ada Lovelace: nothing has happened",
    action: { name: "builds", number: "1" },
  },
};

export const OUTGOING_WEBHOOKS: readonly OutgoingMessage[] = [
  {
    id: "environment_event",
    operation: "create_or_update_env_action",
    url: FIRST_TARGET,
    summary: "Receive an event of an environment",
    description: `Sent to the WEBHOOK targets of environment actions. ${DELIVERY}`,
    payload: EnvironmentWebhook,
    example: {
      version: PAYLOAD_VERSION,
      timestamp: "1769860800",
      org: "acme",
      environment: "production",
      event_type: "STARTED_ARTIFACT",
      description:
        "Artifact example.com/payments:1.4.0 started running (2 instances, compliant) in environment production",
      snapshot: {
        index: "42",
        status: "compliant",
        html_url: `${SITE}/acme/environments/production/42`,
        api_url: `${SITE}/api/v2/snapshots/acme/production/42`,
      },
      artifact: { name: "example.com/payments:1.4.0", fingerprint: FINGERPRINT },
    },
  },
  {
    id: "flow_event",
    operation: "create_or_update_flow_action",
    url: FIRST_TARGET,
    summary: "Receive an event of a flow",
    description: `Sent to the WEBHOOK targets of flow actions. ${DELIVERY}`,
    payload: FlowWebhook,
    example: {
      version: PAYLOAD_VERSION,
      timestamp: "1769860800",
      org: "acme",
      flow: "payments",
      event_type: "STARTED_TRAIL",
      description: "Trail release-1.4.0 began in flow payments",
      trail: {
        name: "release-1.4.0",
        status: "incomplete",
        html_url: `${SITE}/acme/flows/payments/trails/release-1.4.0`,
        api_url: `${SITE}/api/v2/trails/acme/payments/release-1.4.0`,
      },
    },
  },
  { id: "env_action_test", operation: "create_or_update_env_action", url: FIRST_TARGET, ...TEST },
  { id: "flow_action_test", operation: "create_or_update_flow_action", url: FIRST_TARGET, ...TEST },
  {
    id: "api_key_expiry",
    operation: "put_notification_config",
    url: FIRST_TARGET,
    summary: "Receive a warning that an API key is about to expire",
    description: `Sent to the WEBHOOK targets of the notification config, 14 and 3 days before the expiry. ${DELIVERY}`,
    payload: KeyExpiryWebhook,
    example: {
      version: PAYLOAD_VERSION,
      timestamp: "1769860800",
      org: "acme",
      event_type: "API_KEY_EXPIRY",
      description:
        "The API key of service account ci-bot in organization acme (CI) expires in 3 days, on 2026-02-03 12:00 UTC",
      api_key: {
        id: "0f5c9a1d-2b3e-4f50-8172-8394a5b6",
        description: "CI",
        service_account: "ci-bot",
        expires_at: "1770120000",
      },
    },
  },
];
