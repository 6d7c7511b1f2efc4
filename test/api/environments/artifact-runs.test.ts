import { suite } from "uvu";
import * as assert from "uvu/assert";
import { freshFingerprint, startServer } from "../../given.ts";
import type { TestServer } from "../../given.ts";

const test = suite("api/environments/artifact-runs");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type At = { org: string; key: string };
async function report(at: At, environment: string, fingerprints: readonly string[]): Promise<void> {
  const artifacts = fingerprints.map((fingerprint) => ({
    digests: { app: fingerprint },
    creationTimestamp: 1_700_000_000,
    podName: "app-1",
    namespace: "n",
  }));
  const path = `/environments/${at.org}/${environment}/report/K8S`;
  const { status, text } = await server.call("PUT", path, { key: at.key, body: { type: "K8S", artifacts } });
  assert.is(status, 201, text);
}

const read = async (at: At, fingerprint: string) =>
  (await server.call("GET", `/artifacts/${at.org}/fingerprint/${fingerprint}/runs`, { key: at.key })).body;

test("an artifact runs from its start until the snapshot that no longer shows it, with its verdict", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const trail = await server.given.trail(at, { flow });
  const fingerprint = await server.given.artifact(at, { flow, trail, name: "app" });
  const policy = await server.given.policy(at, { yaml: "artifacts:\n  provenance:\n    required: true\n" });
  const [left, right] = [
    await server.given.environment(at, { name: "a", policies: [policy] }),
    await server.given.environment(at, { name: "b" }),
  ];
  await report(at, left, [fingerprint]);
  await report(at, right, [fingerprint]);
  await report(at, right, []);
  const times = server.db
    .prepare(
      "SELECT env.name || s.idx, s.timestamp FROM snapshots s JOIN environments env ON env.id = s.environment_id",
    )
    .raw()
    .all() as [string, number][];
  const at1 = Object.fromEntries(times);
  const run = { name: "app" };
  assert.equal(await read(at, fingerprint), {
    environments: [
      {
        environment_name: "a",
        environment_type: "K8S",
        is_archived: false,
        is_running: true,
        is_compliant: true,
        snapshot_index: 1,
        runs: [{ ...run, is_compliant: true, snapshot_index: 1, started_at: at1["a1"], ended_at: null }],
      },
      {
        environment_name: "b",
        environment_type: "K8S",
        is_archived: false,
        is_running: false,
        is_compliant: null,
        snapshot_index: 1,
        runs: [{ ...run, is_compliant: null, snapshot_index: 1, started_at: at1["b1"], ended_at: at1["b2"] }],
      },
    ],
    has_more: false,
  });
});

test("an artifact that never ran has no environments, and another organization's runs are not shown", async () => {
  const [mine, theirs] = [server.given.org(), server.given.org()];
  const fingerprint = freshFingerprint();
  await report(theirs, await server.given.environment(theirs), [fingerprint]);
  const none = { environments: [], has_more: false };
  assert.equal(await read(mine, freshFingerprint()), none);
  assert.equal(await read(mine, fingerprint), none);
});

test("a text that is no fingerprint is refused", async () => {
  const at = server.given.org();
  const answer = await server.call("GET", `/artifacts/${at.org}/fingerprint/abc/runs`, { key: at.key });
  assert.is(answer.status, 400);
});

test.run();
