/**
 * Reports of decisions on controls (semantics 7.2): forms of the data, what is stored, what counts, what is
 * refused.
 */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { fresh, freshCommit, freshFingerprint, startServer } from "../../given.ts";
import type { Answer, Part, TestServer } from "../../given.ts";
import { holdings } from "../../http/socket.ts";

const test = suite("api/attestations/system");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type Place = { org: string; key: string; flow: string; trail: string };
type Json = Record<string, any>;
const FAILED = "Input payload validation failed";
const FILE: Part["file"] = { name: "attachment_file", filename: "minutes.txt", content: "we met" };

async function place(template?: string): Promise<Place> {
  const at = server.given.org();
  return {
    ...at,
    flow: await server.given.flow(at, template === undefined ? {} : { template }),
    trail: fresh("trail"),
  };
}
const decision = (more: Json = {}): Json => ({
  attestation_name: "go",
  type_name: "decision",
  control: "C-1",
  attestation_data: { is_compliant: true },
  ...more,
});
const post = (at: Place, json: unknown, file?: Part["file"], flow = at.flow): Promise<Answer> =>
  server.call("POST", `/attestations/${at.org}/${flow}/trail/${at.trail}/system`, {
    key: at.key,
    form: { json, ...(file ? { file } : {}) },
  });
const records = async (at: Place, query = ""): Promise<Json[]> =>
  (await server.call("GET", `/attestations/${at.org}${query}`, { key: at.key })).body.data;
const newest = async (at: Place): Promise<Json> => (await records(at, "?per_page=1"))[0] as Json;
const trailOf = async (at: Place): Promise<Json> =>
  (await server.call("GET", `/trails/${at.org}/${at.flow}/${at.trail}`, { key: at.key })).body;

async function refused(send: () => Promise<Answer>, status: number, body: unknown): Promise<void> {
  const before = holdings(server);
  const answer = await send();
  assert.equal({ status: answer.status, body: answer.body }, { status, body });
  assert.equal(holdings(server), before);
}

test("records a decision with the current version of its control", async () => {
  const at = await place();
  const { status, body } = await post(at, decision());
  assert.equal({ status, body }, { status: 201, body: "OK" });
  assert.equal(
    { control: (await newest(at))["control"], control_version: (await newest(at))["control_version"] },
    { control: "C-1", control_version: null },
    "there is no such control yet",
  );
  await server.given.control(at, { identifier: "C-1" });
  await post(at, decision());
  await server.call("PUT", `/controls/${at.org}/C-1`, { key: at.key, body: { name: "changed" } });
  await post(at, decision({ attestation_data: { is_compliant: false } }));
  await server.call("POST", `/controls/${at.org}/C-1/archive`, { key: at.key });
  await post(at, decision());
  assert.equal(
    (await records(at)).map((row) => [row["attestation_type"], row["is_compliant"], row["control_version"]]),
    [
      ["system:decision", true, 3],
      ["system:decision", false, 2],
      ["system:decision", true, 1],
      ["system:decision", true, null],
    ],
  );
});

test("the control of another organization is unknown", async () => {
  const at = await place();
  await server.given.control(server.given.org(), { identifier: "C-1" });
  await post(at, decision());
  assert.is((await newest(at))["control_version"], null);
});

test("accepts data as an object or as text; stores custom keys and fields, which never replace ours", async () => {
  const at = await place();
  const data = { is_compliant: false, votes: [1, 2], "a.b": { c: null } };
  for (const attestation_data of [data, JSON.stringify(data)]) {
    assert.is(
      (
        await post(
          at,
          decision({
            attestation_data,
            board: { name: "CAB" },
            pull_requests: [null],
            attestation_id: "mine",
            control_version: 99,
            reported_by: "mallory",
          }),
          FILE,
        )
      ).status,
      201,
    );
    const row = await newest(at);
    assert.equal(
      {
        type_name: row["type_name"],
        attestation_data: row["attestation_data"],
        board: row["board"],
        pull_requests: row["pull_requests"],
      },
      { type_name: "decision", attestation_data: data, board: { name: "CAB" }, pull_requests: [null] },
    );
    assert.equal(
      { control_version: row["control_version"], reported_by: row["reported_by"], is_compliant: row["is_compliant"] },
      { control_version: null, reported_by: `${at.org}-admin`, is_compliant: false },
    );
    assert.is.not(row["attestation_id"], "mine");
    assert.is(row["evidence_archive_path"].split("/").at(-1), "minutes.txt");
  }
  const kept = JSON.parse(
    server.db.prepare("SELECT payload_json FROM attestations ORDER BY id DESC LIMIT 1").pluck().get() as string,
  );
  assert.equal(
    Object.keys(kept).sort(),
    ["attestation_data", "attestation_id", "board", "control_version", "pull_requests", "reported_by", "type_name"],
    "what has a place of its own is not kept twice",
  );
  const reasons = server.db.prepare("SELECT reasons_json FROM attestations ORDER BY id DESC LIMIT 1").pluck().get();
  assert.is(reasons, `["The decision on control 'C-1' is negative"]`);
});

