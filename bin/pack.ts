// Packs a bundle and its assets into one executable, with the packing function of pkg in its plain form: Node's own
// single-executable format, whose assets are read by src/assets.ts.
//
// pkg's other form, a virtual file system, is not used: it would honour NODE_OPTIONS, embed a random path (so that no
// two builds are alike) and unpack the native addon below $HOME. The plain form has no command-line flag for assets and
// for the Node to embed, so its function is called; package.json pins pkg exactly because of that.

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
 * Writes the executable `output` from `work`/bundle (see bundle.ts), which holds the assets `keys`. It embeds the Node
 * that runs the build, because the format differs between patch releases. `work` also takes what is written on the way.
 * An earlier `output` is replaced in one step, so that one which is running stays as it is.
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
      // The name goes into the executable as it is written here. pkg runs Node in a random directory below `temporary`;
      // seen from there this names the bundle without naming the place of this checkout.
      main: "../../bundle/main.cjs",
      disableExperimentalSEAWarning: true,
      useSnapshot: false,
      // A code cache is not reproducible.
      useCodeCache: false,
      // Whoever sets the environment must not choose what code runs: NODE_OPTIONS is not read.
      execArgvExtension: "none",
      // SIGUSR1 would open Node's debugger on a local port, to every user of the machine, until main.ts takes the
      // signal: here it gets an address that no machine has. (--disable-sigusr1 would block the signal for good.) The
      // other two keep the heap near what it holds: left alone, V8 lets it grow to several times that under load, on a
      // machine with memory to spare, for a few percent of speed (measured: 340 MB instead of 170).
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
