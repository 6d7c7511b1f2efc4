/** Keys of service accounts: created, used, rotated, expired and revoked (semantics 1.6, 13.37, 13.38). */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { ROLES } from "../../../src/domain/access.ts";
import type { Role } from "../../../src/domain/access.ts";
import { closeExpiredKeys, createKeyExpiry } from "../../../src/jobs/expire-keys.ts";
import { keyDigest } from "../../../src/store/accounts/api-keys.ts";
import { fresh, startServer } from "../../given.ts";
import type { Answer, TestServer } from "../../given.ts";
import { dial, holdings } from "../../http/socket.ts";
import { until } from "../../patience.ts";

const test = suite("api/accounts/api-keys");
let server: TestServer;
test.before.each(async () => void (server = await startServer()));
test.after.each(() => server.stop());

type At = { org: string; key: string };
const HOUR = 3600;
const UNAUTHENTICATED = { message: "Authentication credentials are missing or invalid" };
const DENIED = { message: "You don't have permission to access this resource" };
const UNKNOWN = { message: "API key not found" };
const NO_ACCOUNT = { message: "Service account not found" };
const INVALID = "Input payload validation failed";

/** An organization with an account `bot`. */
function given(privilege: Role = "member", creator: At | null = null): At {
  const at = server.given.org();
  account(at, "bot", privilege, creator);
  return at;
}
function account(at: At, name: string, privilege: Role, creator: At | null): void {
  const creatingUserId =
    creator === null ? "" : (server.store.apiKeys.findHolder(keyDigest(creator.key))?.holder_public_id as string);
  server.store.serviceAccounts.create({
    organizationId: organizationId(at),
    name,
    description: null,
    privilege,
    creatingUserId,
  });
}
const organizationId = (at: At): number => (server.store.organizations.find(at.org) as { id: number }).id;
const keys = (at: At, rest = "", name = "bot"): string => `/service-accounts/${at.org}/${name}/api-keys${rest}`;
const mint = (at: At, body: unknown = { description: "ci" }, name = "bot") =>
  server.call("POST", keys(at, "", name), { key: at.key, body });
const list = async (at: At, name = "bot") =>
  (await server.call("GET", keys(at, "", name), { key: at.key })).body as Record<string, any>[];
const get = (at: At, id: string) => server.call("GET", keys(at, `/${id}`), { key: at.key });
const revoke = (at: At, id: string, name = "bot") =>
  server.call("DELETE", keys(at, `/${id}`, name), { key: at.key, body: null });
const rotate = (at: At, id: string, body: unknown = {}, name = "bot") =>
  server.call("POST", keys(at, `/${id}/rotate`, name), { key: at.key, body });
/** The status of a request with that key. */
const works = async (key: string): Promise<boolean> => {
  const { status, body } = await server.call("GET", "/user/default-org", { key });
  if (status !== 200) assert.equal({ status, body }, { status: 401, body: UNAUTHENTICATED });
  return status === 200;
};
const row = (id: string) =>
  server.db
    .prepare("SELECT revoked_at, grace_period_expires_at, replaced_by FROM api_keys WHERE public_id = ?")
    .get(id) as Record<string, unknown>;
const audit = (at: At) =>
  (
    server.db
      .prepare(
        "SELECT event, detail_json FROM audit_log WHERE organization_id = ? AND event LIKE 'api_key.%' ORDER BY id",
      )
      .raw()
      .all(organizationId(at)) as [string, string][]
  ).map(([event, detail]) => [event, JSON.parse(detail)] as const);

