import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { OrganizationNames } from "../../../src/domain/organization-names.ts";
import type { PolicyDocument } from "../../../src/domain/policy/ast.ts";
import { parsePolicy } from "../../../src/domain/policy/document.ts";
import { findUnmetRules } from "../../../src/domain/policy/unmet-rules.ts";

const test = suite("domain/policy/unmet-rules");

const CREATE = "create it, or correct the name";

const KNOWN: OrganizationNames = {
  organization: "acme",
  flows: new Set(["payments", "web"]),
  tagKeys: new Set(["risk", "team"]),
  types: new Map([
    ["coverage", "active"],
    ["old", "archived"],
  ]),
  attestations: new Set(["unit-tests", "scan"]),
  isExpected: (name, type) =>
    (name === "unit-tests" && ["junit", "*"].includes(type)) || (name === "scan" && type !== "junit"),
  isOver: () => false,
};

/** "LINE:COLUMN PATH: PROBLEM" for each rule that nothing meets. */
function unmet(text: string, known = KNOWN): string[] {
  const { policy, problems } = parsePolicy(text);
  assert.is(problems, null, JSON.stringify(problems));
  return findUnmetRules(text, policy as PolicyDocument, known).map(
    ({ line, column, path, problem }) => `${line}:${column} ${path}: ${problem}`,
  );
}

const rule = (fields: string): string => `_schema: /v1\nartifacts:\n  attestations:\n    - {${fields}}\n`;
const where = (expression: string): string => rule(`type: junit, if: '${expression}'`);

test("a policy whose names all exist has no unmet rules", () => {
  assert.equal(
    unmet(`_schema: /v1
artifacts:
  provenance:
    required: true
    exceptions:
      - if: flow.name == "web" or flow.tags.team == "core"
      - if: null
  attestations:
    - type: custom:coverage
    - type: junit
      name: unit-tests
    - type: "*"
      name: unit-tests
    - type: snyk
      name: scan
      if: matches(flow.name, "^pay") and flow.name in ["web", "payments"] and artifact.name != "x"
    - type: decision
      name: anything
      for_control: C-1
    - type: generic
`),
    [],
  );
  assert.equal(unmet("_schema: /v1\n"), []);
});

test("a rule for an unknown or archived type is reported at the type", () => {
  assert.equal(unmet(rule("type: 'custom:coverge', name: any")), [
    "4:14 artifacts.attestations.0.type: organization 'acme' has no attestation type 'coverge'; did you mean coverage?",
  ]);
  assert.equal(unmet(rule("type: 'custom:zzz'")), [
    `4:14 artifacts.attestations.0.type: organization 'acme' has no attestation type 'zzz'; ${CREATE}`,
  ]);
  assert.equal(unmet(rule("type: 'custom:old'")), [
    "4:14 artifacts.attestations.0.type: " +
      "the attestation type 'old' of organization 'acme' is archived and takes no reports; " +
      "upload it again to restore it",
  ]);
});

test("a rule for an attestation that nothing expects or reported is reported at the name", () => {
  assert.equal(unmet(rule("type: junit, name: unit-test")), [
    "4:27 artifacts.attestations.0.name: no template of organization 'acme' expects an attestation 'unit-test' " +
      "of type junit, and none was reported; did you mean unit-tests?",
  ]);
  assert.equal(unmet(rule("type: snyk, name: unit-tests")), [
    "4:26 artifacts.attestations.0.name: no template of organization 'acme' expects an attestation 'unit-tests' " +
      "of type snyk, and none was reported; add it to a template, or correct the name",
  ]);
  assert.equal(unmet(rule("type: '*', name: sign-off")), [
    "4:25 artifacts.attestations.0.name: no template of organization 'acme' expects an attestation 'sign-off'" +
      ", and none was reported; add it to a template, or correct the name",
  ]);
});

test("a condition about an unknown flow or tag is reported at the name in it", () => {
  const at = (column: number, problem: string): string => `4:${column} artifacts.attestations.0.if: ${problem}`;
  const flow = (name: string): string => `organization 'acme' has no flow '${name}'`;
  assert.equal(unmet(where('flow.name == "payment"')), [at(39, `${flow("payment")}; did you mean payments?`)]);
  assert.equal(unmet(where('"zz" != flow.name')), [at(26, `${flow("zz")}; ${CREATE}`)]);
  assert.equal(unmet(where('${{ not (flow.name in ["web", "zz", "yy"]) }}')), [
    at(56, `${flow("zz")}; ${CREATE}`),
    at(62, `${flow("yy")}; ${CREATE}`),
  ]);
  assert.equal(unmet(where("exists(flow) and flow.tags.rsk > 5")), [
    at(43, "no flow of organization 'acme' has the tag 'rsk'; did you mean risk?"),
  ]);
  assert.equal(unmet(where('true or matches(flow.name, "^prod")')), [
    at(34, "no flow of organization 'acme' has a name that matches; create one, or correct the expression"),
  ]);
  // A tag, an artifact or a part of a list has values of its own.
  assert.equal(unmet(where('flow.tags.team == "zz" and artifact.name == "zz" and flow.name < "zz"')), []);
});

test("exceptions of both rules are searched, with their places; aliases too", () => {
  assert.equal(
    unmet(`_schema: /v1
artifacts:
  provenance: &rule
    required: true
    exceptions:
      - if: "true"
      - if: >-
          \${{ flow.name == "web" or
          flow.name == "zz" }}
  trail-compliance: *rule
`),
    [
      `9:24 artifacts.provenance.exceptions.1.if: organization 'acme' has no flow 'zz'; ${CREATE}`,
      `9:24 artifacts.trail-compliance.exceptions.1.if: organization 'acme' has no flow 'zz'; ${CREATE}`,
    ],
  );
});

test("an organization without anything meets no name, and 100 are listed", () => {
  const nothing: OrganizationNames = {
    organization: "new",
    flows: new Set(),
    tagKeys: new Set(),
    types: new Map(),
    attestations: new Set(),
    isExpected: () => false,
    isOver: () => false,
  };
  assert.equal(unmet(rule("type: junit"), nothing), []);
  assert.equal(unmet(where('matches(flow.name, ".*")'), nothing).length, 1);
  const names = Array.from({ length: 300 }, (_, index) => `"n${index}"`).join(", ");
  assert.is(unmet(where(`flow.name in [${names}]`), nothing).length, 100);
});

test("a search whose time is over ends where it is, also within an expression over all flows", () => {
  let asked = 0;
  const slow = { ...KNOWN, flows: new Set(Array.from({ length: 1_000 }, (_, index) => `f${index}`)) };
  const text = where('flow.name == "zz" or matches(flow.name, "^prod") or flow.name == "yy"');
  assert.is(unmet(text, slow).length, 3);
  const found = unmet(text, { ...slow, isOver: () => ++asked > 500 });
  assert.is(found.length, 2);
  assert.match(found[0] as string, /^4:39 .* has no flow 'zz'/);
  assert.match(found[1] as string, /^4:47 artifacts\.attestations\.0\.if: the comparison with .* ended here, because/);
  assert.ok(asked < 520, `${asked}`);
});

test.run();
