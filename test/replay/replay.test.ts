/**
 * Answers and tables are those of the last time, to the byte: `make replay`. What a change of the code changes here is
 * read and committed with it (`make replay RECORD=1`), and a step that moves code changes nothing.
 *
 * Long bodies and tables are recorded as digests. The texts of a run stay in .build/replay under them, so a run on the
 * commit before shows what a digest was.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import { chapters } from "./chapters.ts";
import { createRecorder } from "./recording.ts";

const TEXTS = join(import.meta.dirname, "..", "..", ".build", "replay");
const RECORDED = join(import.meta.dirname, "..", "cases", "replay");
const DIGEST = /[0-9a-f]{64}$/;

const test = suite("replay");
for (const { name, record } of chapters)
  test(name, async () => {
    mkdirSync(TEXTS, { recursive: true });
    const recorder = createRecorder(TEXTS);
    await record(recorder);
    const file = join(RECORDED, `${name}.txt`);
    if (process.env["RECORD"]) {
      mkdirSync(RECORDED, { recursive: true });
      writeFileSync(file, recorder.text());
    } else {
      writeFileSync(join(TEXTS, `${name}.txt`), recorder.text());
      const difference = firstDifference(readFileSync(file, "utf8"), recorder.text());
      if (difference !== null) throw new Error(`${name}: ${difference}`);
    }
  });

/** Where two recordings part, with the request before it; null where they are equal. */
function firstDifference(was: string, is: string): string | null {
  if (was === is) return null;
  const [before, now] = [was.split("\n"), is.split("\n")];
  const at = now.findIndex((line, index) => line !== before[index]);
  const line = at === -1 ? now.length : at;
  const start = now.lastIndexOf("", line) + 1;
  const count = Math.abs(before.length - now.length);
  return [
    `line ${line + 1} differs${count > 0 ? ` (${count} lines ${now.length > before.length ? "more" : "fewer"})` : ""}`,
    ...now.slice(start, line),
    `was: ${before[line] ?? "the end"}`,
    ...placeOf(before[line]),
    `is:  ${now[line] ?? "the end"}`,
    ...placeOf(now[line]),
    `diff ${join("test", "cases", "replay")} .build/replay shows all differences`,
  ].join("\n");
}

/** Where the text of a digest is. */
function placeOf(line = ""): string[] {
  const [digest] = DIGEST.exec(line) ?? [];
  if (digest === undefined) return [];
  const path = join(TEXTS, digest);
  return [existsSync(path) ? `     in ${path}` : "     whose text a run on the commit before leaves in .build/replay"];
}

test.run();
