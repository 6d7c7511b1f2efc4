/**
 * Policies that would take all the time or memory of a server, or break the engine: each ends as a failure that says
 * why, and the next evaluation works.
 */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { failureOf, givenEngine, givenPolicy, givenQuestion } from "../rego/given.ts";

const test = suite("integration/rego-bombs");
const MB = 1 << 20;

const LARGE_INPUT = { list: Array.from({ length: 3_000 }, (_, at) => ({ at })) };

/** Rules that the engine ends itself, so that its thread stays. */
const SLOW: Readonly<Record<string, string>> = {
  "nested loops":
    "allow if {\n\tsome x in numbers.range(1, 100000)\n\tsome y in numbers.range(1, 100000)\n\tx * y == -1\n}",
  "walks inside walks":
    "allow if {\n\twalk(input, [_, a])\n\twalk(input, [_, b])\n\twalk(input, [_, c])\n\t[a, b, c] == [1, 1, 2]\n}",
  "a set of products": "allow if count({[x, y] | some x in input.list; some y in input.list; x.at + y.at == -1}) == 1",
  "a join of lists": "allow if {\n\tsome i, j, k\n\tinput.list[i].at + input.list[j].at + input.list[k].at == -1\n}",
};
for (const [name, rules] of Object.entries(SLOW))
  test(`ends at its time limit: ${name}`, async () => {
    const engine = givenEngine({ timeMs: 300 });
    assert.is(
      await failureOf(engine, rules, { input: LARGE_INPUT }),
      "evaluate: The evaluation took longer than 0.3 s",
    );
    await engine.close();
  });

const GREEDY: Readonly<Record<string, string>> = {
  "a range": "allow if count(numbers.range(1, 100000000)) == 1",
  "a huge set": "allow if count({[x, x] | some x in numbers.range(1, 3000000)}) == 1",
  "many texts": 'allow if count([sprintf("%d %d", [x, x]) | some x in numbers.range(1, 5000000)]) == 1',
  "a text that doubles": Array.from({ length: 40 }, (_, at) => `s${at + 1} := concat("", [s${at}, s${at}])`)
    .concat('s0 := "0123456789abcdef0123456789abcdef"', 'allow if s40 == ""')
    .join("\n"),
  "repetition of a text":
    'allow if count(replace(replace(replace("aaaaaaaaaa", "a", t), "a", t), "a", t)) == 1\n' +
    't := concat("", ["a" | some _ in numbers.range(1, 1000)])',
  "an object": 'allow if count({sprintf("%d", [x]): [x, x, x] | some x in numbers.range(1, 3000000)}) == 1',
};
for (const [name, rules] of Object.entries(GREEDY))
  test(`ends at its memory limit: ${name}`, async () => {
    const engine = givenEngine({ memoryBytes: 128 * MB });
    assert.is(await failureOf(engine, rules), "evaluate: The evaluation needed more than 128 MiB of memory");
    await engine.close();
  });

test("what nests too deeply is a failure", async () => {
  const engine = givenEngine();
  const nested = (depth: number) => `allow if ${"[".repeat(depth)}${"]".repeat(depth)} == 1`;
  assert.match(
    await failureOf(engine, nested(200_000)),
    /^compile: policy.rego:3: rego_parse_error: max parsing recursion/,
  );
  for (const depth of [3_000, 30_000, 90_000]) {
    const failure = await failureOf(engine, nested(depth));
    assert.match(failure, /^(compile: policy.rego:3: |result_shape: .*undefined|evaluate: .*(too deeply|memory$))/);
  }
  const calls = Array.from({ length: 3_000 }, (_, at) => `f${at}(x) := f${at + 1}(x)`).join("\n");
  const outcome = await engine.evaluate(
    givenPolicy(`package p\nallow if f0(1)\n${calls}\nf3000(x) := x\n`),
    givenQuestion(),
  );
  assert.ok(outcome.ok ? outcome.value.allow : /too deeply$/.test(outcome.error.message));
  await engine.close();
});

test.run();
