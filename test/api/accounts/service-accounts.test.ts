/** Service accounts: who can see and manage which (semantics 1.4, 1.5, 13.31, 13.36, 13.105, 13.110). */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { ROLES, canGrant } from "../../../src/domain/access.ts";
import type { Role } from "../../../src/domain/access.ts";
import { keyDigest } from "../../../src/store/accounts/api-keys.ts";
import { fresh, startServer } from "../../given.ts";
import type { Answer, TestServer } from "../../given.ts";
import { holdings } from "../../http/socket.ts";

const test = suite("api/accounts/service-accounts");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type At = { org: string; key: string };
const UNAUTHENTICATED = { message: "Authentication credentials are missing or invalid" };
const DENIED = { message: "You don't have permission to access this resource" };
const UNKNOWN = { message: "Service account not found" };

const create = (at: At, body: unknown) => server.call("POST", `/service-accounts/${at.org}`, { key: at.key, body });
const list = (at: At) => server.call("GET", `/service-accounts/${at.org}`, { key: at.key });
const get = (at: At, name: string) => server.call("GET", `/service-accounts/${at.org}/${name}`, { key: at.key });
const patch = (at: At, name: string, body: unknown) =>
  server.call("PATCH", `/service-accounts/${at.org}/${name}`, { key: at.key, body });
const remove = (at: At, name: string, body: unknown = null) =>
  server.call("DELETE", `/service-accounts/${at.org}/${name}`, { key: at.key, body });
const mint = (at: At, name: string) =>
  server.call("POST", `/service-accounts/${at.org}/${name}/api-keys`, { key: at.key, body: { description: "test" } });

/** A principal with that role, a user or a service account. */
const as = (at: At, role: Role, kind: "user" | "service_account" = "user"): At => ({
  org: at.org,
  key: kind === "user" ? server.given.user(at.org, role) : server.given.serviceAccount(at.org, role),
});
const callerId = (at: At): string => server.store.apiKeys.findHolder(keyDigest(at.key))?.holder_public_id as string;
const organizationId = (at: At): number => (server.store.organizations.find(at.org) as { id: number }).id;

/** An account of that privilege, created by an admin and assigned to `creator`. */
async function given(at: At, creator: At | null, privilege: Role = "reader"): Promise<string> {
  const name = fresh("bot");
  server.store.serviceAccounts.create({
    organizationId: organizationId(at),
    name,
    description: null,
    privilege,
    creatingUserId: creator === null ? "" : callerId(creator),
  });
  return name;
}

async function refused(answering: Promise<Answer>, status: number, body: unknown, what = ""): Promise<void> {
  const answer = await answering;
  assert.equal({ status: answer.status, body: answer.body }, { status, body }, what);
}
/** Asserts that `body` leaves nothing behind. */
async function withoutTrace(body: () => Promise<void>): Promise<void> {
  const accounts = () =>
    server.db.prepare("SELECT name, description, privilege FROM service_accounts ORDER BY id").all();
  const before = [holdings(server), accounts()];
  await body();
  assert.equal([holdings(server), accounts()], before);
}
const audit = (at: At) =>
  (
    server.db
      .prepare(
        "SELECT operation, event, target, actor_name, detail_json FROM audit_log WHERE organization_id = ? ORDER BY id",
      )
      .all(organizationId(at)) as Record<string, string>[]
  ).map(({ detail_json, ...row }) => ({ ...row, detail: JSON.parse(detail_json as string) }));

