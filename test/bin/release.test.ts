/** The documents of the release archive. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { releasedReadme } from "../../bin/release.ts";
import { linksOf, readDocument } from "../rules/documentation.ts";
import { ROOT } from "../rules/source.ts";

const test = suite("bin/release");

const readme = releasedReadme(readDocument("README.md"));

test("the version has a section in CHANGELOG.md, with its date", () => {
  const { version } = JSON.parse(readDocument("package.json")) as { version: string };
  const lock = JSON.parse(readDocument("package-lock.json")) as { version: string; packages: Record<string, any> };
  assert.equal([lock.version, lock.packages[""].version], [version, version]);
  const [newest = ""] = [...readDocument("CHANGELOG.md").matchAll(/^## (?!Unreleased$)(.*)$/gm)].map(
    ([, name]) => name,
  );
  assert.match(newest, new RegExp(`^${version.replaceAll(".", "\\.")} - 20\\d\\d-\\d\\d-\\d\\d$`));
});

test("the README of the archive names the executable first, and nothing that needs a checkout", () => {
  const commands = [...readme.replace(/^```[^]*?^```$/gm, "").matchAll(/^ {4}(\S.*)$/gm)].map(
    (match) => match[1] as string,
  );
  assert.equal(commands.slice(0, 2), ["sha256sum --check --quiet SHA256SUMS", "./assay dev --demo"]);
  assert.not.match(readme, /\bmake (?:run|test|dist)\b|Development|CONTRIBUTING|<!--/);
});

test("the links of the README lead to files of the archive", () => {
  const folders: Readonly<Record<string, string>> = { guide: "src/guide", images: "src/docs/images" };
  const broken = linksOf(readme).filter((link) => {
    const [folder = "", ...rest] = link.split("/");
    return rest.length === 0
      ? !["CHANGELOG.md", "SECURITY.md", "LICENSE"].includes(link)
      : !folders[folder] || !existsSync(join(ROOT, folders[folder], ...rest));
  });
  assert.equal(broken, []);
});

test("a part of the source is left out wherever it stands", () => {
  const text =
    "# A\n\n<!-- source -->\n    make run\n<!-- /source -->\n\n" +
    "b\n<!-- x -->\nc\n<!-- source -->\n## D\n<!-- /source -->\n";
  assert.is(releasedReadme(text), "# A\n\nb\nc\n");
});

test.run();
