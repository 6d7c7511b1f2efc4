/** Paths that a command cannot use: the error names what was attempted, the path, the reason and what to do. */
import { mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { cli, inDirectory } from "./in-process.ts";

const test = suite("cli/file-errors");
const SERVE = ["serve", "--listen", "127.0.0.1:0"];
const ORG = ["--org", "acme", "--user", "ops"];

const IS_DIRECTORY = "it is a directory (EISDIR); give the path of a file";
const MISSING = "it, or a directory above it, does not exist (ENOENT); check the path";
const IN_THE_WAY = "something else has that name (EEXIST); move it away, or give another path";
const NO_NEW = "takes no new directories (ENOENT); give a path on a disk";
const NO_DIRECTORY = "a part of the path is not a directory (ENOTDIR); check the path";

/** Command lines in a directory with `file`, `dir`, a data directory `data` and a backup of it, and what they say. */
const CASES: readonly (readonly [argv: readonly string[], expected: string])[] = [
  [[...SERVE, "--data", "file"], `cannot create the directory /file: ${IN_THE_WAY}`],
  [[...SERVE, "--data", "file/sub"], `cannot examine /file/sub: ${NO_DIRECTORY}`],
  [[...SERVE, "--data", "new", "--config", "dir"], `cannot read dir: ${IS_DIRECTORY}`],
  [[...SERVE, "--data", "new", "--config", "none"], `cannot read none: ${MISSING}`],
  [[...SERVE, "--data", "new", "--tls-cert", "dir", "--tls-key", "file"], `cannot read dir: ${IS_DIRECTORY}`],
  [[...SERVE, "--data", "new", "--tls-cert", "file", "--tls-key", "dir"], `cannot read dir: ${IS_DIRECTORY}`],
  [[...SERVE, "--data", "new", "--ca-file", "file/ca.pem"], `cannot read file/ca.pem: ${NO_DIRECTORY}`],
  [[...SERVE, "--data", "new", "--bootstrap", "dir"], `cannot read dir: ${IS_DIRECTORY}`],
  [["dev", "--listen", "127.0.0.1:0", "--data", "file"], `cannot create the directory /file: ${IN_THE_WAY}`],
  [[...SERVE, "--data", "/proc/x/y"], `cannot create the directory /proc/x: /proc ${NO_NEW}`],
  [[...SERVE, "--data", "/proc/self"], `cannot create the directory /proc/self/evidence: /proc/self ${NO_NEW}`],
  [["init", ...ORG, "--data", "file/sub"], `cannot examine /file/sub: ${NO_DIRECTORY}`],
  [["apply", "dir", "--data", "data"], `cannot read dir: ${IS_DIRECTORY}`],
  [["policy", "check", "none.yml"], `cannot read none.yml: ${MISSING}`],
  [["restore", "dir", "--data", "new"], `cannot read dir: ${IS_DIRECTORY}`],
  [["restore", "none", "--data", "new"], `cannot read none: ${MISSING}`],
  [["restore", "backup.tar", "--data", "file/sub"], `cannot examine /file/sub: ${NO_DIRECTORY}`],
  [["systemd", "--output", "none"], `cannot open /none/assay.service: ${MISSING}`],
];

test("names the attempt, the path, the reason and the remedy", () =>
  inDirectory(async (directory) => {
    writeFileSync(join(directory, "file"), "text");
    mkdirSync(join(directory, "dir"));
    const at = { cwd: directory };
    assert.is((await cli(["init", ...ORG, "--data", "data"], at)).code, 0);
    assert.is((await cli(["backup", "backup.tar", "--data", "data"], at)).code, 0);
    for (const [argv, expected] of CASES) {
      const { code, out, err } = await cli(argv, at);
      assert.equal(
        { argv: argv.join(" "), code, out, err: err.replaceAll(directory, "") },
        { argv: argv.join(" "), code: 1, out: "", err: `assay: ${expected}\n` },
      );
    }
  }));

/** A directory in memory, on another file system than temporary files; null where there is none. */
function givenElsewhere(directory: string): string | null {
  try {
    const made = mkdtempSync("/dev/shm/assay-cli-");
    if (statSync(made).dev !== statSync(directory).dev) return made;
    rmSync(made, { recursive: true });
  } catch {
    // Not every machine has it.
  }
  console.log("skipped: /dev/shm is not a file system of its own");
  return null;
}

test("staging on another file system than the evidence is refused without a stack", () =>
  inDirectory(async (directory) => {
    const elsewhere = givenElsewhere(directory);
    if (elsewhere === null) return;
    try {
      const data = join(directory, "data");
      assert.is((await cli(["init", ...ORG, "--data", data])).code, 0);
      rmSync(join(data, "staging"), { recursive: true });
      symlinkSync(elsewhere, join(data, "staging"));
      const { code, out, err } = await cli([...SERVE, "--data", data]);
      assert.equal({ code, out }, { code: 1, out: "" });
      assert.match(
        err,
        `assay: ${data}/staging and ${data}/evidence are on different file systems, so no file can be renamed from ` +
          "one to the other: put both on one file system\n",
      );
      assert.not.match(err, "unexpected failure");
    } finally {
      rmSync(elsewhere, { recursive: true });
    }
  }));

test("says that a name is too long", () =>
  inDirectory(async (directory) => {
    const { err } = await cli([...SERVE, "--data", "x".repeat(300)], { cwd: directory });
    assert.match(
      err,
      /^assay: cannot examine .*: the path, or a name in it, is too long \(ENAMETOOLONG\); give a shorter/,
    );
  }));

test.run();
