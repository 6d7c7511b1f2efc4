import { suite } from "uvu";
import * as assert from "uvu/assert";
import { startServer } from "../../given.ts";
import type { Answer, TestServer } from "../../given.ts";

const test = suite("api/environments/environment-policies");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type At = { org: string; key: string };
const path = (at: At, environment: string) => `/environments/${at.org}/${environment}/policies`;
const attach = (at: At, environment: string, ...policy_names: string[]): Promise<Answer> =>
  server.call("POST", path(at, environment), { key: at.key, body: { policy_names } });
const detach = (at: At, environment: string, ...policy_names: string[]): Promise<Answer> =>
  server.call("DELETE", path(at, environment), { key: at.key, body: { policy_names } });
const detachByQuery = (at: At, environment: string, query: string): Promise<Answer> =>
  server.call("DELETE", `${path(at, environment)}?${query}`, { key: at.key });
const put = (at: At, name: string, more: object): Promise<Answer> =>
  server.call("PUT", `/environments/${at.org}`, { key: at.key, body: { name, type: "K8S", description: "", ...more } });
const patch = (at: At, name: string, body: unknown): Promise<Answer> =>
  server.call("PATCH", `/environments/${at.org}/${name}`, { key: at.key, body });

const rowOf = (at: At, name: string) =>
  server.store.environments.require(server.store.organizations.find(at.org) as { id: number; name: string }, name);
const policiesOf = async (at: At, name: string): Promise<string[]> =>
  (await server.call("GET", `/environments/${at.org}/${name}`, { key: at.key })).body.policies;
const consumersOf = async (at: At, policy: string): Promise<string[]> =>
  (await server.call("GET", `/policies/${at.org}/${policy}`, { key: at.key })).body.consuming_envs;
const unknown = (at: At, policy: string) => ({
  message: `Policy '${policy}' does not exist in organization '${at.org}'`,
});
const validationError = (errors: Record<string, string>) => ({ message: "Input payload validation failed", errors });

function assertAnswer(answer: Answer, status: number, body: unknown): void {
  assert.equal(answer.body, body);
  assert.is(answer.status, status);
}

/** Asserts the refusal, and that it stored nothing. */
async function assertRefused(call: () => Promise<Answer>, status: number, body: unknown): Promise<void> {
  const everything = () =>
    [
      "SELECT environments.* FROM environments",
      "SELECT environment_policies.* FROM environment_policies",
      "SELECT count(*) FROM audit_log",
    ].map((sql) => server.db.prepare(sql).all());
  const before = everything();
  assertAnswer(await call(), status, body);
  assert.equal(everything(), before);
}

/** An organization with these policies and the environment `prod`. */
async function givenPolicies(...names: string[]): Promise<At> {
  const at = server.given.org();
  for (const name of names) await server.given.policy(at, { name, yaml: null });
  await server.given.environment(at, { name: "prod" });
  return at;
}

test("attaches policies in the given order and detaches them by name, as both sides show", async () => {
  const at = await givenPolicies("a", "b", "c");
  assertAnswer(await attach(at, "prod", "c", "a", "c"), 200, "OK");
  assert.equal(await policiesOf(at, "prod"), ["c", "a"]);
  assertAnswer(await attach(at, "prod", "b"), 200, "OK");
  assert.equal(await policiesOf(at, "prod"), ["c", "a", "b"]);
  await server.given.environment(at, { name: "other", policies: ["b"] });
  assert.equal({ a: await consumersOf(at, "a"), b: await consumersOf(at, "b") }, { a: ["prod"], b: ["other", "prod"] });
  assertAnswer(await detach(at, "prod", "c", "b"), 200, "OK");
  assert.equal(await policiesOf(at, "prod"), ["a"]);
  assertAnswer(await attach(at, "prod", "c"), 200, "OK");
  assert.equal(await policiesOf(at, "prod"), ["a", "c"]);
  const { body } = await server.call("GET", `/policies/${at.org}`, { key: at.key });
  assert.equal(
    body.map(({ name, consuming_envs }: any) => [name, consuming_envs]),
    [
      ["a", ["prod"]],
      ["b", ["other"]],
      ["c", ["prod"]],
    ],
  );
});

test("a policy lists environments by their present name, without archived ones", async () => {
  const at = await givenPolicies("a");
  await server.given.environment(at, { name: "other", policies: ["a"] });
  await attach(at, "prod", "a");
  await server.call("PUT", `/environments/${at.org}/prod/rename`, { key: at.key, body: { new_name: "live" } });
  assert.equal(await consumersOf(at, "a"), ["live", "other"]);
  await server.call("PUT", `/environments/${at.org}/other/archive`, { key: at.key });
  assert.equal(await consumersOf(at, "a"), ["live"]);
  assertAnswer(await detach(at, "prod", "a"), 200, "OK"); // by its old name
  assert.equal(await consumersOf(at, "a"), []);
});

