/**
 * The binding of reports (semantics 3.2) in every order of arrival; the history of the trail;
 * refusals.
 */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { fresh, freshCommit, freshFingerprint, startServer } from "../../given.ts";
import type { Answer, TestServer } from "../../given.ts";

const test = suite("api/attestations/binding");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type Place = { org: string; key: string; flow: string; trail: string };
type Json = Record<string, unknown>;
const TEMPLATE =
  "version: 1\ntrail:\n  artifacts:\n    - name: app\n      attestations:\n        - {name: scan, type: generic}\n";
const TABLES = [
  "trails",
  "trail_events",
  "attestations",
  "current_attestations",
  "pending_bindings",
  "attestation_bindings",
  "repos",
  "audit_log",
];

async function place(template?: string): Promise<Place> {
  const at = server.given.org();
  return {
    ...at,
    flow: await server.given.flow(at, template === undefined ? {} : { template }),
    trail: fresh("trail"),
  };
}
const post = (at: Place, json: Json, path = `${at.flow}/trail/${at.trail}`): Promise<Answer> =>
  server.call("POST", `/attestations/${at.org}/${path}/generic`, {
    key: at.key,
    form: { json: { attestation_name: "scan", is_compliant: true, ...json } },
  });
const attest = (at: Place, fields: Json = {}): Promise<string> =>
  server.given.attestation(at, { name: "scan", ...at, ...fields, key: undefined, org: undefined });
const artifact = (at: Place, fields: { name?: string; commit?: string; fingerprint?: string }): Promise<string> =>
  server.given.artifact(at, { flow: at.flow, trail: at.trail, ...fields });
const trailOf = async (at: Place) =>
  (await server.call("GET", `/trails/${at.org}/${at.flow}/${at.trail}`, { key: at.key })).body;
/** Ids of an artifact's attestations with a name, newest first. */
const held = async (at: Place, fingerprint: string, name = "scan"): Promise<string[]> => {
  const { body } = await server.call("GET", `/attestations/${at.org}/${at.flow}/artifact/${fingerprint}/${name}`, {
    key: at.key,
  });
  return body.map((record: { attestation_id: string }) => record.attestation_id);
};
const count = (table: string): number => server.db.prepare(`SELECT count(*) FROM ${table}`).pluck().get() as number;

async function refuses(call: () => Promise<Answer>, status: number, body: unknown): Promise<void> {
  const before = TABLES.map(count);
  const answer = await call();
  assert.equal(answer.body, body);
  assert.is(answer.status, status);
  assert.equal(TABLES.map(count), before, "a refusal leaves nothing");
}
const PLACE_KEYS = ["timestamp", "org_id", "flow_id", "trail_id"];
const lastEvent = async (at: Place): Promise<Json> => {
  const event = (await trailOf(at)).events.at(-1);
  return Object.fromEntries(Object.entries(event).filter(([key]) => !PLACE_KEYS.includes(key)));
};
const shown = (sha1: string) => ({
  sha1,
  message: "",
  author: "",
  branch: "",
  timestamp: 0,
});

test("binds to the trail without fingerprint and target, also with a commit or an empty list of targets", async () => {
  const at = await place(TEMPLATE);
  const commit = freshCommit();
  const fingerprint = await artifact(at, { name: "app", commit });
  const id = await attest(at, { commit, target_artifacts: [], name: "review" });
  assert.equal(await lastEvent(at), {
    type: "trail_attestation_reported",
    attestation_type: "generic",
    attestation_id: id,
    is_compliant: true,
    template_reference_name: "review",
    is_reattestation: null,
    git_commit_info: shown(commit),
    repo_info: null,
  });
  assert.equal(await held(at, fingerprint, "review"), []);
  assert.equal((await trailOf(at)).compliance_status.attestations_statuses, [
    {
      attestation_name: "review",
      attestation_type: "generic",
      attestation_id: id,
      overridden_attestation_id: null,
      status: "COMPLETE",
      is_compliant: true,
      unexpected: true,
    },
  ]);
});

