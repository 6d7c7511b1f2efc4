/** API keys: the two ways in which they arrive, and all that is not a valid one (http-api-v2 5). */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { operations } from "../../src/api/index.ts";
import { keyDigest } from "../../src/store/accounts/api-keys.ts";
import { EPOCH, fresh, startServer } from "../given.ts";
import type { Answer, TestServer } from "../given.ts";
import { exchange, holdings } from "./socket.ts";
import { newSecret } from "../../src/clock.ts";

const test = suite("http/authenticate");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

const UNAUTHENTICATED = { message: "Authentication credentials are missing or invalid" };
const CHALLENGE = 'Bearer realm="assay", Basic realm="assay", charset="UTF-8"';
const DENIED = { message: "You don't have permission to access this resource" };
const basic = (text: string): string => `Basic ${Buffer.from(text).toString("base64")}`;

/** Calls an operation that needs a key and nothing else. */
const callWithKey = (authorization: string | null): Promise<Answer> =>
  server.call("GET", "/user/default-org", { headers: authorization === null ? {} : { Authorization: authorization } });
const assertAccepted = async (authorization: string, what = authorization): Promise<void> => {
  const answer = await callWithKey(authorization);
  assert.equal(
    { status: answer.status, "WWW-Authenticate": answer.headers.get("WWW-Authenticate") },
    { status: 200, "WWW-Authenticate": null },
    what,
  );
};
const assertRefused = async (authorization: string | null, what = String(authorization)): Promise<void> => {
  const answer = await callWithKey(authorization);
  assert.equal(
    { status: answer.status, body: answer.body, "WWW-Authenticate": answer.headers.get("WWW-Authenticate") },
    { status: 401, body: UNAUTHENTICATED, "WWW-Authenticate": CHALLENGE },
    what,
  );
};

test("accepts a key as bearer token and as user name, in any spelling of the scheme", async () => {
  const { key } = server.given.org();
  for (const scheme of ["Bearer", "bearer", "BEARER", "Bearer  "]) await assertAccepted(`${scheme} ${key}`);
  for (const password of [":", ":anything", ":with:colons:", "", ":pässwörd", `:${"x".repeat(500)}`])
    await assertAccepted(basic(key + password), password);
  for (const scheme of ["basic", "BASIC"]) await assertAccepted(basic(`${key}:`).replace("Basic", scheme));
  await assertAccepted(basic(`${key}:`).replace(/=+$/, ""), "without padding");
});

test("refuses everything that is not a valid key with 401 and a challenge", async () => {
  const { key } = server.given.org();
  await assertRefused(null);
  for (const authorization of [
    "",
    " ",
    "Bearer",
    "Bearer ",
    "Basic",
    key,
    `Token ${key}`,
    `Digest ${key}`,
    `Bearer${key}`,
    `Bearer ${key} x`,
    `Bearer ${key},`,
    `Bearer x ${key}`,
    `Bearer "${key}"`,
    `Bearer ${key}x`,
    `Bearer ${key.slice(0, -1)}`,
    `Bearer ${swapCase(key)}`,
    `Bearer ${key}=`,
    "Bearer null",
    "Bearer undefined",
    `Bearer ${"k".repeat(10_000)}`,
    `Bearer ${keyDigest(key).toString("hex")}`,
    `Bearer ${keyDigest(key).toString("base64")}`,
    "Bearer ' OR 1=1 --",
    "Bearer %00",
    basic(""),
    basic(":"),
    basic(`:${key}`),
    basic(`x:${key}`),
    basic(` ${key}:`),
    basic(`${key} :`),
    basic(`${key}\u0000:`),
    `Basic ${key}`,
    "Basic ====",
    "Basic é",
  ])
    await assertRefused(authorization);
});
const swapCase = (text: string): string =>
  text.replace(/[a-zA-Z]/g, (letter) =>
    letter === letter.toLowerCase() ? letter.toUpperCase() : letter.toLowerCase(),
  );