async function refused(answering: Promise<Answer>, status: number, body: unknown, what = ""): Promise<void> {
  const answer = await answering;
  assert.equal({ status: answer.status, body: answer.body }, { status, body }, what);
}
/** Asserts that `body` leaves nothing behind, down to the rows of keys and jobs. */
async function withoutTrace(body: () => Promise<void>): Promise<void> {
  const rows = () =>
    [
      "SELECT public_id, expires_at, grace_period_expires_at, revoked_at, replaced_by FROM api_keys ORDER BY id",
      "SELECT id, kind, payload_json, due_at FROM jobs",
    ].map((sql) => server.db.prepare(sql).all());
  const before = [holdings(server), rows()];
  await body();
  assert.equal([holdings(server), rows()], before);
}

test("shows a new key once, accepts it at once, lists it without its text and revokes it", async () => {
  const at = given("reader");
  const made = await mint(at, { description: "ci", expires_at: 4_102_444_800 });
  const { id, key, created_at, ...rest } = made.body;
  assert.equal({ status: made.status, rest }, { status: 201, rest: { description: "ci", expires_at: 4_102_444_800 } });
  assert.match(id, /^[a-f0-9]{8}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{8}$/);
  assert.match(key, /^[\w-]{43}$/);
  const item = { id, description: "ci", created_at, expires_at: 4_102_444_800, last_used_at: 0 };
  assert.equal({ list: await list(at), body: (await get(at, id)).body }, { list: [item], body: item });
  assert.ok(await works(key));
  // Used just now, although the last use is written only once a minute.
  const used = (await get(at, id)).body.last_used_at as number;
  assert.ok(used > created_at && used <= server.clock.at);
  server.store.apiKeys.flushUses();
  assert.equal(await list(at), [{ ...item, last_used_at: used }]);

  const gone = await revoke(at, id);
  assert.equal({ status: gone.status, text: gone.text }, { status: 200, text: '"revoked"' });
  assert.not(await works(key));
  assert.equal(await list(at), []);
  await withoutTrace(async () => {
    for (const answering of [get(at, id), revoke(at, id), rotate(at, id)]) await refused(answering, 404, UNKNOWN);
  });
  assert.equal(audit(at), [
    ["api_key.created", { account: "bot", key_id: id, description: "ci", expires_at: 4_102_444_800 }],
    ["api_key.revoked", { account: "bot", key_id: id, description: "ci" }],
  ]);
});

test("absent, null and 0 mean that a key never expires", async () => {
  const at = given();
  for (const expiry of [{}, { expires_at: null }, { expires_at: 0 }]) {
    const { status, body } = await mint(at, { description: "x".repeat(256), ...expiry });
    assert.equal({ status, expires_at: body.expires_at }, { status: 201, expires_at: 0 });
  }
  server.clock.at += 100 * 365 * 86_400;
  assert.is((await list(at)).length, 3);
});

test("a key expires to the second and is unknown from then on", async () => {
  const at = given();
  const end = server.clock.at + 1_000;
  const { id, key } = (await mint(at, { description: "d", expires_at: end })).body;
  server.clock.at = end - 10;
  assert.ok(await works(key));
  server.clock.at = end - 1;
  assert.not(await works(key));
  assert.equal(await list(at), []);
  for (const answering of [get(at, id), revoke(at, id), rotate(at, id)]) await refused(answering, 404, UNKNOWN);
});

/** Runs the scheduler's minute task, at the time of the clock unless another one is given. */
const closeKeys = (now: () => number = () => server.clock.at): Promise<number> =>
  closeExpiredKeys({ store: server.store, writer: server.writer, endedBy: now });

