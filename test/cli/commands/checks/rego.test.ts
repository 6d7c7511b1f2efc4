/** `assay rego check`, `rego eval` and `rego test`. */
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { cli } from "../../in-process.ts";

const test = suite("cli/commands/checks/rego");
const directories: string[] = [];
test.after(() => {
  for (const directory of directories) rmSync(directory, { recursive: true });
});

/** A working directory with these files; `run` runs `assay rego` there. */
function given(files: Readonly<Record<string, string | Buffer>>) {
  const cwd = mkdtempSync(join(tmpdir(), "assay-rego-"));
  directories.push(cwd);
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(join(cwd, dirname(path)), { recursive: true });
    writeFileSync(join(cwd, path), content);
  }
  const run = (words: string, stdin = "") => cli(["rego", ...words.split(" ")], { cwd, stdin });
  return { cwd, run };
}

const POLICY = {
  "policy/release.rego": `package release

import data.lib

default allow := false

allow if count(violations) == 0

violations contains sprintf("%s scores %d", [item.name, item.score]) if {
	some item in input.items
	lib.too_high(item.score)
}

# METADATA
# entrypoint: true
worst := max([item.score | some item in input.items])
`,
  "policy/lib/scores.rego": "package lib\n\ntoo_high(score) if score > data.params.max\n",
  "policy/release_test.rego": `package release_test

import data.release

test_allows if release.allow with input as {"items": []} with data.params as {"max": 1}
`,
  "policy/README.md": "not read",
  "policy/.git/config.rego": "not read",
  "high.json": '{"items": [{"name": "b", "score": 9}, {"name": "a", "score": 12345678901234567890}]}',
  "low.json": '{"items": [{"name": "a", "score": 1}]}',
  "params.json": '{"max": 5}',
};

test("check prints package, outputs and parameters of a policy", async () => {
  const { run } = given(POLICY);
  assert.equal(await run("check policy"), {
    code: 0,
    out: "package:    release\noutputs:    worst\nparameters: max\n",
    err: "",
  });
  assert.equal(JSON.parse((await run("check policy --json")).out), {
    valid: true,
    package: "release",
    outputs: ["worst"],
    params: ["max"],
    warnings: [],
  });
});

test("check warns with file and line, and takes a single file", async () => {
  const { run } = given({ "some/policy.txt": "package p\n\nallow if data.params[input.x]\n" });
  const computed = "the name of a parameter is computed, so it is not known which parameters the policy reads";
  const undefined_ =
    "allow has no default, so an evaluation fails where no rule gives it a value: add 'default allow := false'";
  assert.equal(await run("check some/policy.txt"), {
    code: 0,
    out:
      `some/policy.txt:3: warning: ${computed}\nsome/policy.txt:3: warning: ${undefined_}\n` +
      "package:    p\noutputs:    none\nparameters: some are computed\n",
    err: "",
  });
  assert.equal(JSON.parse((await run("check some/policy.txt --json")).out).warnings, [
    `some/policy.txt:3: ${computed}`,
    `some/policy.txt:3: ${undefined_}`,
  ]);
});

test("check prints every mistake with file and line, with exit code 1", async () => {
  const { run } = given({
    "p/a.rego": "package a\n\nallow if {\n\tnothing(input)\n}\n",
    "p/lib/b.rego": "package lib\n\nx if unknown(1)\n",
  });
  assert.equal(await run("check p"), {
    code: 1,
    out:
      "p/a.rego:4: rego_type_error: undefined function nothing\n" +
      "p/lib/b.rego:3: rego_type_error: undefined function unknown\n",
    err: "",
  });
  const json = await run("check p --json");
  assert.is(json.code, 1);
  assert.is(JSON.parse(json.out).valid, false);
  assert.is(JSON.parse(json.out).kind, "compile");
});

test("check shows the line of a mistake below it", async () => {
  const { run } = given({ "p/a.rego": "package a\n\nallow if {\n\tx ==\n}\n" });
  assert.equal(await run("check p"), {
    code: 1,
    out: "p/a.rego:5: rego_parse_error: unexpected } token\n    }\n    ^\n",
    err: "",
  });
  const { problems } = JSON.parse((await run("check p --json")).out);
  assert.equal(problems, [
    { file: "p/a.rego", line: 5, message: "rego_parse_error: unexpected } token\n    }\n    ^" },
  ]);
});

