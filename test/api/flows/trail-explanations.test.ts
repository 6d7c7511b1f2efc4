import { suite } from "uvu";
import * as assert from "uvu/assert";
import { startServer } from "../../given.ts";
import type { Answer, TestServer } from "../../given.ts";

const test = suite("api/flows/trail-explanations");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type At = { org: string; key: string };

const TEMPLATE = `# what a release needs
version: 1
trail:
  attestations:
    - { name: review, type: pull_request }
    - name: ticket
      type: jira
  artifacts:
    - name: backend
      attestations:
        - { name: tests, type: junit }
        - { name: scan, type: generic }
    - name: frontend
      attestations: [{ name: lint, type: "*" }]
`;

const explain = (at: At, flow: string, trail: string): Promise<Answer> =>
  server.call("GET", `/explanations/${at.org}/trails/${flow}/${trail}`, { key: at.key });

/** Entries as [name, state, unexpected, overridden, lines, kinds of remedies]. */
const show = (entries: any[]) =>
  entries.map(({ name, state, unexpected, overridden, lines, satisfied_by }) => [
    name,
    state,
    unexpected,
    overridden,
    lines && `${lines.from}-${lines.to}`,
    satisfied_by.map(({ kind }: any) => kind),
  ]);

test("shows the checklist of the template with what decided, the lines, and what would make it compliant", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at, { template: TEMPLATE });
  const sha1 = "c".repeat(40);
  const trail = await server.given.trail(at, {
    flow,
    git_commit_info: { sha1, message: "m", author: "a", branch: "main", timestamp: 1_690_000_000 },
  });
  const fingerprint = await server.given.artifact(at, { flow, trail, name: "backend" });
  const report = (name: string, fields: object) => server.given.attestation(at, { flow, trail, name, ...fields });
  const failed = await report("scan", { fingerprint, is_compliant: false });
  const odd = await report("odd", {});
  const before = await explain(at, flow, trail);
  assert.is(before.status, 200, before.text);
  const { template, causes, satisfied_by, attestations, artifacts, ...head } = before.body;
  assert.equal(
    { ...head, evaluated_at: typeof head.evaluated_at },
    {
      organization: at.org,
      flow,
      trail,
      html_url: `http://assay.test/${at.org}/flows/${flow}/trails/${trail}`,
      git_commit: sha1,
      state: "NON-COMPLIANT",
      is_compliant: false,
      reasons: causes.map(({ words }: any) => words),
      evaluated_at: "number",
      same: true,
      problems: [],
    },
  );
  const read = (await server.call("GET", `/trails/${at.org}/${flow}/${trail}`, { key: at.key })).body;
  assert.equal(template, { id: read.compliance_status.flow_template_id, own: false, content: TEMPLATE });
  assert.equal(show(attestations), [
    ["review", "MISSING", false, false, "5-5", ["report_attestation"]],
    ["ticket", "MISSING", false, false, "6-7", ["report_attestation"]],
    ["odd", "COMPLIANT", true, false, null, []],
  ]);
  assert.equal(
    artifacts.map(({ reference_name, state, unexpected, lines, ...one }: any) => [
      reference_name,
      state,
      unexpected,
      one.fingerprint,
      `${lines.from}-${lines.to}`,
      show(one.attestations),
    ]),
    [
      [
        "backend",
        "NON-COMPLIANT",
        false,
        fingerprint,
        "9-12",
        [
          ["tests", "MISSING", false, false, "11-11", ["report_attestation"]],
          ["scan", "NON-COMPLIANT", false, false, "12-12", ["fix_attestation", "override_attestation"]],
        ],
      ],
      [
        "frontend",
        "MISSING",
        false,
        null,
        "13-14",
        [["lint", "MISSING", false, false, "14-14", ["report_attestation"]]],
      ],
    ],
  );
  const scan = artifacts[0].attestations[1];
  assert.equal(
    { ...scan.attestation, created_at: 0 },
    {
      id: failed,
      name: "scan",
      is_compliant: false,
      type: "generic",
      overridden_type: null,
      control_version: null,
      description: null,
      reasons: scan.attestation.reasons,
      reported_by: read.created_by,
      created_at: 0,
      evidence_digest: null,
      evidence_filename: null,
    },
  );
  assert.is(attestations[2].attestation.id, odd);
  assert.equal(
    causes.map(({ kind, name, type, attestation_id, level }: any) => [kind, name, type, attestation_id, level]),
    [
      ["non_compliant_attestation", "scan", "generic", failed, "artifact"],
      ["missing_attestation", "review", "pull_request", null, "trail"],
      ["missing_attestation", "ticket", "jira", null, "trail"],
      ["missing_attestation", "tests", "junit", null, "artifact"],
      ["missing_artifact", "frontend", null, null, null],
    ],
  );
  assert.equal(
    satisfied_by.map((one: any) => [one.kind, one.name, one.fingerprint, one.words]),
    [
      [
        "fix_attestation",
        "scan",
        fingerprint,
        `Fix what the generic attestation 'scan' found, and report it again for the artifact in trail '${trail}' ` +
          `of flow '${flow}'`,
      ],
      [
        "override_attestation",
        "scan",
        fingerprint,
        `Or override the generic attestation 'scan' in trail '${trail}' of flow '${flow}', with a reason`,
      ],
      [
        "report_attestation",
        "review",
        null,
        `Report a compliant pull_request attestation 'review' in trail '${trail}' of flow '${flow}'`,
      ],
      [
        "report_attestation",
        "ticket",
        null,
        `Report a compliant jira attestation 'ticket' in trail '${trail}' of flow '${flow}'`,
      ],
      [
        "report_attestation",
        "tests",
        fingerprint,
        `Report a compliant junit attestation 'tests' for the artifact in trail '${trail}' of flow '${flow}'`,
      ],
      ["report_artifact", "frontend", null, `Report artifact 'frontend' in trail '${trail}' of flow '${flow}'`],
    ],
  );
});

