/**
 * Builds the engine of Rego evaluations (src/rego/engine) from its pinned Go modules, and what the executable says
 * about them. The result depends on nothing but these sources and the pinned release of Go: two builds have the same
 * bytes.
 *
 *     node bin/rego-engine.ts            build; compress the module if it is another one than before
 *     node bin/rego-engine.ts --check    build, and compare with what is committed
 *
 * Compressing takes a minute, so the digest of the uncompressed module is what is compared.
 */
import { execFileSync } from "node:child_process";
import { hash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants } from "node:zlib";
import type { GoModule } from "./go-modules.ts";

const ROOT = join(import.meta.dirname, "..");
const ENGINE = join(ROOT, "src/rego/engine");
const BUILT = join(ROOT, ".build/rego-engine.wasm");
/** Names of files with the terms of a module. */
const LICENSE_FILE = /^(licen[cs]e|copying|notice|patents)(\.|-|$)/i;
const OPA = "github.com/open-policy-agent/opa";

/** Runs the pinned release of Go, which `go` downloads if it is another one. */
function go(...args: string[]): string {
  const [, version] = /^go (\S+)$/m.exec(readFileSync(join(ENGINE, "go.mod"), "utf8")) ?? [];
  const pinned = { GOOS: "js", GOARCH: "wasm", GOWASM: "", GOTOOLCHAIN: `go${version}`, GOFLAGS: "", GOWORK: "off" };
  const env = { ...process.env, ...pinned };
  return execFileSync("go", args, { cwd: ENGINE, env, encoding: "utf8", maxBuffer: 1 << 26 });
}

function build(): Buffer {
  mkdirSync(join(ROOT, ".build"), { recursive: true });
  rmSync(BUILT, { force: true });
  go("build", "-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags=-s -w", "-o", BUILT, ".");
  return readFileSync(BUILT);
}

/** The modules that are linked into the engine, Go's library among them, with their terms. */
function listModules(): GoModule[] {
  const format = "{{with .Module}}{{if .Version}}{{.Path}}\t{{.Version}}\t{{.Dir}}{{end}}{{end}}";
  const lines = new Set(go("list", "-deps", "-f", format, ".").split("\n").filter(Boolean));
  const linked = [...lines].sort().map((line) => {
    const [path = "", version = "", directory = ""] = line.split("\t");
    return { path, version, licenses: readLicenses(path, directory) };
  });
  const version = go("env", "GOVERSION").trim().replace(/^go/, "");
  const library = { path: "std", version, licenses: readLicenses("std", go("env", "GOROOT").trim()) };
  return [...linked, library];
}

/** @throws Error for a module without terms, which must not be shipped */
function readLicenses(path: string, directory: string): GoModule["licenses"] {
  const names = readdirSync(directory)
    .filter((name) => LICENSE_FILE.test(name))
    .sort();
  if (names.length === 0) throw new Error(`the Go module ${path} has no licence text`);
  return names.map((name) => ({ name, text: readFileSync(join(directory, name), "utf8") }));
}

function compress(module: Buffer): Buffer {
  const params = {
    [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY,
    [constants.BROTLI_PARAM_LGWIN]: constants.BROTLI_MAX_WINDOW_BITS,
    [constants.BROTLI_PARAM_SIZE_HINT]: module.length,
  };
  return brotliCompressSync(module, { params });
}

const module = build();
const modules = listModules();
const versionOf = (path: string) => modules.find((one) => one.path === path)?.version.replace(/^v/, "");
const facts = { opa: versionOf(OPA), go: versionOf("std"), sha256: hash("sha256", module), bytes: module.length };
/** What stands beside the compressed module. */
const files: readonly (readonly [name: string, text: string])[] = [
  ["wasm_exec.js", readFileSync(join(go("env", "GOROOT").trim(), "lib/wasm/wasm_exec.js"), "utf8")],
  ["modules.json", `${JSON.stringify(modules, null, 1)}\n`],
  ["engine.json", `${JSON.stringify(facts, null, 2)}\n`],
];
const isCommitted = ([name, text]: readonly [string, string]): boolean =>
  existsSync(join(ENGINE, name)) && readFileSync(join(ENGINE, name), "utf8") === text;

if (process.argv.includes("--check")) {
  const [first] = files.filter((file) => !isCommitted(file));
  if (first) throw new Error(`src/rego/engine/${first[0]} is not what its sources build to (${facts.sha256})`);
  console.log(`the Rego engine is what its sources build to: ${facts.sha256}`);
} else {
  // The facts are written last, so that a build that was interrupted is made again.
  const compressed = join(ENGINE, "engine.wasm.br");
  const isSame = files.every(isCommitted) && existsSync(compressed);
  if (!isSame) writeFileSync(compressed, compress(module));
  for (const [name, text] of files) writeFileSync(join(ENGINE, name), text);
  console.log(`${facts.sha256}, ${module.length} bytes, ${readFileSync(compressed).length} compressed`);
}
