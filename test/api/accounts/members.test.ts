/** Members: added, created, given other roles and removed by admins, without ever losing the last one. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { newSecret } from "../../../src/clock.ts";
import { createLogins } from "../../../src/auth/logins.ts";
import { createRateLimiter } from "../../../src/http/rate-limiter.ts";
import { fresh, startServer } from "../../given.ts";
import type { TestServer } from "../../given.ts";
import { DENIED, entriesOf, invalid, organizationId, refused, signIn } from "../administration.ts";
import type { At } from "../administration.ts";

const MAPPED = "mapped-org";

const test = suite("api/accounts/members");
let server: TestServer;
test.before(async () => {
  server = await startServer({
    logins: { mapping: [{ group: "developers", organization: MAPPED, role: "member" }] },
  });
});
test.after(() => server.stop());

const list = (at: At, query = "") => server.call("GET", `/members/${at.org}${query}`, { key: at.key });
const create = (at: At, body: unknown) => server.call("POST", `/members/${at.org}`, { key: at.key, body });
const put = (at: At, user: string, role: unknown) =>
  server.call("PUT", `/members/${at.org}/${user}`, { key: at.key, body: { role } });
const remove = (at: At, user: string) => server.call("DELETE", `/members/${at.org}/${user}`, { key: at.key });

/** A user without a membership; returns the login name and a key. */
function aUser(fields: { displayName?: string; email?: string | null } = {}): { name: string; id: number } {
  const name = fresh("user");
  return { name, id: server.store.users.create({ name, displayName: "", email: null, ...fields }) };
}
const rolesOf = async (at: At) =>
  Object.fromEntries((await list(at)).body.data.map((one: { user: string; role: string }) => [one.user, one.role]));

test("lists members by name with what is known of them, page by page", async () => {
  const at = server.given.org();
  const ada = aUser({ displayName: "Ada Lovelace", email: "ada@example.com" });
  const bea = aUser();
  await put(at, ada.name, "member");
  await put(at, bea.name, "reader");
  const session = signIn(server, ada.id).id;
  const at1 = server.clock.at;
  const { status, body } = await list(at);
  const since = (id: number) => server.store.organizations.getMember(organizationId(server, at.org), id).created_at;
  const admin = server.store.users.find(`${at.org}-admin`) as { id: number };
  const common = { role_from_login: false, last_login_at: null };
  const rows = [
    { user: `${at.org}-admin`, display_name: `${at.org}-admin`, email: null, role: "admin", since: since(admin.id) },
    { user: ada.name, display_name: "Ada Lovelace", email: "ada@example.com", role: "member", since: since(ada.id) },
    { user: bea.name, display_name: bea.name, email: null, role: "reader", since: since(bea.id) },
  ].map((row) => ({ ...row, ...common, ...(row.user === ada.name ? { last_login_at: at1 } : {}) }));
  assert.equal(
    { status, body },
    { status: 200, body: { data: rows, pagination: { total: 3, page: 1, per_page: 100, page_count: 1 } } },
  );
  // A login stays known when its session was ended.
  server.store.sessions.end(session);
  assert.is((await list(at)).body.data[1].last_login_at, at1);
  assert.equal((await list(at, "?page=2&per_page=2")).body, {
    data: rows.slice(2),
    pagination: { total: 3, page: 2, per_page: 2, page_count: 2 },
  });
  assert.equal((await list(at, "?per_page=1001")).status, 400);
});

test("finds members by a part of their login name, display name or e-mail address, with the true total", async () => {
  const at = server.given.org();
  for (const [displayName, email] of [
    ["Grace Hopper", "amazing@navy.test"],
    ["Émile 100%", null],
  ] as const) {
    const user = aUser({ displayName, email });
    await put(at, user.name, "member");
  }
  const found = async (search: string) => {
    const { body } = await list(at, `?per_page=1&search=${encodeURIComponent(search)}`);
    return [body.data.map(({ display_name }: { display_name: string }) => display_name), body.pagination.total];
  };
  assert.equal(await found("HOPPER"), [["Grace Hopper"], 1]);
  assert.equal(await found("zing@NAVY"), [["Grace Hopper"], 1]);
  assert.equal(await found(`${at.org}-adm`), [[`${at.org}-admin`], 1]);
  assert.equal(await found("Émile"), [["Émile 100%"], 1]);
  assert.equal(await found("0%"), [["Émile 100%"], 1]);
  for (const nothing of ["_race", "x y"]) assert.equal(await found(nothing), [[], 0], nothing);
  assert.is((await found(""))[1], 3);
  const { status, body } = await list(at, `?search=${"x".repeat(257)}`);
  assert.is(status, 400);
  assert.equal(Object.keys(body.errors), ["search"]);
});

