/** The organizations of the caller, and the default one. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { startServer } from "../../given.ts";
import type { TestServer } from "../../given.ts";
import { UNAUTHENTICATED, organizationId } from "../administration.ts";

const test = suite("api/accounts/users");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

const list = (key: string, query = "") => server.call("GET", `/user/organizations${query}`, { key });
const row = (name: string, fields: object) => ({
  name,
  kind: "shared",
  is_public: false,
  is_default: false,
  ...fields,
});

test("lists the organizations of a user by name, with role and default, page by page", async () => {
  const { key } = server.given.org({ name: "beta" });
  const user = server.store.users.find("beta-admin") as { id: number };
  server.given.org({ name: "alpha", public: true });
  server.given.org({ name: "unrelated", public: true });
  server.given.org({ name: "own", kind: "personal" });
  const { organizations } = server.store;
  organizations.setRole(organizationId(server, "alpha"), user, { role: "reader", changedBy: "test" });
  organizations.setRole(organizationId(server, "own"), user, { role: "admin", changedBy: "test" });
  const rows = [
    row("alpha", { role: "reader", is_public: true }),
    row("beta", { role: "admin" }),
    row("own", { role: "admin", kind: "personal" }),
  ];
  const pagination = { total: 3, page: 1, per_page: 100, page_count: 1 };
  const { status, body } = await list(key);
  assert.equal({ status, body }, { status: 200, body: { data: rows, pagination } });
  assert.is((await server.call("PUT", "/user/alpha", { key })).status, 200);
  assert.equal((await list(key, "?per_page=1")).body, {
    data: [{ ...rows[0], is_default: true }],
    pagination: { total: 3, page: 1, per_page: 1, page_count: 3 },
  });
  assert.equal((await list(key, "?per_page=2&page=2")).body.data, [rows[2]]);
  assert.is((await list(key, "?per_page=1001")).status, 400);
});

test("a service account has the one that it belongs to, and a user without any has none", async () => {
  const { org } = server.given.org();
  const { body } = await list(server.given.serviceAccount(org, "snapshotter"));
  assert.equal(body.data, [row(org, { role: "snapshotter", is_default: true })]);
  const page = await list(server.given.serviceAccount(org, "reader"), "?page=2");
  assert.equal(page.body, { data: [], pagination: { total: 1, page: 2, per_page: 100, page_count: 1 } });
  const nobody = await list(server.given.user(org, null));
  assert.equal(nobody.body, { data: [], pagination: { total: 0, page: 1, per_page: 100, page_count: 0 } });
  const anonymous = await server.call("GET", "/user/organizations");
  assert.equal([anonymous.status, anonymous.body], [401, UNAUTHENTICATED]);
});

test.run();
