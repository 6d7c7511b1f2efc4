import { suite } from "uvu";
import * as assert from "uvu/assert";
import { locateRules } from "../../../src/domain/policy/lines.ts";
import type { RuleLines } from "../../../src/domain/policy/lines.ts";

const test = suite("domain/policy/lines");

/** Lines as `from-to`, a rule with conditions as `rule: condition condition`. */
const show = ({ rule, conditions }: RuleLines): string =>
  [
    rule ? `${rule.from}-${rule.to}` : "none",
    ...conditions.map(({ from, to }) => (from === to ? String(from) : `${from}-${to}`)),
  ].join(" ");
const located = (...lines: string[]): string[] => locateRules(lines.join("\n")).map(show);

test("a rule reaches from its key or item to its last value, an exception and a condition have their own lines", () => {
  assert.equal(
    located(
      "_schema: https://example.com/schemas/policy/v1",
      "artifacts:",
      "  provenance:",
      "    required: true",
      "  trail-compliance:",
      "    required: true",
      "    exceptions:",
      '      - if: ${{ flow.tags.tier == "batch" }}',
      "      - if: >",
      "          ${{ flow.name",
      '          == "x" }}',
      "",
      "  attestations:",
      "    - type: pull_request",
      "    - type: snyk",
      "      name: scan",
      "",
      "    # about the next one",
      "    - type: decision",
      "      for_control: SEC-4",
      '      if: ${{ flow.tags.pci == "true" }}',
    ),
    ["3-4", "5-11 8 9-11", "14-14", "15-16", "19-21 21"],
  );
});

test("comments and blank lines before, between and after rules belong to none", () => {
  assert.equal(
    located(
      "# a policy",
      "",
      "_schema: /v1",
      "artifacts:",
      "  # provenance",
      "  provenance: # yes",
      "    required: true # really",
      "    # last",
      "",
      "  attestations:",
      "    - # first",
      "      type: junit # tests",
      "      # after",
      "",
      "# end",
      "",
    ),
    ["6-7", "none", "12-12"],
  );
});

test("flow style, JSON and quoted keys", () => {
  assert.equal(
    located(
      '{"_schema": "/v1", "artifacts": {"provenance": {"required": true},',
      ' "attestations": [{"type": "junit"}, {"type": "snyk",',
      '   "if": "flow"}',
      " ]",
      "}}",
    ),
    ["1-1", "none", "2-2", "2-3 3"],
  );
  assert.equal(located("{_schema: /v1, artifacts: {trail-compliance: {required: true, exceptions: [{if: flow}]}}}"), [
    "none",
    "1-1 1",
  ]);
});

test("a rule at an alias has the line of the alias, its condition that of the anchor", () => {
  assert.equal(
    located(
      "_schema: /v1",
      "artifacts:",
      "  provenance: &demand",
      "    required: true",
      "    exceptions: [{if: flow}]",
      "  trail-compliance: *demand",
      "  attestations:",
      "    - &rule",
      "      type: junit",
      "      if: flow",
      "    - *rule",
    ),
    ["3-5 5", "6-6 5", "8-10 10", "11-11 10"],
  );
});

test("a rule without a value, an exception without a condition, and a byte order mark", () => {
  assert.equal(
    located(
      "\ufeff_schema: /v1",
      "artifacts:",
      "  provenance:",
      "  trail-compliance:",
      "    exceptions:",
      "      - {}",
    ),
    ["3-3", "4-6 6"],
  );
});

test("line feeds of Windows, and more lines than the index of lines has entries for", () => {
  const rules = Array.from({ length: 200 }, () => "    - type: junit");
  assert.equal(
    locateRules(["_schema: /v1", "artifacts:", "  attestations:", ...rules].join("\r\n"))
      .slice(2)
      .map(show),
    rules.map((_, index) => `${index + 4}-${index + 4}`),
  );
});

test("a text without rules, one that is no policy, and one that is no YAML have none", () => {
  for (const text of [
    "",
    "_schema: /v1",
    "- a",
    "artifacts: *missing",
    "artifacts: &a {provenance: *a",
    "artifacts: []",
  ])
    assert.equal(locateRules(text).map(show).slice(2), [], text);
  assert.equal(located("artifacts: &a", "  provenance: *a", "  attestations: [*a, 7, null]").length, 5);
});

test.run();
