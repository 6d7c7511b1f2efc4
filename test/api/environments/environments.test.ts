import { suite } from "uvu";
import * as assert from "uvu/assert";
import { EPOCH, fresh, startServer } from "../../given.ts";
import type { Answer, TestServer } from "../../given.ts";

const test = suite("api/environments/environments");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type At = { org: string; key: string };
const PATTERN = String.raw`'^[a-zA-Z0-9][a-zA-Z0-9\.\-_]*$'`;
const TYPES = "'K8S', 'ECS', 'S3', 'lambda', 'server', 'docker', 'azure-apps', 'cloud-run' or 'logical'";

const put = (at: At, body: unknown): Promise<Answer> =>
  server.call("PUT", `/environments/${at.org}`, { key: at.key, body });
const patch = (at: At, name: string, body: unknown): Promise<Answer> =>
  server.call("PATCH", `/environments/${at.org}/${name}`, { key: at.key, body });
const get = (at: At, name: string): Promise<Answer> =>
  server.call("GET", `/environments/${at.org}/${name}`, { key: at.key });
const list = (at: At, query = ""): Promise<Answer> =>
  server.call("GET", `/environments/${at.org}${query}`, { key: at.key });
const rename = (at: At, name: string, new_name: unknown): Promise<Answer> =>
  server.call("PUT", `/environments/${at.org}/${name}/rename`, { key: at.key, body: { new_name } });
const archive = (at: At, name: string): Promise<Answer> =>
  server.call("PUT", `/environments/${at.org}/${name}/archive`, { key: at.key });
const join = (at: At, logical: string, physical_env_name: unknown): Promise<Answer> =>
  server.call("PUT", `/environments/${at.org}/${logical}/join`, { key: at.key, body: { physical_env_name } });
const read = async (at: At, name: string): Promise<any> => (await get(at, name)).body;
const membersOf = async (at: At, name: string): Promise<string[] | null> =>
  (await read(at, name)).included_environments;
const namesOf = (answer: Answer): string[] => answer.body.map((environment: { name: string }) => environment.name);
const k8s = (name: string, more: object = {}) => ({ name, type: "K8S", description: "", ...more });
const logical = (name: string, included_environments: unknown, more: object = {}) => ({
  name,
  type: "logical",
  description: "",
  included_environments,
  ...more,
});

const missing = (at: At, name: string) => ({
  message: `Environment named '${name}' does not exist for organization '${at.org}'`,
});
const archived = (at: At, name: string) => ({
  message: `Environment named '${name}' has been archived for organization '${at.org}'`,
});
const validationError = (errors: Record<string, string>) => ({ message: "Input payload validation failed", errors });

function assertAnswer(answer: Answer, status: number, body: unknown): void {
  assert.equal(answer.body, body);
  assert.is(answer.status, status);
}

const TABLES = [
  "environments",
  "environment_aliases",
  "environment_tags",
  "environment_members",
  "environment_policies",
];
const allRows = () => [
  ...TABLES.map((table) => server.db.prepare(`SELECT ${table}.* FROM ${table}`).all()),
  server.db.prepare("SELECT count(*) FROM audit_log").pluck().get(),
];

/** Asserts the refusal, and that it stored nothing. */
async function assertRefused(call: () => Promise<Answer>, status: number, body: unknown): Promise<void> {
  const before = allRows();
  assertAnswer(await call(), status, body);
  assert.equal(allRows(), before);
}

const organizationOf = (at: At) => server.store.organizations.find(at.org) as { id: number; name: string };
const rowOf = (at: At, name: string) => server.store.environments.require(organizationOf(at), name);
/** Writes the columns that reports and snapshots update. */
const setColumns = (at: At, name: string, fields: Record<string, number | null>): void => {
  const columns = Object.keys(fields).map((column) => `${column} = ?`);
  server.db
    .prepare(`UPDATE environments SET ${columns.join(", ")} WHERE id = ?`)
    .run(...Object.values(fields), rowOf(at, name).id);
};

// --- PUT
// -----------------------------------------------------------------------------------------------------------------

