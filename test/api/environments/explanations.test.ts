import { suite } from "uvu";
import * as assert from "uvu/assert";
import { freshFingerprint, startServer } from "../../given.ts";
import type { Answer, TestServer } from "../../given.ts";
import { running, runningIn } from "./given.ts";
import { cli } from "../../cli/in-process.ts";
import { asDirectory } from "../../cli/commands/explain-given.ts";

const test = suite("api/environments/explanations");
let server: TestServer;
let world: ReturnType<typeof runningIn>;
test.before(async () => {
  server = await startServer();
  world = runningIn(server);
});
test.after(() => server.stop());

type At = { org: string; key: string };

const explain = (at: At, environment: string, expression = "-1", query = ""): Promise<Answer> =>
  server.call("GET", `/explanations/${at.org}/environments/${environment}/${encodeURIComponent(expression)}${query}`, {
    key: at.key,
  });

const TEMPLATE = `version: 1
trail:
  attestations:
    - { name: review, type: pull_request }
  artifacts:
    - name: backend
      attestations:
        - { name: tests, type: junit }
        - { name: scan, type: snyk }
`;

const POLICY = `artifacts:
  # who built it
  provenance: { required: true }
  trail-compliance:
    required: true
    exceptions:
      - if: \${{ flow.tags.tier == "batch" }}
  attestations:
    - &scanned
      type: snyk
      name: scan
    - type: sonar
      if: \${{ exists(flow.tags.pci) }}
    - *scanned
`;
const POLICY_TEXT = `_schema: https://assay.example.com/schemas/policy/v1\n${POLICY}`;

/** A flow, an artifact with a failed scan and missing tests in its trail, and an environment that demands both. */
async function failing() {
  const at = server.given.org();
  const flow = await server.given.flow(at, { template: TEMPLATE });
  const trail = await server.given.trail(at, { flow });
  const fingerprint = await server.given.artifact(at, { flow, trail, name: "backend" });
  const scan = await server.given.attestation(at, {
    flow,
    trail,
    name: "scan",
    kind: "generic",
    fingerprint,
    is_compliant: false,
  });
  const policy = await server.given.policy(at, { yaml: POLICY.replaceAll("type: snyk", "type: generic") });
  const environment = world.environment(at, { type: "K8S" });
  world.attach(at, environment, policy);
  world.report(at, environment, [running("backend:1", fingerprint)]);
  return { at, flow, trail, fingerprint, scan, policy, environment };
}

const rulesOf = ({ body }: Answer, artifact = 0): any[] => body.snapshot.artifacts[artifact].policies[0].rules;

test("explains each rule with its lines, its conditions and what would satisfy it, and each cause once", async () => {
  const { at, flow, trail, fingerprint, scan, policy, environment } = await failing();
  const answer = await explain(at, environment, "-1", `?fingerprint=${fingerprint}`);
  assert.is(answer.status, 200, answer.text);
  const { snapshot, ...head } = answer.body;
  assert.equal(head, {
    organization: at.org,
    expression: `${environment}#-1`,
    fingerprint,
    selection: { total: 1, page: 1, per_page: 20, page_count: 1 },
    same: true,
    problems: [],
  });
  assert.equal(
    snapshot.policies.map((one: any) => [one.policy, one.version, one.policy_yaml]),
    [[policy, 1, POLICY_TEXT.replaceAll("type: snyk", "type: generic")]],
  );
  const rules = rulesOf(answer);
  assert.equal(
    rules.map(({ lines, satisfied }) => [lines.from, lines.to, satisfied]),
    [
      [4, 4, true],
      [5, 8, false],
      [10, 12, false],
      [13, 14, null],
      [15, 15, false],
    ],
  );
  assert.equal(rules[1].conditions, [
    {
      type: "exception",
      text: 'flow.tags.tier == "batch"',
      lines: { from: 8, to: 8 },
      results: [{ flow, result: false, error: null, values: { "flow.tags.tier": null } }],
    },
  ]);
  assert.equal(rules[3].conditions, [
    {
      type: "condition",
      text: "exists(flow.tags.pci)",
      lines: { from: 14, to: 14 },
      results: [{ flow, result: false, error: null, values: { "flow.tags.pci": null } }],
    },
  ]);
  const [artifact] = snapshot.artifacts;
  const about = { flow, trail, control: null };
  assert.equal(artifact.causes, [
    {
      ...about,
      subject: "scan",
      text: "scan fails",
      kind: "non_compliant_attestation",
      words: "Attestation 'scan' of artifact 'backend' is not compliant, and is not in the template",
      name: "scan",
      type: "generic",
      attestation_id: scan,
      level: "artifact",
    },
    {
      ...about,
      subject: "tests",
      text: "tests is missing",
      kind: "missing_attestation",
      words: "Attestation 'tests' of artifact 'backend' is missing; the template expects type 'junit'",
      name: "tests",
      type: "junit",
      attestation_id: null,
      level: "artifact",
    },
    {
      ...about,
      subject: "scan",
      text: "scan is not of type snyk",
      kind: "missing_attestation",
      words: "Attestation 'scan' of artifact 'backend' was reported as 'generic'; the template expects type 'snyk'",
      name: "scan",
      type: "snyk",
      attestation_id: null,
      level: "artifact",
    },
    {
      ...about,
      subject: "review",
      text: "review is missing",
      kind: "missing_attestation",
      words: "Attestation 'review' of the trail is missing; the template expects type 'pull_request'",
      name: "review",
      type: "pull_request",
      attestation_id: null,
      level: "trail",
    },
  ]);
  assert.equal(
    rules[1].satisfied_by.map((one: any) => [one.kind, one.name, one.fingerprint, one.attestation_id]),
    [
      ["make_trail_compliant", null, fingerprint, null],
      ["fix_attestation", "scan", fingerprint, scan],
      ["override_attestation", "scan", fingerprint, scan],
      ["report_attestation", "tests", fingerprint, null],
      ["report_attestation", "scan", fingerprint, null],
      ["report_attestation", "review", null, null],
      ["allowlist", null, fingerprint, null],
    ],
  );
  assert.equal(
    rules[2].satisfied_by.map((one: any) => one.kind),
    ["fix_attestation", "override_attestation", "allowlist"],
  );
  assert.equal(rules[0].satisfied_by, []);
  assert.equal(rules[3].satisfied_by, []);
});

