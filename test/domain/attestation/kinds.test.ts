import { suite } from "uvu";
import * as assert from "uvu/assert";
import { matches } from "../../../src/domain/names.ts";
import {
  customLabelOf,
  isFilterWord,
  ORIGINAL_TYPE,
  isTypeWord,
  KINDS,
  storedLabelOf,
  TYPE_WORDS_TEXT,
  typeWordOf,
} from "../../../src/domain/attestation/kinds.ts";

const test = suite("domain/attestation/kinds");

test("has the path segments that clients post to", () => {
  const segments = [...new Set(KINDS.map(({ segment }) => segment))].sort();
  assert.equal(segments, ["custom", "generic", "jira", "junit", "override", "pull_request", "snyk", "sonar", "system"]);
});

const words: [word: string, inTemplate: boolean, inFilter: boolean, inOverride: boolean][] = [
  ["generic", true, true, true],
  ["junit", true, true, true],
  ["snyk", true, true, true],
  ["pull_request", true, true, true],
  ["jira", true, true, true],
  ["sonar", true, true, true],
  ["decision", true, true, true],
  ["sbom", true, true, true],
  ["custom:coverage.v2", true, true, true],
  ["*", true, false, false],
  ["custom", false, false, true],
  ["custom:", false, false, true],
  ["custom:*", false, false, true],
  ["custom:-x", false, false, true],
  ["custom:a b", false, false, true],
  ["system:decision", true, true, true],
  ["system:sbom", true, true, true],
  ["system:*", false, false, true],
  ["pull-request", false, false, false],
  ["artifact", false, false, false],
  ["override", false, false, false],
  ["system", false, false, false],
  ["Generic", false, false, false],
  ["generic\n", false, false, false],
  ["custom:a\n", false, false, false],
  ["", false, false, false],
];
for (const [word, inTemplate, inFilter, inOverride] of words) {
  test(`where ${JSON.stringify(word)} may stand`, () => {
    assert.equal(
      { isTypeWord: isTypeWord(word), isFilterWord: isFilterWord(word), matches: matches(ORIGINAL_TYPE, word) },
      { isTypeWord: inTemplate, isFilterWord: inFilter, matches: inOverride },
    );
  });
}

test("converts between the words and the stored labels of decisions and SBOMs", () => {
  assert.is(storedLabelOf("decision"), "system:decision");
  assert.is(typeWordOf("system:decision"), "decision");
  assert.is(storedLabelOf("sbom"), "system:sbom");
  assert.is(typeWordOf("system:sbom"), "sbom");
  for (const same of ["generic", "pull_request", customLabelOf("x")]) {
    assert.is(storedLabelOf(same), same);
    assert.is(typeWordOf(same), same);
  }
});

test("lists every word in refusals", () => {
  assert.is(
    TYPE_WORDS_TEXT,
    "'generic', 'junit', 'snyk', 'pull_request', 'jira', 'sonar', 'decision', 'sbom', 'custom:<type-name>' or '*'",
  );
});

test.run();
