import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { BuildFilter } from "../../../src/store/flows/builds.ts";
import { opened, plan, scans } from "../given.ts";

const test = suite("store/flows/builds");
const [A, B, C] = ["a".repeat(64), "b".repeat(64), "c".repeat(64)];

function world() {
  const setup = opened();
  const { db, store, organizationId } = setup;
  const all: BuildFilter = { organizationId, repoIds: null, from: 0, to: 1e12 };
  const repo = (name: string) =>
    store.repos.capture(organizationId, {
      externalId: name,
      provider: "",
      name,
      url: "https://git.test/x",
      description: "",
      namespacePath: null,
      additionalInfoJson: null,
    });
  const flow = setup.flow("f");
  const trail = setup.trail(flow.id, "t");
  const found = (filter: Partial<BuildFilter> = {}) => {
    const builds = store.builds.list({ ...all, ...filter }, { limit: 50, offset: 0 });
    assert.is(store.builds.count({ ...all, ...filter }), builds.length);
    assert.equal(store.builds.listTimes({ ...all, ...filter }), builds.map(({ created_at }) => created_at).reverse());
    return builds.map(({ fingerprint }) => fingerprint);
  };
  const stored = () =>
    db.prepare("SELECT artifact_id, organization_id, repo_id, created_at FROM builds ORDER BY artifact_id").all();
  /** The rows that the table should have, computed from the records alone. */
  const derived = () =>
    db
      .prepare(
        `SELECT id AS artifact_id, organization_id, repo_id, created_at FROM artifacts a
         WHERE NOT EXISTS (SELECT 1 FROM artifacts b WHERE b.organization_id = a.organization_id
         AND b.fingerprint = a.fingerprint AND b.id < a.id) ORDER BY id`,
      )
      .all();
  return { ...setup, all, repo, flow, addFlow: setup.flow, trail, found, stored, derived };
}

test("only the first record of a fingerprint is a build", () => {
  const { store, artifact, flow, addFlow, trail, found, clock, stored, derived } = world();
  const other = addFlow("g");
  artifact(flow.id, trail.id, A);
  clock.at += 10;
  artifact(flow.id, trail.id, A, { referenceName: "again" });
  artifact(other.id, null, A);
  artifact(other.id, null, B);
  assert.equal(found(), [B, A]);

  const elsewhere = store.organizations.create({
    name: "other",
    kind: "shared",
    isPublic: false,
    controlsEnabled: true,
  });
  store.artifacts.create(
    { organizationId: elsewhere, flowId: flow.id, trailId: null, fingerprint: A, referenceName: null, createdBy: "x" },
    store.artifacts.get(1),
    clock.at,
  );
  assert.equal(found(), [B, A]);
  assert.equal(found({ organizationId: elsewhere }), [A]);
  assert.equal(stored(), derived());
});

test("a build belongs to the repository that its record names now", () => {
  const { store, artifact, flow, trail, found, repo, stored, derived, clock } = world();
  const [r, s] = [repo("r"), repo("s")];
  const first = artifact(flow.id, trail.id, A, { repo_id: r });
  const later = artifact(flow.id, null, A, { repo_id: s });
  assert.equal(
    {
      "found({ repoIds: [r] })": found({ repoIds: [r] }),
      "found({ repoIds: [s] })": found({ repoIds: [s] }),
      "found({ repoIds: [r, s] })": found({ repoIds: [r, s] }),
      "found({ repoIds: [] })": found({ repoIds: [] }),
    },
    {
      "found({ repoIds: [r] })": [A],
      "found({ repoIds: [s] })": [],
      "found({ repoIds: [r, s] })": [A],
      "found({ repoIds: [] })": [],
    },
  );
  const report = (id: number, repo_id: number | null) =>
    store.artifacts.update(id, { ...store.artifacts.get(id), repo_id }, clock.at);
  report(later, r);
  assert.equal(
    { "found({ repoIds: [r] })": found({ repoIds: [r] }), "found({ repoIds: [s] })": found({ repoIds: [s] }) },
    { "found({ repoIds: [r] })": [A], "found({ repoIds: [s] })": [] },
    "a further record says nothing of the build",
  );
  report(first, s);
  assert.equal(
    { "found({ repoIds: [r] })": found({ repoIds: [r] }), "found({ repoIds: [s] })": found({ repoIds: [s] }) },
    { "found({ repoIds: [r] })": [], "found({ repoIds: [s] })": [A] },
  );
  assert.equal(stored(), derived());
  report(first, null);
  assert.equal(
    { "found({ repoIds: [s] })": found({ repoIds: [s] }), found: found() },
    { "found({ repoIds: [s] })": [], found: [A] },
  );
  assert.equal(stored(), derived());
});

