// Packs a bundle and its assets into one executable: Node's own single-executable format, whose assets src/assets.ts
// reads, injected into a copy of Node by postject.

import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { stripElf } from "./strip-elf.ts";

/** Node looks for its blob under this name, and only if the digit behind the fuse is 1, which `inject` sets. */
const RESOURCE = "NODE_SEA_BLOB";
const FUSE = "NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2";

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
export function pack(work: string, keys: readonly string[], output: string): void {
  compileProgram(work);
  const config = {
    // The executable contains this name literally, so it is relative to `work`.
    main: "start.cjs",
    output: "sea.blob",
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
      ...Object.fromEntries(keys.map((key) => [key, join("bundle/assets", key)])),
      "program/main.cjs": "main.cjs",
      "program/main.cache": "main.cache",
    },
  };
  writeFileSync(join(work, "start.cjs"), readFileSync(join(import.meta.dirname, "start.cjs")));
  writeFileSync(join(work, "sea.json"), JSON.stringify(config));
  runNode(work, ["--experimental-sea-config", "sea.json"]);

  const executable = join(work, "assay");
  writeFileSync(executable, stripElf(readFileSync(process.execPath)));
  const postject = createRequire(import.meta.url).resolve("postject/dist/cli.js");
  runNode(work, [postject, "assay", RESOURCE, "sea.blob", "--sentinel-fuse", FUSE, "--overwrite"]);
  chmodSync(executable, 0o755);
  mkdirSync(dirname(output), { recursive: true });
  renameSync(executable, output);
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
