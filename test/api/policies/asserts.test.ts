/**
 * Asserts in their three scopes (semantics 5.8), and the evaluation of policies (semantics 5.4) as callers see
 * it.
 */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { fresh, freshCommit, freshFingerprint, startServer } from "../../given.ts";
import type { Answer, TestServer } from "../../given.ts";
import { running, runningIn } from "../environments/given.ts";

const test = suite("api/policies/asserts");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type At = { org: string; key: string };
type Json = Record<string, any>;
const TEMPLATE =
  "version: 1\ntrail:\n  attestations:\n    - {name: review, type: pull_request}\n  artifacts:\n" +
  "    - name: app\n      attestations:\n        - {name: tests, type: junit}\n";
const PULL_REQUEST = {
  kind: "pull_request",
  git_provider: "github",
  pull_requests: [{ url: "https://git/1", state: "MERGED", author: "", commits: [] }],
};
const JUNIT = (failures = 0) => ({
  kind: "junit",
  junit_results: [{ name: "unit", failures, errors: 0, skipped: 0, total: 1, duration: 1 }],
});

const requestAssert = (at: At, fingerprint: string, query = ""): Promise<Answer> =>
  server.call("GET", `/asserts/${at.org}/fingerprint/${fingerprint}${query}`, { key: at.key });
async function readAssert(at: At, fingerprint: string, query = ""): Promise<Json> {
  const { status, body } = await requestAssert(at, fingerprint, query);
  assert.is(status, 200, JSON.stringify(body));
  return body;
}
const flow = (at: At, template?: string): Promise<string> =>
  server.given.flow(at, template === undefined ? {} : { template });
const artifact = (at: At, place: string, fields: Json = {}): Promise<string> =>
  server.given.artifact(at, { flow: place, trail: "t", name: "app", ...fields });
const attest = (at: At, place: string, fields: Json): Promise<string> =>
  server.given.attestation(at, { flow: place, trail: "t", ...fields });
const tag = (at: At, name: string, tags: Json): Promise<Answer> =>
  server.call("PATCH", `/tags/${at.org}/flow/${name}`, { key: at.key, body: { set_tags: tags, remove_tags: [] } });
const pageOf = async (at: At, place: string, fingerprint: string): Promise<string> =>
  (await server.call("GET", `/artifacts/${at.org}/${place}/fingerprint/${fingerprint}`, { key: at.key })).body.html_url;

const entry = (name: string, type: string, id: string | null, is_compliant: boolean | null, unexpected = false) => ({
  attestation_name: name,
  attestation_type: type,
  attestation_id: id,
  overridden_attestation_id: null,
  status: id === null ? "MISSING" : "COMPLETE",
  is_compliant,
  unexpected,
});
/** Creates a policy with one rule section, asserts it and returns the rule evaluations. */
async function evaluateRules(at: At, fingerprint: string, yaml: string, query = ""): Promise<Json[]> {
  const name = await server.given.policy(at, { yaml: `artifacts:\n${yaml}` });
  const body = await readAssert(at, fingerprint, `?policy_name=${name}${query}`);
  const [evaluation] = body["policy_evaluations"];
  const expected = evaluation.rule_evaluations.every((rule: Json) => rule["satisfied"] !== false);
  assert.equal(
    { scope: body["scope"], compliant: body["compliant"], status: evaluation.status },
    { scope: "policy", compliant: expected, status: expected ? "COMPLIANT" : "NON-COMPLIANT" },
  );
  return evaluation.rule_evaluations;
}
/** The outcome of one attestation rule in each flow, and in total. */
async function attestationRule(
  at: At,
  fingerprint: string,
  rule: string,
): Promise<[satisfied: boolean | null, types: string[]]> {
  const evaluation = (await evaluateRules(at, fingerprint, `  attestations:\n    - ${rule}\n`)).at(-1) as Json;
  assert.is(evaluation["rule"].type, "attestation");
  assert.is(evaluation["ignored"], evaluation["satisfied"] === null);
  return [evaluation["satisfied"], evaluation["resolutions"].map((resolution: Json) => resolution["type"])];
}

test("scope flow: shows all fields for incomplete, non-compliant and compliant artifacts", async () => {
  const at = server.given.org();
  const place = await flow(at, TEMPLATE);
  const fingerprint = await artifact(at, place);
  const html_url = await pageOf(at, place, fingerprint);
  const answer = async (status: string, entries: Json[]) => {
    const body = await readAssert(at, fingerprint);
    const one = {
      flow: place,
      trail: "t",
      compliant: status === "COMPLIANT",
      html_url,
      compliance_status: {
        artifact_fingerprint: fingerprint,
        status,
        is_compliant: status === "COMPLIANT",
        attestations_statuses: entries,
        evaluated_at: body["compliance_status"].evaluated_at,
        unexpected: false,
      },
    };
    assert.type(body["compliance_status"].evaluated_at, "number");
    assert.equal(body, {
      fingerprint,
      scope: "flow",
      ...one,
      flows: [one],
      environment: null,
      policy_evaluations: null,
      allow_listing: null,
    });
  };
  await answer("INCOMPLETE", [entry("tests", "junit", null, null), entry("review", "pull_request", null, null)]);
  const failing = await attest(at, place, { name: "tests", fingerprint, ...JUNIT(1) });
  await answer("NON-COMPLIANT", [entry("tests", "junit", failing, false), entry("review", "pull_request", null, null)]);
  const passing = await attest(at, place, { name: "tests", fingerprint, ...JUNIT() });
  const review = await attest(at, place, { name: "review", ...PULL_REQUEST });
  const extra = await attest(at, place, { name: "extra" });
  await answer("COMPLIANT", [
    entry("tests", "junit", passing, true),
    entry("review", "pull_request", review, true),
    entry("extra", "generic", extra, true, true),
  ]);
});

