/** The preview of a policy: its mistakes, what it would change, its bounds, and that nothing is stored. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { ROLES, allows } from "../../../src/domain/access.ts";
import { freshFingerprint, startServer } from "../../given.ts";
import type { Answer, TestServer } from "../../given.ts";
import { running, runningIn } from "../environments/given.ts";

const test = suite("api/policies/preview");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type At = { org: string; key: string };

const V1 = "_schema: https://assay.example.com/schemas/policy/v1\n";
const PROVENANCE = `${V1}artifacts:\n  provenance:\n    required: true\n`;
const NOTHING = `${V1}artifacts:\n  provenance:\n    required: false\n`;
const TESTS = `${V1}artifacts:\n  attestations:\n    - type: generic\n      name: tests\n`;
const REVIEW = `${TESTS}    - type: generic\n      name: review\n`;

const preview = (at: At, body: object): Promise<Answer> =>
  server.call("POST", `/policies/${at.org}/preview`, { key: at.key, body });

/** Row counts of every table. */
const rows = (): Record<string, number> =>
  Object.fromEntries(
    server.db
      .prepare<[], string>("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
      .pluck()
      .all()
      .map((table) => [
        table,
        server.db.prepare<[], number>(`SELECT count(*) FROM "${table}"`).pluck().get() as number,
      ]),
  );

/**
 * An environment under the policy `live` (provenance), in which run: `built`, which has the attestation `tests`;
 * `foreign`, without provenance; `allowed`, without provenance and on the allowlist.
 */
async function story() {
  const at = server.given.org();
  const world = runningIn(server);
  const flow = await server.given.flow(at, { name: "backend" });
  const trail = await server.given.trail(at, { flow, name: "t1" });
  const built = await server.given.artifact(at, { flow, trail, name: "built" });
  await server.given.attestation(at, { flow, trail, name: "tests", fingerprint: built });
  const [foreign, allowed] = [freshFingerprint(), freshFingerprint()];
  await server.given.policy(at, { name: "live", yaml: PROVENANCE.slice(V1.length) });
  const environment = world.environment(at, { name: "production" });
  world.attach(at, environment, "live");
  world.report(at, environment, [running("built", built), running("foreign", foreign), running("allowed", allowed)]);
  world.allow(at, environment, allowed);
  return { at, world, flow, trail, built, foreign, allowed, environment };
}

const LISTS = { flips: [], allowlisted: [], unknown_artifacts: [], not_listed: 0 };
const NONE = { would_fail: 0, would_pass: 0, would_be_unknown: 0, kept_by_allowlist: 0, unknown: 0, stale: 0 };

test("an invalid text is answered with each mistake at its line, as an upload is refused", async () => {
  const at = server.given.org();
  const policy_yaml =
    "_schema: /v2\nartifacts:\n  provenence:\n    required: yes please\n  attestations: [{ name: 1 }]\n";
  const before = rows();
  const answer = await preview(at, { policy_yaml });
  assert.is(answer.status, 200, answer.text);
  assert.equal(answer.body, {
    valid: false,
    problems: [
      {
        line: 1,
        column: 10,
        path: "_schema",
        message:
          "the schema is not supported; its path must end in /v1" +
          ", as in https://assay.example.com/schemas/policy/environment/v1 [input: /v2]",
      },
      {
        line: 3,
        column: 3,
        path: "artifacts.provenence",
        message:
          "Extra inputs are not permitted [input: {...}]; did you mean provenance?" +
          " Possible keys: provenance, trail-compliance, attestations",
      },
      {
        line: 5,
        column: 18,
        path: "artifacts.attestations.0.type",
        message:
          "Field required: " +
          "write 'generic', 'junit', 'snyk', 'pull_request', 'jira', 'sonar', 'decision', 'sbom', '*' or" +
          " 'custom:<name>'",
      },
      {
        line: 5,
        column: 26,
        path: "artifacts.attestations.0.name",
        message: "Input should be a valid string [input: 1]",
      },
    ],
    warnings: [],
    environments: [],
    stopped: null,
  });
  const refused = await server.call("PUT", `/policies/${at.org}`, {
    key: at.key,
    form: {
      field: "payload",
      json: { name: "x" },
      file: { name: "policy_file", filename: "policy.yml", content: policy_yaml },
    },
  });
  type Problem = { line: number; column: number; path: string; message: string };
  assert.equal(refused.body, {
    message: "Input payload validation failed",
    errors: {
      policy_file: [
        ...(answer.body.problems as Problem[]).map(
          ({ line, column, path, message }) => `line ${line}, column ${column}: ${path}: ${message}`,
        ),
        "JSON Schema: /api/v2/schemas/environment-policy/v1",
      ].join("; "),
    },
  });
  assert.equal(rows(), before);
});

test("a control that does not exist is a mistake where the text names it", async () => {
  const at = server.given.org();
  await server.given.control(at, { identifier: "C-1" });
  const rule = (control: string): string => `    - { type: decision, for_control: ${control} }\n`;
  const policy_yaml = `${V1}artifacts:\n  attestations:\n${rule("C-1")}${rule("C-2")}`;
  assert.equal((await preview(at, { policy_yaml })).body.problems, [
    {
      line: 5,
      column: 38,
      path: "artifacts.attestations.1.for_control",
      message: `Control 'C-2' does not exist in organization '${at.org}'`,
    },
  ]);
  await server.given.control(at, { identifier: "C-2" });
  assert.equal((await preview(at, { policy_yaml })).body, {
    valid: true,
    problems: [],
    warnings: [],
    environments: [],
    stopped: null,
  });
});

test("lists the artifacts that would fail, with the line of the rule and the allowlisted ones", async () => {
  const { at, built, foreign, allowed } = await story();
  const before = rows();
  const answer = await preview(at, { policy_yaml: REVIEW, policy_name: "live" });
  const [shown] = answer.body.environments;
  assert.equal(shown.flips, [
    {
      name: "built",
      fingerprint: built,
      flow: "backend",
      trail: "t1",
      before: "COMPLIANT",
      after: "NON-COMPLIANT",
      reasons_before: [],
      reasons: [
        {
          policy: "live",
          version: 2,
          line: 6,
          column: 7,
          text:
            "Policy 'live' requires a compliant generic attestation named 'review', but none was reported in trail " +
            "'t1' of flow 'backend'.",
        },
      ],
      causes: [
        {
          policy: "live",
          version: 2,
          line: 6,
          column: 7,
          kind: "missing_attestation",
          subject: "review",
          text: "review is missing",
          words: "The generic attestation 'review' is missing in trail 't1' of flow 'backend'",
          flow: "backend",
          trail: "t1",
          name: "review",
          type: "generic",
          control: null,
          attestation_id: null,
          level: null,
        },
      ],
      further_reasons: 0,
      allowed: false,
      stale: false,
    },
  ]);
  assert.equal(
    { ...shown, flips: [] },
    {
      environment: "production",
      attached: true,
      snapshot: 2,
      before: "NON-COMPLIANT",
      after: "NON-COMPLIANT",
      artifacts: 3,
      ...NONE,
      ...LISTS,
      unchanged: 2,
      would_fail: 1,
    },
  );
  assert.is(answer.body.stopped, null);
  assert.ok(![foreign, allowed].some((fingerprint) => answer.text.includes(fingerprint)));
  assert.equal(rows(), before, "nothing is stored");
});

test("lists the artifacts that would pass, with the reasons that would end", async () => {
  const { at, foreign } = await story();
  const [shown] = (await preview(at, { policy_yaml: NOTHING, policy_name: "live" })).body.environments;
  assert.equal(shown, {
    environment: "production",
    attached: true,
    snapshot: 2,
    before: "NON-COMPLIANT",
    after: "COMPLIANT",
    artifacts: 3,
    ...NONE,
    ...LISTS,
    unchanged: 2,
    would_pass: 1,
    flips: [
      {
        name: "foreign",
        fingerprint: foreign,
        flow: null,
        trail: null,
        before: "NON-COMPLIANT",
        after: "COMPLIANT",
        reasons_before: ["Policy 'live' requires provenance, but the artifact was not reported to any flow."],
        reasons: [],
        causes: [],
        further_reasons: 0,
        allowed: false,
        stale: false,
      },
    ],
  });
});

test("an allowlisted artifact that would fail is listed apart, and its verdict stays", async () => {
  const { at, world, environment, built } = await story();
  world.allow(at, environment, built);
  const [shown] = (await preview(at, { policy_yaml: REVIEW, policy_name: "live" })).body.environments;
  assert.equal([shown.would_fail, shown.unchanged, shown.kept_by_allowlist, shown.flips], [0, 3, 1, []]);
  assert.equal(
    shown.allowlisted.map(({ name, before, after, reasons }: any) => [name, before, after, reasons[0].line]),
    [["built", "COMPLIANT", "COMPLIANT", 6]],
  );
});

test("the same text flips nothing, and the text that is then stored gives the previewed verdicts", async () => {
  const { at, environment } = await story();
  const same = (await preview(at, { policy_yaml: PROVENANCE, policy_name: "live" })).body.environments[0];
  assert.equal([same.unchanged, same.flips], [3, []]);
  const [shown] = (await preview(at, { policy_yaml: REVIEW, policy_name: "live" })).body.environments;
  await server.given.policy(at, { name: "live", yaml: REVIEW.slice(V1.length) });
  await server.settled();
  const { body: snapshot } = await server.call("GET", `/snapshots/${at.org}/${environment}/-1`, { key: at.key });
  assert.equal(
    snapshot.artifacts.map(({ name, compliant, reasons_for_incompliance }: any) => [
      name,
      compliant,
      reasons_for_incompliance,
    ]),
    [
      ["allowed", true, snapshot.artifacts[0].reasons_for_incompliance],
      ["built", false, shown.flips[0].reasons.map(({ text }: any) => text)],
      ["foreign", false, snapshot.artifacts[2].reasons_for_incompliance],
    ],
  );
});

test("the other policies of an environment stay as they are", async () => {
  const { at, world, environment, built } = await story();
  await server.given.policy(at, { name: "other", yaml: TESTS.slice(V1.length) });
  world.attach(at, environment, "other");
  const nothing = (await preview(at, { policy_yaml: NOTHING, policy_name: "live" })).body.environments[0];
  assert.equal(
    [nothing.would_pass, nothing.would_fail, nothing.unchanged],
    [0, 0, 3],
    "the other still refuses foreign",
  );
  const review = (await preview(at, { policy_yaml: REVIEW, policy_name: "other" })).body.environments[0];
  assert.equal(
    review.flips.map(({ fingerprint, reasons }: any) => [
      fingerprint,
      reasons.map(({ policy, line }: any) => [policy, line]),
    ]),
    [[built, [["other", 6]]]],
  );
});

test("a named environment is evaluated as if the policy was attached, and only named ones are", async () => {
  const { at, world, built, foreign } = await story();
  world.environment(at, { name: "staging" });
  world.report(at, "staging", [running("built", built), running("foreign", foreign)]);
  world.environment(at, { name: "empty" });
  const answer = await preview(at, { policy_yaml: PROVENANCE, environments: ["staging", "empty", "staging"] });
  assert.equal(
    answer.body.environments.map(({ flips, ...one }: any) => [
      one.environment,
      one.attached,
      one.snapshot,
      one.before,
      one.after,
      flips.map(({ name, before, after, reasons }: any) => [name, before, after, reasons.map(({ text }: any) => text)]),
    ]),
    [
      [
        "staging",
        false,
        1,
        "UNKNOWN",
        "NON-COMPLIANT",
        [
          [
            "foreign",
            "UNKNOWN",
            "NON-COMPLIANT",
            ["Policy 'new policy' requires provenance, but the artifact was not reported to any flow."],
          ],
          ["built", "UNKNOWN", "COMPLIANT", []],
        ],
      ],
      ["empty", false, 0, "UNKNOWN", "UNKNOWN", []],
    ],
  );
  const limited = await preview(at, { policy_yaml: REVIEW, policy_name: "live", environments: ["staging"] });
  assert.equal(
    limited.body.environments.map(({ environment, attached }: any) => [environment, attached]),
    [["staging", false]],
  );
});

test("a policy without environments changes nothing, and archived environments do not count", async () => {
  const { at, environment } = await story();
  await server.given.policy(at, { name: "unused", yaml: null });
  const unused = await preview(at, { policy_yaml: PROVENANCE, policy_name: "unused" });
  assert.equal(unused.body, { valid: true, problems: [], warnings: [], environments: [], stopped: null });
  await server.call("PUT", `/environments/${at.org}/${environment}/archive`, { key: at.key });
  const archived = await preview(at, { policy_yaml: REVIEW, policy_name: "live" });
  assert.equal(archived.body.environments, []);
  assert.is((await preview(at, { policy_yaml: REVIEW, environments: [environment] })).status, 404);
});

test("an artifact whose facts changed since its evaluation is marked, and evaluated on the present ones", async () => {
  const { at, flow, trail, built } = await story();
  const ask = async () => (await preview(at, { policy_yaml: REVIEW, policy_name: "live" })).body.environments[0];
  await server.given.attestation(at, { flow, trail, name: "review", fingerprint: built });
  const passing = await ask();
  assert.equal([passing.stale, passing.flips], [1, []]);
  await server.given.attestation(at, { flow, trail, name: "tests", fingerprint: built, is_compliant: false });
  const failing = await ask();
  assert.equal([failing.stale, failing.flips.map(({ name, stale }: any) => [name, stale])], [1, [["built", true]]]);
});

test("reasons show the present names of flows", async () => {
  const { at, flow } = await story();
  const reasonsOf = async (policy_yaml: string) => {
    const [shown] = (await preview(at, { policy_yaml, policy_name: "live" })).body.environments;
    return shown.flips.flatMap((flip: any) => [...flip.reasons_before, ...flip.reasons.map(({ text }: any) => text)]);
  };
  const renamed = await server.call("PUT", `/flows/${at.org}/${flow}/rename`, {
    key: at.key,
    body: { new_name: "frontend" },
  });
  assert.is(renamed.status, 200, renamed.text);
  assert.equal(await reasonsOf(REVIEW), [
    "Policy 'live' requires a compliant generic attestation named 'review', but none was reported in trail 't1' of " +
      "flow 'frontend'.",
  ]);
  await server.given.policy(at, { name: "live", yaml: REVIEW.slice(V1.length) });
  await server.settled();
  await server.call("PUT", `/flows/${at.org}/frontend/rename`, { key: at.key, body: { new_name: "web" } });
  assert.ok((await reasonsOf(NOTHING)).some((text: string) => text.endsWith("in trail 't1' of flow 'web'.")));
});

test("while a re-evaluation is due, the verdicts under the policies in force are compared", async () => {
  const { at, world, environment } = await story();
  await server.given.policy(at, { name: "late", yaml: REVIEW.slice(V1.length) });
  const id = world.idOf(at, environment);
  server.db
    .prepare(
      `INSERT INTO environment_policies (environment_id, policy_id, position)
       SELECT ?, id, 9 FROM policies WHERE name = 'late'`,
    )
    .run(id);
  const [shown] = (await preview(at, { policy_yaml: PROVENANCE, policy_name: "live" })).body.environments;
  assert.equal([shown.unchanged, shown.flips], [3, []]);
});

test("stored facts that are damaged do not count, as for the next snapshot", async () => {
  const { at, world, environment } = await story();
  const id = world.idOf(at, environment);
  const damage = server.db.prepare(
    `UPDATE evaluations SET facts_json = '{"flows":[{"flow":"backend"}]}', reasons_json = 'no JSON' WHERE id IN
       (SELECT evaluation_id FROM snapshot_artifacts WHERE environment_id = ?)`,
  );
  damage.run(id);
  const [shown] = (await preview(at, { policy_yaml: NOTHING, policy_name: "live" })).body.environments;
  assert.equal([shown.unknown, shown.unchanged, shown.would_pass, shown.after], [0, 2, 1, "COMPLIANT"]);
  assert.equal(
    shown.flips.map(({ name, reasons_before }: any) => [name, reasons_before]),
    [["foreign", []]],
  );
});

test("an artifact that is compared with a damaged verdict is unknown, never guessed", async () => {
  const { at, world, environment } = await story();
  server.db
    .prepare(
      `UPDATE evaluations SET verdicts_json = 'no JSON' WHERE id IN
         (SELECT evaluation_id FROM snapshot_artifacts WHERE environment_id = ? AND name = 'foreign')`,
    )
    .run(world.idOf(at, environment));
  const [shown] = (await preview(at, { policy_yaml: NOTHING, policy_name: "live" })).body.environments;
  assert.equal([shown.unknown, shown.unchanged, shown.would_pass, shown.after], [1, 2, 0, "UNKNOWN"]);
  assert.is(shown.unknown_artifacts[0].name, "foreign");
  assert.match(shown.unknown_artifacts[0].reason, /^It cannot be evaluated: /);
});

test("unknown names, logical environments and fields of another form are refused", async () => {
  const { at, environment, world } = await story();
  world.environment(at, { name: "all", type: "logical", members: [environment] });
  const before = rows();
  const refused = async (body: object): Promise<unknown[]> => {
    const answer = await preview(at, { policy_yaml: NOTHING, ...body });
    return [answer.status, answer.body.errors ?? answer.body.message];
  };
  assert.equal(await refused({ policy_name: "nobody" }), [
    404,
    `Policy 'nobody' does not exist in organization '${at.org}'`,
  ]);
  assert.equal(await refused({ environments: [environment, "moon"] }), [
    404,
    `Environment named 'moon' does not exist for organization '${at.org}'`,
  ]);
  assert.equal(await refused({ environments: ["all"] }), [
    400,
    `Environment 'all' in organization '${at.org}' is logical: name its members instead`,
  ]);
  assert.is((await refused({ environments: Array.from({ length: 101 }, () => environment) }))[0], 400);
  assert.is((await refused({ policy_yaml: "#".repeat(1_000_001) }))[0], 400);
  assert.is((await refused({ policy_yaml: "#".repeat(1_100_000) }))[0], 413);
  assert.is((await refused({ policy_yaml: 1 }))[0], 400);
  assert.is((await refused({ name: "live" }))[0], 400);
  assert.equal(rows(), before);
});

test("readers may preview, strangers may not", async () => {
  const { at } = await story();
  const ask = async (key: string): Promise<number> =>
    (await preview({ ...at, key }, { policy_yaml: NOTHING, policy_name: "live" })).status;
  assert.is(await ask(server.given.user(at.org, "reader")), 200);
  assert.is(await ask(server.given.user(at.org, "snapshotter")), 200);
  assert.is(await ask(server.given.user(at.org, null)), 403);
  assert.is(await ask("nobody"), 401);
});

test("a full disk does not refuse a preview, and no preview is audited", async () => {
  const { at } = await story();
  const before = rows();
  server.disk.free = 0;
  await server.diskGuard.check();
  try {
    const refused = await server.call("PUT", `/policies/${at.org}`, {
      key: at.key,
      form: { field: "payload", json: { name: "x" } },
    });
    assert.is(refused.status, 507);
    const answer = await preview(at, { policy_yaml: REVIEW, policy_name: "live" });
    assert.equal([answer.status, answer.body.environments[0].would_fail], [200, 1]);
    const path = `/flows/${at.org}/template_preview`;
    const checked = await server.call("POST", path, { key: at.key, body: { template_yaml: "version: 1" } });
    assert.equal(checked.body, { valid: true, problems: [], warnings: [] });
  } finally {
    server.disk.free = Infinity;
    await server.diskGuard.check();
  }
  assert.equal(rows(), before);
});

/** An organization with the flow `payments`, tagged `risk`, and the types `security-scan` and, archived, `old-scan`. */
async function namedOrganization(on = server): Promise<At> {
  const at = on.given.org();
  for (const name of ["security-scan", "old-scan"]) {
    const form = { json: { name } };
    const made = await on.call("POST", `/custom-attestation-types/${at.org}`, { key: at.key, form });
    assert.is(made.status, 201, made.text);
  }
  const path = `/custom-attestation-types/${at.org}/old-scan/archive`;
  assert.is((await on.call("PUT", path, { key: at.key })).status, 200);
  await on.given.flow(at, {
    name: "payments",
    template: "trail:\n  attestations: [{ name: unit-tests, type: junit }]\n",
  });
  await on.call("PATCH", `/tags/${at.org}/flow/payments`, { key: at.key, body: { set_tags: { risk: "7" } } });
  const trail = await on.given.trail(at, { flow: "payments" });
  await on.given.attestation(at, { flow: "payments", trail, kind: "generic", name: "licenses" });
  return at;
}

const NAMING_POLICY = `${V1}artifacts:
  provenance:
    required: true
    exceptions:
      - if: flow.name == "payment" or flow.name == "payments"
  attestations:
    - { type: custom:security-scan, if: flow.tags.risk > 3 }
    - { type: junit, name: unit-tests }
    - { type: generic, name: licenses }
    - { type: custom:securty-scan }
    - { type: custom:old-scan, name: any }
    - { type: custom:zzz }
    - { type: junit, name: unit-test }
    - { type: snyk, name: unit-tests }
    - { type: generic, if: flow.tags.rsk == "7" }
    - { type: generic, if: 'matches(flow.name, "^web")' }
`;
const CREATE = "create it, or correct the name";
const ADD = "add it to a template, or correct the name";

const policyWarnings = (org: string) => [
  {
    line: 6,
    column: 26,
    path: "artifacts.provenance.exceptions.0.if",
    message: `organization '${org}' has no flow 'payment'; did you mean payments?`,
  },
  {
    line: 11,
    column: 15,
    path: "artifacts.attestations.3.type",
    message: `organization '${org}' has no attestation type 'securty-scan'; did you mean security-scan?`,
  },
  {
    line: 12,
    column: 15,
    path: "artifacts.attestations.4.type",
    message:
      `the attestation type 'old-scan' of organization '${org}' is archived and takes no reports; ` +
      "upload it again to restore it",
  },
  {
    line: 13,
    column: 15,
    path: "artifacts.attestations.5.type",
    message: `organization '${org}' has no attestation type 'zzz'; ${CREATE}`,
  },
  {
    line: 14,
    column: 28,
    path: "artifacts.attestations.6.name",
    message:
      `no template of organization '${org}' expects an attestation 'unit-test' of type junit, and none was ` +
      "reported; did you mean unit-tests?",
  },
  {
    line: 15,
    column: 27,
    path: "artifacts.attestations.7.name",
    message:
      `no template of organization '${org}' expects an attestation 'unit-tests' of type snyk, and none was ` +
      `reported; ${ADD}`,
  },
  {
    line: 16,
    column: 28,
    path: "artifacts.attestations.8.if",
    message: `no flow of organization '${org}' has the tag 'rsk'; did you mean risk?`,
  },
  {
    line: 17,
    column: 29,
    path: "artifacts.attestations.9.if",
    message: `no flow of organization '${org}' has a name that matches; create one, or correct the expression`,
  },
];

test("names of a policy that the organization does not have are warnings, and the upload is accepted", async () => {
  const at = await namedOrganization();
  // Another organization has them.
  const other = server.given.org();
  const form = { json: { name: "zzz" } };
  await server.call("POST", `/custom-attestation-types/${other.org}`, { key: other.key, form });
  const before = rows();
  for (const policy_yaml of [NAMING_POLICY, `${NAMING_POLICY}${"# a comment\n".repeat(2_000)}`])
    assert.equal((await preview(at, { policy_yaml })).body, {
      valid: true,
      problems: [],
      warnings: policyWarnings(at.org),
      environments: [],
      stopped: null,
    });
  assert.equal(rows(), before);
  const zzz = { policy_yaml: `${V1}artifacts:\n  attestations: [{ type: custom:zzz }]\n` };
  assert.equal((await preview(other, zzz)).body.warnings, []);
  const stored = await server.call("PUT", `/policies/${at.org}`, {
    key: at.key,
    form: {
      field: "payload",
      json: { name: "named" },
      file: { name: "policy_file", filename: "policy.yml", content: NAMING_POLICY },
    },
  });
  assert.is(stored.status, 201, stored.text);
});

const previewTemplate = (at: At, template_yaml: string, on = server): Promise<Answer> =>
  on.call("POST", `/flows/${at.org}/template_preview`, { key: at.key, body: { template_yaml } });

const NAMING_TEMPLATE = `version: 1
trail:
  attestations:
    - { name: a, type: custom:security-scan }
    - { name: b, type: custom:securty-scan }
  artifacts:
    - name: image
      attestations:
        - { name: c, type: "custom:old-scan" }
        - { name: d, type: "\\x63ustom:zzz" }
`;
const templateWarnings = (org: string) => [
  {
    line: 5,
    column: 24,
    path: "trail.attestations.1.type",
    message: `organization '${org}' has no attestation type 'securty-scan'; did you mean security-scan?`,
  },
  {
    line: 9,
    column: 28,
    path: "trail.artifacts.0.attestations.0.type",
    message:
      `the attestation type 'old-scan' of organization '${org}' is archived and takes no reports; ` +
      "upload it again to restore it",
  },
  {
    line: 10,
    column: 28,
    path: "trail.artifacts.0.attestations.1.type",
    message: `organization '${org}' has no attestation type 'zzz'; ${CREATE}`,
  },
];

test("attestation types of a template that take no reports are warnings, and the upload is accepted", async () => {
  const at = await namedOrganization();
  for (const text of [NAMING_TEMPLATE, `${NAMING_TEMPLATE}${"# a comment\n".repeat(2_000)}`])
    assert.equal((await previewTemplate(at, text)).body, {
      valid: true,
      problems: [],
      warnings: templateWarnings(at.org),
    });
  const stored = await server.call("PUT", `/flows/${at.org}/template_file`, {
    key: at.key,
    form: {
      json: { name: "typed", description: "" },
      file: { name: "template_file", filename: "template.yml", content: NAMING_TEMPLATE },
    },
  });
  assert.is(stored.status, 201, stored.text);
});

test("a text with mistakes has no warnings", async () => {
  const at = await namedOrganization();
  const policy = (await preview(at, { policy_yaml: `${NAMING_POLICY}    - { type: junt }\n` })).body;
  assert.equal([policy.valid, policy.problems.length, policy.warnings], [false, 1, []]);
  const template = (await previewTemplate(at, `${NAMING_TEMPLATE}    - { nme: x }\n`)).body;
  assert.equal([template.valid, template.problems.length > 0, template.warnings], [false, true, []]);
});

test("warnings are at most a hundred, of bounded length, for names as long as a text may have", async () => {
  const at = server.given.org();
  const long = "x".repeat(200);
  const rules = Array.from({ length: 150 }, (_, index) => `    - { type: generic, name: ${long}${index} }\n`).join("");
  const { warnings } = (await preview(at, { policy_yaml: `${V1}artifacts:\n  attestations:\n${rules}` })).body;
  assert.is(warnings.length, 100);
  assert.equal([warnings[0].line, warnings[99].line], [4, 103]);
  for (const { message } of warnings as { message: string }[]) assert.ok(message.length < 300, message);
});

test("who may preview may read every name that warnings suggest", () => {
  const NAMES = ["flow:read", "trail:read", "attestation:read", "custom_type:read", "control:read"] as const;
  for (const role of [...ROLES, null])
    for (const isPublic of [true, false])
      for (const previewing of ["policy:read", "flow:read"] as const)
        if (allows(previewing, { role, isPublic }))
          for (const name of NAMES) assert.ok(allows(name, { role, isPublic }), `${role} ${name}`);
});

test("the thread gives the answer of the main thread, also for a large text", async () => {
  const directory = mkdtempSync(join(tmpdir(), "assay-preview-"));
  const { at } = await story();
  const image = server.image();
  const threaded = await startServer({ from: image, directory });
  try {
    for (const policy_yaml of [REVIEW, `${REVIEW}${"# a comment\n".repeat(2_000)}`]) {
      const body = { policy_yaml, policy_name: "live" };
      const expected = (await preview(at, body)).body;
      const answer = await threaded.call("POST", `/policies/${at.org}/preview`, { key: at.key, body });
      assert.equal(answer.body, expected);
      assert.is(answer.body.environments[0].flips[0].reasons[0].line, 6);
    }
    const named = await namedOrganization(threaded);
    const path = `/policies/${named.org}/preview`;
    const policy = await threaded.call("POST", path, { key: named.key, body: { policy_yaml: NAMING_POLICY } });
    assert.equal(policy.body.warnings, policyWarnings(named.org));
    assert.equal((await previewTemplate(named, NAMING_TEMPLATE, threaded)).body, {
      valid: true,
      problems: [],
      warnings: templateWarnings(named.org),
    });
  } finally {
    await threaded.stop();
    rmSync(directory, { recursive: true, force: true });
  }
});

test("a template is checked, with each mistake at its line", async () => {
  const at = server.given.org();
  const check = async (template_yaml: string) =>
    (await server.call("POST", `/flows/${at.org}/template_preview`, { key: at.key, body: { template_yaml } })).body;
  assert.equal(await check("version: 2\ntrail:\n  attestations:\n    - name: review\n      type: nothing\n"), {
    valid: false,
    problems: [
      { line: 1, column: 10, path: "version", message: "Input should be 1 [input: 2]" },
      {
        line: 5,
        column: 13,
        path: "trail.attestations.0.type",
        message: (await check("version: 1\ntrail:\n  attestations: [{ name: a, type: nothing }]")).problems[0].message,
      },
    ],
    warnings: [],
  });
  const broken = await check("version: [");
  assert.equal([broken.valid, broken.problems.length, broken.problems[0].path], [false, 1, ""]);
  assert.match(broken.problems[0].message, /^Not YAML: /);
});

test.run();