test("adds an existing user, changes the role at once, and repeating it changes nothing", async () => {
  const at = server.given.org();
  const user = aUser({ displayName: "Ada" });
  let since = 0;
  const added = await entriesOf(server, async () => {
    const { status, body } = await put(at, user.name, "reader");
    since = body.since;
    assert.equal(
      { status, body },
      {
        status: 201,
        body: { user: user.name, display_name: "Ada", email: null, role: "reader", since, role_from_login: false },
      },
    );
  });
  const actor_name = `${at.org}-admin`;
  const common = { target: user.name, operation: "put_member", actor_name };
  assert.equal(added, [{ event: "member.added", ...common, detail: { role: "reader" } }]);
  const changed = await entriesOf(server, async () => {
    const { status, body } = await put(at, user.name, "admin");
    assert.equal([status, body.role, body.since], [200, "admin", since]);
  });
  assert.equal(changed, [
    { event: "member.role_changed", ...common, detail: { role: "admin", previous_role: "reader" } },
  ]);
  await refused(server, () => put(at, user.name, "admin"), {
    status: 200,
    body: { user: user.name, display_name: "Ada", email: null, role: "admin", since, role_from_login: false },
  });
  const history = await server.call("GET", `/membership-audit-log/${at.org}?search=${user.name}`, { key: at.key });
  assert.equal(
    history.body.events.map((one: Record<string, string>) => [one["event_type"], one["changed_by"], one["source"]]),
    [
      ["changed", actor_name, "app"],
      ["added", actor_name, "app"],
    ],
  );
});

test("an admin may leave, but the last one stays admin", async () => {
  const at = server.given.org();
  const admin = `${at.org}-admin`;
  const last = {
    status: 400,
    body: { message: `'${admin}' is the last admin of '${at.org}': give another member the role admin first` },
  };
  await refused(server, () => put(at, admin, "reader"), last);
  await refused(server, () => remove(at, admin), last);
  const user = aUser();
  assert.is((await put(at, user.name, "admin")).status, 201);
  const entries = await entriesOf(server, async () => {
    const { status, body } = await remove(at, admin);
    assert.equal({ status, body }, { status: 200, body: { user: admin, service_accounts: [] } });
  });
  assert.equal(entries, [
    {
      event: "member.removed",
      target: admin,
      operation: "delete_member",
      actor_name: admin,
      detail: { previous_role: "admin" },
    },
  ]);
  assert.equal((await list(at)).body, DENIED);
});

test("removing a member names the service accounts whose keys keep working", async () => {
  const at = server.given.org();
  const user = aUser();
  await put(at, user.name, "member");
  const creatingUserId = server.store.users.get(user.id).public_id;
  for (const name of ["with-key", "without-key"]) {
    const serviceAccountId = server.store.serviceAccounts.create({
      organizationId: organizationId(server, at.org),
      name,
      description: null,
      privilege: "reader",
      creatingUserId,
    });
    if (name === "with-key")
      server.store.apiKeys.create(
        { serviceAccountId },
        { digest: Buffer.alloc(32, 7), description: "x", expiresAt: 0 },
      );
  }
  assert.equal((await remove(at, user.name)).body, { user: user.name, service_accounts: ["with-key"] });
  await refused(server, () => remove(at, user.name), {
    status: 404,
    body: { message: `'${user.name}' is not a member of '${at.org}'` },
  });
  await refused(server, () => remove(at, "unheard-of"), {
    status: 404,
    body: { message: `'unheard-of' is not a member of '${at.org}'` },
  });
});

test("refuses unknown users and roles", async () => {
  const at = server.given.org();
  await refused(server, () => put(at, "unheard-of", "reader"), {
    status: 404,
    body: { message: "User 'unheard-of' not found" },
  });
  const user = aUser();
  for (const role of ["owner", null, 1, undefined])
    await refused(
      server,
      async () => {
        const { status } = await put(at, user.name, role);
        return { status, body: null } as never;
      },
      { status: 400, body: null },
    );
});

test("a personal organization keeps its only member, and its admin cannot create users", async () => {
  const at = server.given.org({ kind: "personal" });
  const personal = {
    status: 400,
    body: { message: `'${at.org}' is a personal organization: its user is its only member and always admin` },
  };
  const user = aUser();
  await refused(server, () => put(at, user.name, "admin"), personal);
  await refused(server, () => create(at, { name: fresh("user"), role: "reader" }), personal);
  await refused(server, () => remove(at, `${at.org}-admin`), personal);
  assert.is((await list(at)).status, 200);
});

