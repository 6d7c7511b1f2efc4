/** Warnings of expiring keys: when, to whom, and only once. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { StoredTarget } from "../../src/domain/notification/targets.ts";
import { warnOfExpiringKeys } from "../../src/notifications/key-expiry-warnings.ts";
import { keyDigest } from "../../src/store/accounts/api-keys.ts";
import type { KeyOwner } from "../../src/store/accounts/api-keys.ts";
import { openMemory } from "../../src/store/db/database.ts";
import { openStore } from "../../src/store/index.ts";
import { GroupCommitWriter } from "../../src/store/db/group-commit.ts";
import { newSecret } from "../../src/clock.ts";

const test = suite("notifications/key-expiry-warnings");
const NOW = 1_700_000_000;
const DAY = 86_400;

/** An organization with two admins and a member, a service account, and a clock. */
function world() {
  const clock = { at: NOW };
  const db = openMemory();
  let ids = 0;
  const open = () => openStore(db, { now: () => clock.at, newId: () => `id-${(ids += 1)}` });
  const store = open();
  const writer = new GroupCommitWriter(db);
  const user = (name: string, email: string | null): number => store.users.create({ name, displayName: "", email });
  const organizationId = store.organizations.create({
    name: "acme",
    kind: "shared",
    isPublic: false,
    controlsEnabled: true,
  });
  const people = {
    ada: user("ada", "ada@x.org"),
    eve: user("eve", null),
    bob: user("bob", "bob@x.org"),
    zoe: user("zoe", "zoe@x.org"),
  };
  const join = (id: number, role: "admin" | "member") =>
    store.organizations.setRole(organizationId, { id }, { role, changedBy: "test" });
  join(people.ada, "admin");
  join(people.eve, "admin");
  join(people.bob, "member");
  join(people.zoe, "member");
  const account = store.serviceAccounts.create({
    organizationId,
    name: "ci",
    description: null,
    privilege: "member",
    creatingUserId: "",
  });
  const publicIdOf = (id: number): string => store.users.get(id).public_id;
  const key = (
    owner: KeyOwner,
    expiresAt: number,
    { creator = null, description = "main" }: { creator?: number | null; description?: string } = {},
  ): string =>
    store.apiKeys.create(owner, {
      digest: keyDigest(newSecret()),
      description,
      expiresAt,
      creatingUserId: creator === null ? null : publicIdOf(creator),
    });
  const warn = (by = store): Promise<number> =>
    warnOfExpiringKeys({ store: by, writer, now: () => clock.at, url: () => "https://assay.test" });
  const sent = () =>
    (
      db.prepare("SELECT type, queue, target_id, target_json, message_json FROM deliveries ORDER BY id").all() as {
        type: string;
        queue: string;
        target_id: number | null;
        target_json: string;
        message_json: string;
      }[]
    ).map(({ type, queue, target_id, target_json, message_json }) => ({
      type,
      queue,
      targetId: target_id,
      target: JSON.parse(target_json),
      body: JSON.parse(message_json),
    }));
  const configure = (...targets: StoredTarget[]) =>
    store.notificationTargets.replace({ organizationId, notificationType: "api_key_expiry" }, targets, () => "secret");
  return { db, store, open, clock, people, organizationId, account, key, warn, sent, configure };
}

test("warns 14 and 3 days before the end, each once, also across restarts", async () => {
  const { clock, key, account, warn, sent, open } = world();
  const end = NOW + 100 * DAY;
  key({ serviceAccountId: account }, end);
  const due: number[] = [];
  for (let day = 0; day <= 101; day += 0.5) {
    clock.at = NOW + day * DAY;
    // Each run is another process: what was sent is recorded in the tables.
    if ((await warn(open())) > 0) due.push((end - clock.at) / DAY);
  }
  assert.equal(due, [14, 3]);
  assert.equal(
    sent().map(({ body }) => body["text"].split("\n")[2]),
    [
      "- The API key of service account ci in organization acme (main) expires in 14 days, on 2024-02-22 22:13 UTC",
      "- The API key of service account ci in organization acme (main) expires in 3 days, on 2024-02-22 22:13 UTC",
    ],
  );
});

test("sends a missed warning later, until the next one is due", async () => {
  const { clock, key, account, warn, sent } = world();
  key({ serviceAccountId: account }, NOW + 100 * DAY);
  clock.at = NOW + 90 * DAY;
  assert.is(await warn(), 1);
  const { key: other, warn: late, clock: time, account: bot, sent: lateSent } = world();
  other({ serviceAccountId: bot }, NOW + 100 * DAY);
  time.at = NOW + 98 * DAY;
  assert.equal([await late(), await late(), lateSent().length, sent().length], [1, 0, 1, 1]);
});

