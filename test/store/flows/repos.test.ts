import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { RepoFilter } from "../../../src/store/flows/repo-lists.ts";
import type { RepoFacts, RepoRow } from "../../../src/store/flows/repos.ts";
import { opened, plan, scans } from "../given.ts";

const test = suite("store/flows/repos");

const FACTS: RepoFacts = {
  externalId: "17",
  provider: "github",
  name: "acme/shop",
  url: "https://github.com/acme/shop",
  description: "",
  namespacePath: null,
  additionalInfoJson: null,
};
const ALL: RepoFilter = { provider: null, vcsInstance: null, namespace: null, tags: [], only: null, search: null };

function world() {
  const setup = opened();
  const { store, organizationId } = setup;
  const capture = (fields: Partial<RepoFacts> = {}, organization = organizationId): number =>
    store.repos.capture(organization, { ...FACTS, ...fields });
  const row = (id: number): RepoRow => setup.db.prepare("SELECT * FROM repos WHERE id = ?").get(id) as RepoRow;
  let ids = 0;
  /** Captures a repository with its own id and provider. */
  const add = (name: string, fields: Partial<RepoFacts> = {}): number =>
    capture({ name, externalId: `r${(ids += 1)}`, ...fields });
  const find = (filter: Partial<RepoFilter>, direction: "asc" | "desc" = "asc"): string[] => {
    const names = store.repoLists
      .list(organizationId, { ...ALL, ...filter }, { direction, limit: 50, offset: 0 })
      .map(({ name }) => name);
    assert.is(store.repoLists.count(organizationId, { ...ALL, ...filter }), names.length, JSON.stringify(filter));
    return names;
  };
  const options = (filter: Partial<RepoFilter> = {}) =>
    store.repoLists.listFilterOptions(organizationId, { ...ALL, ...filter });
  return { ...setup, capture, row, add, find, options };
}

test("id and provider identify a repository in its organization", () => {
  const { capture, store, db } = world();
  const id = capture();
  assert.is(capture(), id);
  assert.is(capture({ name: "acme/renamed" }), id);
  const other = store.organizations.create({ name: "other", kind: "shared", isPublic: false, controlsEnabled: true });
  const more = [
    capture({ provider: "gitlab" }),
    capture({ provider: "" }),
    capture({ externalId: "18" }),
    capture({}, other),
  ];
  assert.is(new Set([id, ...more]).size, 5);
  assert.is(db.prepare("SELECT count(*) FROM repos").pluck().get(), 5);
});

test("a further report replaces what it names and keeps what it leaves out", () => {
  const { capture, row, clock } = world();
  const id = capture({
    description: "A shop",
    namespacePath: ["acme", "web"],
    additionalInfoJson: '{"project_key":"S"}',
  });
  const first = row(id);
  assert.equal(
    {
      created_at: first.created_at,
      last_modified_at: first.last_modified_at,
      latest_activity_at: first.latest_activity_at,
    },
    { created_at: clock.at, last_modified_at: clock.at, latest_activity_at: clock.at },
  );
  assert.equal(
    { search_name: first.search_name, vcs_instance: first.vcs_instance, namespace: first.namespace },
    { search_name: "acme/shop", vcs_instance: "github.com", namespace: "acme/web" },
  );

  capture();
  assert.equal(row(id), { ...first, latest_activity_at: clock.at }, "nothing new but that it was heard of");
  capture({ url: "https://git.test/shop", description: "The shop", additionalInfoJson: "{}" });
  assert.equal(row(id), {
    ...first,
    url: "https://git.test/shop",
    vcs_instance: "git.test",
    description: "The shop",
    additional_info_json: "{}",
    last_modified_at: clock.at,
    latest_activity_at: clock.at,
  });
});

test("a new name drops the namespace, unless the report gives another one", () => {
  const { capture, row } = world();
  const id = capture({ namespacePath: ["told"] });
  capture();
  assert.equal(
    { namespace: row(id).namespace, namespace_path_json: row(id).namespace_path_json },
    { namespace: "told", namespace_path_json: '["told"]' },
  );
  capture({ name: "globex/Shop" });
  assert.equal(
    {
      namespace: row(id).namespace,
      namespace_path_json: row(id).namespace_path_json,
      search_name: row(id).search_name,
    },
    { namespace: "globex", namespace_path_json: null, search_name: "globex/shop" },
  );
  capture({ name: "globex/cart", namespacePath: ["a", "b"] });
  assert.equal(row(id).namespace, "a/b");
});

test("accepts a report on a damaged row", () => {
  const { capture, row, db } = world();
  const id = capture({ namespacePath: ["told"] });
  for (const damaged of ["{", "7", "[1]", '{"a":1}']) {
    db.prepare("UPDATE repos SET namespace_path_json = ? WHERE id = ?").run(damaged, id);
    assert.is(capture(), id);
    assert.equal(row(id).namespace, "acme");
  }
});

