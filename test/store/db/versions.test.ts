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
  const versions = watchVersions(ours, { endTurn: (done) => void turnEnds.push(done) });
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

const TRAIL = `INSERT INTO trails (id, public_id, organization_id, flow_id, name, template_id, template_inherited,
    created_by, created_at, last_modified_at, state, compliance_json, reasons_json)
  VALUES (?, 't-' || ?, 1, 1, 'n' || ?, 1, 1, 'me', 1, 1, 'INCOMPLETE', '{}', '[]')`;
const ARTIFACT = `INSERT INTO artifacts (id, public_id, organization_id, flow_id, trail_id, fingerprint, filename,
    git_commit, build_url, commit_url, template_json, created_by, created_at, last_modified_at, state,
    attestations_json, reasons_json)
  VALUES (?, 'a-' || ?, 1, 1, ?, replace(hex(zeroblob(32)), '0', '?'), 'f', 'c', 'b', 'u', '[]', 'me', 1, 1,
    'INCOMPLETE', '[]', '[]')`;

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

test("a change of a trail or an artifact is one of that alone", () => {
  world(({ ours, versions, nextTurn }) => {
    ours.exec(
      `INSERT INTO templates (public_id, content) VALUES ('t', '');
       INSERT INTO flows (public_id, organization_id, name, visibility, template_id, created_at, last_modified_at)
         VALUES ('f', 1, 'f', 'private', 1, 1, 1);
       ${[1, 2].map((n) => TRAIL.replaceAll("?", String(n))).join("; ")};
       ${[1, 2].map((n) => ARTIFACT.replaceAll("?", String(n))).join("; ")};`,
    );
    const [one, two] = [1, 2].map((n) => String(n).repeat(64)) as [string, string];
    const touched = (sql: string): unknown[] => {
      nextTurn();
      const since = versions.latest();
      ours.exec(sql);
      return [1, 2, one, two].filter((subject) => !versions.isCurrent([subject], since));
    };
    assert.equal(touched("UPDATE trails SET state = 'COMPLIANT' WHERE id = 1"), [1]);
    assert.equal(touched("UPDATE artifacts SET state = 'COMPLIANT' WHERE id = 2"), [2, two]);
    assert.equal(touched("UPDATE artifacts SET trail_id = 2 WHERE id = 1"), [1, 2, one]);
    assert.equal(touched("UPDATE artifacts SET trail_id = 1 WHERE id = 1"), [1, 2, one]);
    assert.equal(touched(`UPDATE artifacts SET fingerprint = '${"3".repeat(64)}' WHERE id = 2`), [2, two]);
    assert.equal(touched(`UPDATE artifacts SET fingerprint = '${two}' WHERE id = 2`), [2, two]);
    assert.equal(touched("UPDATE flows SET latest_activity_at = 5, trail_count = 7"), []);
    assert.equal(touched("UPDATE flows SET name = 'g'"), [1, 2, one, two]);
    assert.equal(touched("INSERT INTO flow_tags (flow_id, key, value) VALUES (1, 'k', 'v')"), [1, 2, one, two]);
    assert.equal(touched("UPDATE artifacts SET state = state"), [1, 2, one, two]);
    assert.equal(touched("DELETE FROM artifacts WHERE id = 1"), [1, one]);
    assert.equal(touched("SELECT * FROM trails"), []);
  });
});

test("a table that nobody declared counts for everything", () => {
  const directory = mkdtempSync(join(tmpdir(), "assay-versions-"));
  const db = openDatabase(directory, 1);
  db.exec("CREATE TABLE verdicts (trail_id INTEGER NOT NULL)");
  const versions = watchVersions(db);
  const since = versions.latest();
  db.exec("INSERT INTO verdicts VALUES (1)");
  assert.not.ok(versions.isCurrent([], since));
  db.close();
  rmSync(directory, { recursive: true, force: true });
});

test("beyond the bound of known subjects, all count as changed", () => {
  world(({ ours, versions }) => {
    ours.exec(
      `INSERT INTO templates (public_id, content) VALUES ('t', '');
       INSERT INTO flows (public_id, organization_id, name, visibility, template_id, created_at, last_modified_at)
         VALUES ('f', 1, 'f', 'private', 1, 1, 1)`,
    );
    const since = versions.latest();
    const insert = ours.prepare(TRAIL.replaceAll("?", "@n"));
    ours.exec("BEGIN");
    for (let n = 1; n < 10_000; n += 1) insert.run({ n });
    assert.ok(versions.isCurrent([20_000], since));
    for (let n = 10_000; n < 10_002; n += 1) insert.run({ n });
    assert.not.ok(versions.isCurrent([20_000], since));
    assert.ok(versions.isCurrent([20_000], versions.latest()));
    ours.exec("COMMIT");
  });
});

test("the state changes with every row, whoever changes it, and with nothing else", () => {
  world(({ ours, other, versions }) => {
    let last = versions.state();
    const changes = (): boolean => last !== (last = versions.state());
    assert.not.ok(changes());
    ours.exec("INSERT INTO templates (public_id, content) VALUES ('t', '')");
    assert.ok(changes());
    other.exec("DELETE FROM templates");
    assert.ok(changes());
    ours.prepare("SELECT * FROM templates").all();
    assert.not.ok(changes());
  });
});

test.run();
