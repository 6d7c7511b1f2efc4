/** Runs the commands of the auditors page exactly as the page prints them. */
import { execFile, execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { freshFingerprint, startServer } from "../given.ts";
import { findCodeBlock } from "./page.ts";

const test = suite("guide/auditors");

const missing = ["curl", "tar", "gzip", "sha256sum"].filter((program) => {
  try {
    execFileSync(program, ["--version"], { stdio: "ignore" });
    return false;
  } catch {
    return true;
  }
});
if (missing.length > 0) console.log(`skipped: the commands of the auditors page need ${missing.join(" and ")}`);
const testCommands = missing.length > 0 ? test.skip : test;

testCommands(
  "the page's commands download, unpack and check the audit packages of a trail and of an artifact",
  async () => {
    const directory = mkdtempSync(join(tmpdir(), "assay-auditors-"));
    const [data, home] = [join(directory, "data"), mkdtempSync(join(directory, "home-"))];
    const server = await startServer({ directory: data });
    try {
      const at = server.given.org({ name: "acme" });
      await server.given.flow(at, { name: "payments" });
      await server.given.trail(at, { flow: "payments", name: "release-1" });
      const fingerprint = await server.given.artifact(at, {
        flow: "payments",
        trail: "release-1",
        fingerprint: freshFingerprint(),
      });
      const file = { name: "attachment_file", filename: "große Datei.txt", content: "evidence" };
      await server.given.attestation(at, { flow: "payments", trail: "release-1", file });

      const env = { PATH: process.env["PATH"], KEY: at.key, HOST: server.url, FINGERPRINT: fingerprint };
      /** Runs lines of the page in a shell that stops at the first failing command. */
      const runLines = async (lines: string): Promise<string> =>
        (await promisify(execFile)("sh", ["-ec", lines], { cwd: home, env })).stdout;

      await runLines(findCodeBlock("auditors", "/trails/acme/"));
      assert.equal(readdirSync(home), ["audit-package-payments-release-1.tar.gz"]);
      const checked = await runLines(findCodeBlock("auditors", "audit-package-payments-release-1.tar.gz"));
      assert.match(checked, /^manifest\.json: OK\n[^]*evidence\/[0-9a-f]{64}\/große Datei\.txt: OK\n$/);
      assert.equal(readdirSync(home).sort(), [
        "audit-package-payments-release-1",
        "audit-package-payments-release-1.tar.gz",
      ]);

      await runLines(findCodeBlock("auditors", "/artifacts/acme/"));
      const name = `audit-package-payments-${fingerprint.slice(0, 12)}`;
      assert.ok(existsSync(join(home, name, "artifact-page.pdf")), readdirSync(home).join(" "));
    } finally {
      await server.stop();
      rmSync(directory, { recursive: true, force: true });
    }
  },
);

test.run();