test("binds by fingerprint to that artifact under all its names, whatever target and commit say", async () => {
  const at = await place(TEMPLATE);
  const commit = freshCommit();
  const fingerprint = await artifact(at, { name: "app", commit });
  await artifact(at, { name: "copy", commit, fingerprint });
  const other = await artifact(at, { name: "db", commit });
  const id = await attest(at, { fingerprint, target: "db", commit: freshCommit() });
  assert.equal(await held(at, fingerprint), [id]);
  assert.equal(await held(at, other), []);
  const { body } = await server.call("GET", `/artifacts/${at.org}/${at.flow}/fingerprint/${fingerprint}`, {
    key: at.key,
  });
  const event = await lastEvent(at);
  assert.match(event["artifact_id"] as string, /^[a-f0-9-]{32}$/);
  assert.equal(
    { ...event, artifact_id: "", git_commit_info: null },
    {
      type: "artifact_attestation_reported",
      attestation_type: "generic",
      attestation_id: id,
      is_compliant: true,
      template_reference_name: "scan",
      target_artifact: "db",
      artifact_fingerprint: fingerprint,
      artifact_id: "",
      artifact_name: "app",
      is_reattestation: null,
      git_commit_info: null,
      repo_info: null,
    },
  );
  assert.equal(Object.keys(body.evidence), ["scan"]);
  const { app, copy, db } = (await trailOf(at)).compliance_status.artifacts_statuses;
  assert.equal(
    {
      "app.status": app.status,
      "copy.status": copy.status,
      "db.status": db.status,
      "attestations_statuses[0].attestation_id": copy.attestations_statuses[0].attestation_id,
    },
    {
      "app.status": "COMPLIANT",
      "copy.status": "COMPLIANT",
      "db.status": "COMPLIANT",
      "attestations_statuses[0].attestation_id": id,
    },
  );
});

test("the event of a fingerprint names the artifact's reference name as target, none without one", async () => {
  const at = await place();
  await attest(at, { fingerprint: await artifact(at, { name: "app" }) });
  assert.is((await lastEvent(at))["target_artifact"], "app");
  const nameless = await server.given.artifact(at, { flow: at.flow, trail: at.trail, filename: "bin/tool" });
  await attest(at, { fingerprint: nameless });
  const event = await lastEvent(at);
  assert.not("target_artifact" in event);
  assert.is(event["artifact_name"], "bin/tool");
});

test("a report of the fingerprint under another name receives the attestations of the fingerprint", async () => {
  const at = await place();
  const fingerprint = await artifact(at, { name: "app" });
  const id = await attest(at, { fingerprint });
  await artifact(at, { name: "copy", fingerprint });
  const { app, copy } = (await trailOf(at)).compliance_status.artifacts_statuses;
  assert.equal(
    {
      "app.attestations_statuses[0].attestation_id": app.attestations_statuses[0].attestation_id,
      "copy.attestations_statuses[0].attestation_id": copy.attestations_statuses[0].attestation_id,
    },
    { "app.attestations_statuses[0].attestation_id": id, "copy.attestations_statuses[0].attestation_id": id },
  );
  assert.is.not(app.artifact_id, copy.artifact_id);
});

