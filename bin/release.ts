// The contents of a release: the executable, and the files that it prints. Except for the documents of the checkout,
// all of them come from the executable, so that the archive cannot contradict it.

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import type { ArchivedFile } from "./tarball.ts";

/** The path of the executable in the systemd units. */
const INSTALLED = "/usr/local/bin/assay";

/** A function that runs the executable at `path` and returns its standard output. @throws Error when it fails. */
export const createRunner =
  (path: string) =>
  (args: readonly string[]): string =>
    execFileSync(path, args, {
      encoding: "utf8",
      maxBuffer: 256 * 1_048_576,
      env: {},
      stdio: ["ignore", "pipe", "inherit"],
    });

/** The files of a release of the checkout at `root`. `run` runs the executable, whose bytes are `executable`. */
export function releaseFiles(
  root: string,
  executable: Buffer,
  run: (args: readonly string[]) => string,
): ArchivedFile[] {
  const { units } = JSON.parse(run(["systemd", "--socket", "--executable", INSTALLED, "--json"])) as {
    units: Record<string, string>;
  };
  const { licenses } = JSON.parse(run(["licenses", "--json"])) as { licenses: { file: string; text: string }[] };
  const text = (path: string, content: string): ArchivedFile => ({
    path,
    content: Buffer.from(content),
    executable: false,
  });
  const document = (name: string): string => readFileSync(join(root, name), "utf8");
  const files = [
    { path: "assay", content: executable, executable: true },
    // Two variants: a service that listens by itself, and one that requires the socket unit.
    text("assay.service", run(["systemd", "--executable", INSTALLED])),
    text("socket/assay.service", units["assay.service"] ?? ""),
    text("socket/assay.socket", units["assay.socket"] ?? ""),
    text("assay.1", run(["man"])),
    text("completions/assay.bash", run(["completion", "bash"])),
    text("completions/_assay", run(["completion", "zsh"])),
    text("completions/assay.fish", run(["completion", "fish"])),
    text("sbom.cdx.json", run(["sbom"])),
    ...licenses.map(({ file, text: content }) => text(`licenses/${file}`, content)),
    ...readdirSync(join(root, "src", "guide")).map((name) => text(`guide/${name}`, document(`src/guide/${name}`))),
    ...readdirSync(join(root, "src", "docs", "images")).map((name) => ({
      path: `images/${name}`,
      content: readFileSync(join(root, "src", "docs", "images", name)),
      executable: false,
    })),
    text("README.md", releasedReadme(document("README.md"))),
    text("CHANGELOG.md", document("CHANGELOG.md")),
    text("SECURITY.md", document("SECURITY.md")),
    text("LICENSE", document("LICENSE")),
  ];
  return [...files, text("SHA256SUMS", checksums(files))];
}

/**
 * The README without what only a checkout can do: the parts between `<!-- source -->` and `<!-- /source -->`. Links to
 * the guide and the pictures lead into the archive.
 */
export const releasedReadme = (text: string): string =>
  text
    .replace(/(?<=\n)\n?<!-- source -->\n[^]*?<!-- \/source -->\n/g, "")
    .replace(/^<!-- .* -->\n/gm, "")
    .replaceAll("](src/guide/", "](guide/")
    .replaceAll("](src/docs/images/", "](images/");

/** Checksums in the format of `sha256sum --check`. */
function checksums(files: readonly ArchivedFile[]): string {
  const lines = files.map(({ path, content }) => `${createHash("sha256").update(content).digest("hex")}  ${path}\n`);
  return lines.sort((a, b) => (a.slice(66) < b.slice(66) ? -1 : 1)).join("");
}