test("an expired key stays expired when the clock is set back, and the audit log records the expiry", async () => {
  const at = given();
  const end = Math.floor(server.clock.at) + 1_000;
  const { id, key } = (await mint(at, { description: "d", expires_at: end })).body;
  const other = (await mint(at, { description: "never ends" })).body;
  assert.is(await closeKeys(), 0);
  const before = server.clock.at;
  server.clock.at = end;
  assert.is(await closeKeys(), 1);
  assert.is(await closeKeys(), 0, "once");
  server.clock.at = before;
  assert.equal(
    { "works(key)": await works(key), "works other.key": await works(other.key) },
    { "works(key)": false, "works other.key": true },
  );
  assert.is(row(id)["revoked_at"], end);
  assert.equal(
    audit(at).filter(([event]) => event === "api_key.lapsed"),
    [["api_key.lapsed", { account: "bot", key_id: id, ended_at: end }]],
  );
  const { actor_kind, actor_name } = server.db
    .prepare("SELECT actor_kind, actor_name FROM audit_log WHERE event = 'api_key.lapsed' AND target = ?")
    .get(id) as Record<string, string>;
  assert.equal({ actor_kind, actor_name }, { actor_kind: "operator", actor_name: "scheduler" });
});

test("a rotated key is revoked at the end of its grace period even without its job, as are keys of users", async () => {
  const at = given();
  const old = (await mint(at)).body;
  const { grace_period_expires_at: end, key: next } = (await rotate(at, old.id)).body;
  server.db.exec("DELETE FROM jobs");
  const user = server.given.user(at.org, "member");
  server.db.prepare("UPDATE api_keys SET expires_at = ? WHERE digest = ?").run(end - 10, keyDigest(user));
  server.clock.at = end - 5;
  assert.is(await closeKeys(), 1);
  server.clock.at = end;
  assert.is(await closeKeys(), 1);
  assert.is(row(old.id)["revoked_at"], end);
  server.clock.at = end - 1_000;
  assert.equal(
    { "works key": await works(old.key), "works next": await works(next) },
    { "works key": false, "works next": true },
  );
  assert.is(server.store.apiKeys.find(keyDigest(user))?.revoked_at, end - 10);
});

test("a clock that runs ahead revokes no key, neither by the scheduler nor by the job of a rotation", async () => {
  const at = given();
  const end = Math.floor(server.clock.at) + 100_000;
  const expiring = (await mint(at, { description: "d", expires_at: end })).body;
  const rotated = (await mint(at)).body;
  await rotate(at, rotated.id);
  const trusted = server.clock.at;
  assert.is(await closeKeys(() => trusted), 0);
  let fast = trusted;
  const handlers = createKeyExpiry({
    store: server.store,
    writer: server.writer,
    trustedNow: () => trusted,
    now: () => fast,
  });
  const graceEnd = row(rotated.id)["grace_period_expires_at"] as number;
  const job = server.db
    .prepare("SELECT payload_json FROM jobs WHERE kind = 'lapse_key' AND due_at = ?")
    .pluck()
    .get(graceEnd) as string;
  const settle = await handlers.expireKey(JSON.parse(job));
  assert.is(typeof settle === "function" && settle(), graceEnd, "the job comes again at the end of the grace period");
  fast = graceEnd + 1;
  assert.is(typeof settle === "function" && settle(), fast + 60, "not at once by the clock by which jobs are due");
  assert.equal(
    {
      "expiring key revoked at": row(expiring.id)["revoked_at"],
      "rotated key revoked at": row(rotated.id)["revoked_at"],
    },
    { "expiring key revoked at": null, "rotated key revoked at": null },
  );
  assert.equal(
    { "works expiring.key": await works(expiring.key), "works rotated.key": await works(rotated.key) },
    { "works expiring.key": true, "works rotated.key": true },
  );
});