test("waits for an artifact of its name and commit, and binds to every one (rules 1, 3, 4)", async () => {
  const at = await place(TEMPLATE);
  const commit = freshCommit();
  const id = await attest(at, { target: "app", commit });
  assert.equal(await lastEvent(at), {
    type: "trail_attestation_for_artifact_reported",
    attestation_type: "generic",
    attestation_id: id,
    is_compliant: true,
    template_reference_name: "scan",
    target_artifact: "app",
    is_reattestation: null,
    git_commit_info: shown(commit),
    repo_info: null,
  });
  const waiting = await trailOf(at);
  assert.equal(
    {
      compliance_state: waiting.compliance_state,
      attestations_statuses: waiting.compliance_status.attestations_statuses,
    },
    { compliance_state: "INCOMPLETE", attestations_statuses: [] },
  );

  const first = await artifact(at, { name: "app", commit });
  assert.equal(await held(at, first), [id]);
  assert.is((await trailOf(at)).compliance_state, "COMPLIANT");
  const second = await artifact(at, { name: "app", commit });
  const otherName = await artifact(at, { name: "db", commit });
  const otherCommit = await artifact(at, { name: "app" });
  assert.equal(
    {
      "same name and commit": await held(at, second),
      "other name": await held(at, otherName),
      "other commit": await held(at, otherCommit),
    },
    { "same name and commit": [id], "other name": [], "other commit": [] },
  );
  // The trail shows the latest artifact of the name, which lacks the attestation: a rebuild has to be attested again.
  assert.is((await trailOf(at)).compliance_state, "INCOMPLETE");
});

test("binds to all artifacts of its name and commit, also to later ones", async () => {
  const at = await place();
  const commit = freshCommit();
  const [first, second, otherCommit] = [
    await artifact(at, { name: "app", commit }),
    await artifact(at, { name: "app", commit }),
    await artifact(at, { name: "app" }),
  ];
  const id = await attest(at, { target: "app", commit });
  const later = await artifact(at, { name: "app", commit });
  assert.equal(await Promise.all([first, second, otherCommit, later].map((fingerprint) => held(at, fingerprint))), [
    [id],
    [id],
    [],
    [id],
  ]);
  const event = (await trailOf(at)).events.at(-2);
  assert.equal(
    [event.type, event.target_artifact, event.artifact_name, "artifact_fingerprint" in event],
    ["trail_attestation_for_artifact_reported", "app", "app", false],
  );
});

test("the latest attestation of each name counts, whatever the order of artifact and attestations", async () => {
  const commit = freshCommit();
  const states: unknown[] = [];
  for (const order of ["before", "after", "between"]) {
    const at = await place(TEMPLATE);
    const report = () => artifact(at, { name: "app", commit });
    if (order === "before") await report();
    await attest(at, { target: "app", commit, is_compliant: false });
    if (order === "between") await report();
    const id = await attest(at, { target: "app", commit });
    if (order === "after") await report();
    const { status, attestations_statuses } = (await trailOf(at)).compliance_status.artifacts_statuses.app;
    states.push([status, attestations_statuses.length, attestations_statuses[0].attestation_id === id]);
  }
  assert.equal(states, Array(3).fill(["COMPLIANT", 1, true]));
});

test("accepts a report with another commit without binding it (rule 2)", async () => {
  const at = await place(TEMPLATE);
  const fingerprint = await artifact(at, { name: "app" });
  assert.is((await post(at, { target_artifacts: ["app"], git_commit_info: { sha1: "not a commit" } })).status, 201);
  assert.is(
    (await post(at, { target_artifacts: ["app"], git_commit_info: { sha1: freshCommit() }, is_compliant: false }))
      .status,
    201,
  );
  assert.equal(await held(at, fingerprint), []);
  const trail = await trailOf(at);
  assert.equal(
    { compliance_state: trail.compliance_state, "events.length": trail.events.length },
    { compliance_state: "INCOMPLETE", "events.length": 4 },
  );
});

test("binds without a commit to the latest artifact of its name, and to no later one (semantics 13.45)", async () => {
  const at = await place();
  const [older, latest] = [await artifact(at, { name: "app" }), await artifact(at, { name: "app" })];
  const id = await attest(at, { target: "app" });
  const event = await lastEvent(at);
  assert.equal(
    { type: event["type"], target_artifact: event["target_artifact"], git_commit_info: event["git_commit_info"] },
    { type: "trail_attestation_for_artifact_reported", target_artifact: "app", git_commit_info: null },
  );
  const later = await artifact(at, { name: "app" });
  assert.equal(
    {
      older: await held(at, older),
      latest: await held(at, latest),
      later: await held(at, later),
    },
    { older: [], latest: [id], later: [] },
  );
});