test("says what assay explain --json says", async () => {
  const { at, environment, fingerprint } = await failing();
  const { body } = await explain(at, environment, "1", `?fingerprint=${fingerprint}`);
  await asDirectory(server.db, async (data) => {
    const { code, out, err } = await cli([
      ...["explain", `${environment}#1`, fingerprint, "--org", at.org, "--json"],
      ...["--data", data],
    ]);
    assert.equal({ code, err }, { code: 0, err: "" });
    assert.equal({ ...JSON.parse(out), selection: body.selection }, body);
  });
});

test("explains a compliant artifact, one that is allowed, one without provenance, and one that stopped", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const trail = await server.given.trail(at, { flow });
  const good = await server.given.artifact(at, { flow, trail, name: "app" });
  const [allowed, stranger, stopped] = [freshFingerprint(), freshFingerprint(), freshFingerprint()];
  const policy = await server.given.policy(at, { yaml: "artifacts: {provenance: {required: true}}\n" });
  const environment = world.environment(at, { type: "K8S" });
  world.attach(at, environment, policy);
  const still = [running("b-good", good), running("c-allowed", allowed), running("z-stranger", stranger)];
  world.report(at, environment, [...still, running("a-stopped", stopped)]);
  world.allow(at, environment, allowed);
  world.report(at, environment, still);
  const { status, body } = await explain(at, environment);
  assert.is(status, 200);
  assert.equal(
    body.snapshot.artifacts.map((one: any) => [
      one.name,
      one.compliant,
      one.exited,
      one.allowlist?.description ?? null,
      one.causes.map(({ kind }: any) => kind),
      one.policies[0].rules[0].satisfied_by.map(({ kind }: any) => kind),
      one.same,
    ]),
    [
      ["z-stranger", false, false, null, ["no_provenance"], ["report_artifact", "allowlist"], true],
      ["b-good", true, false, null, [], [], true],
      ["c-allowed", true, false, "because", ["no_provenance"], ["report_artifact"], true],
      ["a-stopped", false, true, null, ["no_provenance"], ["report_artifact", "allowlist"], true],
    ],
  );
  assert.equal({ same: body.same, problems: body.problems }, { same: true, problems: [] });
});

test("an environment without policies is unknown, and says so without causes", async () => {
  const at = server.given.org();
  const environment = world.environment(at);
  world.report(at, environment, [running("x", freshFingerprint())]);
  const { snapshot } = (await explain(at, environment, "@{now}")).body;
  assert.equal(
    [snapshot.compliant, snapshot.policies, snapshot.artifacts[0].compliant, snapshot.artifacts[0].causes],
    [null, [], null, []],
  );
});

