/** `assay explain evaluation` and `explain decision`, beside a running server. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { constant, regoClient } from "../../api/policies/rego-given.ts";
import { startServer } from "../../given.ts";
import type { TestServer } from "../../given.ts";
import { cli } from "../in-process.ts";

const test = suite("cli/commands/explain-evaluation");
const directory = mkdtempSync(join(tmpdir(), "assay-explain-"));
let server: TestServer;
let rego: ReturnType<typeof regoClient>;
test.before(async () => {
  server = await startServer({ directory });
  rego = regoClient(server);
});
test.after(async () => {
  await server.stop();
  rmSync(directory, { recursive: true, force: true });
});

const explain = (...words: string[]) => cli(["explain", ...words, "--data", directory]);

/** An evaluation of a policy that denies, with a decision. */
async function decided() {
  const at = await rego.world();
  await server.call("POST", `/controls/${at.org}`, { key: at.key, body: { identifier: "C1", name: "One" } });
  const source = [
    "package p",
    "default allow := false",
    'violations contains "too old"',
    'violations contains uuid.rfc4122("x")',
  ];
  await rego.publish(at, "gate", { files: { "p.rego": source.join("\n\n") } });
  const created = await rego.evaluate(at, {
    context: { trails: at.trails },
    policy: { identifier: "gate" },
    params: { days: 30.0 },
    decision: { control: "C1", name: "gate", flow: at.flow, trail: at.trail },
  });
  return { at, body: await rego.ended(at, created.body.id) };
}

test("shows what was decided about what, by evaluation and by decision", async () => {
  const { at, body } = await decided();
  const { code, out } = await explain("evaluation", body.id);
  assert.is(code, 0);
  const [first, second] = [...body.result.violations];
  assert.is(
    out,
    `${[
      `evaluation  ${body.id} of ${at.org}`,
      `requested   ${new Date(body.requested_at * 1_000).toISOString()} by ${at.org}-admin`,
      "policy      gate @ version 1",
      `digest      ${body.policy.sha256}`,
      `engine      ${body.engine}`,
      `input       ${body.input_sha256}`,
      `trail       ${at.flow}/${at.trail}, moment 1`,
      'params      {"days":30}',
      `decision    gate on ${at.flow}/${at.trail} for control C1: ${body.decision_attestation_id}`,
      "verdict     DENIED",
      `violation   ${first}`,
      `violation   ${second}`,
    ].join("\n")}\n`,
  );
  assert.is((await explain("decision", body.decision_attestation_id)).out, out);
});

test("a replay has the same result, random values included", async () => {
  const { body } = await decided();
  const { code, out } = await explain("evaluation", body.id, "--replay");
  assert.is(code, 0);
  assert.match(out, /\nreplay {6}the same result\n$/);
  const json = JSON.parse((await explain("decision", body.decision_attestation_id, "--replay", "--json")).out);
  assert.equal([json.id, json.replay.engine, json.replay.differences], [body.id, body.engine, []]);
});

test("a backup has all that a replay needs", async () => {
  const { body } = await decided();
  const elsewhere = mkdtempSync(join(tmpdir(), "assay-explain-"));
  try {
    const [file, restored] = [join(elsewhere, "backup.tar"), join(elsewhere, "data")];
    const made = await cli(["backup", file, "--data", directory]);
    assert.is(made.code, 0, made.err);
    const back = await cli(["restore", file, "--data", restored]);
    assert.is(back.code, 0, back.err);
    const { code, out } = await cli(["explain", "evaluation", body.id, "--replay", "--data", restored]);
    assert.is(code, 0);
    assert.is(out, (await explain("evaluation", body.id, "--replay")).out);
    assert.match(out, /\nreplay {6}the same result\n$/);
  } finally {
    rmSync(elsewhere, { recursive: true, force: true });
  }
});

test("a replay of what an operator allowed more memory than the default has the same result", async () => {
  const home = mkdtempSync(join(tmpdir(), "assay-explain-"));
  const large = await startServer({ directory: home, rego: { regoMemory: 1 << 30 } });
  try {
    const client = regoClient(large);
    const at = await client.world();
    const source = [
      "package p",
      "default allow := false",
      'block := concat("", ["0123456789abcdef" | some _ in numbers.range(1, 1024)])',
      'large := concat("", [block | some _ in numbers.range(1, 1024)])',
      'allow if endswith(concat("", [large | some _ in numbers.range(1, 16)]), "f")',
    ].join("\n\n");
    const created = await client.evaluate(at, {
      context: { trails: at.trails },
      policy: { files: { "p.rego": source } },
    });
    const { status, result } = await client.ended(at, created.body.id);
    assert.equal({ status, result }, { status: "completed", result: { allow: true, violations: [] } });
    const { code, out, err } = await cli(["explain", "evaluation", created.body.id, "--replay", "--data", home]);
    assert.equal({ code, err }, { code: 0, err: "" });
    assert.match(out, /\nreplay {6}the same result\n$/);
  } finally {
    await large.stop();
    rmSync(home, { recursive: true, force: true });
  }
});

test("a replay with another result is told, with the engines", async () => {
  const { body } = await decided();
  server.db.prepare("UPDATE rego_evaluations SET allow = 1, engine = 'opa 0.1' WHERE public_id = ?").run(body.id);
  const { code, out, err } = await explain("evaluation", body.id, "--replay");
  assert.is(code, 1);
  assert.match(out, /\nreplay {6}ANOTHER RESULT\n$/);
  assert.is(
    err,
    "assay: the evaluation has another result now (allow is false now): opa 0.1 evaluated it then, and " +
      `${body.engine} now\n`,
  );
});

test("shows a failure, and what is not there", async () => {
  const at = await rego.world();
  const policy = { files: { "p.rego": "package p\n\nallow := 1\n" } };
  const { id } = (await rego.evaluate(at, { context: { trails: at.trails }, policy })).body;
  const { error } = await rego.ended(at, id);
  const { out, code } = await explain("evaluation", id, "--replay");
  assert.is(code, 0);
  assert.match(out, /\npolicy {6}sent with the request\n/);
  assert.ok(out.includes(`verdict     failed (result_shape): ${error.message.split("\n")[0]}`), out);
  const unknown = "0f5c9a1d-2b3e-4f50-8172-8394a5b6";
  assert.equal(await explain("evaluation", unknown), {
    code: 1,
    out: "",
    err: `assay: there is no evaluation ${unknown}; those without a decision are removed after their time\n`,
  });
  assert.is((await explain("decision", id)).err, `assay: no evaluation made a decision ${id}\n`);
  assert.match((await explain("production", "--replay")).err, /--replay is for evaluations and decisions/);
  await rego.evaluate(at, { context: { trails: at.trails }, policy: { files: { "p.rego": constant(true) } } });
});

test.run();
