import { suite } from "uvu";
import * as assert from "uvu/assert";
import { StoredJsonError } from "../../../src/domain/stored-json.ts";
import { AppError } from "../../../src/errors.ts";
import type { TrailFilter } from "../../../src/store/flows/trails.ts";
import { opened, plan, scans } from "../given.ts";

const test = suite("store/flows/trails");

test("an update does not set the time of a trail; the evaluation that follows does", () => {
  const { store, flow, trail } = opened();
  const row = trail(flow("f").id, "t", { description: "d" });
  assert.is(row.created_at, row.last_modified_at);
  const { description, git_commit_info_json, origin_url, external_urls_json, user_data_json, template_id } = row;
  store.trails.update(row.id, {
    description: "e",
    git_commit_info_json,
    origin_url,
    external_urls_json,
    user_data_json,
    template_id,
    template_inherited: 0,
  });
  assert.equal(store.trails.get(row.id), { ...row, description: "e", template_inherited: 0 });
  assert.is(description, "d");
  store.trailEvaluation.evaluate(row.id, 42);
  assert.is(store.trails.get(row.id).last_modified_at, 42);
});

test("finds trails by name in their own flow only", () => {
  const { store, flow, trail } = opened();
  const [a, b] = [flow("a"), flow("b")];
  const row = trail(a.id, "t");
  assert.is(store.trails.find(a.id, "t")?.id, row.id);
  assert.is(store.trails.find(b.id, "t"), null);
  assert.throws(
    () => store.trails.require({ organization: "acme", flow: b }, "t"),
    (error: unknown) =>
      error instanceof AppError &&
      error.message === "Trail with name 't' does not exist for Organization 'acme' and Flow 'b'",
  );
});

test("the verdict as far as one artifact needs it has the statuses of the trail and the entry of its name", () => {
  const { store, db, flow, trail, artifact } = opened();
  const [first, second, third] = ["a".repeat(64), "b".repeat(64), "c".repeat(64)] as const;
  const f = flow(
    "f",
    `{ version: 1, trail: { attestations: [{ name: review, type: "*" }], artifacts: [{ name: app }] } }`,
  );
  const t = trail(f.id, "t");
  for (const fingerprint of [first, second]) artifact(f.id, t.id, fingerprint, { referenceName: "app" });
  artifact(f.id, t.id, third, { referenceName: second });
  for (const fingerprint of [second, third]) artifact(f.id, t.id, fingerprint);
  store.trailEvaluation.evaluate(t.id, 1_795_738_589.524);
  const { attestations_statuses, artifacts_statuses, evaluated_at } = store.trails.getCompliance(t.id);
  const partOf = (fingerprint: string, reference_name: string | null) => {
    const part = store.trails.getComplianceOf(t.id, { fingerprint, reference_name });
    assert.equal(
      { own: part.attestations_statuses, at: part.evaluated_at },
      { own: attestations_statuses, at: evaluated_at },
    );
    return part.artifacts_statuses;
  };
  const entries = (...keys: string[]) => Object.fromEntries(keys.map((key) => [key, artifacts_statuses[key]]));
  assert.is(attestations_statuses.length, 1);
  assert.is(artifacts_statuses["app"]?.artifact_fingerprint, second, "the later of the name");
  for (const fingerprint of [first, second]) assert.equal(partOf(fingerprint, "app"), entries("app"));
  assert.equal(partOf(third, null), entries(third));
  // Its fingerprint is the name of another one, too.
  assert.equal(partOf(second, null), entries(second, `sha256:${second}`));
  assert.equal(partOf(first, "other"), {});
  assert.equal(store.trails.getComplianceOf(t.id, null).artifacts_statuses, {});
  for (const damaged of ["{", "[]", `{"attestations_statuses":{},"evaluated_at":1}`]) {
    db.prepare("UPDATE trails SET compliance_json = ? WHERE id = ?").run(damaged, t.id);
    assert.throws(
      () => store.trails.getComplianceOf(t.id, null),
      (error: unknown) => error instanceof StoredJsonError,
      damaged,
    );
  }
});

test("counts the trails of each flow, and those of an organization", () => {
  const { store, db, flow, trail, organizationId } = opened();
  const [a, b] = [flow("a"), flow("b")];
  for (const name of ["one", "two", "three"]) trail(a.id, name);
  assert.throws(
    () =>
      db.transaction(() => {
        trail(b.id, "undone");
        throw new Error("undone");
      })(),
    "undone",
  );
  const count = (flowId: number | null, organization = organizationId) =>
    store.trails.count({ organizationId: organization, flowId, flowTag: null, fingerprint: null });
  assert.equal(
    {
      "count a.id": count(a.id),
      "count b.id": count(b.id),
      "count(null)": count(null),
      "count(null, organizationId + 1)": count(null, organizationId + 1),
    },
    { "count a.id": 3, "count b.id": 0, "count(null)": 3, "count(null, organizationId + 1)": 0 },
  );
});

test("the history keeps its order and the members of each event", () => {
  const { store, flow, trail } = opened();
  const { id } = trail(flow("f").id, "t");
  store.trails.addEvent(id, { type: "trail_reported", at: 2, event: { template_id: "x" } });
  store.trails.addEvent(id, { type: "trail_updated", at: 1, event: { changes: ["description"] } });
  assert.equal(
    [...store.trails.iterateEvents(id)].map(({ type, timestamp, event_json }) => [
      type,
      timestamp,
      JSON.parse(event_json),
    ]),
    [
      ["trail_reported", 2, { template_id: "x" }],
      ["trail_updated", 1, { changes: ["description"] }],
    ],
  );
});

