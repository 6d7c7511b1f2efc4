// Packs dist/assay and its accompanying files into dist/assay-VERSION-linux-x64.tar.gz. Archives of the same commit are
// identical.

import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { readBuildInfo } from "../src/assets.ts";
import { commitTime } from "./commit-time.ts";
import { createRunner, releaseFiles } from "./release.ts";
import { tarball } from "./tarball.ts";

const root = join(import.meta.dirname, "..");
const executable = join(root, "dist", "assay");
const name = `assay-${readBuildInfo().version}-linux-x64`;

const files = releaseFiles(root, readFileSync(executable), createRunner(executable));
const archive = await tarball(name, files, commitTime(root) ?? new Date(0));
writeFileSync(join(root, "dist", `${name}.tar.gz`), archive);
console.log(`dist/${name}.tar.gz: ${files.length} files, ${(archive.length / 1e6).toFixed(1)} MB`);
console.log(`sha256 ${createHash("sha256").update(archive).digest("hex")}`);
