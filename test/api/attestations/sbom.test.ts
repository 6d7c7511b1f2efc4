/** Reports of SBOMs (newer-clients 2): bodies as clients send them, what is stored, what counts, what is refused. */
import { hash } from "node:crypto";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { fresh, freshCommit, freshFingerprint, startServer } from "../../given.ts";
import type { Answer, Part, TestServer } from "../../given.ts";
import { holdings } from "../../http/socket.ts";

const test = suite("api/attestations/sbom");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type Place = { org: string; key: string; flow: string; trail: string };
type Json = Record<string, any>;
const FAILED = "Input payload validation failed";
const CONTENT = '{"bomFormat": "CycloneDX", "specVersion": "1.6"}\n';
const FILE: Part["file"] = { name: "attachment_file", filename: "app.cdx.json", content: CONTENT };
const DIGEST = hash("sha256", CONTENT);
const DATA = {
  format: "cyclonedx-1.6",
  original_fingerprint: DIGEST,
  document: {
    created_at: "2026-01-31T12:00:00Z",
    tools: ["syft 1.18.0"],
    subject: { name: "app", version: "1.4.2", purl: "pkg:oci/app@1.4.2", sha256: null },
    package_count: 318,
  },
};

async function place(template?: string): Promise<Place> {
  const at = server.given.org();
  return {
    ...at,
    flow: await server.given.flow(at, template === undefined ? {} : { template }),
    trail: fresh("trail"),
  };
}
const sbom = (more: Json = {}): Json => ({
  attestation_name: "bom",
  user_data: {},
  annotations: { sbom_format: "cyclonedx-1.6", sbom_sha256: DIGEST },
  type_name: "sbom",
  attestation_data: DATA,
  ...more,
});
const withData = (more: Json): Json => sbom({ attestation_data: { ...DATA, ...more } });
const withDocument = (more: Json): Json => withData({ document: { ...DATA.document, ...more } });
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

test("records an SBOM as compliant, with its file as it is and its data unchanged", async () => {
  const at = await place();
  const { status, body } = await post(at, sbom(), FILE);
  assert.equal({ status, body }, { status: 201, body: "OK" });
  const row = await newest(at);
  const { attestation_type, is_compliant, type_name, attestation_data, annotations } = row;
  assert.equal(
    { attestation_type, is_compliant, type_name, attestation_data, annotations, control: "control" in row },
    {
      attestation_type: "system:sbom",
      is_compliant: true,
      type_name: "sbom",
      attestation_data: DATA,
      annotations: { sbom_format: "cyclonedx-1.6", sbom_sha256: DIGEST },
      control: false,
    },
  );
  assert.is(row["evidence_archive_fingerprint"], DIGEST);
  const path = `/attestations/${at.org}/${at.flow}/trail/${at.trail}/attestation/${row["attestation_id"]}/evidence`;
  assert.is((await server.call("GET", path, { key: at.key })).text, CONTENT);
  const reasons = server.db.prepare("SELECT reasons_json FROM attestations ORDER BY id DESC LIMIT 1").pluck().get();
  assert.is(reasons, "[]");
});

test("takes an SBOM without a file, without a summary, and with one that has nothing in it", async () => {
  const at = await place();
  const empty = { created_at: null, tools: null, subject: null, package_count: 0 };
  for (const data of [
    DATA,
    { format: "spdx-2.3", original_fingerprint: DIGEST },
    { ...DATA, document: null },
    { ...DATA, document: {} },
    { ...DATA, document: empty },
    { ...DATA, document: { ...empty, subject: { name: "app", version: null } } },
    { ...DATA, document: { ...empty, subject: {} } },
  ]) {
    assert.is((await post(at, sbom({ attestation_data: data }))).status, 201);
    assert.equal((await newest(at))["attestation_data"], data);
    assert.is((await newest(at))["evidence_archive_fingerprint"], null);
  }
});

