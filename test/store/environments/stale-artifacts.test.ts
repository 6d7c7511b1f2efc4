/** Reports about what runs mark it for the next snapshot. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { freshFingerprint, startServer } from "../../given.ts";
import type { TestServer } from "../../given.ts";

const test = suite("store/environments/stale-artifacts");
let server: TestServer;
test.before(async () => {
  server = await startServer();
});
test.after(() => server.stop());

type At = { org: string; key: string };

/** A trail with an artifact, and an environment in which that artifact and another one run. */
async function world() {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const trail = await server.given.trail(at, { flow });
  const built = await server.given.artifact(at, { flow, trail, name: "app" });
  const foreign = freshFingerprint();
  const environment = await server.given.environment(at);
  const pods = [built, foreign].map((fingerprint, n) => ({
    podName: `pod-${n}`,
    namespace: "prod",
    digests: { [`image-${n}`]: fingerprint },
    creationTimestamp: 1_700_000_000,
    owners: null,
  }));
  const report = async (): Promise<void> => {
    const { status, text } = await server.call("PUT", `/environments/${at.org}/${environment}/report/K8S`, {
      key: at.key,
      body: { type: "K8S", artifacts: pods },
    });
    assert.ok(status < 300, text);
  };
  await report();
  return { at, flow, trail, built, foreign, environment, report };
}

function marksIn(at: At, environment: string): { fingerprints: string[]; revision: number } {
  const { id } = server.store.organizations.find(at.org) as { id: number };
  const row = server.store.environments.require({ id, name: at.org }, environment);
  return {
    fingerprints: server.db
      .prepare<[number], string>("SELECT fingerprint FROM stale_artifacts WHERE environment_id = ? ORDER BY 1")
      .pluck()
      .all(row.id),
    revision: row.revision,
  };
}

const attest = (at: At, { flow, trail }: { flow: string; trail: string }, name: string, fields: object = {}) =>
  server.call("POST", `/attestations/${at.org}/${flow}/trail/${trail}/generic`, {
    key: at.key,
    form: { json: { attestation_name: name, is_compliant: true, ...fields } },
  });

test("each report about a trail raises the revision of the environment in which its artifact runs", async () => {
  const { at, flow, trail, built, environment } = await world();
  const before = marksIn(at, environment);
  assert.equal(before.fingerprints, []);
  for (let n = 1; n <= 3; n += 1) {
    assert.is((await attest(at, { flow, trail }, `check-${n}`)).status, 201);
    assert.equal(marksIn(at, environment), { fingerprints: [built], revision: before.revision + n });
  }
});

test("after a snapshot cleared the marks, the next report marks again", async () => {
  const { at, flow, trail, built, environment, report } = await world();
  for (const name of ["first", "second", "third"]) {
    await attest(at, { flow, trail }, name);
    await attest(at, { flow, trail }, name);
    assert.equal(marksIn(at, environment).fingerprints, [built], name);
    await report();
    assert.equal(marksIn(at, environment).fingerprints, [], name);
  }
});

test("an artifact that runs before it is reported to a trail is marked with the others", async () => {
  const { at, flow, trail, built, foreign, environment, report } = await world();
  await attest(at, { flow, trail }, "before");
  await server.given.artifact(at, { flow, trail, name: "late", fingerprint: foreign });
  assert.equal(marksIn(at, environment).fingerprints, [built, foreign].sort());
  await report();
  await attest(at, { flow, trail }, "after");
  assert.equal(marksIn(at, environment).fingerprints, [built, foreign].sort());
});

test("what starts after the last report about a trail is marked by the next one", async () => {
  const { at, flow, trail, built } = await world();
  await attest(at, { flow, trail }, "before");
  const other = await server.given.environment(at, { type: "docker" });
  const started = await server.call("PUT", `/environments/${at.org}/${other}/report/docker`, {
    key: at.key,
    body: { type: "docker", artifacts: [{ digests: { app: built }, creationTimestamp: 1_700_000_000 }] },
  });
  assert.ok(started.status < 300, started.text);
  const { revision } = marksIn(at, other);
  await attest(at, { flow, trail }, "after");
  assert.equal(marksIn(at, other), { fingerprints: [built], revision: revision + 1 });
});

test("a report that is refused beside others changes nothing", async () => {
  const { at, flow, trail, built, environment } = await world();
  await attest(at, { flow, trail }, "before");
  const { revision } = marksIn(at, environment);
  const answers = await Promise.all([
    attest(at, { flow, trail }, "one"),
    attest(at, { flow, trail }, "refused", { artifact_fingerprint: freshFingerprint() }),
    attest(at, { flow, trail }, "two"),
  ]);
  assert.equal(
    answers.map(({ status }) => status),
    [201, 404, 201],
  );
  const after = marksIn(at, environment);
  assert.equal(after.fingerprints, [built]);
  assert.is(after.revision, revision + 2);
});

test.run();