test("creates an environment with 201 and returns all its fields", async () => {
  const at = server.given.org();
  assertAnswer(await put(at, { name: "prod", type: "K8S", description: "The cluster" }), 201, "OK");
  const row = rowOf(at, "prod");
  assertAnswer(await get(at, "prod"), 200, {
    org: at.org,
    name: "prod",
    type: "K8S",
    description: "The cluster",
    last_modified_at: row.created_at,
    last_reported_at: null,
    last_changed_at: null,
    state: null,
    include_scaling: false,
    require_provenance: false,
    tags: {},
    policies: [],
    included_environments: null,
  });
});

test("accepts every type; only a logical environment has members", async () => {
  const at = server.given.org();
  for (const type of ["K8S", "ECS", "S3", "lambda", "server", "docker", "azure-apps", "cloud-run", "logical"]) {
    assertAnswer(
      await put(at, { name: `e-${type}`, type, description: "", included_environments: null, policies: null }),
      201,
      "OK",
    );
    const body = await read(at, `e-${type}`);
    assert.equal(
      { type: body.type, included_environments: body.included_environments, policies: body.policies },
      { type, included_environments: type === "logical" ? [] : null, policies: [] },
    );
  }
});

test("updates with 201; empty descriptions and null or omitted fields change nothing", async () => {
  const at = server.given.org();
  await put(at, { name: "a", type: "ECS", description: "first", include_scaling: true, require_provenance: true });
  const before = await read(at, "a");
  assert.equal(
    { include_scaling: before.include_scaling, require_provenance: before.require_provenance },
    { include_scaling: true, require_provenance: true },
  );
  const nothing = { include_scaling: null, require_provenance: null, included_environments: null, policies: null };
  for (const more of [{}, nothing, { include_scaling: true }])
    assertAnswer(await put(at, { name: "a", type: "ECS", description: "", ...more }), 201, "OK");
  assert.equal(await read(at, "a"), before);
  assertAnswer(
    await put(at, { name: "a", type: "ECS", description: "second", include_scaling: false, require_provenance: false }),
    201,
    "OK",
  );
  const { last_modified_at, ...after } = await read(at, "a");
  assert.equal(
    { ...after, last_modified_at: before.last_modified_at },
    { ...before, description: "second", include_scaling: false, require_provenance: false },
  );
  assert.ok(last_modified_at > before.last_modified_at);
  assert.equal(namesOf(await list(at)), ["a"]);
});

test("names all invalid fields and stores nothing", async () => {
  const at = server.given.org();
  const cases: [unknown, Record<string, string>][] = [
    [{}, { name: "Field required", type: "Field required", description: "Field required" }],
    [k8s("a~b"), { name: `String should match pattern ${PATTERN} [input: a~b]` }],
    [k8s("-a"), { name: `String should match pattern ${PATTERN} [input: -a]` }],
    [k8s(""), { name: `String should match pattern ${PATTERN} [input: ]` }],
    [k8s("a\n"), { name: `String should match pattern ${PATTERN} [input: a\\u000a]` }],
    [k8s("a".repeat(257)), { name: `String should have at most 256 characters [input: ${"a".repeat(257)}]` }],
    [{ ...k8s("a"), type: "k8s" }, { type: `Input should be ${TYPES} [input: k8s]` }],
    [{ ...k8s("a"), type: null }, { type: "Input should be a valid string [input: null]" }],
    [{ ...k8s("a"), description: null }, { description: "Input should be a valid string [input: null]" }],
    [k8s("a", { include_scaling: "yes" }), { include_scaling: "Input should be a valid boolean [input: yes]" }],
    [k8s("a", { policies: "p" }), { policies: "Input should be a valid array [input: p]" }],
    [k8s("a", { policies: [1] }), { "policies.0": "Input should be a valid string [input: 1]" }],
    [
      k8s("a", { tags: {} }),
      {
        tags:
          "Extra inputs are not permitted [input: {}]" +
          "; possible keys: name, type, description, include_scaling, require_provenance," +
          " included_environments, policies",
      },
    ],
    [["a"], { body: 'Input should be a valid object [input: ["a"]]' }],
  ];
  for (const [body, errors] of cases) await assertRefused(() => put(at, body), 400, validationError(errors));
});

