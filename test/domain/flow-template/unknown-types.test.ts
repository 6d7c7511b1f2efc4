import { suite } from "uvu";
import * as assert from "uvu/assert";
import { findUnknownTypes } from "../../../src/domain/flow-template/unknown-types.ts";
import type { OrganizationNames } from "../../../src/domain/organization-names.ts";

const test = suite("domain/flow-template/unknown-types");

const KNOWN: OrganizationNames = {
  organization: "acme",
  flows: [],
  tagKeys: [],
  types: new Map([
    ["coverage", "active"],
    ["old", "archived"],
  ]),
  attestations: [],
  isExpected: () => false,
};
const unknown = (text: string): string[] =>
  findUnknownTypes(text, KNOWN).map(({ line, column, path, problem }) => `${line}:${column} ${path}: ${problem}`);

test("an expected attestation of an unknown or archived type is reported at its type, on both levels", () => {
  assert.equal(
    unknown(`trail:
  attestations:
    - { name: a, type: junit }
    - { name: b, type: "custom:coverage" }
    - { name: c, type: "custom:coverge" }
  artifacts:
    - name: x
      attestations:
        - { name: a, type: "*" }
        - { name: b, type: "custom:old" }
`),
    [
      "5:24 trail.attestations.2.type: organization 'acme' has no attestation type 'coverge'; did you mean coverage?",
      "10:28 trail.artifacts.0.attestations.1.type: " +
        "the attestation type 'old' of organization 'acme' is archived and takes no reports",
    ],
  );
});

test("a template without custom types has none, and aliases are followed", () => {
  for (const text of ["version: 1", "trail:", "trail: {attestations: []}", ""]) assert.equal(unknown(text), []);
  const list =
    "trail:\n  attestations: &all\n    - {name: a, type: 'custom:z'}\n" +
    "  artifacts:\n    - {name: x, attestations: *all}\n";
  assert.equal(unknown(list), [
    "3:23 trail.attestations.0.type: organization 'acme' has no attestation type 'z'",
    "3:23 trail.artifacts.0.attestations.0.type: organization 'acme' has no attestation type 'z'",
  ]);
});

test.run();
