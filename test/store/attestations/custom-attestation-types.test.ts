import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { AppError } from "../../../src/errors.ts";
import { opened, plan } from "../given.ts";

const test = suite("store/attestations/custom-attestation-types");
const DEFAULTS = {
  description: null,
  user: "Ada",
  schema_json: null,
  content_type: "default",
  rules_json: "[]",
  summary_json: null,
} as const;

function world() {
  const setup = opened();
  const types = setup.store.customAttestationTypes;
  const acme = { id: setup.organizationId, name: "acme" };
  return {
    ...setup,
    types,
    acme,
    put: (name: string, more: Partial<Parameters<typeof types.put>[1]> = {}) =>
      types.put(acme.id, { ...DEFAULTS, name, ...more }),
  };
}

test("each put adds a version to the type with that name; the head has its latest change and first creation", () => {
  const { types, acme, put, clock } = world();
  assert.equal(
    put("cov", {
      description: "one",
      schema_json: "{}",
      content_type: "jq",
      rules_json: '["true"]',
      summary_json: '[{"name":"a","expression":"."}]',
    }),
    { created: true, version: 1 },
  );
  const first = clock.at;
  assert.equal(put("cov", { user: "Eve" }), { created: false, version: 2 });
  const row = types.require(acme, "cov");
  assert.equal(
    {
      description: row.description,
      created_by: row.created_by,
      created_at: row.created_at,
      last_modified_at: row.last_modified_at,
      archived_at: row.archived_at,
    },
    { description: null, created_by: "Ada", created_at: first, last_modified_at: clock.at, archived_at: null },
  );
  const two = {
    id: 2,
    type_id: row.id,
    version: 2,
    timestamp: clock.at,
    created_by: "Eve",
    comment: null,
    schema_json: null,
    content_type: "default",
    rules_json: "[]",
    summary_json: null,
  };
  const one = {
    ...two,
    id: 1,
    version: 1,
    timestamp: first,
    created_by: "Ada",
    schema_json: "{}",
    content_type: "jq",
    rules_json: '["true"]',
    summary_json: '[{"name":"a","expression":"."}]',
  };
  assert.equal([...types.listVersions(row.id)], [two, one]);
  assert.equal(
    {
      "latest(row.id)": types.getLatestVersion(row.id),
      "version 1": types.findVersion(row.id, 1),
      "version 3": types.findVersion(row.id, 3),
      "version 0": types.findVersion(row.id, 0),
    },
    { "latest(row.id)": two, "version 1": one, "version 3": null, "version 0": null },
  );
});

test("names belong to an organization, and the error names it for an unknown type", () => {
  const { store, types, acme, put } = world();
  const other = store.organizations.create({ name: "other", kind: "shared", isPublic: false, controlsEnabled: true });
  for (const name of ["b", "a", "B"]) put(name);
  assert.equal(
    types.list({ organizationId: acme.id, search: "" }).map(({ name }) => name),
    ["B", "a", "b"],
  );
  assert.equal(
    { list: types.list({ organizationId: other, search: "" }), types: types.find(other, "a") },
    { list: [], types: null },
  );
  assert.throws(
    () => types.require({ id: other, name: "other" }, "a"),
    (error: AppError) =>
      error.code === "not_found" && error.message === "Custom attestation type 'a' does not exist for org 'other'",
  );
});

test("archives a type once; its next version makes it active again and continues the numbering", () => {
  const { types, acme, put, clock } = world();
  put("cov");
  const { id } = types.require(acme, "cov");
  assert.is(types.archive(id), true);
  const archived = types.require(acme, "cov");
  assert.equal(
    { archived_at: archived.archived_at, last_modified_at: archived.last_modified_at },
    { archived_at: clock.at, last_modified_at: clock.at },
  );
  assert.is(types.archive(id), false);
  assert.equal(types.require(acme, "cov"), archived);
  assert.equal(types.list({ organizationId: acme.id, search: "" }), [archived]);
  assert.equal(put("cov"), { created: false, version: 2 });
  assert.equal([types.require(acme, "cov").archived_at, [...types.listVersions(id)].length], [null, 2]);
});

test("an index serves every query on types, without sorting", () => {
  const { db, sql } = world();
  const queries = sql.filter((text) => /FROM custom_type/.test(text));
  assert.ok(queries.length >= 6);
  for (const text of queries) {
    assert.not.match(plan(db, text).join("; "), /SCAN|TEMP B-TREE/, text);
  }
});

test.run();