test("refuses invalid data by path, with and without a file, and leaves nothing behind", async () => {
  const at = await place();
  const commit = freshCommit();
  for (const [more, errors] of [
    [{ type_name: "approval" }, { type_name: "Input should be 'decision' or 'sbom' [input: approval]" }],
    [{ control: undefined }, { control: "Field required" }],
    [{ control: null }, { control: "Input should be a valid string [input: null]" }],
    [{ control: "" }, { control: "String should have at least 1 character [input: ]" }],
    [{ attestation_data: undefined }, { attestation_data: "Field required" }],
    [
      { attestation_data: null },
      { attestation_data: "Input should be a valid object or array or string [input: null]" },
    ],
    [{ attestation_data: {} }, { "attestation_data.is_compliant": "Field required" }],
    [
      { attestation_data: { is_compliant: "yes" } },
      { "attestation_data.is_compliant": "Input should be a valid boolean [input: yes]" },
    ],
    [{ attestation_data: [] }, { attestation_data: "Input should be a valid object [input: []]" }],
    [{ attestation_data: "[true]" }, { attestation_data: "Input should be a valid object [input: [true]]" }],
    [
      { attestation_data: "{" },
      { attestation_data: "Input should be valid JSON: unexpected character at position 1 (line 1 column 2)" },
    ],
    [{ attestation_data: "" }, { attestation_data: "Input should be valid JSON: the text ends early or is malformed" }],
    [
      { attestation_data: '{"is_compliant": 1e999}' },
      {
        "attestation_data.is_compliant":
          "Input should be a number that double precision holds without rounding [input: 1e999]",
      },
    ],
    [{ attestation_data: '"{}"' }, { attestation_data: "Input should be a valid object [input: {}]" }],
    [
      { attestation_name: "a b", control: 5 },
      {
        attestation_name: String.raw`String should match pattern '^[a-zA-Z0-9\-_,]+$' [input: a b]`,
        control: "Input should be a valid string [input: 5]",
      },
    ],
  ] as const)
    for (const file of [undefined, FILE])
      await refused(() => post(at, decision(more), file), 400, { message: FAILED, errors });
  const fingerprint = freshFingerprint();
  const others = (["snapshotter", "reader", null] as const).map((role) => server.given.user(at.org, role));
  for (const file of [undefined, FILE]) {
    await refused(() => post(at, decision({ target_artifacts: ["app"] }), file), 400, {
      message:
        `Attestation 'go' for artifact 'app', which is not in trail '${at.trail}', requires at least one of: ` +
        "artifact_fingerprint or git_commit_info.",
    });
    await refused(
      () => post(at, decision({ artifact_fingerprint: fingerprint, git_commit_info: { sha1: commit } }), file),
      404,
      {
        message:
          `Artifact with fingerprint ${fingerprint} does not exist in trail "${at.trail}" of flow "${at.flow}" ` +
          `belonging to organization "${at.org}"`,
      },
    );
    await refused(() => post(at, decision(), file, "nothing"), 404, {
      message: `Flow named 'nothing' does not exist for organization '${at.org}'`,
    });
    for (const key of others)
      await refused(() => post({ ...at, key }, decision(), file), 403, {
        message: "You don't have permission to access this resource",
      });
  }
  assert.is((await post({ ...at, key: server.given.user(at.org, "member") }, decision())).status, 201);
});

