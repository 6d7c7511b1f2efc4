import { suite } from "uvu";
import * as assert from "uvu/assert";
import { locateExpectations } from "../../../src/domain/flow-template/lines.ts";

const test = suite("domain/flow-template/lines");

const show = (text: string) => {
  const { attestations, artifacts } = locateExpectations(text);
  const lines = (all: typeof attestations) =>
    Object.fromEntries([...all].map(([name, { from, to }]) => [name, `${from}-${to}`]));
  return {
    trail: lines(attestations),
    artifacts: Object.fromEntries(
      [...artifacts].map(([name, own]) => [name, [`${own.lines.from}-${own.lines.to}`, lines(own.attestations)]]),
    ),
  };
};

test("every expectation has the lines of its item", () => {
  assert.equal(
    show(`version: 1
trail:
  attestations:
    - name: review # by people
      type: pull_request

    - { name: ticket, type: jira }
  artifacts:
    - name: backend
      attestations:
        - name: tests
          type: junit
    # the other one
    - name: frontend
`),
    {
      trail: { review: "4-5", ticket: "7-7" },
      artifacts: { backend: ["9-12", { tests: "11-12" }], frontend: ["14-14", {}] },
    },
  );
});

test("an expectation at an alias has the line of the alias", () => {
  assert.equal(
    show(
      "trail:\n  attestations:\n    - &a {name: a, type: '*'}\n" +
        "  artifacts:\n    - name: x\n      attestations:\n        - *a\n",
    ),
    { trail: { a: "3-3" }, artifacts: { x: ["5-7", { a: "7-7" }] } },
  );
});

test("aliases that multiply and texts that are no template end, with what was found", () => {
  for (const text of ["", "version: 1", "[", "trail: 7", "trail: {attestations: {name: x}, artifacts: [1, null, []]}"])
    assert.equal(show(text), { trail: {}, artifacts: {} }, text);
  const list = Array.from({ length: 2_000 }, (_, index) => `{name: a${index}, type: junit}`).join(", ");
  const artifacts = Array.from({ length: 200 }, (_, index) => `{name: x${index}, attestations: *all}`).join(", ");
  const found = locateExpectations(`trail: {attestations: &all [${list}], artifacts: [${artifacts}]}`);
  assert.is(found.attestations.size, 2_000);
  assert.is(found.artifacts.size, 200);
  assert.is(found.artifacts.get("x199")?.attestations.size, 0);
});

test.run();