test("a legacy record, a failed condition and a missing decision have causes and remedies of their own", async () => {
  const at = server.given.org();
  await server.given.control(at, { identifier: "SEC-1" });
  const flow = await server.given.flow(at);
  const trail = await server.given.trail(at, { flow });
  const legacy = await server.given.artifact(at, { flow, trail: null });
  const built = await server.given.artifact(at, { flow, trail, name: "app" });
  const policy = await server.given.policy(at, {
    yaml:
      "artifacts:\n  attestations:\n    - {type: decision, for_control: SEC-1}\n" +
      "    - {type: junit, if: flow != 'x'}\n",
  });
  const environment = world.environment(at);
  world.attach(at, environment, policy);
  world.report(at, environment, [running("a", legacy), running("b", built)]);
  const answer = await explain(at, environment);
  const [first, second] = answer.body.snapshot.artifacts;
  assert.equal(
    first.causes.map(({ kind, words }: any) => [kind, words]),
    [
      ["no_trail", `The artifact was reported to flow '${flow}' without a trail`],
      [
        "failed_condition",
        `Its condition failed for flow '${flow}': flow itself cannot be compared (at character 6 of: flow != 'x')`,
      ],
    ],
  );
  const error = "flow itself cannot be compared (at character 6 of: flow != 'x')";
  assert.equal(rulesOf(answer, 1)[3].conditions[0].results, [{ flow, result: null, error, values: { flow: true } }]);
  assert.equal(
    rulesOf(answer, 1)[3].satisfied_by.map(({ kind }: any) => kind),
    ["correct_policy", "allowlist"],
  );
  assert.equal(
    second.causes.map(({ kind, words, control }: any) => [kind, words, control]),
    [
      [
        "missing_attestation",
        `The decision for control 'SEC-1' is missing in trail '${trail}' of flow '${flow}'`,
        "SEC-1",
      ],
      [
        "failed_condition",
        `Its condition failed for flow '${flow}': flow itself cannot be compared (at character 6 of: flow != 'x')`,
        null,
      ],
    ],
  );
});

test("explains a logical environment by its members, and pages through all of their artifacts", async () => {
  const at = server.given.org();
  const policy = await server.given.policy(at, { yaml: "artifacts: {provenance: {required: true}}\n" });
  const members = [world.environment(at), world.environment(at)];
  const all = world.environment(at, { type: "logical", members });
  const [first, second] = members as [string, string];
  world.attach(at, second, policy);
  world.report(at, first, [running("calm", freshFingerprint())]);
  const bad = freshFingerprint();
  world.report(at, second, [running("bad", bad)]);
  const page = async (number: number) => {
    const { body } = await explain(at, all, "-1", `?per_page=1&page=${number}`);
    return [
      body.selection,
      body.snapshot.members.map((member: any) => [
        member.environment.name,
        member.policies.length,
        member.artifacts.map(({ name }: any) => name),
      ]),
      body.same,
    ];
  };
  const selection = (number: number) => ({ total: 2, page: number, per_page: 1, page_count: 2 });
  assert.equal(await page(1), [
    selection(1),
    [
      [first, 0, []],
      [second, 1, ["bad"]],
    ],
    true,
  ]);
  assert.equal(await page(2), [
    selection(2),
    [
      [first, 0, ["calm"]],
      [second, 1, []],
    ],
    true,
  ]);
  assert.equal(await page(3), [
    selection(3),
    [
      [first, 0, []],
      [second, 1, []],
    ],
    true,
  ]);
  const one = await explain(at, all, "-1", `?fingerprint=${bad}`);
  assert.equal(
    one.body.snapshot.members.map(({ artifacts }: any) => artifacts.length),
    [0, 1],
  );
});

test("an old version of a policy keeps its lines, and so does one that is stored with its parsed form", async () => {
  const { at, environment, policy, fingerprint } = await failing();
  const long = `${POLICY}${"# a comment that makes the file long\n".repeat(400)}`;
  await server.given.policy(at, { name: policy, yaml: `# moved\n\n${long}` });
  world.attach(at, environment);
  await server.settled();
  const latest = server.store.policies.require(
    { id: server.store.organizations.find(at.org)?.id as number, name: at.org },
    policy,
  );
  const versions = server.store.policies.listVersions(latest.id);
  const parsed = server.db
    .prepare<[number], string | null>("SELECT parsed_json FROM policy_versions WHERE id = ?")
    .pluck()
    .get(versions[0]?.id as number);
  assert.type(parsed, "string");
  const lines = async (expression: string) =>
    rulesOf(await explain(at, environment, expression, `?fingerprint=${fingerprint}`)).map((rule) => rule.lines.from);
  assert.equal(await lines("1"), [4, 5, 10, 13, 15]);
  assert.equal(await lines("-1"), [6, 7, 12, 15, 17]);
});