test("scope flow: an override shows both ids", async () => {
  const at = server.given.org();
  const place = await flow(at, TEMPLATE);
  const fingerprint = await artifact(at, place);
  const original = await attest(at, place, { name: "tests", fingerprint, ...JUNIT(1) });
  const override = await attest(at, place, {
    name: "tests",
    fingerprint,
    kind: "override",
    reason: "r",
    new_compliance_status: true,
    original_attestation_type: "junit",
  });
  const [tests] = (await readAssert(at, fingerprint))["compliance_status"].attestations_statuses;
  assert.equal(tests, { ...entry("tests", "junit", original, true), overridden_attestation_id: override });
});

test("scope flow: all flows count, the first one is at the top level; flow_name selects one", async () => {
  const at = server.given.org();
  const [build, release] = [await flow(at), await flow(at, TEMPLATE)];
  const fingerprint = await artifact(at, build);
  await artifact(at, release, { fingerprint, trail: "r" });
  const both = await readAssert(at, fingerprint);
  assert.equal(
    {
      compliant: both["compliant"],
      flow: both["flow"],
      flows: both["flows"].map((one: Json) => [one["flow"], one["trail"], one["compliant"]]),
    },
    {
      compliant: false,
      flow: build,
      flows: [
        [build, "t", true],
        [release, "r", false],
      ],
    },
  );
  assert.equal(both["compliance_status"], both["flows"][0].compliance_status);
  assert.equal(both["html_url"], both["flows"][0].html_url);
  for (const [name, trail, compliant] of [
    [build, "t", true],
    [release, "r", false],
  ] as const) {
    const one = await readAssert(at, fingerprint, `?flow_name=${name}`);
    assert.equal(
      { compliant: one["compliant"], flow: one["flow"], trail: one["trail"], flowCount: one["flows"].length },
      { compliant, flow: name, trail, flowCount: 1 },
    );
  }
});

test("scope flow: the latest record in a flow counts", async () => {
  const at = server.given.org();
  const place = await flow(at, TEMPLATE);
  const fingerprint = await artifact(at, place, { trail: "old" });
  await attest(at, place, { trail: "old", name: "tests", fingerprint, ...JUNIT(1) });
  await artifact(at, place, { fingerprint, trail: "new" });
  const body = await readAssert(at, fingerprint);
  assert.equal(
    { trail: body["trail"], status: body["compliance_status"].status, flowCount: body["flows"].length },
    { trail: "new", status: "INCOMPLETE", flowCount: 1 },
  );
});

test("scope flow: an artifact that a rebuild superseded keeps its own verdict", async () => {
  const at = server.given.org();
  const place = await flow(at, TEMPLATE);
  const [older, newer] = [await artifact(at, place), await artifact(at, place)];
  await attest(at, place, { name: "review", ...PULL_REQUEST });
  await attest(at, place, { name: "tests", fingerprint: older, ...JUNIT() });
  const body = await readAssert(at, older);
  assert.equal(
    { compliant: body["compliant"], unexpected: body["compliance_status"].unexpected },
    { compliant: true, unexpected: false },
  );
  assert.is((await readAssert(at, newer))["compliant"], false);
});

test("scope flow: marks unexpected artifacts, with and without a name", async () => {
  const at = server.given.org();
  const place = await flow(at, TEMPLATE);
  for (const name of ["other", undefined]) {
    const fingerprint = await server.given.artifact(at, {
      flow: place,
      trail: "t",
      ...(name === undefined ? {} : { name }),
    });
    const { unexpected, status } = (await readAssert(at, fingerprint))["compliance_status"];
    assert.equal({ unexpected, status }, { unexpected: true, status: "INCOMPLETE" });
  }
});

test("scope flow: an artifact without a trail has the verdict of its own report", async () => {
  const at = server.given.org();
  const place = await flow(at);
  const fingerprint = await artifact(at, place, { trail: null });
  const body = await readAssert(at, fingerprint);
  assert.equal(body["flows"], [
    {
      flow: place,
      trail: null,
      compliant: true,
      html_url: await pageOf(at, place, fingerprint),
      compliance_status: {
        artifact_fingerprint: fingerprint,
        status: "COMPLIANT",
        is_compliant: true,
        attestations_statuses: [],
        evaluated_at: body["compliance_status"].evaluated_at,
        unexpected: false,
      },
    },
  ]);
  assert.is(
    (await readAssert(at, await artifact(at, place, { trail: null, is_compliant: false })))["compliant"],
    false,
  );
});

test("scope flow: an artifact without a trail lists its missing attestations", async () => {
  const at = server.given.org();
  const place = await flow(at, TEMPLATE);
  const missing = (name: string, type: string) => entry(name, type, null, null);
  const statuses = async (fields: object): Promise<unknown> => {
    const {
      compliant,
      compliance_status: status,
      flows,
    } = await readAssert(at, await artifact(at, place, { trail: null, ...fields }));
    assert.equal(flows[0].compliance_status, status);
    return { compliant, status: status.status, listed: status.attestations_statuses };
  };
  const template = [missing("review", "pull_request"), missing("tests", "junit")];
  assert.equal(await statuses({}), { compliant: false, status: "INCOMPLETE", listed: template });
  assert.equal(await statuses({ template: ["artifact", "tests", "licences"] }), {
    compliant: false,
    status: "INCOMPLETE",
    listed: [missing("tests", "junit"), missing("licences", "*")],
  });
  assert.equal(await statuses({ template: "tests", is_compliant: false }), {
    compliant: false,
    status: "NON-COMPLIANT",
    listed: [missing("tests", "junit")],
  });
  assert.equal(await statuses({ template: ["artifact"] }), { compliant: true, status: "COMPLIANT", listed: [] });
});

test("scope flow: archived flows still count, under their present name", async () => {
  const at = server.given.org();
  const place = await flow(at, TEMPLATE);
  const fingerprint = await artifact(at, place);
  await server.call("PUT", `/flows/${at.org}/${place}/archive`, { key: at.key });
  const body = await readAssert(at, fingerprint);
  assert.equal(
    { hasArchivedName: body["flow"].startsWith(`${place}-archived-at-`), compliant: body["compliant"] },
    { hasArchivedName: true, compliant: false },
  );
  const { status, body: refusal } = await requestAssert(at, fingerprint, `?flow_name=${place}`);
  assert.equal(
    { status, refusal },
    { status: 404, refusal: { message: `Flow named '${place}' has been archived for organization '${at.org}'` } },
  );
  assert.is((await readAssert(at, fingerprint, `?flow_name=${body["flow"]}`))["flow"], body["flow"]);
});

