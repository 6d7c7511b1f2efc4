import { suite } from "uvu";
import * as assert from "uvu/assert";
import { parsePolicy } from "../../../src/domain/policy/document.ts";
import { findRulePositions } from "../../../src/domain/policy/rule-positions.ts";

const test = suite("domain/policy/rule-positions");

/** `line:column` of each rule, "-" for none. The text must be a valid policy. */
function places(...lines: string[]): string[] {
  const text = ["_schema: /v1", ...lines, ""].join("\n");
  assert.is(parsePolicy(text).problems, null);
  return findRulePositions(text).map((position) => (position ? `${position.line}:${position.column}` : "-"));
}

test("a boolean rule stands at its key, an attestation rule at its item", () => {
  assert.equal(
    places(
      "artifacts:",
      "  attestations:",
      "    - type: junit",
      "      name: tests",
      "",
      "    - if: ${{ flow.name == 'a' }}",
      "      type: snyk",
      "  trail-compliance:",
      "    required: true",
      "  provenance: { required: true }",
    ),
    ["11:3", "9:3", "4:7", "7:7"],
  );
});

test("a rule that the text does not have has no position", () => {
  assert.equal(places(), ["-", "-"]);
  assert.equal(places("artifacts:", "  attestations: [{ type: junit }, { type: snyk }]"), ["-", "-", "3:18", "3:35"]);
});

test("an aliased rule stands where the alias does", () => {
  assert.equal(places("artifacts:", "  attestations:", "    - &a { type: junit }", "    - *a"), [
    "-",
    "-",
    "4:10",
    "5:7",
  ]);
  assert.equal(places("artifacts:", "  provenance: &rule { required: true }", "  trail-compliance: *rule"), [
    "3:3",
    "4:3",
  ]);
});

test("a byte order mark and line ends of other systems do not move a position", () => {
  assert.equal(
    findRulePositions("\ufeff_schema: /v1\r\nartifacts:\r\n  provenance:\r\n    required: true\r\n").map(
      (position) => position && [position.line, position.column],
    ),
    [[3, 3], null],
  );
});

test.run();
