/** What is kept comes back as it was sent, through HTTP: the digits of every number, the order of every key. */
import { createHmac } from "node:crypto";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import fc from "fast-check";
import { startServer } from "../given.ts";
import type { Answer, TestServer } from "../given.ts";
import { jsonContainer } from "../json-text.ts";

const test = suite("http/exact-json");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type Place = { org: string; key: string; flow: string };
async function place(): Promise<Place> {
  const at = server.given.org();
  return { ...at, flow: await server.given.flow(at) };
}
const attest = ({ org, key, flow }: Place, kind: string, fields: string): Promise<Answer> =>
  server.call("POST", `/attestations/${org}/${flow}/trail/t/${kind}`, {
    key,
    form: { json: `{"attestation_name":"a",${fields}}` },
  });
async function accepted(answering: Promise<Answer>): Promise<void> {
  const { status, text } = await answering;
  assert.ok(status === 200 || status === 201, `${status} ${text}`);
}
/** The JSON text of the latest attestation. */
const latest = async ({ org, key }: Place): Promise<string> =>
  (await server.call("GET", `/attestations/${org}?per_page=1`, { key })).text;
async function assertRefused(answering: Promise<Answer>, errors: Record<string, string>): Promise<void> {
  const { status, body } = await answering;
  assert.equal({ status, body }, { status: 400, body: { message: "Input payload validation failed", errors } });
}
const HELD = "Input should be a number that double precision holds without rounding";

/** Numbers and keys that JavaScript changes. */
const DATA =
  '{"b":9007199254740993,"10":18446744073709551615,"2":[1.0,-0,1e400,1E-7,0.10],"a":{"2":0,"1":0.1000000000000000056}}';
const LONG = `"${"x".repeat(300_000)}"`;

test("user data and annotations of trails, artifacts and attestations", async () => {
  const at = await place();
  const { org, key, flow } = at;
  const kept = `"user_data":${DATA},"external_urls":{"10":{"href":"https://b.test"},"2":{"href":"https://a.test"}}`;
  const annotations = '"annotations":{"10":"b","2":"a"}';
  await accepted(server.call("PUT", `/trails/${org}/${flow}`, { key, form: { json: `{"name":"t",${kept}}` } }));
  const print = "a".repeat(64);
  const artifact =
    `{"fingerprint":"${print}","filename":"f","git_commit":"${"b".repeat(40)}","build_url":"https://ci.test/1",` +
    `"commit_url":"https://git.test/1","trail_name":"t",${kept},${annotations}}`;
  await accepted(server.call("POST", `/artifacts/${org}/${flow}`, { key, raw: artifact }));
  const fields = `"is_compliant":true,"artifact_fingerprint":"${print}",${kept},${annotations}`;
  await accepted(attest(at, "generic", fields));
  const paths = [
    `/attestations/${org}?per_page=1`,
    `/attestations/${org}/${flow}/trail/t`,
    `/artifacts/${org}/${flow}/fingerprint/${print}`,
    `/trails/${org}/${flow}/t`,
    `/trails/${org}/${flow}?per_page=5`,
  ];
  for (const path of paths) {
    const { text } = await server.call("GET", path, { key });
    assert.ok(text.includes(`"user_data":${DATA}`), `${path}: ${text}`);
    assert.ok(text.includes('"external_urls":{"10":{"href":"https://b.test"},"2":'), `${path}: ${text}`);
    if (!path.startsWith("/trails")) assert.ok(text.includes(annotations), `${path}: ${text}`);
  }
});