test("check refuses a policy without allow, and a directory without a policy", async () => {
  const { run } = given({ "none/README.md": "", "lib/a.rego": "package lib\nx := 1\n" });
  const noRule = "lib: No package declares a rule named allow: add one, such as 'default allow := false'\n";
  assert.equal(await run("check lib"), { code: 1, out: noRule, err: "" });
  assert.equal(await run("check none"), {
    code: 1,
    out: "none: The bundle has no policy: it needs a file that ends in .rego\n",
    err: "",
  });
  const { problems } = JSON.parse((await run("check none --json")).out);
  assert.equal(problems, [
    { file: "none", line: null, message: "The bundle has no policy: it needs a file that ends in .rego" },
  ]);
});

test("check refuses what a server refuses: too many or too large files, and what is not UTF-8", async () => {
  const many = Object.fromEntries(Array.from({ length: 101 }, (_, at) => [`many/f${at}.rego`, `package f${at}\n`]));
  const { run } = given({
    ...many,
    "large/a.rego": `package a\n# ${"x".repeat(1_048_576)}\n`,
    "binary/a.rego": Buffer.from("package a\n# \xff\n", "latin1"),
  });
  const refusals: Readonly<Record<string, string>> = {
    many: "many: policy bundle holds 101 files, over the limit of 100",
    large: "large: policy bundle is 1048595 bytes, over the 1048576 byte limit",
    binary: "binary/a.rego:2:3: this is not UTF-8 text",
    missing: "cannot read missing: it, or a directory above it, does not exist (ENOENT); check the path",
  };
  for (const [name, text] of Object.entries(refusals))
    assert.equal(await run(`check ${name}`), { code: 1, out: "", err: `assay: ${text}\n` });
});

test("check follows links to files, not to directories", async () => {
  const { cwd, run } = given({ "p/a.rego": "package a\nallow := true\n", "b.rego": "package b\nx := data.params.y\n" });
  symlinkSync(join(cwd, "b.rego"), join(cwd, "p/b.rego"));
  symlinkSync(cwd, join(cwd, "p/loop"));
  assert.match((await run("check p")).out, /^parameters: y$/m);
});

test("eval prints the verdict, violations and outputs; only an allowed input is exit code 0", async () => {
  const { run } = given(POLICY);
  assert.equal(await run("eval policy --input high.json --params params.json"), {
    code: 1,
    out: "DENIED\n  a scores 12345678901234567890\n  b scores 9\nworst: 12345678901234567890\n",
    err: "",
  });
  assert.equal(await run("eval policy --input low.json --params params.json"), {
    code: 0,
    out: "ALLOWED\nworst: 1\n",
    err: "",
  });
  assert.equal(await run("eval policy --input - --params params.json --json", POLICY["high.json"]), {
    code: 1,
    out:
      '{"allow":false,"violations":["a scores 12345678901234567890","b scores 9"],' +
      '"outputs":{"worst":12345678901234567890}}\n',
    err: "",
  });
});

test("eval takes the time of the evaluation", async () => {
  const { run } = given({
    "p.rego": "package p\nallow if data.kosli.evaluation_time == 1764144000500000000\n",
    "i.json": "{}",
  });
  assert.equal((await run("eval p.rego --input i.json --time 2025-11-26T08:00:00.5Z")).out, "ALLOWED\n");
  const now = await run("eval p.rego --input i.json");
  assert.equal(now, {
    code: 1,
    out: "",
    err: "assay: p.rego: data.p.allow is undefined: it must be true or false\n",
  });
  assert.equal(await run("eval p.rego --input i.json --time yesterday"), {
    code: 2,
    out: "",
    err:
      'assay: --time: "yesterday" is not a time: give one such as 2026-11-26T08:00:00Z\n' +
      "assay: see assay help rego eval\n",
  });
});

test("eval reports a failure with its kind, file and line", async () => {
  const { run } = given({
    "p/p.rego": "package p\nallow if input.x\nallow := false if input.x\n",
    "i.json": '{"x": true}',
  });
  const message =
    "eval_conflict_error: rule data.p.allow produced conflicting values:\n  true at p.rego:2\n  false at p.rego:3";
  assert.equal(await run("eval p --input i.json"), { code: 1, out: "", err: `assay: p/p.rego:3: ${message}\n` });
  const { code, out, err } = await run("eval p --input i.json --json");
  assert.equal(
    { code, out, err: JSON.parse(err) },
    {
      code: 1,
      out: "",
      err: {
        error: `p.rego:3: ${message}`,
        kind: "evaluate",
        problems: [{ file: "p/p.rego", line: 3, message }],
      },
    },
  );
});

