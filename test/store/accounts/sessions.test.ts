import { suite } from "uvu";
import * as assert from "uvu/assert";
import { parseSessionActorId, cookieDigest, sessionActorId } from "../../../src/store/accounts/sessions.ts";
import type { NewSession } from "../../../src/store/accounts/sessions.ts";
import { openMemory } from "../../../src/store/db/database.ts";
import { openStore } from "../../../src/store/index.ts";

const test = suite("store/accounts/sessions");

function given() {
  const clock = { at: 1000 };
  const db = openMemory();
  let id = 0;
  const store = openStore(db, { now: () => clock.at, newId: () => `id-${++id}` });
  const userId = store.users.create({ name: "ann", displayName: "Ann", email: null });
  const create = (cookie: string, fields: Partial<NewSession> = {}) =>
    store.sessions.create({
      digest: cookieDigest(cookie),
      csrfToken: `token of ${cookie}`,
      userId,
      method: "password",
      address: "10.0.0.1",
      userAgent: "x".repeat(1000),
      idleTimeoutS: 100,
      lifetimeS: 1000,
      ...fields,
    });
  return { clock, db, store, sessions: store.sessions, userId, create };
}

test("stores only a digest of the cookie, and a truncated User-Agent", () => {
  const { db, create } = given();
  create("the cookie");
  const row = db.prepare("SELECT hex(digest) AS digest, length(user_agent) AS agent FROM sessions").get();
  assert.equal(row, { digest: cookieDigest("the cookie").toString("hex").toUpperCase(), agent: 300 });
  assert.not.ok(db.serialize().includes("the cookie\0"));
});

test("a use counts before it is flushed", () => {
  const { clock, db, sessions, create } = given();
  const id = create("one");
  const holder = () => sessions.findHolder(cookieDigest("one"));
  clock.at = 1099;
  assert.ok(sessions.recordUse(holder() as never));
  clock.at = 1150;
  assert.ok(sessions.isOpen(id));
  assert.equal(
    {
      last_used_at: sessions.list()[0]?.last_used_at,
      get: db.prepare("SELECT last_used_at FROM sessions").pluck().get(),
    },
    { last_used_at: 1099, get: 1000 },
  );
  assert.ok(sessions.hasUnwrittenUses());
  sessions.flushUses();
  assert.equal(
    {
      hasUnwrittenUses: sessions.hasUnwrittenUses(),
      get: db.prepare("SELECT last_used_at FROM sessions").pluck().get(),
    },
    { hasUnwrittenUses: false, get: 1099 },
  );
  clock.at = 1199;
  assert.equal(
    { isHeld: sessions.isOpen(id), use: sessions.recordUse(holder() as never), sessions: sessions.find(id) },
    { isHeld: false, use: false, sessions: null },
  );
});

test("a session ends with its lifetime, however it is used", () => {
  const { clock, sessions, create } = given();
  const id = create("one", { idleTimeoutS: 10_000, lifetimeS: 500 });
  clock.at = 1499.9;
  assert.ok(sessions.recordUse(sessions.findHolder(cookieDigest("one")) as never) && sessions.isOpen(id));
  clock.at = 1500;
  assert.not.ok(sessions.recordUse(sessions.findHolder(cookieDigest("one")) as never) || sessions.isOpen(id));
});

test("accepts the previous cookie for a minute, and no earlier one", () => {
  const { clock, sessions, create } = given();
  const id = create("one", { idleTimeoutS: 1000 });
  clock.at = 1010;
  assert.ok(sessions.rotate(id, cookieDigest("one"), cookieDigest("two")));
  assert.not.ok(sessions.rotate(id, cookieDigest("one"), cookieDigest("three")), "somebody was first");
  const uses = (cookie: string) => {
    const holder = sessions.findHolder(cookieDigest(cookie));
    return holder && sessions.recordUse(holder);
  };
  clock.at = 1069;
  assert.equal(
    { "uses one": uses("one"), "uses two": uses("two"), "uses three": uses("three") },
    { "uses one": true, "uses two": true, "uses three": null },
  );
  clock.at = 1070;
  assert.equal({ "uses one": uses("one"), "uses two": uses("two") }, { "uses one": false, "uses two": true });
  assert.ok(sessions.rotate(id, cookieDigest("two"), cookieDigest("three")));
  assert.equal(
    { "uses one": uses("one"), "uses two": uses("two"), "uses three": uses("three") },
    { "uses one": null, "uses two": true, "uses three": true },
  );
});

