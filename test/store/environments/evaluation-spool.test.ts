import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createEvaluationSpool } from "../../../src/store/environments/evaluation-spool.ts";
import type { EvaluationTexts } from "../../../src/store/environments/evaluation-spool.ts";

const test = suite("store/environments/evaluation-spool");

const directory = mkdtempSync(join(tmpdir(), "assay-evaluations-"));
test.after(() => rmSync(directory, { recursive: true, force: true }));

const evaluation = (text: string): EvaluationTexts => ({
  facts: JSON.stringify({ flows: [text] }),
  verdictsJson: JSON.stringify([text, text]),
  reasonsJson: JSON.stringify(`because ${text}`),
});

const KILO = "x".repeat(1_000);
/** What evaluations may look like: empty, with every kind of character, and of a megabyte and more. */
const WORLDS: Readonly<Record<string, readonly string[]>> = {
  "no evaluation": [],
  "one evaluation": ["one"],
  "evaluations of two megabytes": Array.from({ length: 700 }, (_, n) => `${n} ${KILO}`),
  "line breaks, quotes and characters of every length": ["\n\r\u2028", '"\\', "é", "你", "🧾", "\ud800", ""].flatMap(
    (text) => [text, text.repeat(200_000), text],
  ),
  "one evaluation of ten megabytes between small ones": ["before", KILO.repeat(10_000), "after"],
};

for (const [what, texts] of Object.entries(WORLDS))
  for (const [where, files] of [
    ["a file", { directory, reserveBytes: 0 }],
    ["memory", null],
  ] as const)
    test(`returns ${what} in order from ${where}, as often as asked`, () => {
      const spool = createEvaluationSpool(files);
      const evaluations = texts.map(evaluation);
      for (const texts of evaluations) spool.write(texts);
      for (let time = 0; time < 2; time += 1) {
        const found = [...spool.read()];
        assert.is(found.length, evaluations.length);
        for (const [index, one] of evaluations.entries())
          for (const name of ["facts", "verdictsJson", "reasonsJson"] as const)
            assert.ok(found[index]?.[name] === one[name], `${name} of evaluation ${index}`);
      }
      spool.close();
      spool.close();
    });

test("keeps facts as they are in memory, and as text in the file, whatever their size", () => {
  const flow = {
    flow_id: 1,
    flow: "payments",
    tags: {},
    trail_id: 2,
    trail: "t",
    artifact_id: 3,
    reference_name: null,
    filename: "app",
    git_commit: null,
    commit_url: "",
    committed_at: null,
    state: "COMPLIANT" as const,
    deployment_id: null,
  };
  const candidate = {
    name: "tests",
    type: "generic",
    isCompliant: true,
    control: null,
    attestationId: "a",
    level: "trail" as const,
    sequence: 4,
  };
  const flows = [
    { ...flow, reasons: [], candidates: [candidate] },
    { ...flow, reasons: [], candidates: Array.from({ length: 9_000 }, () => candidate) },
    { ...flow, reasons: Array.from({ length: 2_000 }, () => KILO), candidates: [] },
  ];
  const spool = createEvaluationSpool({ directory, reserveBytes: 0 });
  for (const one of flows) spool.write({ facts: { flows: [one] }, verdictsJson: "[]", reasonsJson: "[]" });
  spool.write({ facts: { flows: [] }, verdictsJson: "[]", reasonsJson: "[]" });
  const found = [...spool.read()].map(({ facts }) => facts);
  assert.equal(
    found.map((facts) => typeof facts),
    ["string", "string", "string", "object"],
  );
  assert.equal(
    found.map((facts) => (typeof facts === "string" ? JSON.parse(facts) : facts)),
    [...flows.map((one) => ({ flows: [one] })), { flows: [] }],
  );
  spool.close();
});

test("uses no file for a megabyte, and one without a name for more", () => {
  const nowhere = join(directory, "missing");
  const small = createEvaluationSpool({ directory: nowhere, reserveBytes: 0 });
  for (let n = 0; n < 100; n += 1) small.write(evaluation(KILO));
  assert.is([...small.read()].length, 100);

  const large = createEvaluationSpool({ directory, reserveBytes: 0 });
  for (let n = 0; n < 2_000; n += 1) large.write(evaluation(KILO));
  assert.equal(readdirSync(directory), []);
  large.close();
});

test("refuses to use up the space that stays free, as a full disk does", () => {
  const spool = createEvaluationSpool({ directory, reserveBytes: 2 ** 60 });
  let refusal: unknown = null;
  try {
    for (let n = 0; n < 2_000; n += 1) spool.write(evaluation(KILO));
  } catch (error) {
    refusal = error;
  }
  assert.is((refusal as { code?: unknown } | null)?.code, "ENOSPC");
  spool.close();
  assert.equal(readdirSync(directory), []);
});

test.run();
