/** `assay policy check` and `assay policy preview`. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { lockDirectory } from "../../../../src/store/db/data-directory-lock.ts";
import { cli, inDirectory } from "../../in-process.ts";
import type { Outcome } from "../../in-process.ts";
import { A, B, NEEDS_TESTS, asDirectory, world } from "../explain-given.ts";

const test = suite("cli/commands/checks/policy");
const C = "c".repeat(64);
const V1 = "_schema: https://assay.example.com/schemas/policy/v1\n";
const REVIEW = `${V1}${NEEDS_TESTS}    - name: review\n      type: generic\n`;
const NOTHING = `${V1}artifacts: {}\n`;
const BAD = "_schema: /v1\nartifacts:\n  provenence: 1\n  attestations:\n    - name: \u001b[2J\n      x: 1\n";
const CONTROL = `${V1}artifacts:\n  attestations:\n    - { type: decision, for_control: C-9 }\n`;

/** prod runs app, which satisfies the policy `release`, ext, which does not, and old, which is on the allowlist. */
function story() {
  const w = world();
  const a = w.build(A, "t-a");
  w.attest(a, "tests", 1);
  w.attach(w.prod, w.policy("release", NEEDS_TESTS));
  w.report(w.prod, ["app", A], ["ext", B], ["old", C]);
  w.allow(w.prod, C, "hotfix");
  w.again(w.prod, "allowlist");
  w.environment("all", "logical");
  w.environment("staging");
  return w;
}

const withStory = (body: (preview: (file: string, ...words: string[]) => Promise<Outcome>) => Promise<void>) =>
  asDirectory(story().db, async (data) => {
    const before = readFileSync(join(data, "assay.db"));
    await body((file, ...words) => cli(["policy", "preview", "-", "--data", data, ...words], { stdin: file }));
    assert.ok(readFileSync(join(data, "assay.db")).equals(before), "the database is as before");
  });

test("check prints nothing for a valid file, and each mistake of another at its line", () =>
  inDirectory(async (cwd) => {
    writeFileSync(join(cwd, "good.yml"), REVIEW);
    writeFileSync(join(cwd, "bad.yml"), BAD);
    assert.equal(await cli(["policy", "check", "good.yml"], { cwd }), { code: 0, out: "", err: "" });
    const bad = await cli(["policy", "check", "bad.yml"], { cwd });
    assert.equal([bad.code, bad.err], [1, ""]);
    assert.ok(
      bad.out.startsWith(
        "bad.yml:3:3: artifacts.provenence: Extra inputs are not permitted [input: 1]; did you mean provenance? " +
          "Possible keys: provenance, trail-compliance, attestations\n",
      ),
    );
    assert.ok(
      bad.out.split("\n").every((line) => line === "" || /^bad\.yml:\d+:\d+: /.test(line)),
      bad.out,
    );
    assert.not.ok(bad.out.includes("\u001b"), "no control characters reach the terminal");
    const json = await cli(["policy", "check", "bad.yml", "--json"], { cwd });
    const { valid, problems } = JSON.parse(json.out);
    assert.equal([json.code, valid, problems[0].line, problems[0].path], [1, false, 3, "artifacts.provenence"]);
    assert.equal(JSON.parse((await cli(["policy", "check", "good.yml", "--json"], { cwd })).out), {
      valid: true,
      problems: [],
      warnings: [],
    });
  }));

test("check refuses a file that it cannot read, and a missing argument", async () => {
  const missing = await cli(["policy", "check", "/nonexistent/policy.yml"]);
  assert.is(missing.code, 1);
  assert.match(missing.err, /^assay: cannot read \/nonexistent\/policy\.yml: /);
  assert.is((await cli(["policy", "check"])).code, 2);
});

