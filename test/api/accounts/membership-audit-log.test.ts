/** The history of memberships: filters, orders and pages, for admins alone (semantics 8.5, 13.108, 13.109). */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { openMemory } from "../../../src/store/db/database.ts";
import { openStore } from "../../../src/store/index.ts";
import { MEMBERSHIP_SOURCES, membershipSearchText } from "../../../src/store/accounts/membership-audit-log.ts";
import { fresh, startServer } from "../../given.ts";
import type { TestServer } from "../../given.ts";
import { holdings } from "../../http/socket.ts";
import { osUserName } from "../../../src/clock.ts";

const test = suite("api/accounts/membership-audit-log");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type At = { org: string; key: string };
const DENIED = { message: "You don't have permission to access this resource" };
const INVALID = "Input payload validation failed";
const read = (at: At, query = "") => server.call("GET", `/membership-audit-log/${at.org}${query}`, { key: at.key });
const organizationId = (at: At): number => (server.store.organizations.find(at.org) as { id: number }).id;
const aUser = (displayName: string, name = fresh("user")) => ({
  id: server.store.users.create({ name, displayName, email: null }),
  name,
});

test("logs every change of a membership, with the display names of the time", async () => {
  const at = server.given.org();
  const [ann, bob] = [aUser("Ann Ångström"), aUser("")];
  const { organizations } = server.store;
  organizations.setRole(organizationId(at), ann, { role: "reader", changedBy: "operator" });
  organizations.setRole(organizationId(at), ann, { role: "member", changedBy: "operator" });
  organizations.setRole(organizationId(at), ann, { role: "member", changedBy: "operator" });
  server.store.users.updateProfile(ann.id, { displayName: "Ann Other", email: null });
  organizations.setRole(organizationId(at), bob, { role: "admin", changedBy: "operator" });
  assert.is(organizations.removeMember(organizationId(at), ann, { changedBy: "operator" }), true);
  assert.is(organizations.removeMember(organizationId(at), ann, { changedBy: "operator" }), false);
  const { status, body } = await read(at);
  const { events, ...counts } = body;
  assert.equal({ status, counts }, { status: 200, counts: { page: 1, per_page: 15, total_pages: 1, total_count: 5 } });
  const times = events.map(({ timestamp }: { timestamp: number }) => timestamp);
  assert.equal(
    times,
    [...times].sort((a, b) => b - a),
  );
  const script = { changed_by: "operator", source: "script" };
  assert.equal(
    events.map(({ timestamp, ...rest }: { timestamp: number }) => rest),
    [
      { event_type: "removed", user: "Ann Other", user_name: ann.name, role: null, previous_role: "member", ...script },
      { event_type: "added", user: bob.name, user_name: bob.name, role: "admin", previous_role: null, ...script },
      {
        event_type: "changed",
        user: "Ann Ångström",
        user_name: ann.name,
        role: "member",
        previous_role: "reader",
        ...script,
      },
      {
        event_type: "added",
        user: "Ann Ångström",
        user_name: ann.name,
        role: "reader",
        previous_role: null,
        ...script,
      },
      {
        event_type: "added",
        user: `${at.org}-admin`,
        user_name: `${at.org}-admin`,
        role: "admin",
        previous_role: null,
        changed_by: "test",
        source: "script",
      },
    ],
  );
});

