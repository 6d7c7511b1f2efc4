/** Controls (semantics 7.1): create, read, list, update, archive, and the switch that turns the feature off. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { startServer } from "../../given.ts";
import type { Answer, TestServer } from "../../given.ts";
import { holdings } from "../../http/socket.ts";

const test = suite("api/policies/controls");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type At = { org: string; key: string };
type Json = Record<string, any>;
const FAILED = "Input payload validation failed";
const PATTERN = String.raw`String should match pattern '^[a-zA-Z0-9\-._~]+$'`;
const DENIED = { message: "You don't have permission to access this resource" };

const post = (at: At, body: unknown): Promise<Answer> =>
  server.call("POST", `/controls/${at.org}`, { key: at.key, body });
const put = (at: At, identifier: string, body: unknown): Promise<Answer> =>
  server.call("PUT", `/controls/${at.org}/${identifier}`, { key: at.key, body });
const get = (at: At, path = ""): Promise<Answer> => server.call("GET", `/controls/${at.org}${path}`, { key: at.key });
const setArchived = (at: At, identifier: string, where: "archive" | "unarchive"): Promise<Answer> =>
  server.call("POST", `/controls/${at.org}/${identifier}/${where}`, { key: at.key });
const versions = async (at: At, identifier: string): Promise<Json[]> =>
  (await get(at, `/${identifier}/versions?per_page=100&sort_direction=asc`)).body.versions;
const names = async (at: At, query: string): Promise<string[]> =>
  (await get(at, query)).body.controls.map(({ identifier }: Json) => identifier);
const auditEntries = (at: At): unknown[] =>
  server.db
    .prepare("SELECT event, detail_json FROM audit_log WHERE organization_id = ? ORDER BY id")
    .all(server.store.organizations.find(at.org)?.id)
    .map((row) => [(row as Json)["event"], JSON.parse((row as Json)["detail_json"])]);

/** Asserts the exact response, and that no table and no directory changed. */
async function assertRefused(send: () => Promise<Answer>, status: number, body: unknown): Promise<void> {
  const before = holdings(server);
  const answer = await send();
  assert.equal({ status: answer.status, body: answer.body }, { status, body });
  assert.equal(holdings(server), before);
}
const validationError = (errors: Record<string, string>) => ({ message: FAILED, errors });
const missing = (at: At, identifier: string) => ({
  message: `Control '${identifier}' does not exist in organization '${at.org}'`,
});

test("creates a control with 201, and reads it back as returned", async () => {
  const at = server.given.org();
  const { status, body } = await post(at, {
    identifier: "SDLC-7",
    name: "Changes are reviewed",
    description: "By somebody else",
    links: { "wiki.v2": "https://wiki.test/7", b: "x" },
  });
  assert.is(status, 201);
  assert.type(body.created_at, "number");
  assert.equal(body, {
    identifier: "SDLC-7",
    name: "Changes are reviewed",
    description: "By somebody else",
    links: { "wiki.v2": "https://wiki.test/7", b: "x" },
    version: 1,
    created_at: body.created_at,
    created_by: `${at.org}-admin`,
    tags: {},
    archived: false,
    policies_referencing: [],
  });
  const read = await get(at, "/SDLC-7");
  assert.equal({ status: read.status, body: read.body }, { status: 200, body });
  const { archived, policies_referencing, ...listed } = body;
  assert.equal((await get(at)).body, { page: 1, per_page: 15, total_pages: 1, total_count: 1, controls: [listed] });
  assert.equal(auditEntries(at), [["control.created", { control: "SDLC-7" }]]);
});

test("requires name and identifier only; an empty description is stored as none", async () => {
  const at = server.given.org();
  for (const [index, more] of [{}, { description: null, links: null }, { description: "", links: {} }].entries()) {
    const { status, body } = await post(at, { identifier: `c${index}`, name: "n", ...more });
    assert.equal(
      { status, description: body.description, links: body.links },
      { status: 201, description: null, links: {} },
    );
  }
});

