import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Io } from "../../src/cli/framework.ts";
import { showProgress } from "../../src/cli/progress.ts";
import { MB } from "../../src/domain/text/units.ts";

const test = suite("cli/progress");

/** Returns the stderr output of a terminal or a pipe. */
function shown(stderrIsTty: boolean, quiet = false): string {
  let text = "";
  const progress = showProgress({ stderrIsTty, stderr: (written: string) => void (text += written) } as Io, { quiet });
  progress.begin("database", 40 * MB);
  progress.reach(10 * MB);
  progress.begin("evidence", 7, "files");
  progress.end();
  progress.end();
  return text;
}

test("shows the label, the progress and the total on a terminal", () => {
  const text = shown(true);
  assert.match(text, /database \[\.{20}\] 0\.0 MB of 40 MB, /);
  assert.match(text, /evidence \[\.{20}\] 0 of 7, /);
});

test("restores the cursor and line wrapping of the terminal", () => {
  const text = shown(true);
  for (const [off, on] of [
    ["\u001b[?25l", "\u001b[?25h"],
    ["\u001b[?7l", "\u001b[?7h"],
  ] as const)
    assert.ok(text.lastIndexOf(on) > text.lastIndexOf(off), JSON.stringify(on));
});

test("shows nothing with --json or without a terminal", () => {
  assert.is(shown(false), "");
  assert.is(shown(true, true), "");
});

test.run();