test("answers a negative verdict with 200, and an unknown artifact with 404", async () => {
  const [at, other] = [server.given.org(), server.given.org()];
  const [place, second] = [await flow(at, TEMPLATE), await flow(at)];
  const fingerprint = await artifact(at, place);
  assert.is((await requestAssert(at, fingerprint)).status, 200);
  const foreign = await artifact(other, await flow(other));
  const renamed = fresh("renamed");
  await server.call("PUT", `/flows/${at.org}/${second}/rename`, { key: at.key, body: { new_name: renamed } });
  const inOrg = (what: string) => `Artifact with fingerprint '${what}' does not exist in organization '${at.org}'`;
  const unknown = freshFingerprint();
  for (const [what, query, message] of [
    [unknown, "", inOrg(unknown)],
    [foreign, "", inOrg(foreign)],
    [fingerprint.slice(0, 40), "", inOrg(fingerprint.slice(0, 40))],
    [fingerprint.toUpperCase(), "", inOrg(fingerprint.toUpperCase())],
    ["x", "", inOrg("x")],
    [
      fingerprint,
      `?flow_name=${renamed}`,
      `Artifact with fingerprint '${fingerprint}' does not exist in flow '${renamed}' belonging to ` +
        `organization '${at.org}'`,
    ],
    [
      fingerprint,
      `?flow_name=${second}`,
      `Artifact with fingerprint '${fingerprint}' does not exist in flow '${second}' belonging to organization ` +
        `'${at.org}'`,
    ],
    [fingerprint, "?flow_name=nothing", `Flow named 'nothing' does not exist for organization '${at.org}'`],
    [fingerprint, "?policy_name=nothing", `Policy 'nothing' does not exist in organization '${at.org}'`],
    [fingerprint, "?environment_name=prod", `Environment named 'prod' does not exist for organization '${at.org}'`],
  ] as const) {
    const answer = await requestAssert(at, what, query);
    assert.equal({ status: answer.status, body: answer.body }, { status: 404, body: { message } });
  }
});

test("refuses an environment together with a policy", async () => {
  const at = server.given.org();
  const fingerprint = await artifact(at, await flow(at));
  const policy = await server.given.policy(at, { yaml: "" });
  const answer = await requestAssert(at, fingerprint, `?environment_name=prod&policy_name=${policy}`);
  assert.equal(
    { status: answer.status, body: answer.body },
    { status: 400, body: { message: "Only one of 'environment_name' and 'policy_name' can be given" } },
  );
});

test("scope policy: shows all fields for a policy with a rule of each kind, as clients decode it", async () => {
  const at = server.given.org();
  const place = await flow(at, TEMPLATE);
  const fingerprint = await artifact(at, place);
  const name = await server.given.policy(at, {
    yaml:
      'artifacts:\n  provenance:\n    required: true\n    exceptions:\n      - if: ${{ flow.name == "none" }}\n' +
      "  trail-compliance:\n    required: true\n  attestations:\n    - {name: tests, type: junit}\n" +
      "    - if: exists(flow.tags.risk)\n      type: generic\n      must_be_compliant: false\n",
  });
  const context = { flow_name: place, trail_name: "t", artifact_status: null };
  const resolved = (rule: Json, type: string, more: Json = {}) => ({
    rule,
    satisfied: type === "rule_not_applicable" ? null : type === "rule_satisfied",
    ignored: type === "rule_not_applicable",
    resolutions: [{ type, context: { ...context, ...more } }],
  });
  const attestation = (definition: Json) => ({
    type: "attestation",
    definition: { if: null, name: "*", must_be_compliant: true, for_control: null, ...definition },
  });
  const body = await readAssert(at, fingerprint, `?policy_name=${name}`);
  assert.equal(body["policy_evaluations"], [
    {
      policy_name: name,
      policy_version: 1,
      status: "NON-COMPLIANT",
      rule_evaluations: [
        resolved(
          { type: "provenance", definition: { required: true, exceptions: [{ if: { text: 'flow.name == "none"' } }] } },
          "rule_satisfied",
        ),
        resolved(
          { type: "trail-compliance", definition: { required: true, exceptions: [] } },
          "non_compliant_in_trail",
          { artifact_status: "INCOMPLETE" },
        ),
        resolved(attestation({ name: "tests", type: "junit" }), "missing_attestation"),
        resolved(
          attestation({ if: { text: "exists(flow.tags.risk)" }, type: "generic", must_be_compliant: false }),
          "rule_not_applicable",
        ),
      ],
    },
  ]);
  assert.equal(
    {
      scope: body["scope"],
      compliant: body["compliant"],
      environment: body["environment"],
      allow_listing: body["allow_listing"],
      flowCount: body["flows"].length,
    },
    { scope: "policy", compliant: false, environment: null, allow_listing: null, flowCount: 1 },
  );

  await attest(at, place, { name: "tests", fingerprint, ...JUNIT() });
  await attest(at, place, { name: "review", ...PULL_REQUEST });
  const after = await readAssert(at, fingerprint, `?policy_name=${name}`);
  assert.equal(
    { compliant: after["compliant"], status: after["policy_evaluations"][0].status },
    { compliant: true, status: "COMPLIANT" },
  );
  assert.equal(
    after["policy_evaluations"][0].rule_evaluations.map((rule: Json) => rule["satisfied"]),
    [true, true, true, null],
  );
  assert.is(after["policy_evaluations"][0].rule_evaluations[1].resolutions[0].context.artifact_status, "COMPLIANT");
});

