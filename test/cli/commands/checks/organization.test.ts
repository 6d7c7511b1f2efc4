/** `assay policy check`, `policy preview`, `template check` and `type try`, compared with an organization. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { startServer } from "../../../given.ts";
import type { TestServer } from "../../../given.ts";
import { cli, inDirectory } from "../../in-process.ts";
import type { Outcome } from "../../in-process.ts";

const test = suite("cli/commands/checks/organization");

const TEMPLATE = `trail:
  attestations:
    - { name: review, type: pull_request }
    - { name: any, type: "*" }
  artifacts:
    - name: image
      attestations:
        - { name: unit-tests, type: junit }
        - { name: cover, type: "custom:coverage" }
`;

/** Runs a command on a file while the server of the organization acme runs; files are in its working directory. */
type Run = (words: readonly string[], files: Readonly<Record<string, string>>) => Promise<Outcome>;

const withOrganization = (body: (run: Run, server: TestServer) => Promise<void>): Promise<void> =>
  inDirectory(async (directory) => {
    const data = join(directory, "data");
    const server = await startServer({ directory: data });
    try {
      const { given } = server;
      const at = given.org({ name: "acme" });
      given.org({ name: "other" });
      const uploads = ["coverage", "unused", "old"];
      for (const name of uploads)
        assert.is(
          (await server.call("POST", "/custom-attestation-types/acme", { key: at.key, form: { json: { name } } }))
            .status,
          201,
        );
      await server.call("PUT", "/custom-attestation-types/acme/old/archive", { key: at.key });
      await given.flow(at, { name: "payments", template: TEMPLATE });
      await server.call("PATCH", "/tags/acme/flow/payments", { key: at.key, body: { set_tags: { risk: "7" } } });
      const trail = await given.trail(at, { flow: "payments" });
      await given.attestation(at, { flow: "payments", trail, kind: "generic", name: "licenses" });
      const decision = { type_name: "decision", control: "C-1", attestation_data: { is_compliant: true } };
      await given.attestation(at, { flow: "payments", trail, kind: "system", name: "release", ...decision });
      await given.control(at, { identifier: "C-1" });
      await given.environment(at, { name: "prod" });
      await body((words, files) => {
        for (const [name, text] of Object.entries(files)) writeFileSync(join(directory, name), text);
        return cli([...words, "--data", data], { cwd: directory });
      }, server);
    } finally {
      await server.stop();
    }
  });

const POLICY = `_schema: /v1
artifacts:
  attestations:
    - { type: junit, name: unit-tests }
    - { type: snyk, name: any }
    - { type: generic, name: licenses }
    - { type: decision, name: release }
    - { type: custom:coverage, if: 'flow.name == "payments" and flow.tags.risk > 3' }
    - { type: decision, for_control: C-1 }
`;
const UNMET = `_schema: /v1
artifacts:
  provenance:
    required: true
    exceptions:
      - if: flow.name == "payment"
  attestations:
    - { type: junit, name: unit-test }
    - { type: custom:old }
    - { type: junit, if: flow.tags.team == "core" }
`;
const WARNINGS = [
  "p.yml:6:26: warning: artifacts.provenance.exceptions.0.if: organization 'acme' has no flow 'payment'; " +
    "did you mean payments?",
  "p.yml:8:28: warning: artifacts.attestations.0.name: no template of organization 'acme' expects an attestation " +
    "'unit-test' of type junit, and none was reported; did you mean unit-tests?",
  "p.yml:9:15: warning: artifacts.attestations.1.type: the attestation type 'old' of organization 'acme' is archived " +
    "and takes no reports; upload it again to restore it",
  "p.yml:10:26: warning: artifacts.attestations.2.if: no flow of organization 'acme' has the tag 'team'; " +
    "tag a flow with it, or correct the name",
];

