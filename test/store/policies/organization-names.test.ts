/** The names that an organization has: what counts, and how much is read. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { OrganizationNames } from "../../../src/domain/organization-names.ts";
import { opened, scans } from "../given.ts";

const test = suite("store/policies/organization-names");

const TEMPLATE = (name: string, type: string): string =>
  `trail:\n  attestations: [{ name: ${name}, type: "${type}" }]\n  artifacts:\n` +
  `    - { name: image, attestations: [{ name: ${name}-image, type: junit }] }\n`;

const TYPE = {
  description: "",
  schema_json: null,
  content_type: "jq",
  rules_json: "[]",
  summary_json: null,
  user: "ada",
} as const;

/** acme has the flows `api` and `web`, and `old`, which is archived; another organization has `foreign`. */
function world() {
  const house = opened();
  const { store, organizationId } = house;
  const api = house.flow("api", TEMPLATE("review", "pull_request"));
  house.flow("web", TEMPLATE("any", "*"));
  const old = house.flow("old", TEMPLATE("gone", "junit"));
  store.flows.patchTags(api.id, { set: { risk: "7" }, remove: [] });
  store.flows.patchTags(old.id, { set: { former: "1" }, remove: [] });
  store.flows.archive(old);
  const trail = house.trail(api.id, "t").id;
  house.attestation(api.id, trail, "licenses");
  house.attestation(api.id, trail, "release", { type: "system:decision" });
  for (const name of ["coverage", "retired"]) store.customAttestationTypes.put(organizationId, { name, ...TYPE });
  const retired = store.customAttestationTypes.find(organizationId, "retired");
  store.customAttestationTypes.archive(retired?.id ?? 0);
  const other = store.organizations.create({ name: "other", kind: "shared", isPublic: false, controlsEnabled: true });
  store.customAttestationTypes.put(other, { name: "foreign", ...TYPE });
  const ask = <T>(find: (known: OrganizationNames) => T, isOver = () => false, id = organizationId): T =>
    store.organizationNames.compare({ id, name: "acme" }, { isOver, find });
  return { ...house, other, ask };
}

test("has active flows and their tags, and types with their state, of this organization alone", () => {
  const { ask, other } = world();
  const all = ({ organization, flows, tagKeys, types, attestations }: OrganizationNames) => ({
    organization,
    flows: [...flows],
    tagKeys: [...tagKeys],
    types: [...types],
    attestations: [...attestations],
  });
  assert.equal(ask(all), {
    organization: "acme",
    flows: ["api", "web"],
    tagKeys: ["risk"],
    types: [
      ["coverage", "active"],
      ["retired", "archived"],
    ],
    attestations: ["any", "any-image", "licenses", "release", "review", "review-image"],
  });
  assert.equal(ask(all, undefined, other), {
    organization: "acme",
    flows: [],
    tagKeys: [],
    types: [["foreign", "active"]],
    attestations: [],
  });
});

test("expects what a template of an active flow lists, and what was reported, each by its type", () => {
  const { ask } = world();
  const expected = (name: string, type: string): boolean => ask((known) => known.isExpected(name, type));
  for (const [name, type] of [
    ["review", "pull_request"],
    ["review", "*"],
    ["review-image", "junit"],
    ["any", "snyk"],
    ["licenses", "generic"],
    ["licenses", "*"],
    ["release", "decision"],
  ] as const)
    assert.ok(expected(name, type), `${name} ${type}`);
  for (const [name, type] of [
    ["review", "junit"],
    ["gone", "junit"],
    ["licenses", "junit"],
    ["nothing", "*"],
  ] as const)
    assert.not.ok(expected(name, type), `${name} ${type}`);
});

test("parses the templates with the name alone, none for what was reported, and none once the time is over", () => {
  const { ask, store, flow } = world();
  flow("escaped", 'trail: { attestations: [{ name: "s\\x63an", type: snyk }] }\n');
  const parsed: number[] = [];
  const { getParsed } = store.templates;
  store.templates.getParsed = (id) => {
    parsed.push(id);
    return getParsed(id);
  };
  const count = (find: (known: OrganizationNames) => boolean, isOver?: () => boolean): [boolean, number] => {
    parsed.length = 0;
    return [ask(find, isOver), parsed.length];
  };
  assert.equal(
    count((known) => known.isExpected("licenses", "generic")),
    [true, 0],
  );
  // Of `api`, and of the one that YAML may write in another way.
  assert.equal(
    count((known) => known.isExpected("review", "snyk")),
    [false, 2],
  );
  assert.equal(
    count((known) => known.isExpected("scan", "snyk")),
    [true, 1],
  );
  const isOver = (): boolean => true;
  assert.equal(
    count((known) => known.isExpected("review", "pull_request"), isOver),
    [false, 0],
  );
  assert.equal(
    count((known) => known.attestations.has("review"), isOver),
    [false, 0],
  );
});

test("a damaged template that has the name may expect any type, and fails nothing", () => {
  const { ask, db } = world();
  db.prepare("UPDATE templates SET parsed_json = '{' WHERE content LIKE '%review%'").run();
  assert.ok(ask((known) => known.isExpected("review", "snyk")));
  assert.not.ok(ask((known) => known.isExpected("nothing", "*")));
  assert.equal(
    ask((known) => [...known.attestations]),
    ["any", "any-image", "licenses", "release"],
  );
});

test("reads by indexes", () => {
  const { sql, db } = world();
  const own = sql.filter((text) => /^SELECT (?:name FROM flows|DISTINCT|name, iif)/.test(text));
  assert.is(own.length >= 4, true);
  for (const text of own) assert.equal(scans(db, text), [], text);
});

test.run();
