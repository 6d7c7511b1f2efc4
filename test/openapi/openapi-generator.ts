/**
 * The part of `make openapi-check` for openapi-generator, a Java program that Maven gets. Its generators for Go and for
 * TypeScript (typescript-fetch) run with the settings that users begin with.
 */
import { createHash } from "node:crypto";
import { cpSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { DOCUMENT, HERE, WORK, called, installed, passed, run } from "./steps.ts";
import type { Step } from "./steps.ts";

const CALLS = 16;
const PINS = "openapi-generator";
const GO_PINS = [`${PINS}/go.mod`, `${PINS}/go.sum`];
const CLIENTS = join(HERE, "clients", PINS);
const JAR = join(WORK, PINS, "openapi-generator-cli.jar");

/** @param typescript the folder of the npm tools, null if they are not available */
export async function openapiGenerator(
  settings: Record<string, string>,
  { typescript }: { typescript: string | null },
): Promise<void> {
  const files = [`${PINS}/pom.xml`, `${PINS}/openapi-generator-cli.jar.sha256`];
  const ready = await installed(PINS, { folder: join(WORK, PINS), files, needs: "java -version" }, download);
  if (!ready) return;
  await go(settings);
  if (typescript !== null) await fetchClient(typescript, settings);
}

async function download(): Promise<Step> {
  const pom = ["--file", join(HERE, PINS, "pom.xml")];
  const to = [`-DoutputDirectory=${join(WORK, PINS)}`, "-DexcludeTransitive=true", "-Dmdep.stripVersion=true"];
  const step = await run("mvn", ["--quiet", "--batch-mode", ...pom, "dependency:copy-dependencies", ...to]);
  if (!step.ok) return step;
  const expected = readFileSync(join(HERE, PINS, "openapi-generator-cli.jar.sha256"), "utf8").trim();
  const found = createHash("sha256").update(readFileSync(JAR)).digest("hex");
  return { ok: found === expected, text: `the package has the SHA-256 ${found}, not ${expected}` };
}

/** Generates a client into `folder`, without its tests and documentation. */
async function generate(generator: string, folder: string, options: readonly string[]): Promise<boolean> {
  rmSync(folder, { recursive: true, force: true });
  const only = "apiTests=false,modelTests=false,apiDocs=false,modelDocs=false";
  const common = ["--input-spec", DOCUMENT, "--generator-name", generator, "--output", folder];
  const step = await run("java", ["-jar", JAR, "generate", ...common, "--global-property", only, ...options]);
  // Of two files with one name, the second silently takes the place of the first.
  const duplicates = step.text.split("\n").filter((line) => line.includes("Duplicate file path"));
  const outcome = { ok: step.ok && duplicates.length === 0, text: duplicates.join("\n") || step.text };
  const version = await run("java", ["-jar", JAR, "version"]);
  return passed(`openapi-generator ${generator}: generate`, outcome, version.text);
}

async function go(settings: Record<string, string>): Promise<void> {
  const check = "openapi-generator go";
  const folder = join(WORK, `${PINS}-go`);
  const ready = await installed(check, { folder, files: GO_PINS, needs: "go version" }, () => {
    for (const file of ["go.mod", "go.sum"]) cpSync(join(HERE, PINS, file), join(folder, file));
    return run("go", ["mod", "download"], { cwd: folder });
  });
  if (!ready) return;
  if (!(await generate("go", join(folder, "api"), ["--additional-properties", "packageName=api,withGoMod=false"])))
    return;
  cpSync(join(CLIENTS, "calls.go"), join(folder, "calls.go"));
  if (!passed(`${check}: go vet`, await run("go", ["vet", "./..."], { cwd: folder }), "")) return;
  const built = await run("go", ["build", "-o", "calls", "."], { cwd: folder });
  if (!built.ok) passed(`${check}: go build`, built, "");
  else called(`${check}: calls`, await run(join(folder, "calls"), [], { env: settings }), CALLS);
}

async function fetchClient(npm: string, settings: Record<string, string>): Promise<void> {
  const check = "openapi-generator typescript-fetch";
  // Below the npm tools, so that their packages are found.
  const folder = join(npm, "fetch-client");
  rmSync(folder, { recursive: true, force: true });
  cpSync(CLIENTS, folder, { recursive: true, filter: (path) => !path.endsWith(".go") });
  const options = ["--additional-properties", "importFileExtension=.js"];
  if (!(await generate("typescript-fetch", join(folder, "api"), options))) return;
  const compiled = await run(join(npm, "node_modules/.bin/tsc"), ["--project", folder]);
  if (!passed(`${check}: tsc`, compiled, "")) return;
  const calls = await run(process.execPath, [join(folder, "built/calls.js")], { cwd: folder, env: settings });
  called(`${check}: calls`, calls, CALLS);
}