test("never changes the type; after archiving, creates a new environment", async () => {
  const at = server.given.org();
  await put(at, { ...k8s("a"), description: "old" });
  await assertRefused(
    () => put(at, { name: "a", type: "ECS", description: "new" }),
    400,
    validationError({
      type: "The type of an environment cannot be changed: this one is of type 'K8S' [input: ECS]",
    }),
  );
  await assertRefused(
    () => put(at, logical("a", [])),
    400,
    validationError({
      type: "The type of an environment cannot be changed: this one is of type 'K8S' [input: logical]",
    }),
  );
  await archive(at, "a");
  assertAnswer(await put(at, logical("a", [])), 201, "OK");
  const body = await read(at, "a");
  assert.equal(
    { type: body.type, description: body.description, included_environments: body.included_environments },
    { type: "logical", description: "", included_environments: [] },
  );
});

test("fifty concurrent requests create one environment and all answer 201", async () => {
  const at = server.given.org();
  const all = await Promise.all(Array.from({ length: 50 }, () => put(at, k8s("one"))));
  assert.equal([...new Set(all.map(({ status }) => status))], [201]);
  assert.equal(namesOf(await list(at)), ["one"]);
});

test("does not find environments of another organization", async () => {
  const [here, there] = [server.given.org(), server.given.org()];
  const name = await server.given.environment(there);
  assertAnswer(await get(here, name), 404, missing(here, name));
  await assertRefused(
    () => put(here, logical("all", [name])),
    400,
    validationError({ included_environments: `${missing(here, name).message} [input: ${name}]` }),
  );
});

// --- PATCH
// ---------------------------------------------------------------------------------------------------------------

test("PATCH changes the sent fields, and an empty description clears it", async () => {
  const at = server.given.org();
  await put(at, k8s("a", { description: "text", require_provenance: true }));
  const before = await read(at, "a");
  for (const nothing of [
    {},
    { description: null, include_scaling: null, included_environments: null, policies: null },
    { description: "text" },
  ])
    assertAnswer(await patch(at, "a", nothing), 200, "OK");
  assert.equal(await read(at, "a"), before);
  assertAnswer(await patch(at, "a", { description: "" }), 200, "OK");
  const cleared = await read(at, "a");
  assert.equal(cleared, { ...before, description: "", last_modified_at: cleared.last_modified_at });
  assertAnswer(await patch(at, "a", { include_scaling: true }), 200, "OK");
  const scaled = await read(at, "a");
  assert.equal(scaled, { ...cleared, include_scaling: true, last_modified_at: scaled.last_modified_at });
  assert.ok(before.last_modified_at < cleared.last_modified_at && cleared.last_modified_at < scaled.last_modified_at);
});

test("PATCH refuses unknown fields, wrong shapes and unknown environments", async () => {
  const at = server.given.org();
  await put(at, k8s("a"));
  const cases: [unknown, Record<string, string>][] = [
    [
      { require_provenance: true, name: "b" },
      {
        require_provenance:
          "Extra inputs are not permitted [input: true]" +
          "; possible keys: description, include_scaling, included_environments, policies",
        name: "Extra inputs are not permitted [input: b]",
      },
    ],
    [
      { type: "ECS" },
      {
        type:
          "Extra inputs are not permitted [input: ECS]" +
          "; possible keys: description, include_scaling, included_environments, policies",
      },
    ],
    [{ description: 7 }, { description: "Input should be a valid string [input: 7]" }],
    [
      { included_environments: ["a"] },
      { included_environments: "Only a logical environment includes others: this one is of type 'K8S'" },
    ],
  ];
  for (const [body, errors] of cases) await assertRefused(() => patch(at, "a", body), 400, validationError(errors));
  await assertRefused(() => patch(at, "nobody", { description: "x" }), 404, missing(at, "nobody"));
  await archive(at, "a");
  await assertRefused(() => patch(at, "a", { description: "x" }), 404, archived(at, "a"));
});

// --- Logical environments
// ------------------------------------------------------------------------------------------------