test("attaching an attached policy or detaching another answers 200 and changes nothing", async () => {
  const at = await givenPolicies("a", "b");
  await attach(at, "prod", "a");
  const before = rowOf(at, "prod");
  assertAnswer(await attach(at, "prod", "a"), 200, "OK");
  assertAnswer(await attach(at, "prod"), 200, "OK");
  assertAnswer(await detach(at, "prod", "b"), 200, "OK");
  assertAnswer(await detach(at, "prod"), 200, "OK");
  assertAnswer(await put(at, "prod", { policies: ["a", "a"] }), 201, "OK");
  assertAnswer(await patch(at, "prod", { policies: ["a"] }), 200, "OK");
  assert.equal(rowOf(at, "prod"), before);
});

test("each change increments the revision and updates the modification time", async () => {
  const at = await givenPolicies("a", "b", "c");
  let last = rowOf(at, "prod");
  const moves = async (call: Promise<Answer>): Promise<void> => {
    assert.ok((await call).status < 300);
    const now = rowOf(at, "prod");
    assert.is(now.revision, last.revision + 1);
    assert.ok(now.last_modified_at > last.last_modified_at);
    last = now;
  };
  await moves(attach(at, "prod", "a", "b"));
  await moves(attach(at, "prod", "b", "c"));
  await moves(detach(at, "prod", "a", "b"));
  await moves(put(at, "prod", { policies: ["a", "b"] }));
  await moves(patch(at, "prod", { policies: ["b", "a"] }));
  await moves(patch(at, "prod", { policies: [] }));
});

test("a list in the environment's body replaces the attached policies; null or omitted keeps them", async () => {
  const at = await givenPolicies("a", "b", "c");
  assertAnswer(await put(at, "new", { policies: ["b", "a"] }), 201, "OK");
  assert.equal(await policiesOf(at, "new"), ["b", "a"]);
  for (const more of [{}, { policies: null }]) {
    await put(at, "new", more);
    await patch(at, "new", more);
    assert.equal(await policiesOf(at, "new"), ["b", "a"]);
  }
  assertAnswer(await put(at, "new", { policies: ["a", "c", "b"] }), 201, "OK");
  assert.equal(await policiesOf(at, "new"), ["a", "c", "b"]);
  assertAnswer(await patch(at, "new", { policies: ["b", "a", "c"] }), 200, "OK");
  assert.equal(await policiesOf(at, "new"), ["b", "a", "c"]);
  assertAnswer(await patch(at, "new", { policies: [] }), 200, "OK");
  assert.equal(await policiesOf(at, "new"), []);
  await put(at, "new", { policies: ["a"] });
  assertAnswer(await put(at, "new", { policies: [] }), 201, "OK");
  assert.equal(
    { policiesOf: await policiesOf(at, "new"), consumersOf: await consumersOf(at, "a") },
    { policiesOf: [], consumersOf: [] },
  );
});

test("accepts names to detach in the query, repeated or comma-separated, with or without a body", async () => {
  const at = await givenPolicies("a", "b", "c", "d");
  const all = ["a", "b", "c", "d"];
  const left = async (call: Promise<Answer>): Promise<string[]> => {
    assertAnswer(await call, 200, "OK");
    const names = await policiesOf(at, "prod");
    await attach(at, "prod", ...all);
    await patch(at, "prod", { policies: all });
    return names;
  };
  await attach(at, "prod", ...all);
  assert.equal(await left(detachByQuery(at, "prod", "policy_names=a")), ["b", "c", "d"]);
  assert.equal(await left(detachByQuery(at, "prod", "policy_names=a&policy_names=c")), ["b", "d"]);
  assert.equal(await left(detachByQuery(at, "prod", "policy_names=a,c&policy_names=d")), ["b"]);
  const json = { "Content-Type": "application/json" };
  assert.equal(
    await left(
      server.call("DELETE", `${path(at, "prod")}?policy_names=b`, { key: at.key, raw: "null", headers: json }),
    ),
    ["a", "c", "d"],
  );
  assert.equal(
    await left(
      server.call("DELETE", `${path(at, "prod")}?policy_names=b`, { key: at.key, body: { policy_names: ["c"] } }),
    ),
    ["a", "d"],
  );
});

test("refuses the whole request for one unknown policy", async () => {
  const at = await givenPolicies("a");
  const elsewhere = await givenPolicies("theirs");
  await attach(at, "prod", "a");
  for (const name of ["nobody", "theirs", ""]) {
    await assertRefused(() => attach(at, "prod", "a", name), 404, unknown(at, name));
    await assertRefused(() => detach(at, "prod", "a", name), 404, unknown(at, name));
    await assertRefused(() => detachByQuery(at, "prod", `policy_names=a&policy_names=${name}`), 404, unknown(at, name));
    await assertRefused(() => put(at, "prod", { description: "new", policies: [name] }), 404, unknown(at, name));
    await assertRefused(() => put(at, "fresh", { policies: ["a", name] }), 404, unknown(at, name));
    await assertRefused(() => patch(at, "prod", { description: "new", policies: ["a", name] }), 404, unknown(at, name));
  }
  await assertRefused(() => attach(elsewhere, "prod", "a"), 404, unknown(elsewhere, "a"));
});

