/** What the followed pages of the guide hold: a wrong verdict, value, refusal or output on a page fails the suite. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { openExamples, readExample } from "./examples.ts";
import type { Example } from "./examples.ts";
import { readLines } from "./facts.ts";

const test = suite("guide/examples");

const POLICY = "_schema: /v1\nartifacts:\n  attestations:\n    - type: junit\n";
const example = (info: string, text: string): Example => readExample({ info, text, line: 7 });

/** Follows blocks; returns the message of the failure of the last one, "" without any. */
async function follow(...examples: Example[]): Promise<string> {
  const { steps, close } = await openExamples("page", examples);
  try {
    for (const { follow: go } of steps.slice(0, -1)) await go();
    return await (steps.at(-1)?.follow() ?? Promise.resolve()).then(
      () => "",
      (error: Error) => error.message,
    );
  } finally {
    await close();
  }
}

test("an info string says what a block is, where it is saved and how it is refused", () => {
  const read = (info: string) => {
    const { text: _, line: __, ...rest } = example(info, "x\n");
    return rest;
  };
  assert.equal(read("yaml policy"), { kind: "policy", file: null, refused: null });
  assert.equal(read("yaml policy file=a.yml"), { kind: "policy", file: "a.yml", refused: null });
  assert.equal(read('yaml template refused: "write "x""'), { kind: "template", file: null, refused: 'write "x"' });
  assert.equal(read("sh"), { kind: "commands", file: null, refused: null });
  for (const info of [
    "",
    "yaml",
    "json policy",
    "yaml verdicts",
    "sh serves",
    "bash",
    "yaml policy now",
    "constructor",
  ])
    assert.throws(() => read(info), /^line 7: a block with the info string '.*' says not what it is$/, info);
});

test("a line is facts, their result and a part of the reason", () => {
  assert.equal(readLines("flow a (x=1), junit t passes => NON-COMPLIANT: none => x\n\na >= 1 => true\n"), [
    { facts: "flow a (x=1), junit t passes => NON-COMPLIANT: none", result: "x", reason: null },
    { facts: "a >= 1", result: "true", reason: null },
  ]);
  for (const line of ["flow a", "flow a =>", "flow a => ", "flow a => COMPLIANT because"])
    assert.throws(() => readLines(line), /is not FACTS => RESULT/, line);
});

test("a policy that should be refused, and one that should not, fail", async () => {
  assert.is(await follow(example("yaml policy", POLICY)), "");
  assert.is(await follow(example('yaml policy refused: "Possible keys: if, name"', `${POLICY}      typ: x\n`)), "");
  assert.match(await follow(example('yaml policy refused: "nothing"', POLICY)), /"OK"|policy_yaml/);
  assert.match(await follow(example('yaml policy refused: "nothing"', `${POLICY}      typ: x\n`)), /refused with:/);
  assert.match(await follow(example("yaml policy", `${POLICY}      typ: x\n`)), /Extra inputs/);
});

test("a wrong verdict, a wrong reason and an unknown fact fail", async () => {
  const verdicts = (text: string) => follow(example("yaml policy", POLICY), example("text verdicts", text));
  assert.is(await verdicts("flow a, junit t passes => COMPLIANT\nno flow => NON-COMPLIANT: not reported to any\n"), "");
  assert.match(await verdicts("flow a, junit t fails => COMPLIANT\n"), /requires a compliant junit attestation/);
  assert.match(await verdicts("flow a => NON-COMPLIANT: is not compliant\n"), /is not among the reasons/);
  assert.match(await verdicts("flow a, junit t pass => COMPLIANT\n"), /is not a fact/);
  assert.match(await follow(example("text verdicts", "no flow => COMPLIANT\n")), /no block before/);
});

test("a wrong state of a trail and a wrong entry fail", async () => {
  const TEMPLATE = "trail:\n  artifacts: [{name: app, attestations: [{name: t, type: junit}]}]\n";
  const verdicts = (text: string) => follow(example("yaml template", TEMPLATE), example("text verdicts", text));
  assert.is(await verdicts("nothing => INCOMPLETE: app MISSING\nartifact app => INCOMPLETE: app.t MISSING\n"), "");
  assert.is(await verdicts("artifact app, junit t passes on app => COMPLIANT: app.t COMPLETE\n"), "");
  assert.match(await verdicts("artifact app, junit t passes => COMPLIANT\n"), /app\.t MISSING/);
  assert.match(await verdicts("artifact app => INCOMPLETE: app.t unexpected\n"), /is not among the reasons/);
});