test("keeps members in order, each once, and replaces them as a whole", async () => {
  const at = server.given.org();
  for (const name of ["a", "b", "c"]) await put(at, k8s(name));
  assertAnswer(await put(at, logical("all", ["c", "a", "c"])), 201, "OK");
  assert.equal(await membersOf(at, "all"), ["c", "a"]);
  assertAnswer(await put(at, logical("all", null)), 201, "OK");
  assert.equal(await membersOf(at, "all"), ["c", "a"]);
  assertAnswer(await patch(at, "all", { included_environments: ["a", "b", "c"] }), 200, "OK");
  assert.equal(await membersOf(at, "all"), ["a", "b", "c"]);
  assert.equal((await list(at, "?type=logical")).body[0].included_environments, ["a", "b", "c"]);
  assertAnswer(await patch(at, "all", { included_environments: [] }), 200, "OK");
  assert.equal(await membersOf(at, "all"), []);
  assertAnswer(await put(at, logical("all", ["b"])), 201, "OK");
  assert.equal(await membersOf(at, "all"), ["b"]);
});

test("shows members under their present name", async () => {
  const at = server.given.org();
  await put(at, k8s("a"));
  await rename(at, "a", "b");
  assertAnswer(await put(at, logical("all", ["a", "b"])), 201, "OK");
  assert.equal(await membersOf(at, "all"), ["b"]);
  await rename(at, "b", "c");
  assert.equal(await membersOf(at, "all"), ["c"]);
});

test("PUT and PATCH refuse a whole list with an impossible member", async () => {
  const at = server.given.org();
  for (const name of ["a", "gone"]) await put(at, k8s(name));
  await put(at, logical("other", []));
  await put(at, logical("all", ["a"]));
  await archive(at, "gone");
  const suffixed = suffixedName(at, "gone");
  const unknown = (name: string) => `${missing(at, name).message} [input: ${name}]`;
  const nested = (name: string) =>
    `Environment '${name}' is logical: only physical environments can be included [input: ${name}]`;
  const cases: [string[], string][] = [
    [["a", "nobody"], unknown("nobody")],
    [["gone"], `${archived(at, "gone").message} [input: gone]`],
    [[suffixed], `${archived(at, suffixed).message} [input: ${suffixed}]`],
    [["a", "other"], nested("other")],
    [["all"], nested("all")],
    [["a\nb"], unknown("a\\u000ab")],
    [["x", "other", "x", "y z"], `${unknown("x")}; ${nested("other")}; ${unknown("y z")}`],
    [Array.from({ length: 25 }, (_, n) => `n${n}`), Array.from({ length: 20 }, (_, n) => unknown(`n${n}`)).join("; ")],
  ];
  for (const [members, text] of cases) {
    await assertRefused(
      () => put(at, logical("all", members, { description: "new" })),
      400,
      validationError({ included_environments: text }),
    );
    await assertRefused(
      () => put(at, logical("fresh", members)),
      400,
      validationError({ included_environments: text }),
    );
    await assertRefused(
      () => patch(at, "all", { included_environments: members, description: "new" }),
      400,
      validationError({ included_environments: text }),
    );
  }
  await assertRefused(
    () => put(at, logical("self", ["self"])),
    400,
    validationError({ included_environments: unknown("self") }),
  );
});

test("refuses members of a physical environment, but accepts an empty list", async () => {
  const at = server.given.org();
  await put(at, k8s("a"));
  await assertRefused(
    () => put(at, k8s("b", { included_environments: ["a"] })),
    400,
    validationError({
      included_environments: "Only a logical environment includes others: this one is of type 'K8S'",
    }),
  );
  assertAnswer(await put(at, k8s("b", { included_environments: [] })), 201, "OK");
  assertAnswer(await patch(at, "b", { included_environments: [] }), 200, "OK");
  assert.is(await membersOf(at, "b"), null);
});