test("takes the key from the Authorization header, and from no other place", async () => {
  const { key } = server.given.org();
  const ask = (lines: string) =>
    exchange(server.url, `GET /api/v2/user/default-org HTTP/1.1\r\nHost: a\r\n${lines}\r\n`);
  assert.is((await ask(`Authorization: Bearer ${key}\r\n`)).status, 200);
  assert.is(
    (await ask(`X-Api-Key: ${key}\r\nCookie: key=${key}\r\nProxy-Authorization: Bearer ${key}\r\n`)).status,
    401,
  );
  assert.is((await server.call("GET", `/user/default-org?api_key=${key}&access_token=${key}`)).status, 401);
});

/** Creates a key of a new user; `set` changes its row. */
function createKey(expiresAt = 0) {
  const id = server.store.users.create({ name: fresh("user"), displayName: "", email: null });
  const key = newSecret();
  const publicId = server.store.apiKeys.create(
    { userId: id },
    { digest: keyDigest(key), description: "test", expiresAt },
  );
  const set = (column: string, value: number | null): void =>
    void server.db.prepare(`UPDATE api_keys SET ${column} = ? WHERE public_id = ?`).run(value, publicId);
  const lastUsed = (): number =>
    server.db.prepare("SELECT last_used_at FROM api_keys WHERE public_id = ?").pluck().get(publicId) as number;
  return { bearer: `Bearer ${key}`, key, publicId, set, lastUsed };
}

test("accepts a key until it expires, is revoked, or its grace period ends", async () => {
  const soon = server.clock.at + 1_000;
  const expiring = createKey(soon);
  const rotated = createKey();
  rotated.set("grace_period_expires_at", soon);
  const revoked = createKey();
  for (const { bearer } of [expiring, rotated, revoked]) await assertAccepted(bearer);
  assert.is(server.store.apiKeys.revoke(revoked.publicId), true);
  await assertRefused(revoked.bearer, "revoked");
  assert.is(server.store.apiKeys.revoke(revoked.publicId), false);
  server.clock.at = soon - 100;
  for (const { bearer } of [expiring, rotated]) await assertAccepted(bearer);
  server.clock.at = soon;
  for (const { bearer } of [expiring, rotated]) await assertRefused(bearer, "too late");
  // The earlier end counts: a key may expire before its grace period ends.
  const both = createKey(server.clock.at + 100);
  both.set("grace_period_expires_at", server.clock.at + 1_000);
  await assertAccepted(both.bearer);
  server.clock.at += 200;
  await assertRefused(both.bearer);
});

test("handles extreme expiry times in the database", async () => {
  const odd = createKey();
  odd.set("expires_at", 4_102_444_800);
  await assertAccepted(odd.bearer);
  odd.set("expires_at", -1);
  await assertRefused(odd.bearer);
});

const pathFor = (path: string, example: Record<string, string>, org: string): string =>
  path.replace(/\{(\w+)\*?\}/g, (_all, name: string) =>
    name === "org" ? org : encodeURIComponent(example[name] ?? "x"),
  );

test("every operation that needs a key refuses invalid ones, and stores nothing", async () => {
  const { org } = server.given.org({ public: true });
  const dead = createKey(EPOCH - 1);
  const revoked = createKey();
  server.store.apiKeys.revoke(revoked.publicId);
  const before = holdings(server);
  let calls = 0;
  for (const operation of operations) {
    if (operation.permission === "public" || operation.permission === "signed") continue;
    const path = pathFor(operation.path, operation.example.params ?? {}, org);
    const body = operation.method === "GET" ? {} : { body: operation.example.body ?? {} };
    for (const authorization of [null, "Bearer nobody", basic("nobody:"), dead.bearer, revoked.bearer, "garbage"]) {
      const answer = await server.call(operation.method, path, {
        headers: authorization === null ? {} : { Authorization: authorization },
        ...body,
      });
      assert.equal(
        { status: answer.status, body: answer.body, "WWW-Authenticate": answer.headers.get("WWW-Authenticate") },
        { status: 401, body: UNAUTHENTICATED, "WWW-Authenticate": CHALLENGE },
        `${operation.id}: ${authorization}`,
      );
      calls += 1;
    }
  }
  assert.ok(calls > 100);
  assert.equal(holdings(server), before);
});

