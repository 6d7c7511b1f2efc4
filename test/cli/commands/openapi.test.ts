import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { JQ_VERSION } from "../../../src/domain/attestation/custom.ts";
import { readEngineFacts } from "../../../src/rego/engine-module.ts";
import { readBuildInfo } from "../../../src/assets.ts";
import { schemaVersion } from "../../../src/store/db/database.ts";
import { cli } from "../in-process.ts";

const test = suite("cli/commands/openapi");

test("prints the document with the given public URL", async () => {
  const { code, out, err } = await cli(["openapi"]);
  assert.equal({ code, err }, { code: 0, err: "" });
  const document = JSON.parse(out);
  assert.is(document.openapi, "3.1.0");
  assert.equal(document.servers, [{ url: "http://127.0.0.1:8001/api/v2" }]);
  assert.ok(document.paths["/organizations/{org}"].get);
  assert.equal(JSON.parse((await cli(["openapi", "--json", "--base-url", "https://a.example/"])).out).servers, [
    { url: "https://a.example/api/v2" },
  ]);
});

test("refuses an invalid public URL", async () => {
  assert.equal(await cli(["openapi", "--base-url", "a.example"]), {
    code: 2,
    out: "",
    err:
      'assay: --base-url: "a.example" is not accepted, give an http or https URL of the host, without /api/v2, ' +
      "user name, query or fragment\nassay: see assay help openapi\n",
  });
});

const folder = mkdtempSync(join(tmpdir(), "assay-openapi-"));
test.after(() => rmSync(folder, { recursive: true, force: true }));

/** Runs a comparison with a document of this text. */
async function compare(text: string, options: readonly string[] = [], name = "other.yaml") {
  writeFileSync(join(folder, name), text);
  return cli(["openapi", "--compare", name, ...options], { cwd: folder });
}

const OTHER = `openapi: 3.0.3
info: { title: Other, version: "1" }
paths:
  /version:
    get:
      responses:
        200:
          description: OK
          content:
            application/json:
              schema:
                type: object
                required: [version, uptime]
                properties: { version: { type: string }, uptime: { type: number } }
  /teapot:
    get: { responses: { 418: { description: A teapot } } }
`;
const DIFFERENCES = "GET /teapot: is missing\nGET /version: response 200 /uptime: is missing\n";

test("compares with a document in YAML or JSON, from a file or standard input", async () => {
  assert.equal(await compare(OTHER), { code: 1, out: DIFFERENCES, err: "" });
  assert.equal(await cli(["openapi", "--compare", "-"], { stdin: OTHER }), { code: 1, out: DIFFERENCES, err: "" });
  const own = (await cli(["openapi"])).out;
  assert.equal(await compare(own, [], "own.json"), { code: 0, out: "No differences.\n", err: "" });
  assert.equal(await compare(own, ["--limits"], "own.json"), { code: 0, out: "No differences.\n", err: "" });
  const { code, out } = await compare(OTHER, ["--json"]);
  assert.equal(
    { code, ...JSON.parse(out) },
    {
      code: 1,
      differences: [
        { operation: "GET /teapot", place: "", problem: "is missing" },
        { operation: "GET /version", place: "response 200 /uptime", problem: "is missing" },
      ],
      excepted: [],
      unused_exceptions: [],
    },
  );
});

test("excepts differences that have a reason, and reports exceptions that explain nothing", async () => {
  const except = async (text: string, options: readonly string[] = []) => {
    writeFileSync(join(folder, "except.yaml"), text);
    return compare(OTHER, ["--except", "except.yaml", ...options]);
  };
  const both = 'exceptions:\n  - reason: Not here\n    differences: ["GET /teapot: *", "*uptime: is missing"]\n';
  assert.equal(await except(both), { code: 0, out: "No differences but 2 exceptions.\n", err: "" });
  const one = "exceptions:\n  - reason: Not here\n    differences:\n      - 'GET /teapot: is missing'\n      - PUT *\n";
  assert.equal(await except(one), {
    code: 1,
    out: 'GET /version: response 200 /uptime: is missing\nexcept.yaml:5:9: no difference matches "PUT *"\n',
    err: "",
  });
  const { out } = await except(one, ["--json"]);
  assert.equal(JSON.parse(out), {
    differences: [{ operation: "GET /version", place: "response 200 /uptime", problem: "is missing" }],
    excepted: [{ operation: "GET /teapot", place: "", problem: "is missing", reason: "Not here" }],
    unused_exceptions: [{ line: 5, column: 9, difference: "PUT *", reason: "Not here" }],
  });
  for (const [text, problem] of [
    ["", "except.yaml:1:1: the file is empty"],
    [
      "exceptions: [{ reason: ' ', differences: [] }]",
      'except.yaml:1:24: exceptions[0].reason: " " is not accepted, give the reason why these differences are meant',
    ],
    ["exceptions: [{ differences: [a] }]", "except.yaml:1:14: exceptions[0].reason: it is missing"],
    [
      "exceptions: [{ reason: x, differences: [a, a] }]",
      'except.yaml:1:44: exceptions[0].differences[1]: "a" is already declared in line 1',
    ],
  ] as const)
    assert.equal(await except(text), { code: 1, out: "", err: `assay: ${problem}\n` }, text);
});