test("policy check with --org warns of rules that nothing there can meet, and ends well", () =>
  withOrganization(async (run) => {
    const check = (text: string, ...words: string[]) => run(["policy", "check", "p.yml", ...words], { "p.yml": text });
    assert.equal(await check(POLICY, "--org", "acme"), { code: 0, out: "", err: "" });
    assert.equal(await check(UNMET, "--org", "acme"), {
      code: 0,
      out: WARNINGS.map((line) => `${line}\n`).join(""),
      err: "",
    });
    const json = JSON.parse((await check(UNMET, "--org", "acme", "--json")).out);
    assert.equal([json.valid, json.problems, json.warnings.length], [true, [], 4]);
    assert.equal(json.warnings[3], {
      line: 10,
      column: 26,
      path: "artifacts.attestations.2.if",
      message: "no flow of organization 'acme' has the tag 'team'; tag a flow with it, or correct the name",
    });
    assert.match((await check(POLICY, "--org", "other")).out, /organization 'other' has no flow 'payments'/);
  }));

test("a control that does not exist there is a mistake, beside the warnings", () =>
  withOrganization(async (run) => {
    const text = `${UNMET}    - { type: decision, for_control: C-9 }\n`;
    const { code, out } = await run(["policy", "check", "p.yml", "--org", "acme"], { "p.yml": text });
    assert.is(code, 1);
    assert.equal(out.split("\n").slice(0, 2), [
      "p.yml:11:38: artifacts.attestations.3.for_control: Control 'C-9' does not exist in organization 'acme'",
      WARNINGS[0],
    ]);
    const broken = await run(["policy", "check", "p.yml", "--org", "acme"], { "p.yml": `${text}x: 1\n` });
    assert.equal(broken.out.split("\n").length, 2, "a file with mistakes is not compared");
  }));

test("policy preview prints the warnings before the preview", () =>
  withOrganization(async (run) => {
    const words = ["policy", "preview", "p.yml", "--org", "acme", "--environment", "prod"];
    const { code, out } = await run(words, { "p.yml": UNMET });
    assert.is(code, 0);
    assert.equal(out.split("\n").slice(0, 6), [...WARNINGS, "prod has no snapshot yet.", ""]);
    const json = JSON.parse((await run([...words, "--json"], { "p.yml": UNMET })).out);
    assert.equal([json.valid, json.warnings.length, json.environments.length], [true, 4, 1]);
  }));

test("template check with --org warns of types that do not exist there", () =>
  withOrganization(async (run) => {
    const check = (text: string) => run(["template", "check", "t.yml", "--org", "acme"], { "t.yml": text });
    assert.equal(await check(TEMPLATE), { code: 0, out: "", err: "" });
    assert.equal(await check(TEMPLATE.replace("custom:coverage", "custom:coverge")), {
      code: 0,
      out:
        "t.yml:9:32: warning: trail.artifacts.0.attestations.1.type: " +
        "organization 'acme' has no attestation type 'coverge'; did you mean coverage?\n",
      err: "",
    });
    const broken = await check("trail: {x: 1}");
    assert.equal([broken.code, broken.err], [1, ""]);
  }));

test("type try with --org warns of a type that no template and no policy asks for", () =>
  withOrganization(async (run, server) => {
    const attempt = (name: string) =>
      run(["type", "try", "c.json", "--org", "acme"], { "c.json": JSON.stringify({ name }) });
    assert.equal(await attempt("coverage"), { code: 0, out: "", err: "" });
    assert.equal(await attempt("unused"), {
      code: 0,
      out: "c.json: warning: name: no template and no policy of organization 'acme' asks for custom:unused\n",
      err: "",
    });
    const key = server.given.user("acme", "admin");
    await server.given.policy({ org: "acme", key }, { yaml: "artifacts: {attestations: [{type: 'custom:unused'}]}\n" });
    assert.equal(await attempt("unused"), { code: 0, out: "", err: "" });
  }));

test("an organization that does not exist, and --data without --org, are refused", () =>
  withOrganization(async (run) => {
    const files = { "p.yml": POLICY, "t.yml": TEMPLATE, "c.json": '{"name":"x"}' };
    for (const words of [
      ["policy", "check", "p.yml"],
      ["template", "check", "t.yml"],
      ["type", "try", "c.json"],
    ]) {
      const unknown = await run([...words, "--org", "acm"], files);
      assert.equal([unknown.code, unknown.out], [1, ""], words.join(" "));
      assert.match(unknown.err, /^assay: there is no organization "acm"\nassay: did you mean acme\?\n$/);
      const missing = await run(words, files);
      assert.equal([missing.code, missing.out], [2, ""], words.join(" "));
      assert.match(missing.err, /--org is missing: give the organization whose names the file is compared with/);
    }
  }));

test.run();