test("creates a user who signs in with the password that is shown once", async () => {
  const at = server.given.org();
  const name = fresh("grace");
  let password = "";
  const entries = await entriesOf(server, async () => {
    const { status, body } = await create(at, {
      name,
      display_name: "Grace Hopper",
      email: `${name}@example.com`,
      role: "member",
    });
    const { initial_password, since, ...rest } = body;
    password = initial_password;
    assert.equal(
      { status, rest },
      {
        status: 201,
        rest: {
          user: name,
          display_name: "Grace Hopper",
          email: `${name}@example.com`,
          role: "member",
          role_from_login: false,
        },
      },
    );
    assert.match(password, /^[\w-]{43}$/);
    assert.type(since, "number");
  });
  const shown = { operation: "create_member", actor_name: `${at.org}-admin` };
  assert.equal(
    entries.map(({ event, target, operation, actor_name }) => ({ event, target, operation, actor_name })),
    [
      { event: "user.created", target: name, ...shown },
      { event: "organization.created", target: name, ...shown },
      { event: "member.added", target: name, ...shown },
      { event: "password.set", target: name, ...shown },
      { event: "member.added", target: name, ...shown },
    ],
  );
  assert.not.match(JSON.stringify(entries), password);
  assert.equal(await rolesOf(at), { [`${at.org}-admin`]: "admin", [name]: "member" });
  const logins = createLogins({
    store: server.store,
    write: (work) => server.writer.run(work),
    passwords: server.passwords,
    provider: null,
    mapping: [],
    setup: null,
    attempts: createRateLimiter({ burst: 10, perSeconds: 900, now: () => server.clock.at }),
    idleTimeoutS: 100,
    lifetimeS: 100,
    newSecret,
    warn: () => undefined,
  });
  const visitor = { address: "127.0.0.1", userAgent: "test", requestId: "r" };
  assert.is(await logins.signIn(name, "wrong password", visitor), null);
  assert.is.not(await logins.signIn(name, password, visitor), null);
});

test("refuses a user whose name or address is taken, and invalid fields", async () => {
  const at = server.given.org();
  const taken = aUser({ email: `${fresh("taken")}@example.com` });
  const email = server.store.users.get(taken.id).email as string;
  const other = server.given.org();
  await refused(
    server,
    () => create(at, { name: taken.name, email: email.toUpperCase(), role: "reader" }),
    invalid({
      name: `A user with this name already exists [input: ${taken.name}]`,
      email: `A user with this e-mail address already exists [input: ${email.toUpperCase()}]`,
    }),
  );
  await refused(
    server,
    () => create(at, { name: other.org, role: "reader" }),
    invalid({
      name: `An organization with this name already exists, and the user needs a personal one [input: ${other.org}]`,
    }),
  );
  for (const fields of [
    { name: "" },
    { name: "-dash" },
    { name: "two words" },
    { name: "x".repeat(257) },
    { email: "no-at-sign" },
    { email: `${"x".repeat(254)}@y` },
    { display_name: "two\nlines" },
    { display_name: "x".repeat(257) },
    { role: "owner" },
    { password: "chosen by the caller" },
  ])
    await refused(
      server,
      async () => {
        const { status } = await create(at, { name: fresh("user"), role: "reader", ...fields });
        return { status, body: fields } as never;
      },
      { status: 400, body: fields },
    );
});

test("a role that groups of the login provider give is not changed here, but its member can be removed", async () => {
  const at = server.given.org({ name: MAPPED });
  const [mapped, local, blocked] = [aUser(), aUser(), aUser()];
  server.store.identities.create("https://login.test", mapped.name, mapped.id);
  server.store.identities.create("https://login.test", blocked.name, blocked.id);
  server.store.identities.block(blocked.id);
  server.store.organizations.setRole(organizationId(server, MAPPED), mapped, { role: "member", changedBy: "login" });
  const owned = {
    status: 400,
    body: {
      message: `Groups of the login provider give '${mapped.name}' the role in '${MAPPED}': change the groups`,
    },
  };
  await refused(server, () => put(at, mapped.name, "admin"), owned);
  for (const { name } of [local, blocked]) assert.is((await put(at, name, "reader")).status, 201);
  assert.equal(
    (await list(at)).body.data.map((one: Record<string, unknown>) => [one["user"], one["role_from_login"]]),
    [
      [`${MAPPED}-admin`, false],
      [mapped.name, true],
      [local.name, false],
      [blocked.name, false],
    ],
  );
  assert.is((await remove(at, mapped.name)).status, 200);
  await refused(server, () => put(at, mapped.name, "member"), owned);
  // Elsewhere no groups give roles.
  assert.is((await put(server.given.org(), mapped.name, "member")).status, 201);
});

test.run();
