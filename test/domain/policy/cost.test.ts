import { suite } from "uvu";
import * as assert from "uvu/assert";
import { estimateEvaluationMs } from "../../../src/domain/policy/cost.ts";
import { parsePolicy } from "../../../src/domain/policy/document.ts";

const test = suite("domain/policy/cost");

function costOf(artifacts: string): number {
  const { policy, problems } = parsePolicy(`_schema: /v1\nartifacts: ${artifacts}`);
  if (policy === null) throw new Error(problems[0]?.problem);
  return estimateEvaluationMs(policy);
}
const rules = (count: number, more = ""): string => `{attestations: [${`{type: junit${more}},`.repeat(count)}]}`;

test("estimates a typical policy of twenty rules as cheaper than evaluating and writing one artifact", () => {
  assert.ok(costOf(rules(20, ", if: \"flow.tags.team == 'a'\"")) < 0.2);
});

test("adds up rules, terms and patterns in all parts of a policy", () => {
  assert.ok(costOf(rules(250)) >= 2);
  const chain = Array(4_000).fill("true").join(" or ");
  assert.ok(costOf(`{attestations: [{type: junit, if: "${chain}"}]}`) >= 0.8);
  assert.ok(costOf(`{provenance: {required: true, exceptions: [{if: "not (${chain})"}]}}`) >= 0.8);
  assert.ok(
    costOf(`{trail-compliance: {required: true, exceptions: [{if: "1 in [${Array(4_000).fill("2").join(",")}]"}]}}`) >=
      0.8,
  );
  assert.ok(costOf("{attestations: [{type: junit, if: \"matches(flow.name, 'a{1000}')\"}]}") >= 5);
  assert.is(costOf("{}"), 0);
});

test.run();
