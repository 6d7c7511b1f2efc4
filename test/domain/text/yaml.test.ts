import { suite } from "uvu";
import * as assert from "uvu/assert";
import { isMap, isScalar, isSeq } from "yaml";
import type { Scalar } from "yaml";
import { isNullNode, OPERATOR_FILE, readYaml, describeNode } from "../../../src/domain/text/yaml.ts";
import type { YamlLimits, YamlText } from "../../../src/domain/text/yaml.ts";

const LIMITS: YamlLimits = { tokens: 1_000, nesting: 10, problems: 5 };
const MB = 1_048_576;
const read = (text: string, limits = LIMITS): YamlText => readYaml(text, { limits });

/** Problems as `line:column kind: text`. */
const listed = ({ problems }: YamlText): string[] =>
  problems.map(({ line, column, kind, text }) => `${line}:${column} ${kind}: ${text}`);

const any = suite("domain/text/yaml");

any("reads a text with positions", () => {
  const { root, problems, brokenAt, positionOf: place } = read("\ufeff# head\r\na:\r\n  - b: 1\n# tail\n");
  assert.equal(
    { problems, brokenAt, String: String(root) },
    { problems: [], brokenAt: null, String: '{"a":[{"b":1}]}' },
  );
  assert.equal(place(root), { line: 2, column: 1 });
  assert.equal(place(null), { line: 2, column: 1 });
  assert.equal(place(-1_000), { line: 1, column: 1 });
  assert.equal(place(1_000), { line: 5, column: 1 });
});

any("distinguishes no document from null", () => {
  for (const text of ["", "# only this", "\n \n", "\ufeff"])
    assert.equal({ root: read(text).root, listed: listed(read(text)) }, { root: null, listed: [] }, text);
  for (const text of ["null", "~", "---\n"]) assert.ok(read(text).root !== null && isNullNode(read(text).root), text);
  assert.ok([null, undefined, read("~").root].every(isNullNode));
  assert.not.ok(isNullNode(read("''").root));
});

any("reports every problem at once, in text order", () => {
  const table: [text: string, problems: string[]][] = [
    [
      "a: @x\nb: c: d\n",
      [
        "1:4 syntax: Plain value cannot start with reserved character @",
        "2:4 syntax: Nested mappings are not allowed in compact mappings",
      ],
    ],
    [
      "a: *\nb: [",
      [
        "1:4 alias: Alias cannot be an empty string",
        "2:5 syntax: Flow sequence in block collection must be sufficiently indented and end with a ]",
      ],
    ],
    [
      "a: !x 1\nb: *y\n--- c",
      [
        "1:4 tag: Unresolved tag: !x",
        "2:4 anchor: the alias *y has no anchor before it",
        "3:1 documents: a second document begins here, one file holds one document",
      ],
    ],
    [
      "]\n]",
      [
        "1:1 syntax: Unexpected flow-seq-end token in YAML document",
        "2:1 syntax: Unexpected flow-seq-end token in YAML document",
      ],
    ],
    [
      "a: 1\n--- }\n--- }\n--- }",
      [
        "2:1 documents: a second document begins here, one file holds one document",
        "2:5 syntax: Unexpected flow-map-end token in YAML document",
      ],
    ],
    // An exceeded limit does not hide the problems before it.
    [
      `]\n${"[".repeat(20)}`,
      ["1:1 syntax: Unexpected flow-seq-end token in YAML document", "2:11 nesting: more than 10 levels deep"],
    ],
  ];
  for (const [text, expected] of table) assert.equal(listed(read(text)), expected, text);
});

any("reports the offset of the first syntax error", () => {
  for (const [text, at] of [
    ["a: 1\nb: @x\nc: }", 8],
    ["a: }\nb: @x", 3],
    ["a: !x y\nb: *z", null],
  ] as const) {
    assert.is(read(text).brokenAt, at, text);
    assert.ok(read(text).root !== null, text);
  }
});

any("refuses a character that YAML does not allow, anywhere", () => {
  for (const [character, name] of [
    ["\0", "0000"],
    ["\x1b", "001B"],
    ["\x7f", "007F"],
    ["\x9b", "009B"],
    ["\ud800", "D800"],
    ["\udfff", "DFFF"],
    ["\uffff", "FFFF"],
  ]) {
    const problem = `character: the character U+${name} is not allowed in YAML`;
    for (const [text, place] of [
      [`#${character}\na: b\n`, "1:2"],
      [`\ufeff#${character}\na: b\n`, "1:2"],
      [`\n # ${character}\na: b`, "2:4"],
      [`a: b\n#\n# x${character}`, "3:4"],
      [`a: b # ${character}\n`, "1:8"],
      [`a: b${character}`, "1:5"],
      [`a: "${character}"`, "1:5"],
    ]) {
      assert.equal(listed(read(text ?? "")), [`${place} ${problem}`], JSON.stringify(text));
      assert.equal(listed(readYaml(text ?? "", OPERATOR_FILE)), [`${place} ${problem}`], JSON.stringify(text));
    }
  }
  assert.equal(listed(read(`a: "\t\x85\xa0\ufeff\ufffd\u{10ffff}\\0" # \u2028\r\n`)), []);
  assert.is(read("#\0\0\0\0\0\0\0").problems.length, LIMITS.problems);
});

