// Audit packages from the executable, unpacked and checked with the tools that an auditor has.

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createClient, expectStatus } from "./client.ts";
import { inDirectory, start } from "./executable.ts";

const test = suite("binary/packages");

const KEY = "ci-key-of-the-package-test-0123456789";
const APPLY = `
organizations:
  - name: acme
    service_accounts:
      - {name: ci-bot, privilege: member, api_keys: [{description: ci, key: "${KEY}"}]}
`;
const FINGERPRINT = "7b1f5c9a1d2b3e4f5061728394a5b6c7d8e9f00112233445566778899aabbccd";
const COMMIT = "0f5c9a1d2b3e4f5061728394a5b6c7d8e9f00112";
const LARGE = Buffer.from(Array.from({ length: 2_000_000 }, (_, index) => Math.imul(index + 1, 2_654_435_761) >>> 24));

/** Whether this machine has a program. */
function hasProgram(program: string, ...args: string[]): boolean {
  try {
    execFileSync(program, args, { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

test("creates audit packages and reports with nothing but the executable", () =>
  inDirectory(async (directory) => {
    const data = join(directory, "data");
    writeFileSync(join(directory, "apply.yml"), APPLY);
    const server = await start([
      "serve",
      "--data",
      data,
      "--listen",
      "127.0.0.1:0",
      "--base-url",
      "https://assay.example.com",
      "--bootstrap",
      join(directory, "apply.yml"),
    ]);
    try {
      const { json, form } = createClient(server.url, KEY);
      await expectStatus(
        form("PUT", "/flows/acme/template_file", "data_json", { name: "payments", description: "" }),
        201,
      );
      await expectStatus(
        form("PUT", "/trails/acme/payments", "data_json", {
          name: "release-1",
          description: "Выпуск, リリース, 결제, 版本, עברית",
        }),
        201,
      );
      await expectStatus(
        json("POST", "/artifacts/acme/payments", {
          fingerprint: FINGERPRINT,
          filename: "server",
          git_commit: COMMIT,
          build_url: "https://ci.example.com/1",
          commit_url: "https://git.example.com/1",
          trail_name: "release-1",
        }),
        201,
      );
      for (const [name, content] of [
        ["große Datei.bin", LARGE],
        ["small.txt", Buffer.from("small\n")],
      ] as const)
        await expectStatus(
          form(
            "POST",
            "/attestations/acme/payments/trail/release-1/generic",
            "data_json",
            { attestation_name: name === "small.txt" ? "small" : "large", is_compliant: name === "small.txt" },
            { part: "attachment_file", name, content },
          ),
          201,
        );

      const trail = await json("GET", "/trails/acme/payments/release-1/audit_package");
      const artifact = await json("GET", `/artifacts/acme/payments/${FINGERPRINT.slice(0, 5)}/audit_package`);
      const pdf = await json("GET", "/trails/acme/payments/release-1/audit_pdf");
      assert.equal(
        { trail: trail.status, artifact: artifact.status, pdf: pdf.status },
        { trail: 200, artifact: 200, pdf: 200 },
      );
      for (const [what, { bytes }] of Object.entries({ trail, artifact })) {
        const unpacked = join(directory, what);
        mkdirSync(unpacked);
        writeFileSync(join(directory, `${what}.tar`), bytes);
        execFileSync("tar", ["-xf", join(directory, `${what}.tar`), "-C", unpacked]);
        const top = `audit-package-payments-${what === "trail" ? "release-1" : FINGERPRINT.slice(0, 12)}`;
        assert.equal(readdirSync(unpacked), [top]);
        const root = join(unpacked, top);
        const { members } = JSON.parse(readFileSync(join(root, "manifest.json"), "utf8"));
        for (const { name, size, sha256 } of members) {
          const content = readFileSync(join(root, name));
          assert.equal(
            { size: content.length, sha256: createHash("sha256").update(content).digest("hex") },
            { size, sha256 },
            name,
          );
        }
        if (hasProgram("sha256sum", "--version"))
          execFileSync("sha256sum", ["--check", "--strict", "--quiet", "SHA256SUMS"], { cwd: root });
        const evidence = join(root, "evidence");
        assert.ok(what === "artifact" || readdirSync(evidence).length === 2);
      }
      assert.ok(
        pdf.bytes.equals(readFileSync(join(directory, "trail", "audit-package-payments-release-1", "trail-page.pdf"))),
      );
      if (hasProgram("pdftotext", "-v")) {
        const text = execFileSync("pdftotext", ["-layout", "-", "-"], { input: pdf.bytes }).toString();
        for (const words of [
          "release-1",
          "NON-COMPLIANT",
          "Выпуск, リリース, 결제, 版本",
          FINGERPRINT,
          "große Datei.bin",
          "page 1 of ",
        ])
          assert.ok(text.includes(words), words);
      }
      assert.is((await json("GET", "/trails/acme/payments/release-1/audit_package")).bytes.equals(trail.bytes), true);
    } finally {
      assert.is((await server.stop()).code, 0);
    }
    assert.not.match(server.output(), /"level":"error"/);
  }));

test.run();
