/** What the engine makes of bundles: entry points, results, failures, warnings (newer-clients 5.3, 6.1 to 6.7). */
import { gzipSync } from "node:zlib";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { RegoFiles } from "../../src/domain/rego/bundle.ts";
import { readEngineFacts } from "../../src/rego/engine-module.ts";
import { rejection } from "../evidence/given.ts";
import { givenEngine, givenPolicy, givenQuestion, SMALL_POLICY } from "./given.ts";

const test = suite("rego/engine");
const engine = givenEngine();
test.after(() => engine.close());

const ENTRYPOINT = "# METADATA\n# entrypoint: true\n";

/** A key for nothing but this test. */
const EC_KEY = {
  kty: "EC",
  x: "nt6TsjnmTiJYGDtAwGMGTSxh-l2S8VPcMywdpqLLuAc",
  y: "HxliZJ98rK7zGEj4YujiWgy3fC739XOT4fegmVUXHZk",
  crv: "P-256",
  d: "GD7h49zCOd2muiQPRe2wEVLdNuQSa9VMZu5jxYu772I",
};

/** The value or the error of an evaluation, without its duration. */
async function evaluate(files: RegoFiles, question: Parameters<typeof givenQuestion>[0] = {}) {
  const outcome = await engine.evaluate(files, givenQuestion(question));
  return outcome.ok ? outcome.value : outcome.error;
}
async function check(files: RegoFiles) {
  const outcome = await engine.check(files);
  return outcome.ok ? outcome.value : outcome.error;
}

test("answers with the verdict, violations in order, and outputs by the names of their rules", async () => {
  const files = givenPolicy(`package acme.release

default allow := false

allow if count(violations) == 0

violations contains sprintf("%s scores %d", [name, score]) if {
	some name, score in input.scores
	score > data.params.max
}

${ENTRYPOINT}worst := max([score | some score in input.scores])

${ENTRYPOINT}undefined_here if input.nothing
`);
  const question = { input: { scores: { b: 9, a: 8, c: 1 } }, params: { max: 5 } };
  assert.equal(await evaluate(files, question), {
    allow: false,
    violations: ["a scores 8", "b scores 9"],
    outputs: '{"worst":9}',
  });
  const duration = (await engine.evaluate(files, givenQuestion(question))).durationMs;
  assert.ok(duration > 0);
});

test("keeps numbers of input, parameters and data files to the digit", async () => {
  const files = {
    "policy.rego": `package policy\n\nallow := true\n\n${ENTRYPOINT}out := [input.n, data.params.n, data.n]\n`,
    "data.json": '{"n": 10000000000000000000001.50}',
  };
  const outcome = await engine.evaluate(files, {
    ...givenQuestion(),
    input: Buffer.from('{"n": 123456789012345678901234567890.10}'),
    params: '{"n": 1.0}',
  });
  assert.ok(outcome.ok);
  assert.is(outcome.value.outputs, '{"out":[123456789012345678901234567890.10,1.0,10000000000000000000001.50]}');
});

test("gives the policy its parameters, and the time of the request in nanoseconds", async () => {
  const files = givenPolicy(`package policy
allow := true
${ENTRYPOINT}out := [data.params, data.kosli, time.now_ns()]
`);
  assert.equal(await evaluate(files, { params: { a: [1] } }), {
    allow: true,
    violations: [],
    outputs: '{"out":[{"a":[1]},{"evaluation_time":1757000000500000000},1757000000500000000]}',
  });
});

test("repeats itself: randomness comes from the seed, and the clock stands still", async () => {
  const files = givenPolicy(`package policy
allow := true
${ENTRYPOINT}out := [rand.intn("a", 1000000), uuid.rfc4122("b"), time.now_ns()]
${ENTRYPOINT}signed := io.jwt.encode_sign({"alg": "ES256"}, {}, ${JSON.stringify(EC_KEY)})
`);
  const [first, again, other] = [
    await evaluate(files, { seed: "one" }),
    await evaluate(files, { seed: "one" }),
    await evaluate(files, { seed: "two" }),
  ];
  assert.equal(again, first);
  assert.not.equal(other, first);
  const second = givenEngine();
  assert.equal((await second.evaluate(files, givenQuestion({ seed: "one" }))).ok && again, first);
  const fresh = await second.evaluate(files, givenQuestion({ seed: "one" }));
  assert.equal(fresh.ok ? fresh.value : fresh.error, first);
  await second.close();
});