test("refused bodies leave nothing behind", async () => {
  const at = given();
  const { id } = (await mint(at)).body;
  const past = Math.floor(server.clock.at) - 10;
  const long = "x".repeat(257);
  const integer = (value: unknown) => `Input should be a valid integer [input: ${String(value)}]`;
  const inPast = (value: number) => ({ expires_at: `Expiry must be in the future [input: ${value}]` });
  const table: [unknown, Record<string, string>][] = [
    [{}, { description: "Field required" }],
    [{ description: "" }, { description: "String should have at least 1 character [input: ]" }],
    [{ description: long }, { description: `String should have at most 256 characters [input: ${long}]` }],
    [{ description: "d", expires_at: 1.5 }, { expires_at: integer(1.5) }],
    [{ description: "d", expires_at: "4102444800" }, { expires_at: integer("4102444800") }],
    [
      { description: "d", expires_at: 4_102_444_801 },
      { expires_at: "Input should be less than or equal to 4102444800 [input: 4102444801]" },
    ],
    [{ description: "d", expires_at: past }, inPast(past)],
    [{ description: "d", expires_at: -1 }, inPast(-1)],
    [
      { description: "d", expires: 0, expiresat: 0 },
      { expiresat: "Extra inputs are not permitted. Did you mean 'expires_at'?" },
    ],
  ];
  const rotations: [unknown, Record<string, string>][] = [
    [{ grace_period_hours: 0 }, { grace_period_hours: "Input should be greater than or equal to 1 [input: 0]" }],
    [{ grace_period_hours: 721 }, { grace_period_hours: "Input should be less than or equal to 720 [input: 721]" }],
    [
      { grace_period_hours: 1.5, expires_at: "x" },
      { grace_period_hours: integer(1.5), expires_at: integer("x") },
    ],
    [{ expires_at: past }, inPast(past)],
    [
      { description: "new" },
      { description: "Extra inputs are not permitted [input: new]; possible keys: grace_period_hours, expires_at" },
    ],
  ];
  await withoutTrace(async () => {
    for (const [body, errors] of table)
      await refused(mint(at, body), 400, { message: INVALID, errors }, JSON.stringify(body));
    for (const [body, errors] of rotations)
      await refused(rotate(at, id, body), 400, { message: INVALID, errors }, JSON.stringify(body));
    await refused(mint(at, null), 400, { message: "A JSON body is required: the request has none" });
  });
});

test("responds with 404 to an unknown account, an unknown key, and the key of another account", async () => {
  const at = given();
  account(at, "other", "member", null);
  const { id, key } = (await mint(at, { description: "d" }, "other")).body;
  const personal = server.store.apiKeys.listByOwner({ userId: 1 })[0]?.public_id as string;
  await withoutTrace(async () => {
    for (const name of ["none", "a_b", "x".repeat(100)]) {
      for (const answering of [
        mint(at, undefined, name),
        revoke(at, id, name),
        rotate(at, id, {}, name),
        server.call("GET", keys(at, "", name), { key: at.key }),
      ])
        await refused(answering, 404, NO_ACCOUNT);
    }
    for (const foreign of [id, "nope", personal, key])
      for (const answering of [get(at, foreign), revoke(at, foreign), rotate(at, foreign)])
        await refused(answering, 404, UNKNOWN);
  });
  assert.ok(await works(key));
});

test("unusual expiries in old records do not break lists", async () => {
  const at = given();
  const ids = await Promise.all(Array.from({ length: 5 }, async () => (await mint(at)).body.id as string));
  const soon = Math.floor(server.clock.at) + 5_000;
  const expiries = [1e999, 1.8e12, soon + 0.75, -1e999, 0.5];
  const update = server.db.prepare("UPDATE api_keys SET expires_at = ? WHERE public_id = ?");
  for (const [index, id] of ids.entries()) update.run(expiries[index], id);
  assert.equal(
    (await list(at)).map(({ id, expires_at }) => [id, expires_at]),
    [
      [ids[0], 0],
      [ids[1], 1.8e12],
      [ids[2], soon],
    ],
  );
  // The new key gets the same expiry.
  const rotated = await rotate(at, ids[1] as string);
  assert.equal({ status: rotated.status, expires_at: rotated.body.expires_at }, { status: 201, expires_at: 1.8e12 });
});