test("creates an account without a key, lists, reads, changes and deletes it", async () => {
  const at = server.given.org();
  assert.equal((await list(at)).body, []);
  const made = await create(at, { name: "ci-bot", description: "Builds", privilege: "member" });
  const { created_at, ...rest } = made.body;
  assert.is(made.status, 201);
  assert.equal(rest, {
    name: "ci-bot",
    display_name: "ci-bot",
    description: "Builds",
    privilege: "member",
    creating_user_id: callerId(at),
    for_webhook: false,
  });
  assert.type(created_at, "number");
  assert.equal((await get(at, "ci-bot")).body, made.body);
  const { for_webhook, ...item } = made.body;
  assert.equal((await list(at)).body, [item]);
  assert.equal((await server.call("GET", `/service-accounts/${at.org}/ci-bot/api-keys`, { key: at.key })).body, []);

  const other = await create(at, { name: "a-bot" });
  assert.equal(
    { description: other.body.description, privilege: other.body.privilege },
    { description: null, privilege: "reader" },
  );
  assert.equal(
    (await list(at)).body.map(({ name }: { name: string }) => name),
    ["a-bot", "ci-bot"],
  );

  const changed = await patch(at, "ci-bot", { privilege: "reader" });
  assert.equal(
    { status: changed.status, body: changed.body },
    { status: 200, body: { ...made.body, privilege: "reader" } },
  );
  assert.equal((await patch(at, "ci-bot", { description: null })).body, {
    ...made.body,
    description: null,
    privilege: "reader",
  });
  assert.equal((await patch(at, "ci-bot", { description: "", privilege: null })).body, {
    ...made.body,
    description: "",
    privilege: "reader",
  });
  assert.equal((await get(at, "ci-bot")).body, { ...made.body, description: "", privilege: "reader" });

  const gone = await remove(at, "ci-bot");
  assert.equal({ status: gone.status, text: gone.text }, { status: 200, text: '"OK"' });
  await refused(get(at, "ci-bot"), 404, UNKNOWN);
  await refused(remove(at, "ci-bot"), 404, UNKNOWN);
  const path = `/api/v2/service-accounts/${at.org}`;
  const actor_name = `${at.org}-admin`;
  const updated = {
    operation: "update_service_account",
    event: "service_account.updated",
    target: `${path}/ci-bot`,
    actor_name,
  };
  assert.equal(audit(at), [
    {
      operation: "create_service_account",
      event: "service_account.created",
      target: path,
      actor_name,
      detail: { account: "ci-bot", privilege: "member" },
    },
    {
      operation: "create_service_account",
      event: "service_account.created",
      target: path,
      actor_name,
      detail: { account: "a-bot", privilege: "reader" },
    },
    {
      ...updated,
      detail: { account: "ci-bot", privilege: "reader", previous_privilege: "member", description_changed: false },
    },
    {
      ...updated,
      detail: { account: "ci-bot", privilege: "reader", previous_privilege: "reader", description_changed: true },
    },
    {
      ...updated,
      detail: { account: "ci-bot", privilege: "reader", previous_privilege: "reader", description_changed: true },
    },
    {
      operation: "delete_service_account",
      event: "service_account.deleted",
      target: `${path}/ci-bot`,
      actor_name,
      detail: { account: "ci-bot", privilege: "reader", keys: [] },
    },
  ]);
});

test("a change without effect leaves no audit entry", async () => {
  const at = server.given.org();
  const made = await create(at, { name: "bot", description: "d", privilege: "member" });
  await withoutTrace(async () => {
    for (const body of [
      {},
      { description: "d" },
      { privilege: "member" },
      { privilege: null },
      { description: "d", privilege: "member" },
    ]) {
      const answer = await patch(at, "bot", body);
      assert.equal({ status: answer.status, body: answer.body }, { status: 200, body: made.body });
    }
  });
});

