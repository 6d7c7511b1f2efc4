/**
 * Attestations of custom types: evaluated, stored with the result, and identified by their label
 * everywhere.
 */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { fresh, freshCommit, startServer } from "../../given.ts";
import type { Answer, Part, TestServer } from "../../given.ts";

const test = suite("api/attestations/custom");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type Json = Record<string, any>;
type Place = { org: string; key: string; flow: string };
const VALIDATION = "Input payload validation failed";
const EVERYTHING = [
  "trails",
  "trail_events",
  "attestations",
  "current_attestations",
  "pending_bindings",
  "attestation_bindings",
  "repos",
  "audit_log",
];
const counts = () => EVERYTHING.map((table) => server.db.prepare(`SELECT count(*) FROM ${table}`).pluck().get());
const evidenceFiles = () =>
  ["evidence", "staging"].flatMap((name) =>
    existsSync(join(server.directory, name))
      ? readdirSync(join(server.directory, name), { recursive: true, encoding: "utf8" })
      : [],
  );

async function place(template?: string): Promise<Place> {
  const at = server.given.org();
  return { ...at, flow: await server.given.flow(at, template === undefined ? {} : { template }) };
}
async function type(at: Place, name: string, more: Json = {}, schema?: unknown): Promise<void> {
  const file =
    schema === undefined
      ? {}
      : { file: { name: "type_schema", filename: "schema.json", content: JSON.stringify(schema) } };
  const answer = await server.call("POST", `/custom-attestation-types/${at.org}`, {
    key: at.key,
    form: { json: { name, ...more }, ...file },
  });
  if (answer.status !== 201) throw new Error(answer.text);
}
const rules = (...list: string[]) => ({ evaluator: { content_type: "jq", rules: list } });
const attest = (
  at: Place,
  type_name: string,
  attestation_data: unknown,
  more: Json = {},
  file?: Part["file"],
): Promise<Answer> =>
  server.call("POST", `/attestations/${at.org}/${at.flow}/trail/${more["trail"] ?? "t"}/custom`, {
    key: at.key,
    form: {
      json: { attestation_name: "check", type_name, attestation_data, ...more["json"] },
      ...(file ? { file } : {}),
    },
  });
async function recorded(at: Place, answer: Promise<Answer>): Promise<Json> {
  const { status, body } = await answer;
  assert.equal({ status, body }, { status: 201, body: "OK" });
  return (await server.call("GET", `/attestations/${at.org}?per_page=1`, { key: at.key })).body.data[0];
}
const factsOf = ({
  type_name,
  type_version,
  attestation_data,
  rules: outcomes,
  summary,
  is_compliant,
  attestation_type,
}: Json) => ({
  type_name,
  type_version,
  attestation_data,
  rules: outcomes,
  summary,
  is_compliant,
  attestation_type,
});
const stored = (id: string): Json =>
  server.db
    .prepare("SELECT type, type_version, is_compliant, reasons_json FROM attestations WHERE public_id = ?")
    .get(id) as Json;

