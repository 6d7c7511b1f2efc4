/** Where artifacts run, as artifacts and trails show it. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { fresh, freshCommit, freshFingerprint, startServer } from "../../given.ts";
import type { TestServer } from "../../given.ts";
import { runtime } from "../../runtime.ts";

const test = suite("api/environments/artifact-locations");
let server: TestServer;
let world: ReturnType<typeof runtime>;
test.before(async () => {
  server = await startServer();
  world = runtime(server);
});
test.after(() => server.stop());

type Place = { org: string; key: string; flow: string };
async function givenTrail(): Promise<Place & { environment(name?: string): { name: string; id: number } }> {
  const at = server.given.org();
  const organizationId = (server.store.organizations.find(at.org) as { id: number }).id;
  return {
    ...at,
    flow: await server.given.flow(at),
    environment(name = fresh("env")) {
      return { name, id: world.environment(organizationId, name) };
    },
  };
}
const artifactOf = async (at: Place, fingerprint: string) =>
  (await server.call("GET", `/artifacts/${at.org}/${at.flow}/fingerprint/${fingerprint}`, { key: at.key })).body;
const trailOf = async (at: Place, trail: string) =>
  (await server.call("GET", `/trails/${at.org}/${at.flow}/${trail}`, { key: at.key })).body;
const timeOf = (environment: { id: number }, index: number): number =>
  server.store.snapshots.find(environment.id, index)?.timestamp as number;
const eventsOf = (history: { event: string }[]): string[] => history.map(({ event }) => event);

test("an artifact shows where it runs, where it ran, and its lead times", async () => {
  const at = await givenTrail();
  const [prod, stage] = [at.environment(), at.environment()];
  const committed = 1_600_000_000.5;
  const sha1 = freshCommit();
  const fingerprint = await server.given.artifact(at, {
    flow: at.flow,
    trail: "t",
    name: "server",
    commit: sha1,
    git_commit_info: { sha1, timestamp: committed },
  });
  world.report(stage.id, [{ name: "app", fingerprint, created: 1_600_000_100, instances: 2 }]);
  await server.given.attestation(at, { flow: at.flow, trail: "t", fingerprint, name: "scan" });
  world.report(prod.id, [{ name: "app", fingerprint, created: 1_600_000_300 }]);
  world.report(stage.id, []);
  world.report(prod.id, [
    { name: "app", fingerprint, created: 1_600_000_900 },
    { name: "other", fingerprint: "" },
  ]);
  const artifact = await artifactOf(at, fingerprint);
  assert.equal(
    { running: artifact.running, exited: artifact.exited },
    {
      running: [{ environment_name: prod.name, snapshot_index: 2 }],
      exited: [{ environment_name: stage.name, snapshot_index: 2 }],
    },
  );
  const built = Number(artifact.created_at);
  const [reported, started, received, ...rest] = artifact.history;
  assert.equal(
    { reported, started },
    {
      reported: { event: "server reported", timestamp: built },
      started: { event: `started running in ${stage.name}#1`, timestamp: timeOf(stage, 1) },
    },
  );
  assert.is(received.event, "scan evidence received");
  assert.equal(rest, [
    { event: `started running in ${prod.name}#1`, timestamp: timeOf(prod, 1) },
    { event: `no longer running in ${stage.name}#2`, timestamp: timeOf(stage, 2) },
  ]);
  assert.equal(artifact.commit_lead_times, { [prod.name]: 299.5, [stage.name]: 99.5 });
  assert.equal(artifact.build_lead_times, {
    [prod.name]: timeOf(prod, 1) - built,
    [stage.name]: timeOf(stage, 1) - built,
  });
  const byCommit = (await server.call("GET", `/artifacts/${at.org}/${at.flow}/commit_sha/${sha1}`, { key: at.key }))
    .body;
  assert.equal(byCommit, [artifact]);
});

test("an environment to which an artifact returned is not listed as exited", async () => {
  const at = await givenTrail();
  const env = at.environment();
  const fingerprint = await server.given.artifact(at, { flow: at.flow, trail: "t" });
  for (const ran of [true, false, true]) world.report(env.id, ran ? [{ name: "app", fingerprint }] : []);
  const { running, exited, history } = await artifactOf(at, fingerprint);
  assert.equal({ running, exited }, { running: [{ environment_name: env.name, snapshot_index: 3 }], exited: [] });
  assert.equal(eventsOf(history), [
    "artifact reported",
    `started running in ${env.name}#1`,
    `no longer running in ${env.name}#2`,
    `started running in ${env.name}#3`,
  ]);
});

test("only a start after the report counts as a start of the build", async () => {
  const at = await givenTrail();
  const env = at.environment();
  const fingerprint = freshFingerprint();
  world.report(env.id, [{ name: "app", fingerprint }]);
  await server.given.artifact(at, { flow: at.flow, trail: "t", fingerprint });
  const { history, commit_lead_times, build_lead_times } = await artifactOf(at, fingerprint);
  assert.equal(eventsOf(history), ["artifact reported", `started running in ${env.name}#1`]);
  // Without a commit time there is no lead time from the commit.
  assert.equal(commit_lead_times, {});
  assert.equal(build_lead_times, {});
  world.report(env.id, []);
  world.report(env.id, [{ name: "app", fingerprint }]);
  const again = await artifactOf(at, fingerprint);
  assert.equal(again.build_lead_times, { [env.name]: timeOf(env, 3) - Number(again.created_at) });
});

test("a start at an unknown time has no lead time from the commit", async () => {
  const at = await givenTrail();
  const [known, unknown] = [at.environment(), at.environment()];
  const sha1 = freshCommit();
  const fingerprint = await server.given.artifact(at, {
    flow: at.flow,
    trail: "t",
    commit: sha1,
    git_commit_info: { sha1, timestamp: 1_600_000_000 },
  });
  world.report(known.id, [{ name: "app", fingerprint, created: 1_600_000_005 }]);
  world.report(unknown.id, [{ name: "app", fingerprint, created: 0 }]);
  const artifact = await artifactOf(at, fingerprint);
  assert.equal(
    {
      commit_lead_times: artifact.commit_lead_times,
      buildLeadTimesOf: Object.keys(artifact.build_lead_times),
    },
    { commit_lead_times: { [known.name]: 5 }, buildLeadTimesOf: [known.name, unknown.name] },
  );
});

test("nothing runs in an archived environment, and its history stays under its suffixed name", async () => {
  const at = await givenTrail();
  const env = at.environment();
  const fingerprint = await server.given.artifact(at, { flow: at.flow, trail: "t", name: "app" });
  world.report(env.id, [{ name: "app", fingerprint }]);
  const archived = `${env.name}-archived-at-1`;
  server.db
    .prepare("UPDATE environments SET archived_at = 1, archived_name = name, name = ? WHERE id = ?")
    .run(archived, env.id);
  const artifact = await artifactOf(at, fingerprint);
  assert.equal(
    {
      running: artifact.running,
      exited: artifact.exited,
      buildLeadTimesOf: Object.keys(artifact.build_lead_times),
    },
    { running: [], exited: [], buildLeadTimesOf: [archived] },
  );
  assert.is(artifact.history.at(-1).event, `started running in ${archived}#1`);
  assert.equal((await trailOf(at, "t")).events.at(-1).environment_name, archived);
});

test("does not show environments of other organizations", async () => {
  const [at, other] = [await givenTrail(), await givenTrail()];
  const fingerprint = await server.given.artifact(at, { flow: at.flow, trail: "t" });
  world.report(other.environment().id, [{ name: "app", fingerprint }]);
  const { running, exited, history, build_lead_times } = await artifactOf(at, fingerprint);
  assert.equal(
    { running, exited, historyLength: history.length, build_lead_times },
    { running: [], exited: [], historyLength: 1, build_lead_times: {} },
  );
  assert.equal((await trailOf(at, "t")).events.length, 2);
});

test("a trail lists when its artifacts started and stopped running, among its other events", async () => {
  const at = await givenTrail();
  const env = at.environment();
  const sha1 = freshCommit();
  const repo = { id: "1", name: "acme/app", url: "https://git.test/app", provider: "gitlab" };
  const fingerprint = await server.given.artifact(at, {
    flow: at.flow,
    trail: "t",
    name: "server",
    commit: sha1,
    git_commit_info: { sha1, message: "m", author: "Ada", branch: "main", timestamp: 5 },
    repo_info: repo,
  });
  world.report(env.id, [{ name: "registry/app:1", fingerprint, instances: 3 }]);
  await server.given.attestation(at, { flow: at.flow, trail: "t", name: "late" });
  world.report(env.id, []);
  const { events } = await trailOf(at, "t");
  assert.equal(
    events.map(({ type }: { type: string }) => type),
    [
      "trail_reported",
      "artifact_creation_reported",
      "artifact_started_running",
      "trail_attestation_reported",
      "artifact_stopped_running",
    ],
  );
  const creation = events[1];
  const shared = {
    org_id: creation.org_id,
    flow_id: creation.flow_id,
    trail_id: creation.trail_id,
    artifact_id: creation.artifact_id,
    artifact_name: "server",
    artifact_fingerprint: fingerprint,
    template_reference_name: "server",
    environment_id: server.store.environments.get(env.id).public_id,
    environment_name: env.name,
    replica_number: 3,
    git_commit_info: creation.git_commit_info,
    repo_info: { ...repo, description: "" },
  };
  assert.is(shared.git_commit_info.sha1, sha1);
  assert.equal(events[2], {
    type: "artifact_started_running",
    timestamp: timeOf(env, 1),
    snapshot_index: 1,
    ...shared,
  });
  assert.equal(events[4], {
    type: "artifact_stopped_running",
    timestamp: timeOf(env, 2),
    snapshot_index: 2,
    ...shared,
  });
});

test("a record reported while the artifact runs shows the exit but not the start", async () => {
  const at = await givenTrail();
  const env = at.environment();
  const fingerprint = freshFingerprint();
  world.report(env.id, [{ name: "app", fingerprint }]);
  await server.given.artifact(at, { flow: at.flow, trail: "t", fingerprint });
  world.report(env.id, [{ name: "app", fingerprint }]);
  world.report(env.id, []);
  assert.equal(
    (await trailOf(at, "t")).events.map(({ type }: { type: string }) => type),
    ["trail_reported", "artifact_creation_reported", "artifact_stopped_running"],
  );
});

test("lists of trails show the same with one query per page", async () => {
  const at = await givenTrail();
  const env = at.environment();
  const running = [];
  for (const trail of ["one", "two", "three"])
    running.push({ name: trail, fingerprint: await server.given.artifact(at, { flow: at.flow, trail }) });
  world.report(env.id, running.slice(0, 2));
  const queriedCounts: number[] = [];
  const { artifactLocations } = server.store;
  const listTransitions = artifactLocations.listTransitionsByTrail;
  artifactLocations.listTransitionsByTrail = (ids) => {
    queriedCounts.push(ids.length);
    return listTransitions(ids);
  };
  try {
    const types = (trails: { name: string; events: { type: string }[] }[]) =>
      trails.map(({ name, events }) => `${name}: ${events.at(-1)?.type}`);
    const expected = [
      "three: artifact_creation_reported",
      "two: artifact_started_running",
      "one: artifact_started_running",
    ];
    assert.equal(types((await server.call("GET", `/trails/${at.org}`, { key: at.key })).body.data), expected);
    assert.equal(types((await server.call("GET", `/trails/${at.org}/${at.flow}`, { key: at.key })).body), expected);
    assert.equal(queriedCounts, [3, 3]);
  } finally {
    artifactLocations.listTransitionsByTrail = listTransitions;
  }
});

test("damaged records of environments do not affect trails or artifacts", async () => {
  const at = await givenTrail();
  const env = at.environment();
  const fingerprint = await server.given.artifact(at, { flow: at.flow, trail: "t" });
  world.report(env.id, [{ name: "app", fingerprint }]);
  server.db.prepare("UPDATE evaluations SET facts_json = '{' WHERE environment_id = ?").run(env.id);
  server.db.prepare("UPDATE snapshot_artifacts SET instances_json = '{' WHERE environment_id = ?").run(env.id);
  assert.equal((await trailOf(at, "t")).events.length, 2);
  const artifact = await artifactOf(at, fingerprint);
  assert.equal(artifact.running, [{ environment_name: env.name, snapshot_index: 1 }]);
});

test.run();
