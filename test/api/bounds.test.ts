/**
 * Bounds of free-form fields: a larger value is refused, naming its field and the bound, and leaves nothing
 * behind.
 */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { startServer } from "../given.ts";
import type { Answer, TestServer } from "../given.ts";

const test = suite("api/bounds");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

const MB = 1_048_576;
const FINGERPRINT = "a".repeat(64);
type At = { org: string; key: string };

/** A value whose JSON text has exactly that many bytes. */
const ofBytes = (bytes: number): { log: string } => ({ log: "x".repeat(bytes - '{"log":""}'.length) });

const artifact = (at: At, flow: string, more: object): Promise<Answer> =>
  server.call("POST", `/artifacts/${at.org}/${flow}`, {
    key: at.key,
    body: {
      fingerprint: FINGERPRINT,
      filename: "app",
      git_commit: "b".repeat(40),
      build_url: "https://ci.example.com/1",
      commit_url: "https://git.example.com/1",
      ...more,
    },
  });
const attest = (at: At, flow: string, kind: string, more: object): Promise<Answer> =>
  server.call("POST", `/attestations/${at.org}/${flow}/trail/t/${kind}`, {
    key: at.key,
    form: { json: { attestation_name: "check", ...more } },
  });
const begin = (at: At, flow: string, more: object): Promise<Answer> =>
  server.call("PUT", `/trails/${at.org}/${flow}`, { key: at.key, form: { json: { name: "begun", ...more } } });

/** Asserts a refusal with that body, and an unchanged number of records. */
async function refuses(call: () => Promise<Answer>, status: number, body: unknown): Promise<void> {
  const tables = ["artifacts", "attestations", "trails", "trail_events", "audit_log", "flow_tags"];
  const rows = () =>
    Object.fromEntries(
      tables.map((table) => [table, server.db.prepare(`SELECT count(*) FROM ${table}`).pluck().get()]),
    );
  const before = rows();
  const answer = await call();
  assert.equal({ status: answer.status, body: answer.body }, { status, body });
  assert.equal(rows(), before);
}

const invalid = (errors: Record<string, string>) => ({ message: "Input payload validation failed", errors });

test("accepts 4 MB of user_data and not a byte more, on every operation", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const refusal = { message: "Field 'user_data' exceeds the 4MB limit" };
  await refuses(() => artifact(at, flow, { user_data: ofBytes(4 * MB + 1) }), 413, refusal);
  await refuses(() => begin(at, flow, { user_data: ofBytes(4 * MB + 1) }), 413, refusal);
  await refuses(
    () => attest(at, flow, "generic", { is_compliant: true, user_data: ofBytes(4 * MB + 1) }),
    413,
    refusal,
  );
  assert.is((await artifact(at, flow, { user_data: ofBytes(4 * MB) })).status, 201);
  assert.is((await begin(at, flow, { user_data: ofBytes(4 * MB) })).status, 201);
  const read = await server.call("GET", `/artifacts/${at.org}/${flow}/fingerprint/${FINGERPRINT}`, { key: at.key });
  assert.is(read.body.user_data.log.length, 4 * MB - '{"log":""}'.length);
});

test("measures user_data as stored JSON, with escaped characters at their escaped length", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  // One byte in memory, six in JSON.
  await refuses(() => artifact(at, flow, { user_data: ["\u0001".repeat(MB)] }), 413, {
    message: "Field 'user_data' exceeds the 4MB limit",
  });
  await refuses(() => artifact(at, flow, { user_data: ["€".repeat(1.5 * MB)] }), 413, {
    message: "Field 'user_data' exceeds the 4MB limit",
  });
  assert.is((await artifact(at, flow, { user_data: ["€".repeat(MB)] })).status, 201);
});

test("accepts 4 MB of attestation_data, also as a text that contains JSON", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const refusal = { message: "Field 'attestation_data' exceeds the 4MB limit" };
  const decision = (attestation_data: unknown) => () =>
    attest(at, flow, "system", { type_name: "decision", control: "C-1", attestation_data });
  await refuses(decision({ is_compliant: true, ...ofBytes(4 * MB) }), 413, refusal);
  // 1e20 has four characters when sent, and twenty-one when stored.
  const numbers = `{"is_compliant":true,"list":[${Array(190_000).fill("1e20").join(",")}]}`;
  assert.ok(numbers.length < MB);
  await refuses(decision(`${numbers.slice(0, -2)},"${"x".repeat(MB)}"]}`), 413, refusal);
  assert.is((await decision({ is_compliant: true, ...ofBytes(3 * MB) })()).status, 201);
});