test("accepts identifiers of 256 characters that start with any allowed character", async () => {
  const at = server.given.org();
  for (const identifier of ["-a", ".a", "_a", "~a", "0", "Tags", "tags.", "x".repeat(256)]) {
    assert.is((await post(at, { identifier, name: "n" })).status, 201, identifier);
    assert.is((await get(at, `/${identifier}`)).body.identifier, identifier);
  }
  assert.is((await get(at)).body.total_count, 8);
});

test("refuses invalid bodies by field and stores nothing", async () => {
  const at = server.given.org();
  for (const [body, errors] of [
    [{ identifier: "a b", name: "n" }, { identifier: `${PATTERN} [input: a b]` }],
    [{ identifier: "", name: "n" }, { identifier: `${PATTERN} [input: ]` }],
    [{ identifier: "a/b", name: "n" }, { identifier: `${PATTERN} [input: a/b]` }],
    [{ identifier: "é", name: "n" }, { identifier: `${PATTERN} [input: é]` }],
    [{ identifier: "a\n", name: "n" }, { identifier: `${PATTERN} [input: a\\u000a]` }],
    [
      { identifier: "x".repeat(257), name: "n" },
      { identifier: `String should have at most 256 characters [input: ${"x".repeat(257)}]` },
    ],
    [{ identifier: "tags", name: "n" }, { identifier: "The identifier 'tags' is reserved [input: tags]" }],
    [{}, { identifier: "Field required", name: "Field required" }],
    [
      { identifier: null, name: null },
      {
        identifier: "Input should be a valid string [input: null]",
        name: "Input should be a valid string [input: null]",
      },
    ],
    [{ identifier: "a", name: "" }, { name: "String should have at least 1 character [input: ]" }],
    [{ identifier: "a", name: "n", links: { x: 1 } }, { "links.x": "Input should be a valid string [input: 1]" }],
    [{ identifier: "a", name: "n", links: ["x"] }, { links: 'Input should be a valid object [input: ["x"]]' }],
    [{ identifier: "a", name: "n", description: 5 }, { description: "Input should be a valid string [input: 5]" }],
    [
      { identifier: "a", name: "n", tags: {} },
      { tags: "Extra inputs are not permitted [input: {}]; possible keys: identifier, name, description, links" },
    ],
  ] as const)
    await assertRefused(() => post(at, body), 400, validationError(errors));
  await assertRefused(() => post(at, null), 400, { message: "A JSON body is required: the request has none" });
});

test("answers 409 for a taken identifier, also after archiving, in the same organization only", async () => {
  const at = server.given.org();
  await server.given.control(at, { identifier: "C-1" });
  const taken = { message: `A control with identifier 'C-1' already exists in organization '${at.org}'` };
  await assertRefused(() => post(at, { identifier: "C-1", name: "another" }), 409, taken);
  await setArchived(at, "C-1", "archive");
  await assertRefused(() => post(at, { identifier: "C-1", name: "another" }), 409, taken);
  assert.is((await post(at, { identifier: "c-1", name: "another case is another identifier" })).status, 201);
  assert.is((await post(server.given.org(), { identifier: "C-1", name: "theirs" })).status, 201);
});

test("fifty concurrent requests create one control: one 201, the others 409", async () => {
  const at = server.given.org();
  const answers = await Promise.all(
    Array.from({ length: 50 }, (_, index) => post(at, { identifier: "race", name: `n${index}` })),
  );
  assert.equal(answers.map(({ status }) => status).sort(), [201, ...Array<number>(49).fill(409)]);
  const won = answers.find(({ status }) => status === 201)?.body;
  for (const { status, body } of answers)
    if (status === 409)
      assert.equal(body, { message: `A control with identifier 'race' already exists in organization '${at.org}'` });
  assert.equal((await get(at, "/race")).body, won);
  assert.equal(
    (await versions(at, "race")).map(({ version, name }) => [version, name]),
    [[1, won.name]],
  );
});