test("names an environment that does not exist or is archived", async () => {
  const at = await givenPolicies("a");
  const missing = { message: `Environment named 'nobody' does not exist for organization '${at.org}'` };
  await assertRefused(() => attach(at, "nobody", "a"), 404, missing);
  await assertRefused(() => attach(at, "nobody", "b"), 404, missing);
  await assertRefused(() => detach(at, "nobody", "a"), 404, missing);
  await server.call("PUT", `/environments/${at.org}/prod/archive`, { key: at.key });
  const archived = { message: `Environment named 'prod' has been archived for organization '${at.org}'` };
  await assertRefused(() => attach(at, "prod", "a"), 404, archived);
  await assertRefused(() => detach(at, "prod", "a"), 404, archived);
});

test("refuses policies for a logical environment", async () => {
  const at = await givenPolicies("a");
  await server.given.environment(at, { name: "all", members: ["prod"] });
  const text = {
    message: `Environment 'all' in organization '${at.org}' is logical: attach policies to its members`,
  };
  for (const policy of ["a", "nobody"]) {
    await assertRefused(() => attach(at, "all", policy), 400, text);
    await assertRefused(() => detach(at, "all", policy), 400, text);
    const field = validationError({ policies: "Policies cannot be attached to a logical environment" });
    await assertRefused(() => put(at, "all", { type: "logical", policies: [policy] }), 400, field);
    await assertRefused(() => put(at, "more", { type: "logical", policies: [policy] }), 400, field);
    await assertRefused(() => patch(at, "all", { policies: [policy], included_environments: [] }), 400, field);
  }
  // The result of a read can be sent back.
  assertAnswer(await put(at, "all", { type: "logical", policies: [] }), 201, "OK");
  assertAnswer(await patch(at, "all", { policies: [] }), 200, "OK");
});

test("refuses invalid bodies by field", async () => {
  const at = await givenPolicies("a");
  const cases: [unknown, Record<string, string>][] = [
    [{}, { policy_names: "Field required" }],
    [{ policy_names: null }, { policy_names: "Input should be a valid array [input: null]" }],
    [{ policy_names: "a" }, { policy_names: "Input should be a valid array [input: a]" }],
    [{ policy_names: ["a", 7] }, { "policy_names.1": "Input should be a valid string [input: 7]" }],
    [
      { policy_names: ["a"], force: true },
      { force: "Extra inputs are not permitted [input: true]; possible keys: policy_names" },
    ],
  ];
  for (const [body, errors] of cases)
    for (const method of ["POST", "DELETE"])
      await assertRefused(
        () => server.call(method, path(at, "prod"), { key: at.key, body }),
        400,
        validationError(errors),
      );
  await assertRefused(
    () => server.call("DELETE", path(at, "prod"), { key: at.key }),
    400,
    validationError({ policy_names: "Field required" }),
  );
  await assertRefused(() => server.call("POST", path(at, "prod"), { key: at.key }), 400, {
    message: "A JSON body is required: the request has none",
  });
});

test("a snapshotter cannot attach policies, but can create an environment with policies", async () => {
  const at = await givenPolicies("a");
  const snapshotter = { org: at.org, key: server.given.user(at.org, "snapshotter") };
  const denied = { message: "You don't have permission to access this resource" };
  await assertRefused(() => attach(snapshotter, "prod", "a"), 403, denied);
  await assertRefused(() => detach(snapshotter, "prod", "a"), 403, denied);
  assertAnswer(await put(snapshotter, "mine", { policies: ["a"] }), 201, "OK");
  assert.equal(await policiesOf(at, "mine"), ["a"]);
});

test("records attaching and detaching in the audit log with their effect", async () => {
  const at = await givenPolicies("a");
  await attach(at, "prod", "a");
  await attach(at, "prod", "a");
  await detachByQuery(at, "prod", "policy_names=a");
  const { id } = server.store.organizations.find(at.org) as { id: number };
  const entries = server.store.auditLog
    .listLatest(id, 3)
    .map(({ event, detail_json }) => [event, JSON.parse(detail_json ?? "{}")]);
  assert.equal(entries, [
    ["environment.policies_detached", { environment: "prod", policies: ["a"], changed: true }],
    ["environment.policies_attached", { environment: "prod", policies: ["a"], changed: false }],
    ["environment.policies_attached", { environment: "prod", policies: ["a"], changed: true }],
  ]);
});

test.run();