test("a decision fills the slot of a template and counts for the trail, with either verdict", async () => {
  const at = await place("version: 1\ntrail:\n  attestations:\n    - {name: go, type: decision}\n");
  const state = async () => {
    const { compliance_status } = await trailOf(at);
    return [
      compliance_status.status,
      compliance_status.attestations_statuses.map((entry: Json) => [
        entry["attestation_type"],
        entry["status"],
        entry["is_compliant"],
        entry["unexpected"],
      ]),
    ];
  };
  await server.given.trail(at, { flow: at.flow, name: at.trail });
  assert.equal(await state(), ["INCOMPLETE", [["decision", "MISSING", null, false]]]);
  await post(at, decision({ attestation_data: { is_compliant: false } }));
  assert.equal(await state(), ["NON-COMPLIANT", [["system:decision", "COMPLETE", false, false]]]);
  await post(at, decision());
  assert.equal(await state(), ["COMPLIANT", [["system:decision", "COMPLETE", true, false]]]);
  const { events } = await trailOf(at);
  const last = events.at(-1);
  assert.equal(
    { type: last.type, attestation_type: last.attestation_type, is_reattestation: last.is_reattestation },
    { type: "trail_attestation_reported", attestation_type: "system:decision", is_reattestation: true },
  );
  await post(at, decision({ attestation_name: "unasked", attestation_data: { is_compliant: false } }));
  assert.is((await state())[0], "NON-COMPLIANT", "one that nobody asked for counts too");
});

test("an override keeps the control and its version, also after a new version", async () => {
  const at = await place();
  await server.given.control(at, { identifier: "C-1" });
  await post(at, decision({ attestation_data: { is_compliant: false } }));
  await server.call("PUT", `/controls/${at.org}/C-1`, { key: at.key, body: { name: "changed" } });
  await server.given.attestation(at, {
    flow: at.flow,
    trail: at.trail,
    kind: "override",
    name: "go",
    reason: "exempted",
    new_compliance_status: true,
    original_attestation_type: "decision",
  });
  const row = await newest(at);
  assert.equal(
    {
      attestation_type: row["attestation_type"],
      control: row["control"],
      control_version: row["control_version"],
      is_compliant: row["is_compliant"],
    },
    { attestation_type: "override", control: "C-1", control_version: 1, is_compliant: true },
  );
});

test("filters find it as decision, with its overrides", async () => {
  const at = await place();
  await post(at, decision());
  await server.given.attestation(at, { flow: at.flow, trail: at.trail });
  assert.equal(
    (await records(at, "?type=decision")).map((row) => row["attestation_type"]),
    ["system:decision"],
  );
});

test("accepts decisions while the controls are disabled", async () => {
  const at = { ...server.given.org({ controls: false }), trail: "t" };
  const there = { ...at, flow: await server.given.flow(at) };
  assert.is((await post(there, decision())).status, 201);
});

test("lists the types that the server defines with the shape of their data", async () => {
  const { key } = server.given.org();
  const { status, body } = await server.call("GET", "/attestations/system-attestation-types", { key });
  assert.is(status, 200);
  assert.equal(body[0], {
    name: "decision",
    versions: [
      {
        version: 1,
        schema: {
          type: "object",
          required: ["is_compliant"],
          additionalProperties: true,
          properties: { is_compliant: { type: "boolean", description: "Whether the control is satisfied" } },
        },
      },
    ],
  });
  const [sbom] = body.slice(1);
  const { required, properties, additionalProperties } = sbom.versions[0].schema;
  assert.equal(
    {
      names: body.map(({ name }: Json) => name),
      versions: sbom.versions.length,
      required,
      additionalProperties,
      keys: Object.keys(properties),
      document: Object.keys(properties.document.anyOf[0].properties),
      fingerprint: properties.original_fingerprint,
    },
    {
      names: ["decision", "sbom"],
      versions: 1,
      required: ["format", "original_fingerprint"],
      additionalProperties: true,
      keys: ["format", "original_fingerprint", "document"],
      document: ["created_at", "tools", "subject", "package_count"],
      fingerprint: {
        type: "string",
        pattern: "^[a-f0-9]{64}$",
        description: "SHA-256 of the SBOM; an attachment must have it",
      },
    },
  );
  assert.is((await server.call("GET", "/attestations/system-attestation-types")).status, 401);
});

test.run();