test("a window includes both bounds, and pages are newest first", () => {
  const { store, artifact, flow, all, found, clock } = world();
  const times = [A, B, C].map((fingerprint) => {
    clock.at += 100;
    artifact(flow.id, null, fingerprint);
    return clock.at;
  }) as [number, number, number];
  assert.equal(found({ from: times[0], to: times[1] }), [B, A]);
  assert.equal(found({ from: times[0] + 0.1, to: times[2] - 0.1 }), [B]);
  assert.equal(found({ from: times[2], to: times[0] }), []);
  const page = (limit: number, offset: number) =>
    store.builds.list(all, { limit, offset }).map(({ fingerprint }) => fingerprint);
  assert.equal(
    { "page 2 0": page(2, 0), "page 2 2": page(2, 2), "page 2 4": page(2, 4), "page 0 0": page(0, 0) },
    { "page 2 0": [C, B], "page 2 2": [A], "page 2 4": [], "page 0 0": [] },
  );
});

test("builds of the same moment have a stable order, so that pages never overlap", () => {
  const { store, artifact, flow, all } = world();
  const many = Array.from({ length: 9 }, (_, n) => n.toString(16).padStart(64, "0"));
  for (const fingerprint of many) artifact(flow.id, null, fingerprint);
  const pages = [0, 4, 8].flatMap((offset) =>
    store.builds.list(all, { limit: 4, offset }).map(({ fingerprint }) => fingerprint),
  );
  assert.equal(pages, [...many].reverse());
});

test("a row shows current names, and survives the deletion of what it refers to", () => {
  const { db, store, artifact, flow, trail, repo, all, clock } = world();
  const r = repo("acme/shop");
  const id = artifact(flow.id, trail.id, A, { repo_id: r });
  const row = {
    created_at: clock.at,
    artifact_public_id: store.artifacts.get(id).public_id,
    fingerprint: A,
    filename: "app",
    git_commit: store.artifacts.get(id).git_commit,
    commit_url: "",
    build_url: "",
    flow_name: "f",
    trail_name: "t",
    repo_name: "acme/shop",
    repo_public_id: store.repos.listByName(all.organizationId, "acme/shop")[0]?.public_id,
    repo_external_id: "acme/shop",
    selector_json: "{}",
  };
  const list = () => store.builds.list(all, { limit: 5, offset: 0 });
  assert.equal(list(), [row]);
  db.pragma("foreign_keys = OFF");
  db.prepare("DELETE FROM repos").run();
  assert.equal(list(), [{ ...row, repo_name: null, repo_public_id: null, repo_external_id: null }]);
  db.prepare("DELETE FROM artifacts").run();
  const nothing = {
    artifact_public_id: null,
    fingerprint: null,
    filename: null,
    git_commit: null,
    commit_url: null,
    build_url: null,
    flow_name: null,
    trail_name: null,
    repo_name: null,
    repo_public_id: null,
    repo_external_id: null,
  };
  assert.equal(list(), [{ created_at: row.created_at, selector_json: "{}", ...nothing }]);
  assert.is(store.builds.count(all), 1);
});

test("every query on builds is an index range, and the usual ones follow its order", () => {
  const { db, sql } = world();
  const about = sql.filter((text) => text.includes("builds AS build"));
  assert.is(about.length, 9);
  for (const text of about) {
    assert.equal(scans(db, text), [], text);
    assert.ok(
      plan(db, text).some((step) =>
        /^SEARCH build USING (COVERING )?INDEX builds_by_\w+ \(\w+=\? AND created_at>\? AND created_at<\?\)/.test(step),
      ),
      plan(db, text).join("\n"),
    );
    if (!text.includes("@repos"))
      assert.not.ok(
        plan(db, text).some((step) => step.includes("TEMP B-TREE")),
        text,
      );
  }
  const noting = sql.filter((text) => text.startsWith("INSERT INTO builds"));
  assert.is(noting.length, 1);
  assert.equal(scans(db, noting[0] as string), []);
});

test.run();
