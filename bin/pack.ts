// Packs a bundle and its assets into one executable, with pkg's function for Node's own single-executable format, whose
// assets src/assets.ts reads.
//
// pkg's other format, a virtual file system, is not used: it would honour NODE_OPTIONS, embed a random path (so that no
// two builds are identical) and unpack the native addon below $HOME. The command line of pkg has no flags for the
// assets and the embedded Node of the format used here, so its function is called; package.json pins pkg exactly for
// that.

import { chmodSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { stripElf } from "./strip-elf.ts";

interface SeaOptions {
  readonly nodePath: string;
  readonly targets: readonly { nodeRange: string; platform: string; arch: string; output: string }[];
  readonly seaConfig: {
    readonly main: string;
    readonly disableExperimentalSEAWarning: boolean;
    readonly useSnapshot: boolean;
    readonly useCodeCache: boolean;
    readonly execArgv: readonly string[];
    readonly execArgvExtension: "none";
    readonly assets: Readonly<Record<string, string>>;
  };
}

type Sea = (entry: string, options: SeaOptions) => Promise<void>;

/**
 * Writes the executable `output` from `work`/bundle (see bundle.ts), which contains the assets `keys`. It embeds the
 * Node that runs the build, because the format differs between patch releases. Intermediate files go to `work`. An
 * existing `output` is replaced atomically, so that a running executable is not affected.
 */
export async function pack(work: string, keys: readonly string[], output: string): Promise<void> {
  const { default: sea } = createRequire(import.meta.url)("@yao-pkg/pkg/lib-es5/sea.js") as { default: Sea };

  const nodePath = join(work, "node");
  writeFileSync(nodePath, stripElf(readFileSync(process.execPath)));
  chmodSync(nodePath, 0o755);

  const temporary = join(work, "tmp");
  rmSync(temporary, { recursive: true, force: true });
  mkdirSync(temporary, { recursive: true });
  process.env["TMPDIR"] = temporary;

  const bundle = join(work, "bundle");
  const result = join(work, "assay");
  await sea(join(bundle, "main.cjs"), {
    nodePath,
    targets: [{ nodeRange: "node24", platform: "linux", arch: "x64", output: result }],
    seaConfig: {
      // The executable contains this name literally. pkg runs Node in a random directory below `temporary`; relative to
      // it, this names the bundle without the location of the checkout.
      main: "../../bundle/main.cjs",
      disableExperimentalSEAWarning: true,
      useSnapshot: false,
      // A code cache is not reproducible.
      useCodeCache: false,
      // The environment must not choose what code runs, so NODE_OPTIONS is not read.
      execArgvExtension: "none",
      // SIGUSR1 would open Node's debugger on a local port, for every user of the machine, until main.ts handles the
      // signal; so it gets an address that no machine has. (--disable-sigusr1 would block the signal for good.) The
      // other two keep the heap close to its live size: by default, V8 lets it grow to a multiple of that under load on
      // a machine with free memory, for a few percent of speed (measured: 340 MB instead of 170).
      execArgv: ["--inspect-port=192.0.2.1:65535", "--max-semi-space-size=4", "--heap-growing-percent=30"],
      assets: Object.fromEntries(keys.map((key) => [key, join(bundle, "assets", key)])),
    },
  });

  chmodSync(result, 0o755);
  mkdirSync(dirname(output), { recursive: true });
  renameSync(result, output);
  rmSync(nodePath);
  rmSync(temporary, { recursive: true });
}
