/** The difference of two texts, line by line. */
import fc from "fast-check";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { countChanges, diffLines } from "../../../src/domain/text/line-diff.ts";

const test = suite("domain/text/line-diff");

const SIGNS = { same: " ", gone: "-", new: "+" } as const;
const shown = (before: string, after: string): string[] =>
  diffLines(before, after).map(({ kind, text, old, now }) => `${SIGNS[kind]}${text} ${old ?? ""}:${now ?? ""}`);

test("names the lines that are gone and new between those that stay", () => {
  assert.equal(shown("a\nb\nc\nd\n", "a\nc\nx\nd\n"), [" a 1:1", "-b 2:", " c 3:2", "+x :3", " d 4:4"]);
  assert.equal(countChanges(diffLines("a\nb\nc\n", "a\nx\ny\n")), { added: 2, removed: 2 });
});

test("finds nothing between equal texts, also when only one ends in a line feed", () => {
  assert.equal(shown("a\nb\n", "a\nb\n"), [" a 1:1", " b 2:2"]);
  assert.equal(countChanges(diffLines("a\nb", "a\nb\n")), { added: 0, removed: 0 });
  assert.equal(shown("", ""), []);
  assert.equal(shown("", "a\n"), ["+a :1"]);
  assert.equal(shown("a\n", ""), ["-a 1:"]);
});

test("tells everything as replaced where a comparison would cost too much", () => {
  const lines = (what: string): string => Array.from({ length: 1_500 }, (_, at) => `${what} ${at}`).join("\n");
  assert.equal(countChanges(diffLines(`x\n${lines("a")}\ny`, `x\n${lines("b")}\ny`)), { added: 1_500, removed: 1_500 });
});

test("both texts can be read from the difference, and the lines of each are numbered", () => {
  const text = fc.array(fc.constantFrom("a", "b", "c", "")).map((lines) => lines.map((line) => `${line}\n`).join(""));
  fc.assert(
    fc.property(text, text, (before, after) => {
      const lines = diffLines(before, after);
      const side = (gone: "gone" | "new"): string =>
        lines.flatMap(({ kind, text: line }) => (kind === gone ? [] : [`${line}\n`])).join("");
      assert.is(side("new"), before);
      assert.is(side("gone"), after);
      const numbers = lines.flatMap(({ now }) => (now === null ? [] : [now]));
      assert.equal(
        numbers,
        numbers.map((_, at) => at + 1),
      );
    }),
    { seed: 13, numRuns: 300 },
  );
});

test.run();