test("validates bodies and names, reporting all mistakes at once", async () => {
  const at = server.given.org();
  await create(at, { name: "bot" });
  const message = "Input payload validation failed";
  const name = (text: string) => `String should match pattern '^[a-zA-Z0-9\\-]+$' [input: ${text}]`;
  const roles = "Input should be 'admin', 'member', 'snapshotter' or 'reader'";
  const long = "x".repeat(513);
  const table: [unknown, Record<string, string>][] = [
    [{}, { name: "Field required" }],
    [{ name: "" }, { name: "String should have at least 1 character [input: ]" }],
    [{ name: "a_b" }, { name: name("a_b") }],
    [{ name: "bot\n" }, { name: name("bot\\u000a") }],
    [{ name: "a".repeat(65) }, { name: `String should have at most 64 characters [input: ${"a".repeat(65)}]` }],
    [
      { name: 7, privilege: "owner" },
      { name: "Input should be a valid string [input: 7]", privilege: `${roles} [input: owner]` },
    ],
    [{ name: "b", privilege: null }, { privilege: "Input should be a valid string [input: null]" }],
    [
      { name: "b", description: long },
      { description: `String should have at most 512 characters [input: ${"x".repeat(500)}…]` },
    ],
    [{ name: "b", priviledge: "admin" }, { priviledge: "Extra inputs are not permitted. Did you mean 'privilege'?" }],
    [{ name: "bot" }, { name: "A service account with this name already exists [input: bot]" }],
  ];
  const changes: [unknown, Record<string, string>][] = [
    [{ privilege: "owner" }, { privilege: `${roles} [input: owner]` }],
    [{ description: 7 }, { description: "Input should be a valid string [input: 7]" }],
    [
      { name: "other" },
      { name: "Extra inputs are not permitted [input: other]; possible keys: description, privilege" },
    ],
  ];
  await withoutTrace(async () => {
    for (const [body, errors] of table) await refused(create(at, body), 400, { message, errors }, JSON.stringify(body));
    for (const [body, errors] of changes)
      await refused(patch(at, "bot", body), 400, { message, errors }, JSON.stringify(body));
    await refused(patch(at, "bot", null), 400, { message: "A JSON body is required: the request has none" });
    await refused(get(at, "a_b"), 400, { message, errors: { name: name("a_b") } });
    for (const answering of [get(at, "none"), patch(at, "none", {}), remove(at, "none")])
      await refused(answering, 404, UNKNOWN);
  });
  assert.is((await create(at, { name: "A".repeat(64), description: "y".repeat(512) })).status, 201);
});

test("names are unique per organization, and available again after a deletion", async () => {
  const [one, two] = [server.given.org(), server.given.org()];
  for (const at of [one, two]) assert.is((await create(at, { name: "bot" })).status, 201);
  const key = (await mint(one, "bot")).body.key as string;
  assert.is((await remove(one, "bot")).status, 200);
  assert.is((await get(two, "bot")).status, 200);
  assert.is((await create(one, { name: "bot", privilege: "admin" })).status, 201);
  // The old key does not become valid again with the name.
  await refused(list({ org: one.org, key }), 401, UNAUTHENTICATED);
  assert.equal((await server.call("GET", `/service-accounts/${one.org}/bot/api-keys`, { key: one.key })).body, []);
});

test("a personal organization has no service accounts", async () => {
  const at = server.given.org({ kind: "personal" });
  await withoutTrace(() =>
    refused(create(at, { name: "bot" }), 400, {
      message: "Personal organizations cannot have service accounts",
    }),
  );
  assert.equal((await list(at)).body, []);
});

/** Statuses of operations on an account: [read, change of description, change of privilege, deletion]. */
const TABLE: Record<Role, { own: number[]; other: number[] }> = {
  admin: { own: [200, 200, 200, 200], other: [200, 200, 200, 200] },
  member: { own: [200, 200, 403, 200], other: [200, 403, 403, 403] },
  snapshotter: { own: [200, 200, 403, 200], other: [200, 403, 403, 403] },
  reader: { own: [403, 403, 403, 403], other: [403, 403, 403, 403] },
};

test("each role may manage exactly the accounts it should, as a user and as a service account", async () => {
  const at = server.given.org();
  for (const kind of ["user", "service_account"] as const) {
    for (const role of ROLES) {
      const caller = as(at, role, kind);
      for (const [whose, creator] of [
        ["own", caller],
        ["other", at],
        ["other", null],
      ] as const) {
        const name = await given(at, creator, "snapshotter");
        const rows = () =>
          server.db.prepare("SELECT description, privilege FROM service_accounts WHERE name = ?").get(name);
        const before = rows();
        const answers = [
          await get(caller, name),
          await patch(caller, name, { description: "new" }),
          await patch(caller, name, { privilege: "reader" }),
          await remove(caller, name),
        ];
        assert.equal(
          answers.map(({ status }) => status),
          TABLE[role][whose],
          `${kind} ${role} ${whose}`,
        );
        for (const { status, body } of answers) if (status === 403) assert.equal(body, DENIED);
        if (TABLE[role][whose].slice(1).every((status) => status === 403)) assert.equal(rows(), before);
      }
      assert.is((await list(caller)).status, role === "reader" ? 403 : 200);
    }
  }
});