test("a thousand artifacts are explained in pages, the failing ones first", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at, { template: TEMPLATE });
  const trail = await server.given.trail(at, { flow });
  const policy = await server.given.policy(at, { yaml: POLICY });
  const environment = world.environment(at, { type: "K8S" });
  world.attach(at, environment, policy);
  const built: string[] = [];
  for (let index = 0; index < 5; index += 1)
    built.push(await server.given.artifact(at, { flow, trail, name: "backend" }));
  const prints = [...built, ...Array.from({ length: 995 }, () => freshFingerprint())];
  world.report(
    at,
    environment,
    prints.map((fingerprint, index) => running(`app-${String(index).padStart(4, "0")}`, fingerprint)),
  );
  for (const print of prints.slice(10, 30)) world.allow(at, environment, print);

  const { status, body } = await explain(at, environment, "-1", "?per_page=50");
  assert.is(status, 200);
  assert.equal(body.selection, { total: 1_000, page: 1, per_page: 50, page_count: 20 });
  assert.is(body.snapshot.artifacts.length, 50);
  assert.ok(body.snapshot.artifacts.every(({ compliant, same }: any) => compliant === false && same));
  assert.equal(body.problems, []);
  const last = (await explain(at, environment, "-1", "?per_page=50&page=20")).body.snapshot.artifacts;
  assert.equal(
    last.map(({ allowlist }: any) => allowlist !== null),
    [...Array<boolean>(30).fill(false), ...Array<boolean>(20).fill(true)],
  );
});

test("a page of artifacts with thousands of rules ends with artifacts without their rules", async () => {
  const at = server.given.org();
  const rules = Array.from({ length: 250 }, (_, index) => `    - {type: junit, name: tests-${index}}\n`).join("");
  const environment = world.environment(at);
  const policies: string[] = [];
  for (const _ of [1, 2, 3, 4])
    policies.push(await server.given.policy(at, { yaml: `artifacts:\n  attestations:\n${rules}` }));
  world.attach(at, environment, ...policies);
  const prints = Array.from({ length: 5 }, () => freshFingerprint());
  world.report(
    at,
    environment,
    prints.map((fingerprint, index) => running(`app-${index}`, fingerprint)),
  );
  const { body } = await explain(at, environment);
  const shown = body.snapshot.artifacts.map(({ policies: verdicts, causes }: any) => [
    verdicts.map(({ status, rules: all }: any) => [status, all?.length ?? null]),
    causes.length,
  ]);
  const verdicts = (count: number | null) => policies.map(() => ["NON-COMPLIANT", count]);
  assert.equal(
    [shown[0], shown[4]],
    [
      [verdicts(252), 1],
      [verdicts(null), 1],
    ],
  );
  const alone = await explain(at, environment, "-1", `?fingerprint=${prints[4]}`);
  assert.is(rulesOf(alone).length, 252);
});

test("damaged records become problems, and the rest stays readable", async () => {
  const { at, environment, fingerprint } = await failing();
  const [good] = (await explain(at, environment)).body.snapshot.artifacts;
  const evaluation = good.evaluation_id;
  const intact = server.db.prepare<[number], any>("SELECT * FROM evaluations WHERE id = ?").get(evaluation);
  const damages: [string, string, RegExp][] = [
    ["facts_json", "{", /the stored evaluation cannot be read/],
    ["facts_json", "null", /the stored evaluation cannot be read/],
    ["facts_json", '{"flows":[{"candidates":[7],"reasons":[],"tags":{}}]}', /the stored evaluation cannot be read/],
    ["facts_json", intact.facts_json.replaceAll("NON-COMPLIANT", "COMPLIANT"), /but re-evaluates to/],
    ["verdicts_json", "[7]", /the stored evaluation cannot be read/],
    ["reasons_json", "[]", /the stored reasons are none/],
  ];
  for (const [column, value, problem] of damages) {
    server.db.prepare(`UPDATE evaluations SET ${column} = ? WHERE id = ?`).run(value, evaluation);
    const { status, body } = await explain(at, environment, "-1", `?fingerprint=${fingerprint}`);
    server.db.prepare(`UPDATE evaluations SET ${column} = ? WHERE id = ?`).run(intact[column], evaluation);
    assert.is(status, 200, value);
    assert.is(body.same, false, value);
    assert.match(body.problems.join("\n"), problem, value);
    assert.equal(body.snapshot.artifacts[0].same, false);
  }
  assert.is((await explain(at, environment)).body.same, true);
});

