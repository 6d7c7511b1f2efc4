/** Goldens: text files under version control that a review reads as a diff. `make golden` rewrites them. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import * as assert from "uvu/assert";
import { lineDiff } from "./line-diff.ts";
import { ROOT } from "./source.ts";

const MAX_DIFF_LINES = 40;

/** Compares a text with the golden of that name, or writes it there under `make golden`. */
export const matchesGolden = (name: string, text: string): void => matchesFile(`test/rules/goldens/${name}`, text);

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