test("rotation keeps both keys valid until the grace period ends, then revokes the old one", async () => {
  const at = given();
  const old = (await mint(at, { description: "deploy" })).body;
  const rotated = await rotate(at, old.id, { grace_period_hours: 2 });
  const { id, key, api_key, created_at, grace_period_expires_at: end, ...rest } = rotated.body;
  assert.equal(
    { status: rotated.status, rest, api_key },
    { status: 201, rest: { description: "deploy", expires_at: 0 }, api_key: key },
  );
  assert.not.equal([id, key], [old.id, old.key]);
  assert.ok(Math.abs(end - created_at - 2 * HOUR) < 5, `${end}`);
  assert.equal(await list(at), [
    {
      id: old.id,
      description: "deploy",
      created_at: old.created_at,
      expires_at: 0,
      last_used_at: 0,
      grace_period_expires_at: end,
    },
    { id, description: "deploy", created_at, expires_at: 0, last_used_at: 0 },
  ]);
  assert.equal((await get(at, old.id)).body.grace_period_expires_at, end);
  for (const one of [old.key, key]) assert.ok(await works(one));
  await server.settled();
  assert.is(row(old.id)["revoked_at"], null);

  server.clock.at = end - 10;
  assert.ok(await works(old.key));
  server.clock.at = end;
  // The job did not run yet: the expiry alone is enough.
  assert.equal(
    { "old key": await works(old.key), "works(key)": await works(key) },
    { "old key": false, "works(key)": true },
  );
  assert.equal(
    (await list(at)).map((item) => item["id"]),
    [id],
  );
  await refused(rotate(at, old.id), 404, UNKNOWN);
  await server.settled();
  assert.equal(row(old.id), { revoked_at: end, grace_period_expires_at: end, replaced_by: id });
  assert.equal(row(id)["revoked_at"], null);
  assert.is(server.db.prepare("SELECT count(*) FROM jobs").pluck().get(), 0);
  assert.equal(audit(at).slice(1), [
    [
      "api_key.rotated",
      { account: "bot", key_id: old.id, new_key_id: id, expires_at: 0, grace_period_expires_at: end },
    ],
    ["api_key.lapsed", { account: "bot", key_id: old.id }],
  ]);
  const lapsed = server.db.prepare("SELECT actor_name, operation FROM audit_log WHERE event = 'api_key.lapsed'").get();
  assert.equal(lapsed, { actor_name: `${at.org}-admin`, operation: "rotate_service_account_api_key" });
});

test("the grace period is a day by default, also without a body and with null", async () => {
  const at = given();
  for (const body of [undefined, null, {}]) {
    const { id } = (await mint(at)).body;
    const { status, body: made } = await server.call("POST", keys(at, `/${id}/rotate`), {
      key: at.key,
      ...(body === undefined ? {} : { body }),
    });
    assert.is(status, 201);
    assert.ok(Math.abs(made.grace_period_expires_at - made.created_at - 24 * HOUR) < 5);
  }
});

test("the new key inherits the old expiry by default, and the grace period never outlives the key", async () => {
  const at = given();
  const end = server.clock.at + 10 * HOUR;
  const table: [unknown, number][] = [
    [{}, end],
    [{ expires_at: null }, end],
    [{ expires_at: 0 }, 0],
    [{ expires_at: 4_102_444_800 }, 4_102_444_800],
  ];
  for (const [body, expected] of table) {
    const { id, key } = (await mint(at, { description: "d", expires_at: end })).body;
    const rotated = (await rotate(at, id, body)).body;
    assert.equal(
      { expires_at: rotated.expires_at, grace_period_expires_at: rotated.grace_period_expires_at },
      { expires_at: expected, grace_period_expires_at: end },
    );
    assert.ok(await works(key));
  }
  server.clock.at = end;
  await server.settled();
  assert.equal(
    (await list(at)).map(({ expires_at }) => expires_at),
    [0, 4_102_444_800],
  );
});

