import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { PolicyDocument } from "../../../src/domain/policy/ast.ts";
import { parsePolicy } from "../../../src/domain/policy/document.ts";
import { serializePolicy } from "../../../src/domain/policy/stored.ts";
import { AppError } from "../../../src/errors.ts";
import { openMemory } from "../../../src/store/db/database.ts";
import { openStore } from "../../../src/store/index.ts";
import { GroupCommitWriter } from "../../../src/store/db/group-commit.ts";

const test = suite("store/policies/policies");

const V1 = "_schema: https://assay.example.com/schemas/policy/v1\n";
const V2 = `${V1}artifacts:\n  provenance:\n    required: true\n`;

/** An empty database with one organization, and a clock that advances one second with every reading. */
function open() {
  const db = openMemory();
  let at = 100;
  let ids = 0;
  const { policies, organizations } = openStore(db, {
    now: () => (at += 1),
    newId: () => `00000000-0000-4000-8000-${String((ids += 1)).padStart(8, "0")}`,
  });
  const organization = organizations.create({ name: "acme", kind: "shared", isPublic: false, controlsEnabled: true });
  const put = (description: string, yaml: string | null, comment = "", user = "ann") =>
    policies.put(organization, {
      name: "production",
      description,
      user,
      file: yaml === null ? null : { yaml, comment },
    });
  const events = (id: number) =>
    policies
      .listEvents(id)
      .map(({ type, timestamp, user_name, data_json }) => ({ type, timestamp, user_name, data_json }));
  const versions = (id: number) =>
    policies
      .listVersions(id)
      .reverse()
      .map(({ bytes, ...version }) => {
        const policy_yaml = policies.getText(version.id);
        assert.is(bytes, Buffer.byteLength(policy_yaml));
        return { ...version, policy_yaml };
      });
  return { db, policies, organization, put, events, versions };
}

test("creates a policy with a file with version 1 and both events at the same time", () => {
  const { policies, organization, put, events, versions } = open();
  const { policy, created, described, version } = put("what may run", V1, "first");
  assert.is(created, true);
  assert.is(described, false);
  const at = policy.created_at;
  assert.equal(policy, {
    id: policy.id,
    public_id: policy.public_id,
    organization_id: organization,
    name: "production",
    description: "what may run",
    created_by: "ann",
    created_at: at,
    last_modified_at: at,
  });
  assert.equal(versions(policy.id), [
    { id: version?.id, version: 1, comment: "first", timestamp: at, created_by: "ann", policy_yaml: V1 },
  ]);
  assert.equal(version, policies.findLatestVersion(policy.id));
  assert.equal(events(policy.id), [
    { type: "creation", timestamp: at, user_name: "ann", data_json: null },
    { type: "new_version", timestamp: at, user_name: "ann", data_json: '{"version":1}' },
  ]);
});

test("a policy without a file has no version until it gets one", () => {
  const { policies, put, events, versions } = open();
  const { policy, created, version } = put("", null);
  assert.is(created, true);
  assert.is(version, null);
  assert.equal(versions(policy.id), []);
  assert.is(policies.findLatestVersion(policy.id), null);
  assert.equal(
    events(policy.id).map((event) => event.type),
    ["creation"],
  );

  const later = put("", V1, "", "bob");
  assert.is(later.created, false);
  assert.is(later.version?.version, 1);
  assert.is(later.version?.created_by, "bob");
  assert.is(later.policy.created_by, "ann");
  assert.equal(
    events(policy.id).map((event) => event.type),
    ["creation", "new_version"],
  );
});

