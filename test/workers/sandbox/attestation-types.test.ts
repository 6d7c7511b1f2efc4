/**
 * Definitions and data in real threads: evaluation, timeouts, and isolation from the endless rules of other types.
 */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { openCustomTypes } from "../../../src/server/worker-threads.ts";
import type { AppError } from "../../../src/errors.ts";
import { createAttestationTypes } from "../../../src/workers/sandbox/attestation-types.ts";
import type { TypeEvaluation, TypeDefinition } from "../../../src/workers/sandbox/attestation-types.ts";
import {
  DeadlineError,
  PoolClosedError,
  QueueFullError,
  TaskError,
  WorkerDiedError,
} from "../../../src/workers/pool.ts";
import { rejection } from "../../evidence/given.ts";

const test = suite("workers/sandbox/attestation-types");
const types = openCustomTypes();
test.after(() => types.close());
/** Pools that run no thread and reject every task with an error. */
const failing = (trouble: Error) => {
  const pool = {
    run: () => Promise.reject(trouble),
    load: () => ({ waiting: 0, running: 0 }),
    close: async () => undefined,
  };
  return createAttestationTypes({ schemas: pool, expressions: pool });
};

const NOW = 1_700_000_000;
const define = (more: Partial<TypeDefinition> = {}): TypeDefinition => ({
  schema: null,
  rules: [],
  summary: null,
  ...more,
});
const evaluate = (definition: Partial<TypeDefinition>, data: unknown, lane = "type") =>
  types.evaluate(lane, define(definition), { data, now: NOW });
const reasons = (verdict: TypeEvaluation): unknown =>
  "mismatch" in verdict ? verdict : verdict.outcomes.map(({ reason }) => reason);
const summaryOf = async (entries: Record<string, string>, data: unknown): Promise<unknown> => {
  const verdict = await evaluate(
    { summary: Object.entries(entries).map(([name, expression]) => ({ name, expression })) },
    data,
  );
  return "mismatch" in verdict ? verdict : verdict.summary;
};
const TOO_LONG = "does not end within 2 seconds";
const NO_TIME = "was not evaluated: the rules before it took all of 2 seconds";
const MEMORY = "needs more memory than an expression may have";

test("accepts only exactly one output, the value true", async () => {
  const rules: [rule: string, reason: string | null][] = [
    [".n == 1", null],
    ["true", null],
    [". as $d | all($d.list[]; . < 4)", null],
    ["now == 1700000000", null],
    ["false", "gives false"],
    ["null", "gives null"],
    ['"true"', 'gives "true"'],
    ["1", "gives 1"],
    ["[true]", "gives [true]"],
    [".", 'gives {"n":1,"list":[1,2,3]}'],
    ['"x" * 300', `gives "${"x".repeat(99)}...`],
    ['"x" * 9000', "gives a long output that is not true"],
    ["empty", "gives no output"],
    ["halt", "gives no output"],
    ["true, true", "gives several outputs"],
    [".list[] | . < 4", "gives several outputs"],
    ["range(1e9)", "gives several outputs"],
    [".n.x", 'fails: Cannot index number with string "x"'],
    ['error("no\\nway")', "fails: no: way"],
    ["true, error", 'fails: (not a string): {"n":1,"list":[1,2,3]}'],
    ["$ENV.PATH", "gives null"],
    ['"x" * 1e9', MEMORY],
    ["reduce range(2e5) as $i (0; [.]) | true", "breaks off without a result, as expressions do that nest too deeply"],
  ];
  for (const [rule, reason] of rules)
    assert.equal(reasons(await evaluate({ rules: [rule] }, { n: 1, list: [1, 2, 3] })), [reason], rule);
});

test("evaluates all rules in order, and has no outcomes without rules", async () => {
  assert.equal(await evaluate({ rules: ["true", "false", "true"] }, 1), {
    outcomes: [
      { rule: "true", reason: null },
      { rule: "false", reason: "gives false" },
      { rule: "true", reason: null },
    ],
    summary: null,
  });
  assert.equal(await evaluate({}, { any: "thing" }), { outcomes: [], summary: null });
});

test("evaluates data of every kind", async () => {
  for (const [data, rule] of [
    [null, ". == null"],
    [false, ". == false"],
    [0.1, ". == 0.1"],
    ["é\u2028", "length == 2"],
    [[], "length == 0"],
    [{}, ". == {}"],
    [[{ a: 1 }], ".[0].a == 1"],
  ] as const)
    assert.equal(reasons(await evaluate({ rules: [rule] }, data)), [null], rule);
});

