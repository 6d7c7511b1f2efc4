/** OPA itself, on the unpacked export of an evaluation, gives the verdict of the server (newer-clients 7.3). */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { readEngineFacts } from "../../src/rego/engine-module.ts";
import { COMPLIANT, regoClient } from "../api/policies/rego-given.ts";
import type { Json } from "../api/policies/rego-given.ts";
import { inDirectory, run } from "../binary/executable.ts";
import { startServer } from "../given.ts";
import type { TestServer } from "../given.ts";
import { findTool } from "../tools.ts";

const test = suite("integration/rego-export");
const tools = mkdtempSync(join(tmpdir(), "assay-opa-"));
const opa = join(tools, "opa");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(async () => {
  await server.stop();
  rmSync(tools, { recursive: true });
});

/** Builds OPA of the engine's version. @returns why that is not possible here; null if it was */
function findObstacle(): string | null {
  if (findTool("go") === null) return "there is no go";
  const { go, opa: version } = readEngineFacts();
  try {
    execFileSync("go", ["install", `github.com/open-policy-agent/opa@v${version}`], {
      env: { ...process.env, GOTOOLCHAIN: `go${go}`, GOFLAGS: "", GOWORK: "off", GOBIN: tools },
      stdio: "pipe",
    });
    return null;
  } catch (error) {
    return `go cannot build it: ${String((error as { stderr?: Buffer }).stderr).trim()}`;
  }
}
const obstacle = findObstacle();
if (obstacle !== null) console.log(`skipped: OPA on exports of evaluations: ${obstacle}`);
const withOpa = obstacle === null ? test : test.skip;

/** Every entry point, a library, data of a directory, in JSON and YAML, and files that are not read. */
const GATE = `# METADATA
# entrypoint: true
package acme.gate

import data.lib

# METADATA
# entrypoint: true
default allow := false

allow if {
	lib.names == {"scan"}
	data.limits.days >= data.params.days
}

# METADATA
# entrypoint: true
violations contains message if {
	some name in {"scan", "review"}
	not name in lib.names
	message := sprintf("%s is missing", [name])
}

# METADATA
# entrypoint: true
requested := time.format(data.kosli.evaluation_time)

# METADATA
# entrypoint: true
limits := object.union(data.limits, {"teams": data.teams, "exact": data.params.exact})

# METADATA
# entrypoint: true
undefined_one if false
`;
const LIBRARY = `package lib

names contains name if some name, _ in input.trail.compliance_status.attestations_statuses
`;
const FILES = {
  "gate.rego": GATE,
  "lib/names.rego": LIBRARY,
  "limits/data.json": '{"days": 30, "large": 12345678901234567890}',
  "teams/data.yaml": "first: [a, b]\nsecond: 1.50\n",
  "gate_test.rego": "package gate_test\n\nthis is no Rego\n",
  "settings.json": '{"not": "read"}',
  "notes.md": "Not read.",
};

/** Values with every number as its digits: what JSON.parse makes of them would hide a difference. */
const exact = (text: string): unknown =>
  JSON.parse(text, (_key, value, context?: { source?: string }) =>
    typeof value === "number" ? { number: context?.source } : value,
  );
const sorted = (values: string[]): string[] => [...values].sort();

/** Evaluates a policy on a trail. @returns the result of the server, and what OPA says to each rule in the export */
async function compare(
  policy: Json,
  { package: name, rules, params }: { package: string; rules: string[]; params: string },
): Promise<{ result: Json; said: Json }> {
  const rego = regoClient(server);
  const at = await rego.world();
  await server.given.attestation(at, { flow: at.flow, trail: at.trail, name: "scan" });
  const headers = { Authorization: `Bearer ${at.key}`, "Content-Type": "application/json" };
  const context = JSON.stringify({ trails: at.trails });
  const raw = `{"context":${context},"policy":${JSON.stringify(policy)},"params":${params}}`;
  const created = await server.call("POST", `/evaluations/${at.org}`, { key: at.key, raw, headers });
  assert.is(created.status, 201, created.text);
  await rego.ended(at, created.body.id);
  const read = await rego.evaluations(at, `/${created.body.id}`);
  assert.is(read.body.status, "completed", read.text);
  const url = `${server.url}/api/v2/evaluations/${at.org}/${created.body.id}/bundle`;
  const bundle = Buffer.from(await (await fetch(url, { headers })).arrayBuffer());
  return inDirectory(async (cwd) => {
    writeFileSync(join(cwd, "bundle.tar.gz"), bundle);
    execFileSync("tar", ["-xzf", "bundle.tar.gz"], { cwd });
    const said: Json = {};
    for (const rule of rules) {
      const words = ["eval", "-i", "input.json", "-d", "data.json", "-d", "policy", `data.${name}.${rule}`];
      const { code, stdout, stderr } = await run(words, { executable: opa, cwd });
      assert.equal([code, stderr], [0, ""], stdout);
      const { result } = exact(stdout) as { result?: [{ expressions: [{ value: unknown }] }] };
      if (result !== undefined) said[rule] = result[0].expressions[0].value;
    }
    return { result: (exact(read.text) as Json)["result"], said };
  });
}

for (const [verdict, days] of [
  ["allows", 7],
  ["denies", 90],
] as const)
  withOpa(`OPA gives allow, violations and outputs of an export that ${verdict}`, async () => {
    const rules = ["allow", "violations", "requested", "limits", "undefined_one"];
    const params = `{"days":${days},"exact":12345678901234567890.10}`;
    const { result, said } = await compare({ files: FILES }, { package: "acme.gate", rules, params });
    assert.is(result["allow"], verdict === "allows");
    assert.equal(result["violations"], ["review is missing"]);
    assert.equal(Object.keys(result).sort(), ["allow", "limits", "requested", "violations"]);
    assert.equal({ ...said, violations: sorted(said["violations"]) }, result);
  });

withOpa("OPA gives the verdict of a single file, whatever its name", async () => {
  for (const name of ["policy.rego", "policy.txt"]) {
    const { result, said } = await compare(
      { files: { [name]: COMPLIANT } },
      { package: "policy", rules: ["allow", "violations"], params: "{}" },
    );
    assert.equal(result["allow"], true, name);
    assert.equal(said, result, name);
  }
});

test.run();