test("data of custom types, decisions and of the tools", async () => {
  const at = await place();
  const { org, key } = at;
  await accepted(server.call("POST", `/custom-attestation-types/${org}`, { key, form: { json: { name: "any" } } }));
  const custom = (data: string): string => `"type_name":"any","attestation_data":${data}`;
  const decision = (data: string, more = ""): string =>
    `"type_name":"decision","control":"C","attestation_data":${data}${more}`;
  const issue = `"issue_id":"A","issue_url":"https://jira.test/A","issue_exists":true,"issue_fields":${DATA}`;
  const project = '"project":{"key":"k"},"analysedAt":"2026-01-31T12:00:00+0000","revision":"r"';
  const suites = '[{"name":"s","failures":0,"errors":0,"skipped":0,"total":1.0,"duration":0.10}]';
  const found =
    `[{"url":"https://git.test/1","state":"MERGED","author":"a","commits":[],"approvers":[],"id":9007199254740993,` +
    `"10":1,"2":1.0}]`;
  for (const [kind, fields, shown] of [
    ["custom", custom(DATA), `"attestation_data":${DATA}`],
    ["custom", custom("9007199254740993"), '"attestation_data":9007199254740993'],
    ["custom", custom(JSON.stringify(DATA)), `"attestation_data":${DATA}`],
    ["custom", custom(`[${LONG},${DATA}]`), `,${DATA}]`],
    [
      "system",
      decision(`{"is_compliant":true,"data":${DATA}}`),
      `"attestation_data":{"is_compliant":true,"data":${DATA}}`,
    ],
    ["system", decision('{"is_compliant":true}', `,"mine":${DATA}`), `"mine":${DATA}`],
    ["system", decision(JSON.stringify(`{"is_compliant":true,"data":${DATA}}`)), `"data":${DATA}`],
    ["jira", `"jira_results":[{${issue}}]`, `"issue_fields":${DATA}`],
    ["jira", `"jira_results":[{${issue}}],"description":"long","user_data":[${LONG}]`, `"issue_fields":${DATA}`],
    ["sonar", `"sonar_results":{${project},"qualityGate":{"status":"OK","more":${DATA}}}`, `"more":${DATA}`],
    ["junit", `"junit_results":${suites}`, `"junit_results":${suites}`],
    ["pull_request", `"git_provider":"github","pull_requests":${found}`, '"id":9007199254740993'],
  ] as const) {
    await accepted(attest(at, kind, fields));
    const text = await latest(at);
    assert.ok(text.includes(shown), `${kind}: ${text.slice(0, 2_000)}`);
    assert.is(JSON.parse(text).data[0].is_compliant, true);
  }
});

test("generated JSON comes back with every character, as user data and as data of a custom type", async () => {
  const at = await place();
  const { org, key } = at;
  await accepted(server.call("POST", `/custom-attestation-types/${org}`, { key, form: { json: { name: "any" } } }));
  await fc.assert(
    fc.asyncProperty(jsonContainer(), async ({ text, compact }) => {
      await accepted(attest(at, "custom", `"user_data": ${text}, "type_name":"any", "attestation_data" :${text} `));
      const shown = await latest(at);
      assert.ok(shown.includes(`"user_data":${compact}`), `${shown} instead of ${compact}`);
      assert.ok(shown.includes(`"attestation_data":${compact}`), `${shown} instead of ${compact}`);
    }),
    { seed: 20261125, numRuns: 60 },
  );
});

test("jq and JSON Schema judge the digits that were sent", async () => {
  const at = await place();
  const { org, key } = at;
  const define = (json: string, schema?: string): Promise<Answer> =>
    server.call("POST", `/custom-attestation-types/${org}`, {
      key,
      form: {
        json,
        ...(schema === undefined ? {} : { file: { name: "type_schema", filename: "s.json", content: schema } }),
      },
    });
  const rules = '"evaluator":{"content_type":"jq","rules":[".id <= 9007199254740992"]}';
  await accepted(define(`{"name":"at-most",${rules},"summary":[{"name":"Id","expression":".id"}]}`));
  await accepted(attest(at, "custom", '"type_name":"at-most","attestation_data":{"id":9007199254740993}'));
  const shown = await latest(at);
  assert.is(JSON.parse(shown).data[0].is_compliant, false);
  assert.ok(shown.includes('"value":9007199254740993'), shown);

  const schema =
    '{"type":"object","properties":{"u":{"maximum":18446744073709551615},"n":{"maximum":9007199254740992}}}';
  await accepted(define('{"name":"u64"}', schema));
  const { text } = await server.call("GET", `/custom-attestation-types/${org}/u64`, { key });
  assert.ok(text.includes(`"type_schema":${schema}`), text);
  await assertRefused(attest(at, "custom", '"type_name":"u64","attestation_data":{"n":9007199254740993}'), {
    attestation_data: "attestation_data.n: must be <= 9007199254740992",
  });
  await accepted(attest(at, "custom", '"type_name":"u64","attestation_data":{"u":18446744073709551615}'));
});