test("the change determines version, events and time of modification", () => {
  const { db, put, events, versions } = open();
  const { policy } = put("one", V1, "first");
  const count = () => db.prepare("SELECT total_changes()").pluck().get();

  let before = count();
  for (const repeated of [put("one", V1, "first"), put("one", V1, "another comment", "bob"), put("one", null)])
    assert.equal(repeated, { policy, created: false, described: false, version: null });
  assert.is(count(), before, "nothing is written");

  const described = put("two", V1, "ignored", "bob");
  assert.equal(described.policy, {
    ...policy,
    description: "two",
    last_modified_at: described.policy.last_modified_at,
  });
  assert.ok(described.policy.last_modified_at > policy.last_modified_at);
  assert.is(described.described, true);
  assert.is(described.version, null);

  const changed = put("two", V2, "second");
  assert.is(changed.described, false);
  assert.is(changed.version?.version, 2);
  assert.is(changed.version?.comment, "second");
  assert.ok(changed.policy.last_modified_at > described.policy.last_modified_at);

  // Content of an earlier version differs from the latest one.
  const both = put("three", V1, "back");
  assert.is(both.described, true);
  assert.is(both.version?.version, 3);

  const without = put("", null);
  assert.is(without.policy.description, "");
  assert.equal(
    versions(policy.id).map(({ version, policy_yaml }) => [version, policy_yaml]),
    [
      [1, V1],
      [2, V2],
      [3, V1],
    ],
  );
  assert.equal(
    events(policy.id).map(({ type, user_name, data_json }) => [type, user_name, data_json]),
    [
      ["creation", "ann", null],
      ["new_version", "ann", '{"version":1}'],
      ["metadata_update", "bob", null],
      ["new_version", "ann", '{"version":2}'],
      ["metadata_update", "ann", null],
      ["new_version", "ann", '{"version":3}'],
      ["metadata_update", "ann", null],
    ],
  );
  before = count();
  put("", V1);
  assert.is(count(), before);
});

test("texts that differ in a byte are different: line endings, a byte order mark, a final newline", () => {
  const { put, versions } = open();
  const texts = [V1, V1.trimEnd(), V1.replace("\n", "\r\n"), `\ufeff${V1}`];
  for (const text of texts) put("", text);
  const { id } = put("", null).policy;
  assert.equal(
    versions(id).map((version) => version.policy_yaml),
    texts,
  );
});

test("names belong to an organization, and lists are ordered by name", () => {
  const { db, policies, organization, put } = open();
  put("", V1);
  const other = openStore(db, { now: () => 1, newId: () => "00000000-0000-4000-8000-ffffffff" }).organizations.create({
    name: "other",
    kind: "shared",
    isPublic: false,
    controlsEnabled: true,
  });
  assert.is(policies.find(other, "production"), null);
  policies.put(other, { name: "production", description: "theirs", user: "zoe", file: null });
  policies.put(organization, { name: "a-first", description: "", user: "ann", file: null });
  assert.equal(
    policies.list(organization).map((policy) => policy.name),
    ["a-first", "production"],
  );
  assert.equal(
    policies.list(other).map((policy) => policy.description),
    ["theirs"],
  );
  assert.is(policies.require({ id: other, name: "other" }, "production").description, "theirs");
  try {
    policies.require({ id: other, name: "other" }, "a-first");
    assert.unreachable("there is no such policy");
  } catch (error) {
    assert.instance(error, AppError);
    assert.is((error as AppError).code, "not_found");
    assert.is((error as AppError).message, "Policy 'a-first' does not exist in organization 'other'");
  }
  assert.equal(
    policies.listConsumingEnvironments(policies.require({ id: organization, name: "acme" }, "production").id),
    [],
  );
});

test("returns the same parsed document of a version every time", () => {
  const { policies, put } = open();
  const one = put("", V1).version?.id ?? 0;
  const two = put("", V2).version?.id ?? 0;
  assert.is(policies.getDocument(one).provenance.required, false);
  assert.is(policies.getDocument(two).provenance.required, true);
  assert.is(policies.getDocument(two), policies.getDocument(two));
  assert.throws(() => policies.getDocument(two + 1), /policy version \d+ is gone/);
});

