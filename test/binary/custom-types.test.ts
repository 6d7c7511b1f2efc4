// Custom attestation types in the executable: jq and the schema checks run in threads that start from inside the
// executable, with no checkout around them.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createClient, expectStatus } from "./client.ts";
import type { Client, Json } from "./client.ts";
import { start } from "./executable.ts";
import type { Running } from "./executable.ts";

const test = suite("binary/custom-types");
const KEY = "key-of-the-member-who-defines-types-0123456789";
const APPLY = `
organizations:
  - name: acme
    service_accounts:
      - {name: ci, privilege: member, api_keys: [{description: ci, key: "${KEY}"}]}
`;
const SCHEMA = {
  $schema: "http://json-schema.org/draft-07/schema#",
  type: "array",
  items: { type: "object", required: ["url", "pass"], properties: { url: { type: "string", format: "uri" } } },
};

let directory: string;
let server: Running;
let client: Client;
test.before(async () => {
  directory = mkdtempSync(join(tmpdir(), "assay-test-"));
  const file = join(directory, "assay.yml");
  writeFileSync(file, APPLY);
  server = await start(["serve", "--bootstrap", file, "--data", join(directory, "data"), "--listen", "127.0.0.1:0"], {
    cwd: directory,
  });
  client = createClient(server.url, KEY);
  await expectStatus(
    client.form("PUT", "/flows/acme/template_file", "data_json", { name: "backend", description: "" }),
    201,
  );
});
test.after(async () => {
  await server.stop();
  rmSync(directory, { recursive: true, force: true });
});

const createType = (value: Json, schema?: string, status = 201) =>
  expectStatus(
    client.form(
      "POST",
      "/custom-attestation-types/acme",
      "data_json",
      value,
      schema === undefined ? undefined : { part: "type_schema", name: "schema.json", content: schema },
    ),
    status,
  );
const attest = (type_name: string, attestation_data: unknown, status = 201, trail = "release-1") =>
  expectStatus(
    client.form("POST", `/attestations/acme/backend/trail/${trail}/custom`, "data_json", {
      attestation_name: "check",
      type_name,
      attestation_data,
      user_data: {},
    }),
    status,
  );
const readLatest = async (): Promise<Json> =>
  (await expectStatus(client.json("GET", "/attestations/acme?per_page=1"), 200)).data[0];

test("a type can be created and read back, and one that does not compile is refused with jq's message", async () => {
  const summary = [{ name: "Page", expression: ".url" }];
  assert.is(
    await createType(
      { name: "pages", evaluator: { content_type: "jq", rules: ["all(.[]; .pass == true)"] }, summary },
      JSON.stringify(SCHEMA),
    ),
    "OK",
  );
  const { versions } = await expectStatus(client.json("GET", "/custom-attestation-types/acme/pages?version=1"), 200);
  assert.equal(
    { versionCount: versions.length, type_schema: versions[0].type_schema, summary: versions[0].summary },
    { versionCount: 1, type_schema: SCHEMA, summary },
  );
  assert.equal(
    (await createType({ name: "pages", evaluator: { content_type: "jq", rules: [".a =="] } }, '{"type":"no"}', 400))
      .errors,
    {
      type_schema:
        "type_schema.type: must match a schema in anyOf " +
        "(type_schema.type: must be equal to one of the allowed values: " +
        "'array', 'boolean', 'integer', 'null', 'number', 'object', 'string')",
      "evaluator.rules.0":
        "Rule is not a valid jq expression: syntax error, unexpected end of file " +
        "(Unix shell quoting issues?) at <top-level>, line 1: .a ==",
    },
  );
});

test("data is compliant when it satisfies the rules, and refused when it breaks the schema", async () => {
  const page = (pass: boolean) => ({ url: "https://example.com/", pass });
  await attest("pages", [page(true), page(true)]);
  const good = await readLatest();
  assert.equal(
    {
      attestation_type: good["attestation_type"],
      type_version: good["type_version"],
      is_compliant: good["is_compliant"],
      summaryGroups: good["summary"].groups.length,
    },
    { attestation_type: "custom:pages", type_version: 1, is_compliant: true, summaryGroups: 2 },
  );
  await attest("pages", [page(true), page(false)]);
  const bad = await readLatest();
  assert.equal(
    { is_compliant: bad["is_compliant"], rules: bad["rules"] },
    { is_compliant: false, rules: [{ rule: "all(.[]; .pass == true)", is_compliant: false, reason: "gives false" }] },
  );
  assert.equal((await attest("pages", [{ url: "no address", pass: true }], 400)).errors, {
    attestation_data: 'attestation_data.0.url: must match format "uri"',
  });
  assert.equal((await attest("pages", {}, 400)).errors, { attestation_data: "attestation_data: must be array" });
});

test("an endless rule times out as not compliant, and other requests are served and evaluated meanwhile", async () => {
  await createType({ name: "endless", evaluator: { content_type: "jq", rules: ["def f: f; f"] } });
  await createType({ name: "quick", evaluator: { content_type: "jq", rules: ["$ENV == {} and . == 1"] } });
  const done: string[] = [];
  const slow = ["slow-1", "slow-2"].map((trail) => attest("endless", 1, 201, trail).then(() => done.push("endless")));
  await attest("quick", 1, 201, "quick");
  assert.is((await readLatest())["is_compliant"], true);
  assert.ok(done.length < 2, "the second endless rule starts only after the first");
  await Promise.all(slow);
  const { data } = await expectStatus(client.json("GET", "/attestations/acme?type=custom:endless"), 200);
  assert.equal(
    data.map((record: Json) => [record["is_compliant"], record["rules"][0].reason]),
    [
      [false, "does not end within 2 seconds"],
      [false, "does not end within 2 seconds"],
    ],
  );
  assert.match(server.output(), /"status":201/);
  assert.not.match(server.output(), /unexpected error|Aborted/);
});

test("a server that is stopped while a rule runs shuts down cleanly", async () => {
  const last = attest("endless", 1, 201, "last").catch(() => "cut");
  const { code, signal } = await server.stop();
  assert.equal({ code, signal }, { code: 0, signal: null });
  await last;
});

test.run();