test("no caller can grant more than their own role", async () => {
  const at = server.given.org();
  for (const kind of ["user", "service_account"] as const) {
    for (const role of ROLES) {
      const caller = as(at, role, kind);
      for (const privilege of ROLES) {
        const may = role !== "reader" && canGrant(role, privilege);
        const name = fresh("bot");
        const answer = await create(caller, { name, privilege });
        assert.is(answer.status, may ? 201 : 403, `${kind} ${role} makes ${privilege}`);
        if (may)
          assert.equal(
            { creating_user_id: answer.body.creating_user_id, privilege: answer.body.privilege },
            { creating_user_id: callerId(caller), privilege },
          );
        else {
          assert.equal(answer.body, DENIED);
          assert.is(server.store.serviceAccounts.find(organizationId(at), name), null);
        }
      }
    }
  }
});

test("repeating an account's privilege is no change, so its creator may send the whole account", async () => {
  const at = server.given.org();
  const member = as(at, "member");
  const name = await given(at, member, "member");
  const answer = await patch(member, name, { description: "new", privilege: "member" });
  assert.equal({ status: answer.status, description: answer.body.description }, { status: 200, description: "new" });
  for (const privilege of ["admin", "snapshotter", "reader"])
    await refused(patch(member, name, { description: "x", privilege }), 403, DENIED);
  assert.is((await get(member, name)).body.description, "new");
});

test("a new privilege takes effect with the next request", async () => {
  const at = server.given.org();
  const name = await given(at, null, "reader");
  const key = (await mint(at, name)).body.key as string;
  const write = () =>
    server.call("PUT", `/flows/${at.org}/template_file`, { key, form: { json: { name: fresh("flow") } } });
  assert.is((await write()).status, 403);
  await patch(at, name, { privilege: "member" });
  assert.is((await write()).status, 201);
  await patch(at, name, { privilege: "reader" });
  await refused(write(), 403, DENIED);
});

test("readers, outsiders and unauthenticated callers cannot see accounts and keys", async () => {
  const open = server.given.org({ public: true });
  const name = await given(open, null, "reader");
  const { id } = (await mint(open, name)).body;
  const outsider = server.given.user(open.org, null);
  const stranger = server.given.serviceAccount(server.given.org().org, "admin");
  const reader = server.given.user(open.org, "reader");
  const base = `/service-accounts/${open.org}`;
  const reads = [
    base,
    `${base}/${name}`,
    `${base}/${name}/api-keys`,
    `${base}/${name}/api-keys/${id}`,
    `${base}/none`,
    `/membership-audit-log/${open.org}`,
  ];
  const writes = [
    ["POST", base],
    ["PATCH", `${base}/${name}`],
    ["DELETE", `${base}/${name}`],
    ["POST", `${base}/${name}/api-keys`],
    ["DELETE", `${base}/${name}/api-keys/${id}`],
    ["POST", `${base}/${name}/api-keys/${id}/rotate`],
  ];
  await withoutTrace(async () => {
    for (const [method, path] of [...reads.map((path) => ["GET", path]), ...writes] as [string, string][]) {
      await refused(server.call(method, path), 401, UNAUTHENTICATED, path);
      for (const key of [outsider, stranger, reader])
        await refused(server.call(method, path, { key }), 403, DENIED, `${method} ${path}`);
    }
  });
});