test("the record keeps data, version, rule results, summary, and the reasons of the verdict", async () => {
  const at = await place();
  const summary = [
    { name: "Coverage", expression: ".percent" },
    { name: "Report", expression: ".url" },
  ];
  await type(
    at,
    "coverage",
    { ...rules(".percent >= 80", ".percent <= 100"), summary },
    { type: "object", required: ["percent"] },
  );
  const good = await recorded(at, attest(at, "coverage", { percent: 91.5, url: "https://ci.test/1" }));
  assert.equal(factsOf(good), {
    type_name: "coverage",
    type_version: 1,
    attestation_data: { percent: 91.5, url: "https://ci.test/1" },
    is_compliant: true,
    attestation_type: "custom:coverage",
    rules: [
      { rule: ".percent >= 80", is_compliant: true, reason: null },
      { rule: ".percent <= 100", is_compliant: true, reason: null },
    ],
    summary: {
      groups: [
        [
          { name: "Coverage", value: 91.5, error: null },
          { name: "Report", value: "https://ci.test/1", error: null },
        ],
      ],
      left_out: 0,
    },
  });
  assert.equal(stored(good["attestation_id"]), {
    type: "custom:coverage",
    type_version: 1,
    is_compliant: 1,
    reasons_json: "[]",
  });
  const bad = await recorded(at, attest(at, "coverage", { percent: 17 }));
  assert.equal(factsOf(bad), {
    ...factsOf(good),
    attestation_data: { percent: 17 },
    is_compliant: false,
    rules: [
      { rule: ".percent >= 80", is_compliant: false, reason: "gives false" },
      { rule: ".percent <= 100", is_compliant: true, reason: null },
    ],
    summary: {
      groups: [
        [
          { name: "Coverage", value: 17, error: null },
          { name: "Report", value: null, error: null },
        ],
      ],
      left_out: 0,
    },
  });
  assert.equal(stored(bad["attestation_id"]), {
    type: "custom:coverage",
    type_version: 1,
    is_compliant: 0,
    reasons_json: '["Rule 1 (.percent >= 80) gives false"]',
  });
  const { body: trail } = await server.call("GET", `/trails/${at.org}/${at.flow}/t`, { key: at.key });
  assert.equal(
    trail.compliance_status.attestations_statuses.map((entry: Json) => [
      entry["attestation_type"],
      entry["is_compliant"],
      entry["unexpected"],
    ]),
    [["custom:coverage", false, true]],
  );
  const [note] = server.db
    .prepare("SELECT detail_json FROM audit_log WHERE event = 'attestation.reported' ORDER BY id DESC LIMIT 1")
    .pluck()
    .all() as string[];
  assert.equal(JSON.parse(note as string)["attestation_type"], "custom:coverage");
});

test("the latest version evaluates, and a record keeps the version that evaluated it", async () => {
  const at = await place();
  await type(at, "v", rules("false"));
  const first = await recorded(at, attest(at, "v", 1));
  await type(at, "v");
  const second = await recorded(at, attest(at, "v", 1));
  assert.equal(
    [first, second].map((record) => [record["type_version"], record["is_compliant"], record["rules"].length]),
    [
      [1, false, 1],
      [2, true, 0],
    ],
  );
  const { body } = await server.call("GET", `/attestations/${at.org}?attestation_id=${first["attestation_id"]}`, {
    key: at.key,
  });
  assert.equal(body.data, [first]);
});

test("data is any JSON value; a text that contains an object or an array counts as that value", async () => {
  const at = await place();
  await type(at, "any");
  for (const [sent, stored] of [
    [{ a: [1] }, { a: [1] }],
    [[], []],
    [null, null],
    [false, false],
    [1.5, 1.5],
    ["", ""],
    ["text", "text"],
    ['{"a":1}', { a: 1 }],
    [" [1, 2] ", [1, 2]],
    ["12", "12"],
    ["null", "null"],
    ['"a"', '"a"'],
    ["{a:1}", "{a:1}"],
  ] as const)
    assert.equal((await recorded(at, attest(at, "any", sent)))["attestation_data"], stored, JSON.stringify(sent));
  await type(
    at,
    "list",
    { ...rules("all(.[]; .pass == true)"), summary: [{ name: "n", expression: ".name" }] },
    { type: "array", items: { type: "object", required: ["name"] } },
  );
  const record = await recorded(
    at,
    attest(
      at,
      "list",
      JSON.stringify([
        { name: "a", pass: true },
        { name: "b", pass: true },
      ]),
    ),
  );
  assert.equal(
    { is_compliant: record["is_compliant"], summary: record["summary"] },
    {
      is_compliant: true,
      summary: {
        groups: [[{ name: "n", value: "a", error: null }], [{ name: "n", value: "b", error: null }]],
        left_out: 0,
      },
    },
  );
});

test("failing rules are recorded as non-compliant with a reason each, not refused", async () => {
  const at = await place();
  await type(
    at,
    "bad",
    rules("true", "empty", "true, true", ".a.b", '.a * 1e9 as $n | "x" * $n', "def f: f; f", "true"),
  );
  const record = await recorded(at, attest(at, "bad", { a: 1 }));
  assert.equal(
    record["rules"].map(({ reason }: Json) => reason),
    [
      null,
      "gives no output",
      "gives several outputs",
      'fails: Cannot index number with string "b"',
      "needs more memory than an expression may have",
      "does not end within 2 seconds, the rules before it included",
      "was not evaluated: the rules before it took all of 2 seconds",
    ],
  );
  assert.is(record["is_compliant"], false);
  assert.equal(JSON.parse(stored(record["attestation_id"])["reasons_json"]).length, 6);
});

