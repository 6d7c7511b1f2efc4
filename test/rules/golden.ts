/** Goldens: text files under version control that a review reads as a diff. `make golden` rewrites them. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as assert from "uvu/assert";
import { ROOT } from "./source.ts";

export function matchesGolden(name: string, text: string): void {
  const folder = join(ROOT, "test/rules/goldens");
  const path = join(folder, name);
  if (process.env["UPDATE_GOLDENS"]) {
    mkdirSync(folder, { recursive: true });
    writeFileSync(path, text);
    return;
  }
  const golden = existsSync(path) ? readFileSync(path, "utf8") : "";
  assert.fixture(
    text,
    golden,
    `test/rules/goldens/${name} differs. If the change is meant, run \`make golden\` and commit the difference`,
  );
}
