import { suite } from "uvu";
import * as assert from "uvu/assert";
import { AppError } from "../../../src/errors.ts";
import type { EnvironmentRow, EnvironmentType } from "../../../src/store/environments/environments.ts";
import { opened as openedStore, plan, scans } from "../given.ts";

const test = suite("store/environments/environments");

/** The shared set-up with environments and policies. */
function opened() {
  const { db, store, clock, sql, organizationId } = openedStore();
  const acme = { id: organizationId, name: "acme" };
  const fields = { description: "", includeScaling: false, requireProvenance: false };
  const environment = (name: string, type: EnvironmentType = "K8S"): EnvironmentRow =>
    store.environments.create(organizationId, { name, type, ...fields });
  const policy = (name: string): number =>
    store.policies.put(organizationId, { name, description: "", user: "ada", file: null }).policy.id;
  return { db, store, clock, sql, acme, environment, policy, fields };
}

const message = (work: () => unknown): string => {
  try {
    work();
  } catch (error) {
    if (error instanceof AppError && error.code === "not_found") return error.message;
    throw error;
  }
  return "nothing was thrown";
};

test("two environments of the same name archived in one second get different suffixes", () => {
  const { store, clock, acme, environment } = opened();
  const names = [1, 2, 3].map(() => {
    const row = environment("a");
    clock.at = 1_700_000_000 - 1;
    return store.environments.archive(row);
  });
  assert.equal(names, ["a-archived-at-1700000000", "a-archived-at-1700000001", "a-archived-at-1700000002"]);
  for (const name of names) {
    const found = store.environments.find(acme.id, name);
    assert.equal(
      { name: found?.name, archived_name: found?.archived_name, archived_at: found?.archived_at },
      { name, archived_name: "a", archived_at: 1_700_000_000 },
    );
  }
  assert.is(store.environments.find(acme.id, "a"), null);
});

test("gives different errors for unknown, archived and read-only environments", () => {
  const { store, acme, environment } = opened();
  const suffixed = store.environments.archive(environment("a"));
  const { find, require, requireWritable } = store.environments;
  assert.is(
    message(() => require(acme, "x")),
    "Environment named 'x' does not exist for organization 'acme'",
  );
  assert.is(
    message(() => require(acme, "a")),
    "Environment named 'a' has been archived for organization 'acme'",
  );
  assert.is(
    message(() => requireWritable(acme, suffixed)),
    `Environment named '${suffixed}' has been archived for organization 'acme'`,
  );
  assert.is(require(acme, suffixed).archived_name, "a");
  assert.is(find(acme.id, "x"), null);
  assert.throws(() => store.environments.get(99), /environment 99 is gone/);
  assert.throws(() => store.environmentLists.get(99), /environment 99 is gone/);
});

test("a name is never an environment and an alias at once", () => {
  const { db, store, acme, environment } = opened();
  const { environments } = store;
  const a = environment("a");
  environments.rename(a, "b");
  environments.rename(environments.get(a.id), "c");
  const second = environment("a");
  environments.rename(second, "b");
  environments.rename(environments.get(second.id), "a");
  assert.is(environments.find(acme.id, "b")?.id, second.id);
  assert.is(environments.find(acme.id, "c")?.id, a.id);
  assert.equal(
    db
      .prepare(
        `SELECT a.name FROM environment_aliases a
            JOIN environments e ON e.organization_id = a.organization_id AND e.name = a.name`,
      )
      .all(),
    [],
  );
  assert.equal(db.prepare("SELECT name, environment_id FROM environment_aliases").all(), [
    { name: "b", environment_id: second.id },
  ]);
  const taken = environment("x-archived-at-1");
  environments.rename(taken, "y");
  environment("x-archived-at-1");
  assert.is(environments.find(acme.id, "x-archived-at-1")?.type, "K8S");
  assert.is.not(environments.find(acme.id, "x-archived-at-1")?.id, taken.id);
});

