/** `assay template check`. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { cli, inDirectory } from "../../in-process.ts";

const test = suite("cli/commands/checks/template");

test("check prints nothing for a valid file, and each mistake of another at its line", () =>
  inDirectory(async (cwd) => {
    writeFileSync(join(cwd, "good.yml"), "version: 1\ntrail:\n  attestations:\n    - {name: a, type: junit}\n");
    writeFileSync(join(cwd, "bad.yml"), 'version: 2\ntrial: {}\ntrail:\n  attestations: [{name: "\\e[2J"}]\n');
    assert.equal(await cli(["template", "check", "good.yml"], { cwd }), { code: 0, out: "", err: "" });
    const { code, out, err } = await cli(["template", "check", "bad.yml"], { cwd });
    assert.equal([code, err], [1, ""]);
    const lines = out.trimEnd().split("\n");
    assert.equal(lines.slice(0, 2), [
      "bad.yml:1:10: version: Input should be 1 [input: 2]",
      "bad.yml:2:1: trial: Extra inputs are not permitted [input: {...}]; did you mean trail? " +
        "Possible keys: version, trail",
    ]);
    assert.is(lines.length, 4);
    assert.not.ok(out.includes("\u001b"), "no control characters reach the terminal");
    const json = JSON.parse((await cli(["template", "check", "bad.yml", "--json"], { cwd })).out);
    assert.equal([json.valid, json.problems.length, json.warnings], [false, 4, []]);
    assert.equal(json.problems[0], {
      line: 1,
      column: 10,
      path: "version",
      message: "Input should be 1 [input: 2]",
    });
  }));

test("check reads standard input, and refuses a file that it cannot read and a missing argument", async () => {
  assert.equal(await cli(["template", "check", "-"], { stdin: "version: 1\n" }), { code: 0, out: "", err: "" });
  assert.match((await cli(["template", "check", "-"], { stdin: "a: [" })).out, /^-:1:\d+: Not YAML/);
  const missing = await cli(["template", "check", "/nonexistent/t.yml"]);
  assert.is(missing.code, 1);
  assert.match(missing.err, /^assay: cannot read \/nonexistent\/t\.yml: /);
  assert.is((await cli(["template", "check"])).code, 2);
});

test.run();