test("an override decides in place of what it overrides, in both directions", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at, {
    template: "version: 1\ntrail:\n  attestations:\n    - {name: scan, type: generic}\n",
  });
  const trail = await server.given.trail(at, { flow });
  const original = await server.given.attestation(at, { flow, trail, name: "scan", is_compliant: false });
  const override = (new_compliance_status: boolean) =>
    server.given.attestation(at, {
      flow,
      trail,
      kind: "override",
      name: "scan",
      reason: "accepted",
      new_compliance_status,
      original_attestation_type: "generic",
    });
  const good = await override(true);
  const after = (await explain(at, flow, trail)).body;
  assert.equal(
    [after.state, after.causes, after.satisfied_by, show(after.attestations)],
    ["COMPLIANT", [], [], [["scan", "COMPLIANT", false, true, "4-4", []]]],
  );
  const [entry] = after.attestations;
  assert.equal(
    [entry.attestation.id, entry.attestation.is_compliant, entry.override.id, entry.override.overridden_type],
    [original, false, good, "generic"],
  );
  const bad = await override(false);
  const refused = (await explain(at, flow, trail)).body;
  assert.equal(
    [refused.state, refused.causes[0].kind, refused.causes[0].attestation_id, refused.reasons],
    [
      "NON-COMPLIANT",
      "non_compliant_attestation",
      bad,
      ["Attestation 'scan' of the trail was overridden as not compliant"],
    ],
  );
});

test("a template of the trail's own, without expectations, and one that is too long to locate at once", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const plain = await server.given.trail(at, { flow });
  const none = (await explain(at, flow, plain)).body;
  assert.equal(
    [none.state, none.template.own, none.attestations, none.artifacts, none.causes, none.git_commit],
    ["COMPLIANT", false, [], [], [], null],
  );
  const comments = "# a long comment about the template\n".repeat(400);
  const template = `version: 1\n${comments}trail:\n  attestations:\n    - {name: a, type: "*"}\n`;
  const trail = await server.given.trail(at, { flow, template });
  for (const _ of [1, 2]) {
    const { body } = await explain(at, flow, trail);
    assert.equal(
      [body.template.own, show(body.attestations)],
      [true, [["a", "MISSING", false, false, "404-404", ["report_attestation"]]]],
    );
    assert.is(body.satisfied_by[0].words, `Report a compliant attestation 'a' in trail '${trail}' of flow '${flow}'`);
  }
});

test("a stored verdict that differs or cannot be read is a problem", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at, { template: TEMPLATE });
  const trail = await server.given.trail(at, { flow });
  const intact = server.db.prepare<[string], any>("SELECT * FROM trails WHERE name = ?").get(trail);
  const damaged = async (column: string, value: string) => {
    const set = server.db.prepare(`UPDATE trails SET ${column} = ? WHERE id = ?`);
    set.run(value, intact.id);
    const { status, body } = await explain(at, flow, trail);
    set.run(intact[column], intact.id);
    return [status, body.same, body.problems];
  };
  assert.equal(await damaged("state", "COMPLIANT"), [
    200,
    false,
    ["the trail: is stored as COMPLIANT, but re-evaluates to INCOMPLETE"],
  ]);
  assert.equal(await damaged("reasons_json", "["), [
    200,
    false,
    ["the stored reasons cannot be read", "the trail: its stored reasons differ from a re-evaluation"],
  ]);
  assert.equal(await damaged("compliance_json", "7"), [
    200,
    false,
    ["the stored verdict cannot be read", "the trail: its stored compliance status differs from a re-evaluation"],
  ]);
  assert.equal(await damaged("git_commit_info_json", "7"), [200, false, ["the stored commit cannot be read"]]);
  assert.is((await explain(at, flow, trail)).body.same, true);
});

test("refuses an unknown flow and trail, and principals without the right to read trails", async () => {
  const at = server.given.org();
  const flow = await server.given.flow(at);
  const trail = await server.given.trail(at, { flow });
  const refused = async (...words: [string, string]) => {
    const { status, body } = await explain(at, ...words);
    return [status, body.message];
  };
  assert.equal(await refused("nowhere", trail), [
    404,
    (await server.call("GET", `/trails/${at.org}/nowhere/${trail}`, { key: at.key })).body.message,
  ]);
  assert.equal(await refused(flow, "nothing"), [
    404,
    `Trail with name 'nothing' does not exist for Organization '${at.org}' and Flow '${flow}'`,
  ]);
  const get = async (key: string | null) =>
    (await server.call("GET", `/explanations/${at.org}/trails/${flow}/${trail}`, { key })).status;
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

test.run();