test("links a repository to a trail once", () => {
  const { store, organizationId, flow, trail } = opened();
  const { id } = trail(flow("f").id, "t");
  const repo = store.repos.capture(organizationId, {
    externalId: "1",
    provider: "",
    name: "n",
    url: "https://x",
    description: "",
    namespacePath: null,
    additionalInfoJson: null,
  });
  assert.is(store.trails.addRepo(id, repo), true);
  assert.is(store.trails.addRepo(id, repo), false);
  assert.is(store.trails.listRepoIds(id).length, 1);
});

test("the latest template of a flow is that of its newest trail", () => {
  const { store, flow, trail } = opened();
  const f = flow("f");
  assert.is(store.trails.findLatestTemplateId(f.id), null);
  const own = store.templates.intern("version: 1\n").id;
  trail(f.id, "a");
  trail(f.id, "b", { template_id: own, template_inherited: 0 });
  assert.is(store.trails.findLatestTemplateId(f.id), own);
});

test("filters combine, and never reach another organization", () => {
  const { store, organizationId, flow, trail, artifact } = opened();
  const [a, b] = [flow("a"), flow("b")];
  store.flows.patchTags(b.id, { set: { team: "x" }, remove: [] });
  const [one, two, three] = [trail(a.id, "one"), trail(b.id, "two"), trail(b.id, "three")];
  const fingerprint = "f".repeat(64);
  artifact(a.id, one.id, fingerprint);
  artifact(b.id, three.id, fingerprint);
  artifact(b.id, null, fingerprint);
  const none: TrailFilter = { organizationId, flowId: null, flowTag: null, fingerprint: null };
  const names = (filter: Partial<TrailFilter>, limit = 100, offset = 0) =>
    store.trails.listIds({ ...none, ...filter }, { limit, offset }).map((id) => store.trails.get(id).name);
  for (const [filter, expected] of [
    [{}, ["three", "two", "one"]],
    [{ flowId: b.id }, ["three", "two"]],
    [{ flowTag: { key: "team", value: "x" } }, ["three", "two"]],
    [{ flowTag: { key: "team", value: "y" } }, []],
    [{ fingerprint }, ["three", "one"]],
    [{ fingerprint: "fffff" }, ["three", "one"]],
    [{ fingerprint, flowId: a.id }, ["one"]],
    [{ fingerprint, flowTag: { key: "team", value: "x" } }, ["three"]],
    [{ flowId: a.id, flowTag: { key: "team", value: "x" } }, []],
    [{ organizationId: organizationId + 1 }, []],
    [{ organizationId: organizationId + 1, flowTag: { key: "team", value: "x" }, fingerprint }, []],
  ] as const) {
    assert.equal(names(filter), expected);
    assert.is(store.trails.count({ ...none, ...filter }), expected.length);
  }
  assert.equal(names({}, 1, 1), ["two"]);
  assert.equal([two.name], names({}, 1, 1));
});

test("lists the trails of tagged flows newest first, page by page, across flows", () => {
  const { db, store, organizationId, flow, trail } = opened();
  const flows = ["f", "g", "h", "plain"].map((name) => flow(name).id);
  for (const id of flows.slice(0, 3))
    db.prepare("INSERT INTO flow_tags (flow_id, key, value) VALUES (?, 'k', 'v')").run(id);
  const ids = Array.from({ length: 20 }, (_, n) => ({
    id: trail(flows[(n * 7 + (n >> 2)) % 4] as number, `t${n}`).id,
    tagged: (n * 7 + (n >> 2)) % 4 !== 3,
  }));
  const expected = ids
    .filter(({ tagged }) => tagged)
    .map(({ id }) => id)
    .reverse();
  const filter: TrailFilter = { organizationId, flowId: null, flowTag: { key: "k", value: "v" }, fingerprint: null };
  for (const size of [1, 3, 7, 50])
    assert.equal(
      Array.from({ length: 21 }, (_, page) =>
        store.trails.listIds(filter, { limit: size, offset: page * size }),
      ).flat(),
      expected,
      `pages of ${size}`,
    );
  assert.equal(
    {
      "count(filter)": store.trails.count(filter),
      "store.trails.count": store.trails.count({ ...filter, flowTag: { key: "k", value: "w" } }),
    },
    { "count(filter)": expected.length, "store.trails.count": 0 },
  );
});

test("an index serves every query on trails", () => {
  const { db, store, sql, organizationId } = opened();
  const none: TrailFilter = { organizationId, flowId: null, flowTag: null, fingerprint: null };
  const before = sql.length;
  const flowTag = { key: "k", value: "v" };
  for (const filter of [
    none,
    { ...none, flowId: 1 },
    { ...none, flowTag },
    { ...none, fingerprint: "fffff" },
    { ...none, flowId: 1, flowTag, fingerprint: "fffff" },
  ]) {
    store.trails.listIds(filter, { limit: 20, offset: 0 });
    store.trails.count(filter);
  }
  // A tag alone, and counts of whole flows, use statements that are prepared in advance.
  assert.is(sql.length - before, 6);
  const about = sql.filter((text) => /\b(trails|trail_events|trail_repos)\b/.test(text) && text.startsWith("SELECT"));
  for (const text of about) {
    // json_each is a virtual table over one value.
    assert.equal(scans(db, text), [], text);
  }
  // Unless a filter breaks the order, the page follows the index without sorting.
  for (const text of [sql[before], sql[before + 1]])
    assert.not.ok(
      plan(db, text as string).some((step) => step.includes("TEMP B-TREE")),
      text,
    );
});

test.run();
