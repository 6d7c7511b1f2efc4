/** Allowlists: an environment accepts a fingerprint regardless of its policies (semantics 5.6). */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { fresh, freshFingerprint, startServer } from "../../given.ts";
import type { TestServer } from "../../given.ts";

const test = suite("api/environments/allowlists");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type At = { org: string; key: string };
type Json = Record<string, any>;
const input = (fingerprint: string, more: Json = {}) => ({
  artifact_fingerprint: fingerprint,
  artifact_name: "nginx:1.29",
  description: "reviewed",
  ...more,
});
const allow = (at: At, environment: string, body: unknown) =>
  server.call("PUT", `/allowlists/${at.org}/${environment}`, { key: at.key, body });
const list = async (at: At) => (await server.call("GET", `/allowlists/${at.org}`, { key: at.key })).body as Json[];
const organizationOf = (at: At) => server.store.organizations.find(at.org) as { id: number; name: string };
const rowOf = (at: At, environment: string) => server.store.environments.require(organizationOf(at), environment);
function reportRunning(at: At, environment: string, ...fingerprints: string[]): void {
  const artifacts = fingerprints.map((fingerprint) => ({
    name: fingerprint.slice(-4),
    fingerprint,
    instances: { created: [1] },
  }));
  server.store.snapshotRecorder.record(rowOf(at, environment), {
    cause: "report",
    artifacts,
    actor: {
      publicId: "reporter",
      displayName: "reporter",
    },
  });
}
const auditEntries = (at: At) =>
  (
    server.db
      .prepare(
        "SELECT event, detail_json FROM audit_log WHERE organization_id = ? AND event = 'artifact.allowed' ORDER BY id",
      )
      .all(organizationOf(at).id) as Json[]
  ).map(({ detail_json }) => JSON.parse(detail_json));

test("returns the request body, and lists entries newest first with the user who allowed them", async () => {
  const at = server.given.org();
  const [prod, staging] = [await server.given.environment(at), await server.given.environment(at)];
  assert.equal(await list(at), []);
  const [one, two] = [freshFingerprint(), freshFingerprint()];
  const member = { ...at, key: server.given.user(at.org, "member") };
  const sent = [
    [at, prod, input(one)],
    [member, staging, input(two, { artifact_name: "", description: "" })],
    [at, prod, input(one, { description: "once more" })],
  ] as const;
  for (const [who, environment, body] of sent) {
    const answer = await allow(who, environment, body);
    assert.equal({ status: answer.status, body: answer.body }, { status: 201, body });
  }
  const entries = await list(at);
  const users = server.db
    .prepare("SELECT user_name FROM allowlist_entries WHERE organization_id = ? ORDER BY id DESC")
    .pluck()
    .all(organizationOf(at).id);
  assert.equal(users[0], `${at.org}-admin`);
  assert.equal(
    entries,
    [...sent].reverse().map(([, environment_name, body], place) => ({
      artifact_name: body.artifact_name,
      fingerprint: body.artifact_fingerprint,
      environment_name,
      timestamp: entries[place]?.["timestamp"],
      user_name: users[place],
      description: body.description,
    })),
  );
  const times = entries.map(({ timestamp }) => timestamp as number);
  assert.ok(
    times.every((time, place) => place === 0 || time < (times[place - 1] as number)),
    String(times),
  );
  assert.equal(
    auditEntries(at).map(({ environment, artifact_fingerprint }) => [environment, artifact_fingerprint]),
    [
      [prod, one],
      [staging, two],
      [prod, one],
    ],
  );
  assert.equal(await list(server.given.org()), []);
});