test("an ended session accepts neither the current nor the previous cookie", () => {
  const { sessions, create, store } = given();
  const id = create("one");
  sessions.rotate(id, cookieDigest("one"), cookieDigest("two"));
  assert.equal([sessions.end(id), sessions.end(id)], [true, false]);
  assert.equal(
    {
      'holder(cookieDigest("one"))': sessions.findHolder(cookieDigest("one")),
      'holder(cookieDigest("two"))': sessions.findHolder(cookieDigest("two")),
      "sessions.rotate": sessions.rotate(id, cookieDigest("two"), cookieDigest("x")),
    },
    { 'holder(cookieDigest("one"))': null, 'holder(cookieDigest("two"))': null, "sessions.rotate": false },
  );
  const bob = store.users.create({ name: "bob", displayName: "", email: null });
  const [mine] = [create("three"), create("four"), create("five", { userId: bob })];
  assert.is(sessions.endByUser(1, mine), 1);
  assert.equal(
    sessions.list().map(({ public_id, user_id }) => [public_id, user_id]),
    [
      [mine, 1],
      [sessions.list(bob)[0]?.public_id, bob],
    ],
  );
});

test("deletes the record of a session some time after its end", () => {
  const { db, sessions, create } = given();
  for (let count = 0; count < 5; count += 1) create(`short ${count}`);
  create("long", { lifetimeS: 5000 });
  assert.equal(
    [
      sessions.deleteExpired(2000, 2),
      sessions.deleteExpired(2001, 2),
      sessions.deleteExpired(2001, 2),
      sessions.deleteExpired(2001, 2),
    ],
    [0, 2, 2, 1],
  );
  assert.is(db.prepare("SELECT count(*) FROM sessions").pluck().get(), 1);
});

test("an index serves lists and lookups", () => {
  const { db } = given();
  const plan = (sql: string) =>
    (db.prepare(`EXPLAIN QUERY PLAN ${sql}`).all() as { detail: string }[]).map(({ detail }) => detail).join("; ");
  assert.match(plan("SELECT id FROM sessions WHERE digest = x'00' AND ended_at IS NULL"), /SEARCH .* USING .*INDEX/);
  assert.match(
    plan("SELECT id FROM sessions WHERE previous_digest = x'00' AND ended_at IS NULL"),
    /SEARCH .* USING .*INDEX/,
  );
  assert.match(
    plan("SELECT public_id FROM sessions WHERE user_id = 1 AND ended_at IS NULL ORDER BY id"),
    /SEARCH sessions USING INDEX sessions_open/,
  );
  assert.match(
    plan("SELECT public_id FROM sessions WHERE ended_at IS NULL ORDER BY user_id, id"),
    /SCAN sessions USING INDEX sessions_open$/,
  );
  assert.match(
    plan("SELECT id FROM sessions WHERE expires_at < 1 ORDER BY expires_at LIMIT 5"),
    /SEARCH sessions USING .*INDEX sessions_by_end/,
  );
});

test("distinguishes a session from a key by its id in the audit log", () => {
  assert.equal(
    {
      "actingSession sessionActor": parseSessionActorId(sessionActorId("abc")),
      "actingSession abc": parseSessionActorId("abc"),
      "actingSession ": parseSessionActorId(""),
    },
    { "actingSession sessionActor": "abc", "actingSession abc": null, "actingSession ": null },
  );
});

test.run();
