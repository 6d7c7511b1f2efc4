/** Who a request acts as, and when its credential ends. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { keyDigest } from "../../../src/store/accounts/api-keys.ts";
import { cookieDigest } from "../../../src/store/accounts/sessions.ts";
import { fresh, startServer } from "../../given.ts";
import type { TestServer } from "../../given.ts";
import { holdings } from "../../http/socket.ts";

const test = suite("api/accounts/principal");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

const HOUR = 3600;
const UNAUTHENTICATED = { message: "Authentication credentials are missing or invalid" };

const byKey = (key: string | null) => server.call("GET", "/principal", { key });
const bySession = (cookie: string) => server.call("GET", "/principal", { headers: { Cookie: `assay=${cookie}` } });

async function refused(answering: ReturnType<typeof byKey>, what = ""): Promise<void> {
  const before = holdings(server);
  const { status, body, headers } = await answering;
  assert.equal({ status, body }, { status: 401, body: UNAUTHENTICATED }, what);
  assert.equal(headers.get("WWW-Authenticate"), 'Bearer realm="assay", Basic realm="assay", charset="UTF-8"', what);
  assert.equal(holdings(server), before, what);
}

function givenUser(displayName = ""): { name: string; userId: number } {
  const name = fresh("person");
  return { name, userId: server.store.users.create({ name, displayName, email: null }) };
}
/** A key of that user. */
function givenKey(userId: number, expiresAt = 0): { id: string; key: string; createdAt: number } {
  const key = fresh("key");
  const id = server.store.apiKeys.create({ userId }, { digest: keyDigest(key), description: "laptop", expiresAt });
  return { id, key, createdAt: server.clock.at };
}
/** A session of that user, which ends after an hour without use. */
function givenSession(userId: number, lifetime = 24 * HOUR): { id: string; cookie: string; createdAt: number } {
  const cookie = fresh("cookie");
  const id = server.store.sessions.create({
    digest: cookieDigest(cookie),
    csrfToken: fresh("token"),
    userId,
    method: "password",
    address: "a",
    userAgent: "b",
    idleTimeoutS: HOUR,
    lifetimeS: lifetime,
  });
  return { id, cookie, createdAt: server.store.sessions.find(id)?.created_at as number };
}
/** A service account with a key that the API made. */
async function givenBot(body: object): Promise<{ name: string; keys: string; admin: string; made: any }> {
  const { org, key: admin } = server.given.org();
  const name = fresh("bot");
  server.store.serviceAccounts.create({
    organizationId: server.store.organizations.find(org)?.id as number,
    name,
    description: "Builds",
    privilege: "reader",
    creatingUserId: "",
  });
  const keys = `/service-accounts/${org}/${name}/api-keys`;
  const { status, body: made } = await server.call("POST", keys, { key: admin, body: { description: "ci", ...body } });
  assert.is(status, 201);
  return { name, keys, admin, made };
}

test("the key of a user names the user; one that never expires has null", async () => {
  const { name, userId } = givenUser("Ada Lovelace");
  const { id, key, createdAt } = givenKey(userId);
  const { status, body } = await byKey(key);
  assert.equal(
    { status, body },
    {
      status: 200,
      body: {
        kind: "user",
        name,
        display_name: "Ada Lovelace",
        credential: { kind: "api_key", id, description: "laptop", created_at: createdAt, expires_at: null },
      },
    },
  );
});

test("a user without a display name, who is in no organization, is shown by name", async () => {
  const { name, userId } = givenUser();
  const { body } = await byKey(givenKey(userId).key);
  assert.equal({ name: body.name, display_name: body.display_name }, { name, display_name: name });
});

test("the key of a service account names the account, and when the key expires", async () => {
  const expiresAt = server.clock.at + 30 * 24 * HOUR;
  const { name, made } = await givenBot({ expires_at: expiresAt });
  const { status, body } = await byKey(made.key);
  assert.equal(
    { status, body },
    {
      status: 200,
      body: {
        kind: "service_account",
        name,
        display_name: name,
        credential: {
          kind: "api_key",
          id: made.id,
          description: "ci",
          created_at: made.created_at,
          expires_at: expiresAt,
        },
      },
    },
  );
});