test("keeps further keys and the digits of numbers, of data as an object and as text", async () => {
  const at = await place();
  const text =
    `{"format":"x","original_fingerprint":"${DIGEST}","9":1.0,"big":9007199254740993,` +
    `"document":{"package_count":12,"more":[1e400],"subject":{"name":"app","cpe":"cpe:2.3:a"}}}`;
  for (const data of [text, JSON.stringify(text)]) {
    const json = `{"attestation_name":"bom","type_name":"sbom","vendor":{"n":1.50},"attestation_data":${data}}`;
    assert.is((await post(at, json, FILE)).status, 201);
    const found = await server.call("GET", `/attestations/${at.org}?per_page=1`, { key: at.key });
    assert.ok(found.text.includes(`"attestation_data":${text}`), found.text);
    assert.ok(found.text.includes('"vendor":{"n":1.50}'), found.text);
  }
});

test("refuses a file with another SHA-256 than the report states, naming both, and leaves nothing behind", async () => {
  const at = await place();
  const stated = freshFingerprint();
  const content = `${CONTENT}${"x".repeat(200_000)}`;
  for (const file of [FILE, { ...FILE, content }, { ...FILE, content: "" }] as Part["file"][]) {
    const digest = hash("sha256", file?.content as string);
    await refused(() => post(at, withData({ original_fingerprint: stated }), file), 400, {
      message: FAILED,
      errors: {
        "attestation_data.original_fingerprint":
          `Input should be the SHA-256 of the attachment, '${digest}' ` + `[input: ${stated}]`,
      },
    });
  }
});

test("refuses invalid data by path, with and without a file, and leaves nothing behind", async () => {
  const at = await place();
  const data = (path: string) => `attestation_data${path && `.${path}`}`;
  const upper = DIGEST.toUpperCase();
  for (const [json, errors] of [
    [sbom({ type_name: "SBOM" }), { type_name: "Input should be 'decision' or 'sbom' [input: SBOM]" }],
    [sbom({ type_name: "system:sbom" }), { type_name: "Input should be 'decision' or 'sbom' [input: system:sbom]" }],
    [sbom({ type_name: undefined }), { type_name: "Field required" }],
    [sbom({ control: "C-1" }), { control: "Input is for type 'decision' only, and the type is 'sbom' [input: C-1]" }],
    [sbom({ control: null }), { control: "Input should be a valid string [input: null]" }],
    [sbom({ attestation_data: undefined }), { attestation_data: "Field required" }],
    [sbom({ attestation_data: [] }), { attestation_data: "Input should be a valid object [input: []]" }],
    [
      sbom({ attestation_data: {} }),
      { [data("format")]: "Field required", [data("original_fingerprint")]: "Field required" },
    ],
    [
      sbom({ attestation_data: { is_compliant: true } }),
      { [data("format")]: "Field required", [data("original_fingerprint")]: "Field required" },
    ],
    [
      sbom({ attestation_data: "{" }),
      { attestation_data: "Input should be valid JSON: unexpected character at position 1 (line 1 column 2)" },
    ],
    [withData({ format: "" }), { [data("format")]: "String should have at least 1 character [input: ]" }],
    [withData({ format: 1.6 }), { [data("format")]: "Input should be a valid string [input: 1.6]" }],
    [
      withData({ original_fingerprint: upper }),
      { [data("original_fingerprint")]: `String should match pattern '^[a-f0-9]{64}$' [input: ${upper}]` },
    ],
    [withData({ document: [] }), { [data("document")]: "Input should be a valid object [input: []]" }],
    [
      withDocument({ created_at: 5, tools: "syft", subject: "app", package_count: "12" }),
      {
        [data("document.created_at")]: "Input should be a valid string [input: 5]",
        [data("document.tools")]: "Input should be a valid array [input: syft]",
        [data("document.subject")]: "Input should be a valid object [input: app]",
        [data("document.package_count")]: "Input should be a valid integer [input: 12]",
      },
    ],
    [withDocument({ tools: [null] }), { [data("document.tools.0")]: "Input should be a valid string [input: null]" }],
    [
      withDocument({ package_count: -1 }),
      { [data("document.package_count")]: "Input should be greater than or equal to 0 [input: -1]" },
    ],
    [
      withDocument({ package_count: 1.5 }),
      { [data("document.package_count")]: "Input should be a valid integer [input: 1.5]" },
    ],
    [
      withDocument({ subject: { name: {} } }),
      { [data("document.subject.name")]: "Input should be a valid string [input: {}]" },
    ],
  ] as [Json, Json][])
    for (const file of [undefined, FILE]) await refused(() => post(at, json, file), 400, { message: FAILED, errors });
});

