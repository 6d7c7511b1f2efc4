/** The preview of a change: what it predicts is what the change makes, its refusals, and that nothing is stored. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { ADMIN, ORG } from "../../../src/demo/acme/people.ts";
import { freshFingerprint, startServer } from "../../given.ts";
import type { TestServer } from "../../given.ts";
import { startStoryServer } from "../../story/server.ts";
import { REPORTER, running, runningIn } from "../environments/given.ts";

const test = suite("api/policies/change-preview");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type At = { org: string; key: string };

const PROVENANCE = "artifacts:\n  provenance:\n    required: true\n";
const TRAIL = "artifacts:\n  trail-compliance:\n    required: true\n";
const TESTS = "artifacts:\n  attestations:\n    - type: generic\n      name: tests\n";

const preview = async (at: At, body: object) => {
  const answer = await server.call("POST", `/previews/${at.org}`, { key: at.key, body });
  assert.is(answer.status, 200, answer.text);
  return answer.body;
};

const refused = async (at: At, body: unknown): Promise<unknown[]> => {
  const { status, body: answer } = await server.call("POST", `/previews/${at.org}`, { key: at.key, body });
  return [status, answer.errors ?? answer.message];
};

/** Row counts of every table. */
const rows = ({ db }: TestServer): Record<string, unknown> =>
  Object.fromEntries(
    db
      .prepare<[], string>("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
      .pluck()
      .all()
      .map((table) => [table, db.prepare(`SELECT count(*) FROM "${table}"`).pluck().get()]),
  );

/**
 * An environment without policies in which run: `built`, with a passing attestation `tests` and a failing one `scan`;
 * `foreign`, without provenance. The policies `provenance`, `trail` and `tests`.
 */
async function story() {
  const at = server.given.org();
  const world = runningIn(server);
  const flow = await server.given.flow(at, { name: "backend" });
  const trail = await server.given.trail(at, { flow, name: "t1" });
  const built = await server.given.artifact(at, { flow, trail, name: "built" });
  await server.given.attestation(at, { flow, trail, name: "tests", fingerprint: built });
  await server.given.attestation(at, { flow, trail, name: "scan", fingerprint: built, is_compliant: false });
  const foreign = freshFingerprint();
  for (const [name, yaml] of Object.entries({ provenance: PROVENANCE, trail: TRAIL, tests: TESTS }))
    await server.given.policy(at, { name, yaml });
  const environment = world.environment(at, { name: "production" });
  const artifacts = [running("built", built), running("foreign", foreign)];
  world.report(at, environment, artifacts);
  return { at, world, flow, trail, built, foreign, environment, artifacts };
}

test("attaching a policy: each artifact with its cause and line, failing ones first, and the environment", async () => {
  const { at, built, foreign, environment } = await story();
  const before = rows(server);
  const attach_policies = { environment, policy_names: ["provenance", "trail"] };
  const { trail, environments, stopped } = await preview(at, { attach_policies });
  assert.equal([trail, stopped, environments.length], [null, null, 1]);
  const [{ flips, ...counts }] = environments;
  assert.equal(counts, {
    environment,
    snapshot: 1,
    before: "UNKNOWN",
    after: "NON-COMPLIANT",
    artifacts: 2,
    unchanged: 0,
    would_fail: 2,
    would_pass: 0,
    would_be_unknown: 0,
    kept_by_allowlist: 0,
    unknown: 0,
    stale: 0,
    allowlisted: [],
    unknown_artifacts: [],
    not_listed: 0,
  });
  const [ofBuilt, ofForeign] = flips;
  assert.equal(
    [ofBuilt.name, ofBuilt.fingerprint, ofBuilt.before, ofBuilt.after],
    ["built", built, "UNKNOWN", "NON-COMPLIANT"],
  );
  assert.equal(
    ofBuilt.causes.map(({ attestation_id: _, ...cause }: { attestation_id: string }) => cause),
    [
      {
        policy: "trail",
        version: 1,
        line: 3,
        column: null,
        kind: "non_compliant_attestation",
        subject: "scan",
        text: "scan fails",
        words: "Attestation 'scan' of artifact 'built' is not compliant, and is not in the template",
        flow: "backend",
        trail: "t1",
        name: "scan",
        type: "generic",
        control: null,
        level: "artifact",
      },
    ],
  );
  assert.equal(
    ofForeign.causes.map(({ kind, policy, line }: Record<string, unknown>) => ({ kind, policy, line })),
    [{ kind: "no_provenance", policy: "provenance", line: 3 }],
  );
  assert.equal([ofForeign.fingerprint, ofForeign.reasons.length], [foreign, 2]);
  assert.equal(rows(server), before, "nothing is stored");
});

test("detaching the last policy leaves everything unknown, and detaching another one changes nothing", async () => {
  const { at, world, environment } = await story();
  world.attach(at, environment, "provenance");
  const detach = async (...policy_names: string[]) =>
    (await preview(at, { detach_policies: { environment, policy_names } })).environments[0];
  const last = await detach("provenance");
  assert.equal(
    [last.before, last.after, last.would_be_unknown, last.would_fail, last.would_pass],
    ["NON-COMPLIANT", "UNKNOWN", 2, 0, 0],
  );
  assert.equal(
    last.flips.map(({ name, after, reasons_before }: any) => [name, after, reasons_before.length]),
    [
      ["built", "UNKNOWN", 0],
      ["foreign", "UNKNOWN", 1],
    ],
  );
  const other = await detach("tests");
  assert.equal([other.unchanged, other.before, other.after, other.flips], [2, "NON-COMPLIANT", "NON-COMPLIANT", []]);
  const attached = await preview(at, { attach_policies: { environment, policy_names: ["provenance"] } });
  assert.equal(attached.environments[0].flips, [], "it is attached already");
});

test("an allowlist entry: the artifact would pass, and what still fails is said", async () => {
  const { at, world, environment, foreign } = await story();
  world.attach(at, environment, "provenance");
  const change = { environment, artifact_fingerprint: foreign };
  const [allowed] = (await preview(at, { allow_artifact: change })).environments;
  assert.equal([allowed.before, allowed.after, allowed.would_pass], ["NON-COMPLIANT", "COMPLIANT", 1]);
  assert.equal(
    allowed.flips.map(({ name, allowed: isAllowed, causes }: any) => [name, isAllowed, causes[0].kind]),
    [["foreign", true, "no_provenance"]],
  );
  world.allow(at, environment, foreign);
  const [disallowed] = (await preview(at, { disallow_artifact: change })).environments;
  assert.equal([disallowed.before, disallowed.after, disallowed.would_fail], ["COMPLIANT", "NON-COMPLIANT", 1]);
  const [elsewhere] = (await preview(at, { allow_artifact: { environment, artifact_fingerprint: freshFingerprint() } }))
    .environments;
  assert.equal([elsewhere.unchanged, elsewhere.flips], [2, []]);
});

test("an entry that has ended does not count, whether or not its end was recorded", async () => {
  const { at, world, environment, foreign } = await story();
  world.attach(at, environment, "provenance");
  await server.call("PUT", `/allowlists/${at.org}/${environment}`, {
    key: at.key,
    body: {
      artifact_fingerprint: foreign,
      artifact_name: "foreign",
      description: "for a while",
      expires_at: Math.floor(server.clock.at) + 60,
    },
  });
  const attach_policies = { environment, policy_names: ["trail"] };
  const during = (await preview(at, { attach_policies })).environments[0];
  assert.equal([during.before, during.would_fail, during.kept_by_allowlist], ["COMPLIANT", 1, 0]);
  server.clock.at += 61;
  const after = (await preview(at, { attach_policies })).environments[0];
  assert.equal([after.would_fail, after.stale], [2, 1]);
});

test("an override: the trail and the environments in which its artifacts run", async () => {
  const { at, world, environment, built } = await story();
  world.attach(at, environment, "trail");
  const left = world.environment(at);
  world.attach(at, left, "trail");
  world.report(at, left, [running("built", built)]);
  world.report(at, left, []);
  const override_attestation = {
    flow_name: "backend",
    trail_name: "t1",
    attestation_name: "scan",
    artifact_fingerprint: built,
    new_compliance_status: true,
    original_attestation_type: "generic",
  };
  const { trail, environments } = await preview(at, { override_attestation });
  assert.equal(trail, { flow: "backend", trail: "t1", before: "NON-COMPLIANT", after: "COMPLIANT" });
  assert.equal(
    environments.map(({ environment: name, would_pass, flips }: any) => [name, would_pass, flips[0].name]),
    [[environment, 1, "built"]],
  );
  const worse = await preview(at, {
    override_attestation: { ...override_attestation, attestation_name: "tests", new_compliance_status: false },
  });
  assert.equal([worse.trail.after, worse.environments[0].flips], ["NON-COMPLIANT", []]);
});

test("a tag that a policy reads, and the archiving of a flow whose name it reads", async () => {
  const { at, world, environment } = await story();
  const condition = 'flow.tags.tier == "batch" or flow.name != "backend"';
  await server.given.policy(at, {
    name: "batch",
    yaml: `artifacts:\n  trail-compliance:\n    required: true\n    exceptions:\n      - if: \${{ ${condition} }}\n`,
  });
  world.attach(at, environment, "batch");
  const flips = async (body: object) =>
    (await preview(at, body)).environments.map(({ would_pass, would_fail }: any) => [would_pass, would_fail]);
  assert.equal(await flips({ tag_flow: { flow_name: "backend", set_tags: { tier: "batch" } } }), [[1, 0]]);
  assert.equal(await flips({ tag_flow: { flow_name: "backend", remove_tags: ["tier"] } }), [[0, 0]]);
  assert.equal(await flips({ archive_flow: { flow_name: "backend" } }), [[1, 0]]);
  assert.equal(await flips({ rename_flow: { flow_name: "backend", new_name: "frontend" } }), [[1, 0]]);
  assert.equal(await flips({ rename_flow: { flow_name: "backend", new_name: "backend" } }), [[0, 0]]);
});

test("unknown names, logical environments, and no or several changes are refused", async () => {
  const { at, environment, built, world } = await story();
  world.environment(at, { name: "all", type: "logical", members: [environment] });
  const stranger = server.given.org();
  const before = rows(server);
  const policy_names = ["provenance"];
  assert.equal(await refused(at, { attach_policies: { environment: "moon", policy_names } }), [
    404,
    `Environment named 'moon' does not exist for organization '${at.org}'`,
  ]);
  assert.equal(await refused(at, { detach_policies: { environment: "all", policy_names } }), [
    400,
    `Environment 'all' in organization '${at.org}' is logical: name its members instead`,
  ]);
  assert.equal(await refused(at, { attach_policies: { environment, policy_names: ["nobody"] } }), [
    404,
    `Policy 'nobody' does not exist in organization '${at.org}'`,
  ]);
  assert.equal(await refused(at, { archive_flow: { flow_name: "nowhere" } }), [
    404,
    `Flow named 'nowhere' does not exist for organization '${at.org}'`,
  ]);
  const override = {
    flow_name: "backend",
    trail_name: "t1",
    attestation_name: "scan",
    artifact_fingerprint: built,
    new_compliance_status: true,
    original_attestation_type: "generic",
  };
  assert.equal(await refused(at, { override_attestation: { ...override, trail_name: "t2" } }), [
    404,
    `Trail with name 't2' does not exist for Organization '${at.org}' and Flow 'backend'`,
  ]);
  const foreign = freshFingerprint();
  assert.is((await refused(at, { override_attestation: { ...override, artifact_fingerprint: foreign } }))[0], 404);
  assert.equal(await refused(at, { override_attestation: { ...override, original_attestation_type: "junit" } }), [
    400,
    {
      original_attestation_type:
        "Input should be 'generic', the type of the attestation that is overridden [input: junit]",
    },
  ]);
  const [status, errors] = await refused(at, { tag_flow: { flow_name: "backend", set_tags: { "a b": "c" } } });
  assert.equal([status, Object.keys(errors as object)], [400, ["tag_flow.set_tags.a b"]]);
  for (const body of [{}, { archive_flow: { flow_name: "backend" }, tag_flow: { flow_name: "backend" } }, [], null])
    assert.is((await refused(at, body))[0], 400, JSON.stringify(body));
  assert.is((await refused(at, { attach_policies: { environment, policy_names: [] } }))[0], 400);
  const many = Array.from({ length: 101 }, () => "provenance");
  assert.is((await refused(at, { attach_policies: { environment, policy_names: many } }))[0], 400);
  assert.is((await refused(at, { allow_artifact: { environment, artifact_fingerprint: "abc" } }))[0], 400);
  assert.is((await refused({ ...at, key: stranger.key }, { archive_flow: { flow_name: "backend" } }))[0], 403);
  assert.equal(rows(server), before);
});

/**
 * Environments by verdict: `passing`, two that fail, `policyless`, which ran something under no policy, and `silent`,
 * to which nothing was reported. The logical environment `all` has the first two.
 */
async function members() {
  const { at, world, built, artifacts } = await story();
  const place = (name: string, runs: typeof artifacts | null, ...policies: string[]) => {
    world.environment(at, { name });
    if (policies.length > 0) world.attach(at, name, ...policies);
    if (runs) world.report(at, name, runs);
  };
  place("passing", [running("built", built)], "provenance");
  place("failing", artifacts, "provenance");
  place("worse", artifacts, "provenance", "trail");
  place("policyless", artifacts);
  place("silent", null);
  world.environment(at, { name: "all", type: "logical", members: ["passing", "failing"] });
  return { at, world };
}

/** The logical environments of a preview of members, the subjects of the causes for the causes. */
const previewMembers = async (at: At, body: object) => {
  const { trail, environments, logical_environments, stopped } = await preview(at, body);
  assert.equal([trail, environments, stopped], [null, [], null]);
  return logical_environments;
};

const member = (environment: string, verdict: string, snapshot = 1, causes: unknown[] = []) => ({
  environment,
  snapshot,
  verdict,
  causes,
  further_causes: 0,
});
const NO_FLOW = { subject: "No provenance", text: "No provenance: not reported to any flow" };
const FAILS = member("failing", "NON-COMPLIANT", 1, [NO_FLOW]);

test("members of a logical environment: the verdict before and after, and which members decide", async () => {
  const { at } = await members();
  const before = rows(server);
  const after = (...included_environments: string[]) =>
    previewMembers(at, { set_members: { environment: "all", included_environments } });
  const now = {
    environment: "all",
    before: "NON-COMPLIANT",
    deciding_before: [FAILS],
    further_deciding_before: 0,
    further_deciding: 0,
  };
  assert.equal(await after("passing"), [
    { ...now, after: "COMPLIANT", members: 1, deciding: [member("passing", "COMPLIANT")] },
  ]);
  assert.equal(await after("passing", "policyless", "silent"), [
    {
      ...now,
      after: "UNKNOWN",
      members: 3,
      deciding: [member("policyless", "UNKNOWN"), member("silent", "UNKNOWN", 0)],
    },
  ]);
  assert.equal(await after("silent", "failing", "passing", "failing"), [
    { ...now, after: "NON-COMPLIANT", members: 3, deciding: [FAILS] },
  ]);
  const [worse] = await after("worse");
  assert.equal(
    worse.deciding[0].causes.map(({ text }: { text: string }) => text),
    ["No provenance: not reported to any flow", "scan fails"],
  );
  assert.equal(await after(), [{ ...now, after: "UNKNOWN", members: 0, deciding: [] }], "no data is not compliant");
  assert.equal(rows(server), before, "nothing is stored");
});

test("archiving an environment: what becomes of each logical environment that includes it", async () => {
  const { at, world } = await members();
  world.environment(at, { name: "alone", type: "logical", members: ["failing"] });
  world.environment(at, { name: "gone", type: "logical", members: ["failing"] });
  world.environment(at, { name: "other", type: "logical", members: ["passing"] });
  await server.call("PUT", `/environments/${at.org}/gone/archive`, { key: at.key });
  const before = rows(server);
  const archived = (environment: string) => previewMembers(at, { archive_environment: { environment } });
  const now = {
    before: "NON-COMPLIANT",
    deciding_before: [FAILS],
    further_deciding_before: 0,
    further_deciding: 0,
  };
  assert.equal(await archived("failing"), [
    { environment: "all", ...now, after: "COMPLIANT", members: 1, deciding: [member("passing", "COMPLIANT")] },
    { environment: "alone", ...now, after: "UNKNOWN", members: 0, deciding: [] },
  ]);
  assert.equal(await archived("silent"), []);
  assert.equal(await archived("all"), [], "no logical environment includes another");
  assert.equal(rows(server), before, "nothing is stored");
});

test("a change in a member: what becomes of each logical environment that includes it", async () => {
  const { at, world } = await members();
  const alone = world.environment(at, { name: "alone", type: "logical", members: ["failing"] });
  const before = rows(server);
  const [foreign] = server.db
    .prepare<[string], { fingerprint: string }>(
      `SELECT sa.fingerprint FROM snapshot_artifacts sa JOIN environments env ON env.id = sa.environment_id
         JOIN organizations o ON o.id = env.organization_id
       WHERE o.name = ? AND env.name = 'failing' AND sa.compliant = 0`,
    )
    .all(at.org);
  const turnsOf = async (body: object) => {
    const { logical_environments, stopped } = await preview(at, body);
    assert.is(stopped, null);
    return logical_environments;
  };
  const none = { further_deciding_before: 0, further_deciding: 0 };
  const fails = member("failing", "NON-COMPLIANT");
  const change = { environment: "failing", policy_names: ["provenance"] };
  assert.equal(await turnsOf({ detach_policies: change }), [
    {
      environment: "all",
      before: "NON-COMPLIANT",
      after: "UNKNOWN",
      members: 2,
      deciding_before: [fails],
      deciding: [member("failing", "UNKNOWN")],
      ...none,
    },
    {
      environment: alone,
      before: "NON-COMPLIANT",
      after: "UNKNOWN",
      members: 1,
      deciding_before: [fails],
      deciding: [member("failing", "UNKNOWN")],
      ...none,
    },
  ]);
  const allow_artifact = { environment: "failing", artifact_fingerprint: foreign?.fingerprint };
  const [all] = await turnsOf({ allow_artifact });
  assert.equal(
    { before: all.before, after: all.after, deciding: all.deciding },
    {
      before: "NON-COMPLIANT",
      after: "COMPLIANT",
      deciding: [member("passing", "COMPLIANT"), member("failing", "COMPLIANT")],
    },
  );
  // The other member fails already, with its stored causes.
  const [same, ...others] = await turnsOf({ attach_policies: { environment: "passing", policy_names: ["trail"] } });
  assert.equal(
    { before: same.before, after: same.after, deciding_before: same.deciding_before, deciding: same.deciding, others },
    {
      before: "NON-COMPLIANT",
      after: "NON-COMPLIANT",
      deciding_before: [FAILS],
      deciding: [member("passing", "NON-COMPLIANT"), FAILS],
      others: [],
    },
  );
  assert.equal(await turnsOf({ attach_policies: { environment: "silent", policy_names: ["trail"] } }), []);
  assert.equal(rows(server), before, "nothing is stored");
});

test("members that decide are listed up to 20 of each side, and logical environments up to 100", async () => {
  const { at, world } = await members();
  const silent = Array.from({ length: 22 }, (_, index) => world.environment(at, { name: `silent-${index + 10}` }));
  const [{ deciding, further_deciding, ...shown }] = await previewMembers(at, {
    set_members: { environment: "all", included_environments: silent },
  });
  assert.equal(
    deciding.map(({ environment }: { environment: string }) => environment),
    silent.slice(0, 20),
  );
  assert.equal([further_deciding, shown.after, shown.members], [2, "UNKNOWN", 22]);
  for (let index = 0; index < 101; index++)
    world.environment(at, { name: `group-${1000 + index}`, type: "logical", members: ["silent"] });
  const many = await preview(at, { archive_environment: { environment: "silent" } });
  assert.is(many.logical_environments.length, 100);
  assert.equal(many.stopped, { reason: "environments", environments_left: 1, artifacts_left: 0 });
});

test("members that a change could not have, and callers who may not make it, are refused", async () => {
  const { at, world } = await members();
  world.environment(at, { name: "nested", type: "logical" });
  world.environment(at, { name: "old" });
  await server.call("PUT", `/environments/${at.org}/old/archive`, { key: at.key });
  const others = (["reader", "snapshotter"] as const).map((role) => server.given.user(at.org, role));
  const before = rows(server);
  const set = (environment: string, ...included_environments: string[]) =>
    refused(at, { set_members: { environment, included_environments } });
  const missing = (name: string) => `Environment named '${name}' does not exist for organization '${at.org}'`;
  const gone = `Environment named 'old' has been archived for organization '${at.org}'`;
  const field = "set_members.included_environments";
  assert.equal(await set("moon", "passing"), [404, missing("moon")]);
  assert.equal(await set("passing", "failing"), [
    400,
    `Environment 'passing' in organization '${at.org}' is not logical: it is of type 'docker' and includes no other ` +
      "environments",
  ]);
  assert.equal(await set("all", "nested"), [
    400,
    { [field]: "Environment 'nested' is logical: only physical environments can be included [input: nested]" },
  ]);
  assert.equal(await set("all", "passing", "old", "moon"), [
    400,
    { [field]: `${gone} [input: old]; ${missing("moon")} [input: moon]` },
  ]);
  assert.is((await set("all", ...Array.from({ length: 10_001 }, () => "passing")))[0], 400);
  assert.equal(await refused(at, { archive_environment: { environment: "old" } }), [404, gone]);
  const change = { set_members: { environment: "all", included_environments: ["passing"] } };
  for (const key of others) {
    const caller = { ...at, key };
    assert.is((await refused(caller, change))[0], 403);
    assert.is((await refused(caller, { archive_environment: { environment: "moon" } }))[0], 403);
    const [all] = (await preview(caller, { archive_flow: { flow_name: "backend" } })).logical_environments;
    assert.equal([all.environment, all.after], ["all", "NON-COMPLIANT"], "what a reader may see");
  }
  assert.equal(rows(server), before);
});

test("over all lists of members: the verdict that a preview predicts is the one that the change makes", async () => {
  const { at } = await members();
  const names = ["passing", "failing", "worse", "policyless", "silent"];
  const word = (state: boolean | null) => (state === null ? "UNKNOWN" : state ? "COMPLIANT" : "NON-COMPLIANT");
  const read = async (name = "all") =>
    (await server.call("GET", `/environments/${at.org}/${name}`, { key: at.key })).body;
  const turned = new Set<string>();
  const put = async (path: string, method: string, body?: object) =>
    assert.is((await server.call(method, `/environments/${at.org}/${path}`, { key: at.key, body })).status, 200);
  for (let bits = 0; bits < 2 ** names.length; bits++) {
    const included_environments = names.filter((_, index) => bits & (1 << index));
    const [shown] = await previewMembers(at, { set_members: { environment: "all", included_environments } });
    assert.is(shown.before, word((await read()).state));
    await put("all", "PATCH", { included_environments });
    const now = await read();
    assert.equal([now.included_environments.length, word(now.state)], [shown.members, shown.after]);
    turned.add(`${shown.before} ${shown.after}`);
  }
  for (const environment of names) {
    const [shown] = await previewMembers(at, { archive_environment: { environment } });
    assert.is(shown.before, word((await read()).state));
    await put(`${environment}/archive`, "PUT");
    assert.is(word((await read()).state), shown.after, environment);
    turned.add(`${shown.before} ${shown.after}`);
  }
  assert.is(turned.size, 6, [...turned].join());
});

type Verdicts = Map<string, number | null>;

test("over the story: what a preview predicts is what the change makes", async () => {
  const told = await startStoryServer();
  try {
    const { store, db, call, clock, settled } = told.server;
    const key = told.story.keys.get(ADMIN) ?? "";
    const organizationId = (store.organizations.find(ORG) as { id: number }).id;
    const places = db
      .prepare<[number], { id: number; name: string }>(
        `SELECT id, name FROM environments WHERE organization_id = ? AND archived_at IS NULL AND type <> 'logical'
           AND snapshot_count > 0 ORDER BY name`,
      )
      .all(organizationId);
    const verdictsOf = db.prepare<[number], { name: string; fingerprint: string; compliant: number | null }>(
      `SELECT name, fingerprint, compliant FROM snapshot_artifacts
       WHERE environment_id = ? AND last_index = 9007199254740991`,
    );
    const read = (id: number): Verdicts =>
      new Map(verdictsOf.all(id).map(({ name, fingerprint, compliant }) => [`${fingerprint} ${name}`, compliant]));
    const send = async (method: string, path: string, body: object) => {
      const answer = await call(method, path, { key, body });
      assert.ok(answer.status < 300, `${method} ${path}: ${answer.text}`);
      return answer.body;
    };
    /** Each environment reports again what runs in it. */
    function reportAll(): void {
      for (const { id } of places)
        store.snapshotRecorder.record(store.environments.get(id), {
          cause: "report",
          artifacts: null,
          actor: REPORTER,
        });
    }
    /** Flips by the kind of change. */
    const flips: Record<string, number> = {};
    const counts = { changes: 0, turned: 0, groups: 0 };
    // The logical environment of the story fails by several members: one of each place turns with it.
    for (const { name } of places)
      await send("PUT", `/environments/${ORG}`, {
        name: `only-${name}`,
        type: "logical",
        included_environments: [name],
        description: "",
      });
    const groups = ["production", ...places.map(({ name }) => `only-${name}`)];
    const stateOf = async (name: string): Promise<boolean | null> =>
      (await call("GET", `/environments/${ORG}/${name}`, { key })).body.state;
    const readGroups = async () =>
      new Map(await Promise.all(groups.map(async (name) => [name, await stateOf(name)] as const)));
    const verdict = { COMPLIANT: true, "NON-COMPLIANT": false, UNKNOWN: null } as const;
    const number = { COMPLIANT: 1, "NON-COMPLIANT": 0, UNKNOWN: null } as const;

    async function compare(body: Record<string, object>, make: () => Promise<unknown>): Promise<void> {
      const what = JSON.stringify(body);
      const before = new Map(places.map(({ id, name }) => [name, read(id)]));
      const groupsBefore = await readGroups();
      const { environments, logical_environments, stopped } = await send("POST", `/previews/${ORG}`, body);
      assert.is(stopped, null);
      await make();
      await settled();
      reportAll();
      for (const { id, name } of places) {
        const shown = environments.find(({ environment }: any) => environment === name);
        const predicted = new Map(before.get(name));
        for (const { fingerprint, name: artifact, after } of shown?.flips ?? [])
          predicted.set(`${fingerprint} ${artifact}`, number[after as keyof typeof number]);
        assert.equal([...read(id)].sort(), [...predicted].sort(), `${what} in ${name}`);
        if (!shown) continue;
        assert.is(store.environments.get(id).state, number[shown.after as keyof typeof number], `${what}: ${name}`);
        const kind = Object.keys(body).join();
        flips[kind] = (flips[kind] ?? 0) + shown.flips.length;
        counts.turned += shown.before === shown.after ? 0 : 1;
      }
      for (const [name, now] of await readGroups()) {
        const shown = logical_environments.find(({ environment }: any) => environment === name);
        const was = groupsBefore.get(name);
        if (shown) assert.is(verdict[shown.before as keyof typeof verdict], was, `${what}: ${name} before`);
        const after = shown ? verdict[shown.after as keyof typeof verdict] : was;
        assert.is(now, after, `${what}: ${name} after`);
        counts.groups += after === was ? 0 : 1;
      }
      counts.changes += 1;
    }

    reportAll();
    const policies = store.policies.list(organizationId).map(({ name }) => name);
    for (const { id, name } of places) {
      const attached = new Set(store.environments.listPolicies(id).map((policy) => policy.name));
      for (const policy of policies) {
        const change = { environment: name, policy_names: [policy] };
        const path = `/environments/${ORG}/${name}/policies`;
        const attach = () => compare({ attach_policies: change }, () => send("POST", path, { policy_names: [policy] }));
        const detach = () =>
          compare({ detach_policies: change }, () => send("DELETE", path, { policy_names: [policy] }));
        for (const step of attached.has(policy) ? [detach, attach] : [attach, detach]) await step();
      }
    }
    for (const { id, name } of places) {
      const failing = [...read(id)].filter(([, compliant]) => compliant === 0).slice(0, 4);
      for (const [identity] of failing) {
        const [fingerprint = "", artifact = ""] = identity.split(" ");
        if (fingerprint === "") continue;
        const entry = { artifact_fingerprint: fingerprint, artifact_name: artifact, description: "for now" };
        const change = { environment: name, artifact_fingerprint: fingerprint };
        const allow = (more: object) => send("PUT", `/allowlists/${ORG}/${name}`, { ...entry, ...more });
        await compare({ allow_artifact: change }, () => allow({}));
        await allow({ expires_at: Math.floor(clock.at) + 60 });
        await compare({ disallow_artifact: change }, async () => void (clock.at += 120));
      }
    }
    const records = db
      .prepare<
        [number],
        { flow: string; trail: string; name: string; type: string; compliant: 0 | 1; print: string | null }
      >(
        `SELECT DISTINCT f.name AS flow, t.name AS trail, att.name, att.type, att.is_compliant AS compliant,
           att.artifact_fingerprint AS print
         FROM snapshot_artifacts sa
           JOIN artifacts a ON a.organization_id = sa.organization_id AND a.fingerprint = sa.fingerprint
           JOIN trails t ON t.id = a.trail_id JOIN flows f ON f.id = t.flow_id
           JOIN attestations att ON att.trail_id = t.id AND att.overridden_type IS NULL
         WHERE sa.organization_id = ? AND sa.last_index = 9007199254740991 AND f.archived_at IS NULL
         ORDER BY att.id LIMIT 60`,
      )
      .all(organizationId);
    for (const { flow, trail, name, type, compliant, print } of records) {
      const override = {
        attestation_name: name,
        new_compliance_status: compliant === 0,
        original_attestation_type: type.replace("system:", ""),
        ...(print === null ? {} : { artifact_fingerprint: print }),
      };
      await compare({ override_attestation: { flow_name: flow, trail_name: trail, ...override } }, () =>
        send("POST", `/attestations/${ORG}/${flow}/trail/${trail}/override`, { ...override, reason: "to see" }),
      );
    }
    const flows = db
      .prepare<[number], string>("SELECT name FROM flows WHERE organization_id = ? AND archived_at IS NULL")
      .pluck()
      .all(organizationId);
    for (const flow_name of flows) {
      for (const set_tags of [{ tier: "batch" }, { tier: "other", pci: "true" }, { pci: "false" }])
        await compare({ tag_flow: { flow_name, set_tags } }, () =>
          send("PATCH", `/tags/${ORG}/flow/${flow_name}`, { set_tags }),
        );
      const [there, back] = [{ new_name: `${flow_name}-2` }, { new_name: flow_name }];
      await compare({ rename_flow: { flow_name, ...there } }, () =>
        send("PUT", `/flows/${ORG}/${flow_name}/rename`, there),
      );
      await compare({ rename_flow: { flow_name: there.new_name, ...back } }, () =>
        send("PUT", `/flows/${ORG}/${there.new_name}/rename`, back),
      );
      await compare({ archive_flow: { flow_name } }, () => send("PUT", `/flows/${ORG}/${flow_name}/archive`, {}));
    }
    assert.ok(counts.changes > 100 && counts.turned > 10 && counts.groups > 10, JSON.stringify(counts));
    // No policy of the story reads the name of a flow.
    const { archive_flow: _, rename_flow: __, ...others } = flips;
    assert.equal(Object.keys(others).length, 6);
    for (const count of Object.values(others)) assert.ok(count > 0, JSON.stringify(flips));
  } finally {
    await told.server.stop();
  }
});

test.run();
