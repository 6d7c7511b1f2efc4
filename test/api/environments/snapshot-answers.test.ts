/** Answers that show large snapshots: they are kept, and made in several turns of the event loop. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { answerSnapshot } from "../../../src/contract/snapshot-answers.ts";
import { urlsFor } from "../../../src/contract/urls.ts";
import { openStore } from "../../../src/store/index.ts";
import { fresh, freshCommit, freshFingerprint, startServer } from "../../given.ts";
import type { Answer, TestServer } from "../../given.ts";
import { running, runningIn } from "./given.ts";

const test = suite("api/environments/snapshot-answers");
let server: TestServer;
let world: ReturnType<typeof runningIn>;
test.before(async () => {
  server = await startServer();
  world = runningIn(server);
});
test.after(() => server.stop());

type At = { org: string; key: string };

/** More than are shown at once. */
const strays = Array.from({ length: 101 }, (_, n) => running(`stray-${n}`, n.toString(16).padStart(64, "d")));

const read = (at: At, environment: string, position = "-1", headers: Record<string, string> = {}): Promise<Answer> =>
  server.call("GET", `/snapshots/${at.org}/${environment}/${encodeURIComponent(position)}`, { key: at.key, headers });

/** The text that a server without anything in memory would send. */
function freshText(at: At, environment: string, index: number): string {
  const store = openStore(server.db, { now: () => server.clock.at, newId: () => fresh("id") });
  const organization = store.organizations.find(at.org);
  assert.ok(organization);
  const row = store.environments.require(organization, environment);
  const snapshot = store.snapshots.find(row.id, index);
  assert.ok(snapshot);
  const context = { store, organization, urls: urlsFor("http://assay.test") };
  return answerSnapshot(context, { environment: row, snapshot }, null).text.toString();
}

async function built(at: At) {
  const flow = await server.given.flow(at, {
    template: "version: 1\ntrail:\n  artifacts:\n    - name: app\n      attestations: [{name: tests, type: generic}]\n",
  });
  const trail = await server.given.trail(at, { flow });
  const [one, two] = [
    await server.given.artifact(at, { flow, trail, name: "app", commit: freshCommit() }),
    await server.given.artifact(at, { flow, trail, name: "app", commit: freshCommit() }),
  ];
  return { flow, trail, one, two };
}

test("an answer is kept until something that it shows changes", async () => {
  const at = server.given.org();
  const { flow, one } = await built(at);
  const environment = world.environment(at);
  world.report(at, environment, [running("app", one), ...strays]);
  const first = await read(at, environment);
  assert.is(first.status, 200);
  assert.is(first.text, freshText(at, environment, 1));
  const etag = first.headers.get("ETag") as string;
  let reads = 0;
  const { listEvaluated } = server.store.snapshots;
  const { listByKeys } = server.store.snapshotPages;
  server.store.snapshots.listEvaluated = (...place) => {
    reads += 1;
    return listEvaluated(...place);
  };
  server.store.snapshotPages.listByKeys = (ids) => {
    reads += 1;
    return listByKeys(ids);
  };
  try {
    assert.is((await read(at, environment, "-1", { "If-None-Match": etag })).status, 304);
    // A change elsewhere.
    await server.given.flow(at);
    assert.is((await read(at, environment, "1", { "If-None-Match": etag })).status, 304);
    assert.is((await read(at, environment)).text, first.text);
    assert.is(reads, 0);
    const renamed = fresh("flow");
    await server.call("PUT", `/flows/${at.org}/${flow}/rename`, { key: at.key, body: { new_name: renamed } });
    const after = await read(at, environment, "-1", { "If-None-Match": etag });
    assert.is(after.status, 200);
    assert.ok(reads > 0);
    assert.is(after.body.artifacts.find(({ name }: { name: string }) => name === "app").flow_name, renamed);
    assert.is(after.text, freshText(at, environment, 1));
  } finally {
    Object.assign(server.store.snapshots, { listEvaluated });
    Object.assign(server.store.snapshotPages, { listByKeys });
  }
});

test("the next snapshot reads only the artifacts around a change, and those whose records have changed", async () => {
  const at = server.given.org();
  const { flow, one, two } = await built(at);
  const environment = world.environment(at);
  const many = Array.from({ length: 400 }, (_, n) => running(`z-${n}`, n.toString(16).padStart(64, "a")));
  const { listByKeys } = server.store.snapshotPages;
  let artifactsRead = 0;
  server.store.snapshotPages.listByKeys = (ids) => {
    artifactsRead += ids.length;
    return listByKeys(ids);
  };
  /** Reads the latest snapshot; returns how many artifacts were read for it. */
  const latest = async (index: number): Promise<number> => {
    artifactsRead = 0;
    const { text } = await read(at, environment);
    assert.is(text, freshText(at, environment, index));
    return artifactsRead;
  };
  try {
    world.report(at, environment, [running("app", one), ...many]);
    assert.is(await latest(1), 401);
    world.report(at, environment, [running("app", two), ...many]);
    // All of them were changes of the first snapshot.
    assert.is(await latest(2), 402);
    world.report(at, environment, [running("app", one), ...many]);
    assert.ok((await latest(3)) <= 2 * 100);
    await server.call("PUT", `/flows/${at.org}/${flow}/rename`, { key: at.key, body: { new_name: fresh("flow") } });
    assert.ok((await latest(3)) <= 2 * 100);
    assert.is(
      (await read(at, environment, "1")).text,
      freshText(at, environment, 1),
      "an earlier one shows its changes",
    );
  } finally {
    Object.assign(server.store.snapshotPages, { listByKeys });
  }
});

