// Packs dist/assay and what belongs to it into dist/assay-VERSION-linux-x64.tar.gz. Two runs on one commit give the
// same bytes.

import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { readBuildInfo } from "../src/assets.ts";
import { commitTime } from "./commit-time.ts";
import { asking, releaseFiles } from "./release.ts";
import { tarball } from "./tarball.ts";

const root = join(import.meta.dirname, "..");
const executable = join(root, "dist", "assay");
const name = `assay-${readBuildInfo().version}-linux-x64`;

const files = releaseFiles(root, readFileSync(executable), asking(executable));
const archive = await tarball(name, files, commitTime(root) ?? new Date(0));
writeFileSync(join(root, "dist", `${name}.tar.gz`), archive);
console.log(`dist/${name}.tar.gz: ${files.length} files, ${(archive.length / 1e6).toFixed(1)} MB`);
console.log(`sha256 ${createHash("sha256").update(archive).digest("hex")}`);