test("public operations accept any key, and none", async () => {
  for (const { method, path } of operations.filter(({ permission }) => permission === "public"))
    for (const headers of [{}, { Authorization: "garbage" }, { Authorization: "Bearer nobody" }] as Record<
      string,
      string
    >[])
      assert.is((await server.call(method, path, { headers })).status, 200, path);
});

test("a service account acts in its own organization only, and as a non-member in a public one", async () => {
  const [own, other, open] = [server.given.org(), server.given.org(), server.given.org({ public: true })];
  const key = server.given.serviceAccount(own.org, "admin");
  const list = (org: string) => server.call("GET", `/flows/${org}`, { key });
  const write = (org: string) =>
    server.call("PUT", `/flows/${org}/template_file`, { key, form: { json: { name: "f" } } });
  assert.equal(
    { "list.status": (await list(own.org)).status, "write.status": (await write(own.org)).status },
    { "list.status": 200, "write.status": 201 },
  );
  for (const answer of [
    await list(other.org),
    await write(other.org),
    await write(open.org),
    await list("no-such-org"),
  ])
    assert.equal({ status: answer.status, body: answer.body }, { status: 403, body: DENIED });
  assert.equal({ status: (await list(open.org)).status, body: (await list(open.org)).body }, { status: 200, body: [] });
});

test("notes the last use of a key without a write, and writes it on demand", async () => {
  const used = createKey();
  const idle = createKey();
  server.store.apiKeys.flushUses();
  const changes = () => server.db.prepare("SELECT total_changes()").pluck().get() as number;
  const before = changes();
  for (let i = 0; i < 5; i++) await assertAccepted(used.bearer);
  await assertRefused("Bearer nobody");
  assert.is(changes(), before);
  assert.equal(
    { lastUsed: used.lastUsed(), hasUnwrittenUses: server.store.apiKeys.hasUnwrittenUses() },
    { lastUsed: 0, hasUnwrittenUses: true },
  );
  const at = server.clock.at;
  server.store.apiKeys.flushUses();
  assert.is(changes(), before + 1);
  assert.ok(used.lastUsed() > EPOCH && used.lastUsed() <= at);
  assert.equal(
    { lastUsed: idle.lastUsed(), hasUnwrittenUses: server.store.apiKeys.hasUnwrittenUses() },
    { lastUsed: 0, hasUnwrittenUses: false },
  );
});

test("does not note a refused key as used", async () => {
  const dead = createKey(EPOCH - 1);
  await assertRefused(dead.bearer);
  server.store.apiKeys.flushUses();
  assert.is(dead.lastUsed(), 0);
});

test("stores no key in the database, only its SHA-256", async () => {
  const { org, key } = server.given.org();
  const bot = server.given.serviceAccount(org, "reader");
  for (const one of [key, bot]) {
    await assertAccepted(`Bearer ${one}`);
    await server.call("PUT", `/flows/${org}/template_file`, { key: one, form: { json: { name: "f" } } });
  }
  server.store.apiKeys.flushUses();
  const image = server.db.serialize();
  for (const one of [key, bot]) {
    assert.ok(image.includes(keyDigest(one)));
    for (const form of [
      one,
      Buffer.from(one).toString("base64").slice(0, 40),
      Buffer.from(one).toString("hex"),
      Buffer.from(one, "base64url"),
    ])
      assert.not.ok(image.includes(form));
  }
});

test.run();
