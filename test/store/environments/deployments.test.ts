import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { DeploymentFilter } from "../../../src/store/environments/deployments.ts";
import { opened, plan, scans } from "../given.ts";

const test = suite("store/environments/deployments");
const [OLD, NEW, OTHER] = ["a".repeat(64), "b".repeat(64), "c".repeat(64)];
const DAY = 86_400;
const MIDNIGHT = 1_699_920_000;

/** Two environments with a flow, and deployments at the times that a test gives. */
function world() {
  const setup = opened();
  const { db, store, organizationId } = setup;
  const environment = (name: string) =>
    store.environments.create(organizationId, {
      name,
      type: "K8S",
      description: "",
      includeScaling: false,
      requireProvenance: false,
    }).id;
  const [prod, staging] = [environment("prod"), environment("staging")];
  const flow = setup.flow("f");
  const trail = setup.trail(flow.id, "t");
  const insert = db.prepare(
    `INSERT INTO deployments (organization_id, environment_id, snapshot_index, deployed_at, fingerprint,
        artifact_name, compliant, ordinal, flow_id, artifact_id,
                              repo_id, reference_name, replaced_id)
     VALUES (?, ?, 1, ?, ?, 'app', NULL, ?, ?, ?, ?, '', ?)`,
  );
  let built = 0;
  const deployed = (
    environmentId: number,
    at: number,
    fingerprint: string,
    more: { ordinal?: number; flowId?: number; artifactId?: number; repoId?: number; replaced?: number } = {},
  ): number => {
    const artifactId =
      more.artifactId ?? setup.artifact(more.flowId ?? flow.id, null, (++built).toString(16).padStart(64, "9"));
    const values = [more.ordinal ?? 0, more.flowId ?? flow.id, artifactId, more.repoId ?? null, more.replaced ?? null];
    return Number(insert.run(organizationId, environmentId, at, fingerprint, ...values).lastInsertRowid);
  };
  const all: DeploymentFilter = { organizationId, environmentIds: null, repoIds: null, from: 0, to: 1e12 };
  const ids = (filter: Partial<DeploymentFilter>, limit = 50, offset = 0) =>
    store.deployments.list({ ...all, ...filter }, { limit, offset }).map(({ id }) => id);
  const both = (filter: Partial<DeploymentFilter>) => {
    const found = ids(filter);
    assert.is(store.deployments.count({ ...all, ...filter }), found.length);
    return found;
  };
  return { ...setup, prod, staging, flow, trail, deployed, all, ids, both };
}

test("lists a time window newest first, by environment and repository", () => {
  const { prod, staging, deployed, both, ids, store, organizationId } = world();
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
  const [r, s] = [repo("r"), repo("s")];
  const first = deployed(prod, 100, OLD, { repoId: r });
  const second = deployed(staging, 200, OLD, { repoId: s });
  const third = deployed(prod, 300, NEW);
  const same = deployed(staging, 300, NEW, { repoId: r });
  deployed(prod, 250, OLD, { ordinal: 1, repoId: r });

  assert.equal(both({}), [same, third, second, first]);
  assert.equal(both({ from: 200, to: 300 }), [same, third, second]);
  assert.equal(both({ from: 100.1, to: 299.9 }), [second]);
  assert.equal(both({ from: 300, to: 100 }), []);
  assert.equal(both({ environmentIds: [prod] }), [third, first]);
  assert.equal(both({ environmentIds: [prod, staging] }), [same, third, second, first]);
  assert.equal(both({ environmentIds: [] }), []);
  assert.equal(both({ repoIds: [r] }), [same, first]);
  assert.equal(both({ repoIds: [r, s] }), [same, second, first]);
  assert.equal(both({ repoIds: [] }), []);
  assert.equal(both({ repoIds: [r], environmentIds: [prod] }), [first]);
  assert.equal(both({ repoIds: [r], environmentIds: [] }), []);
  assert.equal(both({ organizationId: 99 }), []);
  assert.equal(
    { "ids 2": ids({}, 2), "ids 2 2": ids({}, 2, 2), "ids 2 4": ids({}, 2, 4), "ids 0": ids({}, 0) },
    { "ids 2": [same, third], "ids 2 2": [second, first], "ids 2 4": [], "ids 0": [] },
  );
});