test("does not evaluate violations of a policy that allows, unless they are annotated", async () => {
  const conflict = 'violations contains "x" if 1 / 0 == input\nviolations contains "always"\n';
  assert.equal(await evaluate(givenPolicy(`package p\nallow := true\n${conflict}`)), {
    allow: true,
    violations: [],
    outputs: "{}",
  });
  const annotated = await evaluate(givenPolicy(`package p\nallow := true\n${ENTRYPOINT}${conflict}`));
  assert.equal(annotated, { allow: true, violations: ["always"], outputs: "{}" });
});

test("shows violations that are no texts as JSON", async () => {
  const files = givenPolicy('package p\nallow := false\nviolations := [1.50, {"b": [null]}, "text", "<&>"]\n');
  assert.equal(await evaluate(files), {
    allow: false,
    violations: ["1.50", '{"b":[null]}', "text", "<&>"],
    outputs: "{}",
  });
});

test("finds the policy package by allow, and takes other packages as libraries", async () => {
  const library = "package lib\nis_ok if input.ok\n";
  const policy = "package any.name\nimport data.lib\nallow if lib.is_ok\n";
  assert.equal(await evaluate({ "a/lib.rego": library, "b.rego": policy }, { input: { ok: true } }), {
    allow: true,
    violations: [],
    outputs: "{}",
  });
  assert.equal(await evaluate({ "lib.rego": library }), {
    kind: "entrypoint",
    message: "No package declares a rule named allow",
  });
  assert.equal(await evaluate(givenPolicy("package p\nallow(x) if x\n")), {
    kind: "entrypoint",
    message: "No package declares a rule named allow",
  });
});

test("of several packages with allow takes the one that is annotated", async () => {
  const [a, b] = ["package a\nallow := true\n", "package b\nallow := false\n"];
  const several =
    "2 packages declare allow (data.a, data.b), so exactly one of them must be annotated with 'entrypoint: true'";
  assert.equal(await evaluate({ "a.rego": a, "b.rego": b }), { kind: "entrypoint", message: `${several}: 0 are` });
  const marked = (text: string) => text.replace("allow", `${ENTRYPOINT}allow`);
  assert.equal(await evaluate({ "a.rego": marked(a), "b.rego": marked(b) }), {
    kind: "entrypoint",
    message: `${several}: 2 are`,
  });
  for (const chosen of [marked(b), `# METADATA\n# scope: package\n# entrypoint: true\n${b}`])
    assert.equal(await evaluate({ "a.rego": a, "b.rego": chosen }), { allow: false, violations: [], outputs: "{}" });
});

test("refuses entry points in other packages and on functions", async () => {
  const policy = "package policy\nallow := true\n";
  assert.equal(await evaluate({ "p.rego": policy, "lib.rego": `package lib\n${ENTRYPOINT}x := 1\n` }), {
    kind: "entrypoint",
    message: "lib.rego:2: an entry point must be in the policy package data.policy",
  });
  assert.equal(await evaluate(givenPolicy(`${policy}${ENTRYPOINT}f(x) := x\n`)), {
    kind: "entrypoint",
    message: "policy.rego:3: a function cannot be an entry point",
  });
});

test("reads modules and data files, and leaves other files alone", async () => {
  const files = {
    "policy.rego": `package policy\nallow if data.teams.trusted[input.team]\n${ENTRYPOINT}out := [data.a.b, data.e]\n`,
    "policy_test.rego": "this is no Rego",
    "teams/data.json": '{"trusted": {"red": true}}',
    "a/b/data.yaml": "x: 1\n",
    "a/b/data.yml": "y: 2\n",
    "exceptions.ergo.yaml": "e: [1]\n",
    "README.md": "{{{",
    "other.json": "{{{",
  };
  assert.equal(await evaluate(files, { input: { team: "red" } }), {
    allow: true,
    violations: [],
    outputs: '{"out":[{"x":1,"y":2},[1]]}',
  });
});

