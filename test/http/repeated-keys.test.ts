/** A key that is given twice is refused wherever JSON is interpreted: of two values, nothing says which one counts. */
import { createHmac } from "node:crypto";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { WebhookKind } from "../../src/store/notifications/inbound-webhooks.ts";
import { startServer } from "../given.ts";
import type { Answer, TestServer } from "../given.ts";

const test = suite("http/repeated-keys");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

const TEXT = "Key is given more than once";
/** Above the size that is read in a thread. */
const LONG = "x".repeat(300_000);

/** Row counts of all tables, to show that a refusal stores nothing. */
const rowCounts = (): Record<string, unknown> =>
  Object.fromEntries(
    (
      server.db
        .prepare("SELECT name FROM pragma_table_list WHERE schema = 'main' AND name NOT LIKE 'sqlite_%'")
        .pluck()
        .all() as string[]
    ).map((name) => [name, server.db.prepare(`SELECT count(*) FROM ${name}`).pluck().get()]),
  );

async function assertRefused(answering: () => Promise<Answer>, place: string, text = TEXT): Promise<void> {
  const before = rowCounts();
  const { status, body } = await answering();
  assert.equal(
    { status, body },
    { status: 400, body: { message: "Input payload validation failed", errors: { [place]: text } } },
  );
  assert.equal(rowCounts(), before);
}

async function place() {
  const at = server.given.org();
  return { ...at, flow: await server.given.flow(at) };
}
type Place = Awaited<ReturnType<typeof place>>;
const attest = ({ org, key, flow }: Place, kind: string, json: string): Promise<Answer> =>
  server.call("POST", `/attestations/${org}/${flow}/trail/t/${kind}`, { key, form: { json } });

const SUITE = '"errors":0,"skipped":0,"total":3,"duration":1';
const TOOL = '{"name":"x","version":"1"}';
const COUNTS = '"medium_count":0,"low_count":0';

test("in attestations, at every depth, compared after unescaping", async () => {
  const at = await place();
  const named = '{"attestation_name":"a",';
  for (const [kind, json, at_] of [
    ["generic", `${named}"is_compliant":false,"is_compliant":true}`, "is_compliant"],
    ["generic", `${named}"is_compliant":true,"is_compliant":true}`, "is_compliant"],
    ["generic", `${named}"is_compliant":false,"\\u0069s_compliant":true}`, "is_compliant"],
    ["generic", `${named}"is_compliant":true,"user_data":{"a":[1,{"b":1,"b":2}]}}`, "user_data.a.1.b"],
    ["generic", `${named}"is_compliant":true,"user_data":{"\\ud83d\\ude00":1,"😀":1}}`, "user_data.😀"],
    ["generic", `${named}"is_compliant":true,"user_data":{"__proto__":1,"__proto__":1}}`, "user_data.__proto__"],
    ["generic", `${named}"is_compliant":true,"user_data":{"":1,"":1}}`, "user_data."],
    [
      "system",
      `${named}"type_name":"decision","control":"C","attestation_data":{"is_compliant":false,"is_compliant":true}}`,
      "attestation_data.is_compliant",
    ],
    [
      "system",
      `${named}"type_name":"decision","control":"C",` +
        String.raw`"attestation_data":"{\"is_compliant\":false,\"is_compliant\":true}"}`,
      "attestation_data.is_compliant",
    ],
    ["junit", `${named}"junit_results":[{"name":"s","failures":3,"failures":0,${SUITE}}]}`, "junit_results.0.failures"],
    [
      "snyk",
      `${named}"snyk_results":{"tool":${TOOL},"results":[{"high_count":4,"high_count":0,${COUNTS}}]}}`,
      "snyk_results.results.0.high_count",
    ],
    ["generic", `${named}"is_compliant":true,"user_data":{"long":"${LONG}","a":1,"\\u0061":2}}`, "user_data.a"],
  ] as const)
    await assertRefused(() => attest(at, kind, json), at_);
});

test("in bodies, reports, webhooks, schemas and data that is pasted into a page", async () => {
  const at = await place();
  const { org, key, flow } = at;
  const put = (path: string, raw: string) => server.call("PUT", path, { key, raw });
  await assertRefused(() => put(`/flows/${org}/${flow}/rename`, '{"new_name":"a","new_name":"b"}'), "new_name");
  const environment = await server.given.environment(at, { type: "server" });
  for (const filler of ["", ` ${" ".repeat(300_000)}`, ` ${" ".repeat(1_100_000)}`]) {
    const report = `{"artifacts":[],${filler}"artifacts":[]}`;
    await assertRefused(() => put(`/environments/${org}/${environment}/report/server`, report), "artifacts");
  }
  for (const [kind, header] of [
    ["sonar", "X-Sonar-Webhook-HMAC-SHA256"],
    ["launch-darkly", "x-ld-signature"],
  ] as [WebhookKind, string][]) {
    const hook = server.given.webhook(org, kind);
    const raw = '{"project":{"key":"a","key":"b"}}';
    const signature = createHmac("sha256", hook.secret).update(raw).digest("hex");
    const headers = { "Content-Type": "application/json", [header]: signature };
    await assertRefused(() => server.call("POST", `/webhooks/${kind}/${hook.id}`, { raw, headers }), "project.key");
  }
  const schema = '{"type":"object","properties":{"a":{"minimum":1,"minimum":2}}}';
  const file = { name: "type_schema", filename: "schema.json", content: schema };
  await assertRefused(
    () => server.call("POST", `/custom-attestation-types/${org}`, { key, form: { json: { name: "t" }, file } }),
    "type_schema",
    `type_schema.properties.a.minimum: ${TEXT}`,
  );
});

test("in templates and policies that are written as JSON", async () => {
  const { org, key, flow } = await place();
  const template = { name: "template_file", filename: "t.json", content: '{"version":1,"\\u0076ersion":1,"trail":{}}' };
  const answer = await server.call("PUT", `/flows/${org}/template_file`, {
    key,
    form: { json: { name: flow, description: "" }, file: template },
  });
  assert.is(answer.status, 400);
  assert.match(answer.text, TEXT);
  const policy = { name: "policy_file", filename: "p.json", content: '{"artifacts":{},"\\u0061rtifacts":{}}' };
  const refused = await server.call("PUT", `/policies/${org}`, {
    key,
    form: { field: "payload", json: { name: "p", type: "env" }, file: policy },
  });
  assert.is(refused.status, 400);
  assert.match(refused.text, "the key is given more than once");
});

test("the same key in two objects, and repeated keys in evidence files, are accepted", async () => {
  const at = await place();
  const file = { name: "attachment_file", filename: "e.json", content: '{"a":1,"a":2}' };
  const answer = await server.call("POST", `/attestations/${at.org}/${at.flow}/trail/t/generic`, {
    key: at.key,
    form: { json: '{"attestation_name":"a","is_compliant":true,"user_data":[{"a":{"a":1}},{"a":"\\"a\\":1"}]}', file },
  });
  assert.is(answer.status, 201, answer.text);
});

test("a hundred thousand keys are compared in a time that grows with their number", async () => {
  const at = await place();
  const keys = Array.from({ length: 99_000 }, (_, n) => `"k${n}":0`).join(",");
  await assertRefused(
    () => attest(at, "generic", `{"attestation_name":"a","is_compliant":true,"user_data":{${keys},"k0":1}}`),
    "user_data.k0",
  );
});

test.run();
