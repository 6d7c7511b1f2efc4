/** jq as rules and summaries use it: the real language in a sandbox. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { raw } from "jq-wasm";
import { JQ_VERSION } from "../../../src/domain/attestation/custom.ts";
import { runJq } from "../../../src/workers/sandbox/jq.ts";

const test = suite("workers/sandbox/jq");
const NOW = 1_700_000_000;
const run = (
  expression: string,
  input: unknown = { a: 1, b: [1, 2, { c: "é" }] },
  more: { maxOutputs?: number; maxBytes?: number; raw?: string } = {},
) =>
  runJq({
    expression,
    input: Buffer.from(more.raw ?? JSON.stringify(input)),
    now: NOW,
    maxOutputs: more.maxOutputs ?? 3,
    maxBytes: more.maxBytes ?? 65_536,
  });
const outputs = async (expression: string, input?: unknown): Promise<unknown> => {
  const { outputs, overflow, status } = await run(expression, input);
  return overflow || status !== 0 ? { outputs, overflow, status } : outputs;
};

for (const [expression, expected] of [
  [".a == 1", ["true"]],
  [".", ['{"a":1,"b":[1,2,{"c":"é"}]}']],
  ['.b[2].c | test("^é$")', ["true"]],
  ["-1", ["-1"]],
  ["--1", ["1"]],
  ["1, 2, 3", ["1", "2", "3"]],
  ["empty", []],
  ["[.b[] | numbers] | add", ["3"]],
  ["def even: . % 2 == 0; [.b[] | numbers | even]", ["[false,true]"]],
  ["reduce range(5) as $i (0; . + $i)", ["10"]],
  ["100000000000000000000000001", ["100000000000000000000000001"]],
  ['"a\nb"', ['"a\\nb"']],
  ['try error("x") catch .', ['"x"']],
  ["true # and nothing else", ["true"]],
] as const)
  test(`\`${expression}\` gives ${expected.join(" and ") || "nothing"}`, async () =>
    assert.equal(await outputs(expression), expected));

test("is the version of jq that the program tells", async () => {
  assert.is(String(await raw("1", ".", ["--version"])).trim(), `jq-${JQ_VERSION}-dirty`);
});

test("takes sources with the line ends of Windows", async () => {
  for (const [expression, expected] of [
    ["if .a == 1 then\r\n  true # fits\r\nelse false end\r\n", ["true"]],
    [".b\r\n| length\r\n", ["3"]],
    ["# a comment\r\n.a", ["1"]],
  ] as const)
    assert.equal(await outputs(expression), expected, expression);
});

test("hides environment, files, other inputs and the clock from an expression, except the given time", async () => {
  for (const [expression, expected] of [
    ["$ENV, env", ["{}", "{}"]],
    ["env.PATH, env.HOME", ["null", "null"]],
    ["[inputs]", ["[]"]],
    ["[limit(1; inputs)] | length", ["0"]],
    ["now", [String(NOW)]],
    ["now | localtime | mktime", [String(NOW)]],
    ['now | strflocaltime("%Y-%m-%d %H:%M")', ['"2023-11-14 22:13"']],
    ["$ARGS", ['{"positional":[],"named":{}}']],
    ["input_filename", ['"<stdin>"']],
    ['try input catch "none"', ['"none"']],
  ] as const)
    assert.equal(await outputs(expression), expected, expression);
  for (const expression of [
    'import "a" as a; .',
    'include "a"; .',
    'import "/etc/passwd" as $data; .',
    'import "a" as $data {search: "/"}; .',
  ]) {
    const { outputs, status, diagnostics } = await run(expression);
    assert.equal({ outputs, status }, { outputs: [], status: 3 }, expression);
    assert.match(diagnostics, "module not found");
  }
  assert.match((await run('"a" | modulemeta')).diagnostics, "module not found");
});

test("keeps nothing from one run to the next, even after an aborted one", async () => {
  for (const expression of ["[range(1e9)]", "reduce range(2e5) as $i (0; [.])", "range(1e9)"]) {
    assert.is((await run(expression)).status, null, expression);
    assert.equal(await outputs("., $__loc__", 1), ["1", '{"file":"<top-level>","line":1}']);
  }
});

test("ends a run for the expression's own failures, with jq's message if there is one", async () => {
  for (const [expression, status, words] of [
    [".a.b", 5, 'Cannot index number with string "b"'],
    ['error("too bad")', 5, "too bad"],
    ["error(null)", 5, "null"],
    ["true, error", 5, "(not a string)"],
    ['"bye" | halt_error', 5, "bye"],
    [".a ==", 3, "syntax error, unexpected end of file"],
    ["foo", 3, "foo/0 is not defined"],
    ["def f: 1;", 3, "Top-level program not given"],
    ["[range(1e9)]", null, "cannot allocate memory"],
    ['"x" * 1e9', null, "cannot allocate memory"],
    ["reduce range(2e5) as $i (0; [.])", null, ""],
    ["def f: 1 + f; f", null, "cannot allocate memory"],
    [`${"(".repeat(20_000)}1${")".repeat(20_000)}`, 3, "memory exhausted"],
  ] as const) {
    const result = await run(expression);
    assert.is(result.status, status, expression.slice(0, 50));
    assert.match(result.diagnostics, words, expression.slice(0, 50));
  }
});

test("treats halt as a normal end", async () => {
  assert.equal(await outputs("halt"), []);
  assert.equal(await outputs("true, halt, false"), ["true"]);
});

test("bounds output and diagnostics, and aborts a run that exceeds its output", async () => {
  for (const [expression, maxOutputs, maxBytes, expected] of [
    ["range(1e9)", 2, 65_536, ["0", "1"]],
    ["1, 2", 1, 65_536, ["1"]],
    ['"x" * 5000', 1, 4_096, []],
    ['1, "x" * 5000', 2, 4_096, ["1"]],
  ] as const) {
    const result = await run(expression, null, { maxOutputs, maxBytes });
    assert.equal(
      { outputs: result.outputs, overflow: result.overflow },
      { outputs: expected, overflow: true },
      expression,
    );
  }
  const noisy = await run("[range(2000) | stderr] | length", null);
  assert.equal(
    {
      outputs: noisy.outputs,
      overflow: noisy.overflow,
      status: noisy.status,
      "diagnostics.length": noisy.diagnostics.length,
    },
    { outputs: ["2000"], overflow: false, status: 0, "diagnostics.length": 4_096 },
  );
});

test("only compiles without input", async () => {
  for (const expression of ["1", "error", "def f: f; f", "[range(1e9)]"])
    assert.equal((await run(expression, null, { raw: "" })).outputs, [], expression);
  assert.is((await run("foo", null, { raw: "" })).status, 3);
});

test("reads each text of the input as an input of its own, however large", async () => {
  assert.equal((await run(".+1", null, { raw: "1\n2\n3" })).outputs, ["2", "3", "4"]);
  const cases = Array.from({ length: 60_000 }, (_, i) => ({ name: `case ${i}`, status: "passed", seconds: i / 7 }));
  assert.equal(await outputs('length, all(.[]; .status == "passed"), .[59999].name', cases), [
    "60000",
    "true",
    '"case 59999"',
  ]);
});

test("keeps the exit code of the process", async () => {
  const before = process.exitCode;
  await run("error");
  assert.is(process.exitCode, before);
});

test.run();
