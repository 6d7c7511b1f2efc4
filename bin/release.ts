// What a release consists of: the executable, and what it tells of itself. Everything but the documents of the checkout
// is asked of the executable, so that nothing in the archive can differ from what is inside.

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import type { Packed } from "./tarball.ts";

/** Where the units expect the executable. */
const INSTALLED = "/usr/local/bin/assay";

/** What the executable at `path` prints to standard output. @throws Error when it fails. */
export const asking =
  (path: string) =>
  (args: readonly string[]): string =>
    execFileSync(path, args, {
      encoding: "utf8",
      maxBuffer: 256 * 1_048_576,
      env: {},
      stdio: ["ignore", "pipe", "inherit"],
    });

/** The files of a release of the checkout at `root`; `ask` runs the executable whose bytes `executable` are. */
export function releaseFiles(root: string, executable: Buffer, ask: (args: readonly string[]) => string): Packed[] {
  const { units } = JSON.parse(ask(["systemd", "--socket", "--executable", INSTALLED, "--json"])) as {
    units: Record<string, string>;
  };
  const { licenses } = JSON.parse(ask(["licenses", "--json"])) as { licenses: { file: string; text: string }[] };
  const text = (path: string, content: string): Packed => ({ path, content: Buffer.from(content), executable: false });
  const document = (name: string): string => readFileSync(join(root, name), "utf8");
  const files = [
    { path: "assay", content: executable, executable: true },
    // Without the socket the service listens by itself; with it, it needs it.
    text("assay.service", ask(["systemd", "--executable", INSTALLED])),
    text("socket/assay.service", units["assay.service"] ?? ""),
    text("socket/assay.socket", units["assay.socket"] ?? ""),
    text("assay.1", ask(["man"])),
    text("completions/assay.bash", ask(["completion", "bash"])),
    text("completions/_assay", ask(["completion", "zsh"])),
    text("completions/assay.fish", ask(["completion", "fish"])),
    text("sbom.cdx.json", ask(["sbom"])),
    ...licenses.map(({ file, text: content }) => text(`licenses/${file}`, content)),
    ...readdirSync(join(root, "src", "guide")).map((name) => text(`guide/${name}`, document(`src/guide/${name}`))),
    text("README.md", releasedReadme(document("README.md"))),
    text("CHANGELOG.md", document("CHANGELOG.md")),
    text("LICENSE", document("LICENSE")),
  ];
  return [...files, text("SHA256SUMS", checksums(files))];
}

/** The README without its chapter on the source, and with the guide where the archive has it. */
const releasedReadme = (text: string): string =>
  text.replace(/\n## Development\n[^]*$/, "").replaceAll("](src/guide/", "](guide/");

/** As `sha256sum --check` reads them. */
function checksums(files: readonly Packed[]): string {
  const lines = files.map(({ path, content }) => `${createHash("sha256").update(content).digest("hex")}  ${path}\n`);
  return lines.sort((a, b) => (a.slice(66) < b.slice(66) ? -1 : 1)).join("");
}