test("an endless rule delays neither other requests nor reports of other types", async () => {
  const at = await place();
  await type(at, "endless", rules("def f: f; f"));
  await type(at, "quick", rules(". == 1"));
  const done: string[] = [];
  const noted = async (what: string, answer: Promise<Answer>) => {
    const { status } = await answer;
    done.push(what);
    return status;
  };
  const slow = [1, 2].map((n) => noted("endless", attest(at, "endless", n, { trail: `slow-${n}` })));
  const quick = [1, 2, 3].map((n) => noted("quick", attest(at, "quick", 1, { trail: `quick-${n}` })));
  const reads = [1, 2, 3].map(() => noted("read", server.call("GET", `/attestations/${at.org}`, { key: at.key })));
  assert.equal(await Promise.all([...quick, ...reads]), [201, 201, 201, 200, 200, 200]);
  assert.ok(done.filter((what) => what === "endless").length < 2, done.join());
  assert.equal(await Promise.all(slow), [201, 201]);
});

test("refuses before anything is stored, evidence included", async () => {
  const at = await place();
  await type(at, "strict", rules("true"), {
    type: "object",
    required: ["n"],
    properties: { n: {} },
    additionalProperties: false,
  });
  await type(at, "retired");
  await server.call("PUT", `/custom-attestation-types/${at.org}/retired/archive`, { key: at.key });
  const elsewhere = await place();
  await type(elsewhere, "theirs");
  const evidence = { name: "attachment_file", filename: "report.txt", content: `evidence ${fresh("x")}` };
  const fingerprint = "f".repeat(64);
  const before = [counts(), evidenceFiles()];
  const refused = async (status: number, body: Json, ...report: [name: string, data: unknown, more?: Json]) => {
    for (const file of [evidence, undefined]) {
      const answer = await attest(at, report[0], report[1], report[2], file);
      assert.equal({ status: answer.status, body: answer.body }, { status, body });
    }
  };
  const unknown = (name: string) => ({
    message: `Custom attestation type '${name}' does not exist for org '${at.org}'`,
  });
  await refused(404, unknown("nothing"), "nothing", 1);
  await refused(404, unknown("theirs"), "theirs", 1);
  await refused(404, unknown(""), "", 1);
  await refused(
    400,
    {
      message: VALIDATION,
      errors: { type_name: `Custom attestation type 'retired' has been archived for org '${at.org}'` },
    },
    "retired",
    1,
  );
  for (const [data, line] of [
    [1, "attestation_data: must be object"],
    [{}, "attestation_data: must have required property 'n'"],
    [{ n: 1, m: 2 }, "attestation_data: must NOT have additional properties ('m')"],
    ["[1]", "attestation_data: must be object"],
  ] as const)
    await refused(400, { message: VALIDATION, errors: { attestation_data: line } }, "strict", data);
  for (const [held, line] of [
    ['{"n":"\\u0000"}', "attestation_data.n: String should not contain a NUL character"],
    ['{"n":["\\ud800"]}', "attestation_data.n.0: String should be valid Unicode without lone surrogates"],
    [
      `${"[".repeat(129)}${"]".repeat(129)}`,
      `attestation_data.${"0.".repeat(11)}0…: Input should not be nested deeper than 128 levels`,
    ],
  ] as const)
    await refused(400, { message: VALIDATION, errors: { attestation_data: line } }, "strict", held);
  await refused(
    404,
    {
      message:
        `Artifact with fingerprint ${fingerprint} does not exist in trail "t" of flow "${at.flow}" belonging to ` +
        `organization "${at.org}"`,
    },
    "strict",
    { n: 1 },
    { json: { artifact_fingerprint: fingerprint } },
  );
  const nowhere = await attest({ ...at, flow: "none" }, "strict", { n: 1 }, {}, evidence);
  assert.equal(
    { status: nowhere.status, body: nowhere.body },
    { status: 404, body: { message: `Flow named 'none' does not exist for organization '${at.org}'` } },
  );
  const missing = await server.call("POST", `/attestations/${at.org}/${at.flow}/trail/t/custom`, {
    key: at.key,
    form: { json: { attestation_name: "a" } },
  });
  assert.equal(
    { status: missing.status, body: missing.body },
    {
      status: 400,
      body: { message: VALIDATION, errors: { type_name: "Field required", attestation_data: "Field required" } },
    },
  );
  const extra = await attest(at, "strict", { n: 1 }, { json: { typename: "other" } });
  assert.equal(
    { status: extra.status, body: extra.body },
    {
      status: 400,
      body: { message: VALIDATION, errors: { typename: "Extra inputs are not permitted. Did you mean 'type_name'?" } },
    },
  );
  assert.equal([counts(), evidenceFiles()], before);
});

