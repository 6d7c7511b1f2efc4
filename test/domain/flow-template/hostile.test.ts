import { suite } from "uvu";
import * as assert from "uvu/assert";
import { parseTemplate, renderTemplateProblems } from "../../../src/domain/flow-template/template.ts";

const test = suite("domain/flow-template/hostile");

const MILLION = 1_000_000;
const lines = (count: number, line: (index: number) => string): string =>
  Array.from({ length: count }, (_, index) => line(index)).join("");
const attestations = (count: number): string => lines(count, (index) => `  - {name: a${index}, type: snyk}\n`);

/** Without limits, each of them would overflow the stack or take minutes. */
const hostile: [what: string, text: string, problem: string][] = [
  ["flow lists a million deep", "[".repeat(MILLION), "Nested deeper than 64 levels"],
  ["flow maps", "{a: ".repeat(MILLION / 4), "Nested deeper than 64 levels"],
  ["block lists on one line", "- ".repeat(MILLION / 2), "Nested deeper than 64 levels"],
  ["explicit keys", "? ".repeat(MILLION / 2), "Nested deeper than 64 levels"],
  ["indented maps", lines(1000, (index) => `${" ".repeat(index)}a:\n`), "Nested deeper than 64 levels"],
  [
    "a hundred thousand keys",
    lines(100_000, (index) => `k${index}: 1\n`),
    "The file is too large: it holds more than 100000 YAML tokens, each counted once for every 64 characters",
  ],
  ["a million closing brackets", "]".repeat(MILLION), "Not YAML: Unexpected flow-seq-end token in YAML document"],
  [
    "documents without end",
    `version: 1\n${"---\n".repeat(MILLION / 4)}`,
    "Expected a single YAML document, but another one begins here",
  ],
  [
    "a number of sixty thousand digits",
    `version: ${"9".repeat(60_000)}`,
    `Input should be 1 [input: ${"9".repeat(80)}...]`,
  ],
  [
    "a name of line breaks",
    `trail: {artifacts: [{name: "${"\\n".repeat(30_000)}"}]}`,
    `String should have at most 256 characters [input: ${"\\u000a".repeat(80)}...]`,
  ],
  [
    "aliases that multiply",
    `trail:\n  attestations: &all\n${attestations(3000)}  ` +
      `artifacts:\n${lines(3000, (index) => `  - {name: x${index}, attestations: *all}\n`)}`,
    "Template has more than 2000 entries",
  ],
  [
    "a name of ten million blank lines",
    `trail:\n  artifacts:\n  - name: "a${"\n".repeat(9.9 * MILLION)}b"`,
    "This value is longer than 65536 characters",
  ],
  ["a text in quotes of a megabyte", `version: '${"a".repeat(MILLION)}'`, "This value is longer than 65536 characters"],
  [
    "a plain value of a megabyte of words",
    `version: ${"a ".repeat(MILLION / 2)}`,
    "This value is longer than 65536 characters",
  ],
  ["a block of a million lines", `version: |\n${" a\n".repeat(MILLION)}`, "This value is longer than 65536 characters"],
  [
    "a block of blank lines",
    `version: >\n a${"\n".repeat(9.9 * MILLION)} b\n`,
    "This value is longer than 65536 characters",
  ],
  [
    "a name of 257 characters",
    `trail: {artifacts: [{name: ${"n".repeat(257)}}]}`,
    `String should have at most 256 characters [input: ${"n".repeat(80)}...]`,
  ],
  [
    "comments without end",
    `version: 1\n${"#\n".repeat(MILLION)}trail: null`,
    "The file is too large: it holds more than 200000 comments, spaces and line ends",
  ],
];
for (const [what, text, problem] of hostile) {
  test(`${what}: one short refusal`, () => {
    const { problems } = parseTemplate(text);
    assert.equal(
      problems?.map((each) => each.problem),
      [problem],
    );
  });
}

test("does not expand an alias bomb", () => {
  const bomb =
    `a: &a0 [x]\n${lines(60, (index) => `a${index}: &a${index + 1} [*a${index}, *a${index}]\n`)}trail: ` +
    `{attestations: *a60}`;
  assert.is(parseTemplate(bomb).problems?.at(-1)?.location, "trail.attestations.1");
});

test("reads two thousand attestations, and a file padded to its limit", () => {
  assert.is(
    parseTemplate(`trail:\n  attestations:\n${attestations(2_000)}`).template?.trail.attestations.length,
    2_000,
  );
  // Templates that earlier versions accepted still load.
  assert.is(
    parseTemplate(`trail:\n  attestations:\n${attestations(9_000)}`, { isStored: true }).template?.trail.attestations
      .length,
    9_000,
  );
  const comments = "# padding\r\n".repeat(MILLION / 2);
  const { template } = parseTemplate(`${comments}version: 1\r\n\r\n${comments}#`);
  assert.equal(template, { version: 1, trail: { attestations: [], artifacts: [] } });
  assert.equal(parseTemplate(`# one\n# two\nversion: 2\n\n# end\n`).problems, [
    { location: "version", problem: "Input should be 1 [input: 2]", line: 3, column: 10 },
  ]);
});

test("strips padding only if it is a comment", () => {
  const { problems } = parseTemplate("trail:\n  artifacts:\n  - name: |-\n      a\n      # b\n# c\n");
  assert.equal(
    problems?.map(({ location, line }) => [location, line]),
    [["trail.artifacts.0.name", 3]],
  );
  // A quoted text may end in a line that looks like a comment; the name is refused with and without that line.
  assert.is(parseTemplate('trail: {artifacts: [{name: "a\n# b"}]}').template, null);
});

test("reads any mutated template or refuses it in the specified form", () => {
  const seed =
    "version: 1\ntrail:\n  attestations: &x\n  - {name: a, type: '*'}\n  - name: b\n    type: custom:c # d\n " +
    ' artifacts:\n  - name: "e"\n    attestations: *x\n';
  const pieces = [
    "\n",
    " ",
    "\t",
    "- ",
    ": ",
    "? ",
    "[",
    "]",
    "{",
    "}",
    ",",
    "&x ",
    "*x",
    "!t ",
    "!!int ",
    "|",
    ">-",
    "'",
    '"',
    "#",
    "%YAML 1.1\n",
    "---\n",
    "...\n",
    "\u0000",
    "\ud83d",
    "\ufeff",
    "\r",
    "\\",
    "<<",
    "~",
    "1",
    "__proto__",
    "é",
    "@",
    "`",
    seed,
  ];
  let state = 7;
  const next = (below: number): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 4294967296) * below);
  };
  let read = 0;
  for (let round = 0; round < 2000; round += 1) {
    let text = seed;
    for (let change = next(5) + 1; change > 0; change -= 1) {
      const at = next(text.length + 1);
      text = text.slice(0, at) + (pieces[next(pieces.length)] ?? "") + text.slice(at + next(4));
    }
    const { template, problems } = parseTemplate(text);
    if (template !== null) read += 1;
    else {
      const rendered = renderTemplateProblems(problems).split("\n");
      assert.is(rendered.length, 1 + 2 * problems.length, text);
      assert.is(rendered[0], `${problems.length} validation errors for Template`);
      for (const { line, column, location } of problems) {
        assert.ok(location !== "" && line >= 1 && column >= 1 && line <= text.split("\n").length, text);
      }
    }
  }
  assert.ok(read > 0, "some mutations are harmless");
});

test.run();
