/** Inbound webhooks as admins manage them: enabled once, secrets shown once, gone at once. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { startServer } from "../../given.ts";
import type { TestServer } from "../../given.ts";
import { DENIED, entriesOf, organizationId, refused } from "../administration.ts";
import type { At } from "../administration.ts";

const test = suite("api/notifications/inbound-webhook-settings");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

const list = async (at: At) => (await server.call("GET", `/inbound-webhooks/${at.org}`, { key: at.key })).body;
const put = (at: At, kind: string, body?: unknown) =>
  server.call("PUT", `/inbound-webhooks/${at.org}/${kind}`, { key: at.key, ...(body === undefined ? {} : { body }) });
const rotate = (at: At, kind: string) =>
  server.call("POST", `/inbound-webhooks/${at.org}/${kind}/rotate-secret`, { key: at.key });
const remove = (at: At, kind: string) => server.call("DELETE", `/inbound-webhooks/${at.org}/${kind}`, { key: at.key });
const inUse = (at: At, kind: "sonar" | "launch-darkly") =>
  server.store.inboundWebhooks.findEnabled(organizationId(server, at.org), kind);
const DEFAULTS = { flow_name: "key", flow_prefix: "", flow_suffix: "" };

test("creates a webhook with its account and shows the secret once; again it only changes settings", async () => {
  const at = server.given.org();
  let made: Record<string, unknown> = {};
  const entries = await entriesOf(server, async () => {
    const { status, body } = await put(at, "sonar", { flow_name: "name", flow_prefix: "sonar-" });
    assert.is(status, 201);
    made = body;
  });
  const hook = inUse(at, "sonar");
  const { secret, ...shown } = made;
  assert.equal(shown, {
    kind: "sonar",
    url: `http://assay.test/api/v2/webhooks/sonar/${hook?.public_id}`,
    service_account: "sonar-webhook",
    settings: { flow_name: "name", flow_prefix: "sonar-", flow_suffix: "" },
    created_at: hook?.created_at,
    last_received_at: null,
  });
  assert.is(secret, hook?.secret);
  assert.match(String(secret), /^[\w-]{43}$/);
  assert.equal(await list(at), [shown]);
  const settings = { from: "name", prefix: "sonar-", suffix: "" };
  const common = { operation: "put_inbound_webhook", actor_name: `${at.org}-admin` };
  assert.equal(entries, [
    {
      event: "service_account.created",
      target: "sonar-webhook",
      ...common,
      detail: { privilege: "member", for_webhook: true },
    },
    { event: "webhook.enabled", target: "sonar", ...common, detail: { settings, service_account: "sonar-webhook" } },
  ]);
  const changed = await entriesOf(server, async () => {
    const { status, body } = await put(at, "sonar");
    assert.equal({ status, body }, { status: 200, body: { ...shown, settings: DEFAULTS } });
  });
  assert.equal(changed, [
    {
      event: "webhook.updated",
      target: "sonar",
      ...common,
      detail: { settings: { from: "key", prefix: "", suffix: "" } },
    },
  ]);
  await refused(server, () => put(at, "sonar", {}), { status: 200, body: { ...shown, settings: DEFAULTS } });
  assert.is(inUse(at, "sonar")?.secret, secret);
});

test("what the service account records is accepted with the secret, and refused after it was replaced", async () => {
  const at = server.given.org();
  const { body: made } = await put(at, "launch-darkly");
  assert.equal(made.settings, {});
  const entries = await entriesOf(server, async () => {
    const { status, body } = await rotate(at, "launch-darkly");
    const { secret, ...rest } = body;
    const { secret: old, ...before } = made;
    assert.equal({ status, rest }, { status: 200, rest: before });
    assert.is.not(secret, old);
    assert.is(inUse(at, "launch-darkly")?.secret, secret);
  });
  const actor_name = `${at.org}-admin`;
  assert.equal(entries, [
    {
      event: "webhook.secret_rotated",
      target: "launch-darkly",
      operation: "rotate_inbound_webhook_secret",
      actor_name,
      detail: {},
    },
  ]);
  const account = await server.call("DELETE", `/service-accounts/${at.org}/launch-darkly-webhook`, { key: at.key });
  assert.is(account.status, 400);
  const removed = await entriesOf(server, async () => {
    const { status, body } = await remove(at, "launch-darkly");
    assert.equal({ status, body }, { status: 200, body: "OK" });
  });
  assert.equal(removed, [
    { event: "webhook.disabled", target: "launch-darkly", operation: "delete_inbound_webhook", actor_name, detail: {} },
  ]);
  assert.equal(await list(at), []);
  const path = new URL(made.url).pathname.replace("/api/v2", "");
  assert.is((await server.call("POST", path, { body: {} })).status, 404);
  // A new one has another address, and an account of its own.
  const { body: next } = await put(at, "launch-darkly");
  assert.is.not(next.url, made.url);
  assert.is(next.service_account, "launch-darkly-webhook-2");
});

test("refuses unknown kinds, settings of another kind, invalid ones, and what is not enabled", async () => {
  const at = server.given.org();
  const unknown = {
    status: 404,
    body: { message: "There are no webhooks of kind 'jenkins': use sonar or launch-darkly" },
  };
  for (const ask of [() => put(at, "jenkins"), () => rotate(at, "jenkins"), () => remove(at, "jenkins")])
    await refused(server, ask, unknown);
  const missing = { status: 404, body: { message: `Organization '${at.org}' has no sonar webhook` } };
  for (const ask of [() => rotate(at, "sonar"), () => remove(at, "sonar")]) await refused(server, ask, missing);
  await refused(server, () => put(at, "launch-darkly", { flow_name: "key" }), {
    status: 400,
    body: { message: "Only the sonar webhook has settings: remove flow_name" },
  });
  for (const body of [{ flow_name: "id" }, { flow_prefix: "a b" }, { flow_suffix: "x".repeat(101) }, { other: 1 }])
    await refused(server, async () => ({ ...(await put(at, "sonar", body)), body: null }), { status: 400, body: null });
  const own = server.given.org({ kind: "personal" });
  await refused(server, () => put(own, "sonar"), {
    status: 400,
    body: { message: "Personal organizations have no service accounts, which webhooks need" },
  });
});

test("only admins see and manage webhooks", async () => {
  const at = server.given.org();
  await put(at, "sonar");
  for (const role of ["member", "snapshotter", "reader", null] as const) {
    const as = { org: at.org, key: server.given.user(at.org, role) };
    const denied = { status: 403, body: DENIED };
    for (const ask of [() => put(as, "sonar"), () => rotate(as, "sonar"), () => remove(as, "sonar")])
      await refused(server, ask, denied);
    assert.equal(await list(as), DENIED);
  }
});

test.run();
