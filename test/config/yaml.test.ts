import { suite } from "uvu";
import * as assert from "uvu/assert";
import { readYaml } from "../../src/yaml.ts";

const test = suite("yaml");

test("a plain text is read, with places", () => {
  const { root, problems, place } = readYaml("# head\na:\n  - b: 1\n");
  assert.equal(problems, []);
  assert.is(String(root), '{"a":[{"b":1}]}');
  assert.equal(place(root), { line: 2, column: 1 });
  assert.equal(place(null), { line: 1, column: 1 });
});

test("everything that expands or reinterprets is refused with its place", () => {
  const table: [string, [number, number, string][]][] = [
    ["a: &x 1\nb: *x", [
      [1, 7, "anchors (&) are not supported, put quotes around a text"],
      [2, 4, "aliases (*) are not supported, put quotes around a text"],
    ]],
    ["a: !!str 1\nb: !foo {}\nc: ! x", [
      [1, 10, "tags (!) are not supported, put quotes around a text"],
      [2, 9, "tags (!) are not supported, put quotes around a text"],
      [3, 6, "tags (!) are not supported, put quotes around a text"],
    ]],
    ["%YAML 1.1\n---\na: yes", [[1, 1, "directives (%) are not supported"]]],
    ["a: 1\n---\nb: 2\n---\nc: 3", [[2, 1, "a second document begins here, one file holds one document"]]],
    ["a: {b: 1, b: 2, b: 3}", [
      [1, 11, 'the key "b" stands in line 1 already'],
      [1, 17, 'the key "b" stands in line 1 already'],
    ]],
    ["? [a]\n: 1", [[1, 3, "With stringKeys, all keys must be strings"]]],
    ["a: b: c", [[1, 4, "Nested mappings are not allowed in compact mappings"]]],
    ["\ta: 1", [[1, 1, "Tabs are not allowed as indentation"]]],
    ["a: 'x", [[1, 6, "Missing closing 'quote"]]],
  ];
  for (const [text, expected] of table) {
    assert.equal(readYaml(text).problems, expected.map(([line, column, problem]) => ({ line, column, text: problem })), text);
  }
});

test("messages of syntax errors repeat nothing of the file", () => {
  for (const text of ["key: |hunter2\n x", "a: 1\n}hunter2", "[a]\n'hunter2'", "key: \"hunter2\" hunter2", "key: &hunter2 *hunter2", "key: !hunter2", "%hunter2"]) {
    const { problems } = readYaml(text);
    assert.ok(problems.length > 0, text);
    assert.not.match(JSON.stringify(problems), "hunter2");
  }
});

test("a bomb of aliases does not expand", () => {
  const lines = ["a0: &a0 [x, x]", ...Array.from({ length: 30 }, (_, i) => `a${i + 1}: &a${i + 1} [*a${i}, *a${i}]`)];
  const { problems } = readYaml(lines.join("\n"));
  assert.is(problems.length, 31 + 60);
});

test("nesting beyond 64 levels and texts beyond a million characters are refused", () => {
  for (const open of ["[", "{a: ", "- ", "? ", "a: b: "]) {
    const { root, problems } = readYaml(open.repeat(100_000));
    assert.is(root, null);
    assert.match(problems[0]?.text ?? "", /levels deep/);
  }
  const blocks = Array.from({ length: 1000 }, (_, i) => `${" ".repeat(i)}a:`).join("\n");
  assert.match(readYaml(blocks).problems[0]?.text ?? "", "more than 64 levels deep");
  const inside = Array.from({ length: 50 }, (_, i) => `${" ".repeat(i)}a:`).join("\n");
  assert.equal(readYaml(`${inside} 1`).problems, []);
  const long = readYaml(`a: ${"x".repeat(1_048_576)}`);
  assert.is(long.root, null);
  assert.equal(long.problems, [{ line: 1, column: 1, text: "the file is longer than 1,048,576 characters" }]);
});

test("garbage ends early and never throws", () => {
  for (const text of ["}".repeat(500_000), "\u0000", "\ud800", "a\u0000: 1", "\"\\u", "!", "&", "*", "%", "---\n...\n---", "? ? ?", ": : :", "\r\r\r"]) {
    const { problems } = readYaml(text);
    assert.ok(problems.length <= 25, text.slice(0, 10));
  }
});

test("many keys in one mapping take linear time", () => {
  const text = Array.from({ length: 30_000 }, (_, i) => `k${i}: 1`).join("\n");
  assert.equal(readYaml(text).problems, []);
});

test.run();