test("a row shows current names, and survives the deletion of what it refers to", () => {
  const { db, store, prod, flow, trail, artifact, deployed, all, clock } = world();
  const earlier = artifact(flow.id, trail.id, OLD, {
    git_commit: "1".repeat(40),
    commit_url: "https://git.test/1",
    repo_url: "https://github.com/a/b",
  });
  clock.at += 5;
  const later = artifact(flow.id, null, NEW, { git_commit: "2".repeat(40), commit_url: "https://git.test/2" });
  const before = deployed(prod, 100, OLD, { artifactId: earlier });
  const id = deployed(prod, 200, NEW, { artifactId: later, replaced: before });
  const row = {
    id,
    environment_name: "prod",
    snapshot_index: 1,
    deployed_at: 200,
    fingerprint: NEW,
    artifact_name: "app",
    compliant: null,
    flow_name: "f",
    trail_name: null,
    repo_name: null,
    repo_url: null,
    artifact_public_id: store.artifacts.get(later).public_id,
    git_commit: "2".repeat(40),
    commit_url: "https://git.test/2",
    built_at: store.artifacts.get(later).created_at,
    previous_fingerprint: OLD,
    previous_name: "app",
    previous_snapshot_index: 1,
    previous_deployed_at: 100,
    previous_compliant: null,
    previous_commit: "1".repeat(40),
    previous_commit_url: "https://git.test/1",
    previous_repo_url: "https://github.com/a/b",
    previous_trail_name: "t",
    selector_json: "{}",
    committed_at: null,
    is_first: 1,
  };
  const latest = () => store.deployments.findLatest([prod], NEW);
  assert.equal(latest(), row);
  assert.equal(store.deployments.list(all, { limit: 1, offset: 0 }), [row]);

  db.pragma("foreign_keys = OFF");
  db.prepare("DELETE FROM artifacts WHERE id IN (?, ?)").run(earlier, later);
  const partial = {
    ...row,
    artifact_public_id: null,
    git_commit: null,
    commit_url: null,
    built_at: null,
    previous_commit: null,
    previous_commit_url: null,
    previous_repo_url: null,
    previous_trail_name: null,
  };
  assert.equal(latest(), partial);
  db.prepare("DELETE FROM deployments WHERE id = ?").run(before);
  db.prepare("DELETE FROM environments WHERE id = ?").run(prod);
  db.prepare("DELETE FROM flows WHERE id = ?").run(flow.id);
  const bare = {
    ...partial,
    environment_name: null,
    flow_name: null,
    previous_fingerprint: null,
    previous_name: null,
    previous_snapshot_index: null,
    previous_deployed_at: null,
  };
  assert.equal(store.deployments.list(all, { limit: 5, offset: 0 }), [bare]);
  assert.is(store.deployments.count(all), 1);
});

test("the deployment of a fingerprint that was recorded last counts, whatever its time", () => {
  const { store, prod, staging, deployed } = world();
  const latest = (environments: number[], fingerprint = OLD) =>
    store.deployments.findLatest(environments, fingerprint)?.id ?? null;
  assert.is(latest([prod]), null);
  deployed(prod, 100, OLD);
  deployed(prod, 9_000, OLD);
  const again = deployed(prod, 300, OLD);
  const elsewhere = deployed(staging, 200, OLD);
  deployed(prod, 400, OLD, { ordinal: 1 });
  deployed(prod, 500, NEW);
  assert.equal(
    {
      "latest([prod])": latest([prod]),
      "latest([staging])": latest([staging]),
      "latest([prod, staging])": latest([prod, staging]),
      "latest([])": latest([]),
      "latest([prod], OTHER)": latest([prod], OTHER),
    },
    {
      "latest([prod])": again,
      "latest([staging])": elsewhere,
      "latest([prod, staging])": elsewhere,
      "latest([])": null,
      "latest([prod], OTHER)": null,
    },
  );
});

