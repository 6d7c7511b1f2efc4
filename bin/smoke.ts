// Smoke test of the packaging: dist/assay works alone, and a clone of this commit builds the same bytes. Prints one
// line per check and ends with "N passed, N failed".

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { copyFileSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readBuildInfo } from "../src/assets.ts";
import { run, start } from "../test/binary/executable.ts";

const root = join(import.meta.dirname, "..");
const built = join(root, "dist", "assay");
const directory = mkdtempSync(join(tmpdir(), "assay-smoke-"));
const { version, commit } = readBuildInfo();
const count = { passed: 0, failed: 0 };

async function check(what: string, body: () => Promise<void> | void): Promise<void> {
  try {
    await body();
    count.passed += 1;
    console.log(`ok    ${what}`);
  } catch (error) {
    count.failed += 1;
    console.log(`FAIL  ${what}\n${error instanceof Error ? error.message : String(error)}`);
  }
}

function expect(actual: unknown, expected: unknown): void {
  if (actual !== expected) throw new Error(`expected ${JSON.stringify(expected)}, got ${JSON.stringify(actual)}`);
}

const executable = join(directory, "assay");
const alone = { executable, cwd: directory, env: { HOME: "/nonexistent" } };

try {
  copyFileSync(built, executable);

  await check("prints its version when alone in a directory", async () => {
    const result = await run(["version"], alone);
    expect(result.code, 0);
    expect(result.stdout.split("\n").slice(0, 2).join(", "), `assay ${version}, commit ${commit ?? "unknown"}`);
  });

  await check("becomes ready, and stops with exit code 0", async () => {
    const startedAt = performance.now();
    const server = await start(["serve", "--data", "data", "--listen", "127.0.0.1:0"], alone);
    const response = await fetch(`${server.url}/ready`);
    expect(response.status, 200);
    await response.arrayBuffer();
    console.log(`      ready after ${(performance.now() - startedAt).toFixed(0)} ms`);
    expect((await server.stop()).code, 0);
  });

  if (commit === null || commit.endsWith("-modified")) {
    console.log("      not compared with a build of a clone: the working tree has changes");
  } else {
    await check("a clone of this commit builds the same bytes", () => {
      const clone = join(directory, "clone");
      execFileSync("git", ["clone", "--quiet", "--no-hardlinks", root, clone], { stdio: "pipe" });
      execFileSync("git", ["checkout", "--quiet", "--detach", commit], { cwd: clone, stdio: "pipe" });
      symlinkSync(join(root, "node_modules"), join(clone, "node_modules"));
      execFileSync(process.execPath, [join(clone, "bin", "build.ts")], { cwd: clone, stdio: "pipe" });
      expect(digest(join(clone, "dist", "assay")), digest(built));
    });
  }
} finally {
  rmSync(directory, { recursive: true, force: true });
}

console.log(`${count.passed} passed, ${count.failed} failed`);
process.exitCode = count.failed > 0 ? 1 : 0;

function digest(file: string): string {
  return createHash("sha256").update(readFileSync(file)).digest("hex");
}