test("refuses an unknown environment, snapshot or artifact, and malformed parameters", async () => {
  const { at, environment } = await failing();
  const unknown = freshFingerprint();
  const refused = async (...words: [string, string?, string?]) => {
    const { status, body } = await explain(at, ...words);
    return [status, body.message, ...Object.keys(body.errors ?? {})];
  };
  const FAILED = "Input payload validation failed";
  assert.equal(await refused("nowhere"), [
    404,
    `Environment named 'nowhere' does not exist for organization '${at.org}'`,
  ]);
  assert.equal(await refused(environment, "7"), [
    404,
    `Org: '${at.org}'. Snapshot '${environment}#7' resolves to '${environment}#7'. len(snapshots) == 1. ` +
      "Indexes are 1-based",
  ]);
  assert.equal(await refused(environment, "-1", `?fingerprint=${unknown}`), [
    404,
    `Org: '${at.org}'. Snapshot '${environment}#1' has no artifact with fingerprint '${unknown}'`,
  ]);
  assert.equal(await refused(environment, "x"), [400, FAILED, "snapshot_expression"]);
  assert.equal(await refused(environment, "-1", "?fingerprint=abcde"), [400, FAILED, "fingerprint"]);
  assert.equal(await refused(environment, "-1", "?per_page=51"), [400, FAILED, "per_page"]);
  assert.equal(await refused(environment, "-1", "?page=0"), [400, FAILED, "page"]);
});

test("needs the right to read the environment", async () => {
  const { at, environment } = await failing();
  const get = async (key: string | null) =>
    (await server.call("GET", `/explanations/${at.org}/environments/${environment}/-1`, { key })).status;
  assert.equal(
    [
      await get(server.given.user(at.org, "reader")),
      await get(server.given.user(at.org, null)),
      await get(server.given.org().key),
      await get(null),
    ],
    [200, 403, 403, 401],
  );
});

test("an artifact that no flow knows comes with the latest record of its name", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const trail = await server.given.trail(at, { flow });
  const name = "registry.example.com/shop/web:1.4";
  await server.given.artifact(at, { flow, trail, filename: name });
  const index = await server.given.artifact(at, { flow, trail, filename: name });
  await server.given.artifact(at, { flow, trail, filename: name.toUpperCase() });
  await server.given.artifact(at, { flow, trail, filename: "registry.example.com/shop/web:1.5" });
  const other = server.given.org();
  const elsewhere = await server.given.flow(other);
  await server.given.artifact(other, { flow: elsewhere, trail: null, filename: "unknown:1" });
  const environment = world.environment(at, { type: "K8S" });
  const platform = freshFingerprint();
  world.report(at, environment, [
    running(name, platform),
    running("unknown:1", freshFingerprint()),
    running(name, index),
  ]);
  const artifacts: any[] = (await explain(at, environment)).body.snapshot.artifacts;
  const shown = artifacts.flatMap(({ fingerprint, same_name: found }) =>
    found ? [{ of: fingerprint, ...found }] : [],
  );
  const { artifact_id: id, words } = shown[0] ?? {};
  assert.equal(shown, [{ of: platform, flow, trail, fingerprint: index, artifact_id: id, words }]);
  assert.is(
    words,
    `An artifact of this name was reported to trail '${trail}' of flow '${flow}' with another fingerprint: ${index}. ` +
      "Either another build of it runs, or it is an image for several platforms, which has two digests: that of its " +
      "index and that of the manifest of one platform. Report the fingerprint that the environment reports.",
  );
  const snapshot = async (query: string): Promise<unknown[]> =>
    (
      await server.call("GET", `/snapshots/${at.org}/${environment}/-1${query}`, { key: at.key })
    ).body.artifacts.flatMap(({ fingerprint, same_name: found }: any) =>
      found ? [{ of: fingerprint, ...found }] : [],
    );
  assert.equal([await snapshot("?per_page=10"), await snapshot("")], [shown, []]);
  const record = await server.call("GET", `/artifacts/${at.org}/${flow}/fingerprint/${index}`, { key: at.key });
  assert.match(record.body.html_url, `artifact_id=${id}`);
  // Once the flow knows the fingerprint too, old snapshots no longer ask to report it.
  await server.given.artifact(at, { flow, trail, filename: name, fingerprint: platform });
  const { body } = await explain(at, environment, "1", `?fingerprint=${platform}`);
  assert.equal([body.snapshot.artifacts[0].flows, body.snapshot.artifacts[0].same_name], [[], undefined]);
});

test.run();