test("an update writes only what differs", () => {
  const { store, environment, fields } = opened();
  const row = environment("a");
  assert.is(store.environments.update(row, fields), false);
  assert.equal(store.environments.get(row.id), row);
  for (const change of [{ description: "d" }, { includeScaling: true }, { requireProvenance: true }]) {
    const before = store.environments.get(row.id);
    assert.is(store.environments.update(before, { ...fields, ...change }), true);
    assert.ok(store.environments.get(row.id).last_modified_at > before.last_modified_at);
  }
  const after = store.environments.get(row.id);
  assert.equal(
    {
      description: after.description,
      include_scaling: after.include_scaling,
      require_provenance: after.require_provenance,
      revision: after.revision,
    },
    { description: "", include_scaling: 0, require_provenance: 1, revision: 0 },
  );
});

test("members keep their order through additions, replacements and archiving", () => {
  const { store, environment } = opened();
  const { environments } = store;
  const all = environment("all", "logical").id;
  const [a, b, c] = ["a", "b", "c"].map((name) => environment(name)) as [
    EnvironmentRow,
    EnvironmentRow,
    EnvironmentRow,
  ];
  assert.is(environments.setMembers(all, [c.id, a.id]), true);
  assert.is(environments.setMembers(all, [c.id, a.id]), false);
  assert.is(environments.addMember(all, b.id), true);
  assert.is(environments.addMember(all, a.id), false);
  assert.equal(environments.listMemberIds(all), [c.id, a.id, b.id]);
  assert.is(environments.setMembers(all, [a.id, b.id, c.id]), true);
  environments.archive(b);
  assert.equal(environments.listMemberIds(all), [a.id, c.id]);
  const fresh = environment("b");
  environments.addMember(all, fresh.id);
  assert.equal(environments.listMemberIds(all), [a.id, c.id, fresh.id]);
  assert.is(environments.setMembers(all, []), true);
  assert.is(environments.setMembers(all, []), false);
  assert.is(environments.get(all).revision, 0);
});

test("attached policies keep their order, and calls return whether the set changed", () => {
  const { store, environment, policy } = opened();
  const { environments } = store;
  const { id } = environment("a");
  const [p, q, r] = ["p", "q", "r"].map(policy) as [number, number, number];
  const names = () => environments.listPolicies(id).map(({ name }) => name);
  const revision = () => environments.get(id).revision;
  assert.equal(
    { attach: environments.attachPolicies(id, [q, p]), names: names(), revision: revision() },
    { attach: true, names: ["q", "p"], revision: 1 },
  );
  assert.equal(
    { attach: environments.attachPolicies(id, [p, r]), names: names(), revision: revision() },
    { attach: true, names: ["q", "p", "r"], revision: 2 },
  );
  assert.equal(
    {
      "attach(id, [p, q])": environments.attachPolicies(id, [p, q]),
      "attach(id, [])": environments.attachPolicies(id, []),
      revision: revision(),
    },
    { "attach(id, [p, q])": false, "attach(id, [])": false, revision: 2 },
  );
  assert.equal(
    { detach: environments.detachPolicies(id, [q, q]), names: names(), revision: revision() },
    { detach: true, names: ["p", "r"], revision: 3 },
  );
  assert.equal({ detach: environments.detachPolicies(id, [q]), revision: revision() }, { detach: false, revision: 3 });
  assert.equal(
    { setPolicies: environments.setPolicies(id, [p, r]), revision: revision() },
    { setPolicies: false, revision: 3 },
  );
  // A new order is not an attachment, but the next evaluation uses it.
  assert.equal(
    { setPolicies: environments.setPolicies(id, [r, p]), names: names(), revision: revision() },
    { setPolicies: false, names: ["r", "p"], revision: 4 },
  );
  assert.equal(
    { setPolicies: environments.setPolicies(id, [p, q]), names: names(), revision: revision() },
    { setPolicies: true, names: ["p", "q"], revision: 5 },
  );
  assert.equal(
    { attach: environments.attachPolicies(id, [r]), attached: environments.listPolicies(id) },
    {
      attach: true,
      attached: [
        { id: p, name: "p" },
        { id: q, name: "q" },
        { id: r, name: "r" },
      ],
    },
  );
  assert.equal(
    { setPolicies: environments.setPolicies(id, []), names: names(), revision: revision() },
    { setPolicies: true, names: [], revision: 7 },
  );
});