test("scope policy: requires neither a satisfied template nor a compliant flow", async () => {
  const at = server.given.org();
  const fingerprint = await artifact(at, await flow(at, TEMPLATE));
  const policy = await server.given.policy(at, { yaml: "artifacts:\n  provenance:\n    required: true\n" });
  assert.is((await readAssert(at, fingerprint))["compliant"], false);
  const body = await readAssert(at, fingerprint, `?policy_name=${policy}`);
  assert.equal(
    {
      compliant: body["compliant"],
      status: body["compliance_status"].status,
      firstFlowCompliant: body["flows"][0].compliant,
    },
    { compliant: true, status: "INCOMPLETE", firstFlowCompliant: false },
  );
});

test("scope policy: all policies must be satisfied, and keep the order of the request", async () => {
  const at = server.given.org();
  const fingerprint = await artifact(at, await flow(at));
  const [good, bad] = [
    await server.given.policy(at, { name: "z-good", yaml: "" }),
    await server.given.policy(at, { name: "a-bad", yaml: "artifacts:\n  attestations:\n    - {type: snyk}\n" }),
  ];
  for (const [query, names, compliant] of [
    [`?policy_name=${good}`, [good], true],
    [`?policy_name=${good}&policy_name=${bad}`, [good, bad], false],
    [`?policy_name=${bad}&policy_name=${good}`, [bad, good], false],
    [`?policy_name=${bad},${good}`, [bad, good], false],
    [`?policy_name=${good},${bad},${good}&policy_name=${good}`, [good, bad], false],
  ] as const) {
    const body = await readAssert(at, fingerprint, query);
    assert.equal(
      {
        policy_evaluations: body["policy_evaluations"].map((one: Json) => one["policy_name"]),
        compliant: body["compliant"],
      },
      { policy_evaluations: names, compliant },
    );
  }
  const missing = await requestAssert(at, fingerprint, `?policy_name=${good}&policy_name=nothing`);
  assert.equal(
    { status: missing.status, body: missing.body },
    { status: 404, body: { message: `Policy 'nothing' does not exist in organization '${at.org}'` } },
  );
});

test("scope policy: uses the latest version; a policy without a version is never satisfied", async () => {
  const at = server.given.org();
  const fingerprint = await artifact(at, await flow(at));
  const name = await server.given.policy(at, { yaml: null });
  const asked = async () => {
    const { policy_evaluations: evaluations, compliant } = await readAssert(at, fingerprint, `?policy_name=${name}`);
    return [evaluations[0].policy_version, evaluations[0].status, evaluations[0].rule_evaluations.length, compliant];
  };
  assert.equal(await asked(), [0, "NON-COMPLIANT", 0, false]);
  await server.given.policy(at, { name, yaml: "artifacts:\n  attestations:\n    - {type: snyk}\n" });
  assert.equal(await asked(), [1, "NON-COMPLIANT", 3, false]);
  await server.given.policy(at, { name, yaml: "" });
  assert.equal(await asked(), [2, "COMPLIANT", 2, true]);
});

test("lists boolean rules that require nothing as not applicable", async () => {
  const at = server.given.org();
  const place = await flow(at, TEMPLATE);
  const rules = await evaluateRules(at, await artifact(at, place), "  provenance: {required: false}\n");
  assert.equal(
    rules.map((rule) => [rule["rule"].type, rule["satisfied"], rule["ignored"], rule["resolutions"]]),
    [
      [
        "provenance",
        null,
        true,
        [{ type: "rule_not_applicable", context: { flow_name: place, trail_name: "t", artifact_status: null } }],
      ],
      [
        "trail-compliance",
        null,
        true,
        [
          {
            type: "rule_not_applicable",
            context: { flow_name: place, trail_name: "t", artifact_status: "INCOMPLETE" },
          },
        ],
      ],
    ],
  );
});

test("evaluates each rule in each flow; one failing flow fails it, and others may not apply", async () => {
  const at = server.given.org();
  const flows = [await flow(at), await flow(at), await flow(at)] as const;
  await tag(at, flows[2], { kind: "test" });
  const fingerprint = await artifact(at, flows[0]);
  for (const place of flows.slice(1)) await artifact(at, place, { fingerprint });
  await attest(at, flows[0], { name: "scan", fingerprint });
  const always = "{name: scan, type: generic}";
  const tagged = "{name: scan, type: generic, if: 'flow.tags.kind != \"test\"'}";
  assert.equal(await attestationRule(at, fingerprint, always), [
    false,
    ["rule_satisfied", "missing_attestation", "missing_attestation"],
  ]);
  await attest(at, flows[1], { name: "scan", fingerprint });
  assert.equal(await attestationRule(at, fingerprint, always), [
    false,
    ["rule_satisfied", "rule_satisfied", "missing_attestation"],
  ]);
  assert.equal(await attestationRule(at, fingerprint, tagged), [
    true,
    ["rule_satisfied", "rule_satisfied", "rule_not_applicable"],
  ]);
  const narrowed = await evaluateRules(at, fingerprint, `  attestations:\n    - ${always}\n`, `&flow_name=${flows[2]}`);
  assert.equal(
    narrowed.at(-1)?.["resolutions"].map((one: Json) => [one["type"], one["context"].flow_name]),
    [["missing_attestation", flows[2]]],
  );
});

test("exceptions waive only the flows that they match by name, tags or artifact", async () => {
  const at = server.given.org();
  const [first, second] = [await flow(at, TEMPLATE), await flow(at, TEMPLATE)];
  await tag(at, second, { risk: "low", level: "7" });
  const fingerprint = await artifact(at, first);
  await artifact(at, second, { fingerprint, filename: "registry/app:1" });
  const types = async (expression: string) => {
    const [, rule] = await evaluateRules(
      at,
      fingerprint,
      `  trail-compliance:\n    required: true\n    exceptions:\n      - if: ${expression}\n`,
    );
    assert.ok(rule);
    return [rule["satisfied"], ...rule["resolutions"].map((resolution: Json) => resolution["type"])];
  };
  const [fails, waived] = ["non_compliant_in_trail", "rule_not_applicable"];
  assert.equal(await types(`flow.name == "${first}"`), [false, waived, fails]);
  assert.equal(await types('flow.tags.risk == "low"'), [false, fails, waived]);
  assert.equal(await types("flow.tags.level < 10 and exists(flow.tags.risk)"), [false, fails, waived]);
  assert.equal(await types('matches(artifact.name, "^registry/")'), [false, fails, waived]);
  assert.equal(await types(`artifact.fingerprint == "${fingerprint}"`), [null, waived, waived]);
  assert.equal(await types("null"), [false, fails, fails]);
});

