/** Authentication from memory gives what fresh reads give, whatever changes. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createAuthenticator } from "../../src/server/principals.ts";
import { cookieDigest } from "../../src/store/accounts/sessions.ts";
import { openDatabase } from "../../src/store/db/database.ts";
import { watchVersions } from "../../src/store/db/versions.ts";
import { openStore } from "../../src/store/index.ts";
import type { Role } from "../../src/domain/access.ts";
import type { Principal } from "../../src/http/server-context.ts";

const test = suite("server/principals");

const ORGANIZATIONS = ["acme", "globex"];
const KEYS = 4;
const COOKIES = ["c0", "c1", "c2", "c3"];
const ROLES: readonly (Role | null)[] = ["admin", "member", "snapshotter", "reader", null];
const digestOf = (n: number): Buffer => Buffer.alloc(32, n + 1);

function open(directory: string) {
  const [ours, other] = [openDatabase(directory, 1), openDatabase(directory, 1)];
  const clock = { at: 1000 };
  let ids = 0;
  const sources = { now: () => clock.at, newId: () => `id-${++ids}` };
  const turnEnds: (() => void)[] = [];
  const versions = watchVersions(ours, { endTurn: (done) => void turnEnds.push(done) });
  const store = openStore(ours, sources);
  let never = 0;
  const kept = createAuthenticator(store, versions);
  const fresh = createAuthenticator(store, { ...versions, access: () => (never -= 1) });
  const organizations = ORGANIZATIONS.map((name) =>
    store.organizations.create({ name, kind: "shared", isPublic: false, controlsEnabled: true }),
  );
  const users = ["ada", "bob"].map((name) => store.users.create({ name, displayName: "", email: null }));
  const account = store.serviceAccounts.create({
    organizationId: organizations[0] as number,
    name: "bot",
    description: null,
    privilege: "member",
    creatingUserId: "",
  });
  const stores = { ours: store, other: openStore(other, sources) };
  const nextTurn = (): void => {
    for (const end of turnEnds.splice(0)) end();
  };
  return { ours, other, clock, stores, kept, fresh, organizations, users, account, nextTurn };
}
type World = ReturnType<typeof open>;
type Store = World["stores"]["ours"];

/** One change of accounts; what it refers to may not exist. */
type Change = { kind: string; n: number; m: number };

function apply({ ours, clock, organizations, users, account }: World, store: Store, { kind, n, m }: Change): void {
  const [user, organization] = [users[n % 2] as number, organizations[m % 2] as number];
  const keyId = store.apiKeys.find(digestOf(n % KEYS))?.public_id ?? "";
  const known = ours.prepare("SELECT 1 FROM sessions WHERE digest = ?");
  const sessions = store.sessions.list();
  const session = sessions[n % Math.max(1, sessions.length)];
  const role = ROLES[m % ROLES.length] ?? null;
  const changes: Record<string, () => unknown> = {
    key: () =>
      store.apiKeys.find(digestOf(n % KEYS)) ??
      store.apiKeys.create(m % 2 ? { userId: user } : { serviceAccountId: account }, {
        digest: digestOf(n % KEYS),
        description: "",
        expiresAt: m % 3 === 0 ? clock.at + 50 : 0,
      }),
    revoke: () => store.apiKeys.revoke(keyId),
    session: () =>
      known.get(cookieDigest(COOKIES[n % 4] as string)) ??
      store.sessions.create({
        digest: cookieDigest(COOKIES[n % 4] as string),
        csrfToken: "t",
        userId: user,
        method: "setup",
        address: "a",
        userAgent: "u",
        idleTimeoutS: 40,
        lifetimeS: 100,
      }),
    end: () => session && store.sessions.end(session.public_id),
    endAll: () => store.sessions.endByUser(user),
    role: () =>
      role === null
        ? store.organizations.removeMember(organization, { id: user }, { changedBy: "t" })
        : store.organizations.setRole(organization, { id: user }, { role, changedBy: "t" }),
    privilege: () => store.serviceAccounts.setPrivilege(account, role ?? "reader"),
    settings: () =>
      store.organizations.updateSettings(organization, { isPublic: n % 2 === 0, controlsEnabled: n % 3 === 0 }),
    profile: () => store.users.updateProfile(user, { displayName: `d${m}`, email: null }),
    flush: () => {
      store.apiKeys.flushUses();
      store.sessions.flushUses();
    },
    time: () => (clock.at += m % 30),
  };
  changes[kind]?.();
}

/** Everything that a request can learn about its caller. */
function learn({ kept, fresh }: World): { kept: unknown; fresh: unknown } {
  const learned = [kept, fresh].map((one) => {
    const rights = (principal: Principal | null) =>
      principal && { principal, memberships: ORGANIZATIONS.map((name) => one.findMembership(principal, name)) };
    return {
      keys: Array.from({ length: KEYS }, (_, n) => rights(one.authenticate(digestOf(n).toString("hex")))),
      sessions: COOKIES.map((cookie) => rights(one.authenticateSession(cookie)?.principal ?? null)),
    };
  });
  return { kept: learned[0], fresh: learned[1] };
}

const KINDS =
  "key,key,key,revoke,session,session,end,endAll,role,role,role,privilege,settings,profile,flush,time".split(",");
const step = fc.record({
  change: fc.record({ kind: fc.constantFrom(...KINDS), n: fc.nat(20), m: fc.nat(20) }),
  by: fc.constantFrom("ours", "ours", "undone", "other"),
});

test("after any changes, kept or undone, by this or another process, both authenticate alike", () => {
  fc.assert(
    fc.property(fc.array(step, { minLength: 10, maxLength: 40 }), (steps) => {
      const directory = mkdtempSync(join(tmpdir(), "assay-principals-"));
      const world = open(directory);
      try {
        for (const { change, by } of steps) {
          const { stores, ours } = world;
          if (by === "undone") {
            ours.exec("BEGIN IMMEDIATE");
            apply(world, stores.ours, change);
            ours.exec("ROLLBACK");
          } else apply(world, stores[by as "ours" | "other"], change);
          world.nextTurn();
          const { kept, fresh } = learn(world);
          assert.equal(kept, fresh, JSON.stringify({ change, by }));
        }
      } finally {
        world.ours.close();
        world.other.close();
        rmSync(directory, { recursive: true, force: true });
      }
    }),
    { seed: 7, numRuns: 15 },
  );
});

test("a key that expires is refused from that second on, without a change in between", () => {
  const directory = mkdtempSync(join(tmpdir(), "assay-principals-"));
  const world = open(directory);
  try {
    apply(world, world.stores.ours, { kind: "key", n: 0, m: 0 });
    const digest = digestOf(0).toString("hex");
    assert.ok(world.kept.authenticate(digest));
    world.clock.at += 49;
    assert.ok(world.kept.authenticate(digest));
    world.clock.at += 1;
    assert.is(world.kept.authenticate(digest), null);
  } finally {
    world.ours.close();
    world.other.close();
    rmSync(directory, { recursive: true, force: true });
  }
});

test.run();