test("lists the active environments that use a policy by name", () => {
  const { store, environment, policy } = opened();
  const [p, q] = [policy("p"), policy("q")];
  const rows = ["b", "a", "c"].map((name) => environment(name));
  for (const { id } of rows) store.environments.attachPolicies(id, [p]);
  assert.equal(store.policies.listConsumingEnvironments(p), ["a", "b", "c"]);
  store.environments.archive(rows[1] as EnvironmentRow);
  store.environments.rename(rows[2] as EnvironmentRow, "A");
  assert.equal(store.policies.listConsumingEnvironments(p), ["A", "b"]);
  assert.equal(store.policies.listConsumingEnvironments(q), []);
});

test("a view has its lists as JSON, in order, with names quoted", () => {
  const { store, environment, policy } = opened();
  const { environments } = store;
  const all = environment("all", "logical").id;
  const [a, b] = [environment("a"), environment("b")];
  environments.setMembers(all, [b.id, a.id]);
  environments.attachPolicies(a.id, [policy("z"), policy("y")]);
  environments.patchTags(a.id, { set: { k: '"v"\n', n: "1" }, remove: [] });
  const views = store.environmentLists.list(
    a.organization_id,
    { search: "", types: null, tags: [], state: null },
    { order: { by: "name", direction: "asc" }, window: null },
  );
  assert.equal(
    views.map(({ name, tags_json, policies_json, members_json }) => [
      name,
      JSON.parse(tags_json),
      JSON.parse(policies_json),
      members_json,
    ]),
    [
      ["a", { k: '"v"\n', n: "1" }, ["z", "y"], null],
      ["all", {}, [], '[["b",null],["a",null]]'],
      ["b", {}, [], null],
    ],
  );
  assert.equal(store.environmentLists.get(all), views[1]);
});

test("environments of another organization are in no list and no count", () => {
  const { store, acme, environment } = opened();
  environment("a");
  const other = store.organizations.create({ name: "other", kind: "shared", isPublic: false, controlsEnabled: true });
  const filter = { search: "", types: null, tags: [], state: null };
  const none = { "NON-COMPLIANT": 0, COMPLIANT: 0, UNKNOWN: 0 };
  assert.equal(store.environmentLists.countStates(acme.id, filter), { ...none, UNKNOWN: 1 });
  assert.equal(store.environmentLists.countStates(other, filter), none);
  assert.equal(
    store.environmentLists.list(other, filter, { order: { by: "name", direction: "asc" }, window: null }),
    [],
  );
});

test("no statement scans a table; only the rows of one environment or organization are sorted", () => {
  const { db, sql } = opened();
  const mine = sql.filter((text) => /\benvironment(s|_\w+)\b/.test(text) && !/snapshot|\bevaluations\b/.test(text));
  assert.ok(mine.length >= 30, String(mine.length));
  for (const text of mine) assert.equal(scans(db, text), [], text);
  const lists = mine
    .filter((text) => text.includes("@limit") && text.includes("members_json"))
    .map((text) => plan(db, text));
  assert.equal(
    lists.map(([first]) => first),
    Array(8).fill("SEARCH env USING INDEX sqlite_autoindex_environments_2 (organization_id=?)"),
  );
  assert.equal(
    lists.map((steps) => steps.includes("USE TEMP B-TREE FOR ORDER BY")),
    [true, true, false, false, true, true, true, true],
  );
});

test.run();
