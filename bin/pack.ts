// Packs a bundle and its assets into one executable with pkg: Node's own single-executable format, whose assets
// src/assets.ts reads, in a copy of Node.
//
// pkg is called as a library, through the function behind `pkg --sea`. The command itself would replace the assets by a
// file system of its own, read NODE_OPTIONS, and embed a random temporary path. The function is not documented, so the
// version is pinned, and `make smoke` compares two builds.

import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { stripElf } from "./strip-elf.ts";

/** What we use of pkg. `seaConfig` goes to Node as it stands, over what pkg sets itself. */
type MakeExecutable = (
  entry: string,
  options: {
    targets: readonly { nodeRange: string; platform: string; arch: string; output: string }[];
    /** The Node to embed. */
    nodePath: string;
    seaConfig: Record<string, unknown>;
  },
) => Promise<void>;
const pkg = createRequire(import.meta.url)("@yao-pkg/pkg/lib-es5/sea.js") as { default: MakeExecutable };

/**
 * These keep the heap close to its live size: by default, V8 lets it grow to a multiple of that under load on a machine
 * with free memory. Measured while attestations are reported: 463 MB without them, and 303 us of processor time for
 * each; with 4 and 30, 232 MB and 390 us; with these, 240 MB and 338 us.
 */
const V8_FLAGS = ["--max-semi-space-size=8", "--heap-growing-percent=60"];

/**
 * Writes the executable `output` from `work`/bundle (see bundle.ts), which contains the assets `keys`. It embeds the
 * Node that runs the build, because the format and the code cache differ between patch releases. Intermediate files go
 * to `work`. An existing `output` is replaced atomically, so that a running executable is not affected.
 */
export async function pack(work: string, keys: readonly string[], output: string): Promise<void> {
  compileProgram(work);
  const start = join(work, "start.cjs");
  writeFileSync(start, readFileSync(join(import.meta.dirname, "start.cjs")));
  const node = join(work, "node");
  writeFileSync(node, stripElf(readFileSync(process.execPath)));
  chmodSync(node, 0o755);
  const executable = join(work, "assay");
  rmSync(executable, { force: true });
  await withTemporaryFilesIn(work, () =>
    pkg.default(start, {
      targets: [{ nodeRange: `node${process.versions.node}`, platform: "linux", arch: "x64", output: executable }],
      nodePath: node,
      seaConfig: {
        // The executable contains this name literally. It is relative to pkg's temporary directory, one below `work`.
        main: "../start.cjs",
        disableExperimentalSEAWarning: true,
        useSnapshot: false,
        // Node's own code cache is not reproducible, so `compileProgram` makes one.
        useCodeCache: false,
        // The environment must not choose what code runs, so NODE_OPTIONS is not read.
        execArgvExtension: "none",
        // SIGUSR1 would open Node's debugger on a local port, for every user of the machine, until main.ts handles the
        // signal; so it gets an address that no machine has. (--disable-sigusr1 would block the signal for good.)
        execArgv: ["--inspect-port=192.0.2.1:65535", ...V8_FLAGS],
        assets: {
          ...Object.fromEntries(keys.map((key) => [key, join(work, "bundle/assets", key)])),
          "program/main.cjs": join(work, "main.cjs"),
          "program/main.cache": join(work, "main.cache"),
        },
      },
    }),
  );
  chmodSync(executable, 0o755);
  mkdirSync(dirname(output), { recursive: true });
  renameSync(executable, output);
}

/** pkg works in a new directory below TMPDIR and removes it. */
async function withTemporaryFilesIn(directory: string, work: () => Promise<void>): Promise<void> {
  const { TMPDIR } = process.env;
  process.env["TMPDIR"] = directory;
  try {
    await work();
  } finally {
    if (TMPDIR === undefined) delete process.env["TMPDIR"];
    else process.env["TMPDIR"] = TMPDIR;
  }
}

/**
 * Wraps the bundle as start.cjs calls it and writes V8's code cache of it, because compiling it takes a third of the
 * processor time of a short command. V8 orders the tables of the cache by hash, so the seed is fixed while it is made;
 * the executable has a random seed.
 * @throws Error if V8 would reject the cache in the executable.
 */
function compileProgram(work: string): void {
  const bundle = readFileSync(join(work, "bundle", "main.cjs"), "utf8");
  writeFileSync(join(work, "main.cjs"), `(function (exports, require, module, __filename, __dirname) {${bundle}\n})`);
  const script = [join(import.meta.dirname, "code-cache.cjs"), "main.cjs", "main.cache"];
  runNode(work, ["--hash-seed=1", ...V8_FLAGS, ...script]);
  runNode(work, [...V8_FLAGS, ...script, "--check"]);
}

/** Runs the Node of this process in `work`. @throws Error with what it printed if it fails. */
function runNode(work: string, args: readonly string[]): void {
  execFileSync(process.execPath, args, { cwd: work, stdio: "pipe" });
}
