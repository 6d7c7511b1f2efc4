/**
 * Bundles of the worker threads, as the executable has them: from hundreds of modules a thread takes 0.1 to 0.6 s of
 * processor time to start, from a bundle 0.03 to 0.12 s, and the suite starts about a thousand.
 */
import { hash } from "node:crypto";
import {
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
} from "node:fs";
import { createRequire, syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Worker, WorkerOptions } from "node:worker_threads";
import { build } from "esbuild";
import { ALIASES, workerNames } from "../bin/bundle.ts";

const ROOT = join(import.meta.dirname, "..");
const PLACE = join(ROOT, ".build", "thread-bundles");
/** Bundles of other sources that no run used for so long are removed: no run takes as long. */
const MAX_UNUSED_MS = 86_400_000;

/** Builds the bundles unless those of the present sources exist, which takes two seconds. @returns their directory */
export const buildThreadBundles = (): Promise<string> =>
  makeOnce(PLACE, describeSources(), async (outdir) => {
    await build({
      absWorkingDir: ROOT,
      entryPoints: workerNames(ROOT).map((name) => `src/${name}.ts`),
      outdir,
      outbase: "src",
      outExtension: { ".js": ".cjs" },
      bundle: true,
      platform: "node",
      target: "node24",
      format: "cjs",
      preserveSymlinks: true,
      // assets.ts finds the checkout by its own place; nothing else asks for it (bin/bundle.ts).
      define: { "import.meta.url": JSON.stringify(pathToFileURL(join(ROOT, "src", "assets.ts")).href) },
      alias: ALIASES,
      logLevel: "warning",
    });
  });

/**
 * Fills a directory of that name, unless it exists: under another name first, because several runs in one checkout may
 * ask for it at a time. Directories of other names stay for the runs that started from them.
 * @returns its path
 */
export async function makeOnce(place: string, name: string, fill: (directory: string) => Promise<void>) {
  const path = join(place, name);
  if (!existsSync(path)) {
    mkdirSync(place, { recursive: true });
    const partial = mkdtempSync(join(place, "partial-"));
    await fill(partial);
    try {
      renameSync(partial, path);
    } catch (error) {
      rmSync(partial, { recursive: true, force: true });
      // Another run was faster.
      if (!existsSync(path)) throw error;
    }
  }
  const now = Date.now();
  utimesSync(path, now / 1_000, now / 1_000);
  for (const other of readdirSync(place)) removeUnused(join(place, other), now - MAX_UNUSED_MS);
  return path;
}

function removeUnused(path: string, since: number): void {
  const mtimeMs = statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? since;
  if (mtimeMs < since) rmSync(path, { recursive: true, force: true });
}

/** A digest of the names, sizes and times of all that is bundled. */
function describeSources(): string {
  const files = [...globSync("src/**/*.ts", { cwd: ROOT }).sort(), "package-lock.json", "bin/bundle.ts"];
  const facts = files.map((file) => {
    const { size, mtimeMs } = statSync(join(ROOT, file));
    return `${file} ${size} ${mtimeMs}`;
  });
  return hash("sha256", facts.join("\n"));
}

/** From here on this process starts the threads of the program from the bundles in this directory. */
export function startThreadsFromBundles(bundles: string): void {
  const bundleOf = new Map(
    workerNames(ROOT).map((name) => [join(ROOT, "src", `${name}.ts`), join(bundles, `${name}.cjs`)]),
  );
  const threads = createRequire(import.meta.url)("node:worker_threads") as { Worker: typeof Worker };
  threads.Worker = class extends threads.Worker {
    constructor(source: string | URL, options?: WorkerOptions) {
      super(typeof source === "string" ? (bundleOf.get(source) ?? source) : source, options);
    }
  };
  syncBuiltinESMExports();
}
