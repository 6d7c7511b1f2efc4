/**
 * The committed engine of Rego evaluations is what its sources build to, byte for byte, and it runs under the
 * restrictions of the unit and without a network.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { hash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliDecompressSync } from "node:zlib";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { readEngineFacts } from "../../src/rego/engine-module.ts";
import { createRunner } from "../../bin/release.ts";
import { EXECUTABLE, inDirectory, run } from "../binary/executable.ts";
import { obstacle as restriction, restricted } from "../binary/restricted.ts";
import { findTool } from "../tools.ts";

const test = suite("integration/rego-engine");
const ROOT = join(import.meta.dirname, "..", "..");
const ENGINE = join(ROOT, "src/rego/engine");

/** Why the engine cannot be built here; null if it can. */
function findObstacle(): string | null {
  if (findTool("go") === null) return "there is no go";
  try {
    execFileSync("go", ["mod", "download"], { cwd: ENGINE, env: goEnvironment(), stdio: "pipe" });
    return null;
  } catch (error) {
    return `go cannot fetch the modules: ${String((error as { stderr?: Buffer }).stderr).trim()}`;
  }
}

const goEnvironment = () => ({
  ...process.env,
  GOTOOLCHAIN: `go${readEngineFacts().go}`,
  GOFLAGS: "",
  GOWORK: "off",
});

test("the compressed module has the digest and the size that stand beside it", () => {
  const { sha256, bytes } = readEngineFacts();
  const module = brotliDecompressSync(readFileSync(join(ENGINE, "engine.wasm.br")));
  assert.is(module.length, bytes);
  assert.is(hash("sha256", module), sha256);
});

const obstacle = findObstacle();
if (obstacle !== null) console.log(`skipped: rebuilding the Rego engine: ${obstacle}`);
const testBuild = obstacle === null ? test : test.skip;

testBuild("the engine is what its sources build to", () => {
  const printed = execFileSync(process.execPath, ["bin/rego-engine.ts", "--check"], { cwd: ROOT, encoding: "utf8" });
  assert.is(printed, `the Rego engine is what its sources build to: ${readEngineFacts().sha256}\n`);
});

testBuild("the recorded verdicts of the corpus are what OPA says", () => {
  const corpus = join(ROOT, "test/rego/corpus");
  const recorded = readFileSync(join(corpus, "verdicts.jsonl"), "utf8");
  const said = execFileSync("go", ["run", "./corpus", corpus, "-"], {
    cwd: ENGINE,
    env: goEnvironment(),
    encoding: "utf8",
    maxBuffer: 1 << 26,
  });
  assert.is(said, recorded);
});

const FILES = {
  "policy.rego": "package policy\n\ndefault allow := false\n\nallow if input.ok\n",
  "input.json": '{"ok": true}',
};
const ALLOWED = { code: 0, signal: null, stdout: "ALLOWED\n", stderr: "" };

if (restriction !== null) console.log(`skipped: the engine under the unit's restrictions: ${restriction}`);
(restriction === null ? test : test.skip)("evaluates under the restrictions of the unit", async () => {
  const unit = createRunner(EXECUTABLE)(["systemd"]);
  const words = ["rego", "eval", "/run/files/policy.rego", "--input", "/run/files/input.json"];
  assert.equal(await run(...restricted(unit, words, { files: FILES })), ALLOWED);
});

const canIsolate = spawnSync("unshare", ["-n", "true"]).status === 0;
if (!canIsolate) console.log("skipped: this process may not create a network namespace (unshare -n)");
(canIsolate ? test : test.skip)("evaluates in an empty network namespace", () =>
  inDirectory(async (cwd) => {
    for (const [name, text] of Object.entries(FILES)) writeFileSync(join(cwd, name), text);
    const words = ["-n", EXECUTABLE, "rego", "eval", "policy.rego", "--input", "input.json"];
    const options = { cwd, executable: "unshare", env: { PATH: process.env["PATH"] ?? "" } };
    assert.equal(await run(words, options), ALLOWED);
  }),
);

test.run();