test("a number that counts, or that is not kept, is refused if 64 bits do not hold it", async () => {
  const at = await place();
  const suite = (more: string): string => `"junit_results":[{"name":"s","skipped":0,"total":1,${more}}]`;
  for (const [kind, fields, errors] of [
    [
      "junit",
      suite('"failures":1e-400,"errors":0,"duration":1'),
      { "junit_results.0.failures": `${HELD} [input: 1e-400]` },
    ],
    [
      "junit",
      suite('"failures":0,"errors":9007199254740993,"duration":1'),
      { "junit_results.0.errors": `${HELD} [input: 9007199254740993]` },
    ],
    [
      "generic",
      `"is_compliant":true,"git_commit_info":{"sha1":"a","timestamp":1e400}`,
      { "git_commit_info.timestamp": `${HELD} [input: 1e400]` },
    ],
    [
      "generic",
      `"is_compliant":true,"git_commit_info":{"sha1":"a","timestamp":1e400},"user_data":[${LONG}]`,
      { "git_commit_info.timestamp": `${HELD} [input: 1e400]` },
    ],
    ["generic", `"is_compliant":9007199254740993`, { is_compliant: `${HELD} [input: 9007199254740993]` }],
    [
      "generic",
      `"is_compliant":true,"user_data":[${"1".repeat(1_001)}]`,
      {
        "user_data.0":
          "Input should be a number of at most 1000 characters, its exponent of at most nine digits " +
          `[input: ${"1".repeat(100)}…]`,
      },
    ],
    ["generic", '"is_compliant":true,"user_data":1e400', { user_data: `${HELD} [input: 1e400]` }],
  ] as const)
    await assertRefused(attest(at, kind, fields), errors);
  const print = '"git_commit_info":{"sha1":"a","timestamp":1700000000.10000000000000001}';
  await assertRefused(attest(at, "generic", `"is_compliant":true,${print}`), {
    "git_commit_info.timestamp": `${HELD} [input: 1700000000.10000000000000001]`,
  });
  await accepted(attest(at, "generic", '"is_compliant":true,"git_commit_info":{"sha1":"a","timestamp":1700000000.0}'));
});

test("the bound on user data counts the digits that are stored", async () => {
  const at = await place();
  const numbers = Array.from({ length: 5_000 }, () => `1.${"0".repeat(990)}`).join(",");
  const { status, body } = await attest(at, "generic", `"is_compliant":true,"user_data":[${numbers}]`);
  assert.equal({ status, body }, { status: 413, body: { message: "Field 'user_data' exceeds the 4MB limit" } });
});

test("what webhooks send", async () => {
  const { org, key } = await place();
  for (const [kind, header, raw, shown] of [
    [
      "launch-darkly",
      "x-ld-signature",
      `{"titleVerb":"x","target":{"resources":["proj/w:env/p:flag/f"]},"version":9007199254740993,"10":1,"2":1.0}`,
      '"version":9007199254740993,"10":1,"2":1.0}',
    ],
    [
      "sonar",
      "X-Sonar-Webhook-HMAC-SHA256",
      `{"project":{"key":"k"},"analysedAt":"2026-01-31T12:00:00+0000","revision":"${"c".repeat(40)}","n":${DATA}}`,
      `"n":${DATA}`,
    ],
  ] as const) {
    const hook = server.given.webhook(org, kind);
    const signature = createHmac("sha256", hook.secret).update(raw).digest("hex");
    const headers = { "Content-Type": "application/json", [header]: signature };
    await accepted(server.call("POST", `/webhooks/${kind}/${hook.id}`, { raw, headers }));
    const { text } = await server.call("GET", `/attestations/${org}?per_page=1`, { key });
    assert.ok(text.includes(shown), text);
  }
});

test.run();