test("updates the sent fields only, and makes the next version", async () => {
  const at = server.given.org();
  const links = { a: "https://a.test", b: "https://b.test" };
  await server.given.control(at, { identifier: "c", name: "one", description: "d", links });
  const now = { name: "one", description: "d" as string | null, links: links as Json, version: 1 };
  for (const [body, changes] of [
    [{ name: "two" }, { name: "two" }],
    [{ description: "e" }, { description: "e" }],
    [{ links: { c: "https://c.test" } }, { links: { c: "https://c.test" } }],
    [
      { name: "three", description: "f", links: { d: "u" } },
      { name: "three", description: "f", links: { d: "u" } },
    ],
    [{ links: {} }, { links: {} }],
    [{ description: null }, { description: null }],
    [{ description: "g", name: null, links: null }, { description: "g" }],
    [{ description: "" }, { description: null }],
  ] as const) {
    Object.assign(now, changes, { version: now.version + 1 });
    const answer = await put(at, "c", body);
    assert.is(answer.status, 200);
    const { name, description, links: linked, version } = answer.body;
    assert.equal({ name, description, links: linked, version }, now);
    assert.equal((await get(at, "/c")).body, answer.body);
  }
});

test("an update without effect makes no version and no audit entry", async () => {
  const at = server.given.org();
  await server.given.control(at, { identifier: "c", name: "one", links: { a: "1", b: "2" } });
  const before = [holdings(server), (await get(at, "/c")).body];
  for (const body of [
    {},
    { name: "one" },
    { name: null },
    { description: null },
    { description: "" },
    { links: null },
    { links: { b: "2", a: "1" } },
    { name: "one", description: "", links: { a: "1", b: "2" } },
  ]) {
    const answer = await put(at, "c", body);
    assert.equal({ status: answer.status, body: answer.body }, { status: 200, body: before[1] }, JSON.stringify(body));
  }
  assert.equal([holdings(server), (await get(at, "/c")).body], before);
});

test("refuses invalid updates and unknown controls, and stores nothing", async () => {
  const at = server.given.org();
  await server.given.control(at, { identifier: "c" });
  for (const [body, errors] of [
    [{ name: "" }, { name: "String should have at least 1 character [input: ]" }],
    [
      { identifier: "d" },
      { identifier: "Extra inputs are not permitted [input: d]; possible keys: name, description, links" },
    ],
    [
      { archived: true },
      { archived: "Extra inputs are not permitted [input: true]; possible keys: name, description, links" },
    ],
    [{ links: { a: null } }, { "links.a": "Input should be a valid string [input: null]" }],
  ] as const)
    await assertRefused(() => put(at, "c", body), 400, validationError(errors));
  const theirs = server.given.org();
  await server.given.control(theirs, { identifier: "theirs" });
  for (const identifier of ["nothing", "theirs", "C", "__proto__"]) {
    await assertRefused(() => put(at, identifier, { name: "n" }), 404, missing(at, identifier));
    await assertRefused(() => setArchived(at, identifier, "archive"), 404, missing(at, identifier));
    await assertRefused(() => setArchived(at, identifier, "unarchive"), 404, missing(at, identifier));
    for (const below of ["", "/versions", "/versions/1", "/decisions", "/decisions/x", "/coverage"])
      await assertRefused(() => get(at, `/${identifier}${below}`), 404, missing(at, identifier));
  }
});

test("accepts links named like built-in object properties", async () => {
  const at = server.given.org();
  const raw = '{"identifier": "c", "name": "n", "links": {"__proto__": "x", "constructor": "y"}}';
  const answer = await server.call("POST", `/controls/${at.org}`, {
    key: at.key,
    raw,
    headers: { "Content-Type": "application/json" },
  });
  assert.is(answer.status, 201);
  assert.match(answer.text, '"links":{"__proto__":"x","constructor":"y"}');
  assert.is(
    (
      await server.call("PUT", `/controls/${at.org}/c`, {
        key: at.key,
        raw: '{"links": {"constructor": "y", "__proto__": "x"}}',
        headers: { "Content-Type": "application/json" },
      })
    ).body.version,
    1,
  );
});