test("preview lists the artifacts that would fail, with the line of the rule", () =>
  withStory(async (preview) => {
    assert.equal(await preview(REVIEW, "--environment", "prod", "--policy", "release"), {
      code: 0,
      err: "",
      out: [
        "-:8:13: warning: artifacts.attestations.1.name: no template of organization 'acme' expects an attestation " +
          "'review' of type generic, and none was reported; add it to a template, or correct the name",
        "prod#2 stays NON-COMPLIANT. Of 3 running artifacts: 1 would fail, 0 would pass, 2 would stay as they are.",
        "",
        `ENVIRONMENT  ARTIFACT  FINGERPRINT${" ".repeat(55)}BEFORE     AFTER          REASON`,
        `prod         app       ${A}  COMPLIANT  NON-COMPLIANT  line 8: Policy 'release' requires a compliant ` +
          "generic attestation named 'review', but none was reported in trail 't-a' of flow 'backend'.",
        "",
      ].join("\n"),
    });
  }));

test("preview lists the artifacts that would pass, with the reasons that would end", () =>
  withStory(async (preview) => {
    const { code, out } = await preview(NOTHING, "--environment", "prod", "--policy", "release");
    assert.is(code, 0);
    assert.match(
      out,
      /^prod#2 is NON-COMPLIANT and would be COMPLIANT\. Of 3 running artifacts: 0 would fail, 1 would/,
    );
    const lines = out.trimEnd().split("\n").slice(3);
    assert.is(lines.length, 2);
    assert.match(lines[0] ?? "", /^prod +ext +b{64} +NON-COMPLIANT +COMPLIANT +no longer: Policy 'release' requires p/);
    assert.match(lines[1] ?? "", /^ +no longer: Policy 'release' requires a compliant generic attestation/);
    const same = await preview(`${V1}${NEEDS_TESTS}`, "--environment", "prod", "--policy", "release");
    assert.match(same.out, /\n\nNo verdict would change\.\n$/);
  }));

test("preview --json gives what the operation of the API gives, and the warnings", () =>
  withStory(async (preview) => {
    const { code, out } = await preview(REVIEW, "--environment", "staging", "--environment", "prod", "--json");
    const { environments, ...rest } = JSON.parse(out);
    const { warnings, ...same } = rest;
    assert.equal([code, same], [0, { valid: true, problems: [], stopped: null }]);
    assert.equal(
      warnings.map(({ line }: any) => line),
      [8],
    );
    assert.equal(
      environments.map(({ environment, attached, snapshot, would_fail, flips }: any) => [
        environment,
        attached,
        snapshot,
        would_fail,
        flips.map(({ reasons }: any) => reasons.filter(({ line }: any) => line !== null).map(({ line }: any) => line)),
      ]),
      [
        ["staging", false, 0, 0, []],
        ["prod", false, 2, 1, [[8]]],
      ],
    );
  }));

test("preview prints the mistakes of a file, also controls that do not exist", () =>
  withStory(async (preview) => {
    const control = await preview(CONTROL, "--environment", "prod");
    assert.equal(control, {
      code: 1,
      out: "-:4:38: artifacts.attestations.0.for_control: Control 'C-9' does not exist in organization 'acme'\n",
      err: "",
    });
    assert.is((await preview(BAD, "--environment", "prod")).code, 1);
  }));

test("preview refuses unknown names and environments that nothing evaluates", () =>
  withStory(async (preview) => {
    const refused = async (...words: string[]) => {
      const { code, out, err } = await preview(NOTHING, ...words);
      assert.is(out, "");
      return [code, err.split("\n")[0]];
    };
    assert.equal(await refused("--environment", "prd"), [
      1,
      "assay: Environment named 'prd' does not exist for organization 'acme'",
    ]);
    assert.equal(await refused("--environment", "prod", "--policy", "relase"), [
      1,
      "assay: Policy 'relase' does not exist in organization 'acme'",
    ]);
    assert.equal(await refused("--environment", "all"), [
      1,
      "assay: environment 'all' is logical: give its members instead",
    ]);
    assert.equal(await refused(), [2, "assay: --environment is missing: give the environment to evaluate"]);
    assert.is((await refused("--environment", "prod", "--org", "nobody"))[0], 1);
  }));

test("preview works while a server has the directory", () =>
  asDirectory(story().db, async (data) => {
    const lock = lockDirectory(data);
    try {
      const args = ["policy", "preview", "-", "--data", data, "--environment", "prod", "--policy", "release"];
      assert.is((await cli(args, { stdin: REVIEW })).code, 0);
    } finally {
      lock.release();
    }
  }));

test.run();
