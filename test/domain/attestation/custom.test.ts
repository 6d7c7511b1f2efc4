import { suite } from "uvu";
import * as assert from "uvu/assert";
import {
  extractJqMessage,
  evaluateCustom,
  explainRuleFailure,
  toSummaryRow,
  explainRunFailure,
} from "../../../src/domain/attestation/custom.ts";

const test = suite("domain/attestation/custom");
const run = (more: Partial<Parameters<typeof explainRuleFailure>[0]> = {}) => ({
  outputs: ["true"],
  overflow: false,
  status: 0,
  diagnostics: "",
  ...more,
});

test("holds only for exactly one output, true, and exit status 0", () => {
  assert.is(explainRuleFailure(run()), null);
  for (const [more, reason] of [
    [{ outputs: [] }, "gives no output"],
    [{ outputs: ["false"] }, "gives false"],
    [{ outputs: ["true", "true"] }, "gives several outputs"],
    [{ overflow: true }, "gives several outputs"],
    [{ outputs: [], overflow: true }, "gives a long output that is not true"],
    [{ status: 5, diagnostics: "jq: error (at <stdin>:0): no" }, "fails: no"],
    [{ status: 1 }, "fails: jq gives no reason"],
    [{ status: null }, "breaks off without a result, as expressions do that nest too deeply"],
    [{ status: null, overflow: true, outputs: ["true"] }, "gives several outputs"],
    [
      { status: null, diagnostics: "jq: error: cannot allocate memory\n" },
      "needs more memory than an expression may have",
    ],
    [{ outputs: ['"a\u001b[2J\u2028"'] }, 'gives "a\\u001b[2J\\u2028"'],
  ] as const)
    assert.is(explainRuleFailure(run(more)), reason);
});

test("gives a reason with the rule for every rule that does not hold", () => {
  assert.equal(evaluateCustom([]), { isCompliant: true, reasons: [] });
  assert.equal(evaluateCustom([{ rule: ".a", reason: null }]), { isCompliant: true, reasons: [] });
  assert.equal(
    evaluateCustom([
      { rule: ".a", reason: null },
      { rule: ".b\n> 3", reason: "gives false" },
      { rule: "x".repeat(300), reason: "gives no output" },
    ]),
    {
      isCompliant: false,
      reasons: ["Rule 2 (.b\\u000a> 3) gives false", `Rule 3 (${"x".repeat(200)}...) gives no output`],
    },
  );
});

test("reduces jq's message to one line", () => {
  for (const [text, message] of [
    [
      "jq: error: foo/0 is not defined at <top-level>, line 1:\nfoo\njq: 1 compile error\n",
      "foo/0 is not defined at <top-level>, line 1: foo",
    ],
    ["jq: error (at <stdin>:0) (not a string): null\n", "(not a string): null"],
    ["jq: error (at <unknown>): break\n", "break"],
    ["jq: error: a\njq: error: b\njq: 2 compile errors\n", "a: b"],
    ["\n", "jq gives no reason"],
  ] as const)
    assert.is(extractJqMessage(text), message);
  assert.is(extractJqMessage(`jq: error: ${"x".repeat(1_000)}`), `${"x".repeat(400)}...`);
  assert.is(explainRunFailure(run({ status: 3, diagnostics: "jq: error: \u0007" })), "fails: \\u0007");
});

test("parses a summary line as a value or an error", () => {
  assert.equal(toSummaryRow("n", [{ a: 1 }]), { name: "n", value: { a: 1 }, error: null });
  assert.equal(toSummaryRow("n", [null]), { name: "n", value: null, error: null });
  assert.equal(toSummaryRow("n", []), { name: "n", value: null, error: "gives no output" });
  assert.equal(toSummaryRow("n", [1, 2]), { name: "n", value: null, error: "gives several outputs" });
  assert.equal(toSummaryRow("n", "no way"), { name: "n", value: null, error: "no way" });
  assert.equal(toSummaryRow("n", "took too long"), { name: "n", value: null, error: "took too long" });
});

test.run();
