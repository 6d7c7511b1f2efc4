import { suite } from "uvu";
import * as assert from "uvu/assert";
import { JQ_VERSION } from "../../../src/domain/attestation/custom.ts";
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
    schema: schemaVersion(),
  });
  const plain = await cli(["--version"]);
  assert.equal(plain, {
    code: 0,
    err: "",
    out:
      `assay ${version}\ncommit ${commit ?? "unknown"}\nnode ${process.version}\nsqlite ${facts.sqlite}\n` +
      `jq ${JQ_VERSION}\nschema ${schemaVersion()}\n`,
  });
});

test.run();
