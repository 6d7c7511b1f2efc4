/** Saved views: whose they are, what they may contain, and that every refusal leaves nothing behind. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { MAX_VIEWS, MAX_VIEW_NAME_CHARS } from "../../../src/api/accounts/views.ts";
import { LIST_NAMES, LIST_PAGES } from "../../../src/api/list-pages.ts";
import { startServer } from "../../given.ts";
import type { Answer, TestServer } from "../../given.ts";
import { DENIED, entriesOf, invalid, organizationId, refused } from "../administration.ts";
import type { At } from "../administration.ts";

const test = suite("api/accounts/views");
let server: TestServer;
let at: At;
test.before.each(async () => {
  server = await startServer();
  at = server.given.org({ name: "acme" });
});
test.after.each(() => server.stop());

const FAILING = { page: "artifacts", parameters: { state: "NON-COMPLIANT" } };
type Wish = { name?: string; list?: unknown; for_everyone?: boolean };
const wish = ({ name = "Failing", list = FAILING, ...more }: Wish = {}) => ({ name, list, ...more });
const save = (key: string, body: Wish | object = {}, org = at.org): Promise<Answer> =>
  server.call("POST", `/views/${org}`, { key, body: wish(body) });
const list = async (key: string, org = at.org) => (await server.call("GET", `/views/${org}`, { key })).body as any[];
const put = (key: string, id: string, body: Wish, org = at.org): Promise<Answer> =>
  server.call("PUT", `/views/${org}/${id}`, { key, body: wish(body) });
const remove = (key: string, id: string, org = at.org): Promise<Answer> =>
  server.call("DELETE", `/views/${org}/${id}`, { key });
const saved = async (key: string, body: Wish = {}): Promise<any> => {
  const answer = await save(key, body);
  assert.is(answer.status, 201, answer.text);
  return answer.body;
};
const NOT_FOUND = { status: 404, body: { message: "View not found" } };
const ADMINS_ONLY = {
  status: 403,
  body: { message: "Only an admin makes, changes or deletes views for everyone" },
};

test("saves a view of one's own, lists it by name, renames it, replaces its list and deletes it", async () => {
  const key = server.given.user(at.org, "reader");
  const entries = await entriesOf(server, async () => {
    const first = await saved(key, { name: "b failing" });
    assert.equal(first, {
      view_id: first.view_id,
      name: "b failing",
      for_everyone: false,
      list: FAILING,
      missing: [],
      created_by: first.created_by,
      created_at: first.created_at,
      last_modified_at: first.created_at,
    });
    const second = await saved(key, { name: "A plain list", list: { page: "flows", parameters: {} } });
    assert.equal(await list(key), [second, first]);
    const changed = await put(key, first.view_id, {
      name: "Z",
      list: { page: "environments", parameters: { state: "UNKNOWN", name: "prod" } },
    });
    assert.equal(
      { status: changed.status, body: changed.body },
      {
        status: 200,
        body: {
          ...first,
          name: "Z",
          list: { page: "environments", parameters: { name: "prod", state: "UNKNOWN" } },
          last_modified_at: changed.body.last_modified_at,
        },
      },
    );
    assert.equal(
      (await list(key)).map(({ name }) => name),
      ["A plain list", "Z"],
    );
    const gone = await remove(key, first.view_id);
    assert.equal({ status: gone.status, body: gone.body }, { status: 200, body: "deleted" });
    assert.equal(await list(key), [second]);
  });
  const id = entries[0]?.detail["view_id"];
  assert.equal(
    entries.map(({ event, operation, detail }) => ({ event, operation, detail })),
    [
      {
        event: "view.created",
        operation: "create_view",
        detail: { view_id: id, view: "b failing", page: "artifacts", for_everyone: false },
      },
      {
        event: "view.created",
        operation: "create_view",
        detail: { view_id: entries[1]?.detail["view_id"], view: "A plain list", page: "flows", for_everyone: false },
      },
      {
        event: "view.updated",
        operation: "put_view",
        detail: {
          view_id: id,
          view: "Z",
          page: "environments",
          for_everyone: false,
          from: "b failing",
          to: "Z",
          changes: ["list"],
        },
      },
      {
        event: "view.deleted",
        operation: "delete_view",
        detail: { view_id: id, view: "Z", page: "environments", for_everyone: false },
      },
    ],
  );
});

test("views of the organization are made, changed and deleted by admins only, and seen by all members", async () => {
  const roles = (["member", "snapshotter", "reader"] as const).map((role) => server.given.user(at.org, role));
  for (const key of roles) await refused(server, () => save(key, { for_everyone: true }), ADMINS_ONLY);
  const view = await saved(at.key, { for_everyone: true });
  assert.is(view.for_everyone, true);
  for (const key of roles) {
    assert.equal(await list(key), [view]);
    await refused(server, () => put(key, view.view_id, { name: "Mine" }), ADMINS_ONLY);
    await refused(server, () => remove(key, view.view_id), ADMINS_ONLY);
  }
  const other = server.given.user(at.org, "admin");
  assert.is((await put(other, view.view_id, { name: "Ours" })).status, 200);
  assert.is((await remove(other, view.view_id)).status, 200);
  assert.equal(await list(at.key), []);
});

test("a view of another person is neither listed nor found, not even by an admin", async () => {
  const [ada, bob] = [server.given.user(at.org, "member"), server.given.user(at.org, "member")];
  const view = await saved(ada);
  for (const key of [bob, at.key]) {
    assert.equal(await list(key), []);
    await refused(server, () => put(key, view.view_id, { name: "Mine" }), NOT_FOUND);
    await refused(server, () => remove(key, view.view_id), NOT_FOUND);
  }
  // Each has a view of that name, beside the one of the organization.
  await saved(bob);
  await saved(at.key, { for_everyone: true });
  assert.equal(
    (await list(bob)).map(({ name, for_everyone }) => ({ name, for_everyone })),
    [
      { name: "Failing", for_everyone: false },
      { name: "Failing", for_everyone: true },
    ],
  );
});

test("a view of another organization is not found, and a stranger reads and saves nothing", async () => {
  const open = server.given.org({ public: true });
  const view = await saved(at.key, { for_everyone: true });
  await refused(server, () => put(open.key, view.view_id, {}, open.org), NOT_FOUND);
  await refused(server, () => remove(open.key, view.view_id, open.org), NOT_FOUND);
  for (const answering of [
    () => server.call("GET", `/views/${open.org}`, { key: at.key }),
    () => save(at.key, {}, open.org),
    () => put(at.key, view.view_id, {}, open.org),
    () => remove(open.key, view.view_id),
  ])
    await refused(server, answering, { status: 403, body: DENIED });
});

test("a service account has no views of its own; as an admin it keeps those of the organization", async () => {
  const bot = server.given.serviceAccount(at.org, "admin");
  await refused(server, () => save(bot), {
    status: 403,
    body: {
      message: "Only a user has views of their own: an admin makes those of the organization with for_everyone",
    },
  });
  const mine = await saved(at.key, { name: "Mine" });
  const view = await saved(bot, { for_everyone: true });
  assert.equal(await list(bot), [view]);
  await refused(server, () => remove(bot, mine.view_id), NOT_FOUND);
  assert.is((await remove(bot, view.view_id)).status, 200);
  const weaker = server.given.serviceAccount(at.org, "member");
  await refused(server, () => save(weaker, { for_everyone: true }), ADMINS_ONLY);
});

test("refuses an unknown list, unknown parameters, values that a parameter does not take, and bad names", async () => {
  const words = `'${LIST_NAMES.slice(0, -1).join("', '")}' or '${LIST_NAMES.at(-1)}'`;
  const parameters = "list.parameters";
  const cases: [body: object, errors: Record<string, string>][] = [
    [{ list: { page: "users", parameters: {} } }, { "list.page": `Input should be ${words} [input: users]` }],
    [
      { list: { page: "/acme/flows", parameters: {} } },
      { "list.page": `Input should be ${words} [input: /acme/flows]` },
    ],
    [
      { list: { page: "policies", parameters: { flow: "x" } } },
      { [`${parameters}.flow`]: "Extra inputs are not permitted [input: x]; possible keys: search" },
    ],
    [
      { list: { page: "policies", parameters: { constructor: "x" } } },
      { [`${parameters}.constructor`]: "Extra inputs are not permitted [input: x]; possible keys: search" },
    ],
    [
      { list: { page: "artifacts", parameters: { state: "failing", search: "" } } },
      {
        [`${parameters}.state`]: "Input should be 'NON-COMPLIANT', 'INCOMPLETE' or 'COMPLIANT' [input: failing]",
        [`${parameters}.search`]: "String should have at least 1 character [input: ]",
      },
    ],
    [
      { list: { page: "artifacts", parameters: { search: "x".repeat(257) } } },
      { [`${parameters}.search`]: `String should have at most 256 characters [input: ${"x".repeat(257)}]` },
    ],
    [
      { list: { page: "artifacts", parameters: { flow: "gone" } } },
      { [`${parameters}.flow`]: "This flow does not exist [input: gone]" },
    ],
    [{ list: { page: "running", parameters: {} } }, { [`${parameters}.environment`]: "Field required" }],
    [
      { list: { page: "decisions", parameters: { control: "SOC-1" } } },
      { [`${parameters}.control`]: "This control does not exist [input: SOC-1]" },
    ],
    [
      { list: { page: "artifacts", parameters: { search: 7 } } },
      { [`${parameters}.search`]: "Input should be a valid string [input: 7]" },
    ],
    [{ list: { page: "flows" } }, { [parameters]: "Field required" }],
    [
      { list: { page: "flows", parameters: {}, address: "https://evil.test" } },
      { "list.address": "Extra inputs are not permitted [input: https://evil.test]; possible keys: page, parameters" },
    ],
    [
      { name: "x".repeat(MAX_VIEW_NAME_CHARS + 1) },
      { name: `String should have at most 80 characters [input: ${"x".repeat(81)}]` },
    ],
  ];
  for (const [body, errors] of cases) await refused(server, () => save(at.key, body), invalid(errors));
  for (const name of ["", " x", "x ", "a\nb", "a\u2028b", "\u0007"]) {
    const { status, body } = await save(at.key, { name });
    assert.is(status, 400, JSON.stringify(name));
    assert.equal(Object.keys((body as { errors: object }).errors), ["name"]);
  }
  assert.equal(await list(at.key), []);
});

test("accepts a date of the calendar's form only", async () => {
  for (const day of ["2026-13-01", "2026-01-32", "2026-02-30", "2025-02-29", "yesterday", "2026-1-1"]) {
    const { status, body } = await save(at.key, { list: { page: "attestations", parameters: { from: day } } });
    assert.is(status, 400);
    assert.equal(Object.keys((body as { errors: object }).errors), ["list.parameters.from"]);
  }
  const parameters = { from: "2026-02-30T10:00", to: "2026-04-31" };
  for (const page of ["changes", "decisions", "deployments", "audit-log"]) {
    const list = { page, parameters: page === "decisions" ? { ...parameters, control: "C-1" } : parameters };
    await refused(
      server,
      () => save(at.key, { list }),
      invalid({
        "list.parameters.from": "Input should be a date or time of the calendar [input: 2026-02-30T10:00]",
        "list.parameters.to": "Input should be a date or time of the calendar [input: 2026-04-31]",
      }),
    );
  }
  for (const from of ["2028-02-29", "2026-01-31 10:00", "2026-01-31T10:00:59Z", "2026-01-31T10:00Z"])
    await saved(at.key, { name: `from ${from}`, list: { page: "deployments", parameters: { from } } });
  for (const from of ["12hours", "now", "@{2.days.ago}"])
    await saved(at.key, { name: `from ${from}`, list: { page: "changes", parameters: { from } } });
  await saved(at.key, { list: { page: "attestations", parameters: { from: "2026-01-31", type: "custom:coverage" } } });
});

test("every parameter of every list is one of its texts, and bounded", async () => {
  for (const [page, shape] of Object.entries(LIST_PAGES))
    for (const [name, { type, maxLength, enum: words }] of Object.entries(shape.properties as Record<string, any>)) {
      assert.is(type, "string", `${page}.${name}`);
      assert.ok(words !== undefined || maxLength === 256, `${page}.${name} has no bound`);
    }
});

test("refuses a second view of the same owner with the same name", async () => {
  const taken = invalid({ name: "A view with this name already exists [input: Failing]" });
  for (const for_everyone of [false, true]) {
    await saved(at.key, { for_everyone });
    await refused(server, () => save(at.key, { for_everyone, list: { page: "flows", parameters: {} } }), taken);
    const other = await saved(at.key, { name: "Other", for_everyone });
    await refused(server, () => put(at.key, other.view_id, {}), taken);
    // Its own name is not taken.
    assert.is((await put(at.key, other.view_id, { name: "Other" })).status, 200);
  }
});

test("a person has at most 100 views in all organizations, and the organization as many", async () => {
  const elsewhere = server.given.org();
  const user = server.store.users.find(`${at.org}-admin`) as { id: number; name: string };
  server.store.organizations.setRole(organizationId(server, elsewhere.org), user, {
    role: "reader",
    changedBy: "test",
  });
  assert.is((await save(at.key, { name: "There" }, elsewhere.org)).status, 201);
  for (let n = 1; n < MAX_VIEWS; n++) await saved(at.key, { name: `View ${n}` });
  for (const org of [at.org, elsewhere.org])
    await refused(server, () => save(at.key, { name: "One more" }, org), {
      status: 400,
      body: { message: "You have 100 views in all organizations, which is the maximum: delete one first" },
    });
  for (let n = 0; n < MAX_VIEWS; n++) await saved(at.key, { name: `View ${n}`, for_everyone: true });
  const other = server.given.user(at.org, "admin");
  await refused(server, () => save(other, { name: "One more", for_everyone: true }), {
    status: 400,
    body: { message: "The organization has 100 views, which is the maximum: delete one first" },
  });
  assert.is((await list(at.key)).length, 2 * MAX_VIEWS - 1);
});

test("a view whose flow or environment was archived stays, says so, can be renamed and comes back", async () => {
  const { key, org } = at;
  await server.given.flow(at, { name: "payments" });
  const trails = { page: "trails", parameters: { flow: "payments", state: "NON-COMPLIANT" } };
  const view = await saved(key, { list: trails });
  assert.is(
    (await server.call("PUT", `/flows/${org}/payments/rename`, { key, body: { new_name: "pay" } })).status,
    200,
  );
  assert.equal((await list(key))[0].missing, [], "the former name still leads to the flow");
  assert.is((await server.call("PUT", `/flows/${org}/pay/archive`, { key })).status, 200);
  assert.equal(await list(key), [{ ...view, missing: ["flow"] }]);
  const renamed = await put(key, view.view_id, { name: "Payments", list: trails });
  assert.equal([renamed.status, renamed.body.missing], [200, ["flow"]]);
  await refused(
    server,
    () => put(key, view.view_id, { list: { ...trails, parameters: { flow: "payments" } } }),
    invalid({ "list.parameters.flow": "This flow does not exist [input: payments]" }),
  );
  await server.given.flow(at, { name: "payments" });
  assert.equal((await list(key))[0].missing, []);
});

test("views go when the member leaves or is removed, and not when the role changes", async () => {
  const key = server.given.user(at.org, "member");
  await saved(key);
  const shared = await saved(at.key, { for_everyone: true });
  const { user } = (await server.call("GET", `/members/${at.org}`, { key: at.key })).body.data.find(
    ({ role }: { role: string }) => role === "member",
  );
  const member = `/members/${at.org}/${user}`;
  const count = () => server.db.prepare("SELECT count(*) FROM views").pluck().get();
  assert.is((await server.call("PUT", member, { key: at.key, body: { role: "reader" } })).status, 200);
  assert.is(count(), 2);
  assert.is((await server.call("DELETE", member, { key: at.key })).status, 200);
  assert.is(count(), 1);
  // Back again, the person begins without views of their own.
  assert.is((await server.call("PUT", member, { key: at.key, body: { role: "member" } })).status, 201);
  assert.equal(await list(key), [shared]);
});

test("a damaged record stays in the list, as one without a list", async () => {
  const view = await saved(at.key);
  server.db.prepare("UPDATE views SET parameters_json = '{'").run();
  const [damaged] = await list(at.key);
  assert.equal(Object.keys(damaged.list.parameters), ["unreadable"]);
  assert.is((await remove(at.key, view.view_id)).status, 200);
});

test.run();
