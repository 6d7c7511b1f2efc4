/** The packed executable evaluates Rego policies, wherever it runs. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { readEngineFacts } from "../../src/rego/engine-module.ts";
import { run } from "./executable.ts";

const test = suite("binary/rego");
const directory = mkdtempSync(join(tmpdir(), "assay-rego-"));
test.after(() => rmSync(directory, { recursive: true }));

const POLICY = `package policy

default allow := false

allow if count(violations) == 0

violations contains sprintf("%v is late in Berlin", [time.clock([time.now_ns(), "Europe/Berlin"])]) if input.late
`;

test("evaluates and checks a policy from an empty directory", async () => {
  const policy = join(directory, "policy.rego");
  const input = join(directory, "input.json");
  writeFileSync(policy, POLICY);
  writeFileSync(input, '{"late": true}');
  const cwd = mkdtempSync(join(directory, "empty-"));
  const evaluated = await run(["rego", "eval", policy, "--input", input, "--time", "2026-11-26T20:00:00Z"], { cwd });
  assert.equal(evaluated, {
    code: 1,
    signal: null,
    stdout: "DENIED\n  [21, 0, 0] is late in Berlin\n",
    stderr: "",
  });
  const checked = await run(["rego", "check", policy], { cwd });
  assert.equal(checked, {
    code: 0,
    signal: null,
    stdout: "package:    policy\noutputs:    none\nparameters: none\n",
    stderr: "",
  });
});

test("names its engine in the versions", async () => {
  const { stdout } = await run(["version", "--json"]);
  const { opa, rego_engine } = JSON.parse(stdout);
  const facts = readEngineFacts();
  assert.equal({ opa, rego_engine }, { opa: facts.opa, rego_engine: facts.sha256 });
});

test.run();
