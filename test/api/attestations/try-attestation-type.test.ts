/** Trying a custom attestation type: verdicts, mistakes of definition and data, bounds, and that nothing is stored. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { startServer } from "../../given.ts";
import type { TestServer } from "../../given.ts";

const test = suite("api/attestations/try-attestation-type");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type At = { org: string; key: string };
const attempt = (at: At, body: object, key = at.key) =>
  server.call("POST", `/custom-attestation-types/${at.org}/try`, { key, body });
const rowCounts = () =>
  ["custom_types", "custom_type_versions", "audit_log", "attestations"].map((table) =>
    server.db.prepare(`SELECT count(*) FROM ${table}`).pluck().get(),
  );

const SCHEMA = '{"type":"object","required":["percent"],"properties":{"percent":{"type":"number"}}}';
const DEFINITION = {
  type_schema: SCHEMA,
  evaluator: { content_type: "jq", rules: [".percent >= 80", ".percent <= 100"] },
  summary: [{ name: "Coverage", expression: '"\\(.percent) %"' }],
};

test("says what each rule and the summary make of the data, and stores nothing", async () => {
  const at = server.given.org();
  const before = rowCounts();
  const good = await attempt(at, { ...DEFINITION, attestation_data: '{"percent": 91.5}' });
  assert.equal(
    { status: good.status, body: good.body },
    {
      status: 200,
      body: {
        is_compliant: true,
        mismatch: null,
        rules: [
          { rule: ".percent >= 80", is_compliant: true, reason: null },
          { rule: ".percent <= 100", is_compliant: true, reason: null },
        ],
        summary: { groups: [[{ name: "Coverage", value: "91.5 %", error: null }]], left_out: 0 },
      },
    },
  );
  const bad = await attempt(at, { ...DEFINITION, summary: null, attestation_data: '{"percent": 50}' });
  assert.equal(bad.body, {
    is_compliant: false,
    mismatch: null,
    rules: [
      { rule: ".percent >= 80", is_compliant: false, reason: "gives false" },
      { rule: ".percent <= 100", is_compliant: true, reason: null },
    ],
    summary: null,
  });
  assert.equal(rowCounts(), before);
});

test("data that does not match the schema has no verdict", async () => {
  const { status, body } = await attempt(server.given.org(), { ...DEFINITION, attestation_data: "{}" });
  assert.is(status, 200);
  assert.is(body.is_compliant, null);
  assert.match(body.mismatch, /percent/);
  assert.equal([body.rules, body.summary], [[], null]);
});

test("without data, the definition is only checked; null is data", async () => {
  const at = server.given.org();
  const nothing = { is_compliant: null, mismatch: null, rules: [], summary: null };
  for (const body of [DEFINITION, { ...DEFINITION, attestation_data: " \n" }, {}])
    assert.equal((await attempt(at, body)).body, nothing);
  const onNull = await attempt(at, { evaluator: { rules: [". == null"] }, attestation_data: "null" });
  assert.is(onNull.body.is_compliant, true);
  assert.is((await attempt(at, { attestation_data: "7" })).body.is_compliant, true, "no rules: always compliant");
});

test("refuses mistakes at their fields, as an upload does", async () => {
  const at = server.given.org();
  const { status, body } = await attempt(at, {
    type_schema: '{"type":"no-such-type"}',
    evaluator: { rules: [".ok", ".percent >="] },
    summary: [{ name: "Coverage", expression: "][" }],
    attestation_data: "{}",
  });
  assert.is(status, 400);
  assert.equal(Object.keys(body.errors).sort(), ["evaluator.rules.1", "summary.0.expression", "type_schema"]);
  assert.match(body.errors["evaluator.rules.1"], /^Rule is not a valid jq expression: /);
  for (const [field, text, problem] of [
    ["type_schema", "{", /JSON/],
    ["type_schema", "[]", /^Input should be a JSON object$/],
    ["attestation_data", "{percent: 1}", /JSON/],
    ["attestation_data", `"${"x".repeat(500_000)}"`, /500000/],
  ] as const) {
    const refused = await attempt(at, { [field]: text });
    assert.is(refused.status, 400, text.slice(0, 20));
    assert.equal(Object.keys(refused.body.errors), [field]);
    assert.match(refused.body.errors[field], problem);
  }
});

test("ends a rule that never ends, and says so", async () => {
  const { status, body } = await attempt(server.given.org(), {
    evaluator: { rules: ["def f: f; f", "true"] },
    attestation_data: "1",
  });
  assert.is(status, 200);
  assert.is(body.is_compliant, false);
  assert.match(body.rules[0].reason, /does not end within 2 seconds/);
  assert.match(body.rules[1].reason, /was not evaluated/);
});

test("is for those who may define types", async () => {
  const at = server.given.org();
  for (const role of ["reader", null] as const)
    assert.is((await attempt(at, DEFINITION, server.given.user(at.org, role))).status, 403, String(role));
  assert.is((await server.call("POST", `/custom-attestation-types/${at.org}/try`, { body: {} })).status, 401);
});

test.run();