test("a failing expression leaves the rule unsatisfied and says why", async () => {
  const at = server.given.org();
  const fingerprint = await artifact(at, await flow(at));
  const [provenance, trail, attestation] = await evaluateRules(
    at,
    fingerprint,
    "  provenance:\n    required: true\n    exceptions: [{if: flow.name in flow.name}]\n  trail-compliance:\n" +
      "    required: true\n    exceptions: [{if: flow.name in flow.name}]\n  attestations:\n" +
      "    - {type: snyk, if: flow.name in flow.name}\n",
  );
  for (const [rule, type] of [
    [provenance, "missing_provenance"],
    [trail, "non_compliant_in_trail"],
    [attestation, "missing_attestation"],
  ] as const) {
    assert.equal({ satisfied: rule?.["satisfied"], type: rule?.["resolutions"][0].type }, { satisfied: false, type });
    assert.match(rule?.["resolutions"][0].context.evaluation_error, /^the right side of in is the text/);
  }
});

test("matches names and types exactly or by wildcard", async () => {
  const at = server.given.org();
  const place = await flow(at);
  const fingerprint = await artifact(at, place);
  await attest(at, place, { name: "unit", fingerprint, ...JUNIT(1) });
  await attest(at, place, { name: "integration", fingerprint, ...JUNIT() });
  await attest(at, place, { name: "scan", fingerprint, is_compliant: false });
  const [satisfied, missing, failing] = [
    [true, ["rule_satisfied"]],
    [false, ["missing_attestation"]],
    [false, ["non_compliant_attestation"]],
  ];
  for (const [rule, expected] of [
    ["{name: integration, type: junit}", satisfied],
    ["{name: integration, type: '*'}", satisfied],
    ["{name: integration, type: snyk}", missing],
    ["{name: unit, type: junit}", failing],
    ["{name: unit, type: junit, must_be_compliant: false}", satisfied],
    ["{type: junit}", satisfied],
    ["{name: '*', type: generic}", failing],
    ["{type: generic, must_be_compliant: false}", satisfied],
    ["{type: 'custom:cov'}", missing],
    ["{name: nothing, type: '*'}", missing],
    ["{type: decision}", missing],
  ] as const)
    assert.equal(await attestationRule(at, fingerprint, rule), expected, rule);
});

test("the latest record of a name counts, and an override counts for the overridden type", async () => {
  const at = server.given.org();
  const place = await flow(at);
  const fingerprint = await artifact(at, place);
  const rule = "{name: unit, type: junit}";
  await attest(at, place, { name: "unit", fingerprint, ...JUNIT() });
  await attest(at, place, { name: "unit", fingerprint, ...JUNIT(1) });
  assert.equal(await attestationRule(at, fingerprint, rule), [false, ["non_compliant_attestation"]]);
  await attest(at, place, {
    name: "unit",
    fingerprint,
    kind: "override",
    reason: "r",
    new_compliance_status: true,
    original_attestation_type: "junit",
  });
  assert.equal(await attestationRule(at, fingerprint, rule), [true, ["rule_satisfied"]]);
  assert.equal(await attestationRule(at, fingerprint, "{name: unit, type: generic}"), [false, ["missing_attestation"]]);
  await attest(at, place, { name: "unit", fingerprint, is_compliant: true });
  assert.equal(await attestationRule(at, fingerprint, rule), [false, ["missing_attestation"]]);
});

test("attestations of the trail count, those of siblings do not, and the artifact's own take precedence", async () => {
  const at = server.given.org();
  const place = await flow(at);
  const [fingerprint, sibling] = [await artifact(at, place), await artifact(at, place, { name: "db" })];
  await attest(at, place, { name: "scan", fingerprint: sibling });
  assert.equal(await attestationRule(at, fingerprint, "{name: scan, type: generic}"), [false, ["missing_attestation"]]);
  await attest(at, place, { name: "review", ...PULL_REQUEST });
  assert.equal(await attestationRule(at, fingerprint, "{type: pull_request}"), [true, ["rule_satisfied"]]);
  await attest(at, place, { name: "scan" });
  assert.equal(await attestationRule(at, fingerprint, "{name: scan, type: generic}"), [true, ["rule_satisfied"]]);
  await attest(at, place, { name: "scan", fingerprint, is_compliant: false });
  assert.equal(await attestationRule(at, fingerprint, "{name: scan, type: generic}"), [
    false,
    ["non_compliant_attestation"],
  ]);
  assert.equal(await attestationRule(at, fingerprint, "{type: generic}"), [true, ["rule_satisfied"]]);
});

test("trail-compliance covers the artifact and the trail's own entries, not its siblings", async () => {
  const at = server.given.org();
  const place = await flow(at);
  const [fingerprint, sibling] = [await artifact(at, place), await artifact(at, place, { name: "db" })];
  await attest(at, place, { name: "scan", fingerprint: sibling, is_compliant: false });
  const rule = async () =>
    (await evaluateRules(at, fingerprint, "  trail-compliance: {required: true}\n"))[1]?.["resolutions"][0];
  assert.equal(await rule(), {
    type: "rule_satisfied",
    context: { flow_name: place, trail_name: "t", artifact_status: "COMPLIANT" },
  });
  await attest(at, place, { name: "review", is_compliant: false });
  assert.equal(await rule(), {
    type: "non_compliant_in_trail",
    context: { flow_name: place, trail_name: "t", artifact_status: "NON-COMPLIANT" },
  });
});