test("eval asks for a policy and an input, and for JSON in them", async () => {
  const { run } = given({ ...POLICY, "broken.json": '{"a": 1,}', "list.json": "[1]" });
  assert.equal(await run("eval"), {
    code: 2,
    out: "",
    err:
      "assay: DIR is missing: give the directory of the policy\n" +
      "assay: the input is missing: give --input FILE or --fixture DIR\nassay: see assay help rego eval\n",
  });
  assert.match(
    (await run("eval policy --input - --params -")).err,
    /^assay: --input and --params cannot both be standard/,
  );
  assert.match(
    (await run("eval policy --input broken.json")).err,
    /^assay: broken.json is not JSON: .* at position 8 \(line 1 column 9\)\n$/,
  );
  assert.is(
    (await run("eval policy --input low.json --params list.json")).err,
    'assay: list.json is not a JSON object: give values by name, such as {"max": 5}\n',
  );
});

test("eval and test name what is missing or wrong, where, and what to do", async () => {
  const { run } = given({
    ...POLICY,
    "list.json": "[1]",
    "broken.json": '{\n  "max": 5,\n}',
    "none/README.md": "",
    "lib/a.rego": "package lib\nx := 1\n",
    "entry/p.rego": "package p\nallow := true\n",
    "entry/lib.rego": "package lib\n# METADATA\n# entrypoint: true\nx := 1\n",
    "latin.json": Buffer.from('{"a": "\xff"}', "latin1"),
  });
  const unreadable = (name: string): string =>
    `cannot read ${name}: it, or a directory above it, does not exist (ENOENT); check the path`;
  const noPolicy = "none: The bundle has no policy: it needs a file that ends in .rego";
  const refusals: Readonly<Record<string, string>> = {
    "eval missing --input low.json": unreadable("missing"),
    "eval policy --input missing.json": unreadable("missing.json"),
    "eval policy --input low.json --params missing.json": unreadable("missing.json"),
    "eval --fixture missing": unreadable("missing"),
    "eval policy --input lib": "cannot read lib: it is a directory (EISDIR); give the path of a file",
    "eval policy --input latin.json": "cannot read latin.json: it is not UTF-8 text",
    "eval none --input low.json": noPolicy,
    "eval lib --input low.json":
      "lib: No package declares a rule named allow: add one, such as 'default allow := false'",
    "eval entry --input low.json": "entry/lib.rego:2: an entry point must be in the policy package data.p",
    "eval policy --input low.json --params -":
      'standard input is not a JSON object: give values by name, such as {"max": 5}',
    "eval policy --input low.json --params broken.json":
      "broken.json is not JSON: Expected double-quoted property name in JSON at position 14 (line 3 column 1)",
    "test missing": unreadable("missing"),
    "test none": noPolicy,
  };
  for (const [words, text] of Object.entries(refusals))
    assert.equal(await run(words, "[1]"), { code: 1, out: "", err: `assay: ${text}\n` }, words);
});

test("eval refuses parameters and inputs that a server refuses, and takes those at the limits", async () => {
  const deep = (levels: number): string => `${'{"a": '.repeat(levels)}1${"}".repeat(levels)}`;
  // Bytes of `{"a":"..."}`: the blanks of the file, and how it writes a character, do not count.
  const ofBytes = (bytes: number): string => `{\n  "a" : "\\u0078${"x".repeat(bytes - 9)}"\n}`;
  const { run } = given({
    "p.rego": "package p\nallow := true\n",
    "i.json": "{}",
    "deep-100.json": deep(100),
    "deep-101.json": deep(101),
    "deep-20000.json": deep(20_000),
    "bytes-262144.json": ofBytes(262_144),
    "bytes-262145.json": ofBytes(262_145),
    "input-32.json": `"${"x".repeat((32 << 20) - 2)}"`,
    "input-33.json": `"${"x".repeat((32 << 20) - 1)}"`,
    "deep/input.json": "{}",
    "deep/params.json": deep(101),
    "list/input.json": "{}",
    "list/data.json": '{"params": [1]}',
    "large/input.json": "{}",
    "large/data.json": `{"params": ${ofBytes(262_145)}}`,
  });
  const tooDeep = "The parameters nest deeper than 100 levels";
  const tooLarge = "The parameters are over the limit of 262144 bytes";
  const refusals: Readonly<Record<string, string>> = {
    "--input i.json --params deep-101.json": `deep-101.json: ${tooDeep}`,
    "--input i.json --params deep-20000.json": `deep-20000.json: ${tooDeep}`,
    "--input i.json --params bytes-262145.json": `bytes-262145.json: ${tooLarge}`,
    "--input input-33.json": "cannot read input-33.json: it is larger than 32 MB",
    "--fixture deep": `deep/params.json: ${tooDeep}`,
    "--fixture list": 'list/data.json: params is not a JSON object: give values by name, such as {"max": 5}',
    "--fixture large": `large/data.json: params: ${tooLarge}`,
  };
  for (const [words, text] of Object.entries(refusals))
    assert.equal(await run(`eval p.rego ${words}`), { code: 1, out: "", err: `assay: ${text}\n` }, words);
  const taken = ["i.json --params deep-100.json", "i.json --params bytes-262144.json", "input-32.json"];
  for (const words of taken)
    assert.equal(await run(`eval p.rego --input ${words}`), { code: 0, out: "ALLOWED\n", err: "" }, words);
});