test("binds to every one of several targets, existing or later", async () => {
  const at = await place();
  const commit = freshCommit();
  const app = await artifact(at, { name: "app", commit });
  const id = await attest(at, { target_artifacts: ["app", "db", "app"], commit });
  const db = await artifact(at, { name: "db", commit });
  assert.equal(
    { "held(at, app)": await held(at, app), "held(at, db)": await held(at, db) },
    { "held(at, app)": [id], "held(at, db)": [id] },
  );
});

test("a rebuild under the same name starts without its predecessor's attestations, and repairs the trail", async () => {
  const at = await place(TEMPLATE);
  const bad = await artifact(at, { name: "app" });
  await attest(at, { fingerprint: bad, is_compliant: false });
  assert.is((await trailOf(at)).compliance_state, "NON-COMPLIANT");
  const good = await artifact(at, { name: "app" });
  assert.is((await trailOf(at)).compliance_state, "INCOMPLETE");
  await attest(at, { fingerprint: good });
  assert.is((await trailOf(at)).compliance_state, "COMPLIANT");
  assert.is((await lastEvent(at))["is_reattestation"], null);
  assert.is((await held(at, bad)).length, 1);
});

test("keeps every report of a name, counts the latest, and marks the event as a repeat", async () => {
  const at = await place("version: 1\ntrail:\n  attestations:\n    - {name: scan, type: generic}\n");
  const ids: string[] = [];
  for (const is_compliant of [true, false, true]) {
    ids.push(await attest(at, { is_compliant }));
    assert.is((await trailOf(at)).compliance_state, is_compliant ? "COMPLIANT" : "NON-COMPLIANT");
  }
  const { body } = await server.call("GET", `/attestations/${at.org}/${at.flow}/trail/${at.trail}/scan`, {
    key: at.key,
  });
  assert.equal(
    body.map((record: Json) => [record["attestation_id"], record["is_compliant"]]),
    [
      [ids[2], true],
      [ids[1], false],
      [ids[0], true],
    ],
  );
  const events = (await trailOf(at)).events.slice(1);
  assert.equal(
    events.map((event: Json) => event["is_reattestation"]),
    [null, true, true],
  );
  assert.equal(
    (await trailOf(at)).compliance_status.attestations_statuses.map((entry: Json) => entry["attestation_id"]),
    [ids[2]],
  );
});

test("a repeat is per target: on the trail, on the artifact, or waiting with the same name and commit", async () => {
  const at = await place();
  const [commit, other] = [freshCommit(), freshCommit()];
  await attest(at);
  await attest(at, { target: "app", commit });
  await attest(at, { target: "app", commit: other });
  await attest(at, { target: "db", commit });
  await attest(at, { target: "app", commit });
  const fingerprint = await artifact(at, { name: "app", commit });
  await attest(at, { fingerprint });
  await attest(at, { fingerprint, name: "other" });
  const flags = (await trailOf(at)).events
    .filter(({ type }: Json) => type !== "artifact_creation_reported")
    .slice(1)
    .map((event: Json) => event["is_reattestation"]);
  assert.equal(flags, [null, null, null, null, true, true, null]);
});

test("a report of another type leaves the slot missing and is listed as unexpected", async () => {
  const at = await place(TEMPLATE);
  const fingerprint = await artifact(at, { name: "app" });
  const id = await attest(at, {
    fingerprint,
    kind: "jira",
    jira_results: [{ issue_id: "A-1", issue_url: "https://j/A-1", issue_exists: true }],
  });
  const { status, attestations_statuses } = (await trailOf(at)).compliance_status.artifacts_statuses.app;
  assert.equal(
    {
      status,
      attestations_statuses: attestations_statuses.map((entry: Json) => [
        entry["attestation_type"],
        entry["status"],
        entry["attestation_id"],
        entry["unexpected"],
      ]),
    },
    {
      status: "INCOMPLETE",
      attestations_statuses: [
        ["generic", "MISSING", null, false],
        ["jira", "COMPLETE", id, true],
      ],
    },
  );
});

