/** The queries of actions, of what they watch and of key expiry warnings: none scans a table. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { opened, scans } from "../given.ts";

const test = suite("store/notifications/actions");
const HOOK = { type: "WEBHOOK" as const, target: { type: "WEBHOOK" as const, webhook: "https://x.org" } };

test("an index serves every statement", () => {
  const { db, sql } = opened();
  const mine = sql.filter(
    (text) =>
      (/\b(actions|action_\w+|notification_targets|api_key_warnings|attestation_bindings b)\b/.test(text) ||
        /\b(allowlist_entries WHERE id|snapshot_artifacts sa JOIN evaluations)\b/.test(text)) &&
      /^\s*(SELECT|UPDATE|DELETE)/.test(text),
  );
  assert.ok(mine.length > 20, String(mine.length));
  for (const text of mine) assert.equal(scans(db, text), [], text);
});

test("raising costs one index lookup, and adds a job for watching actions; a rollback undoes it", () => {
  const { db, store, organizationId, flow, trail } = opened();
  const backend = flow("backend");
  const jobs = (): unknown => db.prepare("SELECT payload_json FROM jobs ORDER BY id").pluck().all();
  trail(backend.id, "before");
  assert.equal(jobs(), []);
  const fields = {
    name: "a",
    triggers: ["ON_STARTED_TRAIL"],
    places: [backend.id],
    targets: [HOOK],
    newSecret: () => "s",
  };
  store.actions.create(organizationId, { ...fields, kind: "flow" }, { user: "ada", fromChat: false });
  db.exec("SAVEPOINT job");
  trail(backend.id, "refused");
  assert.is((jobs() as unknown[]).length, 1);
  db.exec("ROLLBACK TO job");
  assert.equal(jobs(), []);
  const { id, created_at } = trail(backend.id, "kept");
  assert.equal(jobs(), [
    JSON.stringify({
      type: "trail",
      flow_id: backend.id,
      trail_id: id,
      at: created_at,
      by: "ada",
      organization_id: organizationId,
      actions: [1],
      after: null,
    }),
  ]);
});

test("recognizes targets by recipient, in any order, also duplicates", () => {
  const { store, organizationId, db } = opened();
  const owner = { organizationId, notificationType: "api_key_expiry" };
  let made = 0;
  const replace = (...webhooks: string[]) =>
    store.notificationTargets.replace(
      owner,
      webhooks.map((webhook) => ({ type: "WEBHOOK", target: { type: "WEBHOOK", webhook } })),
      () => `secret-${(made += 1)}`,
    );
  const secrets = () =>
    store.notificationTargets.listSecrets(owner).map(({ webhook, secret }) => `${webhook} ${secret}`);
  assert.is(replace("a", "b", "a"), true);
  assert.equal(secrets(), ["a secret-1", "b secret-2", "a secret-3"]);
  assert.is(replace("a", "b", "a"), false);
  assert.is(replace("b", "a", "c"), true);
  assert.equal(secrets(), ["b secret-2", "a secret-1", "c secret-4"]);
  assert.is(replace("b"), true);
  assert.equal(secrets(), ["b secret-2"]);
  assert.is(db.prepare("SELECT count(*) FROM notification_targets").pluck().get(), 1);
});

test("never reuses the number of a deleted action, and deletes what it had", () => {
  const { store, organizationId, flow, db } = opened();
  const { id } = flow("f");
  const create = (name: string) =>
    store.actions.create(
      organizationId,
      { kind: "flow", name, triggers: [], places: [id], targets: [HOOK], newSecret: () => "s" },
      { user: "ada", fromChat: false },
    );
  const [one, two] = [create("one"), create("two")];
  store.actions.delete(two);
  assert.equal(
    { number: create("three").number, list: store.actions.list(organizationId).map(({ number }) => number) },
    { number: 3, list: [1, 3] },
  );
  store.actions.delete(one);
  assert.equal(
    ["actions", "action_flows", "notification_targets"].map((table) =>
      db.prepare(`SELECT count(*) FROM ${table}`).pluck().get(),
    ),
    [1, 1, 1],
  );
});

test.run();