test("a logical environment has the times and state of its members", async () => {
  const at = server.given.org();
  for (const name of ["a", "b", "c"]) await put(at, k8s(name));
  await put(at, logical("all", []));
  const own = rowOf(at, "all").last_modified_at;
  setColumns(at, "all", { last_reported_at: 1, last_changed_at: 1, state: 1 });
  const facts = async () => {
    const body = await read(at, "all");
    assert.equal((await list(at, "?type=logical")).body, [body]);
    return [body.last_modified_at, body.last_reported_at, body.last_changed_at, body.state];
  };
  assert.equal(await facts(), [own, null, null, null]);
  await patch(at, "all", { included_environments: ["a", "b"] });
  setColumns(at, "a", { last_modified_at: EPOCH + 5e6, last_changed_at: 10.5, last_reported_at: 70, state: 1 });
  setColumns(at, "b", { last_modified_at: EPOCH + 6e6, last_changed_at: null, state: null });
  setColumns(at, "c", { last_modified_at: EPOCH + 7e6, last_changed_at: 40, state: 0 });
  assert.equal(await facts(), [EPOCH + 6e6, null, 10.5, null]);
  setColumns(at, "b", { last_changed_at: 20, state: 1 });
  assert.equal(await facts(), [EPOCH + 6e6, null, 20, true]);
  await join(at, "all", "c");
  assert.equal(await facts(), [EPOCH + 7e6, null, 40, false]);
  setColumns(at, "a", { state: null });
  assert.equal(await facts(), [EPOCH + 7e6, null, 40, false]);
});

test("join appends a member once", async () => {
  const at = server.given.org();
  for (const name of ["b", "a"]) await put(at, k8s(name));
  await put(at, logical("all", []));
  for (const name of ["b", "a", "b", "a"]) assertAnswer(await join(at, "all", name), 200, "OK");
  assert.equal(await membersOf(at, "all"), ["b", "a"]);
  await patch(at, "all", { included_environments: ["a"] });
  assertAnswer(await join(at, "all", "b"), 200, "OK");
  assert.equal(await membersOf(at, "all"), ["a", "b"]);
});

test("join refuses unknown environments and wrong types", async () => {
  const at = server.given.org();
  for (const name of ["a", "b", "gone"]) await put(at, k8s(name));
  for (const name of ["all", "other", "old"]) await put(at, logical(name, []));
  await archive(at, "gone");
  await archive(at, "old");
  const suffixed = suffixedName(at, "gone");
  await assertRefused(() => join(at, "nobody", "a"), 404, missing(at, "nobody"));
  await assertRefused(() => join(at, "old", "a"), 404, archived(at, "old"));
  await assertRefused(() => join(at, "all", "nobody"), 404, missing(at, "nobody"));
  await assertRefused(() => join(at, "all", "gone"), 404, archived(at, "gone"));
  await assertRefused(() => join(at, "all", suffixed), 404, archived(at, suffixed));
  const nested = (name: string) =>
    validationError({
      physical_env_name:
        `Environment '${name}' is logical: only physical environments can be included ` + `[input: ${name}]`,
    });
  await assertRefused(() => join(at, "all", "other"), 400, nested("other"));
  await assertRefused(() => join(at, "all", "all"), 400, nested("all"));
  for (const member of ["b", "nobody", "all"])
    await assertRefused(() => join(at, "a", member), 400, {
      message:
        `Environment 'a' in organization '${at.org}' is not logical: it is of type 'K8S' and includes no other ` +
        "environments",
    });
  await assertRefused(() => join(at, "all", undefined), 400, validationError({ physical_env_name: "Field required" }));
});

// --- Renaming and archiving
// ----------------------------------------------------------------------------------------------

test("finds a renamed environment under both names until another takes the old one", async () => {
  const at = server.given.org();
  await put(at, k8s("a", { description: "first" }));
  assertAnswer(await rename(at, "a", "b"), 200, "OK");
  for (const name of ["a", "b"]) {
    const body = await read(at, name);
    assert.equal({ name: body.name, description: body.description }, { name: "b", description: "first" });
  }
  assertAnswer(await patch(at, "a", { description: "by its old name" }), 200, "OK");
  assert.is((await read(at, "b")).description, "by its old name");
  assertAnswer(await put(at, { name: "a", type: "S3", description: "second" }), 201, "OK");
  assert.equal({ a: (await read(at, "a")).type, b: (await read(at, "b")).type }, { a: "S3", b: "K8S" });
  assert.equal(namesOf(await list(at)), ["a", "b"]);
});