test("refuses data above its bounds with 413, and what every kind refuses, and leaves nothing behind", async () => {
  const at = await place();
  const fingerprint = freshFingerprint();
  const key = server.given.user(at.org, "reader");
  for (const file of [undefined, FILE]) {
    const before = holdings(server);
    const large = await post(at, withData({ filler: "x".repeat(5 * 1024 * 1024) }), file);
    assert.is(large.status, 413, large.text);
    assert.equal(holdings(server), before);
    await refused(() => post(at, sbom({ artifact_fingerprint: fingerprint }), file), 404, {
      message:
        `Artifact with fingerprint ${fingerprint} does not exist in trail "${at.trail}" of flow "${at.flow}" ` +
        `belonging to organization "${at.org}"`,
    });
    await refused(() => post(at, sbom({ target_artifacts: ["app"] }), file), 400, {
      message:
        `Attestation 'bom' for artifact 'app', which is not in trail '${at.trail}', requires at least one of: ` +
        "artifact_fingerprint or git_commit_info.",
    });
    await refused(() => post(at, sbom(), file, "nothing"), 404, {
      message: `Flow named 'nothing' does not exist for organization '${at.org}'`,
    });
    await refused(() => post({ ...at, key }, sbom(), file), 403, {
      message: "You don't have permission to access this resource",
    });
  }
  assert.is((await post({ ...at, key: server.given.user(at.org, "member") }, sbom(), FILE)).status, 201);
});

test("fills the slot of a template by word, by label and by '*', and no other", async () => {
  for (const [type, filled] of [
    ["sbom", true],
    ["'system:sbom'", true],
    ["'*'", true],
    ["decision", false],
    ["'custom:sbom'", false],
    ["generic", false],
  ] as const) {
    const at = await place(`version: 1\ntrail:\n  attestations:\n    - {name: bom, type: ${type}}\n`);
    await post(at, sbom(), FILE);
    const { status, attestations_statuses: entries } = (await trailOf(at))["compliance_status"];
    assert.is(status, filled ? "COMPLIANT" : "INCOMPLETE", type);
    const [entry] = entries.filter(({ status }: Json) => status === "COMPLETE");
    assert.equal(
      { type: entry.attestation_type, is_compliant: entry.is_compliant, unexpected: entry.unexpected },
      { type: "system:sbom", is_compliant: true, unexpected: !filled },
    );
  }
});

test("counts in policies by word, by label and by '*'", async () => {
  const at = await place();
  const fingerprint = await server.given.artifact(at, { flow: at.flow, trail: at.trail, name: "app" });
  const verdict = async (rule: string): Promise<boolean> => {
    const policy = await server.given.policy(at, { yaml: `artifacts:\n  attestations:\n    - ${rule}\n` });
    const path = `/asserts/${at.org}/fingerprint/${fingerprint}?policy_name=${policy}`;
    return (await server.call("GET", path, { key: at.key })).body.compliant;
  };
  assert.is(await verdict("{type: sbom}"), false, "nothing was reported yet");
  await post(at, sbom({ artifact_fingerprint: fingerprint }), FILE);
  assert.is(await verdict("{type: sbom}"), true);
  assert.is(await verdict("{type: 'system:sbom', name: bom}"), true);
  assert.is(await verdict("{type: '*', name: bom}"), true);
  assert.is(await verdict("{type: decision}"), false);
  assert.is(await verdict("{type: 'custom:sbom'}"), false);
  const refusal = await server.call("PUT", `/policies/${at.org}`, {
    key: at.key,
    form: {
      field: "payload",
      json: { name: fresh("policy"), type: "env" },
      file: {
        name: "policy_file",
        filename: "p.yml",
        content: "_schema: https://x.example/v1\nartifacts:\n  attestations:\n    - {type: sbom, for_control: C-1}\n",
      },
    },
  });
  assert.is(refusal.status, 400);
  assert.match(JSON.stringify(refusal.body), "for_control is only allowed with type 'decision' [input: C-1]");
});