test("does not use the rules of a rolled-back version for the version that gets its id", () => {
  const { db, policies, put } = open();
  put("", null);
  db.exec("SAVEPOINT attempt");
  const undone = put("", V1).version?.id ?? 0;
  assert.is(policies.getDocument(undone).provenance.required, false);
  db.exec("ROLLBACK TO attempt; RELEASE attempt");
  const stored = put("", V2).version?.id ?? 0;
  assert.is(stored, undone);
  assert.is(policies.getDocument(stored).provenance.required, true);
});

test("reads every document right, also when there are more than the cache holds", () => {
  const { policies, put } = open();
  const ids: number[] = [];
  for (let n = 0; n < 70; n += 1)
    ids.push(put("", `${V2}  attestations:\n    - {type: generic, name: check-${n}}\n`).version?.id ?? 0);
  for (const round of [1, 2])
    for (const [n, id] of ids.entries())
      assert.is(policies.getDocument(id).attestations[0]?.name, `check-${n}`, `round ${round}`);
  assert.is(policies.getDocument(ids[69] ?? 0), policies.getDocument(ids[69] ?? 0));
});

const large = (rules: string): string =>
  `${V1}${`# ${"x".repeat(98)}\n`.repeat(100)}artifacts:\n  attestations:\n${rules}`;

test("uses the stored form of a large policy without parsing its text again", () => {
  const { policies, organization } = open();
  const { policy } = parsePolicy(`${V1}artifacts: {attestations: [{type: snyk, if: "flow.name == 'a'"}]}`);
  const file = {
    yaml: large("[this is not parsed"),
    comment: "",
    controls: [],
    parsedJson: serializePolicy(policy as PolicyDocument),
  };
  const { version } = policies.put(organization, { name: "p", description: "", user: "ann", file });
  const rules = policies.getDocument(version?.id ?? 0);
  assert.equal(JSON.stringify(rules), JSON.stringify(policy));
  assert.is(policies.getDocument(version?.id ?? 0), rules);
});

test("loads a policy that exceeds the limits for new ones", () => {
  const { policies, put } = open();
  const chain = Array(30_000).fill("true").join(" or ");
  const rules = Array.from({ length: 600 }, (_, index) => `    - {type: generic, name: check-${index}}\n`).join("");
  const { version } = put("", large(`    - {type: snyk, name: ${"n".repeat(300)}, if: "${chain}"}\n${rules}`));
  const { attestations } = policies.getDocument(version?.id ?? 0);
  assert.is(attestations.length, 601);
  assert.is(attestations[0]?.condition?.text, chain);
});

test("distinguishes an invalid stored text from a missing version", () => {
  const { db, policies, put } = open();
  const { policy } = put("", V1);
  const id = Number(
    db
      .prepare(
        `INSERT INTO policy_versions (policy_id, version, timestamp, created_by, policy_yaml) VALUES (?, 2,
            1, 'ann', '[')`,
      )
      .run(policy.id).lastInsertRowid,
  );
  assert.throws(() => policies.getDocument(id), /version 2 of policy \d+ is stored but no valid policy/);
});

test("a rolled-back put leaves nothing, and its neighbours in the batch stay", async () => {
  const { db, policies, put, versions } = open();
  const writer = new GroupCommitWriter(db);
  const outcomes = await Promise.allSettled([
    writer.run(() => put("", V1)),
    writer.run(() => {
      put("changed", V2);
      throw new AppError("invalid", "no");
    }),
    writer.run(() => put("", V2)),
  ]);
  assert.equal(
    outcomes.map((outcome) => outcome.status),
    ["fulfilled", "rejected", "fulfilled"],
  );
  const { policy } = put("", null);
  assert.equal(
    versions(policy.id).map((version) => version.version),
    [1, 2],
  );
  assert.equal(
    policies.listEvents(policy.id).map((event) => event.type),
    ["creation", "new_version", "new_version"],
  );
});

test.run();
