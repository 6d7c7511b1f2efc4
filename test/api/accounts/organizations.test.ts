import { once } from "node:events";
import { request } from "node:http";
import type { IncomingMessage } from "node:http";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { startServer } from "../../given.ts";
import type { TestServer } from "../../given.ts";
import { holdings } from "../../http/socket.ts";
import { entriesOf, invalid, refused } from "../administration.ts";

const test = suite("api/accounts/organizations");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

const DENIED = { message: "You don't have permission to access this resource" };

test("an organization shows name, kind, beta features and times", async () => {
  const { org, key } = server.given.org();
  const answer = await server.call("GET", `/organizations/${org}`, { key });
  assert.is(answer.status, 200);
  const { created_at, last_modified_at, ...rest } = answer.body;
  assert.equal(rest, { name: org, kind: "shared", experimental_features_enabled: true });
  assert.type(created_at, "number");
  assert.is(last_modified_at, created_at);
});

test("an unknown organization and someone else's get the same 403", async () => {
  const { org } = server.given.org();
  const stranger = server.given.user(org, null);
  for (const name of [org, "does-not-exist"]) {
    const answer = await server.call("GET", `/organizations/${name}`, { key: stranger });
    assert.is(answer.status, 403);
    assert.equal(answer.body, DENIED);
  }
});

test("a public organization is readable for every authenticated caller only", async () => {
  const { org } = server.given.org({ public: true });
  const stranger = server.given.user(org, null);
  assert.is((await server.call("GET", `/organizations/${org}`, { key: stranger })).status, 200);
  const anonymous = await server.call("GET", `/organizations/${org}`);
  assert.is(anonymous.status, 401);
  assert.equal(anonymous.body, { message: "Authentication credentials are missing or invalid" });
  assert.match(anonymous.headers.get("WWW-Authenticate") ?? "", /Bearer/);
});

test("a service account acts in its own organization only", async () => {
  const { org } = server.given.org();
  const other = server.given.org();
  const key = server.given.serviceAccount(org, "reader");
  assert.is((await server.call("GET", `/organizations/${org}`, { key })).status, 200);
  assert.is((await server.call("GET", `/organizations/${other.org}`, { key })).status, 403);
});

test("admins switch the beta features; repeating the same state changes nothing", async () => {
  const at = server.given.org({ public: true });
  const flip = (body: unknown, key = at.key) =>
    server.call("PUT", `/organizations/${at.org}/experimental_features`, { key, body });
  const read = async () => (await server.call("GET", `/organizations/${at.org}`, { key: at.key })).body;
  const audited = () =>
    server.db
      .prepare("SELECT event, detail_json FROM audit_log WHERE organization_id = ? ORDER BY id")
      .raw()
      .all(server.store.organizations.find(at.org)?.id);
  const before = await read();
  for (const enabled of [true, false, false, true, true]) {
    const answer = await flip({ experimental_features_enabled: enabled });
    assert.equal(
      {
        status: answer.status,
        body: answer.body,
        experimental_features_enabled: (await read()).experimental_features_enabled,
      },
      { status: 200, body: "OK", experimental_features_enabled: enabled },
    );
  }
  assert.equal(audited(), [
    ["organization.beta_switched", '{"controls":false}'],
    ["organization.beta_switched", '{"controls":true}'],
  ]);
  const after = await read();
  assert.equal({ ...after, last_modified_at: 0 }, { ...before, last_modified_at: 0 });
  assert.ok(after.last_modified_at > before.last_modified_at);
  assert.is(
    (await server.call("GET", `/organizations/${at.org}`, { key: server.given.user(at.org, null) })).status,
    200,
    "what else is set stays",
  );
  const bot = server.given.serviceAccount(at.org, "admin");
  assert.is((await flip({ experimental_features_enabled: true }, bot)).status, 200);
});

test("a slow change does not undo a concurrent change of another setting", async () => {
  const at = server.given.org();
  const path = `/organizations/${at.org}/experimental_features`;
  const slow = request(`${server.url}/api/v2${path}`, {
    method: "PUT",
    headers: { Authorization: `Bearer ${at.key}`, "Content-Type": "application/json", Expect: "100-continue" },
  });
  slow.flushHeaders();
  // The server reads the body only after authentication.
  await once(slow, "continue");
  assert.is(
    (await server.call("PUT", path, { key: at.key, body: { experimental_features_enabled: false } })).status,
    200,
  );
  slow.end('{"experimental_features_enabled": true}');
  const [answer] = (await once(slow, "response")) as [IncomingMessage];
  assert.is(answer.resume().statusCode, 200);
  assert.is(
    (await server.call("GET", `/organizations/${at.org}`, { key: at.key })).body.experimental_features_enabled,
    true,
  );
});