test("an artifact without a trail can satisfy trail-compliance, but no attestation rule", async () => {
  const at = server.given.org();
  const place = await flow(at);
  const context = { flow_name: place, trail_name: null, artifact_status: null };
  for (const [fields, status] of [
    [{}, "COMPLIANT"],
    [{ is_compliant: false }, "NON-COMPLIANT"],
    [{ template: ["unit"] }, "INCOMPLETE"],
  ] as const) {
    const fingerprint = await artifact(at, place, { trail: null, ...fields });
    const rules = await evaluateRules(
      at,
      fingerprint,
      "  provenance: {required: true}\n  trail-compliance: {required: true}\n  attestations: [{type: snyk}]\n",
    );
    const inTrail = status === "COMPLIANT" ? "rule_satisfied" : "legacy_flow";
    assert.equal(
      rules.map(({ satisfied, resolutions }) => ({ satisfied, resolutions })),
      [
        { satisfied: true, resolutions: [{ type: "rule_satisfied", context }] },
        {
          satisfied: status === "COMPLIANT",
          resolutions: [{ type: inTrail, context: { ...context, artifact_status: status } }],
        },
        { satisfied: false, resolutions: [{ type: "legacy_flow", context }] },
      ],
    );
  }
});

test("an early attestation counts as soon as its artifact is reported", async () => {
  const at = server.given.org();
  const place = await flow(at);
  const commit = freshCommit();
  await attest(at, place, { name: "scan", target: "app", commit });
  const fingerprint = await artifact(at, place, { commit });
  assert.equal(await attestationRule(at, fingerprint, "{name: scan, type: generic}"), [true, ["rule_satisfied"]]);
});

test("refuses a policy for a control that does not exist", async () => {
  const at = server.given.org();
  const answer = await server.call("PUT", `/policies/${at.org}`, {
    key: at.key,
    form: {
      field: "payload",
      json: { name: "controls", type: "env" },
      file: {
        name: "policy_file",
        filename: "p.yml",
        content:
          "_schema: https://x/schemas/policy/v1\nartifacts:\n  attestations:\n" +
          "    - {type: decision, for_control: C-1}\n",
      },
    },
  });
  assert.is(answer.status, 400);
  assert.match(answer.body.errors.policy_file, /C-1/);
});

const RULE = "artifacts:\n  attestations: [{type: generic, name: scan}]\n";
const PROVENANCE = "artifacts:\n  provenance: {required: true}\n";
const environment = (at: At, fields: Json = {}): Promise<string> => server.given.environment(at, fields);
/** Allows a fingerprint in an environment; returns the allow_listing that an assert shows. */
async function allow(at: At, place: string, artifact_fingerprint: string, description = "reviewed"): Promise<Json> {
  const answer = await server.call("PUT", `/allowlists/${at.org}/${place}`, {
    key: at.key,
    body: { artifact_fingerprint, artifact_name: "vendor/app", description },
  });
  assert.is(answer.status, 201, answer.text);
  return server.db
    .prepare(
      "SELECT public_id AS allowlist_id, user_id AS allowed_by_user_id, timestamp, description " +
        "FROM allowlist_entries ORDER BY id DESC LIMIT 1",
    )
    .get() as Json;
}
const inEnvironment = (at: At, fingerprint: string, place: string, query = ""): Promise<Json> =>
  readAssert(at, fingerprint, `?environment_name=${place}${query}`);

test("scope environment: evaluates every attached policy at its latest version, in order", async () => {
  const at = server.given.org();
  const place = await flow(at);
  const fingerprint = await artifact(at, place);
  const [later, earlier, empty] = [
    await server.given.policy(at, { name: fresh("a"), yaml: RULE }),
    await server.given.policy(at, { name: fresh("b"), yaml: RULE }),
    await server.given.policy(at, { yaml: null }),
  ];
  const prod = await environment(at, { policies: [earlier, empty] });
  const attached = await server.call("POST", `/environments/${at.org}/${prod}/policies`, {
    key: at.key,
    body: { policy_names: [later] },
  });
  assert.is(attached.status, 200);
  await server.given.policy(at, { name: earlier, yaml: PROVENANCE });
  const summary = async () => {
    const { compliant, policy_evaluations } = await inEnvironment(at, fingerprint, prod);
    return [
      compliant,
      policy_evaluations.map((one: Json) => [one["policy_name"], one["policy_version"], one["status"]]),
    ];
  };
  assert.equal(await summary(), [
    false,
    [
      [earlier, 2, "COMPLIANT"],
      [later, 1, "NON-COMPLIANT"],
    ],
  ]);
  await attest(at, place, { name: "scan", fingerprint });
  assert.equal(await summary(), [
    true,
    [
      [earlier, 2, "COMPLIANT"],
      [later, 1, "COMPLIANT"],
    ],
  ]);

  const body = await inEnvironment(at, fingerprint, prod);
  const named = await readAssert(at, fingerprint, `?policy_name=${earlier}&policy_name=${later}`);
  assert.equal(body, { ...named, scope: "environment", environment: prod });
  assert.equal(
    { allow_listing: body["allow_listing"], "policy_evaluations.length": body["policy_evaluations"].length },
    { allow_listing: null, "policy_evaluations.length": 2 },
  );
});

test("scope environment: has the verdict of the flows without policies to evaluate", async () => {
  const at = server.given.org();
  const [good, strict] = [await flow(at), await flow(at, TEMPLATE)];
  const fingerprint = await artifact(at, good);
  const [none, versionless] = [
    await environment(at),
    await environment(at, { policies: [await server.given.policy(at, { yaml: null })] }),
  ];
  const logical = await environment(at, {
    members: [await environment(at, { policies: [await server.given.policy(at, { yaml: RULE })] })],
  });
  for (const prod of [none, versionless, logical]) {
    const plain = await readAssert(at, fingerprint);
    assert.equal(await inEnvironment(at, fingerprint, prod), {
      ...plain,
      scope: "environment",
      compliant: true,
      environment: prod,
      policy_evaluations: [],
      allow_listing: null,
    });
  }
  await artifact(at, strict, { fingerprint, trail: "s" });
  for (const prod of [none, versionless, logical]) {
    const body = await inEnvironment(at, fingerprint, prod);
    assert.equal(
      {
        compliant: body["compliant"],
        flows: body["flows"].map((one: Json) => one["compliant"]),
        policy_evaluations: body["policy_evaluations"],
      },
      { compliant: false, flows: [true, false], policy_evaluations: [] },
    );
    assert.equal((await inEnvironment(at, fingerprint, prod, `&flow_name=${good}`))["compliant"], true);
  }
});