test("eval reads an evaluation as files: input, parameters, time and policy", async () => {
  const policy = POLICY["policy/release.rego"].replace(
    "default",
    "# METADATA\n# entrypoint: true\nat := time.now_ns()\n\ndefault",
  );
  const files = { "release.rego": policy, "lib.rego": POLICY["policy/lib/scores.rego"] };
  const put = (directory: string) => Object.entries(files).map(([name, text]) => [`${directory}${name}`, text]);
  const { run } = given({
    ...POLICY,
    ...Object.fromEntries([...put("export/policy/"), ...put("beside/")]),
    "export/input.json": POLICY["high.json"],
    "export/data.json": '{"params": {"max": 10}, "kosli": {"evaluation_time": 1757000000500000001}}',
    "beside/input.json": POLICY["high.json"],
    "beside/params.json": '{"max": 10}',
  });
  const verdict = "DENIED\n  a scores 12345678901234567890\n";
  assert.is(
    (await run("eval --fixture export")).out,
    `${verdict}at: 1757000000500000001\nworst: 12345678901234567890\n`,
  );
  const beside = await run("eval --fixture beside --time 2025-11-26T08:00:00Z");
  assert.is(beside.out, `${verdict}at: 1764144000000000000\nworst: 12345678901234567890\n`);
  assert.is(
    (await run("eval policy --fixture export")).out,
    `${verdict}worst: 12345678901234567890\n`,
    "another policy",
  );
  assert.is((await run("eval --fixture export --input low.json")).code, 0, "another input");
  assert.is(
    (await run("eval --fixture policy")).err,
    "assay: cannot read policy/input.json: it, or a directory above it, does not exist (ENOENT); check the path\n",
  );
});

test("test prints what does not pass, and fails for it", async () => {
  const { run } = given(POLICY);
  assert.equal(await run("test policy"), { code: 0, out: "1 passed, 0 failed, 0 skipped\n", err: "" });
  const more = given({
    ...POLICY,
    "policy/more_test.rego": `package release_test

import data.release

test_fails if {
	print("is", release.allow)
	release.allow with input as {"items": [{"name": "a", "score": 2}]} with data.params as {"max": 1}
}

todo_test_later if false
`,
  });
  assert.equal(await more.run("test policy"), {
    code: 1,
    out:
      "policy/more_test.rego:5: FAILED test_fails\n  more_test.rego:6: is true\n" +
      "policy/more_test.rego:10: skipped todo_test_later\n1 passed, 1 failed, 1 skipped\n",
    err: "",
  });
  const { passed, failed, skipped, tests } = JSON.parse((await more.run("test policy --json")).out);
  assert.equal({ passed, failed, skipped }, { passed: 1, failed: 1, skipped: 1 });
  assert.equal(tests[0], {
    package: "release_test",
    name: "test_fails",
    file: "policy/more_test.rego",
    line: 5,
    outcome: "fail",
    message: "more_test.rego:6: is true\n",
  });
});

test("test fails without tests, and for tests that cannot be loaded", async () => {
  const { run } = given({
    "p/p.rego": "package p\nallow := true\n",
    "q/p_test.rego": "package q\ntest_a if unknown(1)\n",
  });
  assert.equal(await run("test p"), {
    code: 1,
    out: "0 passed, 0 failed, 0 skipped\n",
    err: "assay: p has no tests: a test is a rule test_... in a file that ends in _test.rego\n",
  });
  assert.equal(await run("test q"), {
    code: 1,
    out: "",
    err: "assay: q/p_test.rego:2: rego_type_error: undefined function unknown\n",
  });
});

test.run();