test("a wrong verdict of a type, of its rules and of a built-in type fails", async () => {
  const TYPE = JSON.stringify({
    name: "c",
    evaluator: { rules: [".n > 1"] },
    summary: [{ name: "N", expression: ".n" }],
  });
  const verdicts = (text: string) =>
    follow(
      example("json schema", '{"type":"object","required":["n"]}'),
      example("json type", TYPE),
      example("text verdicts", text),
    );
  assert.is(
    await verdicts('{"n":2} => COMPLIANT: N: 2\n{"n":1} => NON-COMPLIANT: gives false\n{} => refused: n\n'),
    "",
  );
  assert.match(await verdicts('{"n":1} => COMPLIANT\n'), /gives false/);
  assert.match(await verdicts("{} => COMPLIANT\n"), /must have required|required/);
  assert.is(await follow(example("jq", '.n > 1 # {"n":2} => true\n.n # {"n":2} => false: gives 2\n')), "");
  assert.match(await follow(example("jq", '.n > 1 # {"n":1} => true\n')), /gives false/);
  assert.match(await follow(example("jq", '.n # {"n":1} => false: gives 2\n')), /gives 1/);
  assert.match(await follow(example("text reports", 'generic {"is_compliant": false} => COMPLIANT\n')), /OK/);
  assert.match(
    await follow(example("text reports", 'junit {"junit_results": []} => refused: x y\n')),
    /at least 1 item/,
  );
});

test("a wrong message, a wrong payload and something that cannot happen fail", async () => {
  const webhook = "https://hooks.example.com/a";
  const places = { environments: ["production"], triggers: ["ON_STARTED_ARTIFACT"] };
  const targets = [{ type: "WEBHOOK", webhook }];
  const action = example("json action", JSON.stringify({ name: "a", ...places, targets }));
  const messages = (text: string) => follow(action, example("text messages", text));
  assert.is(await messages("app starts => STARTED_ARTIFACT\napp stops => none\n"), "");
  assert.match(await messages("app starts => none\n"), /strictly equal/);
  assert.match(await messages("app explodes => none\n"), /is not something that happens/);
  const started = example("text messages", "app starts => STARTED_ARTIFACT\n");
  const payload = example("json payload", '{"event_type": "STARTED_ARTIFACT", "org": "acme"}');
  assert.match(await follow(action, started, payload), /deeply equal/);
});

test("a wrong snapshot, a wrong report and a cluster in which something unknown happens fail", async () => {
  const clusters = (text: string) => follow(example("text clusters", text));
  assert.is(
    await clusters("in prod runs: a-1 a:1 => snapshot 1, unknown, a:1 started-unknown\nprod is => unknown\n"),
    "",
  );
  assert.match(await clusters("in prod runs: a-1 a:1 => none\n"), /strictly equal/);
  assert.match(await clusters("in prod runs: a-1 => none\n"), /is not POD IMAGE/);
  assert.match(await clusters("prod sleeps => none\n"), /is not something that happens/);
  assert.match(await follow(example("json report", '{"artifacts": [{}]}')), /Field required/);
});

test("a wrong value of an expression and a wrong error fail", async () => {
  const values = (text: string) => follow(example("text expressions", `flow a (k=1)\n${text}`));
  assert.is(
    await values("flow.name == \"a\" => true\nflow.tags.k > 1 => false\nflow.name => error: the text 'a'\n"),
    "",
  );
  assert.match(await values("flow.tags.k > 1 => true\n"), /equal/);
  assert.match(await values("flow.name => error: the text 'b'\n"), /the text 'b'/);
  assert.match(await values("flow.tag => true\n"), /unknown name/);
});

test("a failing command and another output fail", async () => {
  const printed = (output: string) =>
    follow(example("text file=a.txt", "x\n"), example("sh", "cat a.txt; echo $ORG 1\n"), example("output", output));
  assert.is(await printed("x\nacme 2\n"), "");
  assert.match(await printed("y\n"), /printed was:\nx\nacme 1/);
  assert.match(await follow(example("sh", "echo out; false; echo on\n")), /out\n$/);
});

test("an evaluation of a policy in Rego is checked, and so is its refusal", async () => {
  const policy = example(
    "rego",
    'package p\ndefault allow := false\nallow if input.x\nviolations contains "no x" if not input.x\n',
  );
  const evaluated = (line: string) => follow(policy, example("text evaluations", `${line}\n`));
  assert.is(await evaluated('{"input": {"x": true}} => ALLOWED'), "");
  assert.is(await evaluated('{"input": {}} => DENIED: no x'), "");
  assert.match(await evaluated('{"input": {}} => ALLOWED'), /no x/);
  assert.match(await evaluated('{"input": {}} => DENIED: no y'), /no x/);
  assert.match(await follow(example("rego", "package p\n")), /No package declares a rule named allow/);
  assert.is(await follow(example('rego refused: "No package declares"', "package p\n")), "");
  assert.match(await follow(example('rego refused: "another"', "package p\n")), /No package declares/);
});

test.run();