test("a key is replaced once: a repeated rotation names the replacement while that is valid", async () => {
  const at = given();
  const old = (await mint(at)).body;
  const first = (await rotate(at, old.id, { grace_period_hours: 1 })).body;
  const message = `API key '${old.id}' has already been rotated: its replacement is '${first.id}'`;
  await withoutTrace(() => refused(rotate(at, old.id, { grace_period_hours: 720 }), 400, { message }));
  // For example after a lost response: the replacement can be rotated or revoked like any other key.
  await revoke(at, first.id);
  const second = await rotate(at, old.id, { grace_period_hours: 720 });
  assert.is(second.status, 201);
  assert.is(second.body.grace_period_expires_at, first.grace_period_expires_at, "an announced end is never moved");
  server.clock.at = first.grace_period_expires_at;
  assert.equal(
    {
      "old key": await works(old.key),
      "first replacement": await works(first.key),
      "second replacement": await works(second.body.key),
    },
    { "old key": false, "first replacement": false, "second replacement": true },
  );
  await server.settled();
  assert.is(audit(at).filter(([event]) => event === "api_key.lapsed").length, 1);
});

test("a key revoked in its grace period stops working at once, and its job does nothing", async () => {
  const at = given();
  const old = (await mint(at)).body;
  const { grace_period_expires_at: end } = (await rotate(at, old.id)).body;
  assert.is((await revoke(at, old.id)).status, 200);
  assert.not(await works(old.key));
  const revokedAt = row(old.id)["revoked_at"];
  server.clock.at = end;
  await server.settled();
  assert.is(row(old.id)["revoked_at"], revokedAt);
  assert.not(audit(at).some(([event]) => event === "api_key.lapsed"));
  // The job of a key that was deleted with its account does nothing either.
  const other = (await mint(at)).body;
  const rotated = (await rotate(at, other.id)).body;
  await server.call("DELETE", `/service-accounts/${at.org}/bot`, { key: at.key });
  server.clock.at = rotated.grace_period_expires_at;
  await server.settled();
  assert.is(server.db.prepare("SELECT count(*) FROM jobs").pluck().get(), 0);
});

test("of fifty concurrent rotations of one key one creates a key, and the others name it", async () => {
  const at = given();
  const { id } = (await mint(at)).body;
  const answers = await Promise.all(Array.from({ length: 50 }, () => rotate(at, id)));
  const made = answers.filter(({ status }) => status === 201);
  assert.is(made.length, 1);
  const message = `API key '${id}' has already been rotated: its replacement is '${made[0]?.body.id}'`;
  for (const { status, body } of answers)
    if (status !== 201) assert.equal({ status, body }, { status: 400, body: { message } });
  assert.is((await list(at)).length, 2);
});

test("fifty concurrent creations give fifty keys", async () => {
  const at = given();
  const answers = await Promise.all(Array.from({ length: 50 }, () => mint(at)));
  assert.equal(
    answers.map(({ status }) => status),
    Array<number>(50).fill(201),
  );
  assert.is(new Set(answers.flatMap(({ body }) => [body.id, body.key])).size, 100);
  assert.is((await list(at)).length, 50);
});

test("each role may manage the keys of exactly the accounts it should", async () => {
  const reads: Record<Role, number> = { admin: 200, member: 200, snapshotter: 200, reader: 403 };
  const at = server.given.org();
  for (const kind of ["user", "service_account"] as const) {
    for (const role of ROLES) {
      const caller = {
        org: at.org,
        key: kind === "user" ? server.given.user(at.org, role) : server.given.serviceAccount(at.org, role),
      };
      for (const own of [true, false]) {
        const name = fresh("bot");
        account(at, name, "reader", own ? caller : null);
        const [one, two] = [
          (await mint(at, undefined, name)).body.id,
          (await mint(at, undefined, name)).body.id,
        ] as string[];
        const seen = [
          await server.call("GET", keys(caller, "", name), { key: caller.key }),
          await server.call("GET", keys(caller, `/${one}`, name), { key: caller.key }),
          await mint(caller, undefined, name),
          await rotate(caller, one as string, {}, name),
          await revoke(caller, two as string, name),
        ];
        const may = role === "admin" || (own && role !== "reader");
        assert.equal(
          seen.map(({ status }) => status),
          [reads[role], reads[role], ...(may ? [201, 201, 200] : [403, 403, 403])],
          `${kind} ${role} ${own ? "own" : "other"}`,
        );
        for (const { status, body } of seen) if (status === 403) assert.equal(body, DENIED);
        assert.is((await list(at, name)).length, may ? 3 : 2);
      }
    }
  }
});