test("scope environment: flow_name limits the evaluation to one flow", async () => {
  const at = server.given.org();
  const [one, two] = [await flow(at), await flow(at)];
  const fingerprint = await artifact(at, one);
  await artifact(at, two, { fingerprint });
  await attest(at, one, { name: "scan", fingerprint });
  const prod = await environment(at, { policies: [await server.given.policy(at, { yaml: RULE })] });
  const compliant = async (query: string) => (await inEnvironment(at, fingerprint, prod, query))["compliant"];
  assert.equal(
    {
      allFlows: await compliant(""),
      flowOne: await compliant(`&flow_name=${one}`),
      flowTwo: await compliant(`&flow_name=${two}`),
    },
    { allFlows: false, flowOne: true, flowTwo: false },
  );
});

test("scope environment: the allowlist overrides policies and flows, and evaluations still show", async () => {
  const at = server.given.org();
  const place = await flow(at, TEMPLATE);
  const fingerprint = await artifact(at, place);
  const policy = await server.given.policy(at, { yaml: RULE });
  const [prod, staging, bare] = [
    await environment(at, { policies: [policy] }),
    await environment(at, { policies: [policy] }),
    await environment(at),
  ];
  const before = await inEnvironment(at, fingerprint, prod);
  assert.equal(
    { compliant: before["compliant"], allow_listing: before["allow_listing"] },
    { compliant: false, allow_listing: null },
  );
  await allow(at, prod, fingerprint, "first");
  const allow_listing = await allow(at, prod, fingerprint, "second");
  assert.is(allow_listing["description"], "second");
  assert.match(allow_listing["allowed_by_user_id"], /^[a-f0-9-]+$/);
  assert.equal(await inEnvironment(at, fingerprint, prod), { ...before, compliant: true, allow_listing });
  assert.equal(before["policy_evaluations"][0].status, "NON-COMPLIANT");
  const narrowed = await inEnvironment(at, fingerprint, prod, `&flow_name=${place}`);
  assert.equal(
    { compliant: narrowed["compliant"], allow_listing: narrowed["allow_listing"] },
    { compliant: true, allow_listing },
  );
  assert.equal(await inEnvironment(at, fingerprint, staging), { ...before, environment: staging });

  const inBare = await allow(at, bare, fingerprint);
  const body = await inEnvironment(at, fingerprint, bare);
  assert.equal(
    {
      compliant: body["compliant"],
      firstFlowCompliant: body["flows"][0].compliant,
      policy_evaluations: body["policy_evaluations"],
      allow_listing: body["allow_listing"],
    },
    {
      compliant: true,
      firstFlowCompliant: false,
      policy_evaluations: [],
      allow_listing: inBare,
    },
  );
  for (const query of ["", `?policy_name=${policy}`]) {
    const elsewhere = await readAssert(at, fingerprint, query);
    assert.equal(
      {
        compliant: elsewhere["compliant"],
        allow_listing: elsewhere["allow_listing"],
        environment: elsewhere["environment"],
      },
      { compliant: false, allow_listing: null, environment: null },
      query,
    );
  }
  await attest(at, place, { name: "scan", fingerprint });
  const satisfied = await inEnvironment(at, fingerprint, prod);
  assert.equal(
    {
      compliant: satisfied["compliant"],
      status: satisfied["policy_evaluations"][0].status,
      allow_listing: satisfied["allow_listing"],
    },
    { compliant: true, status: "COMPLIANT", allow_listing },
  );
});

test("scope environment: an allowed artifact is compliant without a report", async () => {
  const at = server.given.org();
  const fingerprint = freshFingerprint();
  const policy = await server.given.policy(at, { yaml: PROVENANCE });
  const [prod, bare, other] = [
    await environment(at, { policies: [policy] }),
    await environment(at),
    await environment(at),
  ];
  const place = await flow(at);
  for (const [where, evaluated] of [
    [prod, true],
    [bare, false],
  ] as const) {
    const allow_listing = await allow(at, where, fingerprint);
    const context = { flow_name: null, trail_name: null, artifact_status: null };
    const rules = [
      {
        rule: { type: "provenance", definition: { required: true, exceptions: [] } },
        satisfied: false,
        ignored: false,
        resolutions: [{ type: "missing_provenance", context }],
      },
      {
        rule: { type: "trail-compliance", definition: { required: false, exceptions: [] } },
        satisfied: null,
        ignored: true,
        resolutions: [{ type: "rule_not_applicable", context }],
      },
    ];
    assert.equal(await inEnvironment(at, fingerprint, where), {
      fingerprint,
      scope: "environment",
      compliant: true,
      flow: "",
      trail: null,
      flows: [],
      environment: where,
      allow_listing,
      compliance_status: {
        artifact_fingerprint: fingerprint,
        status: "INCOMPLETE",
        is_compliant: false,
        attestations_statuses: [],
        evaluated_at: allow_listing["timestamp"],
        unexpected: false,
      },
      html_url: `http://assay.test/${at.org}/environments/${where}`,
      policy_evaluations: evaluated
        ? [{ policy_name: policy, policy_version: 1, status: "NON-COMPLIANT", rule_evaluations: rules }]
        : [],
    });
  }
  const inOrg = `Artifact with fingerprint '${fingerprint}' does not exist in organization '${at.org}'`;
  for (const [query, message] of [
    ["", inOrg],
    [`?policy_name=${policy}`, inOrg],
    [`?environment_name=${other}`, inOrg],
    [
      `?environment_name=${prod}&flow_name=${place}`,
      `Artifact with fingerprint '${fingerprint}' does not exist in flow '${place}' belonging to organization ` +
        `'${at.org}'`,
    ],
  ] as const) {
    const answer = await requestAssert(at, fingerprint, query);
    assert.equal({ status: answer.status, body: answer.body }, { status: 404, body: { message } }, query);
  }
});