test("stops an endless rule, which leaves no time for those after it", async () => {
  assert.equal(reasons(await evaluate({ rules: ["true", "def f: f; f", "true"] }, 1, "endless")), [
    null,
    `${TOO_LONG}, the rules before it included`,
    NO_TIME,
  ]);
  assert.equal(reasons(await evaluate({ rules: ["true"] }, 1, "endless")), [null]);
});

test("evaluates other types while one does not end, and answers all reports", async () => {
  const ended: string[] = [];
  const noted = async (what: string, verdict: Promise<TypeEvaluation>) => {
    const found = reasons(await verdict);
    ended.push(what);
    return found;
  };
  const endless = [1, 2].map((n) => noted(`endless ${n}`, evaluate({ rules: ["def f: f; f"] }, n, "slow")));
  const others = await Promise.all(
    ["a", "b", "c"].map((lane) => noted(lane, evaluate({ rules: [".n == 1"] }, { n: 1 }, lane))),
  );
  assert.equal(others, [[null], [null], [null]]);
  assert.ok(!ended.includes("endless 2"), "the second of the slow type waits for the first, nobody else does");
  assert.equal(await Promise.all(endless), [[TOO_LONG], [TOO_LONG]]);
});

test("reports data that does not fit the schema, without evaluating rules", async () => {
  const schema = JSON.stringify({ type: "object", required: ["n"] });
  assert.equal(await evaluate({ schema, rules: ["error"] }, []), { mismatch: "attestation_data: must be object" });
  assert.equal(await evaluate({ schema }, { m: 1 }), { mismatch: "attestation_data: must have required property 'n'" });
  assert.equal(reasons(await evaluate({ schema, rules: [".n == 1"] }, { n: 1 })), [null]);
});

test("accepts large schemas that compile in time", async () => {
  const defs = (count: number) => ({
    $ref: "#/$defs/d0",
    $defs: Object.fromEntries(
      Array.from({ length: count }, (_, i) => [
        `d${i}`,
        { type: "object", required: ["a"], properties: { a: {}, next: { $ref: `#/$defs/d${(i + 1) % count}` } } },
      ]),
    ),
  });
  const schema = JSON.stringify(defs(200));
  assert.equal(await types.check("large", define({ schema })), {});
  assert.equal(reasons(await evaluate({ schema }, { a: 1, next: { a: 2 } }, "large")), []);
  assert.equal(await evaluate({ schema }, { a: 1, next: {} }, "large"), {
    mismatch: "attestation_data.next: must have required property 'a'",
  });
});

test("refuses all data if the schema cannot be applied in time", async () => {
  const schema = JSON.stringify({ pattern: "^(a+)+$" });
  assert.equal(reasons(await evaluate({ schema }, "aaa", "pattern")), []);
  assert.equal(await evaluate({ schema }, `${"a".repeat(40)}!`, "pattern"), {
    mismatch: "attestation_data: could not be checked with the schema of the type within 4 seconds and its memory",
  });
});

test("summarizes data as labelled values in order, with errors in place of missing values", async () => {
  assert.equal(
    await summaryOf(
      {
        Tests: ".tests",
        Share: '"\\(.percent) %"',
        Report: ".url",
        Nothing: "empty",
        Both: "1, 2",
        Wrong: ".tests.a",
        Mine: "error({a: 1})",
        Long: '"x" * 3000',
      },
      {
        tests: 12,
        percent: 91.5,
        url: "https://ci.test/7",
      },
    ),
    {
      groups: [
        [
          { name: "Tests", value: 12, error: null },
          { name: "Share", value: "91.5 %", error: null },
          { name: "Report", value: "https://ci.test/7", error: null },
          { name: "Nothing", value: null, error: "gives no output" },
          { name: "Both", value: null, error: "gives several outputs" },
          { name: "Wrong", value: null, error: 'Cannot index number with string "a"' },
          { name: "Mine", value: null, error: '{"a":1}' },
          { name: "Long", value: null, error: "the value is longer than 2000 characters" },
        ],
      ],
      left_out: 0,
    },
  );
});

test("groups the summary by array element, up to a hundred", async () => {
  const rows = (data: unknown[]) => data.map((value) => [{ name: "n", value, error: null }]);
  assert.equal(await summaryOf({ n: ".n" }, [{ n: 1 }, { n: null }, { n: [2] }]), {
    groups: rows([1, null, [2]]),
    left_out: 0,
  });
  assert.equal(await summaryOf({ n: ".n" }, []), { groups: [], left_out: 0 });
  assert.equal(
    await summaryOf(
      { n: "." },
      Array.from({ length: 103 }, (_, i) => i),
    ),
    { groups: rows(Array.from({ length: 100 }, (_, i) => i)), left_out: 3 },
  );
  assert.equal(await summaryOf({ n: ".n # comment \\" }, [{ n: 1 }, 2]), {
    groups: [...rows([1]), [{ name: "n", value: null, error: 'Cannot index number with string "n"' }]],
    left_out: 0,
  });
  assert.equal(await summaryOf({ n: "if . == 2 then halt else . end" }, [1, 2, 3]), {
    groups: [...rows([1]), ...[2, 3].map(() => [{ name: "n", value: null, error: "ended jq" }])],
    left_out: 0,
  });
});