test("refuses options without --compare, and says of a wrong file what is wrong with it", async () => {
  assert.equal(await cli(["openapi", "--except", "x", "--limits"]), {
    code: 2,
    out: "",
    err: "assay: --except needs --compare FILE\nassay: --limits needs --compare FILE\nassay: see assay help openapi\n",
  });
  const deep = `{"openapi":"3.1.0","x":${"[".repeat(200)}${"]".repeat(200)}}`;
  for (const [text, problem] of [
    ["name: assay\n", "other.yaml is not an OpenAPI document: it has no field `openapi` with a version"],
    ["- a\n", "other.yaml is not an OpenAPI document: it has no field `openapi` with a version"],
    ["", "other.yaml is not an OpenAPI document: it has no field `openapi` with a version"],
    ["swagger: '2.0'\n", "other.yaml is a document of Swagger 2.0: convert it to OpenAPI 3 first"],
    ["openapi: 4.0.0\n", 'other.yaml: OpenAPI version "4.0.0" is not supported, give 3.0, 3.1 or 3.2'],
    ["openapi: 3.1.0\npaths: []\n", "other.yaml: `paths` is not a mapping"],
    ["openapi: 3.1.0\nx: &a 1\n", "other.yaml:2:7: anchors (&) are not supported, put quotes around a text"],
    ["openapi: 3.1.0\nopenapi: 3.1.0\n", 'other.yaml:2:1: the key "openapi" is given more than once, first in line 1'],
    ['{"a":{"b":1,"b":2}}', 'other.yaml: the key "/a/b" is given more than once in one object'],
    [deep, "other.yaml is nested deeper than 128 levels"],
    [" ".repeat(9 * 1_048_576), "cannot read other.yaml: it is larger than 8 MB"],
  ] as const)
    assert.equal(await compare(text), { code: 1, out: "", err: `assay: ${problem}\n` }, text.slice(0, 50));
  assert.match((await compare('{"openapi": }')).err, /^assay: other\.yaml is not valid JSON: Unexpected token/);
  const missing = await cli(["openapi", "--compare", "none.json", "--json"], { cwd: folder });
  assert.is(missing.code, 1);
  assert.match(
    JSON.parse(missing.err).error,
    /^cannot read none\.json: it, or a directory above it, does not exist \(ENOENT\)/,
  );
});

test("text of a document does not control the terminal", async () => {
  const paths = { "/\u001b[2J\n": { get: { responses: {} } } };
  const { out } = await compare(JSON.stringify({ openapi: "3.1.0", info: { title: "t", version: "1" }, paths }));
  assert.is(out, "GET /\\u001b[2J\\u000a: is missing\n");
});

test("version prints the versions of the program and its components", async () => {
  const { version, commit } = readBuildInfo();
  const facts = JSON.parse((await cli(["version", "--json"])).out);
  assert.match(facts.sqlite, /^3\.\d+\.\d+$/);
  assert.equal(facts, {
    version,
    commit,
    node: process.version,
    sqlite: facts.sqlite,
    jq: JQ_VERSION,
    opa: readEngineFacts().opa,
    rego_engine: readEngineFacts().sha256,
    schema: schemaVersion(),
  });
  const plain = await cli(["--version"]);
  assert.equal(plain, {
    code: 0,
    err: "",
    out:
      `assay ${version}\ncommit ${commit ?? "unknown"}\nnode ${process.version}\nsqlite ${facts.sqlite}\n` +
      `jq ${JQ_VERSION}\nopa ${facts.opa}\nrego-engine ${facts.rego_engine}\nschema ${schemaVersion()}\n`,
  });
});

test.run();
