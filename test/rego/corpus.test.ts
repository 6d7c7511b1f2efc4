/**
 * The engine says what OPA says: every row that OPA recorded as a native program (`make rego-corpus`), to the digit and
 * to the word.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { itemTexts, memberTexts } from "../../src/json/walk.ts";
import type { RegoOutcome, RegoVerdict } from "../../src/rego/types.ts";
import { givenEngine } from "./given.ts";

const test = suite("rego/corpus");
const DIRECTORY = join(import.meta.dirname, "corpus");
const engine = givenEngine();
test.after(() => engine.close());

/** A recorded row, its values as JSON texts; `error`: what OPA said instead. */
type Row = { policy: string; number: string; input: string; params: string; values: Texts; error: string | null };
type Texts = Readonly<Record<string, string>>;

const rows = readFileSync(join(DIRECTORY, "verdicts.jsonl"), "utf8")
  .trimEnd()
  .split("\n")
  .map((line): Row => {
    const texts: Texts = Object.fromEntries(memberTexts(line));
    const [policy, error = null] = [texts["policy"], texts["error"]].map((text) => text && JSON.parse(text));
    const { case: number = "", input = "", params = "", values = "{}" } = texts;
    return { policy, number, input, params, values: Object.fromEntries(memberTexts(values)), error: error ?? null };
  });
const policies = [...new Set(rows.map(({ policy }) => policy))];

/** The files of the bundle in a policy of the corpus: see src/rego/engine/corpus/main.go. */
function filesOf(text: string): Record<string, string> {
  const files: Record<string, string> = {};
  let name = "policy.rego";
  for (const line of text.trimEnd().split("\n"))
    if (line.startsWith("#: file ")) name = line.slice("#: file ".length);
    else if (!line.startsWith("#: ")) files[name] = `${files[name] ?? ""}${line}\n`;
  return files;
}

/** What the engine has to answer, by the rules of newer-clients 6.4 and 6.5. */
function expectedOf({ values, error }: Row, isAnnotated: boolean): unknown {
  if (error?.startsWith("json:")) return { kind: "result_shape" };
  if (error !== null) {
    const [, count, text] = /^(?:bundle activation failed: )?(\d+ errors? occurred:\s)?([^]*)$/.exec(error) as string[];
    return { kind: count === undefined ? "evaluate" : "compile", message: text };
  }
  const { allow = "", violations = "[]", ...outputs } = values;
  const isShaped = ["true", "false"].includes(allow);
  if (isShaped && allow === "true" && !isAnnotated) return { allow, violations: [], outputs };
  if (!isShaped || !violations.startsWith("[")) return { kind: "result_shape" };
  const texts = [...itemTexts(violations)].map((text) => (text.startsWith('"') ? JSON.parse(text) : text));
  return { allow, violations: texts, outputs };
}

function answerOf(outcome: RegoOutcome<RegoVerdict>): unknown {
  if (outcome.ok) {
    const { allow, violations, outputs } = outcome.value;
    return { allow: String(allow), violations, outputs: Object.fromEntries(memberTexts(outputs)) };
  }
  const { kind, message } = outcome.error;
  return kind === "result_shape" ? { kind } : { kind, message };
}

for (const policy of policies)
  test(`answers like OPA itself: ${policy}`, async () => {
    const text = readFileSync(join(DIRECTORY, `${policy}.rego`), "utf8");
    const isAnnotated = /entrypoint: true\nviolations/.test(text);
    for (const row of rows.filter((one) => one.policy === policy)) {
      const question = { input: Buffer.from(row.input), params: row.params, timeNs: 1_757_000_000_500_000_000n };
      const outcome = await engine.evaluate(filesOf(text), { ...question, seed: "corpus" });
      assert.equal(answerOf(outcome), expectedOf(row, isAnnotated), `case ${row.number}: ${row.input}`);
    }
  });

test("has three hundred rows, and a file for each of them", () => {
  assert.ok(rows.length >= 300);
  const files = readdirSync(DIRECTORY).filter((name) => name.endsWith(".rego"));
  assert.equal(files.map((name) => name.slice(0, -".rego".length)).sort(), [...policies].sort());
});

test.run();
