import { suite } from "uvu";
import * as assert from "uvu/assert";
import { findUnknownTypes } from "../../../src/domain/flow-template/unknown-types.ts";
import type { OrganizationNames } from "../../../src/domain/organization-names.ts";

const test = suite("domain/flow-template/unknown-types");

const CREATE = "create it, or correct the name";

const KNOWN: OrganizationNames = {
  organization: "acme",
  flows: new Set(),
  tagKeys: new Set(),
  types: new Map([
    ["coverage", "active"],
    ["old", "archived"],
  ]),
  attestations: new Set(),
  isExpected: () => false,
  isOver: () => false,
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
        "the attestation type 'old' of organization 'acme' is archived and takes no reports; " +
        "upload it again to restore it",
    ],
  );
});

test("a template without custom types has none, and aliases are followed", () => {
  for (const text of ["version: 1", "trail:", "trail: {attestations: []}", ""]) assert.equal(unknown(text), []);
  const list =
    "trail:\n  attestations: &all\n    - {name: a, type: 'custom:z'}\n" +
    "  artifacts:\n    - {name: x, attestations: *all}\n";
  assert.equal(unknown(list), [
    `3:23 trail.attestations.0.type: organization 'acme' has no attestation type 'z'; ${CREATE}`,
    `3:23 trail.artifacts.0.attestations.0.type: organization 'acme' has no attestation type 'z'; ${CREATE}`,
  ]);
});

test.run();
