/** Custom attestation types: versions, refusals and permissions. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { fresh, startServer } from "../../given.ts";
import type { TestServer } from "../../given.ts";

const test = suite("api/attestations/custom-attestation-types");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type At = { org: string; key: string };
type Json = Record<string, any>;
const VALIDATION = "Input payload validation failed";
const post = (at: At, json: unknown, schema?: unknown) =>
  server.call("POST", `/custom-attestation-types/${at.org}`, {
    key: at.key,
    form: {
      json,
      ...(schema === undefined
        ? {}
        : {
            file: {
              name: "type_schema",
              filename: "schema.json",
              content: typeof schema === "string" || Buffer.isBuffer(schema) ? schema : JSON.stringify(schema),
            },
          }),
    },
  });
const get = (at: At, name: string, query = "") =>
  server.call("GET", `/custom-attestation-types/${at.org}/${name}${query}`, { key: at.key });
const list = async (at: At): Promise<Json[]> =>
  (await server.call("GET", `/custom-attestation-types/${at.org}`, { key: at.key })).body;
const archive = (at: At, name: string, body?: unknown) =>
  server.call("PUT", `/custom-attestation-types/${at.org}/${name}/archive`, {
    key: at.key,
    ...(body === undefined ? {} : { body }),
  });
const tables = () =>
  ["custom_types", "custom_type_versions", "audit_log"].map((table) =>
    server.db.prepare(`SELECT count(*) FROM ${table}`).pluck().get(),
  );
const audited = (at: At) =>
  (
    server.db
      .prepare(
        "SELECT event, detail_json FROM audit_log WHERE organization_id = (SELECT id FROM organizations WHERE " +
          "name = ?) ORDER BY id",
      )
      .all(at.org) as Json[]
  ).map(({ event, detail_json }) => [event, JSON.parse(detail_json)]);

const SCHEMA = { type: "object", required: ["percent"], properties: { percent: { type: "number" } } };
const JQ = { content_type: "jq", rules: [".percent >= 80", ".percent <= 100"] };
const SUMMARY = [
  { name: "Coverage", expression: '"\\(.percent) %"' },
  { name: "Report", expression: ".url" },
];

test("creates a type, adds versions, and lists them newest first", async () => {
  const at = server.given.org();
  assert.equal(await list(at), []);
  const first = await post(
    at,
    { name: "coverage", description: "Lines that tests run", evaluator: JQ, summary: SUMMARY },
    SCHEMA,
  );
  assert.equal({ status: first.status, body: first.body }, { status: 201, body: "OK" });
  const second = await post(at, { name: "coverage" });
  assert.equal({ status: second.status, body: second.body }, { status: 201, body: "OK" });
  const { status, body } = await get(at, "coverage");
  const { created_at, last_modified_at, versions } = body;
  assert.is(status, 200);
  assert.ok(created_at < last_modified_at);
  const admin = `${at.org}-admin`;
  assert.equal(body, {
    name: "coverage",
    org: at.org,
    archived: false,
    created_by: admin,
    created_at,
    last_modified_at,
    versions: [
      {
        version: 2,
        timestamp: last_modified_at,
        created_by: admin,
        evaluator: { content_type: "default" },
        summary: null,
      },
      { version: 1, timestamp: created_at, created_by: admin, type_schema: SCHEMA, evaluator: JQ, summary: SUMMARY },
    ],
  });
  assert.equal(await list(at), [body]);
  assert.equal(audited(at), [
    ["custom_type.put", { type: "coverage", created: true, version: 1 }],
    ["custom_type.put", { type: "coverage", created: false, version: 2 }],
  ]);
  const [two, one] = versions;
  for (const [version, expected] of [
    ["1", one],
    ["2", two],
    ["+1", one],
    ["002", two],
  ] as const)
    assert.equal((await get(at, "coverage", `?version=${encodeURIComponent(version)}`)).body, {
      name: "coverage",
      org: at.org,
      archived: false,
      versions: [expected],
    });
  for (const version of ["", "latest", "1.0", "1e0", "0x1", "one"])
    assert.equal((await get(at, "coverage", `?version=${version}`)).body, body, version);
  for (const version of ["0", "3", "-1", "9".repeat(30)]) {
    const missing = await get(at, "coverage", `?version=${version}`);
    assert.equal(
      { status: missing.status, body: missing.body },
      { status: 404, body: { message: `version ${version} does not exist for custom attestation type 'coverage'` } },
    );
  }
});

test("omits unset fields, and returns all others in their order", async () => {
  const at = server.given.org();
  const view = async (json: Json, schema?: unknown): Promise<Json> => {
    const name = fresh("type");
    const answer = await post(at, { name, ...json }, schema);
    assert.equal({ status: answer.status, body: answer.body }, { status: 201, body: "OK" }, JSON.stringify(json));
    const { description, versions } = (await get(at, name)).body;
    const { version: _number, timestamp: _time, created_by: _who, ...version } = versions[0];
    return { ...(description === undefined ? {} : { description }), ...version };
  };
  const nothing = { evaluator: { content_type: "default" }, summary: null };
  for (const json of [
    {},
    { description: null, evaluator: null, summary: null },
    { description: "" },
    { evaluator: {} },
    { evaluator: { content_type: "default" } },
  ])
    assert.equal(await view(json), nothing, JSON.stringify(json));
  assert.equal(await view({ evaluator: { rules: ["true"] } }), {
    ...nothing,
    evaluator: { content_type: "jq", rules: ["true"] },
  });
  assert.equal(await view({ evaluator: { content_type: "jq", rules: [] }, summary: [] }), {
    evaluator: { content_type: "jq", rules: [] },
    summary: [],
  });
  assert.equal(await view({ description: "é\n" }), { ...nothing, description: "é\n" });
  const rules = ["true", "1 == 1", "true", ". as $x | true # why\n"];
  assert.equal(await view({ evaluator: { content_type: "jq", rules } }), {
    ...nothing,
    evaluator: { content_type: "jq", rules },
  });
  for (const schema of [
    {},
    { type: "array", items: { format: "uri" } },
    { $schema: "http://json-schema.org/draft-07/schema#", title: "Old" },
  ])
    assert.equal(await view({}, schema), { ...nothing, type_schema: schema });
  assert.equal(await view({}, `\ufeff ${JSON.stringify(SCHEMA, null, 4)}\n`), { ...nothing, type_schema: SCHEMA });
  for (const name of ["a", "9", "A.b-c_d~e"]) assert.is((await post(at, { name })).status, 201, name);
});

test("lists and reads an archived type as archived, and reactivates it with the next version", async () => {
  const at = server.given.org();
  await post(at, { name: "old", description: "d" });
  const before = (await get(at, "old")).body;
  for (const body of [undefined, null, { any: "thing" }]) {
    const answer = await archive(at, "old", body);
    assert.equal({ status: answer.status, body: answer.body }, { status: 200, body: "OK" });
  }
  const after = (await get(at, "old")).body;
  assert.equal(after, { ...before, archived: true, last_modified_at: after.last_modified_at });
  assert.ok(after.last_modified_at > before.last_modified_at);
  assert.equal(
    { list: await list(at), archived: (await get(at, "old", "?version=1")).body.archived },
    { list: [after], archived: true },
  );
  assert.equal(audited(at).slice(1), [["custom_type.archived", { type: "old" }]], "archived once");
  await post(at, { name: "old" });
  const again = (await get(at, "old")).body;
  assert.equal([again.archived, again.versions.length, "description" in again], [false, 2, false]);
});

test("fifty concurrent posts of one name give versions 1 to 50 without a gap", async () => {
  const at = server.given.org();
  const answers = await Promise.all(
    Array.from({ length: 50 }, (_, i) => post(at, { name: "race", evaluator: { rules: [`. != ${i}`] } }, { const: i })),
  );
  assert.equal([...new Set(answers.map(({ status }) => status))], [201]);
  const { versions } = (await get(at, "race")).body;
  assert.equal(
    versions.map(({ version }: Json) => version),
    Array.from({ length: 50 }, (_, i) => 50 - i),
  );
  for (const { type_schema, evaluator } of versions) assert.equal(evaluator.rules, [`. != ${type_schema.const}`]);
  assert.equal(
    versions.map(({ type_schema }: Json) => type_schema.const).sort((a: number, b: number) => a - b),
    Array.from({ length: 50 }, (_, i) => i),
  );
});

test("refuses what does not compile, invalid shapes and unauthorized callers, and leaves nothing behind", async () => {
  const at = server.given.org();
  await post(at, { name: "here" });
  const before = tables();
  const name = (value: string) => ({
    name: String.raw`String should match pattern '^[a-zA-Z0-9][a-zA-Z0-9\-_.~]*$' [input: ${value}]`,
  });
  const jq = "Rule is not a valid jq expression: ";
  const endOfFile = "syntax error, unexpected end of file (Unix shell quoting issues?)";
  for (const [json, errors] of [
    [{}, { name: "Field required" }],
    [{ name: "-x" }, name("-x")],
    [{ name: "a b" }, name("a b")],
    [{ name: "" }, name("")],
    [
      { name: "here", type: "x" },
      { type: "Extra inputs are not permitted [input: x]; possible keys: name, description, evaluator, summary" },
    ],
    [
      { name: "here", evaluator: { rules: [""] } },
      { "evaluator.rules.0": "String should have at least 1 character [input: ]" },
    ],
    [{ name: "here", evaluator: { content_type: "jq" } }, { "evaluator.rules": "Field required" }],
    [
      { name: "here", evaluator: { content_type: "default", rules: ["false"] } },
      { "evaluator.content_type": "Input should be 'jq' [input: default]" },
    ],
    [{ name: "here", evaluator: { rules: [1] } }, { "evaluator.rules.0": "Input should be a valid string [input: 1]" }],
    [{ name: "here", summary: [{ name: "a" }] }, { "summary.0.expression": "Field required" }],
    [
      { name: "here", evaluator: { rules: Array.from({ length: 101 }, () => "true") } },
      { "evaluator.rules": "List should have at most 100 items" },
    ],
    [
      { name: "here", evaluator: { rules: ["true", ".a =="] } },
      {
        "evaluator.rules.1": `${jq}${endOfFile} at <top-level>, line 1: .a ==`,
      },
    ],
    [
      { name: "here", evaluator: { rules: ["$nothing"] }, summary: [{ name: "a", expression: "{" }] },
      {
        "evaluator.rules.0": `${jq}$nothing is not defined at <top-level>, line 1: $nothing`,
        "summary.0.expression": `Expression is not a valid jq expression: ${endOfFile} at <top-level>, line 1: {`,
      },
    ],
  ] as const) {
    const answer = await post(at, json);
    assert.equal({ status: answer.status, body: answer.body }, { status: 400, body: { message: VALIDATION, errors } });
  }
  for (const [schema, problem] of [
    ["", "Input should be valid JSON: the text ends early or is malformed"],
    ["{", "Input should be valid JSON: unexpected character at position 1 (line 1 column 2)"],
    [Buffer.from([0x22, 0xff, 0x22]), "Input should be valid JSON: the text is not UTF-8"],
    ["[]", "Input should be a JSON object"],
    ["true", "Input should be a JSON object"],
    ["null", "Input should be a JSON object"],
    ['{"title":"\\u0000"}', "type_schema.title: String should not contain a NUL character"],
    [
      { type: 1 },
      "type_schema.type: must match a schema in anyOf (type_schema.type: must be equal to one of the allowed " +
        "values: 'array', 'boolean', 'integer', 'null', 'number', 'object', 'string')",
    ],
    [{ $ref: "http://127.0.0.1:9/x.json" }, "can't resolve reference http://127.0.0.1:9/x.json from id #"],
    [
      { $schema: "http://json-schema.org/draft-06/schema#" },
      "$schema: the dialect 'http://json-schema.org/draft-06/schema#' is not served. Use draft-07 " +
        "(http://json-schema.org/draft-07/schema#) or 2020-12 (https://json-schema.org/draft/2020-12/schema)",
    ],
    [{ enum: Array.from({ length: 10_001 }, (_, i) => i) }, "the schema has more than 10000 parts"],
  ] as const) {
    const answer = await post(at, { name: "here" }, schema);
    assert.equal(
      { status: answer.status, body: answer.body },
      { status: 400, body: { message: VALIDATION, errors: { type_schema: problem } } },
    );
  }
  for (const answer of [await get(at, "nowhere"), await get(at, "nowhere", "?version=1"), await archive(at, "nowhere")])
    assert.equal(
      { status: answer.status, body: answer.body },
      { status: 404, body: { message: `Custom attestation type 'nowhere' does not exist for org '${at.org}'` } },
    );
  for (const role of ["snapshotter", "reader", null] as const) {
    const who = { ...at, key: server.given.user(at.org, role) };
    for (const answer of [await post(who, { name: "here" }), await archive(who, "here")])
      assert.equal(
        { status: answer.status, body: answer.body },
        { status: 403, body: { message: "You don't have permission to access this resource" } },
      );
    assert.is((await get(who, "here")).status, role === null ? 403 : 200);
  }
  assert.equal(tables(), before);
  assert.is((await get({ ...at, key: server.given.user(at.org, "member") }, "here")).status, 200);
});

test("accepts a schema file of exactly 10 MB, and refuses one byte more", async () => {
  const at = server.given.org();
  const padded = (size: number): Buffer => {
    const bytes = Buffer.alloc(size, " ");
    bytes.write(JSON.stringify(SCHEMA));
    return bytes;
  };
  const before = tables();
  const over = await post(at, { name: "large" }, padded(10 * 1_048_576 + 1));
  assert.equal(
    { status: over.status, body: over.body },
    { status: 413, body: { message: "File size exceeds the 10MB limit" } },
  );
  assert.equal(tables(), before);
  assert.is((await post(at, { name: "large" }, padded(10 * 1_048_576))).status, 201);
  assert.equal((await get(at, "large")).body.versions[0].type_schema, SCHEMA);
});

test("marks a damaged version in its place without failing the list", async () => {
  const at = server.given.org();
  await post(at, { name: "damaged" });
  await post(at, { name: "damaged" });
  await post(at, { name: "sound" });
  server.db
    .prepare(
      "UPDATE custom_type_versions SET rules_json = '[' WHERE version = 1 AND type_id = (SELECT id FROM " +
        "custom_types WHERE name = 'damaged')",
    )
    .run();
  const types = await list(at);
  assert.equal(
    types.map(({ name, versions }) => [name, versions.map(({ version, comment }: Json) => [version, comment])]),
    [
      [
        "damaged",
        [
          [2, undefined],
          [1, "This record is damaged and cannot be shown. Tell the operator of the server its name"],
        ],
      ],
      ["sound", [[1, undefined]]],
    ],
  );
});

test("shows a page of types, the newest versions, and no schemas, if asked to", async () => {
  const at = server.given.org();
  for (const name of ["a", "b", "b", "b", "c"]) await post(at, { name }, SCHEMA);
  const read = async (query: string): Promise<unknown[]> => {
    const path = `/custom-attestation-types/${at.org}?${query}`;
    const { body } = await server.call("GET", path, { key: at.key });
    return body.map(({ name, versions }: Json) => [
      name,
      ...versions.map(({ version, type_schema }: Json) => [version, type_schema !== undefined]),
    ]);
  };
  assert.equal(await read("per_page=2&page=1&max_versions=2"), [
    ["a", [1, true]],
    ["b", [3, true], [2, true]],
  ]);
  assert.equal(await read("per_page=2&page=2&schemas=false"), [["c", [1, false]]]);
  assert.equal(await read("page=9"), []);
  assert.equal(await read("name=B&schemas=false&max_versions=1"), [["b", [3, false]]]);
  const envelope = await server.call("GET", `/custom-attestation-types/${at.org}?envelope=true&per_page=2&page=2`, {
    key: at.key,
  });
  assert.equal(
    [envelope.body.data.map(({ name }: Json) => name), envelope.body.pagination],
    [["c"], { total: 3, page: 2, per_page: 2, page_count: 2 }],
  );
  const { versions } = (await get(at, "b", "?max_versions=1&schemas=false")).body;
  assert.equal(
    versions.map(({ version, type_schema }: Json) => [version, type_schema]),
    [[3, undefined]],
  );
  for (const query of ["per_page=101", "per_page=0", "max_versions=0", "max_versions=1001", "page=0"])
    assert.is((await server.call("GET", `/custom-attestation-types/${at.org}?${query}`, { key: at.key })).status, 400);
});

test.run();
