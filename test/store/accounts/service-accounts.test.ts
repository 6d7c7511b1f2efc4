/** Service accounts, their keys and members, at the level of the stores. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { keyDigest } from "../../../src/store/accounts/api-keys.ts";
import type { AuditEntry } from "../../../src/store/db/audit-log.ts";
import { opened, plan } from "../given.ts";

const test = suite("store/accounts/service-accounts");

const LAPSED: AuditEntry = {
  organizationId: 1,
  actor: { kind: "user", publicId: "u", name: "ops", keyPublicId: "k" },
  operation: "rotate",
  event: "api_key.lapsed",
  target: "/",
  requestId: "r",
  detail: null,
};

function given() {
  const parts = opened();
  const { store, organizationId } = parts;
  const account = store.serviceAccounts.create({
    organizationId,
    name: "bot",
    description: null,
    privilege: "member",
    creatingUserId: "",
  });
  const key = (secret: string, expiresAt = 0) =>
    store.apiKeys.create({ serviceAccountId: account }, { digest: keyDigest(secret), description: secret, expiresAt });
  const active = (id: string) => {
    const row = store.apiKeys.findActive({ serviceAccountId: account }, id);
    if (!row) throw new Error(`${id} does not work`);
    return row;
  };
  return { ...parts, account, key, active };
}

test("an index serves every list of accounts, keys and members", () => {
  const { db, sql } = given();
  const lists = sql.filter(
    (text) =>
      text.startsWith("SELECT") &&
      (/FROM (service_accounts|api_keys|memberships)\b/.test(text) ||
        text.startsWith("SELECT kind FROM inbound_webhooks")),
  );
  assert.ok(lists.length > 10, String(lists.length));
  for (const text of lists)
    assert.equal(
      plan(db, text).filter((step) => step.startsWith("SCAN") && step !== "SCAN shown"),
      [],
      text,
    );
  // Also in the order of the list.
  const ordered = lists.filter((text) => /ORDER BY (name|id)$/.test(text.trim()) && !text.includes("inbound_webhooks"));
  assert.ok(ordered.length >= 4, String(ordered.length));
  for (const text of ordered)
    assert.equal(
      plan(db, text).filter((step) => step.includes("TEMP B-TREE")),
      [],
      text,
    );
});

test("a rotated key ends at the earliest of its grace period, an earlier grace period and its own expiry", () => {
  const { store, clock, account, key, active } = given();
  const at = clock.at;
  const rotate = (id: string, graceEnds: number) =>
    store.apiKeys.rotate({ serviceAccountId: account }, active(id), {
      digest: keyDigest(`${id} ${graceEnds}`),
      expiresAt: 0,
      graceEnds,
      lapsed: LAPSED,
    }).graceEnds;
  const [never, soon, twice] = [key("never"), key("soon", at + 500), key("twice")];
  assert.is(rotate(never, at + 1_000), at + 1_000);
  assert.is(rotate(soon, at + 1_000), at + 500);
  assert.equal(
    {
      "rotate(twice, at + 600)": rotate(twice, at + 600),
      "rotate(twice, at + 1_000)": rotate(twice, at + 1_000),
      "rotate(twice, at + 400)": rotate(twice, at + 400),
    },
    { "rotate(twice, at + 600)": at + 600, "rotate(twice, at + 1_000)": at + 600, "rotate(twice, at + 400)": at + 400 },
  );
  const jobs = store.jobs.lease("lapse_key", { at: at + 2_000, seconds: 1, limit: 10 });
  assert.equal(
    jobs.map(({ payload_json, due_at }) => [JSON.parse(payload_json).key_id, due_at - at]),
    [
      [twice, 400],
      [soon, 500],
      [twice, 600],
      [twice, 600],
      [never, 1_000],
    ],
  );
});

test("a key lapses once, at its announced end, and only when it was rotated", () => {
  const { db, store, clock, account, key, active } = given();
  const [rotated, plain] = [key("rotated"), key("plain")];
  const graceEnds = clock.at + 100;
  store.apiKeys.rotate({ serviceAccountId: account }, active(rotated), {
    digest: keyDigest("new"),
    expiresAt: 0,
    graceEnds,
    lapsed: LAPSED,
  });
  assert.equal(
    { "lapse(plain)": store.apiKeys.lapse(plain), "lapse unknown": store.apiKeys.lapse("unknown") },
    { "lapse(plain)": false, "lapse unknown": false },
  );
  clock.at += 10_000;
  assert.equal([store.apiKeys.lapse(rotated), store.apiKeys.lapse(rotated)], [true, false]);
  assert.is(db.prepare("SELECT revoked_at FROM api_keys WHERE public_id = ?").pluck().get(rotated), graceEnds);
  assert.is(store.apiKeys.isUnrevoked(rotated), false);
  assert.is(store.apiKeys.isUnrevoked(plain), true);
});

test("a recorded use of a deleted key does not count for a key that gets its row id", () => {
  const { db, store, account, organizationId, key } = given();
  key("one");
  const holder = store.apiKeys.findHolder(keyDigest("one"));
  assert.ok(holder && store.apiKeys.recordUse(holder));
  const number = () => db.prepare("SELECT max(id) FROM api_keys").pluck().get();
  const before = number();
  store.serviceAccounts.delete(account);
  const next = store.serviceAccounts.create({
    organizationId,
    name: "bot",
    description: null,
    privilege: "admin",
    creatingUserId: "",
  });
  const id = store.apiKeys.create(
    { serviceAccountId: next },
    { digest: keyDigest("two"), description: "two", expiresAt: 0 },
  );
  assert.is(number(), before);
  store.apiKeys.flushUses();
  assert.is(store.apiKeys.get(id).last_used_at, 0);
});

test.run();
