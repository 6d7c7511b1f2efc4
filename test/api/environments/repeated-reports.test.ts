/** Reports that repeat the latest one, or an earlier one. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { freshFingerprint, startServer } from "../../given.ts";
import type { Answer, TestServer } from "../../given.ts";

const test = suite("api/environments/repeated-reports");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type At = { org: string; key: string };

const pod = (name: string, fingerprint: string, created = 100) => ({
  podName: `${name}-1`,
  namespace: "shop",
  digests: { [name]: fingerprint },
  creationTimestamp: created,
  owners: null,
});
const textOf = (...artifacts: ReturnType<typeof pod>[]): string => JSON.stringify({ type: "K8S", artifacts });

const send = (at: At, environment: string, raw: string, type = "K8S"): Promise<Answer> =>
  server.call("PUT", `/environments/${at.org}/${environment}/report/${type}`, {
    key: at.key,
    raw,
    headers: { "Content-Type": "application/json" },
  });
const change = (at: At, method: string, path: string, body?: unknown): Promise<Answer> =>
  server.call(method, path.replace("{org}", at.org), { key: at.key, body });
function rowOf(at: At, name: string) {
  const { id } = server.store.organizations.find(at.org) as { id: number };
  return server.store.environments.require({ id, name: at.org }, name);
}

/** An artifact with provenance in a flow of its own, and a policy that requires a test of it. */
async function tested(at: At) {
  const flow = await server.given.flow(at);
  const trail = await server.given.trail(at, { flow });
  const fingerprint = await server.given.artifact(at, { flow, trail });
  const policy = await server.given.policy(at, {
    yaml: "artifacts:\n  attestations:\n    - {name: tests, type: generic}\n",
  });
  const attest = (is_compliant: boolean): Promise<string> =>
    server.given.attestation(at, { flow, trail, fingerprint, name: "tests", is_compliant });
  return { fingerprint, policy, attest };
}

test("a report that repeats the latest one changes the time of the latest report and nothing else", async () => {
  const at = server.given.org();
  const environment = await server.given.environment(at);
  const text = textOf(pod("web", freshFingerprint()));
  assert.is((await send(at, environment, text)).status, 201);
  const before = rowOf(at, environment);
  const audited = server.db.prepare("SELECT count(*) FROM audit_log").pluck().get();
  const { status, body } = await send(at, environment, text);
  assert.equal({ status, body }, { status: 200, body: "OK" });
  const after = rowOf(at, environment);
  assert.ok((after.last_reported_at as number) > (before.last_reported_at as number));
  assert.equal({ ...after, last_reported_at: 0 }, { ...before, last_reported_at: 0 });
  assert.is(server.db.prepare("SELECT count(*) FROM audit_log").pluck().get(), audited);
});

test("a repeated report makes a snapshot when a verdict or what runs has changed since", async () => {
  const at = server.given.org();
  const { fingerprint, policy, attest } = await tested(at);
  const text = textOf(pod("web", fingerprint));
  const other = textOf(pod("web", fingerprint), pod("db", freshFingerprint()));
  const environment = await server.given.environment(at);
  const path = `/environments/{org}/${environment}`;
  const again = async (expected: number): Promise<void> => {
    const sent = await send(at, environment, text);
    assert.is(sent.status, expected, sent.text);
    assert.is((await send(at, environment, text)).status, 200);
  };
  await again(201);
  assert.is((await send(at, environment, other)).status, 201);
  await again(201);
  // Attaching evaluates what runs, so that the report after it has nothing left to change.
  await change(at, "POST", `${path}/policies`, { policy_names: [policy] });
  await again(200);
  await attest(true);
  await again(201);
  await attest(false);
  await again(201);
  await server.given.policy(at, { name: policy, yaml: "artifacts:\n  provenance: {required: true}\n" });
  await server.settled();
  await again(200);
});

test("the same bytes are the first report of another environment, and of one with a reused name", async () => {
  const at = server.given.org();
  const text = textOf(pod("web", freshFingerprint()));
  const [one, other] = [await server.given.environment(at), await server.given.environment(at)];
  for (const environment of [one, other]) {
    assert.is((await send(at, environment, text)).status, 201);
    assert.is((await send(at, environment, text)).status, 200);
  }
  await change(at, "PUT", `/environments/{org}/${one}/archive`);
  assert.is((await send(at, one, text)).status, 404);
  await server.given.environment(at, { name: one });
  assert.is((await send(at, one, text)).status, 201);
});

test("a body that was refused is refused again", async () => {
  const at = server.given.org();
  const environment = await server.given.environment(at);
  for (const [raw, errors] of [
    ["null", null],
    ["{", { body: "Input should be valid JSON: unexpected character at position 1 (line 1 column 2)" }],
    ['{"artifacts":[{}]}', undefined],
  ] as const) {
    const [first, second] = [await send(at, environment, raw), await send(at, environment, raw)];
    assert.is(first.status, 400);
    assert.equal(second.body, first.body);
    if (errors) assert.equal(first.body.errors, errors);
    if (errors === null) assert.equal(first.body, { message: "A JSON body is required: the request has none" });
  }
  assert.is(rowOf(at, environment).last_reported_at, null);
});

test.run();
