/**
 * src/api/index.ts names every file of src/api/ that exports an operation, and src/web/pages/index.ts every one of
 * src/web/pages/ that exports a page: they are derived, and `make golden` writes them.
 */
import { globSync } from "node:fs";
import { join, sep } from "node:path";
import { suite } from "uvu";
import { isOperation } from "../../src/api/context.ts";
import { isPage } from "../../src/web/page/page.ts";
import { matchesFile } from "./golden.ts";
import { ROOT } from "./source.ts";

const test = suite("rules/operation-index");

const nameOf = (file: string): string =>
  file.replace(/\.ts$/, "").replace(/[^a-z0-9]+([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());

/** The files below a folder of src/ that export something, or a list, of that kind. */
async function filesWith(folder: string, isOne: (value: unknown) => boolean): Promise<string[]> {
  const files = globSync("**/*.ts", { cwd: join(ROOT, folder) })
    .map((file) => file.split(sep).join("/"))
    .filter((file) => file !== "index.ts")
    .sort();
  const found: string[] = [];
  for (const file of files) {
    const exported = (await import(join(ROOT, folder, file))) as Record<string, unknown>;
    if (Object.values(exported).flat().some(isOne)) found.push(file);
  }
  return found;
}

const imports = (files: readonly string[]): string[] =>
  files.map((file) => `import * as ${nameOf(file)} from "./${file}";`);
const entries = (files: readonly string[]): string[] => files.map((file) => `  ${nameOf(file)},`);

test("every file that exports an operation is in src/api/index.ts", async () => {
  const resources = await filesWith("src/api", isOperation);
  matchesFile(
    "src/api/index.ts",
    [
      "/** All operations. Written by `make golden` from the files of this folder that export one. */",
      'import { isOperation } from "./context.ts";',
      'import type { AssayOperation } from "./context.ts";',
      ...imports(resources),
      "",
      "const resources: readonly object[] = [",
      ...entries(resources),
      "];",
      "",
      "const all: readonly AssayOperation[] = resources.flatMap((resource) =>",
      "  Object.values(resource).flat().filter(isOperation),",
      ");",
      "",
      'export const operations = all.filter(({ permission }) => permission !== "operator");',
      "/** What only the operator may do. */",
      'export const operatorOperations = all.filter(({ permission }) => permission === "operator");',
      "",
    ].join("\n"),
  );
});

test("every file that exports a page is in src/web/pages/index.ts", async () => {
  const files = await filesWith("src/web/pages", isPage);
  matchesFile(
    "src/web/pages/index.ts",
    [
      "/** All pages. Written by `make golden` from the files of this folder that export one. */",
      'import { isPage } from "../page/page.ts";',
      'import type { Page } from "../page/page.ts";',
      ...imports(files),
      "",
      "const files: readonly object[] = [",
      ...entries(files),
      "];",
      "",
      "export const pages: readonly Page[] = files.flatMap((file) => Object.values(file).flat().filter(isPage));",
      "",
    ].join("\n"),
  );
});

test.run();
