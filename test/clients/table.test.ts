/** What the table of clients says, and what it refuses to say. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { clientRows, clientTable } from "./table.ts";

const test = suite("clients/table");

const OUTPUTS = {
  dialects: '"User-Agent": "Kosli/v2.11.0"  "User-Agent": "terraform-provider-kosli/0.7.0"',
  requests: "-- binary: 6 passed, 0 failed (3.0 s)\n6 passed, 0 failed\n",
  examples: "skipped: the example of the Kosli CLI, for want of kosli\n1 passed, 0 failed\n",
  cli: null,
  generators:
    "passed  spectral spectral:oas: 0 errors, 0 warnings\npassed  oapi-codegen: generate: v2.8.0\n" +
    "passed  oapi-codegen: go vet\npassed  oapi-codegen: calls: 12 calls\n" +
    "passed  openapi-typescript: generate: 7.9.1\nFAILED  openapi-typescript: calls: \nboom\n" +
    "skipped openapi-python-client: python3 --version does not work here\n",
};

test("a client has a row with its version, what ran, and the day; what failed or was skipped has none", () => {
  assert.is(
    clientTable(clientRows(OUTPUTS), "2026-01-31"),
    "| client | version | what ran | on |\n|---|---|---|---|\n" +
      "| Kosli CLI | 2.11.0 | its requests, byte for byte (6 tests) | 2026-01-31 |\n" +
      "| Kosli Terraform provider | 0.7.0 | its requests, byte for byte (6 tests) | 2026-01-31 |\n" +
      "| oapi-codegen | 2.8.0 | generated, compiled, 12 calls | 2026-01-31 |",
  );
});

test("the real CLI has a row of its own where it ran", () => {
  const rows = clientRows({ ...OUTPUTS, cli: "2.53.0", examples: "2 passed, 0 failed" });
  assert.equal(rows[1], { client: "Kosli CLI", version: "2.53.0", ran: "the example above" });
  assert.is(clientRows({ ...OUTPUTS, cli: "2.53.0" })[1]?.client, "Kosli Terraform provider");
});

test("a table is refused when a test did not pass, or says not what it ran", () => {
  assert.throws(() => clientRows({ ...OUTPUTS, requests: "5 passed, 1 failed\n" }), /say not how many passed/);
  assert.throws(() => clientRows({ ...OUTPUTS, dialects: "" }), /has no user agent/);
  const generators = "passed  oapi-codegen: calls: 12 calls\n";
  assert.throws(() => clientRows({ ...OUTPUTS, generators }), /says not which version of oapi-codegen generated/);
});

test.run();