test("begins an unknown trail once, with the flow's template, as the reporter", async () => {
  const at = await place(TEMPLATE);
  const repo_info = {
    id: "R1",
    name: "acme/pay",
    url: "https://git/acme/pay",
    provider: "gitlab",
    namespace_path: ["acme"],
    additional_info: { a: 1 },
  };
  assert.is((await post(at, { repo_info })).status, 201);
  const trail = await trailOf(at);
  assert.equal(
    {
      name: trail.name,
      description: trail.description,
      content: trail.template.content,
      created_by: trail.created_by,
      compliance_state: trail.compliance_state,
      "repo_ids.length": trail.repo_ids.length,
    },
    {
      name: at.trail,
      description: "",
      content: TEMPLATE,
      created_by: `${at.org}-admin`,
      compliance_state: "INCOMPLETE",
      "repo_ids.length": 1,
    },
  );
  assert.equal(
    trail.events.map((event: Json) => event["type"]),
    ["trail_reported", "trail_attestation_reported"],
  );
  assert.equal(trail.events[1].repo_info, {
    name: "acme/pay",
    url: "https://git/acme/pay",
    id: "R1",
    description: "",
    provider: "gitlab",
  });
  const repo = server.db
    .prepare(
      "SELECT external_id, provider, name, url, description, namespace_path_json, additional_info_json FROM " +
        "repos ORDER BY id DESC",
    )
    .get();
  assert.equal(repo, {
    external_id: "R1",
    provider: "gitlab",
    name: "acme/pay",
    url: "https://git/acme/pay",
    description: "",
    namespace_path_json: '["acme"]',
    additional_info_json: '{"a":1}',
  });
  await post(at, { repo_info });
  assert.is((await trailOf(at)).events.length, 3);
  assert.is((await trailOf(at)).repo_ids.length, 1);
});

test("records a repository only with id, name and url", async () => {
  const at = await place();
  const before = count("repos");
  for (const repo_info of [
    { name: "n", url: "https://git/n" },
    { id: "", name: "n", url: "https://git/n" },
    { id: "1", name: "", url: "https://git/n" },
    { id: null, name: "n", url: "x" },
  ])
    assert.is((await post(at, { repo_info })).status, 201);
  assert.is(count("repos"), before);
  assert.equal((await trailOf(at)).repo_ids, []);
});

test("a fingerprint that is not in the trail is 404, and begins no trail", async () => {
  const at = await place();
  const elsewhere = await server.given.artifact(at, { flow: at.flow, trail: "elsewhere" });
  const legacy = await server.given.artifact(at, { flow: at.flow, trail: null });
  for (const fingerprint of [freshFingerprint(), elsewhere, legacy])
    await refuses(
      () =>
        post(at, {
          artifact_fingerprint: fingerprint,
          target_artifacts: ["app"],
          git_commit_info: { sha1: freshCommit() },
        }),
      404,
      {
        message:
          `Artifact with fingerprint ${fingerprint} does not exist in trail "${at.trail}" of flow "${at.flow}" ` +
          `belonging to organization "${at.org}"`,
      },
    );
  await artifact(at, { name: "app" });
  await refuses(() => post(at, { artifact_fingerprint: elsewhere }), 404, {
    message:
      `Artifact with fingerprint ${elsewhere} does not exist in trail "${at.trail}" of flow "${at.flow}" ` +
      `belonging to organization "${at.org}"`,
  });
});

test("an unidentifiable target is 400 with the message that clients expect", async () => {
  const at = await place(TEMPLATE);
  const text = (target: string) =>
    `Attestation 'scan' for artifact '${target}', which is not in trail '${at.trail}', requires at least one ` +
    "of: artifact_fingerprint or git_commit_info.";
  await refuses(() => post(at, { target_artifacts: ["app"] }), 400, { message: text("app") });
  await artifact(at, { name: "db" });
  await refuses(() => post(at, { target_artifacts: ["app"] }), 400, { message: text("app") });
  await refuses(() => post(at, { target_artifacts: ["db", "app"] }), 400, { message: text("app") });
});

