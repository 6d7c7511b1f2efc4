import { suite } from "uvu";
import * as assert from "uvu/assert";
import { freshFingerprint, startServer } from "../../given.ts";
import type { Answer, TestServer } from "../../given.ts";
import { running, runningIn } from "./given.ts";

const test = suite("api/environments/env-diff");
let server: TestServer;
let world: ReturnType<typeof runningIn>;
test.before(async () => {
  server = await startServer();
  world = runningIn(server);
});
test.after(() => server.stop());

type At = { org: string; key: string };
const FAILED = "Input payload validation failed";

const diff = (at: At, one: string, two: string): Promise<Answer> =>
  server.call("GET", `/env-diff/${at.org}?snappish1=${encodeURIComponent(one)}&snappish2=${encodeURIComponent(two)}`, {
    key: at.key,
  });

const info = (
  name: string,
  fingerprint: string,
  latest: number,
  [one, two]: [number, number],
  fields: object = {},
) => ({
  fingerprint,
  name,
  most_recent_timestamp: latest,
  flow: "",
  commit_url: null,
  instance_count: two || one,
  s1_instance_count: one,
  s2_instance_count: two,
  pods: [],
  ...fields,
});
/** The names in each group: only in the first, only in the second, changed, not changed. */
const groups = ({ body }: Answer): string[][] =>
  [body.snappish1, body.snappish2, body.changed, body["not-changed"]].map(({ artifacts }) =>
    artifacts.map(({ name }: { name: string }) => name),
  );

test("groups artifacts, with instance counts, latest start, first flow and pods", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const kept = await server.given.artifact(at, {
    flow,
    trail: await server.given.trail(at, { flow }),
    name: "server",
    commit_url: "https://git.test/commit/1",
  });
  const [gone, come, scaled] = [freshFingerprint(), freshFingerprint(), freshFingerprint()];
  const environment = world.environment(at, { type: "K8S" });
  const pod = (creationTimestamp: number) => ({ namespace: "prod", creationTimestamp, owners: null });
  const withPods = {
    name: "kept",
    fingerprint: kept,
    instances: { created: [10, 20], pods: { "kept-b": pod(10), "kept-a": pod(20) } },
  };
  world.report(at, environment, [withPods, running("gone", gone, 5, 7), running("scaled", scaled, 1)]);
  world.report(at, environment, [withPods, running("come", come, 9), running("scaled", scaled, 1, 2, 3)]);
  const answer = await diff(at, `${environment}#1`, environment);
  assert.is(answer.status, 200, answer.text);
  assert.equal(answer.body, {
    snappish1: { snapshot_id: `${environment}#1`, artifacts: [info("gone", gone, 7, [2, 0])] },
    snappish2: { snapshot_id: `${environment}#2`, artifacts: [info("come", come, 9, [0, 1])] },
    changed: { snapshot_id: null, artifacts: [info("scaled", scaled, 3, [1, 3])] },
    "not-changed": {
      snapshot_id: null,
      artifacts: [
        info("kept", kept, 20, [2, 2], { flow, commit_url: "https://git.test/commit/1", pods: ["kept-a", "kept-b"] }),
      ],
    },
  });
  assert.equal(
    groups(await diff(at, `${environment}~0`, `${environment}#1`)),
    [["come"], ["gone"], ["scaled"], ["kept"]],
    "what exited in #2 does not run there",
  );
  assert.equal(groups(await diff(at, environment, environment)), [[], [], [], ["come", "kept", "scaled"]]);
});

test("compares any two environments, including empty ones", async () => {
  const at = server.given.org();
  const [one, two, empty] = [world.environment(at), world.environment(at), world.environment(at)];
  const shared = freshFingerprint();
  world.report(at, one, [running("a", shared), running("b", freshFingerprint())]);
  world.report(at, two, [running("renamed", shared)]);
  world.report(at, empty, []);
  assert.equal(
    groups(await diff(at, one, two)),
    [["b"], [], [], ["renamed"]],
    "by fingerprint; what both have is shown as in the second",
  );
  assert.equal(groups(await diff(at, empty, two)), [[], ["renamed"], [], []]);
  assert.equal((await diff(at, empty, `${two}@{now}`)).body.snappish2.snapshot_id, `${two}#1`);
});

test("counts all names of a fingerprint as one artifact, and unresolved images by name", async () => {
  const at = server.given.org();
  const [one, two] = [world.environment(at), world.environment(at)];
  const fingerprint = freshFingerprint();
  world.report(at, one, [
    running("b", fingerprint, 1),
    running("a", fingerprint, 2),
    running("x", "", 3),
    running("y", "", 4),
  ]);
  world.report(at, two, [running("c", fingerprint, 5, 6), running("y", "", 7, 8)]);
  const { body } = await diff(at, one, two);
  assert.equal(body, {
    snappish1: { snapshot_id: `${one}#1`, artifacts: [info("x", "", 3, [1, 0])] },
    snappish2: { snapshot_id: `${two}#1`, artifacts: [] },
    changed: { snapshot_id: null, artifacts: [info("y", "", 8, [1, 2])] },
    "not-changed": { snapshot_id: null, artifacts: [info("c", fingerprint, 6, [2, 2])] },
  });
  assert.equal((await diff(at, two, one)).body["not-changed"].artifacts, [info("a", fingerprint, 2, [2, 2])]);
});