test("custom attestations have evidence, artifacts and commits as any other report", async () => {
  const at = await place();
  await type(at, "scan", rules(".ok"));
  const fingerprint = await server.given.artifact(at, { flow: at.flow, trail: "t", name: "app" });
  const record = await recorded(
    at,
    attest(
      at,
      "scan",
      { ok: true },
      { json: { artifact_fingerprint: fingerprint, git_commit_info: { sha1: freshCommit() } } },
      {
        name: "attachment_file",
        filename: "scan.json",
        content: '{"ok":true}',
      },
    ),
  );
  const { status, text } = await server.call(
    "GET",
    `/attestations/${at.org}/${at.flow}/trail/t/attestation/${record["attestation_id"]}/evidence`,
    { key: at.key },
  );
  assert.equal(
    { status, text, artifact_fingerprint: record["artifact_fingerprint"] },
    { status: 200, text: '{"ok":true}', artifact_fingerprint: fingerprint },
  );
  const early = await recorded(
    at,
    attest(
      at,
      "scan",
      { ok: true },
      { json: { target_artifacts: ["later"], git_commit_info: { sha1: freshCommit() } } },
    ),
  );
  assert.equal(
    { artifact_fingerprint: early["artifact_fingerprint"], target_artifacts: early["target_artifacts"] },
    { artifact_fingerprint: null, target_artifacts: ["later"] },
  );
});

test("a record of the type and its override fill the slot of a template", async () => {
  const at = await place(
    "version: 1\ntrail:\n  attestations:\n    - {name: check, type: 'custom:scan'}\n    - {name: other, type: " +
      "'custom:scan'}\n",
  );
  await type(at, "scan", rules(".ok"));
  await type(at, "other");
  const statuses = async () =>
    (
      await server.call("GET", `/trails/${at.org}/${at.flow}/t`, { key: at.key })
    ).body.compliance_status.attestations_statuses.map((entry: Json) => [
      entry["attestation_name"],
      entry["attestation_type"],
      entry["status"],
      entry["is_compliant"],
      entry["unexpected"],
    ]);
  await attest(at, "other", 1);
  assert.equal(await statuses(), [
    ["check", "custom:scan", "MISSING", null, false],
    ["other", "custom:scan", "MISSING", null, false],
    ["check", "custom:other", "COMPLETE", true, true],
  ]);
  await attest(at, "scan", { ok: false });
  assert.equal((await statuses())[0], ["check", "custom:scan", "COMPLETE", false, false]);
  const override = (attestation_name: string, original_attestation_type: string) =>
    server.call("POST", `/attestations/${at.org}/${at.flow}/trail/t/override`, {
      key: at.key,
      body: { attestation_name, reason: "accepted", new_compliance_status: true, original_attestation_type },
    });
  for (const word of ["custom", "custom:*", "custom:scan"]) {
    assert.is((await override("check", word)).status, 201);
    assert.equal((await statuses())[0], ["check", "custom:scan", "COMPLETE", true, false], word);
    await attest(at, "scan", { ok: false });
  }
  for (const word of ["custom", "custom:*", "custom:scan"]) {
    assert.is((await override("other", word)).status, 201);
    assert.equal(
      (await statuses())[1]?.slice(0, 1).concat((await statuses())[1]?.slice(2)),
      ["other", "COMPLETE", true, false],
      word,
    );
  }
});

