/**
 * The payloads of webhooks have the shapes that the OpenAPI document publishes as callbacks, down to the last field.
 */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { OUTGOING_WEBHOOKS } from "../../src/api/outgoing-webhooks.ts";
import { urlsFor } from "../../src/contract/urls.ts";
import { buildExpiryPayload } from "../../src/domain/notification/key-expiry.ts";
import type { EventFlow, SnapshotRef, NotificationEvent } from "../../src/domain/notification/event.ts";
import { ENVIRONMENT_TRIGGERS, FLOW_TRIGGERS } from "../../src/domain/notification/triggers.ts";
import { buildTestPayload } from "../../src/domain/notification/test-message.ts";
import { buildWebhookPayload } from "../../src/domain/notification/webhook.ts";
import { validate } from "../../src/http/validate.ts";

const test = suite("api/outgoing-webhooks");
const links = urlsFor("https://assay.example.com");
const AT = 1_700_000_000.75;

function problemsOf(id: string, payload: unknown): unknown {
  const webhook = OUTGOING_WEBHOOKS.find((one) => one.id === id);
  assert.ok(webhook, id);
  // As on the wire, without defaults.
  return validate(webhook.payload, JSON.parse(JSON.stringify(payload)), { mode: "response", root: "payload" });
}

test("examples match the shape of their payload", () => {
  for (const { id, example } of OUTGOING_WEBHOOKS) assert.is(problemsOf(id, example), null, id);
});

test("the payload of a test matches", () => {
  const payload = buildTestPayload({ org: "acme", action: "builds", number: 12, by: "Ada" }, AT);
  for (const id of ["env_action_test", "flow_action_test"]) assert.is(problemsOf(id, payload), null);
});

test("environment payloads match: every trigger, with and without artifact, provenance and snapshot", () => {
  const provenance = {
    flow: "f",
    state: "NON-COMPLIANT",
    fingerprint: "a".repeat(64),
    commit: "",
    commitUrl: "",
    buildUrl: "",
    artifactId: "id",
    selector: {},
  };
  const artifacts = [
    { name: "web", fingerprint: "", provenance: null },
    { name: "web", fingerprint: "a".repeat(64), provenance },
  ];
  for (const trigger of ENVIRONMENT_TRIGGERS) {
    for (const [index, compliant] of [
      [0, null],
      [7, true],
      [8, false],
    ] as const) {
      const moment: SnapshotRef = { org: "acme", environment: "prod", index, compliant };
      const notices: NotificationEvent[] = [
        { subject: "environment", trigger, at: AT, snapshot: moment, description: "x", nonCompliant: 0, failing: [] },
        ...artifacts.map(
          (artifact) =>
            ({ subject: "artifact", trigger, at: AT, snapshot: moment, artifact, description: "x" }) as const,
        ),
      ];
      for (const notice of notices)
        assert.is(
          problemsOf("environment_event", buildWebhookPayload(notice, links)),
          null,
          `${trigger} ${notice.subject}`,
        );
    }
  }
});

test("flow payloads match: every trigger, with and without trail, artifact and attestation, in every state", () => {
  for (const trigger of FLOW_TRIGGERS)
    for (const state of ["COMPLIANT", "NON-COMPLIANT", "INCOMPLETE"])
      for (const compliant of [true, false]) {
        const artifact = {
          id: "id",
          name: "web",
          fingerprint: "a".repeat(64),
          state,
          commit: "c",
          commitUrl: "",
          buildUrl: "",
          selector: {},
        };
        const attestation = { id: "id", name: "tests", type: "junit", compliant, by: "ada" };
        for (const facts of [
          { trail: { name: "t", state }, artifact: null, attestation: null },
          { trail: { name: "t", state }, artifact, attestation },
          { trail: null, artifact, attestation: null },
          { trail: null, artifact: null, attestation },
        ] satisfies Omit<EventFlow, "org" | "flow">[]) {
          const notice: NotificationEvent = {
            subject: "flow",
            trigger,
            at: AT,
            description: "x",
            org: "acme",
            flow: "build",
            ...facts,
          };
          assert.is(problemsOf("flow_event", buildWebhookPayload(notice, links)), null, JSON.stringify(notice));
        }
      }
});

test("the payload about an expiring API key matches", () => {
  const key = { id: "k-1", description: "CI", expires_at: 1_700_000_000.5, holder: "ci-bot", org: "acme" };
  assert.is(problemsOf("api_key_expiry", buildExpiryPayload(key, AT - 86_400)), null);
});

test("a payload with an unpublished field does not match", () => {
  const [first] = OUTGOING_WEBHOOKS;
  assert.equal(problemsOf("environment_event", { ...(first?.example as object), more: "x" }), {
    more:
      "Extra inputs are not permitted [input: x]" +
      "; possible keys: version, timestamp, org, environment, event_type, description, snapshot, artifact," +
      " allowlist_entry",
  });
});

test.run();