/** Events at 100, 200, ... of one organization, among those of others. */
function history(): At {
  const at = server.given.org();
  server.db.prepare("DELETE FROM membership_events WHERE organization_id = ?").run(organizationId(at));
  const insert = server.db.prepare(
    `INSERT INTO membership_events (organization_id, timestamp, event_type, user_name, user_shown, role, previous_role,
                                    changed_by, source, search_text)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const rows = [
    ["added", "ann", "Ann Ångström", "reader", null, "operator", "script"],
    ["changed", "ann", "Ann Ångström", "member", "reader", "Carl", "app"],
    ["added", "bob", "bob", "admin", null, "carl", "invitation"],
    ["added", "dan", "Dan_100%", "snapshotter", null, "idp", "scim"],
    ["removed", "ann", "Ann Ångström", null, "member", "bob", "app"],
  ] as const;
  rows.forEach(([type, name, shown, role, previous, by, source], index) => {
    insert.run(
      organizationId(at),
      (index + 1) * 100,
      type,
      name,
      shown,
      role,
      previous,
      by,
      source,
      membershipSearchText(name, shown, by),
    );
  });
  return at;
}
/** The numbers of the events in a response. */
async function listNumbers(at: At, query: string): Promise<number[]> {
  const { status, body } = await read(at, query);
  assert.is(status, 200, JSON.stringify(body));
  if (!query.includes("page")) assert.is(body.total_count, body.events.length, query);
  return body.events.map(({ timestamp }: { timestamp: number }) => timestamp / 100);
}

test("filters alone and combined", async () => {
  const at = history();
  server.given.org();
  const table: [string, number[]][] = [
    ["", [5, 4, 3, 2, 1]],
    ["?event_type=added", [4, 3, 1]],
    ["?event_type=changed", [2]],
    ["?event_type=removed", [5]],
    ["?role=reader", [1]],
    ["?role=reader&role=admin", [3, 1]],
    ["?role=reader,admin", [3, 1]],
    ...MEMBERSHIP_SOURCES.map((source): [string, number[]] => [
      `?source=${source}`,
      { app: [5, 2], scim: [4], invitation: [3], script: [1], oidc: [] }[source],
    ]),
    ["?source=app,scim", [5, 4, 2]],
    ["?source=app&source=scim", [5, 4, 2]],
    ["?from_timestamp=200", [5, 4, 3, 2]],
    ["?to_timestamp=200", [2, 1]],
    ["?from_timestamp=200&to_timestamp=300.5", [3, 2]],
    ["?from_timestamp=-1&to_timestamp=0", []],
    ["?search=ann", [5, 2, 1]],
    ["?search=ANN", [5, 2, 1]],
    ["?search=carl", [3, 2]],
    ["?search=bob", [5, 3]],
    ["?search=", [5, 4, 3, 2, 1]],
    [`?search=${encodeURIComponent("ÅNGSTRÖM")}`, [5, 2, 1]],
    ["?search=_100%25", [4]],
    ["?search=%25", [4]],
    ["?search=nobody", []],
    ["?search=ann%0Aann", [5, 2, 1]],
    ["?search=ann&source=app&role=member&event_type=changed&from_timestamp=200&to_timestamp=200", [2]],
    ["?search=ann&source=script&role=member", []],
  ];
  for (const [query, expected] of table) assert.equal(await listNumbers(at, query), expected, query);
});

test("sorts by every column in both directions, with ties in order of time", async () => {
  const at = history();
  const orders: Record<string, number[]> = {
    when: [1, 2, 3, 4, 5],
    user: [1, 2, 5, 3, 4],
    role: [5, 3, 2, 1, 4],
    changed_by: [5, 2, 3, 4, 1],
    source: [2, 5, 3, 4, 1],
  };
  for (const [by, expected] of Object.entries(orders)) {
    assert.equal(await listNumbers(at, `?sort_by=${by}&sort_dir=asc`), expected, by);
    assert.equal(await listNumbers(at, `?sort_by=${by}&sort_dir=desc`), [...expected].reverse(), by);
    assert.equal(await listNumbers(at, `?sort_by=${by}`), [...expected].reverse(), by);
  }
  assert.equal(await listNumbers(at, "?sort_dir=asc"), [1, 2, 3, 4, 5]);
});

test("returns pages with their counts", async () => {
  const at = history();
  const page = async (query: string) => {
    const { events, ...counts } = (await read(at, query)).body;
    return [events.length, counts];
  };
  assert.equal(await page("?per_page=2"), [2, { page: 1, per_page: 2, total_pages: 3, total_count: 5 }]);
  assert.equal(await listNumbers(at, "?per_page=2&page=2"), [3, 2]);
  assert.equal(await listNumbers(at, "?per_page=2&page=3&sort_by=user&sort_dir=asc"), [4]);
  assert.equal(await page("?per_page=2&page=9"), [0, { page: 9, per_page: 2, total_pages: 3, total_count: 5 }]);
  assert.equal(await page("?per_page=100&role=admin"), [1, { page: 1, per_page: 100, total_pages: 1, total_count: 1 }]);
  assert.equal(await page("?search=nobody"), [0, { page: 1, per_page: 15, total_pages: 0, total_count: 0 }]);
});

test("refuses an invalid query, naming every mistake", async () => {
  const at = history();
  const roles = "Input should be 'admin', 'member', 'snapshotter' or 'reader' [input: owner]";
  const table: [string, Record<string, string>][] = [
    [
      "?page=0&per_page=101",
      {
        page: "Input should be greater than or equal to 1 [input: 0]",
        per_page: "Input should be less than or equal to 100 [input: 101]",
      },
    ],
    ["?per_page=0", { per_page: "Input should be greater than or equal to 1 [input: 0]" }],
    ["?page=", { page: "Input should be a valid integer [input: ]" }],
    ["?event_type=moved", { event_type: "Input should be 'added', 'changed' or 'removed' [input: moved]" }],
    ["?role=admin&role=owner", { "role.1": roles }],
    ["?source=mail", { "source.0": "Input should be 'app', 'scim', 'invitation', 'script' or 'oidc' [input: mail]" }],
    [
      "?from_timestamp=yesterday&to_timestamp=",
      {
        from_timestamp: "Input should be a valid number [input: yesterday]",
        to_timestamp: "Input should be a valid number [input: ]",
      },
    ],
    ["?sort_by=name", { sort_by: "Input should be 'when', 'user', 'role', 'changed_by' or 'source' [input: name]" }],
    ["?sort_dir=up", { sort_dir: "Input should be 'asc' or 'desc' [input: up]" }],
  ];
  for (const [query, errors] of table) {
    const { status, body } = await read(at, query);
    assert.equal({ status, body }, { status: 400, body: { message: INVALID, errors } }, query);
  }
});

test("only admins can read it, as users and as service accounts", async () => {
  const at = server.given.org({ public: true });
  const before = holdings(server).rows["membership_events"];
  assert.is((await read({ ...at, key: server.given.serviceAccount(at.org, "admin") })).status, 200);
  assert.is(holdings(server).rows["membership_events"], before, "service accounts are no members");
  const denied = [server.given.user(at.org, null), server.given.serviceAccount(server.given.org().org, "admin")];
  for (const role of ["member", "snapshotter", "reader"] as const)
    denied.push(server.given.user(at.org, role), server.given.serviceAccount(at.org, role));
  for (const key of denied) {
    const { status, body } = await read({ ...at, key });
    assert.equal({ status, body }, { status: 403, body: DENIED });
  }
  const anonymous = await server.call("GET", `/membership-audit-log/${at.org}`);
  assert.equal(
    { status: anonymous.status, body: anonymous.body },
    { status: 401, body: { message: "Authentication credentials are missing or invalid" } },
  );
});

test("a removed member loses access with the next request, and keeps other organizations", async () => {
  const [one, two] = [server.given.org(), server.given.org()];
  const key = server.given.user(one.org, "admin");
  const user = { id: (server.db.prepare("SELECT max(id) AS id FROM users").get() as { id: number }).id };
  server.store.organizations.setRole(organizationId(two), user, { role: "reader", changedBy: "test" });
  assert.is((await server.call("PUT", `/user/${one.org}`, { key })).status, 200);
  assert.is((await read({ org: one.org, key })).status, 200);
  server.store.organizations.removeMember(organizationId(one), user, { changedBy: "test" });
  const { status, body } = await read({ org: one.org, key });
  assert.equal({ status, body }, { status: 403, body: DENIED });
  assert.is((await server.call("GET", `/organizations/${one.org}`, { key })).status, 403);
  assert.equal((await server.call("GET", "/user/default-org", { key })).body, { default_org_name: "" });
  assert.is((await server.call("GET", `/organizations/${two.org}`, { key })).status, 200);
  // Losing another organization does not change the default one.
  await server.call("PUT", `/user/${two.org}`, { key });
  server.store.organizations.setRole(organizationId(one), user, { role: "reader", changedBy: "test" });
  server.store.organizations.removeMember(organizationId(one), user, { changedBy: "test" });
  assert.equal((await server.call("GET", "/user/default-org", { key })).body, { default_org_name: two.org });
});

test("logs a change of a service account's privilege with its author", async () => {
  const at = server.given.org();
  const accounts = `/service-accounts/${at.org}`;
  const patch = (key: string, name: string, body: object) => server.call("PATCH", `${accounts}/${name}`, { key, body });
  for (const [name, privilege] of [
    ["ci", "reader"],
    ["boss", "admin"],
  ])
    await server.call("POST", accounts, { key: at.key, body: { name, privilege } });
  const { body: bossKey } = await server.call("POST", `${accounts}/boss/api-keys`, {
    key: at.key,
    body: { description: "k" },
  });
  const member = server.given.user(at.org, "member");
  const before = (await read(at)).body.total_count;

  assert.is((await patch(at.key, "ci", { privilege: "member" })).status, 200);
  assert.is((await patch(at.key, "ci", { privilege: "member", description: "the same privilege" })).status, 200);
  assert.is((await patch(member, "ci", { privilege: "admin" })).status, 403);
  assert.is((await patch(at.key, "ci", { privilege: "owner" })).status, 400);
  assert.is((await patch(bossKey.key, "ci", { privilege: "snapshotter" })).status, 200);

  const { events, total_count } = (await read(at, "?per_page=2")).body;
  const change = { event_type: "changed", user: "ci", user_name: `${at.org}/ci`, source: "app" };
  assert.is(total_count, before + 2);
  assert.equal(
    events.map(({ timestamp, ...rest }: { timestamp: number }) => rest),
    [
      { ...change, role: "snapshotter", previous_role: "member", changed_by: "boss" },
      { ...change, role: "member", previous_role: "reader", changed_by: `${at.org}-admin` },
    ],
  );
  assert.ok(events[0].timestamp > events[1].timestamp);
  assert.is((await read(at, `?search=${at.org}%2FCI&event_type=changed`)).body.total_count, 2);
  assert.is((await read(at, "?search=boss")).body.total_count, 1);
});

test("names the operating system user, by number if the system has no entry", () => {
  const noEntry = (): never => {
    throw new Error("A system error occurred: uv_os_get_passwd returned ENOENT");
  };
  assert.is(
    osUserName(() => ({ username: "ada" }), 1000),
    "ada",
  );
  assert.is(
    osUserName(() => ({ username: "" }), 1000),
    "uid 1000",
  );
  assert.is(osUserName(noEntry, 10_001), "uid 10001");
  const store = openStore(openMemory(), { now: () => 1, newId: () => "id", osUser: () => "ada" });
  assert.is(store.operatorName(), "operator (ada)");
});

test.run();