test("filters find it by word and by label, beside decisions", async () => {
  const at = await place();
  await post(at, sbom(), FILE);
  await post(at, {
    attestation_name: "go",
    type_name: "decision",
    control: "C-1",
    attestation_data: { is_compliant: true },
  });
  const types = async (query: string) => (await records(at, query)).map((row) => row["attestation_type"]);
  assert.equal(await types("?type=sbom"), ["system:sbom"]);
  assert.equal(await types("?type=system:sbom"), ["system:sbom"]);
  assert.equal(await types("?type=decision"), ["system:decision"]);
  assert.equal(await types("?type=sbom,decision"), ["system:decision", "system:sbom"]);
  assert.equal(await types("?type=custom:sbom"), []);
});

test("an override names sbom or system:sbom, or the type that the template expects; others leave nothing", async () => {
  const at = await place("version: 1\ntrail:\n  attestations:\n    - {name: bom, type: sbom}\n");
  const override = (word: string) => () =>
    server.call("POST", `/attestations/${at.org}/${at.flow}/trail/${at.trail}/override`, {
      key: at.key,
      body: {
        attestation_name: "bom",
        reason: "of another build",
        new_compliance_status: false,
        original_attestation_type: word,
      },
    });
  const refuse = (word: string, whose: string) =>
    refused(override(word), 400, {
      message: FAILED,
      errors: { original_attestation_type: `Input should be 'sbom', ${whose} [input: ${word}]` },
    });
  for (const word of ["decision", "system:decision", "custom:sbom", "generic"])
    await refuse(word, "which the template expects");
  await post(at, sbom(), FILE);
  for (const word of ["decision", "system:decision", "custom:sbom", "generic"])
    await refuse(word, "the type of the attestation that is overridden");
  for (const word of ["sbom", "system:sbom", "system:*"]) {
    assert.is((await override(word)()).status, 201, word);
    const [entry] = (await trailOf(at))["compliance_status"].attestations_statuses;
    assert.equal(
      { type: entry.attestation_type, is_compliant: entry.is_compliant, unexpected: entry.unexpected },
      { type: "system:sbom", is_compliant: false, unexpected: false },
    );
  }
  const row = await newest(at);
  assert.equal(
    { attestation_type: row["attestation_type"], control: row["control"] },
    { attestation_type: "override", control: undefined },
  );
  await post(at, sbom(), FILE);
  assert.is((await trailOf(at))["compliance_status"].status, "COMPLIANT", "a later report supersedes the override");
});

test("binds to an artifact by fingerprint and by commit, and is a fact of its audit log", async () => {
  const at = await place();
  const commit = freshCommit();
  await post(at, sbom({ target_artifacts: ["app"], git_commit_info: { sha1: commit } }), FILE);
  const fingerprint = await server.given.artifact(at, { flow: at.flow, trail: at.trail, name: "app", commit });
  const statuses = async () =>
    (await trailOf(at))["compliance_status"].artifacts_statuses.app.attestations_statuses.map((entry: Json) => [
      entry["attestation_name"],
      entry["attestation_type"],
    ]);
  assert.equal(await statuses(), [["bom", "system:sbom"]]);
  await post(at, sbom({ attestation_name: "bom2", artifact_fingerprint: fingerprint }), FILE);
  assert.equal(await statuses(), [
    ["bom", "system:sbom"],
    ["bom2", "system:sbom"],
  ]);
  const [entry] = server.db
    .prepare("SELECT * FROM audit_log WHERE event = 'attestation.reported' ORDER BY id DESC LIMIT 1")
    .all() as Json[];
  assert.match(JSON.stringify(entry), "system:sbom");
  assert.match(JSON.stringify(entry), DIGEST);
});

test.run();
