/** Where an artifact would fail: the answer is the verdict that it gets when it starts there. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { freshFingerprint, startServer } from "../../given.ts";
import type { TestServer } from "../../given.ts";
import { running, runningIn } from "../environments/given.ts";

const test = suite("api/policies/start-preview");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type At = { org: string; key: string };

const TESTS = "artifacts:\n  attestations:\n    - type: generic\n      name: tests\n";
const STRICT = `${TESTS}    - type: generic\n      name: approval\n`;

/** Environments `a` under `strict`, `b` under `tests`, `c` without a policy, `all` of them, and an archived one. */
async function story() {
  const at: At = server.given.org();
  const world = runningIn(server);
  const flow = await server.given.flow(at, { name: "backend" });
  const trail = await server.given.trail(at, { flow, name: "t1" });
  const built = await server.given.artifact(at, { flow, trail, name: "built" });
  await server.given.attestation(at, { flow, trail, name: "tests", fingerprint: built });
  await server.given.policy(at, { name: "strict", yaml: STRICT });
  await server.given.policy(at, { name: "tests", yaml: TESTS });
  for (const name of ["a", "b", "c", "gone"]) world.environment(at, { name });
  world.environment(at, { name: "all", type: "logical", members: ["a"] });
  world.attach(at, "a", "strict");
  world.attach(at, "b", "tests");
  await server.call("PUT", `/environments/${at.org}/gone/archive`, { key: at.key });
  return { at, world, built };
}

const ask = async ({ org, key }: At, fingerprint: string) => {
  const answer = await server.call("GET", `/asserts/${org}/fingerprint/${fingerprint}/environments`, { key });
  assert.is(answer.status, 200, answer.text);
  return answer.body;
};

test("each physical environment with its verdict, its policies and the causes", async () => {
  const { at, built } = await story();
  const { environments, left } = await ask(at, built);
  assert.is(left, 0);
  const [a, b, c] = environments;
  assert.equal(
    environments.map(({ environment, verdict }: any) => [environment, verdict]),
    [
      ["a", "NON-COMPLIANT"],
      ["b", "COMPLIANT"],
      ["c", "UNKNOWN"],
    ],
  );
  assert.equal(a.policies, [{ policy: "strict", version: 1 }]);
  assert.equal(
    a.causes.map(({ kind, name, policy, line }: any) => ({ kind, name, policy, line })),
    [{ kind: "missing_attestation", name: "approval", policy: "strict", line: 6 }],
  );
  assert.is(a.reasons.length, 1);
  assert.equal([a.running, a.allowed, b.causes, c.policies], [false, false, [], []]);
});

test("an artifact that was never reported fails for want of provenance, and the allowlist counts", async () => {
  const { at, world } = await story();
  const foreign = freshFingerprint();
  world.allow(at, "b", foreign);
  const { environments } = await ask(at, foreign);
  assert.equal(
    environments.map(({ verdict, allowed, causes }: any) => [verdict, allowed, causes[0]?.kind ?? null]),
    [
      ["NON-COMPLIANT", false, "no_provenance"],
      ["COMPLIANT", true, "no_provenance"],
      ["UNKNOWN", false, null],
    ],
  );
});

test("what it says is what the artifact gets when it starts there", async () => {
  const { at, world, built } = await story();
  const { environments } = await ask(at, built);
  for (const { environment, verdict } of environments) {
    world.report(at, environment, [running("built", built)]);
    const { body } = await server.call("GET", `/snapshots/${at.org}/${environment}/-1`, { key: at.key });
    const compliant = { COMPLIANT: true, "NON-COMPLIANT": false, UNKNOWN: null }[verdict as string];
    assert.is(body.artifacts[0].compliant, compliant, environment);
  }
  assert.ok((await ask(at, built)).environments.every(({ running: runs }: any) => runs));
});

test("a fingerprint of another form and strangers are refused", async () => {
  const { at, built } = await story();
  const path = `/asserts/${at.org}/fingerprint`;
  assert.is((await server.call("GET", `${path}/abc/environments`, { key: at.key })).status, 400);
  const stranger = server.given.org();
  assert.is((await server.call("GET", `${path}/${built}/environments`, { key: stranger.key })).status, 403);
});

test.run();
