import { suite } from "uvu";
import * as assert from "uvu/assert";
import { Ajv2020 } from "ajv/dist/2020.js";
import { startServer } from "../given.ts";
import type { TestServer } from "../given.ts";

const test = suite("api/schemas");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

test("the template schema is public, accepts valid templates and rejects invalid ones", async () => {
  const { status, body } = await server.call("GET", "/schemas/flow-template/v1");
  assert.is(status, 200);
  const check = new Ajv2020({ strict: false }).compile(body);
  assert.ok(
    check({
      version: 1,
      trail: { artifacts: [{ name: "server", attestations: [{ name: "unit", type: "custom:mine" }] }] },
    }),
  );
  assert.ok(check({}));
  for (const bad of [{ version: 2 }, { trails: {} }, { trail: { attestations: [{ name: "", type: "*" }] } }])
    assert.not(check(bad));
});

test("the policy schema is public, accepts valid policies and rejects invalid ones", async () => {
  const { status, body } = await server.call("GET", "/schemas/environment-policy/v1", { key: "bogus" });
  assert.is(status, 200);
  const check = new Ajv2020({ strict: false }).compile(body);
  assert.ok(check({ _schema: "https://example.com/schemas/policy/v1", artifacts: { provenance: { required: true } } }));
  for (const bad of [{}, { _schema: "https://example.com/schemas/policy/v1", environments: [] }])
    assert.not(check(bad));
});

test("no other version of the schemas exists", async () => {
  const { status, body } = await server.call("GET", "/schemas/flow-template/v2");
  assert.is(status, 404);
  assert.equal(body, { message: "The requested URL was not found on the server: 'v2' is not one of v1" });
});

test.run();