test("the validator is the same for an answer made at once and one made in several turns", async () => {
  const at = server.given.org();
  const environment = world.environment(at);
  world.report(at, environment, strays);
  const { headers } = await read(at, environment);
  const again = await startServer({ from: server.image() });
  try {
    const [organization] = [again.store.organizations.find(at.org)];
    assert.ok(organization);
    const row = again.store.environments.require(organization, environment);
    const snapshot = again.store.snapshots.find(row.id, 1);
    assert.ok(snapshot);
    const context = { store: again.store, organization, urls: urlsFor("http://assay.test") };
    assert.is(answerSnapshot(context, { environment: row, snapshot }, null).etag, headers.get("ETag"));
  } finally {
    await again.stop();
  }
});

test("a change while an answer is made is in all of it or in none", async () => {
  const at = server.given.org();
  const { flow, one } = await built(at);
  const environment = world.environment(at);
  world.report(at, environment, [running("a-first", one), ...strays, running("z-last", one)]);
  const { id } = server.store.organizations.find(at.org) as { id: number };
  const { snapshots } = server.store;
  const { findRecords } = snapshots;
  // After the names were read, and before the texts are made.
  snapshots.findRecords = (ids) => {
    snapshots.findRecords = findRecords;
    setImmediate(() => server.store.flows.rename(server.store.flows.require({ id, name: at.org }, flow), "renamed"));
    return findRecords(ids);
  };
  const { body, text } = await read(at, environment);
  assert.equal(
    body.artifacts.flatMap((artifact: { flow_name: string | null }) => artifact.flow_name ?? []),
    ["renamed", "renamed"],
  );
  assert.is(text, freshText(at, environment, 1));
});

test("concurrent reads of a snapshot make it once", async () => {
  const at = server.given.org();
  const environment = world.environment(at);
  world.report(at, environment, strays);
  let reads = 0;
  const { listKeys } = server.store.snapshotPages;
  server.store.snapshotPages.listKeys = (...place) => {
    reads += 1;
    return listKeys(...place);
  };
  const answers = await Promise.all(Array.from({ length: 5 }, () => read(at, environment)));
  Object.assign(server.store.snapshotPages, { listKeys });
  assert.equal(new Set(answers.map(({ text }) => text)).size, 1);
  assert.is(reads, 1);
});

test("after random writes, every kept answer is the one that would be made now", async () => {
  const at = server.given.org();
  const { flow, trail, one, two } = await built(at);
  const policy = await server.given.policy(at, { yaml: "artifacts:\n  trail-compliance: {required: true}\n" });
  const [environment, other] = [
    await server.given.environment(at, { policies: [policy] }),
    await server.given.environment(at),
  ];
  const group = await server.given.environment(at, { members: [environment, other] });
  const names = { flow, environment, group };
  const change = async (method: string, path: string, body: unknown): Promise<void> => {
    const { status, text } = await server.call(method, path, { key: at.key, body });
    assert.ok(status < 300, text);
  };
  const report = (name: string, artifacts: ReturnType<typeof running>[]): Promise<void> =>
    change("PUT", `/environments/${at.org}/${name}/report/K8S`, {
      artifacts: artifacts.map((artifact) => ({
        podName: artifact.name,
        namespace: "shop",
        digests: { [artifact.name]: artifact.fingerprint },
        creationTimestamp: 100,
      })),
    });
  const rename = async (kind: "flow" | "environment" | "group"): Promise<void> => {
    const name = fresh(kind);
    const path = `/${kind === "flow" ? "flows" : "environments"}/${at.org}/${names[kind]}/rename`;
    await change("PUT", path, { new_name: name });
    names[kind] = name;
  };
  const attest = (fingerprint: string, is_compliant: boolean): Promise<string> =>
    server.given.attestation(at, { flow: names.flow, trail, fingerprint, name: "tests", is_compliant });
  const steps: readonly (() => Promise<unknown>)[] = [
    () => report(names.environment, [running("app", one), ...strays]),
    () => report(names.environment, [running("app", two), ...strays]),
    () => report(names.environment, [running("app", two), running("app", one), ...strays.slice(3)]),
    () => report(other, strays.slice(0, 1 + next(5))),
    () => rename("flow"),
    () => rename("environment"),
    () => rename("group"),
    () => attest(one, true),
    () => attest(one, false),
    () => attest(two, true),
    () => attest(two, false),
    () =>
      server.given.artifact(at, {
        flow: names.flow,
        trail,
        name: "app",
        fingerprint: one,
        git_commit_info: {
          sha1: freshCommit(),
          message: fresh("message"),
          author: "Ada",
          branch: "main",
          timestamp: 1,
        },
        repo_info: { name: fresh("repo"), id: "1", url: "https://git.test/repo", provider: "github" },
      }),
    () =>
      server.given.policy(at, { name: policy, yaml: `# ${fresh("text")}\nartifacts: {provenance: {required: true}}` }),
    () =>
      change("PUT", `/allowlists/${at.org}/${names.environment}`, {
        artifact_fingerprint: strays[next(5)]?.fingerprint ?? freshFingerprint(),
        artifact_name: "stray",
        description: fresh("because"),
      }),
  ];
  let seed = 11;
  const next = (limit: number): number => (seed = (seed * 48_271) % 2_147_483_647) % limit;
  await report(names.environment, [running("app", one), ...strays]);
  for (let step = 0; step < 40; step += 1) {
    await (steps[next(steps.length)] as () => Promise<unknown>)();
    await server.settled();
    for (const name of [names.environment, names.group]) {
      const latest = await read(at, name);
      const { index } = latest.body;
      assert.is(latest.text, freshText(at, name, index), `step ${step}: the latest`);
      const earlier = 1 + next(index);
      assert.is((await read(at, name, `${earlier}`)).text, freshText(at, name, earlier), `step ${step}: ${earlier}`);
    }
  }
});

test.run();
