/** API keys of one's own account: no key outlives the key that made it. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { MAX_EXPIRY_S } from "../../../src/domain/time.ts";
import { newSecret } from "../../../src/clock.ts";
import { keyDigest } from "../../../src/store/accounts/api-keys.ts";
import { fresh, startServer } from "../../given.ts";
import type { Answer, TestServer } from "../../given.ts";
import { UNAUTHENTICATED, entriesOf, invalid, refused, signIn } from "../administration.ts";

const test = suite("api/accounts/own-api-keys");
let server: TestServer;
test.before.each(async () => void (server = await startServer()));
test.after.each(() => server.stop());

const HOUR = 3600;
const UNKNOWN = { status: 404, body: { message: "API key not found" } };

type User = { name: string; id: number; call(method: string, path: string, body?: unknown): Promise<Answer> };

/** A user with a session. */
function aUser(): User {
  const name = fresh("user");
  const id = server.store.users.create({ name, displayName: "", email: null });
  const { call } = signIn(server, id);
  return { name, id, call: (method, path, body) => call(method, path, body === undefined ? {} : { body }) };
}
/** The same user with a key. */
function withKey({ name, id }: User, expiresAt = 0): User & { key: string; keyId: string } {
  const key = newSecret();
  const keyId = server.store.apiKeys.create({ userId: id }, { digest: keyDigest(key), description: "mine", expiresAt });
  return {
    name,
    id,
    key,
    keyId,
    call: (method, path, body) => server.call(method, path, body === undefined ? { key } : { key, body }),
  };
}
const list = async (user: User) => (await user.call("GET", "/user/api-keys")).body as Record<string, unknown>[];
const create = (user: User, body: unknown = { description: "laptop" }) => user.call("POST", "/user/api-keys", body);
const rotate = (user: User, id: string, body: unknown = {}) => user.call("POST", `/user/api-keys/${id}/rotate`, body);
const revoke = (user: User, id: string) => user.call("DELETE", `/user/api-keys/${id}`);
const works = async (key: string) => (await server.call("GET", "/user/default-org", { key })).status === 200;

test("shows a new key once, accepts it at once, lists it without its text and revokes it", async () => {
  const user = aUser();
  let made: Record<string, unknown> = {};
  const entries = await entriesOf(server, async () => {
    const { status, body } = await create(user, { description: "laptop", expires_at: MAX_EXPIRY_S });
    assert.is(status, 201);
    made = body;
  });
  const { key, id, created_at } = made as { key: string; id: string; created_at: number };
  assert.equal(made, { id, key, description: "laptop", created_at, expires_at: MAX_EXPIRY_S });
  const [detail, common] = [{ key_id: id, description: "laptop" }, { actor_name: user.name }];
  assert.equal(entries, [
    {
      event: "api_key.created",
      target: "/api/v2/user/api-keys",
      operation: "create_user_api_key",
      ...common,
      detail: { ...detail, expires_at: MAX_EXPIRY_S },
    },
  ]);
  assert.equal(await list(user), [
    { id, description: "laptop", created_at, expires_at: MAX_EXPIRY_S, last_used_at: 0 },
  ]);
  assert.ok(await works(key));
  assert.ok(((await list(user))[0]?.["last_used_at"] as number) > created_at);
  const gone = await entriesOf(server, async () => assert.equal((await revoke(user, id)).body, "revoked"));
  assert.equal(gone, [
    {
      event: "api_key.revoked",
      target: `/api/v2/user/api-keys/${id}`,
      operation: "delete_user_api_key",
      ...common,
      detail,
    },
  ]);
  assert.not(await works(key));
  assert.equal(await list(user), []);
  for (const ask of [() => revoke(user, id), () => rotate(user, id)]) await refused(server, ask, UNKNOWN);
});

test("rotates a key: both work during the grace period, then the new one alone", async () => {
  const user = aUser();
  const { body: old } = await create(user);
  let next: Record<string, unknown> = {};
  const entries = await entriesOf(server, async () => {
    const { status, body } = await rotate(user, old.id, { grace_period_hours: 2 });
    assert.is(status, 201);
    next = body;
  });
  const ends = next["grace_period_expires_at"] as number;
  assert.equal(next, {
    id: next["id"],
    description: "laptop",
    created_at: next["created_at"],
    expires_at: 0,
    key: next["key"],
    api_key: next["key"],
    grace_period_expires_at: ends,
  });
  assert.equal(entries[0]?.detail, {
    key_id: old.id,
    new_key_id: next["id"],
    expires_at: 0,
    grace_period_expires_at: ends,
  });
  assert.equal([entries.length, entries[0]?.event], [1, "api_key.rotated"]);
  await refused(server, () => rotate(user, old.id), {
    status: 400,
    body: { message: `API key '${old.id}' has already been rotated: its replacement is '${next["id"]}'` },
  });
  assert.equal([await works(old.key), await works(next["key"] as string)], [true, true]);
  server.clock.at = ends;
  const lapsed = await entriesOf(server, async () => {
    server.runner.wake();
    await server.settled();
  });
  assert.equal(
    lapsed.map(({ event, actor_name }) => [event, actor_name]),
    [["api_key.lapsed", user.name]],
  );
  assert.equal([await works(old.key), await works(next["key"] as string)], [false, true]);
});