test("deleting an account revokes all its keys at once and keeps its reports under its name", async () => {
  const at = server.given.org();
  const name = await given(at, null, "member");
  const keys = await Promise.all([1, 2].map(async () => (await mint(at, name)).body));
  const flow = await server.given.flow({ org: at.org, key: keys[0].key });
  const trail = await server.given.trail({ org: at.org, key: keys[0].key }, { flow });
  const attested = await server.call("POST", `/attestations/${at.org}/${flow}/trail/${trail}/generic`, {
    key: keys[1].key,
    form: { json: { attestation_name: "review", is_compliant: true } },
  });
  assert.is(attested.status, 201, attested.text);
  const before = await server.call("GET", `/attestations/${at.org}/${flow}/trail/${trail}/review`, { key: at.key });
  assert.is((await remove(at, name)).status, 200);
  for (const { key } of keys) await refused(list({ org: at.org, key }), 401, UNAUTHENTICATED);
  assert.is(
    server.db
      .prepare("SELECT count(*) FROM api_keys k WHERE k.public_id IN (?, ?)")
      .pluck()
      .get(keys[0].id, keys[1].id),
    0,
  );
  assert.equal(
    (await server.call("GET", `/attestations/${at.org}/${flow}/trail/${trail}/review`, { key: at.key })).body,
    before.body,
  );
  assert.is((await server.call("GET", `/trails/${at.org}/${flow}/${trail}`, { key: at.key })).status, 200);
  assert.equal(audit(at).at(-1)?.["detail"], { account: name, privilege: "member", keys: keys.map(({ id }) => id) });
  // Pending last-used times of its keys apply to no other account.
  const next = await given(at, null);
  const { id } = (await mint(at, next)).body;
  server.store.apiKeys.flushUses();
  assert.is(
    (await server.call("GET", `/service-accounts/${at.org}/${next}/api-keys/${id}`, { key: at.key })).body.last_used_at,
    0,
  );
});

test("an account that deletes itself is refused from then on", async () => {
  const at = server.given.org();
  const name = await given(at, null, "admin");
  const self = { org: at.org, key: (await mint(at, name)).body.key as string };
  assert.is((await remove(self, name)).status, 200);
  await refused(list(self), 401, UNAUTHENTICATED);
  assert.is(audit(at).at(-1)?.["actor_name" as never], name);
});

test("refuses to delete the account of an enabled webhook; a disabled webhook remains without it", async () => {
  const at = server.given.org();
  const name = await given(at, null, "member");
  const account = server.store.serviceAccounts.find(organizationId(at), name) as { id: number };
  const hook = server.db.prepare(
    "INSERT INTO inbound_webhooks (public_id, organization_id, kind, secret, service_account_id, settings_json" +
      ", created_at, disabled_at) VALUES (?, ?, ?, 's', ?, '{}', 1, ?)",
  );
  hook.run(fresh("hook"), organizationId(at), "sonar", account.id, null);
  const disabled = fresh("hook");
  hook.run(disabled, organizationId(at), "launch-darkly", account.id, 2);
  const message = `Service account '${name}' is in use by incoming webhooks (sonar): disable them first`;
  await withoutTrace(() => refused(remove(at, name), 400, { message }));
  server.db.prepare("UPDATE inbound_webhooks SET disabled_at = 3 WHERE disabled_at IS NULL").run();
  assert.is((await remove(at, name)).status, 200);
  assert.is(
    server.db.prepare("SELECT service_account_id FROM inbound_webhooks WHERE public_id = ?").pluck().get(disabled),
    null,
  );
  assert.is(
    server.db
      .prepare("SELECT count(*) FROM inbound_webhooks WHERE organization_id = ?")
      .pluck()
      .get(organizationId(at)),
    2,
  );
});

test("of fifty concurrent creations of one name one succeeds, and the others get the conflict", async () => {
  const at = server.given.org();
  const answers = await Promise.all(Array.from({ length: 50 }, () => create(at, { name: "same" })));
  assert.is(answers.filter(({ status }) => status === 201).length, 1);
  const taken = {
    message: "Input payload validation failed",
    errors: { name: "A service account with this name already exists [input: same]" },
  };
  for (const { status, body } of answers)
    if (status !== 201) assert.equal({ status, body }, { status: 400, body: taken });
  assert.is((await list(at)).body.length, 1);
  assert.is(audit(at).length, 1);
});

test.run();