test("archiving and unarchiving each make a version; repeating them makes none", async () => {
  const at = server.given.org();
  await server.given.control(at, { identifier: "c", description: "d", links: { a: "b" } });
  const before = (await get(at, "/c")).body;
  for (const [where, archived, version] of [
    ["unarchive", false, 1],
    ["archive", true, 2],
    ["archive", true, 2],
    ["unarchive", false, 3],
    ["unarchive", false, 3],
  ] as const) {
    const answer = await setArchived(at, "c", where);
    assert.equal({ status: answer.status, body: answer.body }, { status: 200, body: { ...before, archived, version } });
    assert.equal((await get(at, "/c")).body, answer.body);
    assert.equal([await names(at, ""), await names(at, "?archived=true")], archived ? [[], ["c"]] : [["c"], []]);
  }
  assert.equal(
    (await versions(at, "c")).map(({ status }) => status),
    ["created", "archived", "unarchived"],
  );
  assert.equal(auditEntries(at).slice(1), [
    ["control.archived", { control: "c", version: 2 }],
    ["control.unarchived", { control: "c", version: 3 }],
  ]);
  for (const body of ["null", undefined]) {
    const answer = await server.call("POST", `/controls/${at.org}/c/archive`, {
      key: at.key,
      ...(body ? { raw: body, headers: { "Content-Type": "application/json" } } : {}),
    });
    assert.is(answer.status, 200);
  }
});

test("updates an archived control, which stays archived", async () => {
  const at = server.given.org();
  await server.given.control(at, { identifier: "c", name: "one" });
  await setArchived(at, "c", "archive");
  const { status, body } = await put(at, "c", { name: "two" });
  assert.equal(
    { status, name: body.name, archived: body.archived, version: body.version },
    { status: 200, name: "two", archived: true, version: 3 },
  );
  assert.equal(
    (await versions(at, "c")).map(({ status: what, name }) => [what, name]),
    [
      ["created", "one"],
      ["archived", "one"],
      ["edited", "two"],
    ],
  );
});

test("concurrent changes make versions without gaps; the control matches the latest one", async () => {
  const at = server.given.org();
  await server.given.control(at, { identifier: "race", name: "n" });
  const answers = await Promise.all([
    ...Array.from({ length: 50 }, (_, index) => put(at, "race", { name: `n${index}` })),
    ...Array.from({ length: 20 }, (_, index) => setArchived(at, "race", index % 2 ? "archive" : "unarchive")),
  ]);
  assert.equal(
    answers.map(({ status }) => status).filter((status) => status !== 200),
    [],
  );
  const all = await versions(at, "race");
  assert.equal(
    all.map(({ version }) => version),
    all.map((_, index) => index + 1),
  );
  assert.is(all.filter(({ status }) => status === "edited").length, 50);
  assert.equal(
    all
      .filter(({ status }) => status === "edited")
      .map(({ name }) => name)
      .sort(),
    Array.from({ length: 50 }, (_, index) => `n${index}`).sort(),
  );
  const moves = all
    .filter(({ status }) => status === "archived" || status === "unarchived")
    .map(({ status }) => status);
  for (const [index, status] of moves.entries())
    assert.is(status, index % 2 === 0 ? "archived" : "unarchived", "they take turns");
  const { body } = await get(at, "/race");
  assert.equal(
    { version: body.version, name: body.name, archived: body.archived },
    { version: all.length, name: all.at(-1)?.["name"], archived: moves.at(-1) === "archived" },
  );
  // Every response matches the version with its number.
  for (const { body: answer } of answers) assert.is(all[answer.version - 1]?.["name"], answer.name);
});

