// Bundles src/ into one CommonJS file per entry, beside the assets that they read: .build/bundle/{main.cjs,assets/...}.
// The assets include the licence texts and the bill of materials, which are only known after bundling.

import { build } from "esbuild";
import type { Metafile } from "esbuild";
import { globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { hash } from "node:crypto";
import { dirname, join, sep } from "node:path";
import { brotliDecompressSync } from "node:zlib";
import { BILL_OF_MATERIALS, LICENSES, readBuildInfo, findCheckoutPath, listAssets, readAsset } from "../src/assets.ts";
import { readEngineFacts } from "../src/rego/engine-module.ts";
import { buildClient } from "./client.ts";
import { commitTime } from "./commit-time.ts";
import { componentsOf, textFile } from "./components.ts";
import { billOfMaterials } from "./sbom.ts";

/** What a bundle has in place of modules, by their names. */
export const ALIASES: Readonly<Record<string, string>> = {
  // fontkit needs its megabyte of dictionary for WOFF 2 fonts only, and we ship none.
  "brotli/decompress.js": "./bin/no-brotli.cjs",
  // It would search for credentials in home directories, other programs and the metadata services of clouds; ours are
  // passed explicitly.
  "@aws-sdk/credential-provider-node": "./bin/no-credential-providers.cjs",
};

/**
 * Bundles the checkout at `root` into `directory`, which is emptied first, and returns the keys of its assets, sorted.
 * The result depends only on the commit and the lock file; it contains no absolute path and no time.
 */
export async function bundle(root: string, directory: string): Promise<string[]> {
  rmSync(directory, { recursive: true, force: true });
  const client = await buildClient(root);
  const keys = listAssets("");
  checkRegoEngine();
  for (const key of keys) write(join(directory, "assets", key), readAsset(key));

  const paths = [...keys.flatMap((key) => findCheckoutPath(key) ?? []), ...client.packageFiles];
  const metafiles = [...client.metafiles, await bundleEntry(root, "src/main.ts", join(directory, "main.cjs"))];
  for (const name of workerNames(root)) {
    const key = `workers/${name}.cjs`;
    metafiles.push(await bundleEntry(root, `src/${name}.ts`, join(directory, "assets", key)));
    keys.push(key);
  }

  const components = componentsOf(root, metafiles, paths);
  const texts: [string, string][] = components.flatMap((component) =>
    component.text === null ? [] : [[LICENSES + textFile(component), component.text]],
  );
  texts.push([BILL_OF_MATERIALS, billOfMaterials(readBuildInfo(), components, commitTime(root))]);
  for (const [key, text] of texts) write(join(directory, "assets", key), Buffer.from(text));
  return [...keys, ...texts.map(([key]) => key)].sort();
}

/** @throws Error unless the module of the Rego engine is the one that its facts describe */
function checkRegoEngine(): void {
  const digest = hash("sha256", brotliDecompressSync(readAsset("rego/engine.wasm.br")));
  const { sha256 } = readEngineFacts();
  if (digest !== sha256) throw new Error(`the Rego engine has the SHA-256 ${digest} instead of ${sha256}`);
}

/** The entries of worker threads, src/<area>/<name>-worker.ts, as paths below src/ without the extension. */
export function workerNames(root: string): string[] {
  return globSync("**/*-worker.ts", { cwd: join(root, "src") })
    .map((file) => file.split(sep).join("/").slice(0, -".ts".length))
    .sort();
}

async function bundleEntry(root: string, entry: string, outfile: string): Promise<Metafile> {
  const { metafile } = await build({
    metafile: true,
    absWorkingDir: root,
    entryPoints: [entry],
    outfile,
    bundle: true,
    platform: "node",
    target: "node24",
    format: "cjs",
    // V8 keeps the text of a running program in memory, and takes two bytes for each character as soon as one of them
    // does not fit into one: eight megabytes.
    charset: "ascii",
    // Some code distinguishes error classes by name; a shortened name turned a 413 into a 500.
    minify: false,
    // Where node_modules is a symbolic link, its target must not appear in the file.
    preserveSymlinks: true,
    define: {
      ASSAY_BUILD: JSON.stringify(readBuildInfo()),
      // This file does not exist, so libraries that look for files beside themselves find none. They must only look
      // when they are asked to.
      "import.meta.url": '"file:///assay/bundle.cjs"',
    },
    alias: ALIASES,
    // The executable does not read NODE_OPTIONS, but a worker thread or a child process might.
    banner: { js: "delete process.env.NODE_OPTIONS;" },
    // A worker is evaluated from a string; this names it in stack traces.
    footer: { js: `//# sourceURL=${entry.replace(/^.*\//, "").replace(/\.ts$/, ".cjs")}` },
    logLevel: "warning",
  });
  writeFileSync(outfile, escapeRest(readFileSync(outfile, "utf8"), entry));
  return metafile;
}

/**
 * Escapes what esbuild leaves: it does not look into regular expressions and tagged templates. There the escape means
 * the character itself, except in the raw form of a template and after a backslash.
 * @throws Error when it would mean something else
 */
function escapeRest(code: string, entry: string): string {
  const literal = /String\.raw`[^`]*[^\0-\x7f]|(?<!\\)(?:\\\\)*\\[^\0-\x7f]/.exec(code)?.[0];
  if (literal !== undefined) throw new Error(`${entry}: write this with ASCII characters and escapes: ${literal}`);
  return code.replace(/[^\0-\x7f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

function write(path: string, content: Buffer): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, content);
}