test("a key that expires makes no key that expires later, and a session does", async () => {
  const user = aUser();
  const end = server.clock.at + 10 * HOUR;
  const short = withKey(user, end);
  const late = (input: number) =>
    invalid({
      expires_at: [
        `Expiry must not be later than that of the key of this request (${end}),`,
        `unless you sign in [input: ${input}]`,
      ].join(" "),
    });
  for (const body of [
    { description: "x" },
    { description: "x", expires_at: 0 },
    { description: "x", expires_at: null },
  ])
    await refused(server, () => create(short, body), late(0));
  await refused(server, () => create(short, { description: "x", expires_at: end + 1 }), late(end + 1));
  assert.is((await create(short, { description: "x", expires_at: end })).status, 201);
  await refused(server, () => rotate(short, short.keyId, { expires_at: 0 }), late(0));
  await refused(server, () => rotate(short, short.keyId, { expires_at: end + 1 }), late(end + 1));
  // Nor may it give a longer life to another key of the user.
  const forever = withKey(user);
  await refused(server, () => rotate(short, forever.keyId), late(0));
  const { status, body } = await rotate(short, short.keyId, { grace_period_hours: 1 });
  assert.equal([status, body.expires_at], [201, end]);
  // The rotated key ends with its grace period, and so does what it makes.
  const graceEnd = Math.floor(body.grace_period_expires_at);
  await refused(
    server,
    () => create(short, { description: "x", expires_at: end }),
    invalid({
      expires_at:
        `Expiry must not be later than that of the key of this request (${graceEnd}), ` +
        `unless you sign in [input: ${end}]`,
    }),
  );
  assert.is((await create(forever)).status, 201);
  assert.is((await create(user)).status, 201);
});

test("keys of others, and keys that have expired, are unknown", async () => {
  const [user, other] = [aUser(), aUser()];
  const { keyId } = withKey(other);
  const { keyId: expired } = withKey(user, server.clock.at + 1);
  server.clock.at += 60;
  for (const id of [keyId, expired, "no-such-key"])
    for (const ask of [() => revoke(user, id), () => rotate(user, id)]) await refused(server, ask, UNKNOWN);
  assert.equal(await list(user), []);
  assert.ok(await works(withKey(other).key));
});

test("refuses service accounts, strangers, invalid fields, and the hundred-and-first key", async () => {
  const { org } = server.given.org();
  const key = server.given.serviceAccount(org, "admin");
  const own = {
    status: 403,
    body: {
      message: "A service account has no keys of its own here: use /service-accounts/{org}/{name}/api-keys",
    },
  };
  const paths = [
    ["GET", "/user/api-keys"],
    ["POST", "/user/api-keys"],
    ["DELETE", "/user/api-keys/x"],
    ["POST", "/user/api-keys/x/rotate"],
  ] as const;
  for (const [method, path] of paths) {
    const body = path.endsWith("rotate") ? {} : { description: "x" };
    const options = method === "POST" ? { body } : {};
    await refused(server, () => server.call(method, path, { key, ...options }), own);
    await refused(server, () => server.call(method, path, options), { status: 401, body: UNAUTHENTICATED });
  }
  const user = aUser();
  for (const body of [{}, { description: "" }, { description: "x".repeat(257) }, { description: "x", expires_at: 1 }])
    await refused(server, async () => ({ ...(await create(user, body)), body: null }), { status: 400, body: null });
  for (let count = 0; count < 100; count += 1) withKey(user);
  const full = {
    status: 400,
    body: { message: "You have 100 valid API keys, which is the maximum: revoke one first" },
  };
  await refused(server, () => create(user), full);
  const first = (await list(user))[0]?.["id"] as string;
  await refused(server, () => rotate(user, first), full);
  await revoke(user, first);
  assert.is((await create(user)).status, 201);
});

test("a key may revoke itself", async () => {
  const mine = withKey(aUser());
  assert.is((await revoke(mine, mine.keyId)).status, 200);
  assert.not(await works(mine.key));
});

test.run();