test("loses the summary but not the verdict to an endless summary expression", async () => {
  const verdict = await evaluate(
    {
      rules: ["true"],
      summary: [
        { name: "a", expression: "." },
        { name: "b", expression: "def f: f; f" },
        { name: "c", expression: "." },
      ],
    },
    1,
    "slow summary",
  );
  const late = "took more than 1 second, with the expressions before it";
  assert.equal(verdict, {
    outcomes: [{ rule: "true", reason: null }],
    summary: {
      groups: [
        [
          { name: "a", value: 1, error: null },
          { name: "b", value: null, error: late },
          { name: "c", value: null, error: late },
        ],
      ],
      left_out: 0,
    },
  });
});

test("compiles a definition without running it, and reports all problems with jq's messages", async () => {
  const check = (more: Partial<TypeDefinition>) => types.check("org", define(more));
  assert.equal(await check({}), {});
  assert.equal(
    await check({
      schema: '{"type":"object"}',
      rules: ["def f: f; f", "error", "[range(1e9)]"],
      summary: [{ name: "a", expression: "error" }],
    }),
    {},
  );
  assert.equal(
    await check({
      schema: '{"type":1}',
      rules: ["true", ".a ==", "nothing", "# only a comment", 'import "a" as a; true'],
      summary: [
        { name: "ok", expression: "." },
        { name: "two", expression: ".a)|(.b" },
      ],
    }),
    {
      type_schema:
        "type_schema.type: must match a schema in anyOf (type_schema.type: must be equal to one of the allowed " +
        "values: 'array', 'boolean', 'integer', 'null', 'number', 'object', 'string')",
      "evaluator.rules.1":
        "Rule is not a valid jq expression: syntax error, unexpected end of file (Unix shell quoting issues?) at " +
        "<top-level>, line 1: .a ==",
      "evaluator.rules.2":
        "Rule is not a valid jq expression: nothing/0 is not defined at <top-level>, line 1: nothing",
      "evaluator.rules.3": 'Rule is not a valid jq expression: Top-level program not given (try ".")',
      "evaluator.rules.4":
        "Rule is not a valid jq expression: module not found: a (Could not expand ~/.jq. (Could not find home " +
        "directory.))",
      "summary.1.expression":
        "Expression is not a valid jq expression: syntax error, unexpected INVALID_CHARACTER, expecting end of " +
        "file (Unix shell quoting issues?) at <top-level>, line 1: .a)|(.b",
    },
  );
});

test("gives no verdict and asks for a retry when too busy, and passes other errors on", async () => {
  for (const trouble of [
    new QueueFullError("types", 64),
    new DeadlineError("types", { deadlineMs: 10_000, started: false }),
    new WorkerDiedError("types: no thread", { began: false }),
    new PoolClosedError("types: closed"),
  ]) {
    const busy = failing(trouble);
    for (const asked of [
      busy.evaluate("a", define({ rules: ["true"] }), { data: 1, now: NOW }),
      busy.check("a", define({ rules: ["true"] })),
    ]) {
      const error = (await rejection(asked)) as AppError;
      assert.equal(
        { code: error.code, message: error.message, headers: error.headers },
        {
          code: "unavailable",
          message: "The rules of attestation types keep the server busy. Please try again",
          headers: { "Retry-After": "2" },
        },
      );
      assert.is(error.internal, trouble);
    }
  }
  const mistake = new TaskError("x is not a function", { task: "TypeError", code: null });
  const broken = failing(mistake);
  assert.is(await rejection(broken.evaluate("a", define({ rules: ["true"] }), { data: 1, now: NOW })), mistake);
});

test("counts the end of its thread as a reason against a rule", async () => {
  const dying = failing(new WorkerDiedError("types: out of memory", { began: true }));
  assert.equal(reasons(await dying.evaluate("a", define({ rules: ["true"] }), { data: 1, now: NOW })), [MEMORY]);
  assert.equal(await dying.evaluate("a", define({ schema: "{}" }), { data: 1, now: NOW }), {
    mismatch: "attestation_data: could not be checked with the schema of the type within 4 seconds and its memory",
  });
  assert.equal(await dying.check("a", define({ schema: "{}", rules: ["true"] })), {
    type_schema: "the schema is too large to be compiled within 2 seconds",
    "evaluator.rules.0": `Rule ${MEMORY}`,
  });
});

test.run();
