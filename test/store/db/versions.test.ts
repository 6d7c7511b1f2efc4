/** What moves a version: every change that a reader could see, by any connection, and nothing else. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { openDatabase } from "../../../src/store/db/database.ts";
import { watchVersions } from "../../../src/store/db/versions.ts";
import { openStore } from "../../../src/store/index.ts";

const test = suite("store/db/versions");

/** A watched connection, another one to the same database, and a key of an admin. */
function world(body: (setup: ReturnType<typeof open>) => void): void {
  const directory = mkdtempSync(join(tmpdir(), "assay-versions-"));
  const setup = open(directory);
  try {
    body(setup);
  } finally {
    setup.ours.close();
    setup.other.close();
    rmSync(directory, { recursive: true, force: true });
  }
}

function open(directory: string) {
  const [ours, other] = [openDatabase(directory, 1), openDatabase(directory, 1)];
  const turnEnds: (() => void)[] = [];
  const versions = watchVersions(ours, (done) => void turnEnds.push(done));
  let ids = 0;
  const store = openStore(ours, { now: () => 1000, newId: () => `id-${++ids}` });
  const organization = store.organizations.create({
    name: "acme",
    kind: "shared",
    isPublic: false,
    controlsEnabled: true,
  });
  const user = store.users.create({ name: "ada", displayName: "Ada", email: null });
  store.organizations.setRole(organization, { id: user }, { role: "admin", changedBy: "test" });
  const account = store.serviceAccounts.create({
    organizationId: organization,
    name: "bot",
    description: null,
    privilege: "member",
    creatingUserId: "",
  });
  const key = (owner: { userId: number } | { serviceAccountId: number }, digest: number) =>
    store.apiKeys.create(owner, { digest: Buffer.alloc(32, digest), description: "", expiresAt: 0 });
  key({ userId: user }, 1);
  const accountKey = key({ serviceAccountId: account }, 2);
  store.sessions.create({
    digest: Buffer.alloc(32, 3),
    csrfToken: "t",
    userId: user,
    method: "setup",
    address: "a",
    userAgent: "u",
    idleTimeoutS: 10,
    lifetimeS: 20,
  });
  const nextTurn = (): void => {
    for (const end of turnEnds.splice(0)) end();
  };
  /** Whether the version of access changes with the work, seen in a turn of its own. */
  const moves = (work: () => unknown): boolean => {
    nextTurn();
    const before = versions.access();
    work();
    nextTurn();
    return versions.access() !== before;
  };
  return { ours, other, store, versions, moves, nextTurn, account, accountKey };
}

const TABLES = ["api_keys", "memberships", "organizations", "service_accounts", "sessions", "users"];

test("every column of the account tables moves the version, except the last use of a key", () => {
  world(({ ours, moves }) => {
    const still: string[] = [];
    for (const table of TABLES)
      for (const column of ours.prepare("SELECT name FROM pragma_table_info(?)").pluck().all(table) as string[])
        if (!moves(() => ours.exec(`UPDATE ${table} SET ${column} = ${column}`))) still.push(`${table}.${column}`);
    assert.equal(still, ["api_keys.last_used_at"]);
  });
});

test("deleting and adding a row moves the version, by a cascade too", () => {
  world(({ ours, store, moves, account }) => {
    ours.exec("CREATE TABLE kept AS SELECT * FROM memberships");
    assert.ok(moves(() => ours.exec("DELETE FROM memberships")));
    assert.ok(moves(() => ours.exec("INSERT INTO memberships SELECT * FROM kept")));
    let seen = 0;
    ours.function("seen", () => ++seen);
    ours.exec("CREATE TEMP TRIGGER key_went AFTER DELETE ON api_keys BEGIN SELECT seen(); END");
    assert.ok(moves(() => store.serviceAccounts.delete(account)));
    assert.is(seen, 1, "the key of the account went by a cascade");
  });
});

test("recording the use of a key does not move the version", () => {
  world(({ store, moves }) => {
    const holder = store.apiKeys.findHolder(Buffer.alloc(32, 1));
    assert.ok(holder);
    assert.not.ok(
      moves(() => {
        store.apiKeys.recordUse(holder);
        store.apiKeys.flushUses();
      }),
    );
  });
});

test("other tables do not move the version, reads neither", () => {
  world(({ ours, moves }) => {
    assert.not.ok(moves(() => ours.exec("INSERT INTO templates (public_id, content) VALUES ('t', '')")));
    assert.not.ok(moves(() => ours.prepare("SELECT * FROM api_keys").all()));
  });
});

test("another connection is noticed in the next turn, and inside a transaction at once", () => {
  world(({ ours, other, versions, nextTurn }) => {
    const before = versions.access();
    other.exec("UPDATE users SET name = 'eve'");
    assert.is(versions.access(), before, "one look in a turn");
    nextTurn();
    const later = versions.access();
    assert.is.not(later, before);
    other.exec("UPDATE users SET name = 'ada'");
    ours.exec("BEGIN IMMEDIATE");
    assert.is.not(versions.access(), later, "a transaction sees the change, so it must be noticed");
    ours.exec("COMMIT");
  });
});

test("a change that is rolled back moves the version, inside its transaction and after it", () => {
  world(({ ours, store, versions, accountKey }) => {
    const before = versions.access();
    ours.exec("BEGIN IMMEDIATE");
    store.apiKeys.revoke(accountKey);
    const inside = versions.access();
    assert.is.not(inside, before);
    ours.exec("ROLLBACK");
    assert.is(versions.access(), inside);
  });
});

test.run();
