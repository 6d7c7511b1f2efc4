/**
 * Reports whose bytes were sent before. Each has a twin: a report with the same content and other bytes, which the
 * server has to read, to an environment with the same history.
 */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { fresh, freshFingerprint, startServer } from "../../given.ts";
import type { Answer, TestServer } from "../../given.ts";

const test = suite("api/environments/known-reports");
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
let spaces = 0;
/** The same content as bytes that no report had. */
const otherBytes = (text: string): string => `${text}${" ".repeat((spaces += 1))}`;

const change = (at: At, method: string, path: string, body?: unknown): Promise<Answer> =>
  server.call(method, path.replace("{org}", at.org), { key: at.key, body });
function rowOf(at: At, name: string) {
  const { id } = server.store.organizations.find(at.org) as { id: number };
  return server.store.environments.require({ id, name: at.org }, name);
}

/** What the snapshots of an environment show, without names and times of the environment. */
function historyOf(at: At, environment: string): unknown {
  const { id, snapshot_count, state, running_digest } = rowOf(at, environment);
  const snapshots = server.store.snapshots.listBetween(id, 1, snapshot_count);
  return {
    state,
    running_digest,
    snapshots: snapshots.map(({ idx, cause, compliant }) => ({
      idx,
      cause,
      compliant,
      artifacts: server.store.snapshots
        .listArtifacts(id, idx)
        .map(({ name, annotation, was, now, compliant: verdict }) => ({ name, annotation, was, now, verdict })),
    })),
  };
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
  return { flow, trail, fingerprint, policy, attest };
}

test("a report with known bytes changes the time of the latest report and nothing else", async () => {
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

test("known bytes make a snapshot wherever other bytes with the same content would", async () => {
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

test("known bytes are the first report of another environment, and of one with a reused name", async () => {
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

test("known bytes are refused like any others", async () => {
  const at = server.given.org();
  const environment = await server.given.environment(at);
  const docker = await server.given.environment(at, { type: "docker" });
  const fingerprint = freshFingerprint();
  const text = textOf(pod("web", fingerprint));
  const plain = JSON.stringify({ artifacts: [{ digests: { web: fingerprint }, creationTimestamp: 1 }] });
  await send(at, environment, text);
  await send(at, docker, plain);
  const before = rowOf(at, environment);
  const reader = { org: at.org, key: server.given.user(at.org, "reader") };
  for (const raw of [text, otherBytes(text)]) {
    const answers = {
      reader: await send(reader, environment, raw),
      stranger: await send({ org: at.org, key: "nobody" }, environment, raw),
      unknown: await send(at, "nowhere", raw),
      otherType: await send(at, environment, raw, "docker"),
      otherEnvironment: await send(at, docker, raw),
      compressed: await server.call("PUT", `/environments/${at.org}/${environment}/report/K8S`, {
        key: at.key,
        raw,
        headers: { "Content-Encoding": "gzip" },
      }),
    };
    assert.equal(Object.fromEntries(Object.entries(answers).map(([name, { status }]) => [name, status])), {
      reader: 403,
      stranger: 401,
      unknown: 404,
      otherType: 400,
      otherEnvironment: 400,
      compressed: 400,
    });
  }
  assert.is((await send(at, environment, plain)).status, 400);
  assert.is((await send(at, environment, plain, "docker")).status, 400);
  assert.equal(rowOf(at, environment), before);
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

test("in random histories, known bytes and other bytes with the same content leave the same snapshots", async () => {
  const at = server.given.org();
  const { fingerprint, flow, policy, attest } = await tested(at);
  const second = await tested(at);
  const stray = freshFingerprint();
  const texts = [
    textOf(),
    textOf(pod("web", fingerprint)),
    textOf(pod("web", fingerprint, 200)),
    textOf(pod("web", fingerprint), pod("db", second.fingerprint)),
    textOf(pod("web", stray), pod("db", second.fingerprint), pod("db", fingerprint)),
  ];
  const twins = [fresh("known"), fresh("other")] as const;
  for (const name of twins) await server.given.environment(at, { name });
  const both = async (work: (name: string) => Promise<unknown>): Promise<void> => {
    for (const name of twins) await work(name);
  };
  const until = (): number => server.clock.at + 60;
  const steps: readonly (() => Promise<unknown>)[] = [
    () => attest(true),
    () => attest(false),
    () => second.attest(true),
    () => both((name) => change(at, "POST", `/environments/{org}/${name}/policies`, { policy_names: [policy] })),
    () => both((name) => change(at, "DELETE", `/environments/{org}/${name}/policies`, { policy_names: [policy] })),
    () => server.given.policy(at, { name: policy, yaml: "artifacts:\n  provenance: {required: true}\n" }),
    () =>
      both((name) =>
        change(at, "PUT", `/allowlists/{org}/${name}`, {
          artifact_fingerprint: stray,
          artifact_name: "web",
          description: fresh("because"),
          expires_at: until(),
        }),
      ),
    async () => {
      server.clock.at += 100;
      await server.settled();
    },
    () => change(at, "PUT", `/flows/{org}/${flow}/rename`, { new_name: flow }),
    () => both((name) => change(at, "PUT", `/environments/{org}/${name}/archive`)),
    () => both((name) => server.given.environment(at, { name })),
  ];
  let seed = 7;
  const next = (limit: number): number => (seed = (seed * 48_271) % 2_147_483_647) % limit;
  const statuses: number[] = [];
  for (let step = 0; step < 250; step += 1) {
    if (next(3) === 0) await (steps[next(steps.length)] as () => Promise<unknown>)();
    await server.settled();
    const text = texts[next(texts.length)] as string;
    const times = 1 + next(3);
    for (let n = 0; n < times; n += 1) {
      const known = await send(at, twins[0], text);
      const other = await send(at, twins[1], otherBytes(text));
      assert.is(known.status, other.status, `step ${step}`);
      statuses.push(known.status);
    }
    if (statuses.at(-1) !== 404) assert.equal(historyOf(at, twins[0]), historyOf(at, twins[1]));
  }
  assert.equal([...new Set(statuses)].sort(), [200, 201, 404]);
});

test.run();
