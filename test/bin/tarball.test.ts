/** The archive of a release: reproducible, and readable by system programs. */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { releaseFiles } from "../../bin/release.ts";
import { tarball } from "../../bin/tarball.ts";
import type { ArchivedFile } from "../../bin/tarball.ts";

const test = suite("bin/tarball");
const ROOT = join(import.meta.dirname, "..", "..");
const TIME = new Date("2026-03-04T05:06:07Z");

/** Short output in place of that of the executable. */
const run = (args: readonly string[]): string => {
  if (args[0] === "licenses") return JSON.stringify({ licenses: [{ file: "@scope__pack@1.0.0.txt", text: "MIT" }] });
  if (args.includes("--json"))
    return JSON.stringify({ units: { "assay.service": "[Unit]\n", "assay.socket": "[Socket]\n" } });
  return `${args.join(" ")}\n`;
};
const files = (): ArchivedFile[] => releaseFiles(ROOT, Buffer.from("#!/bin/sh\necho it runs\n"), run);

test("two runs give the same bytes, for any order of the files", async () => {
  const first = await tarball("assay-1", files(), TIME);
  assert.is(first.equals(await tarball("assay-1", files().reverse(), TIME)), true);
  assert.is(first.equals(await tarball("assay-1", files(), new Date(0))), false);
});

test("tar unpacks the archive, and sha256sum verifies it and detects a changed file", async () => {
  const directory = mkdtempSync(join(tmpdir(), "assay-tarball-"));
  const inside = (cwd: string, command: string, ...args: string[]) =>
    spawnSync(command, args, { cwd, encoding: "utf8", env: { PATH: process.env["PATH"], LC_ALL: "C", TZ: "UTC" } });
  try {
    writeFileSync(join(directory, "a.tar.gz"), await tarball("assay-1", files(), TIME));
    const listed = inside(directory, "tar", "tvzf", "a.tar.gz");
    assert.is(listed.status, 0, listed.stderr);
    assert.match(listed.stdout, /^-rwxr-xr-x root\/root +\d+ 2026-03-04 05:06 assay-1\/assay$/m);
    assert.match(
      listed.stdout,
      /^-rw-r--r-- root\/root +\d+ 2026-03-04 05:06 assay-1\/licenses\/@scope__pack@1\.0\.0\.txt$/m,
    );
    assert.match(listed.stdout, /^drwxr-xr-x root\/root .* assay-1\/licenses\/$/m);
    assert.is(inside(directory, "tar", "xzf", "a.tar.gz").status, 0);
    const unpacked = join(directory, "assay-1");
    const check = () => inside(unpacked, "sha256sum", "--check", "--strict", "SHA256SUMS");
    assert.equal({ status: check().status, stderr: check().stderr }, { status: 0, stderr: "" });
    assert.is(check().stdout.trim().split("\n").length, files().length - 1);
    assert.is(inside(unpacked, "./assay").stdout, "it runs\n");
    writeFileSync(join(unpacked, "LICENSE"), "changed");
    assert.match(check().stdout, /^LICENSE: FAILED$/m);
    assert.is(check().status, 1);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
});

test("stores files that are larger than a pipe buffer completely", async () => {
  const content = Buffer.alloc(5_000_000, "many bytes ");
  const directory = mkdtempSync(join(tmpdir(), "assay-tarball-"));
  try {
    writeFileSync(
      join(directory, "a.tar.gz"),
      await tarball("x", [{ path: "a/b/large", content, executable: false }], TIME),
    );
    const { stdout } = spawnSync("tar", ["xzOf", "a.tar.gz", "x/a/b/large"], { cwd: directory, maxBuffer: 10_000_000 });
    const sum = (bytes: Buffer): string => createHash("sha256").update(bytes).digest("hex");
    assert.is(sum(stdout), sum(content));
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
});

test.run();
