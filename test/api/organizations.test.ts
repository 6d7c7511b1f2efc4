import { suite } from "uvu";
import * as assert from "uvu/assert";
import { startServer } from "../given.ts";
import type { TestServer } from "../given.ts";

const test = suite("api/organizations");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

const DENIED = { message: "You don't have permission to access this resource" };

test("an organization tells name, kind, the beta switch and its times", async () => {
  const { org, key } = server.given.org();
  const answer = await server.call("GET", `/organizations/${org}`, { key });
  assert.is(answer.status, 200);
  const { created_at, last_modified_at, ...rest } = answer.body;
  assert.equal(rest, { name: org, kind: "shared", experimental_features_enabled: true });
  assert.type(created_at, "number");
  assert.is(last_modified_at, created_at);
});

test("no such organization and somebody else's get the same 403", async () => {
  const { org } = server.given.org();
  const stranger = server.given.user(org, null);
  for (const name of [org, "does-not-exist"]) {
    const answer = await server.call("GET", `/organizations/${name}`, { key: stranger });
    assert.is(answer.status, 403);
    assert.equal(answer.body, DENIED);
  }
});

test("a public organization is readable for every authenticated caller, and for nobody without a key", async () => {
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

test.run();