test("a page in an envelope says how many entries match", async () => {
  const at = server.given.org();
  const [prod, staging] = [await server.given.environment(at), await server.given.environment(at)];
  const one = freshFingerprint();
  for (const description of ["first", "second"]) await allow(at, prod, input(one, { description }));
  await allow(at, staging, input(one));
  const page = async (query: string) => {
    const { body } = await server.call("GET", `/allowlists/${at.org}?envelope=true${query}`, { key: at.key });
    return [body.data.length, body.pagination];
  };
  assert.equal(await page(""), [3, { total: 3, page: 1, per_page: 25, page_count: 1 }]);
  assert.equal(await page("&per_page=2&page=2"), [1, { total: 3, page: 2, per_page: 2, page_count: 2 }]);
  assert.equal(await page(`&env_name=${prod}&in_force=true`), [1, { total: 1, page: 1, per_page: 25, page_count: 1 }]);
  assert.equal(await page("&env_name=none"), [0, { total: 0, page: 1, per_page: 25, page_count: 0 }]);
});

test("ignores a repeated request, and adds an entry for another reason, name or user", async () => {
  const at = server.given.org();
  const [prod, staging] = [await server.given.environment(at), await server.given.environment(at)];
  const member = { ...at, key: server.given.user(at.org, "member") };
  const fingerprint = freshFingerprint();
  const sent = [
    [at, prod, input(fingerprint), true],
    [at, prod, input(fingerprint), false],
    [at, prod, input(fingerprint, { description: "once more" }), true],
    [at, prod, input(fingerprint, { description: "once more", artifact_name: "web" }), true],
    [member, prod, input(fingerprint, { description: "once more", artifact_name: "web" }), true],
    [at, prod, input(fingerprint), true],
    [at, staging, input(fingerprint), true],
    [at, staging, input(freshFingerprint()), true],
  ] as const;
  let before = await list(at);
  for (const [who, environment, body, adds] of sent) {
    const answer = await allow(who, environment, body);
    assert.equal({ status: answer.status, body: answer.body }, { status: 201, body });
    const after = await list(at);
    assert.equal(adds ? after.slice(1) : after, before);
    before = after;
  }
  assert.equal(
    auditEntries(at).map(({ added }) => added),
    sent.map(([, , , adds]) => adds),
  );
  const [first, again] = auditEntries(at);
  assert.is(first?.["allowlist_id"], again?.["allowlist_id"]);
});

test("makes a running artifact compliant at once in a new snapshot, in this environment only", async () => {
  const at = server.given.org();
  const policy = await server.given.policy(at, { yaml: "artifacts:\n  provenance: {required: true}\n" });
  const [prod, staging] = [
    await server.given.environment(at, { policies: [policy] }),
    await server.given.environment(at, { policies: [policy] }),
  ];
  const fingerprint = freshFingerprint();
  for (const environment of [prod, staging]) reportRunning(at, environment, fingerprint);
  const states = () =>
    [prod, staging]
      .map((environment) => rowOf(at, environment))
      .map(({ snapshot_count, state }) => [snapshot_count, state]);
  assert.equal(states(), [
    [1, 0],
    [1, 0],
  ]);
  await allow(at, prod, input(freshFingerprint()));
  assert.equal(states(), [
    [1, 0],
    [1, 0],
  ]);
  await allow(at, prod, input(fingerprint));
  assert.equal(states(), [
    [2, 1],
    [1, 0],
  ]);
  const { cause, user_name } = server.store.snapshots.find(rowOf(at, prod).id, 2) as {
    cause: string;
    user_name: string;
  };
  assert.equal({ cause, user_name }, { cause: "allowlist", user_name: `${at.org}-admin` });
  assert.equal(
    server.store.snapshots.listArtifacts(rowOf(at, prod).id, 2).map(({ annotation }) => annotation),
    ["became-compliant"],
  );
  await allow(at, prod, input(fingerprint));
  assert.equal(
    states(),
    [
      [2, 1],
      [1, 0],
    ],
    "no verdict flips a second time",
  );
  const [own] = server.store.snapshots.listEvaluated(rowOf(at, prod).id, 2);
  assert.ok(own?.allowlist_id);
});