test("refuses unknown and archived flows, and invalid names of trails", async () => {
  const at = await place();
  await refuses(() => post(at, {}, "nothing/trail/t"), 404, {
    message: `Flow named 'nothing' does not exist for organization '${at.org}'`,
  });
  for (const trail of ["-a", "a%20b", "%C3%BC"])
    await refuses(() => post(at, {}, `${at.flow}/trail/${trail}`), 400, {
      message: "Input payload validation failed",
      errors: {
        trail_name:
          String.raw`String should match pattern '^[a-zA-Z0-9][a-zA-Z0-9\-_.~]*$' ` +
          `[input: ${decodeURIComponent(trail)}]`,
      },
    });
  await server.call("PUT", `/flows/${at.org}/${at.flow}/archive`, { key: at.key });
  const archived = { message: `Flow named '${at.flow}' has been archived for organization '${at.org}'` };
  await refuses(() => post(at, {}), 404, archived);
  const suffixed = server.db.prepare("SELECT name FROM flows WHERE archived_name = ?").pluck().get(at.flow) as string;
  await refuses(() => post(at, {}, `${suffixed}/trail/t`), 404, {
    message: archived.message.replace(at.flow, suffixed),
  });
});

test("accepts a former name of the flow, and refusals use the names of the request", async () => {
  const at = await place();
  await server.call("PUT", `/flows/${at.org}/${at.flow}/rename`, { key: at.key, body: { new_name: `${at.flow}-new` } });
  assert.is((await post(at, {})).status, 201);
  const fingerprint = freshFingerprint();
  const answer = await post(at, { artifact_fingerprint: fingerprint });
  assert.is(
    answer.body.message,
    `Artifact with fingerprint ${fingerprint} does not exist in trail "${at.trail}" of flow "${at.flow}" ` +
      `belonging to organization "${at.org}"`,
  );
  const { body } = await server.call("GET", `/attestations/${at.org}/${at.flow}/artifact/${fingerprint}/scan`, {
    key: at.key,
  });
  assert.is(
    body.message,
    `Artifact with fingerprint '${fingerprint}' does not exist in flow '${at.flow}' belonging to organization ` +
      `'${at.org}'`,
  );
  const read = await server.call("GET", `/attestations/${at.org}/${at.flow}/trail/${at.trail}/scan`, { key: at.key });
  assert.is(read.body[0].flow_name, `${at.flow}-new`);
});

test("the audit entry has the details of the write", async () => {
  const at = await place();
  const fingerprint = await artifact(at, { name: "app" });
  const id = await attest(at, { fingerprint, is_compliant: false });
  const row = server.db.prepare("SELECT event, target, detail_json FROM audit_log ORDER BY id DESC").get() as {
    event: string;
    target: string;
    detail_json: string;
  };
  assert.is(row.event, "attestation.reported");
  assert.match(row.target, new RegExp(`/attestations/${at.org}/${at.flow}/trail/${at.trail}/generic$`));
  assert.equal(JSON.parse(row.detail_json), {
    attestation_id: id,
    attestation_name: "scan",
    attestation_type: "generic",
    is_compliant: false,
    trail_state: "NON-COMPLIANT",
  });
});

test("keeps all concurrent reports to a new trail, and begins the trail once", async () => {
  const at = await place();
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, index) =>
      post(at, { attestation_name: `n${index % 4}`, is_compliant: index !== 3 }),
    ),
  );
  assert.equal(
    answers.map(({ status }) => status),
    Array(20).fill(201),
  );
  const trail = await trailOf(at);
  assert.equal(
    trail.events.map((event: Json) => event["type"]),
    ["trail_reported", ...Array(20).fill("trail_attestation_reported")],
  );
  assert.equal(trail.compliance_status.attestations_statuses.length, 4);
  assert.is(trail.compliance_state, "COMPLIANT");
});

test.run();
