/** Goldens: text files under version control that a review reads as a diff. `make golden` rewrites them. */
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import * as assert from "uvu/assert";
import { lineDiff } from "./line-diff.ts";
import { ROOT } from "./source.ts";

const MAX_DIFF_LINES = 40;
const GOLDENS = join(ROOT, "test/rules/goldens");

/** Compares a text with the golden of that name, or writes it there under `make golden`. */
export const matchesGolden = (name: string, text: string): void => matchesFile(`test/rules/goldens/${name}`, text);

/** As `matchesGolden`, for all files of a folder of goldens, by name: another file there is stale, and refused. */
export function matchesGoldens(folder: string, texts: ReadonlyMap<string, string>): void {
  for (const [name, text] of texts) matchesGolden(`${folder}/${name}`, text);
  const stale = listStale(folder, texts);
  if (process.env["UPDATE_GOLDENS"]) for (const name of stale) rmSync(join(GOLDENS, folder, name));
  else assert.equal(stale, [], `the code makes none of these files of ${folder}/; \`make golden\` deletes them`);
}

/** The files of a folder of goldens that are not among these. */
export const listStale = (folder: string, texts: ReadonlyMap<string, string>): string[] =>
  [...readGoldens(folder).keys()].filter((name) => !texts.has(name));

/** The texts of a folder of goldens, by the names of their files. */
export const readGoldens = (folder: string): Map<string, string> =>
  new Map(readdirSync(join(GOLDENS, folder)).map((name) => [name, readFileSync(join(GOLDENS, folder, name), "utf8")]));

/**
 * As `matchesGolden`, for a file anywhere in the checkout that is derived as a whole; `path` is relative to its root.
 */
export function matchesFile(path: string, text: string): void {
  const file = join(ROOT, path);
  if (process.env["UPDATE_GOLDENS"]) {
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
    return;
  }
  const golden = existsSync(file) ? readFileSync(file, "utf8") : "";
  if (text === golden) return;
  const lines = lineDiff(golden, text);
  const rest = lines.length > MAX_DIFF_LINES ? `\n... and ${lines.length - MAX_DIFF_LINES} more lines` : "";
  assert.unreachable(
    `${path} differs from what the code says (- golden, + ` +
      `code):\n${lines.slice(0, MAX_DIFF_LINES).join("\n")}${rest}\n` +
      "If the change is meant, accept it with `make golden`, and commit the difference.",
  );
}