test("does not warn of keys that never expire, are expired, revoked, replaced, or short-lived", async () => {
  const { db, store, clock, key, account, warn, sent } = world();
  const owner = { serviceAccountId: account };
  key(owner, 0);
  key(owner, NOW + 14 * DAY);
  key(owner, NOW + 2 * DAY);
  const revoked = key(owner, NOW + 30 * DAY);
  const replaced = key(owner, NOW + 30 * DAY);
  db.prepare("UPDATE api_keys SET grace_period_expires_at = ? WHERE public_id = ?").run(NOW + 25 * DAY, replaced);
  store.apiKeys.revoke(revoked);
  assert.is(await warn(), 0);
  clock.at = NOW + 1.9 * DAY;
  assert.is(await warn(), 0);
  clock.at = NOW + 12 * DAY;
  assert.is(await warn(), 1, "3 days before the end of the one with 14 days of life");
  clock.at = NOW + 29 * DAY;
  assert.equal({ warn: await warn(), messages: sent().length }, { warn: 0, messages: 1 });
});

test("warns the admins and the creator of the key by e-mail, unless targets are configured", async () => {
  const { clock, key, account, warn, sent, configure, people, store, organizationId } = world();
  key({ serviceAccountId: account }, NOW + 100 * DAY, { creator: people.bob });
  key({ serviceAccountId: account }, NOW + 101 * DAY, { creator: people.ada });
  clock.at = NOW + 87 * DAY;
  await warn();
  assert.equal(
    sent().map(({ type, target, targetId }) => [type, target, targetId]),
    [
      ["EMAIL", { emails: ["ada@x.org", "bob@x.org"] }, null],
      ["EMAIL", { emails: ["ada@x.org"] }, null],
    ],
  );
  configure(
    { type: "WEBHOOK", target: { type: "WEBHOOK", webhook: "https://a.org" } },
    { type: "EMAIL", target: { type: "EMAIL", emails: ["team@x.org"] } },
    { type: "SLACK", target: { type: "SLACK", webhook: "https://s.org" } },
  );
  clock.at = NOW + 97.5 * DAY;
  assert.is(await warn(), 1);
  const ids = store.notificationTargets
    .list({ organizationId, notificationType: "api_key_expiry" })
    .map(({ id }) => id);
  const later = sent().slice(2);
  assert.equal(
    later.map(({ type, target, targetId }) => [type, target, targetId]),
    [
      ["WEBHOOK", { webhook: "https://a.org" }, ids[0]],
      ["EMAIL", { emails: ["team@x.org"] }, ids[1]],
      ["SLACK", { webhook: "https://s.org" }, ids[2]],
    ],
  );
  assert.equal(
    { event_type: later[0]?.body["event_type"], service_account: later[0]?.body["api_key"].service_account },
    { event_type: "API_KEY_EXPIRY", service_account: "ci" },
  );
});

test("warns only the owner of a personal key, whatever is configured", async () => {
  const { clock, key, warn, sent, configure, people, organizationId, db } = world();
  configure({ type: "EMAIL", target: { type: "EMAIL", emails: ["team@x.org"] } });
  key({ userId: people.bob }, NOW + 100 * DAY, { description: "laptop" });
  key({ userId: people.eve }, NOW + 100 * DAY);
  clock.at = NOW + 90 * DAY;
  assert.is(await warn(), 2, "one owner has no e-mail address, and the key is not considered again");
  assert.is(await warn(), 0);
  const [warning, ...none] = sent();
  assert.equal({ target: warning?.target, none }, { target: { emails: ["bob@x.org"] }, none: [] });
  assert.match(warning?.body["text"], /- Your API key \(laptop\) expires in 10 days, on 2024-02-22 22:13 UTC\n/);
  assert.is(db.prepare("SELECT organization_id FROM deliveries").pluck().get(), organizationId);
});

test("warns of many keys in several writes, each once, also with two runs in parallel", async () => {
  const { clock, key, account, warn, sent } = world();
  for (let n = 0; n < 120; n += 1) key({ serviceAccountId: account }, NOW + 100 * DAY + n);
  clock.at = NOW + 90 * DAY;
  const both = await Promise.all([warn(), warn()]);
  assert.equal({ warned: both[0] + both[1], messages: sent().length }, { warned: 120, messages: 120 });
});

test("a failed write leaves neither a message nor a mark", async () => {
  const { db, clock, key, account, warn, sent } = world();
  key({ serviceAccountId: account }, NOW + 100 * DAY);
  clock.at = NOW + 90 * DAY;
  db.exec("CREATE TRIGGER refuse BEFORE INSERT ON api_key_warnings BEGIN SELECT raise(ABORT, 'no'); END");
  await warn().then(
    () => assert.unreachable(),
    () => undefined,
  );
  assert.equal(
    { sent: sent(), get: db.prepare("SELECT count(*) FROM api_key_warnings").pluck().get() },
    { sent: [], get: 0 },
  );
  db.exec("DROP TRIGGER refuse");
  assert.equal({ warn: await warn(), messages: sent().length }, { warn: 1, messages: 1 });
});

test.run();