test("a rotated key expires with its grace period, its replacement when the old one would have", async () => {
  const expiresAt = server.clock.at + 30 * 24 * HOUR;
  for (const [expiry, shown] of [
    [0, null],
    [expiresAt, expiresAt],
  ] as const) {
    const { keys, admin, made } = await givenBot({ expires_at: expiry });
    const { body: next } = await server.call("POST", `${keys}/${made.id}/rotate`, {
      key: admin,
      body: { grace_period_hours: 2 },
    });
    const old = (await byKey(made.key)).body.credential;
    assert.equal({ id: old.id, expires_at: old.expires_at }, { id: made.id, expires_at: next.grace_period_expires_at });
    const { id, expires_at } = (await byKey(next.key)).body.credential;
    assert.equal({ id, expires_at }, { id: next.id, expires_at: shown });
  }
});

test("odd ends in old records are whole seconds or null", async () => {
  const { userId } = givenUser();
  const soon = Math.floor(server.clock.at) + HOUR;
  for (const { stored, shown } of [
    { stored: 1e999, shown: null },
    { stored: soon + 0.75, shown: soon },
  ]) {
    const { id, key } = givenKey(userId);
    server.db.prepare("UPDATE api_keys SET expires_at = ? WHERE public_id = ?").run(stored, id);
    const { status, body } = await byKey(key);
    assert.equal({ status, expires_at: body.credential?.expires_at }, { status: 200, expires_at: shown });
  }
});

test("a session names its user, has no description, and ends after its lifetime", async () => {
  const { name, userId } = givenUser("Grace Hopper");
  const { id, cookie, createdAt } = givenSession(userId);
  const { status, body } = await bySession(cookie);
  assert.equal(
    { status, body },
    {
      status: 200,
      body: {
        kind: "user",
        name,
        display_name: "Grace Hopper",
        credential: {
          kind: "session",
          id,
          description: null,
          created_at: createdAt,
          expires_at: createdAt + 24 * HOUR,
        },
      },
    },
  );
});

test("an answer holds no secret, and is not given to another caller", async () => {
  const { userId } = givenUser();
  const [one, other] = [givenKey(userId), givenKey(userId)];
  const { cookie } = givenSession(userId);
  const answers = [await byKey(one.key), await byKey(other.key), await bySession(cookie)];
  assert.is(new Set(answers.map(({ body }) => body.credential.id)).size, 3);
  for (const { text } of answers)
    for (const secret of [one.key, other.key, cookie])
      assert.not.ok(text.includes(`"${secret}"`) || text.includes(keyDigest(secret).toString("hex")), text);
});

test("without a credential, and with an unknown, expired or revoked key, the answer is 401", async () => {
  const { userId } = givenUser();
  await refused(byKey(null), "none");
  await refused(byKey("unknown"), "unknown");
  const revoked = givenKey(userId);
  assert.is((await byKey(revoked.key)).status, 200);
  server.store.apiKeys.revoke(revoked.id);
  await refused(byKey(revoked.key), "revoked");
  const expiring = givenKey(userId, server.clock.at + HOUR);
  assert.is((await byKey(expiring.key)).status, 200);
  server.clock.at += HOUR;
  await refused(byKey(expiring.key), "expired");
});

test("an unknown session, and one that was ended, idle or past its lifetime, is refused", async () => {
  const { userId } = givenUser();
  await refused(bySession("unknown"), "unknown");
  const [ended, idle] = [givenSession(userId), givenSession(userId)];
  assert.is((await bySession(ended.cookie)).status, 200);
  server.store.sessions.end(ended.id);
  await refused(bySession(ended.cookie), "ended");
  server.clock.at += HOUR + 10;
  await refused(bySession(idle.cookie), "idle");
  const short = givenSession(userId, HOUR / 2);
  const { body } = await bySession(short.cookie);
  assert.is(body.credential.expires_at, short.createdAt + HOUR / 2);
  server.clock.at = short.createdAt + HOUR / 2;
  await refused(bySession(short.cookie), "past its lifetime");
});

test("a credential that ends between authentication and the read is refused", async () => {
  const { userId } = givenUser();
  const { apiKeys, sessions } = server.store;
  const [key, session] = [givenKey(userId), givenSession(userId)];
  const [useKey, useSession] = [apiKeys.recordUse, sessions.recordUse];
  try {
    apiKeys.recordUse = (holder) => useKey(holder) && apiKeys.revoke(holder.key_public_id);
    sessions.recordUse = (holder) => useSession(holder) && sessions.end(holder.public_id);
    await refused(byKey(key.key), "key");
    await refused(bySession(session.cookie), "session");
  } finally {
    apiKeys.recordUse = useKey;
    sessions.recordUse = useSession;
  }
});

test.run();