test("an artifact that was allowed before it runs starts as compliant", async () => {
  const at = server.given.org();
  const policy = await server.given.policy(at, { yaml: "artifacts:\n  provenance: {required: true}\n" });
  const prod = await server.given.environment(at, { policies: [policy] });
  const fingerprint = freshFingerprint();
  reportRunning(at, prod);
  await allow(at, prod, input(fingerprint));
  reportRunning(at, prod, fingerprint);
  assert.equal(
    server.store.snapshots.listArtifacts(rowOf(at, prod).id, 2).map(({ annotation }) => annotation),
    ["started-compliant"],
  );
});

test("refuses invalid bodies, unknown environments and callers without permission, and stores nothing", async () => {
  const at = server.given.org();
  const [prod, gone] = [await server.given.environment(at), await server.given.environment(at)];
  const logical = await server.given.environment(at, { members: [prod] });
  await server.call("PUT", `/environments/${at.org}/${gone}/archive`, { key: at.key });
  const suffixed = server.db
    .prepare("SELECT name FROM environments WHERE archived_name = ?")
    .pluck()
    .get(gone) as string;
  const fingerprint = freshFingerprint();
  const revisions = () => server.db.prepare("SELECT id, revision FROM environments ORDER BY id").raw().all();
  const before = revisions();
  const pattern = (value: string) => ({
    artifact_fingerprint: `String should match pattern '^[a-f0-9]{64}$' [input: ${value}]`,
  });
  for (const [body, errors] of [
    [input(fingerprint.toUpperCase()), pattern(fingerprint.toUpperCase())],
    [input("abc"), pattern("abc")],
    [{ artifact_fingerprint: fingerprint }, { artifact_name: "Field required", description: "Field required" }],
    [{ artifact_name: "a", description: "b" }, { artifact_fingerprint: "Field required" }],
    [
      input(fingerprint, { fingerprint }),
      {
        fingerprint:
          `Extra inputs are not permitted [input: ${fingerprint}]; ` +
          "possible keys: artifact_fingerprint, artifact_name, description, expires_at",
      },
    ],
    [input(fingerprint, { description: null }), { description: "Input should be a valid string [input: null]" }],
  ] as const) {
    const answer = await allow(at, prod, body);
    assert.equal(
      { status: answer.status, body: answer.body },
      { status: 400, body: { message: "Input payload validation failed", errors } },
    );
  }
  const archived = (name: string) => `Environment named '${name}' has been archived for organization '${at.org}'`;
  for (const [environment, status, message] of [
    ["nothing", 404, `Environment named 'nothing' does not exist for organization '${at.org}'`],
    [gone, 404, archived(gone)],
    [suffixed, 404, archived(suffixed)],
    [logical, 400, `Environment '${logical}' in organization '${at.org}' is logical: allow artifacts in its members`],
  ] as const) {
    const answer = await allow(at, environment, input(fingerprint));
    assert.equal({ status: answer.status, body: answer.body }, { status, body: { message } });
  }
  for (const role of ["snapshotter", "reader", null] as const) {
    const answer = await allow({ ...at, key: server.given.user(at.org, role) }, prod, input(fingerprint));
    assert.equal(
      { status: answer.status, body: answer.body },
      { status: 403, body: { message: "You don't have permission to access this resource" } },
      String(role),
    );
  }
  assert.equal(
    { list: await list(at), auditEntries: auditEntries(at), revisions: revisions() },
    { list: [], auditEntries: [], revisions: before },
  );
  assert.is(
    (await server.call("GET", `/allowlists/${at.org}`, { key: server.given.user(at.org, "reader") })).status,
    200,
  );
});

test("shows the present name of the environment", async () => {
  const at = server.given.org();
  const prod = await server.given.environment(at);
  await allow(at, prod, input(freshFingerprint()));
  const renamed = fresh("renamed");
  await server.call("PUT", `/environments/${at.org}/${prod}/rename`, { key: at.key, body: { new_name: renamed } });
  assert.is((await allow(at, prod, input(freshFingerprint()))).status, 201);
  assert.equal(
    (await list(at)).map(({ environment_name }) => environment_name),
    [renamed, renamed],
  );
});

test.run();
