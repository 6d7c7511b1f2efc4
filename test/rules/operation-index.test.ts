/**
 * src/api/index.ts names every file of src/api/ that exports an operation: it is derived, and `make golden` writes it.
 */
import { globSync } from "node:fs";
import { join, sep } from "node:path";
import { suite } from "uvu";
import { isOperation } from "../../src/api/context.ts";
import { matchesFile } from "./golden.ts";
import { ROOT } from "./source.ts";

const test = suite("rules/operation-index");

const files = globSync("**/*.ts", { cwd: join(ROOT, "src/api") })
  .map((file) => file.split(sep).join("/"))
  .filter((file) => file !== "index.ts")
  .sort();

const nameOf = (file: string): string =>
  file.replace(/\.ts$/, "").replace(/[^a-z0-9]+([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());

test("every file that exports an operation is in src/api/index.ts", async () => {
  const resources: string[] = [];
  for (const file of files) {
    const exported = (await import(join(ROOT, "src/api", file))) as Record<string, unknown>;
    if (Object.values(exported).flat().some(isOperation)) resources.push(file);
  }
  matchesFile(
    "src/api/index.ts",
    [
      "/** All operations. Written by `make golden` from the files of this folder that export one. */",
      'import { isOperation } from "./context.ts";',
      'import type { AssayOperation } from "./context.ts";',
      ...resources.map((file) => `import * as ${nameOf(file)} from "./${file}";`),
      "",
      "const resources: readonly object[] = [",
      ...resources.map((file) => `  ${nameOf(file)},`),
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

test.run();