test("a logical environment has the artifacts of all its members", async () => {
  const at = server.given.org();
  const [east, west] = [world.environment(at), world.environment(at)];
  const group = world.environment(at, { type: "logical", members: [east, west] });
  const [shared, own] = [freshFingerprint(), freshFingerprint()];
  world.report(at, east, [running("api", shared, 1)]);
  world.report(at, west, [running("api", shared, 2, 3), running("own", own, 4)]);
  assert.equal((await diff(at, east, group)).body, {
    snappish1: { snapshot_id: `${east}#1`, artifacts: [] },
    snappish2: { snapshot_id: `${group}#2`, artifacts: [info("own", own, 4, [0, 1])] },
    changed: { snapshot_id: null, artifacts: [info("api", shared, 3, [1, 3])] },
    "not-changed": { snapshot_id: null, artifacts: [] },
  });
  assert.equal(groups(await diff(at, `${group}#1`, `${group}#2`)), [[], ["own"], ["api"], []]);
});

test("compares a damaged record by the columns that can be read", async () => {
  const at = server.given.org();
  const environment = world.environment(at);
  const fingerprint = freshFingerprint();
  world.report(at, environment, [running("api", fingerprint, 1, 2)]);
  const id = world.idOf(at, environment);
  server.db.prepare("UPDATE evaluations SET facts_json = '{' WHERE environment_id = ?").run(id);
  for (const damaged of ["{", "null", "{}"]) {
    server.db.prepare("UPDATE snapshot_artifacts SET instances_json = ? WHERE environment_id = ?").run(damaged, id);
    const answer = await diff(at, environment, environment);
    assert.equal(
      { status: answer.status, artifacts: answer.body["not-changed"]?.artifacts },
      { status: 200, artifacts: [info("api", fingerprint, 0, [2, 2])] },
      damaged,
    );
  }
});

test("requires both sides, and names each malformed one", async () => {
  const at = server.given.org();
  const environment = world.environment(at);
  const none = await server.call("GET", `/env-diff/${at.org}`, { key: at.key });
  assert.equal(
    { status: none.status, body: none.body },
    { status: 400, body: { message: FAILED, errors: { snappish1: "Field required", snappish2: "Field required" } } },
  );
  const problem = (text: string): string => `Input should be a valid snapshot expression [input: ${text}]`;
  for (const text of ["", "#1", `${environment}#`, `${environment}#x`, `${environment}@{}`, "a b"]) {
    for (const [one, two, errors] of [
      [text, environment, { snappish1: problem(text) }],
      [environment, text, { snappish2: problem(text) }],
      [text, text, { snappish1: problem(text), snappish2: problem(text) }],
    ] as const) {
      const answer = await diff(at, one, two);
      assert.equal(
        { status: answer.status, body: answer.body },
        { status: 400, body: { message: FAILED, errors } },
        `${one} ${two}`,
      );
    }
  }
});

test("reports the first side that does not exist, with the expression as sent", async () => {
  const at = server.given.org();
  const [environment, empty] = [world.environment(at), world.environment(at)];
  world.report(at, environment, []);
  const missing = (label: string, name: string, index: number, count: number): string =>
    `Org: '${at.org}'. Snapshot '${label}' resolves to '${name}#${index}'. len(snapshots) == ${count}. Indexes ` +
    "are 1-based";
  const unknown = `Environment named 'nope' does not exist for organization '${at.org}'`;
  for (const [one, two, message] of [
    ["nope", `${environment}#9`, unknown],
    [`${environment}#9`, "nope", missing(`${environment}#9`, environment, 9, 1)],
    [environment, "nope~1", unknown],
    [empty, `${environment}#9`, missing(empty, empty, 0, 0)],
    [environment, empty, missing(empty, empty, 0, 0)],
    [environment, `${environment}~3`, missing(`${environment}~3`, environment, -2, 1)],
    [environment, `${environment}#-3`, missing(`${environment}#-3`, environment, -1, 1)],
    [
      `${environment}@{2001-01-01T00:00:00}`,
      environment,
      missing(`${environment}@{2001-01-01T00:00:00}`, environment, 0, 1),
    ],
  ] as const) {
    const answer = await diff(at, one, two);
    assert.equal({ status: answer.status, body: answer.body }, { status: 404, body: { message } }, `${one} ${two}`);
  }
});

test.run();