test("filters lists by custom:NAME, including overrides", async () => {
  const at = await place();
  for (const name of ["one", "two"]) await type(at, name);
  const commit = freshCommit();
  const about = { json: { git_commit_info: { sha1: commit } } };
  const first = await recorded(at, attest(at, "one", 1, about));
  await attest(at, "two", 1, { json: { ...about.json, attestation_name: "second" } });
  await server.call("POST", `/attestations/${at.org}/${at.flow}/trail/t/override`, {
    key: at.key,
    body: {
      attestation_name: "check",
      reason: "no",
      new_compliance_status: false,
      original_attestation_type: "custom",
    },
  });
  const types = async (query: string) =>
    (await server.call("GET", `/attestations/${at.org}?${query}`, { key: at.key })).body.data.map(
      (record: Json) => record["attestation_type"],
    );
  assert.equal(await types("type=custom:one"), ["override", "custom:one"]);
  assert.equal(await types("type=custom:two"), ["custom:two"]);
  assert.equal(await types("type=custom:two,custom:one&is_compliant=true"), ["custom:two", "custom:one"]);
  assert.equal(await types("type=custom:three"), []);
  const byCommit = async (word: string) =>
    (
      await server.call(
        "GET",
        `/attestations/${at.org}/list_attestations_for_criteria?commit_list=${commit}&attestation_type=${word}`,
        { key: at.key },
      )
    ).body[commit];
  assert.equal(
    (await byCommit("custom:one")).map((record: Json) => record["attestation_type"]),
    ["override", "custom:one"],
  );
  assert.equal((await byCommit("custom:one"))[1], first);
  assert.equal((await byCommit("custom:two")).length, 1);
  for (const word of ["custom", "custom:", "custom:-x", "custom:a b"]) {
    const answer = await server.call("GET", `/attestations/${at.org}?type=${encodeURIComponent(word)}`, {
      key: at.key,
    });
    assert.equal(
      { status: answer.status, "keys of answer.body.errors": Object.keys(answer.body.errors) },
      { status: 400, "keys of answer.body.errors": ["type"] },
      word,
    );
  }
});

test("policies require custom:NAME, and the response names the attestation", async () => {
  const at = await place();
  await type(at, "scan", rules(".ok"));
  const policy = await server.given.policy(at, {
    yaml: "artifacts:\n  attestations:\n    - {type: 'custom:scan', name: check}\n",
  });
  const fingerprint = await server.given.artifact(at, { flow: at.flow, trail: "t", name: "app" });
  const asserted = async () => {
    const { body } = await server.call("GET", `/asserts/${at.org}/fingerprint/${fingerprint}?policy_name=${policy}`, {
      key: at.key,
    });
    const [rule] = body.policy_evaluations[0].rule_evaluations.filter(
      (one: Json) => one["rule"].type === "attestation",
    );
    return [body.compliant, rule.resolutions.map((one: Json) => one["type"])];
  };
  assert.equal(await asserted(), [false, ["missing_attestation"]]);
  await server.given.attestation(at, { flow: at.flow, trail: "t", name: "check", fingerprint });
  assert.equal(await asserted(), [false, ["missing_attestation"]]);
  await attest(at, "scan", { ok: false }, { json: { artifact_fingerprint: fingerprint } });
  assert.equal(await asserted(), [false, ["non_compliant_attestation"]]);
  await attest(at, "scan", { ok: true }, { json: { artifact_fingerprint: fingerprint } });
  assert.equal(await asserted(), [true, ["rule_satisfied"]]);
  await attest(at, "scan", { ok: false });
  assert.equal(
    await asserted(),
    [true, ["rule_satisfied"]],
    "the record of the artifact comes before that of the trail",
  );
  await server.call("POST", `/attestations/${at.org}/${at.flow}/trail/t/override`, {
    key: at.key,
    body: {
      attestation_name: "check",
      artifact_fingerprint: fingerprint,
      reason: "no",
      new_compliance_status: false,
      original_attestation_type: "custom:*",
    },
  });
  assert.equal(await asserted(), [false, ["non_compliant_attestation"]]);
});

test.run();