any("resolves aliases to the latest anchor before them", () => {
  const { root, problems, resolve } = read("a: &x 1\nb: *x\nc: &x 2\nd: *x\n");
  assert.equal(problems, []);
  const values = isMap(root) ? root.items.map(({ value }) => resolve(value)) : [];
  assert.equal(
    values.map((node) => isScalar(node) && node.value),
    [1, 1, 2, 2],
  );
  const cycle = read("&x [*x]");
  const inside = isSeq(cycle.root) ? cycle.resolve(cycle.root.items[0]) : null;
  assert.ok(inside === cycle.root);
  const lost = read("*x");
  assert.ok(lost.resolve(lost.root) === lost.root);
});

any("reads YAML 1.2 with the core schema, regardless of directives", () => {
  const { root, problems } = read("%YAML 1.1\n---\n[yes, 010, 0x10, 1_0, TRUE, ~, 2001-01-01, {<<: {a: 1}}]");
  assert.equal(
    { problems, toJSON: root?.toJSON() },
    { problems: [], toJSON: ["yes", 10, 16, "1_0", true, null, "2001-01-01", { "<<": { a: 1 } }] },
  );
});

any("finds positions inside scalars", () => {
  const text = "- ab\n  cd\n- 'it''s'\n- |\n  x\n  yz\n";
  const { root, positionInside: placeInside } = read(text);
  const scalars = (isSeq(root) ? root.items : []) as Scalar[];
  const at = (index: number, offset: number): string => {
    const { line, column } = placeInside(scalars[index] as Scalar, offset);
    return `${line}:${column}`;
  };
  assert.equal(
    { "at 0 0": at(0, 0), "at 0 3": at(0, 3), "at 0 4": at(0, 4), "at 0 99": at(0, 99) },
    { "at 0 0": "1:3", "at 0 3": "2:3", "at 0 4": "2:4", "at 0 99": "2:5" },
  );
  assert.equal({ "at 1 1": at(1, 1), "at 1 3": at(1, 3) }, { "at 1 1": "3:5", "at 1 3": "3:3" });
  assert.equal({ "at 2 0": at(2, 0), "at 2 3": at(2, 3) }, { "at 2 0": "5:3", "at 2 3": "6:4" });
});

any("describes values in one short line", () => {
  const { root } = read(
    `[a, 1.50, ~, , "", "\\n\\ud800\\e", {a: b}, [c], *x, ${"9".repeat(100)}, TRUE]`.replace(", ,", ","),
  );
  const shown = isSeq(root) ? root.items.map(describeNode) : [];
  assert.equal(shown, [
    "a",
    "1.50",
    "~",
    '""',
    '"\\u000a\\ud800\\u001b"',
    "{...}",
    "[...]",
    "*x, an alias without anchor",
    `${"9".repeat(80)}...`,
    "TRUE",
  ]);
  assert.equal(
    {
      "shownNode(null)": describeNode(null),
      "shownNode undefined": describeNode(undefined),
      "shownNode root": describeNode(read("---\n").root),
    },
    { "shownNode(null)": "null", "shownNode undefined": "null", "shownNode root": "null" },
  );
});

/** Without limits, each of them would overflow the stack or take minutes. */
const HOSTILE: [what: string, text: string, problem: RegExp][] = [
  ["flow lists", "[".repeat(MB), /nesting: more than 10 levels deep/],
  ["flow maps", "{a: ".repeat(MB / 4), /nesting/],
  ["compact lists", "- ".repeat(MB / 2), /nesting/],
  ["compact maps", "a: ".repeat(MB / 3), /nesting/],
  ["explicit keys", "? ".repeat(MB / 2), /nesting/],
  ["indented maps", Array.from({ length: 1_000 }, (_, i) => `${" ".repeat(i)}a:\n`).join(""), /nesting/],
  ["commas", `[${",".repeat(MB)}`, /size: the file is too large: it holds more than 1000 YAML tokens/],
  ["anchors", "&a ".repeat(MB / 3), /size/],
  ["tags", "!a ".repeat(MB / 3), /size/],
  ["keys", Array.from({ length: 100_000 }, (_, i) => `k${i}: 1\n`).join(""), /size/],
  ["aliases", `- &a []\n- [${"*a,".repeat(MB / 3)}]`, /size/],
  [
    "comments in the middle",
    `a: 1\n${"#\n".repeat(600_000)}b: 2`,
    /size: the file is too large: it holds more than 1000000 comments, spaces and line ends/,
  ],
  ["documents", `a\n${"---\n".repeat(MB / 4)}`, /^2:1 documents/],
  ["closing brackets", "]".repeat(MB), /^1:1 syntax: Unexpected flow-seq-end token in YAML document$/],
];
for (const [what, text, problem] of HOSTILE) {
  any(`hostile: ${what}`, () => {
    const source = read(text);
    assert.match(listed(source)[0] ?? "", problem);
    assert.ok(source.problems.length <= LIMITS.problems);
  });
}

