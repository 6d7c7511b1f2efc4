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
const refused = (errors: Record<string, string>) => ({ message: "Input payload validation failed", errors });

function answers(answer: Answer, status: number, body: unknown): void {
  assert.equal(answer.body, body);
  assert.is(answer.status, status);
}

/** The refusal, and the proof that it left nothing behind. */
async function refuses(call: () => Promise<Answer>, status: number, body: unknown): Promise<void> {
  const everything = () =>
    [
      "SELECT environments.* FROM environments",
      "SELECT environment_policies.* FROM environment_policies",
      "SELECT count(*) FROM audit_log",
    ].map((sql) => server.db.prepare(sql).all());
  const before = everything();
  answers(await call(), status, body);
  assert.equal(everything(), before);
}

/** An organization with these policies and the environment `prod`. */
async function withPolicies(...names: string[]): Promise<At> {
  const at = server.given.org();
  for (const name of names) await server.given.policy(at, { name, yaml: null });
  await server.given.environment(at, { name: "prod" });
  return at;
}

test("policies are attached in the order given and detached by name, and both sides tell", async () => {
  const at = await withPolicies("a", "b", "c");
  answers(await attach(at, "prod", "c", "a", "c"), 200, "OK");
  assert.equal(await policiesOf(at, "prod"), ["c", "a"]);
  answers(await attach(at, "prod", "b"), 200, "OK");
  assert.equal(await policiesOf(at, "prod"), ["c", "a", "b"]);
  await server.given.environment(at, { name: "other", policies: ["b"] });
  assert.equal(
    { "consumersOf a": await consumersOf(at, "a"), "consumersOf b": await consumersOf(at, "b") },
    { "consumersOf a": ["prod"], "consumersOf b": ["other", "prod"] },
  );
  answers(await detach(at, "prod", "c", "b"), 200, "OK");
  assert.equal(await policiesOf(at, "prod"), ["a"]);
  answers(await attach(at, "prod", "c"), 200, "OK");
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

test("a policy names environments by their present name, and archived ones not at all", async () => {
  const at = await withPolicies("a");
  await server.given.environment(at, { name: "other", policies: ["a"] });
  await attach(at, "prod", "a");
  await server.call("PUT", `/environments/${at.org}/prod/rename`, { key: at.key, body: { new_name: "live" } });
  assert.equal(await consumersOf(at, "a"), ["live", "other"]);
  await server.call("PUT", `/environments/${at.org}/other/archive`, { key: at.key });
  assert.equal(await consumersOf(at, "a"), ["live"]);
  answers(await detach(at, "prod", "a"), 200, "OK"); // by its old name
  assert.equal(await consumersOf(at, "a"), []);
});

test("what is so already stays so: 200, and no trace in the environment", async () => {
  const at = await withPolicies("a", "b");
  await attach(at, "prod", "a");
  const before = rowOf(at, "prod");
  answers(await attach(at, "prod", "a"), 200, "OK");
  answers(await attach(at, "prod"), 200, "OK");
  answers(await detach(at, "prod", "b"), 200, "OK");
  answers(await detach(at, "prod"), 200, "OK");
  answers(await put(at, "prod", { policies: ["a", "a"] }), 201, "OK");
  answers(await patch(at, "prod", { policies: ["a"] }), 200, "OK");
  assert.equal(rowOf(at, "prod"), before);
});

test("each change moves the revision by one and the time of modification", async () => {
  const at = await withPolicies("a", "b", "c");
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

test("a list given with the environment replaces what is attached; null and not sent leave it", async () => {
  const at = await withPolicies("a", "b", "c");
  answers(await put(at, "new", { policies: ["b", "a"] }), 201, "OK");
  assert.equal(await policiesOf(at, "new"), ["b", "a"]);
  for (const more of [{}, { policies: null }]) {
    await put(at, "new", more);
    await patch(at, "new", more);
    assert.equal(await policiesOf(at, "new"), ["b", "a"]);
  }
  answers(await put(at, "new", { policies: ["a", "c", "b"] }), 201, "OK");
  assert.equal(await policiesOf(at, "new"), ["a", "c", "b"]);
  answers(await patch(at, "new", { policies: ["b", "a", "c"] }), 200, "OK");
  assert.equal(await policiesOf(at, "new"), ["b", "a", "c"]);
  answers(await patch(at, "new", { policies: [] }), 200, "OK");
  assert.equal(await policiesOf(at, "new"), []);
  await put(at, "new", { policies: ["a"] });
  answers(await put(at, "new", { policies: [] }), 201, "OK");
  assert.equal(
    { policiesOf: await policiesOf(at, "new"), consumersOf: await consumersOf(at, "a") },
    { policiesOf: [], consumersOf: [] },
  );
});

test("names to detach come in the query too, repeated or joined by commas, and beside a body", async () => {
  const at = await withPolicies("a", "b", "c", "d");
  const all = ["a", "b", "c", "d"];
  const left = async (call: Promise<Answer>): Promise<string[]> => {
    answers(await call, 200, "OK");
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

test("one unknown policy refuses the whole call", async () => {
  const at = await withPolicies("a");
  const elsewhere = await withPolicies("theirs");
  await attach(at, "prod", "a");
  for (const name of ["nobody", "theirs", ""]) {
    await refuses(() => attach(at, "prod", "a", name), 404, unknown(at, name));
    await refuses(() => detach(at, "prod", "a", name), 404, unknown(at, name));
    await refuses(() => detachByQuery(at, "prod", `policy_names=a&policy_names=${name}`), 404, unknown(at, name));
    await refuses(() => put(at, "prod", { description: "new", policies: [name] }), 404, unknown(at, name));
    await refuses(() => put(at, "fresh", { policies: ["a", name] }), 404, unknown(at, name));
    await refuses(() => patch(at, "prod", { description: "new", policies: ["a", name] }), 404, unknown(at, name));
  }
  await refuses(() => attach(elsewhere, "prod", "a"), 404, unknown(elsewhere, "a"));
});

test("an environment that is not there, or not any more, is named", async () => {
  const at = await withPolicies("a");
  const missing = { message: `Environment named 'nobody' does not exist for organization '${at.org}'` };
  await refuses(() => attach(at, "nobody", "a"), 404, missing);
  await refuses(() => attach(at, "nobody", "b"), 404, missing);
  await refuses(() => detach(at, "nobody", "a"), 404, missing);
  await server.call("PUT", `/environments/${at.org}/prod/archive`, { key: at.key });
  const archived = { message: `Environment named 'prod' has been archived for organization '${at.org}'` };
  await refuses(() => attach(at, "prod", "a"), 404, archived);
  await refuses(() => detach(at, "prod", "a"), 404, archived);
});

test("a logical environment has no policies", async () => {
  const at = await withPolicies("a");
  await server.given.environment(at, { name: "all", members: ["prod"] });
  const text = {
    message: `Environment 'all' in organization '${at.org}' is logical: attach policies to its members`,
  };
  for (const policy of ["a", "nobody"]) {
    await refuses(() => attach(at, "all", policy), 400, text);
    await refuses(() => detach(at, "all", policy), 400, text);
    const field = refused({ policies: "Policies cannot be attached to a logical environment" });
    await refuses(() => put(at, "all", { type: "logical", policies: [policy] }), 400, field);
    await refuses(() => put(at, "more", { type: "logical", policies: [policy] }), 400, field);
    await refuses(() => patch(at, "all", { policies: [policy], included_environments: [] }), 400, field);
  }
  // What a read gives for it can be sent back.
  answers(await put(at, "all", { type: "logical", policies: [] }), 201, "OK");
  answers(await patch(at, "all", { policies: [] }), 200, "OK");
});

test("bodies that do not fit are refused by field", async () => {
  const at = await withPolicies("a");
  const cases: [unknown, Record<string, string>][] = [
    [{}, { policy_names: "Field required" }],
    [{ policy_names: null }, { policy_names: "Input should be a valid array [input: null]" }],
    [{ policy_names: "a" }, { policy_names: "Input should be a valid array [input: a]" }],
    [{ policy_names: ["a", 7] }, { "policy_names.1": "Input should be a valid string [input: 7]" }],
    [{ policy_names: ["a"], force: true }, { force: "Extra inputs are not permitted [input: true]" }],
  ];
  for (const [body, errors] of cases)
    for (const method of ["POST", "DELETE"])
      await refuses(() => server.call(method, path(at, "prod"), { key: at.key, body }), 400, refused(errors));
  await refuses(
    () => server.call("DELETE", path(at, "prod"), { key: at.key }),
    400,
    refused({ policy_names: "Field required" }),
  );
  await refuses(() => server.call("POST", path(at, "prod"), { key: at.key }), 400, {
    message: "A JSON body is required: the request has none",
  });
});

test("a snapshotter attaches nothing, but may give policies when it creates an environment", async () => {
  const at = await withPolicies("a");
  const snapshotter = { org: at.org, key: server.given.user(at.org, "snapshotter") };
  const denied = { message: "You don't have permission to access this resource" };
  await refuses(() => attach(snapshotter, "prod", "a"), 403, denied);
  await refuses(() => detach(snapshotter, "prod", "a"), 403, denied);
  answers(await put(snapshotter, "mine", { policies: ["a"] }), 201, "OK");
  assert.equal(await policiesOf(at, "mine"), ["a"]);
});

test("attaching and detaching are in the audit log with what they changed", async () => {
  const at = await withPolicies("a");
  await attach(at, "prod", "a");
  await attach(at, "prod", "a");
  await detachByQuery(at, "prod", "policy_names=a");
  const { id } = server.store.organizations.find(at.org) as { id: number };
  const entries = server.store.audit
    .latest(id, 3)
    .map(({ event, detail_json }) => [event, JSON.parse(detail_json ?? "{}")]);
  assert.equal(entries, [
    ["environment.policies_detached", { environment: "prod", policies: ["a"], changed: true }],
    ["environment.policies_attached", { environment: "prod", policies: ["a"], changed: false }],
    ["environment.policies_attached", { environment: "prod", policies: ["a"], changed: true }],
  ]);
});

test.run();