test("no caller can get a key that is more powerful than their role", async () => {
  const at = server.given.org();
  const name = fresh("user");
  const userKey = server.given.user(at.org, "member");
  const member = { org: at.org, key: userKey };
  account(at, "raised", "member", member);
  const { id } = (await mint(member, undefined, "raised")).body;
  // An admin raises the account above its creator.
  const raised = await server.call("PATCH", `/service-accounts/${at.org}/raised`, {
    key: at.key,
    body: { privilege: "admin" },
  });
  assert.is(raised.status, 200);
  await withoutTrace(async () => {
    for (const answering of [mint(member, undefined, "raised"), rotate(member, id, {}, "raised")])
      await refused(answering, 403, DENIED);
  });
  // The creator can still revoke its keys.
  assert.is((await revoke(member, id, "raised")).status, 200);
  assert.is((await server.call("DELETE", `/service-accounts/${at.org}/raised`, { key: member.key })).status, 200);

  // The creator is lowered.
  account(at, name, "member", member);
  const own = (await mint(member, undefined, name)).body.id;
  const holder = server.store.apiKeys.findHolder(keyDigest(userKey))?.user_id as number;
  server.store.organizations.setRole(organizationId(at), { id: holder }, { role: "snapshotter", changedBy: "test" });
  await withoutTrace(async () => {
    for (const answering of [mint(member, undefined, name), rotate(member, own, {}, name)])
      await refused(answering, 403, DENIED);
  });
});

test("refuses a request whose rights end while its body arrives", async () => {
  const at = given();
  const answerTo = async (key: string, change: () => void): Promise<{ status: number; body: unknown }> => {
    const body = JSON.stringify({ description: "d" });
    const wire = await dial(server.url);
    try {
      await wire.send(
        `POST /api/v2${keys(at)} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nContent-Type: ` +
          `application/json\r\nContent-Length: ${body.length}\r\n\r\n${body.slice(0, 5)}`,
      );
      // It was authenticated: the key's last use is recorded.
      await until("the request was authorized", () => server.store.apiKeys.hasUnwrittenUses());
      change();
      await wire.send(body.slice(5));
      const { status, body: answer } = await wire.answer();
      return { status, body: answer };
    } finally {
      wire.vanish();
    }
  };
  const begin = (role: Role) => {
    const key = server.given.user(at.org, role);
    server.store.apiKeys.flushUses();
    const id = server.store.apiKeys.findHolder(keyDigest(key))?.user_id as number;
    return { key, id };
  };
  const [removed, lowered, revoked] = [begin("admin"), begin("admin"), begin("admin")];
  await withoutTrace(async () => {
    assert.equal(
      await answerTo(revoked.key, () => {
        server.db.prepare("UPDATE api_keys SET revoked_at = 1 WHERE user_id = ?").run(revoked.id);
      }),
      { status: 401, body: UNAUTHENTICATED },
    );
    server.db.prepare("UPDATE api_keys SET revoked_at = NULL WHERE user_id = ?").run(revoked.id);
  });
  const before = await list(at);
  server.store.apiKeys.flushUses();
  assert.equal(
    await answerTo(
      removed.key,
      () => void server.store.organizations.removeMember(organizationId(at), removed, { changedBy: "test" }),
    ),
    { status: 403, body: DENIED },
  );
  server.store.apiKeys.flushUses();
  // The role at the time of the key's creation counts.
  assert.equal(
    await answerTo(
      lowered.key,
      () => void server.store.organizations.setRole(organizationId(at), lowered, { role: "member", changedBy: "test" }),
    ),
    { status: 403, body: DENIED },
  );
  assert.equal(await list(at), before);
  assert.equal(audit(at), []);
});

