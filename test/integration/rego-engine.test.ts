/** The committed engine of Rego evaluations is what its sources build to, byte for byte. */
import { execFileSync } from "node:child_process";
import { hash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { brotliDecompressSync } from "node:zlib";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { readEngineFacts } from "../../src/rego/engine-module.ts";
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

test.run();