test("the next report corrects what a migration derived less exactly", () => {
  const { capture, row, db } = world();
  const id = capture({ name: "Größe/Ä", url: "https://git.test:443/x" });
  db.prepare("UPDATE repos SET search_name = 'GRößE/Ä', vcs_instance = 'git.test:443'").run();
  capture({ name: "Größe/Ä", url: "https://git.test:443/x" });
  assert.equal(
    { search_name: row(id).search_name, vcs_instance: row(id).vcs_instance },
    { search_name: "größe/ä", vcs_instance: "git.test" },
  );
});

test("finds repositories by name, by their id at the forge and by public id", () => {
  const { store, organizationId, capture, row } = world();
  const organization = { id: organizationId, name: "acme" };
  const other = store.organizations.create({ name: "other", kind: "shared", isPublic: false, controlsEnabled: true });
  const [github, gitlab] = [capture(), capture({ provider: "gitlab" })];
  capture({}, other);
  const { repos } = store;
  assert.equal(
    repos.listByName(organizationId, "acme/shop").map(({ id }) => id),
    [gitlab, github],
  );
  assert.equal(repos.listByName(organizationId, "acme/SHOP"), []);
  assert.equal(
    repos.listByExternalId(organizationId, "17").map(({ id }) => id),
    [gitlab, github],
  );
  assert.equal(repos.listByExternalId(organizationId, "nothing"), []);
  const { public_id } = row(github);
  assert.is(repos.findByPublicId(organizationId, public_id)?.id, github);
  assert.is(repos.findByPublicId(other, public_id), null);
  assert.is(repos.require(organization, public_id).id, github);
  assert.throws(
    () => repos.require({ id: other, name: "other" }, public_id),
    (error: Error) => error.message === `Repo '${public_id}' not found in organization 'other'`,
  );
  assert.equal(repos.requireByName(organization, "acme/shop").length, 2);
  assert.throws(
    () => repos.requireByName(organization, "x"),
    (error: Error) => error.message === "Repo 'x' not found in organization 'acme'",
  );
});

test("lists repositories by name, equal names in the order of creation", () => {
  const { add, find, store, organizationId } = world();
  const [b, a, second, c] = [add("b"), add("a"), add("b"), add("B")];
  const ids = (direction: "asc" | "desc", limit = 9, offset = 0) =>
    store.repoLists.list(organizationId, ALL, { direction, limit, offset }).map(({ id }) => id);
  assert.equal(ids("asc"), [c, a, b, second]);
  assert.equal(ids("desc"), [second, b, a, c]);
  assert.equal(
    { "ids asc 2": ids("asc", 2), "ids asc 2 2": ids("asc", 2, 2), "ids asc 2 4": ids("asc", 2, 4) },
    { "ids asc 2": [c, a], "ids asc 2 2": [b, second], "ids asc 2 4": [] },
  );
  assert.equal(find({}), ["B", "a", "b", "b"]);
});

test("each filter works alone and in combination", () => {
  const { add, find, store, organizationId } = world();
  const shop = add("acme/Shop", { url: "https://GitHub.com/x" });
  add("acme/web/cart_1", { provider: "gitlab", url: "https://git.test:8443/x" });
  add("acme-labs/cart%", { provider: "", url: "https://git.test:8443/x" });
  add("plain", { provider: "gitlab", url: "https://gitlab.com/x", namespacePath: ["acme", "web", "deep"] });
  add("Größe/Ä", {});
  store.repos.patchTags(shop, { set: { team: "pay", tier: "1" }, remove: [] });
  const cases: [Partial<RepoFilter>, string[]][] = [
    [{ search: "SHOP" }, ["acme/Shop"]],
    [{ search: "größe/ä" }, ["Größe/Ä"]],
    [{ search: "_" }, ["acme/web/cart_1"]],
    [{ search: "%" }, ["acme-labs/cart%"]],
    [{ search: "" }, ["Größe/Ä", "acme-labs/cart%", "acme/Shop", "acme/web/cart_1", "plain"]],
    [{ only: { name: "acme/Shop" } }, ["acme/Shop"]],
    [{ only: { name: "acme/shop" } }, []],
    [{ only: { externalId: "r2" } }, ["acme/web/cart_1"]],
    [{ only: { externalId: "r2" }, search: "shop" }, []],
    [{ provider: "gitlab" }, ["acme/web/cart_1", "plain"]],
    [{ vcsInstance: "GIT.test:8443" }, ["acme-labs/cart%", "acme/web/cart_1"]],
    [{ vcsInstance: "git.test" }, []],
    [{ namespace: "acme" }, ["acme/Shop", "acme/web/cart_1", "plain"]],
    [{ namespace: "/acme/web/" }, ["acme/web/cart_1", "plain"]],
    [{ namespace: "acme/web/deep" }, ["plain"]],
    [{ namespace: "acme/we" }, []],
    [{ namespace: "ACME" }, []],
    [{ namespace: "/" }, ["Größe/Ä", "acme-labs/cart%", "acme/Shop", "acme/web/cart_1", "plain"]],
    [{ tags: [{ key: "team", value: null }] }, ["acme/Shop"]],
    [
      {
        tags: [
          { key: "team", value: "pay" },
          { key: "tier", value: null },
        ],
      },
      ["acme/Shop"],
    ],
    [
      {
        tags: [
          { key: "team", value: "pay" },
          { key: "none", value: null },
        ],
      },
      [],
    ],
    [{ tags: [{ key: "team", value: "PAY" }] }, []],
    [{ provider: "gitlab", namespace: "acme", search: "cart" }, ["acme/web/cart_1"]],
  ];
  for (const [filter, names] of cases) assert.equal(find(filter), names, JSON.stringify(filter));
  assert.is(store.repoLists.count(organizationId + 1, ALL), 0);
});