test("the switch accepts only a boolean from an admin, and a refusal changes nothing", async () => {
  const at = server.given.org();
  const path = `/organizations/${at.org}/experimental_features`;
  const others = (["member", "snapshotter", "reader", null] as const).map((role) => server.given.user(at.org, role));
  const before = holdings(server);
  for (const [body, errors] of [
    [{}, { experimental_features_enabled: "Field required" }],
    [
      { experimental_features_enabled: "false" },
      { experimental_features_enabled: "Input should be a valid boolean [input: false]" },
    ],
    [
      { experimental_features_enabled: null },
      { experimental_features_enabled: "Input should be a valid boolean [input: null]" },
    ],
    [
      { experimental_features_enabled: false, name: "x" },
      { name: "Extra inputs are not permitted [input: x]; possible keys: experimental_features_enabled" },
    ],
  ] as const) {
    const answer = await server.call("PUT", path, { key: at.key, body });
    assert.equal(
      { status: answer.status, body: answer.body },
      { status: 400, body: { message: "Input payload validation failed", errors } },
    );
  }
  for (const key of others) {
    const answer = await server.call("PUT", path, { key, body: { experimental_features_enabled: false } });
    assert.equal({ status: answer.status, body: answer.body }, { status: 403, body: DENIED });
  }
  assert.equal(holdings(server), before);
  assert.is(
    (await server.call("GET", `/organizations/${at.org}`, { key: at.key })).body.experimental_features_enabled,
    true,
  );
});

const REGO_SETTINGS = { evaluations_enabled: true, decisions_need_published_policy: false };
const CHANGED = { evaluations_enabled: false, decisions_need_published_policy: true };
/** The same in audit entries. */
const NOTED = { evaluations: true, decisions_need_published_policy: false };

test("an admin reads and changes the settings; what is absent stays, and nothing changes twice", async () => {
  const at = server.given.org();
  const path = `/organizations/${at.org}/settings`;
  const read = async () => (await server.call("GET", path, { key: at.key })).body;
  const patch = (body: unknown) => server.call("PATCH", path, { key: at.key, body });
  const stranger = server.given.user(at.org, null);
  const mayRead = async () => (await server.call("GET", `/organizations/${at.org}`, { key: stranger })).status === 200;
  assert.equal(await read(), { is_public: false, controls_enabled: true, ...REGO_SETTINGS });
  assert.not(await mayRead());
  const entries = await entriesOf(server, async () => {
    const { status, body } = await patch({ is_public: true });
    assert.equal(
      { status, body },
      { status: 200, body: { is_public: true, controls_enabled: true, ...REGO_SETTINGS } },
    );
    assert.ok(await mayRead());
    assert.equal((await patch({ controls_enabled: false })).body, {
      is_public: true,
      controls_enabled: false,
      ...REGO_SETTINGS,
    });
    assert.equal((await patch({ evaluations_enabled: false, decisions_need_published_policy: true })).body, {
      is_public: true,
      controls_enabled: false,
      ...CHANGED,
    });
  });
  const common = {
    event: "organization.updated",
    target: at.org,
    operation: "update_organization_settings",
    actor_name: `${at.org}-admin`,
  };
  assert.equal(entries, [
    { ...common, detail: { public: true, controls: true, ...NOTED } },
    { ...common, detail: { public: true, controls: false, ...NOTED } },
    {
      ...common,
      detail: { public: true, controls: false, evaluations: false, decisions_need_published_policy: true },
    },
  ]);
  assert.is((await server.call("GET", `/controls/${at.org}`, { key: at.key })).status, 403);
  const unchanged = { status: 200, body: { is_public: true, controls_enabled: false, ...CHANGED } };
  await refused(server, () => patch({ is_public: true, evaluations_enabled: false }), unchanged);
  await refused(server, () => patch({}), unchanged);
  await refused(
    server,
    () => patch({ is_public: "no" }),
    invalid({ is_public: "Input should be a valid boolean [input: no]" }),
  );
  const unknown = await patch({ description: "x" });
  assert.is(unknown.status, 400);
  for (const role of ["member", "snapshotter", "reader", null] as const) {
    const key = server.given.user(at.org, role);
    await refused(server, () => server.call("PATCH", path, { key, body: { is_public: false } }), {
      status: 403,
      body: DENIED,
    });
    assert.is((await server.call("GET", path, { key })).status, 403);
  }
  assert.equal(await read(), { is_public: true, controls_enabled: false, ...CHANGED });
});

test.run();