test("counts UTC days, of all starts or of one of the artifact's flows", () => {
  const { store, prod, staging, deployed, flow } = world();
  const release = flow;
  const other = store.flows.create(release.organization_id, {
    name: "g",
    description: "",
    visibility: "private",
    templateId: release.template_id,
    repoUrl: null,
  });
  deployed(prod, MIDNIGHT - 0.5, OLD);
  deployed(prod, MIDNIGHT, NEW);
  deployed(prod, MIDNIGHT + 5, NEW, { ordinal: 1, flowId: other.id });
  deployed(prod, MIDNIGHT + DAY - 0.5, OTHER, { flowId: other.id });
  deployed(staging, MIDNIGHT + DAY, OTHER);
  const day = MIDNIGHT / DAY;
  const bounds = { from: MIDNIGHT - DAY, to: MIDNIGHT + DAY };
  const counted = (environments: number[], flowId: number | null, within = bounds) =>
    [...store.deployments.countPerDay(environments, flowId, within)].sort((a, b) => a[0] - b[0]);
  assert.equal(counted([prod], null), [
    [day - 1, 1],
    [day, 2],
  ]);
  assert.equal(counted([prod, staging], null), [
    [day - 1, 1],
    [day, 2],
    [day + 1, 1],
  ]);
  assert.equal(counted([prod], other.id), [[day, 2]]);
  assert.equal(counted([prod], release.id), [
    [day - 1, 1],
    [day, 1],
  ]);
  assert.equal(counted([prod], null, { from: MIDNIGHT, to: MIDNIGHT }), [[day, 1]]);
  assert.equal(counted([], null), []);

  const at = (flowId: number, organization = release.organization_id) =>
    store.deployments.findLatestTimeByFlow(organization, flowId);
  assert.equal(
    {
      "at release.id": at(release.id),
      "at other.id": at(other.id),
      "at(99)": at(99),
      "at(release.id, 99)": at(release.id, 99),
    },
    {
      "at release.id": MIDNIGHT + DAY,
      "at other.id": MIDNIGHT + DAY - 0.5,
      "at(99)": null,
      "at(release.id, 99)": null,
    },
  );
});

test("lists chart points oldest first, with their lead times", () => {
  const { store, prod, staging, flow, deployed, all, artifact, clock, organizationId } = world();
  const repo = store.repos.capture(organizationId, {
    externalId: "r",
    provider: "",
    name: "r",
    url: "https://git.test/x",
    description: "",
    namespacePath: null,
    additionalInfoJson: null,
  });
  const built = artifact(flow.id, null, OLD);
  const builtAt = clock.at;
  deployed(staging, builtAt + 50, OLD, { artifactId: built, repoId: repo });
  deployed(prod, builtAt + 9, OLD, { artifactId: built, repoId: repo });
  deployed(prod, builtAt + 20, OLD, { artifactId: built, repoId: repo, ordinal: 1 });
  deployed(prod, builtAt + 10, OTHER, { artifactId: built });
  const points = (filter: Partial<DeploymentFilter>) => store.deployments.listPoints({ ...all, ...filter });
  const [first, second] = [
    { environment_id: prod, deployed_at: builtAt + 9, lead_time: 9 },
    { environment_id: staging, deployed_at: builtAt + 50, lead_time: 50 },
  ];
  assert.equal(points({ repoIds: [repo] }), [first, second]);
  assert.equal(points({ repoIds: [repo], environmentIds: [prod] }), [first]);
  assert.equal(points({ repoIds: [repo], environmentIds: [prod, staging], from: builtAt + 50, to: builtAt + 50 }), [
    second,
  ]);
  assert.equal(points({ repoIds: [repo], environmentIds: [] }), []);
  assert.is(points({}).length, 3);
});

test("an index serves every query on deployments, and the usual lists follow its order", () => {
  const { db, sql } = world();
  const about = sql.filter(
    (text) => /\b(FROM|JOIN) deployments\b/.test(text) && text.startsWith("SELECT") && !text.includes("replaced."),
  );
  assert.ok(about.length >= 26);
  for (const text of about) {
    assert.equal(scans(db, text), [], text);
  }
  const windows = about.filter((text) => text.includes("deployed_at >= @from"));
  assert.is(windows.length, 44);
  for (const text of windows)
    assert.ok(
      plan(db, text).some(
        (step) =>
          /^SEARCH dep USING (COVERING )?INDEX \w+ \(\w+=\? AND deployed_at>\? AND deployed_at<\?\)/.test(step) ||
          /^SEARCH dep .*flow_id=\? AND deployed_at>/.test(step),
      ),
      `${text}\n${plan(db, text).join("\n")}`,
    );
  const ordered = windows.filter(
    (text) =>
      /WHERE dep\.(organization|environment|repo)_id = @\w+ .* (LIMIT|lead_time)/s.test(text) ||
      /lead_time.*WHERE dep\.\w+ = @/s.test(text),
  );
  assert.is(ordered.length, 13);
  for (const text of ordered)
    assert.not.ok(
      plan(db, text).some((step) => step.includes("TEMP B-TREE")),
      text,
    );
});

test.run();
