import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Io } from "../../src/cli/framework.ts";
import { showProgress } from "../../src/cli/progress.ts";
import { MB } from "../../src/domain/text/units.ts";

const test = suite("cli/progress");

/** What a terminal, or a pipe, gets on stderr. */
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

test("a terminal sees what is being done, how much of it and how much there is", () => {
  const text = shown(true);
  assert.match(text, /database \[\.{20}\] 0\.0 MB of 40 MB, /);
  assert.match(text, /evidence \[\.{20}\] 0 of 7, /);
});

test("and has its cursor and its line breaks back afterwards", () => {
  const text = shown(true);
  for (const [off, on] of [
    ["\u001b[?25l", "\u001b[?25h"],
    ["\u001b[?7l", "\u001b[?7h"],
  ] as const)
    assert.ok(text.lastIndexOf(on) > text.lastIndexOf(off), JSON.stringify(on));
});

test("nobody else sees anything", () => {
  assert.is(shown(false), "");
  assert.is(shown(true, true), "");
});

test.run();