test("lists by name in both directions, in pages, with all filters together", async () => {
  const at = server.given.org();
  for (const [identifier, name] of [
    ["SEC-1", "Zulu"],
    ["SEC-2", "Überprüfung 50%"],
    ["OPS_1", "Alpha"],
    ["OPS-2", "alpha review"],
    ["X", "REVIEW"],
  ] as const)
    await server.given.control(at, { identifier, name });
  const everyone = ["OPS_1", "X", "SEC-1", "OPS-2", "SEC-2"];
  assert.equal(await names(at, ""), everyone);
  assert.equal(await names(at, "?sort_direction=desc"), [...everyone].reverse());
  for (const [search, found] of [
    ["review", ["X", "OPS-2"]],
    ["sec-", ["SEC-1", "SEC-2"]],
    ["ÜBERPRÜFUNG", ["SEC-2"]],
    ["überprÜfung", ["SEC-2"]],
    ["50%", ["SEC-2"]],
    ["%", ["SEC-2"]],
    ["_", ["OPS_1"]],
    ["", everyone],
    ["nothing", []],
    ["  ", []],
  ] as const)
    assert.equal(await names(at, `?search=${encodeURIComponent(search)}`), found, search);
  const page = (await get(at, "?page=2&per_page=2")).body;
  assert.equal(
    {
      controls: page.controls.map(({ identifier }: Json) => identifier),
      page: page.page,
      per_page: page.per_page,
      total_pages: page.total_pages,
      total_count: page.total_count,
    },
    { controls: ["SEC-1", "OPS-2"], page: 2, per_page: 2, total_pages: 3, total_count: 5 },
  );
  assert.equal((await get(at, "?page=9&per_page=2")).body, {
    page: 9,
    per_page: 2,
    total_pages: 3,
    total_count: 5,
    controls: [],
  });
  await server.call("PATCH", `/tags/${at.org}/control/SEC-1`, {
    key: at.key,
    body: { set_tags: { team: "pay", tier: "1" } },
  });
  await server.call("PATCH", `/tags/${at.org}/control/SEC-2`, {
    key: at.key,
    body: { set_tags: { team: "shop", tier: "1" } },
  });
  for (const [query, found] of [
    ["tag=team", ["SEC-1", "SEC-2"]],
    ["tag=team:pay", ["SEC-1"]],
    ["tag=tier:1&tag=team:shop", ["SEC-2"]],
    ["tag=tier:1,team:shop", ["SEC-2"]],
    ["tag=team:pay&tag=team:shop", []],
    ["tag=", []],
    ["tag=team&search=zul", ["SEC-1"]],
    ["tag=team&archived=true", []],
  ] as const)
    assert.equal(await names(at, `?${query}`), found, query);
  assert.is((await get(at, "?tag=team&per_page=1")).body.total_pages, 2);
  await setArchived(at, "SEC-1", "archive");
  assert.equal(
    {
      active: await names(at, "?tag=team"),
      archived: await names(at, "?tag=team&archived=true"),
    },
    { active: ["SEC-2"], archived: ["SEC-1"] },
  );
  for (const [query, errors] of [
    ["per_page=0", { per_page: "Input should be greater than or equal to 1 [input: 0]" }],
    ["per_page=101", { per_page: "Input should be less than or equal to 100 [input: 101]" }],
    ["page=0", { page: "Input should be greater than or equal to 1 [input: 0]" }],
    ["sort_direction=up", { sort_direction: "Input should be 'asc' or 'desc' [input: up]" }],
    ["archived=maybe", { archived: "Input should be a valid boolean [input: maybe]" }],
  ] as const)
    await assertRefused(() => get(at, `?${query}`), 400, validationError(errors));
});