test("takes a single file of any name as the policy, but not a test or a data file", async () => {
  const text = "package policy\nallow := true\n";
  assert.equal(await evaluate({ "some.txt": text }), { allow: true, violations: [], outputs: "{}" });
  const none = { kind: "no_policy", message: "The bundle has no policy: it needs a file that ends in .rego" };
  assert.equal(await evaluate({ "policy_test.rego": text }), none);
  assert.equal(await evaluate({ "data.json": "{}" }), none);
  assert.equal(await evaluate({ "a.txt": text, "b.txt": text }), none);
});

test("refuses data that two files set, that belongs to the server, or that a package has too", async () => {
  const policy = "package policy\nallow := true\n";
  const messageOf = async (files: RegoFiles) => await evaluate({ "policy.rego": policy, ...files });
  assert.equal(await messageOf({ "data.json": '{"a": {"x": 1}}', "a/data.yaml": "x: 2\n" }), {
    kind: "compile",
    message: "data.json: data.a.x is set by a/data.yaml too",
  });
  for (const name of ["params", "kosli"]) {
    const reserved = `data.${name} belongs to the server and cannot be set by a file`;
    assert.equal(await messageOf({ "data.json": `{"${name}": {}}` }), {
      kind: "compile",
      message: `data.json: ${reserved}`,
    });
    assert.equal(await messageOf({ [`${name}/data.json`]: "{}" }), {
      kind: "compile",
      message: `${name}/data.json: ${reserved}`,
    });
    assert.equal(await messageOf({ "x.rego": `package ${name}.lib\n` }), {
      kind: "compile",
      message: `x.rego:1: the package name "${name}" is reserved`,
    });
  }
  assert.match(
    ((await messageOf({ "data.json": '{"policy": {"allow": true}}' })) as { message: string }).message,
    /^policy.rego:2: rego_compile_error: conflicting rule for data path policy\/allow found/,
  );
  assert.equal(await messageOf({ "data.json": "[1]" }), {
    kind: "compile",
    message: "data.json: the document at the root of the bundle must be an object",
  });
  assert.match(((await messageOf({ "data.yaml": "\t: [" })) as { message: string }).message, /^data.yaml: .*yaml: /);
});

test("tells all compile errors with file and line, and cuts long ones", async () => {
  assert.equal(await evaluate({ "a.rego": "package a\n\nallow if {\n", "b.rego": "package b\nx y\n" }), {
    kind: "compile",
    message:
      "a.rego:4: rego_parse_error: unexpected eof token\n\tallow if {\n\t         ^\n" +
      "b.rego:2: rego_parse_error: var cannot be used for rule name\n" +
      "b.rego:2: rego_parse_error: var cannot be used for rule name",
  });
  const many = Array.from({ length: 500 }, (_, at) => `allow if unknown_${at}(input)`).join("\n");
  const { kind, message } = (await evaluate(givenPolicy(`package p\n${many}\n`))) as { kind: string; message: string };
  assert.is(kind, "compile");
  assert.match(message, /^policy.rego:2: rego_type_error: undefined function unknown_0\npolicy.rego:3: /);
  assert.ok(Buffer.byteLength(message) <= 4096);
  assert.match(message, /\.\.\.$/);
});

for (const call of [
  'http.send({"method": "get", "url": "http://127.0.0.1"})',
  'net.lookup_ip_addr("localhost")',
  "opa.runtime()",
])
  test(`does not know ${call.replace(/\(.*/, "")}, which would leave the process`, async () => {
    assert.equal(await evaluate(givenPolicy(`package policy\n\nallow if ${call}\n`)), {
      kind: "compile",
      message: `policy.rego:3: rego_type_error: undefined function ${call.replace(/\(.*/, "")}`,
    });
  });

test("fetches no schemas", async () => {
  const files = givenPolicy(`package policy
default allow := false
allow if json.match_schema({}, {"$ref": "http://127.0.0.1:1/schema.json"})[0]
`);
  assert.equal(await evaluate(files), { allow: false, violations: [], outputs: "{}" });
});

