/** `assay type try`. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { cli, inDirectory } from "../../in-process.ts";
import type { Outcome } from "../../in-process.ts";

const test = suite("cli/commands/checks/type");

const TYPE = {
  name: "coverage",
  evaluator: { content_type: "jq", rules: [".percent >= 80", ".files | length > 0"] },
  summary: [
    { name: "Coverage", expression: '"\\(.percent) %"' },
    { name: "Files", expression: ".files | length" },
  ],
};
const SCHEMA = { type: "object", required: ["percent"], properties: { percent: { type: "number" } } };

/** Writes the files and runs `assay type try` on them; an undefined one is left out. */
const attempt = (
  { type = TYPE, schema, data }: { type?: unknown; schema?: unknown; data?: string },
  ...words: string[]
): Promise<Outcome> =>
  new Promise((resolve, reject) => {
    inDirectory(async (cwd) => {
      const write = (name: string, content: unknown): string[] => {
        if (content === undefined) return [];
        writeFileSync(join(cwd, name), typeof content === "string" ? content : JSON.stringify(content));
        return [name];
      };
      const positional = [...write("type.json", type), ...write("data.json", data)];
      const option = write("schema.json", schema).flatMap((name) => ["--schema", name]);
      resolve(await cli(["type", "try", ...positional, ...option, ...words], { cwd }));
    }).catch(reject);
  });

test("a valid definition prints nothing", async () => {
  assert.equal(await attempt({}), { code: 0, out: "", err: "" });
  assert.equal(await attempt({ schema: SCHEMA }), { code: 0, out: "", err: "" });
  assert.equal(JSON.parse((await attempt({}, "--json")).out), { valid: true, problems: [], warnings: [] });
});

test("data gets a verdict, the outcome of each rule and the summary", async () => {
  assert.equal(await attempt({ schema: SCHEMA, data: '{"percent": 91.5, "files": ["a"]}' }), {
    code: 0,
    out: "COMPLIANT\n  holds   .percent >= 80\n  holds   .files | length > 0\n  Coverage: 91.5 %\n  Files: 1\n",
    err: "",
  });
  const failing = await attempt({ data: '{"percent": 12, "files": []}' });
  assert.equal(failing, {
    code: 0,
    out:
      "NON-COMPLIANT\n  FAILED  .percent >= 80: gives false\n  FAILED  .files | length > 0: gives false\n" +
      "  Coverage: 12 %\n  Files: 0\n",
    err: "",
  });
  const json = JSON.parse((await attempt({ data: '{"percent": 12, "files": ["a"]}' }, "--json")).out);
  assert.equal(json, {
    valid: true,
    problems: [],
    warnings: [],
    mismatch: null,
    is_compliant: false,
    rules: [
      { rule: ".percent >= 80", reason: "gives false" },
      { rule: ".files | length > 0", reason: null },
    ],
    summary: {
      groups: [
        [
          { name: "Coverage", value: "12 %", error: null },
          { name: "Files", value: 1, error: null },
        ],
      ],
      left_out: 0,
    },
  });
});

test("numbers reach the rules with the digits that the file has", async () => {
  const type = {
    name: "n",
    evaluator: { rules: [". == 9007199254740993 | not"] },
    summary: [{ name: "N", expression: "." }],
  };
  assert.match((await attempt({ type, data: "9007199254740993" })).out, /N: 9007199254740993\n/);
});

test("data that does not match the schema would be refused, and the exit code says so", async () => {
  assert.equal(await attempt({ schema: SCHEMA, data: "{}" }), {
    code: 1,
    out: "refused: attestation_data: must have required property 'percent'\n",
    err: "",
  });
  const json = JSON.parse((await attempt({ schema: SCHEMA, data: "{}" }, "--json")).out);
  assert.equal(json.mismatch, "attestation_data: must have required property 'percent'");
});

test("mistakes of a definition, a schema and data are printed with their file and field", async () => {
  const lines = async (files: Parameters<typeof attempt>[0]): Promise<string[]> => {
    const { code, out, err } = await attempt(files);
    assert.equal([code, err], [1, ""]);
    return out.trimEnd().split("\n");
  };
  assert.equal(await lines({ type: { nam: "x" } }), [
    "type.json: name: Field required",
    "type.json: nam: Extra inputs are not permitted [input: x]; possible keys: name, description, evaluator, summary",
  ]);
  const [rule, expression] = await lines({
    type: { name: "x", evaluator: { rules: [".a", ".["] }, summary: [{ name: "s", expression: "nope" }] },
  });
  assert.match(rule ?? "", /^type\.json: evaluator\.rules\.1: Rule is not a valid jq expression: /);
  assert.match(expression ?? "", /^type\.json: summary\.0\.expression: Expression is not a valid jq expression: /);
  assert.match((await lines({ schema: { type: "nothing" } }))[0] ?? "", /^schema\.json: /);
  assert.equal(await lines({ schema: [] }), ["schema.json: Input should be a JSON object"]);
  assert.match((await lines({ type: "{", data: "[1," })).join("\n"), /^type\.json: .*JSON.*\ndata\.json: .*JSON/);
  assert.match(
    (await lines({ type: '{"name":"a","name":"b"}' }))[0] ?? "",
    /^type\.json: name: Key is given more than once/,
  );
});

test("unreadable files and missing arguments are refused", async () => {
  assert.is((await cli(["type", "try"])).code, 2);
  const missing = await cli(["type", "try", "/nonexistent/type.json"]);
  assert.is(missing.code, 1);
  assert.match(missing.err, /^assay: cannot read \/nonexistent\/type\.json: /);
});

test.run();
