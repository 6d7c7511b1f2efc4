/**
 * Bundles of the worker threads, as the executable has them: from hundreds of modules a thread takes 0.1 to 0.6 s of
 * processor time to start, from a bundle 0.03 to 0.12 s, and the suite starts about a thousand.
 */
import { hash } from "node:crypto";
import { existsSync, globSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createRequire, syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Worker, WorkerOptions } from "node:worker_threads";
import { build } from "esbuild";
import { ALIASES, workerNames } from "../bin/bundle.ts";

const ROOT = join(import.meta.dirname, "..");
const PLACE = join(ROOT, ".build", "thread-bundles");
const STATE = join(PLACE, "state");

/** Builds the bundles unless they are those of the present sources, which takes two seconds. */
export async function buildThreadBundles(): Promise<void> {
  const state = describeSources();
  if (existsSync(STATE) && readFileSync(STATE, "utf8") === state) return;
  rmSync(PLACE, { recursive: true, force: true });
  await build({
    absWorkingDir: ROOT,
    entryPoints: workerNames(ROOT).map((name) => `src/${name}.ts`),
    outdir: PLACE,
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
  writeFileSync(STATE, state);
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

/** From here on this process starts the threads of the program from their bundles. */
export function startThreadsFromBundles(): void {
  const bundleOf = new Map(
    workerNames(ROOT).map((name) => [join(ROOT, "src", `${name}.ts`), join(PLACE, `${name}.cjs`)]),
  );
  const threads = createRequire(import.meta.url)("node:worker_threads") as { Worker: typeof Worker };
  threads.Worker = class extends threads.Worker {
    constructor(source: string | URL, options?: WorkerOptions) {
      super(typeof source === "string" ? (bundleOf.get(source) ?? source) : source, options);
    }
  };
  syncBuiltinESMExports();
}
