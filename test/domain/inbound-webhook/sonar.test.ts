/** Where a scan is recorded (semantics 8.6). */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { locateScan } from "../../../src/domain/inbound-webhook/sonar.ts";
import type { SonarWebhook, SonarFlowNames } from "../../../src/domain/inbound-webhook/sonar.ts";

const test = suite("domain/inbound-webhook/sonar");
const SHA = "c739069ec7105e01303e8b3065a81141aad9f129";
const NAMES: SonarFlowNames = { from: "key", prefix: "", suffix: "" };
const call = (properties: Record<string, string> = {}, more: Partial<SonarWebhook> = {}): SonarWebhook => ({
  revision: SHA,
  project: { key: "web", name: "Web Shop" },
  properties: Object.fromEntries(
    Object.entries(properties).map(([name, value]) => [`sonar.analysis.kosli_${name}`, value]),
  ),
  ...more,
});
const placed = (given: SonarWebhook, names = NAMES) => {
  const { location: place, problems } = locateScan(given, names);
  if (problems !== null) throw new Error(JSON.stringify(problems));
  return place;
};
const DEFAULTS = {
  flow: "web",
  isNamedAfterProject: true,
  flowDescription: "",
  trail: SHA,
  trailDescription: null,
  attestation: "sonar",
  target: null,
  commit: SHA,
  fingerprint: null,
};

test("names flow and trail of a scan without properties after project and revision", () => {
  assert.equal(placed(call()), DEFAULTS);
  assert.equal(placed(call({}, { properties: null })), DEFAULTS);
  assert.equal(placed({ revision: SHA, project: { key: "web" } }), DEFAULTS);
});

test("prefers properties, and ignores empty ones", () => {
  const fingerprint = "a".repeat(64);
  const given = {
    flow: "backend",
    trail: "release-7",
    attestation: "server.quality",
    git_commit: "b".repeat(40),
    artifact_fingerprint: fingerprint,
    flow_description: " The back end ",
    trail_description: "Release 7",
  };
  assert.equal(placed(call(given)), {
    flow: "backend",
    isNamedAfterProject: false,
    flowDescription: "The back end",
    trail: "release-7",
    trailDescription: "Release 7",
    attestation: "quality",
    target: "server",
    commit: "b".repeat(40),
    fingerprint,
  });
  assert.equal(placed(call(Object.fromEntries(Object.keys(given).map((name) => [name, " "])))), DEFAULTS);
});

test("names flows after the project's key or name, with the operator's prefix and suffix", () => {
  const flow = (key: string, name: string | null, names: Partial<SonarFlowNames>) =>
    placed(call({}, { project: { key, name } }), { ...NAMES, ...names }).flow;
  assert.is(flow("org:my project", "Web", {}), "org-my-project");
  assert.is(flow("web", "Web Shop", { from: "name" }), "Web-Shop");
  assert.is(flow("web", null, { from: "name" }), "web");
  assert.is(flow("web", null, { prefix: "sonar-", suffix: ".main" }), "sonar-web.main");
  assert.is(flow("_web", null, {}), "web");
  assert.is(flow("größe", null, {}), "gr--e");
  assert.is(flow("k".repeat(400), null, {}).length, 256);
});

test("uses the revision as commit only if it looks like one", () => {
  assert.is(placed(call({}, { revision: "4711" })).commit, null);
  assert.is(placed(call({}, { revision: "4711" })).trail, "4711");
  assert.is(placed(call({ git_commit: SHA }, { revision: "4711" })).commit, SHA);
});

test("reports all invalid properties at once", () => {
  const problems = (given: SonarWebhook): unknown => locateScan(given, NAMES).problems;
  const at = (name: string): string => `properties.sonar.analysis.kosli_${name}`;
  assert.equal(
    problems(call({ flow: "-x", trail: "a b", git_commit: "HEAD", artifact_fingerprint: "abc", attestation: "a.b.c" })),
    {
      [at("flow")]: "String should match pattern '^[a-zA-Z0-9][a-zA-Z0-9\\.\\-_~]*$' [input: -x]",
      [at("trail")]: "String should match pattern '^[a-zA-Z0-9][a-zA-Z0-9\\-_.~]*$' [input: a b]",
      [at("git_commit")]: "String should match pattern '^[a-f0-9]{40}$' [input: HEAD]",
      [at("artifact_fingerprint")]: "String should match pattern '^[a-f0-9]{64}$' [input: abc]",
      [at("attestation")]: "Input should be a name, or the name of an artifact, a dot and a name [input: a.b.c]",
    },
  );
  for (const attestation of [".a", "a.", ".", "a b", "ä.b"])
    assert.equal(Object.keys(problems(call({ attestation })) as object), [at("attestation")], attestation);
  assert.equal(problems(call({}, { revision: null, project: { key: "%%%" } })), {
    [at("flow")]: "The project '%%%' gives no valid flow name: set this property",
    [at("trail")]: "The scan has no revision to name a trail after: set this property",
  });
  assert.equal(problems(call({ flow: "f".repeat(257) })), {
    [at("flow")]: `String should have at most 256 characters [input: ${"f".repeat(256)}...]`,
  });
});

test.run();