test("takes over a former name; renaming to the same name changes nothing", async () => {
  const at = server.given.org();
  await put(at, k8s("a", { description: "first" }));
  await put(at, k8s("x", { description: "second" }));
  await rename(at, "a", "b");
  assertAnswer(await rename(at, "a", "a"), 200, "OK"); // addressed by its old name, gets it back
  assert.is((await read(at, "b")).name, "a");
  await rename(at, "a", "c");
  assertAnswer(await rename(at, "x", "a"), 200, "OK");
  assert.is((await read(at, "a")).description, "second");
  for (const name of ["b", "c"]) assert.is((await read(at, name)).description, "first");
  const before = await read(at, "c");
  assertAnswer(await rename(at, "c", "c"), 200, "OK");
  assert.equal(await read(at, "c"), before);
});

test("checks the grammar, then the environment, then whether the name is free", async () => {
  const at = server.given.org();
  for (const name of ["a", "b", "gone"]) await put(at, k8s(name));
  await archive(at, "gone");
  const suffixed = suffixedName(at, "gone");
  for (const bad of ["b c", "a~b"]) {
    const malformed = validationError({ new_name: `String should match pattern ${PATTERN} [input: ${bad}]` });
    await assertRefused(() => rename(at, "nobody", bad), 400, malformed);
    await assertRefused(() => rename(at, "a", bad), 400, malformed);
  }
  await assertRefused(() => rename(at, "nobody", "b"), 404, missing(at, "nobody"));
  await assertRefused(() => rename(at, "gone", "z"), 404, archived(at, "gone"));
  await assertRefused(() => rename(at, suffixed, "z"), 404, archived(at, suffixed));
  for (const taken of ["b", suffixed])
    await assertRefused(
      () => rename(at, "a", taken),
      400,
      validationError({ new_name: `An environment with this name already exists [input: ${taken}]` }),
    );
  await assertRefused(() => rename(at, "a", undefined), 400, validationError({ new_name: "Field required" }));
  assertAnswer(await rename(at, "a", "gone"), 200, "OK");
});

test("reads, lists, changes, tags, renames and archives a stored name with a tilde", async () => {
  const at = server.given.org();
  await put(at, k8s("old"));
  server.db.prepare("UPDATE environments SET name = 'old~1' WHERE id = ?").run(rowOf(at, "old").id);
  assert.is((await read(at, "old~1")).name, "old~1");
  assert.equal(namesOf(await list(at, "?name=~")), ["old~1"]);
  assertAnswer(await patch(at, "old~1", { description: "d" }), 200, "OK");
  assertAnswer(
    await server.call("PATCH", `/tags/${at.org}/env/old~1`, { key: at.key, body: { set_tags: { a: "b" } } }),
    200,
    "OK",
  );
  assertAnswer(await put(at, logical("all", ["old~1"])), 201, "OK");
  assertAnswer(await rename(at, "old~1", "new"), 200, "OK");
  assert.is((await read(at, "old~1")).name, "new");
  assertAnswer(await archive(at, "old~1"), 200, "OK");
});

const suffixedName = (at: At, name: string): string =>
  server.db
    .prepare("SELECT name FROM environments WHERE organization_id = ? AND archived_name = ? ORDER BY id DESC")
    .pluck()
    .get(organizationOf(at).id, name) as string;

test("archiving removes it from lists, frees its name, and leaves the suffixed name", async () => {
  const at = server.given.org();
  await put(at, k8s("a", { description: "old" }));
  assertAnswer(
    await server.call("PUT", `/environments/${at.org}/a/archive`, {
      key: at.key,
      raw: "null",
      headers: { "Content-Type": "application/json" },
    }),
    200,
    "OK",
  );
  assertAnswer(await list(at), 200, []);
  assertAnswer(await get(at, "a"), 404, archived(at, "a"));
  await assertRefused(() => archive(at, "a"), 404, archived(at, "a"));
  await assertRefused(() => archive(at, "nobody"), 404, missing(at, "nobody"));
  const suffixed = suffixedName(at, "a");
  assert.match(suffixed, /^a-archived-at-17\d{8}$/);
  const body = await read(at, suffixed);
  assert.equal({ name: body.name, description: body.description }, { name: suffixed, description: "old" });
  assertAnswer(await put(at, k8s("a", { description: "new" })), 201, "OK");
  assert.is((await read(at, "a")).description, "new");
  assert.is((await read(at, suffixed)).description, "old");
});