test("fails where allow is undefined or no boolean, violations are no list, or a result is no JSON", async () => {
  const failures: [string, string][] = [
    ["allow if input.never", "data.p.allow is undefined: it must be true or false"],
    ['allow := "yes"', "data.p.allow must be true or false, but is a string"],
    ["allow := null", "data.p.allow must be true or false, but is null"],
    ["allow contains 1", "data.p.allow must be true or false, but is a set or a list"],
    ['allow := false\nviolations := "none"', "data.p.violations must be a set or a list, but is a string"],
    ['allow := false\nviolations["a"] := 1', "data.p.violations must be a set or a list, but is an object"],
    [
      `allow := true\n${ENTRYPOINT}n := to_number(".5")`,
      'data.p.n has a value that is not JSON: json: invalid number literal ".5"',
    ],
    [
      `allow := true\n${ENTRYPOINT}n := concat("", ["0123456789abcdef" | some _ in numbers.range(1, 70000)])`,
      "The result is 1120049 bytes, over the limit of 1048576",
    ],
  ];
  for (const [rules, message] of failures)
    assert.equal(await evaluate(givenPolicy(`package p\n${rules}\n`)), { kind: "result_shape", message }, rules);
});

test("fails with the place where rules conflict", async () => {
  assert.equal(
    await evaluate(givenPolicy("package p\nallow if input.a\nallow := false if input.a\n"), { input: { a: 1 } }),
    {
      kind: "evaluate",
      message:
        "policy.rego:3: eval_conflict_error: rule data.p.allow produced conflicting values:\n" +
        "  true at policy.rego:2\n  false at policy.rego:3",
    },
  );
});

test("fails where the input is no JSON or nests too deeply, and where parameters are no object", async () => {
  const kindOf = async (question: { input?: string; params?: string }) => {
    const { input = "{}", params = "{}" } = question;
    const outcome = await engine.evaluate(SMALL_POLICY, { ...givenQuestion(), input: Buffer.from(input), params });
    return outcome.ok ? null : outcome.error;
  };
  assert.equal(await kindOf({ input: "{" }), {
    kind: "input_shape",
    message: "The input document cannot be read: unexpected end",
  });
  assert.match(
    (await kindOf({ input: "[".repeat(20_000) + "]".repeat(20_000) }))?.message ?? "",
    /exceeded max depth$/,
  );
  for (const params of ["[]", "null", "1"])
    assert.equal(await kindOf({ params }), { kind: "input_shape", message: "The parameters are not a JSON object" });
});

test("tells a bundle's package, outputs and parameters without running it", async () => {
  const files = {
    "policy.rego": `package acme.release
import data.params
import data.lib as l
default allow := false
allow if { input.x > data.params.max; l.ok(params["min-age"]) }
allow if object.get(data.params, "extra", 0) > object.get(params, ["deep", "er"], 1)
${ENTRYPOINT}violations contains "x" if input.x
${ENTRYPOINT}report.of.all := 1
${ENTRYPOINT}names contains "n"
`,
    "lib.rego": "package lib\nok(x) if x == data.params.wanted\n",
  };
  assert.equal(await check(files), {
    package: "acme.release",
    outputs: ["names", "report", "violations"],
    params: ["deep", "extra", "max", "min-age", "wanted"],
    warnings: [],
  });
});

test("warns of computed parameter names and of an allow without default", async () => {
  assert.equal(await check(givenPolicy("package p\nallow if {\n\tsome k\n\tdata.params[k]\n}\n")), {
    package: "p",
    outputs: [],
    params: null,
    warnings: [
      "policy.rego:4: the name of a parameter is computed, so it is not known which parameters the policy reads",
      "policy.rego:2: allow has no default, so an evaluation fails where no rule gives it a value: " +
        "add 'default allow := false'",
    ],
  });
  for (const rules of [
    "default allow := false\nallow if input.x",
    "allow := true",
    "allow if input.x\nelse := false",
    "default allow := false",
  ])
    assert.equal(((await check(givenPolicy(`package p\n${rules}\n`))) as { warnings: string[] }).warnings, [], rules);
  for (const rules of ["allow := input.x", "allow if input.x\nelse := false if input.y"])
    assert.is(
      ((await check(givenPolicy(`package p\n${rules}\n`))) as { warnings: string[] }).warnings.length,
      1,
      rules,
    );
});