test("lists the values of each filter, ignoring that filter itself", () => {
  const { add, options, store } = world();
  const shop = add("acme/shop", { url: "https://github.com/x" });
  add("acme/web/cart", { provider: "gitlab", url: "https://git.test/x" });
  add("acme/web/deep/er", { provider: "gitlab", url: "https://git.test/x" });
  add("globex/site", { provider: "", url: "https://git.test/x" });
  add("plain", { url: "https://github.com/x" });
  store.repos.patchTags(shop, { set: { team: "pay" }, remove: [] });
  assert.equal(options(), {
    providers: ["github", "gitlab"],
    vcsInstances: ["git.test", "github.com"],
    namespaces: ["acme", "globex"],
  });
  assert.equal(options({ provider: "gitlab" }), {
    providers: ["github", "gitlab"],
    vcsInstances: ["git.test"],
    namespaces: ["acme"],
  });
  assert.equal(options({ vcsInstance: "git.test" }), {
    providers: ["gitlab"],
    vcsInstances: ["git.test", "github.com"],
    namespaces: ["acme", "globex"],
  });
  assert.equal(options({ namespace: "acme" }), {
    providers: ["github", "gitlab"],
    vcsInstances: ["git.test", "github.com"],
    namespaces: ["acme/web"],
  });
  assert.equal(options({ namespace: "acme/web/" }), {
    providers: ["gitlab"],
    vcsInstances: ["git.test"],
    namespaces: ["acme/web/deep"],
  });
  assert.equal(options({ namespace: "globex" }), { providers: [], vcsInstances: ["git.test"], namespaces: [] });
  assert.equal(options({ tags: [{ key: "team", value: "pay" }] }), {
    providers: ["github"],
    vcsInstances: ["github.com"],
    namespaces: ["acme"],
  });
  assert.equal(options({ provider: "github", vcsInstance: "git.test" }), {
    providers: ["gitlab"],
    vcsInstances: ["github.com"],
    namespaces: [],
  });
});

test("a tag change modifies the repository, and every tag in use is listed once", () => {
  const { add, store, organizationId, row, clock } = world();
  const other = store.organizations.create({ name: "other", kind: "shared", isPublic: false, controlsEnabled: true });
  const [a, b, foreign] = [add("a"), add("b"), store.repos.capture(other, FACTS)];
  assert.equal(store.repoLists.listTagChoices(organizationId), []);
  const before = row(a);
  store.repos.patchTags(a, { set: { team: "pay", tier: "1" }, remove: [] });
  assert.equal(row(a), { ...before, last_modified_at: clock.at });
  store.repos.patchTags(b, { set: { team: "pay", tier: "2" }, remove: ["never"] });
  store.repos.patchTags(foreign, { set: { secret: "x" }, remove: [] });
  assert.equal(store.repoLists.listTagChoices(organizationId), [
    { key: "team", value: "pay" },
    { key: "tier", value: "1" },
    { key: "tier", value: "2" },
  ]);
  assert.equal(store.repoLists.get(a).tags_json, '{"team":"pay","tier":"1"}');
  store.repos.patchTags(a, { set: {}, remove: ["team", "tier"] });
  assert.is(store.repoLists.get(a).tags_json, "{}");
});

test("an index serves every query on repositories, and lists follow its order", () => {
  const { db, sql } = world();
  const about = sql.filter((text) => /FROM repos\b/.test(text) && text.startsWith("SELECT"));
  assert.ok(about.length >= 18, `${about.length}`);
  for (const text of about) assert.equal(scans(db, text), [], text);
  const lists = about.filter((text) => text.includes("LIMIT @limit") && !/@only|AS shown/.test(text));
  assert.is(lists.length, 2);
  for (const text of lists)
    assert.not.ok(
      plan(db, text).some((step) => step.includes("TEMP B-TREE")),
      text,
    );
  const walks = about.filter(
    (text) => /count\(\*\)|DISTINCT r\./.test(text) && !text.includes("r.external_id = @only"),
  );
  assert.is(walks.length, 4);
  for (const text of walks)
    assert.ok(plan(db, text)[0]?.startsWith("SEARCH r USING COVERING INDEX repos_listed"), plan(db, text).join("\n"));
});

test.run();