test("refuses every write to an archived environment", async () => {
  const at = server.given.org();
  await put(at, k8s("a"));
  await archive(at, "a");
  const name = suffixedName(at, "a");
  const policy = await server.given.policy(at, { yaml: null });
  const body = { policy_names: [policy] };
  const writes: (() => Promise<Answer>)[] = [
    () => put(at, k8s(name)),
    () => patch(at, name, { description: "x" }),
    () => archive(at, name),
    () => server.call("PATCH", `/tags/${at.org}/environment/${name}`, { key: at.key, body: { set_tags: { a: "b" } } }),
    () => server.call("POST", `/environments/${at.org}/${name}/policies`, { key: at.key, body }),
    () => server.call("DELETE", `/environments/${at.org}/${name}/policies`, { key: at.key, body }),
  ];
  for (const write of writes) await assertRefused(write, 404, archived(at, name));
});

test("archiving removes it from logical environments; former names report the archiving", async () => {
  const at = server.given.org();
  for (const name of ["a", "b", "c"]) await put(at, k8s(name));
  await put(at, logical("all", ["a", "b", "c"]));
  await put(at, logical("one", ["b"]));
  setColumns(at, "b", { state: 0 });
  await rename(at, "b", "d");
  const shown = (await read(at, "one")).last_modified_at;
  await archive(at, "d");
  assert.equal({ all: await membersOf(at, "all"), one: await membersOf(at, "one") }, { all: ["a", "c"], one: [] });
  assert.equal({ all: (await read(at, "all")).state, one: (await read(at, "one")).state }, { all: null, one: null });
  assert.ok((await read(at, "one")).last_modified_at > shown);
  for (const name of ["b", "d"]) assertAnswer(await get(at, name), 404, archived(at, name));
  await archive(at, "all");
  assert.equal(await membersOf(at, suffixedName(at, "all")), ["a", "c"]);
});

test("records every change in the audit log with its environment", async () => {
  const at = server.given.org();
  await put(at, k8s("a"));
  await put(at, k8s("a"));
  await patch(at, "a", { description: "d" });
  await put(at, logical("all", []));
  await join(at, "all", "a");
  await join(at, "all", "a");
  await rename(at, "a", "b");
  await archive(at, "b");
  const entries = server.store.auditLog
    .listLatest(organizationOf(at).id, 10)
    .map(({ event, detail_json }) => [event, JSON.parse(detail_json ?? "{}")]);
  assert.equal(entries.reverse(), [
    ["environment.put", { environment: "a", created: true }],
    ["environment.put", { environment: "a", created: false }],
    ["environment.updated", { environment: "a", fields: ["description"] }],
    ["environment.put", { environment: "all", created: true }],
    ["environment.joined", { environment: "all", member: "a", added: true }],
    ["environment.joined", { environment: "all", member: "a", added: false }],
    ["environment.renamed", { from: "a", to: "b" }],
    ["environment.archived", { environment: "b", archived_as: suffixedName(at, "b") }],
  ]);
});

test("a snapshotter creates and updates only; outsiders read public organizations", async () => {
  const at = server.given.org({ public: true });
  const snapshotter = { org: at.org, key: server.given.user(at.org, "snapshotter") };
  assertAnswer(await put(snapshotter, k8s("a")), 201, "OK");
  assertAnswer(await put(snapshotter, k8s("a", { description: "mine" })), 201, "OK");
  const denied = { message: "You don't have permission to access this resource" };
  await assertRefused(() => patch(snapshotter, "a", { description: "x" }), 403, denied);
  await assertRefused(() => archive(snapshotter, "a"), 403, denied);
  await assertRefused(() => rename(snapshotter, "a", "b"), 403, denied);
  const stranger = { org: at.org, key: server.given.user(at.org, null) };
  assert.equal(namesOf(await list(stranger)), ["a"]);
  assert.is((await read(stranger, "a")).description, "mine");
  await assertRefused(() => put(stranger, k8s(fresh("environment"))), 403, denied);
});

test.run();
