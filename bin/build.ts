// Builds dist/assay from this checkout: bundle, then pack. Builds of the same commit are identical.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { readBuildInfo } from "../src/assets.ts";
import { bundle } from "./bundle.ts";
import { pack } from "./pack.ts";

if (process.platform !== "linux" || process.arch !== "x64") {
  throw new Error(`executables are built on linux-x64, but this is ${process.platform}-${process.arch}`);
}

const started = performance.now();
const root = join(import.meta.dirname, "..");
const work = join(root, ".build");
const output = join(root, "dist", "assay");

await pack(work, await bundle(root, join(work, "bundle")), output);

const bytes = readFileSync(output);
const { version, commit } = readBuildInfo();
const megabytes = (bytes.length / 1e6).toFixed(1);
const seconds = ((performance.now() - started) / 1000).toFixed(1);
console.log(`dist/assay ${version} (${commit ?? "unknown commit"}): ${megabytes} MB in ${seconds} s`);
console.log(`sha256 ${createHash("sha256").update(bytes).digest("hex")}`);