test("shows new tags without a new version, and each pair once as a choice", async () => {
  const at = server.given.org();
  for (const identifier of ["a", "b"]) await server.given.control(at, { identifier });
  assert.equal((await get(at, "/tags")).body, []);
  const tag = (identifier: string, set_tags: Json) =>
    server.call("PATCH", `/tags/${at.org}/control/${identifier}`, {
      key: at.key,
      body: { set_tags, remove_tags: null },
    });
  await tag("a", { team: "pay", tier: "1" });
  await tag("b", { team: "shop", tier: "1" });
  const { body } = await get(at, "/a");
  assert.equal({ tags: body.tags, version: body.version }, { tags: { team: "pay", tier: "1" }, version: 1 });
  await setArchived(at, "b", "archive");
  assert.equal((await get(at, "/tags")).body, [
    { key: "team", value: "pay" },
    { key: "team", value: "shop" },
    { key: "tier", value: "1" },
  ]);
  assert.equal((await get(server.given.org(), "/tags")).body, []);
});

test("every role reads, only admins write, and permissions are checked first", async () => {
  const at = server.given.org();
  await server.given.control(at, { identifier: "c" });
  for (const role of ["member", "snapshotter", "reader"] as const)
    for (const key of [server.given.user(at.org, role), server.given.serviceAccount(at.org, role)]) {
      const other = { ...at, key };
      for (const path of ["", "/tags", "/c", "/c/versions", "/c/versions/1", "/c/decisions", "/c/coverage"])
        assert.is((await get(other, path)).status, 200, path);
      for (const send of [
        () => post(other, { identifier: "c", name: "n" }),
        () => post(other, "nonsense"),
        () => put(other, "c", { name: "x" }),
        () => put(other, "nothing", {}),
        () => setArchived(other, "c", "archive"),
        () => setArchived(other, "c", "unarchive"),
      ])
        await assertRefused(send, 403, DENIED);
    }
  assert.is(
    (await post({ ...at, key: server.given.serviceAccount(at.org, "admin") }, { identifier: "by-bot", name: "n" }))
      .status,
    201,
  );
});

test("turning the feature off or on takes effect with the next request and loses nothing", async () => {
  const at = server.given.org();
  const reader = { ...at, key: server.given.user(at.org, "reader") };
  await server.given.control(at, { identifier: "c" });
  const before = (await get(at, "/c")).body;
  const flip = (enabled: boolean) =>
    server.call("PUT", `/organizations/${at.org}/experimental_features`, {
      key: at.key,
      body: { experimental_features_enabled: enabled },
    });
  for (let round = 0; round < 3; round++) {
    // Requested twice, so that caches of responses and principals are filled.
    for (const _ of [1, 2]) assert.equal((await get(reader, "/c")).body, before);
    assert.equal((await flip(false)).body, "OK");
    for (const _ of [1, 2])
      for (const send of [
        () => get(at, "/c"),
        () => get(reader, "/c"),
        () => get(at, "/nothing"),
        () => post(at, { identifier: "d", name: "n" }),
        () => post(at, {}),
        () => setArchived(at, "c", "archive"),
      ])
        await assertRefused(send, 403, DENIED);
    assert.equal((await flip(true)).body, "OK");
  }
  assert.equal((await get(at, "/c")).body, before);
  const tagged = await flip(false).then(() =>
    server.call("PATCH", `/tags/${at.org}/control/c`, { key: at.key, body: { set_tags: { a: "b" } } }),
  );
  assert.equal(
    { status: tagged.status, body: tagged.body },
    { status: 200, body: "OK" },
    "the operations on tags are not below /controls/",
  );
});

test("marks a damaged record in lists", async () => {
  const at = server.given.org();
  for (const identifier of ["bad", "good"]) await server.given.control(at, { identifier });
  const id = server.db.prepare("SELECT id FROM controls WHERE identifier = 'bad' ORDER BY id DESC").pluck().get();
  server.db.prepare("UPDATE controls SET links_json = '{' WHERE id = ?").run(id);
  server.db.prepare("UPDATE control_versions SET links_json = '{' WHERE control_id = ?").run(id);
  const { status, body } = await get(at);
  assert.is(status, 200);
  assert.equal(
    body.controls.map(({ identifier, description }: Json) => [identifier, /damaged/.test(description)]),
    [
      ["bad", true],
      ["good", false],
    ],
  );
  assert.match((await versions(at, "bad"))[0]?.["description"], /damaged/);
});

test.run();