test("scope environment: refuses unknown, foreign and archived environments, accepts former names", async () => {
  const [at, foreign] = [server.given.org(), server.given.org()];
  const fingerprint = await artifact(at, await flow(at));
  const [prod, elsewhere] = [
    await environment(at, { policies: [await server.given.policy(at, { yaml: RULE })] }),
    await environment(foreign),
  ];
  const refused = async (name: string, message: string) => {
    const answer = await requestAssert(at, fingerprint, `?environment_name=${name}`);
    assert.equal({ status: answer.status, body: answer.body }, { status: 404, body: { message } }, name);
  };
  for (const name of [elsewhere, "nothing", ""])
    await refused(name, `Environment named '${name}' does not exist for organization '${at.org}'`);
  const renamed = fresh("renamed");
  await server.call("PUT", `/environments/${at.org}/${prod}/rename`, { key: at.key, body: { new_name: renamed } });
  const body = await inEnvironment(at, fingerprint, prod);
  assert.equal(
    {
      environment: body["environment"],
      compliant: body["compliant"],
      "policy_evaluations.length": body["policy_evaluations"].length,
    },
    { environment: renamed, compliant: false, "policy_evaluations.length": 1 },
  );
  await server.call("PUT", `/environments/${at.org}/${renamed}/archive`, { key: at.key });
  await refused(renamed, `Environment named '${renamed}' has been archived for organization '${at.org}'`);
});

test("permits readers, refuses outsiders, and changes nothing", async () => {
  const at = server.given.org();
  const fingerprint = await artifact(at, await flow(at));
  const before = server.db.prepare("SELECT count(*) FROM audit_log").pluck().get();
  assert.is((await requestAssert({ ...at, key: server.given.user(at.org, "reader") }, fingerprint)).status, 200);
  assert.is((await requestAssert({ ...at, key: server.given.user(at.org, null) }, fingerprint)).status, 403);
  assert.is(server.db.prepare("SELECT count(*) FROM audit_log").pluck().get(), before);
});

test("a repeated request reflects new evidence, and the present permissions of the caller", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at, {
    template: "version: 1\ntrail:\n  artifacts:\n    - name: app\n      attestations: [{name: tests, type: generic}]\n",
  });
  const trail = await server.given.trail(at, { flow });
  const fingerprint = await server.given.artifact(at, { flow, trail, name: "app" });
  const path = `/asserts/${at.org}/fingerprint/${fingerprint}`;
  const requestAssert = async (key: string | null) => {
    const { status, body } = await server.call("GET", path, { key });
    return status === 200 ? body.compliant : status;
  };
  const reader = server.given.user(at.org, "reader");
  assert.equal(
    [await requestAssert(at.key), await requestAssert(at.key), await requestAssert(reader)],
    [false, false, false],
  );
  assert.equal(
    {
      outsider: await requestAssert(server.given.user(at.org, null)),
      withoutKey: await requestAssert(null),
      unknownKey: await requestAssert("no-such-key"),
    },
    { outsider: 403, withoutKey: 401, unknownKey: 401 },
  );
  await server.given.attestation(at, { flow, trail, name: "tests", fingerprint });
  assert.equal(
    { member: await requestAssert(at.key), reader: await requestAssert(reader) },
    { member: true, reader: true },
  );
  server.db.prepare("DELETE FROM memberships WHERE role = 'reader'").run();
  assert.equal(
    { reader: await requestAssert(reader), member: await requestAssert(at.key) },
    { reader: 403, member: true },
  );
  server.db.prepare("UPDATE api_keys SET expires_at = ?").run(server.clock.at + 3);
  assert.equal(
    [
      await requestAssert(at.key),
      await requestAssert(at.key),
      await requestAssert(at.key),
      await requestAssert(at.key),
    ],
    [true, true, 401, 401],
  );
});

test("the 404 of an artifact that runs says that its name was reported with another fingerprint", async () => {
  const at = server.given.org();
  const place = await flow(at);
  const name = fresh("registry.example.com/web:");
  const index = await artifact(at, place, { filename: name });
  const [platform, unknown] = [freshFingerprint(), freshFingerprint()];
  const where = await environment(at, { type: "K8S" });
  runningIn(server).report(at, where, [running(name, platform), running("unknown", unknown)]);
  const inOrg = (what: string) => `Artifact with fingerprint '${what}' does not exist in organization '${at.org}'`;
  const record = await server.call("GET", `/artifacts/${at.org}/${place}/fingerprint/${index}`, { key: at.key });
  const hint =
    `It runs in environment '${where}' as '${name}'. An artifact of this name was reported to trail ` +
    `'${record.body.trail_name}' of flow '${place}' with another fingerprint: ${index} (${record.body.html_url}). ` +
    "Either another build of it runs, or it is an image for several platforms, which has two digests: that of its " +
    "index and that of the manifest of one platform. Report the fingerprint that the environment reports.";
  for (const [what, query, message] of [
    [platform, "", `${inOrg(platform)}. ${hint}`],
    [platform, `?environment_name=${where}`, `${inOrg(platform)}. ${hint}`],
    [unknown, "", inOrg(unknown)],
    // The text of an assert in one flow is fixed.
    [
      platform,
      `?flow_name=${place}`,
      `Artifact with fingerprint '${platform}' does not exist in flow '${place}' belonging to organization '${at.org}'`,
    ],
  ] as const) {
    const answer = await requestAssert(at, what, query);
    assert.equal({ status: answer.status, body: answer.body }, { status: 404, body: { message } }, query);
  }
});

test.run();