test("accepts 8 MB of results of one tool", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const issue = (index: number) => ({ id: `SNYK-${index}`, message: "m".repeat(60_000) });
  const results = (count: number) => ({
    snyk_results: {
      tool: { name: "Snyk", version: "1" },
      results: [
        {
          low_count: count,
          medium_count: 0,
          high_count: 0,
          low: Array.from({ length: count }, (_, index) => issue(index)),
        },
      ],
    },
  });
  await refuses(() => attest(at, flow, "snyk", results(150)), 413, {
    message: "Field 'snyk_results' exceeds the 8MB limit",
  });
  assert.is((await attest(at, flow, "snyk", results(20))).status, 201);
});

test("accepts 200 annotations and 100 external URLs on a record", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const annotations = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, index) => [`a${index}`, "v"]));
  const external_urls = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, index) => [`u${index}`, { href: "https://example.com" }]));
  await refuses(
    () => attest(at, flow, "generic", { is_compliant: true, annotations: annotations(201) }),
    400,
    invalid({ annotations: "Object should have at most 200 keys" }),
  );
  await refuses(
    () => artifact(at, flow, { external_urls: external_urls(101) }),
    400,
    invalid({ external_urls: "Object should have at most 100 keys" }),
  );
  await refuses(
    () => attest(at, flow, "generic", { is_compliant: true, annotations: { a: "x".repeat(65_537) } }),
    400,
    invalid({ "annotations.a": `String should have at most 65536 characters [input: ${"x".repeat(500)}…]` }),
  );
  await refuses(
    () =>
      artifact(at, flow, {
        annotations: Object.fromEntries(Array.from({ length: 20 }, (_, index) => [`a${index}`, "x".repeat(60_000)])),
      }),
    413,
    { message: "Field 'annotations' exceeds the 1MB limit" },
  );
  assert.is(
    (await artifact(at, flow, { annotations: annotations(200), external_urls: external_urls(100) })).status,
    201,
  );
});

const tags = (from: number, to: number) =>
  Object.fromEntries(Array.from({ length: to - from }, (_, index) => [`k${from + index}`, "v"]));
const patch = (at: At, flow: string, body: object): Promise<Answer> =>
  server.call("PATCH", `/tags/${at.org}/flow/${flow}`, { key: at.key, body });

test("bounds the tags of a resource after a change, not the tags of the change", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  await refuses(
    () => patch(at, flow, { set_tags: tags(0, 201) }),
    400,
    invalid({ set_tags: "Object should have at most 200 keys" }),
  );
  assert.is((await patch(at, flow, { set_tags: tags(0, 150) })).status, 200);
  await refuses(
    () => patch(at, flow, { set_tags: tags(100, 201) }),
    400,
    invalid({ set_tags: "A resource should have at most 200 tags: with this change it would have 201" }),
  );
  assert.is((await patch(at, flow, { set_tags: tags(100, 201), remove_tags: ["k0"] })).status, 200);
  assert.is((await patch(at, flow, { set_tags: { k1: "changed" } })).status, 200);
});

test("refuses 130,000 tag keys naming the bound, and tags of more than 8,192 characters", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  await refuses(() => patch(at, flow, { set_tags: tags(0, 130_000) }), 413, {
    message: "Request body size exceeds the 1MB limit",
  });
  await refuses(
    () => patch(at, flow, { set_tags: tags(0, 10_000) }),
    400,
    invalid({ set_tags: "Object should have at most 200 keys" }),
  );
  await refuses(
    () => patch(at, flow, { remove_tags: Array.from({ length: 10_001 }, (_, index) => `k${index}`) }),
    400,
    invalid({ remove_tags: "List should have at most 10000 items" }),
  );
  await refuses(
    () => patch(at, flow, { set_tags: { k: "v".repeat(8_193) } }),
    400,
    invalid({ "set_tags.k": `String should have at most 8192 characters [input: ${"v".repeat(500)}…]` }),
  );
});

test("a resource with too many tags of an older version can lose and change tags, but gain none", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const { id } = server.db.prepare("SELECT id FROM flows WHERE name = ?").get(flow) as { id: number };
  const plant = server.db.prepare("INSERT INTO flow_tags (flow_id, key, value) VALUES (?, ?, 'v')");
  for (let index = 0; index < 300; index += 1) plant.run(id, `k${index}`);
  await refuses(
    () => patch(at, flow, { set_tags: { more: "v" } }),
    400,
    invalid({ set_tags: "A resource should have at most 200 tags: with this change it would have 301" }),
  );
  assert.is((await patch(at, flow, { set_tags: { k1: "changed" }, remove_tags: ["k0"] })).status, 200);
});

test.run();