any.run();

const test = suite("domain/text/yaml: plain files");

const plain = (text: string): YamlText => readYaml(text, OPERATOR_FILE);

test("reads a plain file with positions", () => {
  const { root, problems, positionOf: place } = plain("# head\na:\n  - b: 1\n");
  assert.equal(problems, []);
  assert.is(String(root), '{"a":[{"b":1}]}');
  assert.equal(place(root), { line: 2, column: 1 });
  assert.equal(place(null), { line: 2, column: 1 });
});

test("refuses everything that expands or reinterprets, with its position", () => {
  const table: [string, [number, number, string][]][] = [
    [
      "a: &x 1\nb: *x",
      [
        [1, 7, "anchors (&) are not supported, put quotes around a text"],
        [2, 4, "aliases (*) are not supported, put quotes around a text"],
      ],
    ],
    [
      "a: !!str 1\nb: !foo {}\nc: ! x",
      [
        [1, 10, "tags (!) are not supported, put quotes around a text"],
        [2, 9, "tags (!) are not supported, put quotes around a text"],
        [3, 6, "tags (!) are not supported, put quotes around a text"],
      ],
    ],
    ["%YAML 1.1\n---\na: yes", [[1, 1, "directives (%) are not supported"]]],
    ["a: 1\n---\nb: 2\n---\nc: 3", [[2, 1, "a second document begins here, one file holds one document"]]],
    [
      "a: {b: 1, b: 2, b: 3}",
      [
        [1, 11, 'the key "b" is given more than once, first in line 1'],
        [1, 17, 'the key "b" is given more than once, first in line 1'],
      ],
    ],
    ["? [a]\n: 1", [[1, 3, "With stringKeys, all keys must be strings"]]],
    ["a: b: c", [[1, 4, "Nested mappings are not allowed in compact mappings"]]],
    ["\ta: 1", [[1, 1, "Tabs are not allowed as indentation"]]],
    ["a: 'x", [[1, 6, "Missing closing 'quote"]]],
  ];
  for (const [text, expected] of table) {
    assert.equal(
      plain(text).problems.map(({ line, column, text: problem }) => [line, column, problem]),
      expected,
      text,
    );
  }
});

test("messages of syntax errors repeat nothing of the file", () => {
  for (const text of [
    "key: |hunter2\n x",
    "a: 1\n}hunter2",
    "[a]\n'hunter2'",
    'key: "hunter2" hunter2',
    "key: &hunter2 *hunter2",
    "key: !hunter2",
    "%hunter2",
  ]) {
    const { problems } = plain(text);
    assert.ok(problems.length > 0, text);
    assert.not.match(JSON.stringify(problems), "hunter2");
  }
});

test("does not expand an alias bomb", () => {
  const lines = ["a0: &a0 [x, x]", ...Array.from({ length: 30 }, (_, i) => `a${i + 1}: &a${i + 1} [*a${i}, *a${i}]`)];
  const { problems } = plain(lines.join("\n"));
  assert.is(problems.length, 31 + 60);
});

test("refuses nesting beyond 64 levels, and no length", () => {
  for (const open of ["[", "{a: ", "- ", "? ", "a: b: "]) {
    const { root, problems } = plain(open.repeat(100_000));
    assert.is(root, null);
    assert.match(problems[0]?.text ?? "", /levels deep/);
  }
  const blocks = Array.from({ length: 1000 }, (_, i) => `${" ".repeat(i)}a:`).join("\n");
  assert.match(plain(blocks).problems[0]?.text ?? "", "more than 64 levels deep");
  const inside = Array.from({ length: 50 }, (_, i) => `${" ".repeat(i)}a:`).join("\n");
  assert.equal(plain(`${inside} 1`).problems, []);
  for (const long of [
    `a: ${"x".repeat(1_048_577)}`,
    `a: [${"b, ".repeat(100_000)}]`,
    `a: b${"\n".repeat(1_000_001)}# end\nc: d`,
  ]) {
    const { root, problems } = plain(long);
    assert.equal(problems, []);
    assert.ok(root);
  }
});

test("stops early on garbage and never throws", () => {
  for (const text of [
    "}".repeat(500_000),
    "\u0000",
    "\ud800",
    "a\u0000: 1",
    '"\\u',
    "!",
    "&",
    "*",
    "%",
    "---\n...\n---",
    "? ? ?",
    ": : :",
    "\r\r\r",
  ]) {
    const { problems } = plain(text);
    assert.ok(problems.length <= 25, text.slice(0, 10));
  }
});

test("reads many keys of one mapping in linear time", () => {
  const text = Array.from({ length: 30_000 }, (_, i) => `k${i}: 1`).join("\n");
  assert.equal(plain(text).problems, []);
});

test.run();
