/**
 * What is loaded on first use only. A static import anywhere on the way would load it at every start, and keep it in
 * memory for as long as the server runs, without any other test noticing.
 */
import { build } from "esbuild";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";

const test = suite("rules/lazy-modules");

const CHECKOUT = join(import.meta.dirname, "..", "..");

/** The files and packages that are loaded with an entry, by following all but dynamic imports. */
async function loadedWith(entry: string): Promise<Set<string>> {
  const { metafile } = await build({
    absWorkingDir: CHECKOUT,
    entryPoints: [entry],
    bundle: true,
    write: false,
    metafile: true,
    platform: "node",
    format: "esm",
    packages: "external",
    outdir: ".build",
    logLevel: "silent",
  });
  const loaded = new Set([entry]);
  // The set grows while it is walked.
  for (const file of loaded)
    for (const { path, kind } of metafile.inputs[file]?.imports ?? []) if (kind !== "dynamic-import") loaded.add(path);
  return loaded;
}

const LAZY: Readonly<Record<string, { without: readonly RegExp[]; still: string }>> = {
  "src/main.ts": {
    without: [/^undici/, /^nodemailer/, /^openid-client/, /^@aws-sdk/, /^@smithy/, /^pdfkit/, /^fontkit/, /^jq-wasm/],
    still: "koa",
  },
  "src/jobs/recording-thread.ts": {
    without: [/^src\/store\/index/, /^src\/domain\/policy\//, /^yaml/, /^re2js/, /^ajv/, /^typebox/],
    still: "better-sqlite3",
  },
  "src/evidence/hash-worker.ts": { without: [/^src\/store\//, /^better-sqlite3/], still: "node:crypto" },
};

for (const [entry, { without, still }] of Object.entries(LAZY))
  test(`${entry} loads nothing that it may never use`, async () => {
    const loaded = await loadedWith(entry);
    assert.ok(loaded.has(still), `the search did not find ${still}: ${[...loaded].join(", ")}`);
    for (const pattern of without)
      assert.equal(
        [...loaded].filter((path) => pattern.test(path)),
        [],
        `${pattern}`,
      );
  });

test.run();
