/** The lifecycle of an override (semantics 3.6): what it supersedes, its status entry, and how it ends. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { fresh, freshCommit, freshFingerprint, startServer } from "../../given.ts";
import type { Answer, TestServer } from "../../given.ts";

const test = suite("api/attestations/override");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type Place = { org: string; key: string; flow: string; trail: string };
type Json = Record<string, unknown>;
const TEMPLATE =
  "version: 1\ntrail:\n  attestations:\n    - {name: review, type: snyk}\n  artifacts:\n    - name: app\n      " +
  "attestations:\n        - {name: scan, type: snyk}\n";
const CLEAN = { low_count: 0, medium_count: 0, high_count: 0 };
const snyk = (high_count: number) => ({
  kind: "snyk",
  snyk_results: { tool: { name: "s", version: "1" }, results: [{ ...CLEAN, high_count }] },
});

async function place(template = TEMPLATE): Promise<Place> {
  const at = server.given.org();
  return { ...at, flow: await server.given.flow(at, { template }), trail: fresh("trail") };
}
const attest = (at: Place, name: string, fields: Json = {}): Promise<string> =>
  server.given.attestation(at, { flow: at.flow, trail: at.trail, name, ...fields });
const override = (at: Place, name: string, to: boolean, fields: Json = {}): Promise<string> =>
  attest(at, name, {
    kind: "override",
    reason: "accepted",
    new_compliance_status: to,
    original_attestation_type: "snyk",
    ...fields,
  });
const trailOf = async (at: Place) =>
  (await server.call("GET", `/trails/${at.org}/${at.flow}/${at.trail}`, { key: at.key })).body;
const entry = (
  name: string,
  type: string,
  id: string | null,
  override: string | null,
  is_compliant: boolean,
  unexpected = false,
) => ({
  attestation_name: name,
  attestation_type: type,
  attestation_id: id,
  overridden_attestation_id: override,
  status: "COMPLETE",
  is_compliant,
  unexpected,
});
const onTrail = async (at: Place) => (await trailOf(at)).compliance_status.attestations_statuses;
const onArtifact = async (at: Place, name = "app") =>
  (await trailOf(at)).compliance_status.artifacts_statuses[name].attestations_statuses;
const record = async (at: Place, id: string) =>
  (await server.call("GET", `/attestations/${at.org}?attestation_id=${id}`, { key: at.key })).body.data[0];

test("an override turns a failure into a pass and back, and the entry keeps id and type of the original", async () => {
  const at = await place();
  const original = await attest(at, "review", snyk(1));
  assert.equal(await onTrail(at), [entry("review", "snyk", original, null, false)]);
  const first = await override(at, "review", true);
  assert.equal(await onTrail(at), [entry("review", "snyk", original, first, true)]);
  const second = await override(at, "review", false);
  assert.equal(await onTrail(at), [entry("review", "snyk", original, second, false)]);
  const third = await override(at, "review", false);
  assert.equal(await onTrail(at), [entry("review", "snyk", original, third, false)]);
  const shown = await record(at, third);
  assert.equal(
    {
      attestation_type: shown.attestation_type,
      is_compliant: shown.is_compliant,
      reason: shown.reason,
      new_compliance_status: shown.new_compliance_status,
      original_attestation_type: shown.original_attestation_type,
    },
    {
      attestation_type: "override",
      is_compliant: false,
      reason: "accepted",
      new_compliance_status: false,
      original_attestation_type: "snyk",
    },
  );
  assert.equal(
    {
      "original is compliant": (await record(at, original)).is_compliant,
      "first override is compliant": (await record(at, first)).is_compliant,
    },
    { "original is compliant": false, "first override is compliant": true },
  );
});

test("a later report ends an override, and a later override applies to that report (semantics 13.11)", async () => {
  const at = await place();
  await attest(at, "review", snyk(1));
  await override(at, "review", true);
  const again = await attest(at, "review", snyk(2));
  assert.equal(await onTrail(at), [entry("review", "snyk", again, null, false)]);
  const second = await override(at, "review", true);
  assert.equal(await onTrail(at), [entry("review", "snyk", again, second, true)]);
  const { body } = await server.call("GET", `/attestations/${at.org}/${at.flow}/trail/${at.trail}/review`, {
    key: at.key,
  });
  assert.equal(
    body.map((one: Json) => [one["attestation_type"], one["is_compliant"]]),
    [
      ["override", true],
      ["snyk", false],
      ["override", true],
      ["snyk", false],
    ],
  );
});

test("an override of an unreported name is recorded, and fills a slot of its type (semantics 13.12)", async () => {
  const at = await place();
  const id = await override(at, "review", true, { original_attestation_type: "snyk" });
  assert.equal(await onTrail(at), [entry("review", "snyk", null, id, true)]);
  const again = await override(at, "review", false, { original_attestation_type: "snyk" });
  assert.equal(await onTrail(at), [entry("review", "snyk", null, again, false)]);
  const other = await override(at, "unexpected", true, { original_attestation_type: "decision" });
  assert.equal((await onTrail(at)).at(-1), entry("unexpected", "system:decision", null, other, true, true));
});

test("the label that the server returns for a decision is a type wherever one is asked for", async () => {
  const at = await place("version: 1\ntrail:\n  attestations:\n    - {name: board, type: 'system:decision'}\n");
  const decision = { kind: "system", type_name: "decision", control: "c", attestation_data: { is_compliant: true } };
  const id = await attest(at, "board", decision);
  assert.equal(await onTrail(at), [entry("board", "system:decision", id, null, true)]);
  const listed = await server.call("GET", `/attestations/${at.org}?type=system:decision`, { key: at.key });
  assert.equal(
    listed.body.data.map((one: Json) => one["attestation_id"]),
    [id],
  );
  const fingerprint = await server.given.artifact(at, { flow: at.flow, trail: at.trail, name: "app" });
  await server.given.control(at, { identifier: "c" });
  const policy = await server.given.policy(at, {
    yaml: "artifacts:\n  attestations:\n    - {type: 'system:decision', name: board, for_control: c}\n",
  });
  const verdict = await server.call("GET", `/asserts/${at.org}/fingerprint/${fingerprint}?policy_name=${policy}`, {
    key: at.key,
  });
  assert.equal([verdict.status, verdict.body.compliant], [200, true], verdict.text);
});

test("an override names the type of what it overrides, or is refused and leaves nothing", async () => {
  const at = await place();
  const refuse = async (name: string, word: string, text: string) => {
    const count = () =>
      ["trails", "attestations", "trail_events", "audit_log"].map((table) =>
        server.db.prepare(`SELECT count(*) FROM ${table}`).pluck().get(),
      );
    const before = count();
    const { status, body } = await server.call(
      "POST",
      `/attestations/${at.org}/${at.flow}/trail/${at.trail}/override`,
      {
        key: at.key,
        body: { attestation_name: name, reason: "r", new_compliance_status: true, original_attestation_type: word },
      },
    );
    assert.equal(
      { status, errors: body.errors },
      { status: 400, errors: { original_attestation_type: `${text} [input: ${word}]` } },
    );
    assert.equal(count(), before);
  };
  await refuse("review", "junit", "Input should be 'snyk', which the template expects");
  const OF_RECORD = "the type of the attestation that is overridden";
  await attest(at, "review", snyk(1));
  for (const word of ["junit", "custom", "decision", "system:*"])
    await refuse("review", word, `Input should be 'snyk', ${OF_RECORD}`);
  await override(at, "review", true, { original_attestation_type: "snyk" });
  await refuse("review", "generic", `Input should be 'snyk', ${OF_RECORD}`);
  await attest(at, "board", {
    kind: "system",
    type_name: "decision",
    control: "c",
    attestation_data: { is_compliant: false },
  });
  for (const word of ["system:sbom", "generic", "custom:decision"])
    await refuse("board", word, `Input should be 'decision', ${OF_RECORD}`);
  for (const word of ["decision", "system:decision", "system:*"])
    await override(at, "board", true, { original_attestation_type: word });
});

test("an override of a type family fills the slots of the family", async () => {
  const template =
    "version: 1\ntrail:\n  attestations:\n    - {name: a, type: decision}\n    - {name: b, type: " +
    "'custom:cov'}\n    - {name: c, type: '*'}\n";
  for (const [name, word, shown] of [
    ["a", "decision", "system:decision"],
    ["a", "system:*", "system:*"],
    ["b", "custom", "custom"],
    ["b", "custom:*", "custom:*"],
    ["b", "custom:cov", "custom:cov"],
    ["c", "jira", "jira"],
  ] as const) {
    const at = await place(template);
    const id = await override(at, name, true, { original_attestation_type: word });
    const entries = await onTrail(at);
    assert.equal(entries.length, 3, word);
    assert.equal(
      entries.find((one: Json) => one["attestation_name"] === name),
      entry(name, shown, null, id, true),
    );
  }
});

test("overrides an artifact's record by fingerprint, commit or target, and leaves the trail's record", async () => {
  for (const by of ["fingerprint", "commit", "target"]) {
    const at = await place();
    const commit = freshCommit();
    const fingerprint = await server.given.artifact(at, { flow: at.flow, trail: at.trail, name: "app", commit });
    const review = await attest(at, "review", snyk(0));
    const onTheTrail = await attest(at, "scan", snyk(1));
    const original = await attest(at, "scan", { ...snyk(1), fingerprint });
    const id = await override(
      at,
      "scan",
      true,
      by === "fingerprint" ? { fingerprint } : by === "commit" ? { target: "app", commit } : { target: "app" },
    );
    assert.equal(await onArtifact(at), [entry("scan", "snyk", original, id, true)], by);
    assert.equal(await onTrail(at), [
      entry("review", "snyk", review, null, true),
      entry("scan", "snyk", onTheTrail, null, false, true),
    ]);
    const event = (await trailOf(at)).events.at(-1);
    assert.equal(
      {
        type: event.type,
        attestation_type: event.attestation_type,
        attestation_id: event.attestation_id,
        is_compliant: event.is_compliant,
        is_reattestation: event.is_reattestation,
        target_artifact: event.target_artifact,
      },
      {
        type: by === "fingerprint" ? "artifact_attestation_reported" : "trail_attestation_for_artifact_reported",
        attestation_type: "override",
        attestation_id: id,
        is_compliant: true,
        is_reattestation: true,
        target_artifact: "app",
      },
    );
  }
});

test("an override before the artifact takes effect when the artifact arrives", async () => {
  const at = await place();
  const commit = freshCommit();
  const original = await attest(at, "scan", { ...snyk(1), target: "app", commit });
  const id = await override(at, "scan", true, { target: "app", commit, original_attestation_type: "snyk" });
  await server.given.artifact(at, { flow: at.flow, trail: at.trail, name: "app", commit });
  assert.equal(await onArtifact(at), [entry("scan", "snyk", original, id, true)]);
  const again = await override(at, "scan", false, { target: "app", commit, original_attestation_type: "snyk" });
  assert.equal(await onArtifact(at), [entry("scan", "snyk", original, again, false)]);
});

test("one override of several artifacts keeps each artifact's own original", async () => {
  const at = await place();
  const commit = freshCommit();
  const artifact = (name: string) => server.given.artifact(at, { flow: at.flow, trail: at.trail, name, commit });
  const [app, db] = [await artifact("app"), await artifact("db")];
  const originals = [
    await attest(at, "scan", { ...snyk(1), fingerprint: app }),
    await attest(at, "scan", { fingerprint: db, is_compliant: false }),
  ];
  const id = await override(at, "scan", true, { target_artifacts: ["app", "db"], commit });
  assert.equal(
    [...(await onArtifact(at, "app")), ...(await onArtifact(at, "db"))],
    [
      entry("scan", "snyk", originals[0] as string, id, true),
      entry("scan", "generic", originals[1] as string, id, true, true),
    ],
  );
});

test("the states of artifact and trail follow an override", async () => {
  const at = await place();
  const fingerprint = await server.given.artifact(at, { flow: at.flow, trail: at.trail, name: "app" });
  const state = async () =>
    (await server.call("GET", `/artifacts/${at.org}/${at.flow}/fingerprint/${fingerprint}`, { key: at.key })).body
      .state;
  await attest(at, "review", snyk(1));
  await attest(at, "scan", { ...snyk(1), fingerprint });
  assert.is(await state(), "NON-COMPLIANT");
  await override(at, "scan", true, { fingerprint });
  assert.is(await state(), "NON-COMPLIANT");
  await override(at, "review", true);
  assert.is(await state(), "COMPLIANT");
  const { body } = await server.call("GET", `/artifacts/${at.org}/${at.flow}/fingerprint/${fingerprint}`, {
    key: at.key,
  });
  assert.equal(
    { evidence_type: body.evidence.scan.evidence_type, is_compliant: body.evidence.scan.is_compliant },
    { evidence_type: "snyk", is_compliant: true },
  );
});

test("an override without a commit takes the commit of the overridden record", async () => {
  const at = await place();
  const commit = freshCommit();
  const original = await attest(at, "review", {
    ...snyk(1),
    git_commit_info: { sha1: commit, author: "Ada", message: "m", branch: "main", timestamp: 7 },
  });
  const id = await override(at, "review", true);
  assert.equal((await record(at, id)).git_commit_info, (await record(at, original)).git_commit_info);
  assert.is((await trailOf(at)).events.at(-1).git_commit_info, null);
  const own = freshCommit();
  assert.is((await record(at, await override(at, "review", true, { commit: own }))).git_commit_info.sha1, own);
  assert.is((await record(at, await override(at, "review", true))).git_commit_info.sha1, own);
  const bare = await place();
  await attest(bare, "review", snyk(1));
  assert.is((await record(bare, await override(bare, "review", true))).git_commit_info, null);
});

test("both API roots accept an override as plain JSON", async () => {
  const at = await place();
  const body = {
    attestation_name: "four-eyes",
    reason: "r",
    new_compliance_status: true,
    original_attestation_type: "pull_request",
    annotations: { Reason: "r" },
  };
  const path = `/attestations/${at.org}/${at.flow}/trail/${at.trail}/override`;
  for (const root of ["//api/fastapi", "//api/v2"]) {
    const answer = await server.call("POST", root + path, { key: at.key, body });
    assert.equal({ status: answer.status, body: answer.body }, { status: 201, body: "OK" });
  }
  assert.is((await trailOf(at)).events.length, 3);
});

test("an override has the refusals of every kind, and leaves nothing behind", async () => {
  const at = await place();
  const send = (fields: Json, flow = at.flow): Promise<Answer> =>
    server.call("POST", `/attestations/${at.org}/${flow}/trail/${at.trail}/override`, {
      key: at.key,
      body: {
        attestation_name: "scan",
        reason: "r",
        new_compliance_status: true,
        original_attestation_type: "snyk",
        ...fields,
      },
    });
  const count = () =>
    ["trails", "attestations", "trail_events", "audit_log"].map((table) =>
      server.db.prepare(`SELECT count(*) FROM ${table}`).pluck().get(),
    );
  const before = count();
  const fingerprint = freshFingerprint();
  for (const [answer, status, text] of [
    [
      await send({ artifact_fingerprint: fingerprint }),
      404,
      `Artifact with fingerprint ${fingerprint} does not exist in trail "${at.trail}" of flow "${at.flow}" ` +
        `belonging to organization "${at.org}"`,
    ],
    [
      await send({ target_artifacts: ["app"] }),
      400,
      `Attestation 'scan' for artifact 'app', which is not in trail '${at.trail}', requires at least one of: ` +
        "artifact_fingerprint or git_commit_info.",
    ],
    [await send({}, "nothing"), 404, `Flow named 'nothing' does not exist for organization '${at.org}'`],
  ] as const) {
    assert.equal(answer.body, { message: text });
    assert.is(answer.status, status);
  }
  assert.equal(count(), before);
});

test.run();