test("checks what an evaluation would refuse", async () => {
  assert.equal(await check(givenPolicy("package p\nx := 1\n")), {
    kind: "entrypoint",
    message: "No package declares a rule named allow",
  });
  assert.equal(await check({ "x.md": "", "y.md": "" }), {
    kind: "no_policy",
    message: "The bundle has no policy: it needs a file that ends in .rego",
  });
});

test("runs the tests of a bundle in the order of files and lines", async () => {
  const files = {
    "policy.rego": "package policy\ndefault allow := false\nallow if input.ok\n",
    "b_test.rego": `package policy_test
import data.policy
test_allows if policy.allow with input as {"ok": true}
test_fails if {
	print("the input is", "here")
	policy.allow with input as {}
}
todo_test_later if false
test_undefined if 1 / 0 == input
`,
    "a_test.rego": `package policy_test
import data.policy
test_conflict if two == 1
two := 1
two := 2
test_cases[name] if some name in ["a"]
test_params if data.params.max == 3
`,
  };
  const { input: _, ...question } = givenQuestion({ params: { max: 3 } });
  const outcome = await engine.test(files, question);
  assert.ok(outcome.ok, JSON.stringify(outcome));
  assert.equal(
    outcome.value.map(({ file, line, name, outcome: how, message }) => ({ at: `${file}:${line}`, name, how, message })),
    [
      {
        at: "a_test.rego:3",
        name: "test_conflict",
        how: "error",
        message:
          "a_test.rego:5: eval_conflict_error: rule data.policy_test.two produced conflicting values:\n" +
          "  1 at a_test.rego:4\n  2 at a_test.rego:5",
      },
      {
        at: "a_test.rego:6",
        name: "test_cases",
        how: "error",
        message: "a test with cases is not supported: write one rule for each",
      },
      { at: "a_test.rego:7", name: "test_params", how: "pass", message: "" },
      { at: "b_test.rego:3", name: "test_allows", how: "pass", message: "" },
      { at: "b_test.rego:4", name: "test_fails", how: "fail", message: "b_test.rego:5: the input is here\n" },
      { at: "b_test.rego:8", name: "todo_test_later", how: "skip", message: "" },
      { at: "b_test.rego:9", name: "test_undefined", how: "fail", message: "" },
    ],
  );
  assert.ok(outcome.value.every((one) => one.package === "policy_test"));
  const broken = await engine.test({ ...files, "c_test.rego": "package policy_test\ntest_x if {\n" }, question);
  assert.is(broken.ok ? "" : broken.error.kind, "compile");
});

test("moves an input that is alone in its buffer to the engine", async () => {
  const input = Buffer.from(new TextEncoder().encode('{"ok": true}').buffer);
  assert.ok((await engine.evaluate(SMALL_POLICY, { ...givenQuestion(), input })).ok);
  assert.is(input.length, 0);
});

test("unpacks an input in its thread, and takes none that has more bytes than it was said to have", async () => {
  const text = '{"ok": true}';
  const evaluate = (bytes: number) =>
    engine.evaluate(SMALL_POLICY, { ...givenQuestion(), input: { packed: gzipSync(text), bytes } });
  const outcome = await evaluate(text.length);
  assert.ok(outcome.ok && outcome.value.allow);
  assert.match((await rejection(evaluate(text.length - 1))).message, /Cannot create a Buffer larger than 11 bytes/);
});

test("knows the versions that it was built from", () => {
  const { opa, go, sha256 } = readEngineFacts();
  assert.match(opa, /^\d+\.\d+\.\d+$/);
  assert.match(go, /^\d+\.\d+\.\d+$/);
  assert.match(sha256, /^[0-9a-f]{64}$/);
});

test.run();
