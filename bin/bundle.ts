// Turns src/ into one CommonJS file per entry, beside the assets it will read: .build/bundle/{main.cjs,assets/...}.
// Among the assets are the licence texts and the bill of materials, which only who bundles can know.

import { build } from "esbuild";
import type { Metafile } from "esbuild";
import { globSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, sep } from "node:path";
import { BILL_OF_MATERIALS, LICENSES, readBuildInfo, findCheckoutPath, listAssets, readAsset } from "../src/assets.ts";
import { commitTime } from "./commit-time.ts";
import { componentsOf, textFile } from "./components.ts";
import { billOfMaterials } from "./sbom.ts";

/**
 * Bundles the checkout at `root` into `directory`, which is emptied first, and returns the keys of its assets, sorted.
 * The result depends on the commit and the lock file alone: no absolute path and no time goes into it.
 */
export async function bundle(root: string, directory: string): Promise<string[]> {
  rmSync(directory, { recursive: true, force: true });
  const keys = listAssets("");
  for (const key of keys) write(join(directory, "assets", key), readAsset(key));

  const paths = keys.flatMap((key) => findCheckoutPath(key) ?? []);
  const metafiles = [await bundleEntry(root, "src/main.ts", join(directory, "main.cjs"))];
  for (const name of workerNames(root)) {
    const key = `workers/${name}.cjs`;
    metafiles.push(await bundleEntry(root, `src/${name}.ts`, join(directory, "assets", key)));
    keys.push(key);
  }

  const components = componentsOf(root, metafiles, paths);
  const told: [string, string][] = components.flatMap((component) =>
    component.text === null ? [] : [[LICENSES + textFile(component), component.text]],
  );
  told.push([BILL_OF_MATERIALS, billOfMaterials(readBuildInfo(), components, commitTime(root))]);
  for (const [key, text] of told) write(join(directory, "assets", key), Buffer.from(text));
  return [...keys, ...told.map(([key]) => key)].sort();
}

/** The entries of worker threads, src/<area>/<something>-worker.ts, as paths below src/ without the extension. */
function workerNames(root: string): string[] {
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
    charset: "utf8",
    // Error classes are told apart by name in places; a shortened name turned a 413 into a 500.
    minify: false,
    // A node_modules that is a link elsewhere must not put that place into the file.
    preserveSymlinks: true,
    define: {
      ASSAY_BUILD: JSON.stringify(readBuildInfo()),
      // No file of that name: libraries that look for theirs beside themselves find nothing, and may only do so when
      // asked to.
      "import.meta.url": '"file:///assay/bundle.cjs"',
    },
    alias: {
      // fontkit would need it for fonts in WOFF 2, and we ship none: a megabyte of dictionary.
      "brotli/decompress.js": "./bin/no-brotli.cjs",
      // It would look for credentials in home directories, other programs and at the addresses of clouds; we hand ours
      // over.
      "@aws-sdk/credential-provider-node": "./bin/no-credential-providers.cjs",
    },
    // The executable itself does not read NODE_OPTIONS, but a worker thread or a child process of it might.
    banner: { js: "delete process.env.NODE_OPTIONS;" },
    // A worker is evaluated from text: this is the name it has in a stack trace.
    footer: { js: `//# sourceURL=${entry.replace(/^.*\//, "").replace(/\.ts$/, ".cjs")}` },
    logLevel: "warning",
  });
  return metafile;
}

function write(path: string, content: Buffer): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, content);
}
