import { suite } from "uvu";
import * as assert from "uvu/assert";
import { explainConditions } from "../../../src/domain/policy/conditions.ts";
import { parsePolicy } from "../../../src/domain/policy/document.ts";
import type { FlowFacts } from "../../../src/domain/policy/evaluate.ts";

const test = suite("domain/policy/conditions");

const flow = (flowName: string, flowTags: Record<string, string> = {}): FlowFacts => ({
  flowName,
  flowTags,
  artifactName: "app",
  artifactState: "COMPLIANT",
  trail: null,
});

function explained(artifacts: string, flows: FlowFacts[] = [flow("build")], artifactName = "app:1") {
  const { policy, problems } = parsePolicy(`_schema: /v1\nartifacts: ${artifacts}`);
  if (!policy) throw new Error(JSON.stringify(problems));
  return explainConditions(policy, { fingerprint: "f".repeat(64), artifactName, flows });
}

test("an exception is evaluated in each flow until one applies, with the values of its names", () => {
  const [provenance, compliance] = explained(
    "{provenance: {required: true, exceptions: [{if: flow.tags.tier == 'batch'}, {}, {if: flow.name == 'x'}]}}",
    [flow("x", { tier: "batch" }), flow("y", { tier: "core" })],
  );
  assert.equal(compliance, []);
  assert.equal(provenance, [
    {
      type: "exception",
      text: "flow.tags.tier == 'batch'",
      index: 0,
      results: [
        { flow: "x", result: true, error: null, values: { "flow.tags.tier": "batch" } },
        { flow: "y", result: false, error: null, values: { "flow.tags.tier": "core" } },
      ],
    },
    {
      type: "exception",
      text: null,
      index: 1,
      results: ["x", "y"].map((name) => ({ flow: name, result: null, error: null, values: {} })),
    },
    {
      type: "exception",
      text: "flow.name == 'x'",
      index: 2,
      results: [
        { flow: "x", result: null, error: null, values: {} },
        { flow: "y", result: false, error: null, values: { "flow.name": "y" } },
      ],
    },
  ]);
});

test("a rule that requires nothing evaluates no exception", () => {
  assert.equal(explained("{provenance: {required: false, exceptions: [{if: flow}]}}")[0], []);
});

test("every kind of expression shows its names, without provenance too", () => {
  const outcome = (condition: string, flows: FlowFacts[] = []) =>
    explained(`{attestations: [{type: junit, if: "${condition}"}]}`, flows)[2]?.[0]?.results[0];
  assert.equal(
    outcome("not exists(flow) and (matches(artifact.name, '^app') or artifact.fingerprint in ['a', flow.tags.b])"),
    {
      flow: null,
      result: true,
      error: null,
      values: { flow: false, "artifact.name": "app:1", "artifact.fingerprint": "f".repeat(64), "flow.tags.b": null },
    },
  );
  assert.equal(outcome("flow == 'x'", [flow("build")]), {
    flow: "build",
    result: null,
    error: "flow itself cannot be compared (at character 6 of: flow == 'x')",
    values: { flow: true },
  });
  assert.equal(outcome("true"), { flow: null, result: true, error: null, values: {} });
});

test("a name of an object's prototype is a tag like any other", () => {
  const [, , [condition] = []] = explained("{attestations: [{type: junit, if: exists(flow.tags.constructor)}]}");
  assert.equal(condition?.results[0]?.values, { "flow.tags.constructor": null });
});

test("shows the first fifty exceptions and the one that applied, and twenty names of an expression", () => {
  const exceptions = Array.from({ length: 200 }, (_, index) => `{if: flow.name == 'f${index}'}`).join(", ");
  const [shown = []] = explained(`{provenance: {required: true, exceptions: [${exceptions}]}}`, [flow("f150")]);
  assert.equal(
    shown.map(({ index }) => index),
    [...Array.from({ length: 50 }, (_, index) => index), 150],
  );
  const names = Array.from({ length: 30 }, (_, index) => `flow.tags.t${index} == 'x'`).join(" or ");
  const [, , [condition] = []] = explained(`{attestations: [{type: junit, if: "${names}"}]}`);
  assert.is(Object.keys(condition?.results[0]?.values ?? {}).length, 20);
});

test.run();