test("refuses a caller whose account is deleted during a read", async () => {
  const at = given();
  const { key } = (await mint(at)).body;
  server.store.apiKeys.flushUses();
  const wire = await dial(server.url);
  await wire.send(
    `GET /api/v2/user/default-org HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nContent-Length: 4\r\n\r\nnu`,
  );
  await until("the request was authorized", () => server.store.apiKeys.hasUnwrittenUses());
  await server.call("DELETE", `/service-accounts/${at.org}/bot`, { key: at.key });
  await wire.send("ll");
  const answer = await wire.answer();
  wire.vanish();
  assert.equal({ status: answer.status, body: answer.body }, { status: 401, body: UNAUTHENTICATED });
});

test("the text of a key is in its one response and in no log, table or audit entry", async () => {
  const at = given();
  const made = (await mint(at)).body;
  const rotated = (await rotate(at, made.id)).body;
  for (const key of [made.key, rotated.key]) assert.ok(await works(key));
  server.clock.at = rotated.grace_period_expires_at;
  await server.settled();
  server.store.apiKeys.flushUses();
  const image = server.db.serialize();
  const log = server.lines.join("\n");
  const seen = JSON.stringify([await list(at), (await get(at, rotated.id)).body]);
  for (const key of [made.key, rotated.key] as string[]) {
    assert.ok(image.includes(keyDigest(key)));
    for (const form of [key, Buffer.from(key).toString("base64").slice(0, 40), Buffer.from(key, "base64url")])
      assert.not.ok(image.includes(form));
    assert.not.ok(log.includes(key) || seen.includes(key));
  }
});

test("lists the keys of all accounts that expire soon, the next one first", async () => {
  const at = given();
  const elsewhere = given();
  account(at, "cron", "reader", null);
  const now = server.clock.at;
  const DAY = 24 * HOUR;
  const add = async (name: string, description: string, expires_at: number, where = at) =>
    (await mint(where, { description, expires_at }, name)).body as Record<string, any>;
  const later = await add("bot", "later", now + 20 * DAY);
  const soon = await add("cron", "soon", now + 2 * DAY);
  await add("bot", "never", 0);
  await add("bot", "elsewhere", now + DAY, elsewhere);
  const revoked = await add("bot", "revoked", now + DAY);
  await revoke(at, revoked["id"]);
  const rotated = await add("bot", "rotated", now + DAY);
  const { body: next } = await rotate(at, rotated["id"]);
  await add("bot", "expired", now + 60);
  server.clock.at += HOUR;
  const ask = (query = "", key = at.key) => server.call("GET", `/expiring-api-keys/${at.org}${query}`, { key });
  const shown = (service_account: string, key: Record<string, any>) => ({
    id: key["id"],
    service_account,
    description: key["description"],
    created_at: key["created_at"],
    expires_at: key["expires_at"],
  });
  const first = [shown("bot", next), shown("cron", soon)];
  const { status, body } = await ask();
  assert.equal({ status, body }, { status: 200, body: first });
  assert.equal((await ask("?within_days=30")).body, [...first, shown("bot", later)]);
  assert.equal((await ask("?within_days=1")).body, first.slice(0, 1));
  for (const query of ["?within_days=0", "?within_days=367", "?within_days=x"])
    assert.is((await ask(query)).status, 400);
  for (const role of ROLES)
    assert.is((await ask("", server.given.user(at.org, role))).status, role === "admin" ? 200 : 403, role);
});

test.run();
