// One release, from an empty directory to a verdict, through the executable and real HTTP, with requests as the Kosli
// CLI sends them.

import { createHash } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createClient, expectStatus } from "./client.ts";
import type { Client, Json } from "./client.ts";
import { inDirectory, run, start } from "./executable.ts";
import type { Running } from "./executable.ts";

const test = suite("binary/end-to-end");

const KEY = "ci-key-of-the-end-to-end-test-0123456789";
const APPLY = `
users:
  - name: ops
    api_keys: [{description: laptop}]
organizations:
  - name: acme
    members: [{user: ops, role: admin}]
    service_accounts:
      - {name: ci-bot, privilege: member, api_keys: [{description: ci, key: "${KEY}"}]}
`;
const TEMPLATE = `# what a release needs
version: 1
trail:
  attestations:
    - name: review
      type: pull_request
  artifacts:
    - name: backend
      attestations:
        - name: unit-tests
          type: junit
        - name: scan
          type: snyk
`;
const POLICY = `_schema: https://kosli.com/schemas/policy/environment/v1
artifacts:
  provenance:
    required: true
  trail-compliance:
    required: true
  attestations:
    - name: scan
      type: snyk
    - name: "*"
      type: pull_request
      if: \${{ not matches(artifact.name, "^internal/") }}
`;
const COMMIT = {
  sha1: "0f5c9a1d2b3e4f5061728394a5b6c7d8e9f00112",
  message: "Pay faster",
  author: "Ada <ada@example.com>",
  timestamp: 1_767_222_000,
  branch: "main",
  url: "https://git.example.com/commit/0f5c9a1d",
};
const REPO = { name: "acme/backend", id: "17", url: "https://git.example.com/acme/backend", provider: "github" };
const FINGERPRINT = "7b1f5c9a1d2b3e4f5061728394a5b6c7d8e9f00112233445566778899aabbccd";
const COMMON = { origin_url: "https://ci.example.com/17", git_commit_info: COMMIT, repo_info: REPO, user_data: {} };
const JUNIT_FILE = Buffer.from(Array.from({ length: 600_000 }, (_, index) => (index * 31 + (index >> 8)) & 255));
const SARIF_FILE = '{"runs": [], "note": "ä"}\n';
const sha256 = (content: Buffer | string): string => createHash("sha256").update(content).digest("hex");

const statusesOf = (body: Json): unknown[] =>
  body["compliance_status"].attestations_statuses.map((entry: Json) => [
    entry["attestation_name"],
    entry["status"],
    entry["is_compliant"],
    entry["unexpected"],
  ]);

const CRITERIA = { attestation_type: "pull_request", commit_list: COMMIT.sha1, flow_name: "backend" };

/** The responses that must be the same before and after a restart. */
async function readAll({ json }: Client): Promise<Json> {
  const paths = {
    flow: "/flows/acme/backend",
    flows: "/flows/acme",
    trail: "/trails/acme/backend/release-1",
    trails: "/trails/acme?page=1&per_page=20",
    artifact: `/artifacts/acme/backend/fingerprint/${FINGERPRINT}`,
    artifacts: "/artifacts/acme?flow_name=backend&page=1&per_page=15",
    latestCommit: `/artifacts/acme/backend/${FINGERPRINT}/latest_commit`,
    attestations: "/attestations/acme?per_page=100",
    ofFlow: "/attestations/acme/backend?page=1&per_page=20",
    ofTrail: "/attestations/acme/backend/trail/release-1/review",
    ofArtifact: `/attestations/acme/backend/artifact/${FINGERPRINT.slice(0, 8)}/unit-tests`,
    ofCommit: `/attestations/acme/list_attestations_for_criteria?${new URLSearchParams(CRITERIA)}`,
    policy: "/policies/acme/production",
    assertion: `/asserts/acme/fingerprint/${FINGERPRINT}`,
    policyAssertion: `/asserts/acme/fingerprint/${FINGERPRINT}?policy_name=production`,
  };
  const responses: Json = {};
  for (const [name, path] of Object.entries(paths)) responses[name] = await expectStatus(json("GET", path), 200);
  return responses;
}

/** Makes a release, from its flow to its verdict. Returns the path of the evidence of the unit tests. */
async function release(client: Client): Promise<string> {
  const { json, form } = client;
  const yaml = (part: string, content: string) => ({ part, name: `${part}.yml`, content });
  const put = () =>
    form(
      "PUT",
      "/flows/acme/template_file",
      "data_json",
      { name: "backend", description: "The backend", visibility: "private" },
      yaml("template_file", TEMPLATE),
    );
  assert.is(await expectStatus(put(), 201), "OK");
  assert.is(await expectStatus(put(), 200), "OK");
  assert.is((await expectStatus(json("GET", "/flows/acme/backend"), 200)).template, TEMPLATE);

  const begin = (fields: Json) => form("PUT", "/trails/acme/backend", "data_json", { name: "release-1", ...fields });
  assert.is(await expectStatus(begin({ description: "First release", ...COMMON }), 201), "OK");
  assert.is(await expectStatus(begin({ user_data: { by: "ci" } }), 200), "OK");
  assert.is((await expectStatus(json("GET", "/trails/acme/backend/release-1"), 200)).compliance_state, "INCOMPLETE");

  const attest = (kind: string, fields: Json, file?: { part: string; name: string; content: Buffer | string }) =>
    form("POST", `/attestations/acme/backend/trail/release-1/${kind}`, "data_json", { ...COMMON, ...fields }, file);
  // `backend.scan` arrives before the artifact `backend`: it is bound to the artifact of this name and commit later.
  const snyk_results = {
    schema_version: 1,
    tool: { name: "Snyk", version: "1.1290" },
    results: [{ high_count: 1, medium_count: 0, low_count: 0 }],
  };
  const scan = { attestation_name: "scan", target_artifacts: ["backend"], snyk_results };
  assert.is(
    await expectStatus(attest("snyk", scan, { part: "attachment_file", name: "snyk.sarif", content: SARIF_FILE }), 201),
    "OK",
  );

  await expectStatus(json("GET", `/artifacts/acme/backend/${FINGERPRINT}/latest_commit?branch=main`), 200);
  const artifact = {
    fingerprint: FINGERPRINT,
    filename: "registry.example.com/backend:1",
    git_commit: COMMIT.sha1,
    git_commit_info: COMMIT,
    build_url: "https://ci.example.com/17",
    commit_url: COMMIT.url,
    repo_url: REPO.url,
    repo_info: REPO,
    template_reference_name: "backend",
    trail_name: "release-1",
    user_data: {},
  };
  assert.is(await expectStatus(json("POST", "/artifacts/acme/backend", artifact), 201), "OK");

  const readVerdict = (query = ""): Promise<Json> =>
    expectStatus(json("GET", `/asserts/acme/fingerprint/${FINGERPRINT}${query}`), 200);
  let verdict = await readVerdict();
  assert.equal(
    { scope: verdict["scope"], compliant: verdict["compliant"], status: verdict["compliance_status"].status },
    { scope: "flow", compliant: false, status: "NON-COMPLIANT" },
  );
  assert.equal(statusesOf(verdict), [
    ["unit-tests", "MISSING", null, false],
    ["scan", "COMPLETE", false, false],
    ["review", "MISSING", null, false],
  ]);

  const override = {
    attestation_name: "scan",
    artifact_fingerprint: FINGERPRINT,
    reason: "Not reachable",
    new_compliance_status: true,
    original_attestation_type: "snyk",
  };
  assert.is(
    await expectStatus(
      json("POST", "/attestations/acme/backend/trail/release-1/override", { ...COMMON, ...override }),
      201,
    ),
    "OK",
  );
  verdict = await readVerdict();
  assert.equal(
    { compliant: verdict["compliant"], status: verdict["compliance_status"].status },
    { compliant: false, status: "INCOMPLETE" },
  );

  assert.is(
    await expectStatus(
      form(
        "PUT",
        "/policies/acme",
        "payload",
        { name: "production", description: "", type: "env", comment: "first" },
        yaml("policy_file", POLICY),
      ),
      201,
    ).then(({ name }) => name),
    "production",
  );
  verdict = await readVerdict("?policy_name=production");
  assert.equal(
    {
      scope: verdict["scope"],
      compliant: verdict["compliant"],
      status: verdict["policy_evaluations"][0].status,
      policy_version: verdict["policy_evaluations"][0].policy_version,
    },
    { scope: "policy", compliant: false, status: "NON-COMPLIANT", policy_version: 1 },
  );
  assert.equal(
    verdict["policy_evaluations"][0].rule_evaluations.map((rule: Json) => [
      rule["rule"].type,
      rule["satisfied"],
      rule["ignored"],
      rule["resolutions"][0].type,
    ]),
    [
      ["provenance", true, false, "rule_satisfied"],
      ["trail-compliance", false, false, "non_compliant_in_trail"],
      ["attestation", true, false, "rule_satisfied"],
      ["attestation", false, false, "missing_attestation"],
    ],
  );

  const suites = [
    { name: "unit", failures: 0, errors: 0, skipped: 1, total: 42, duration: 3.25, timestamp: 1_767_222_100 },
  ];
  const tests = {
    attestation_name: "unit-tests",
    artifact_fingerprint: FINGERPRINT,
    target_artifacts: ["backend"],
    junit_results: suites,
    annotations: { Suite: "unit" },
  };
  assert.is(
    await expectStatus(
      attest("junit", tests, { part: "attachment_file", name: "evidence.tgz", content: JUNIT_FILE }),
      201,
    ),
    "OK",
  );
  const pull_requests = [
    {
      url: "https://git.example.com/acme/backend/pull/17",
      state: "MERGED",
      author: "ada",
      title: "Pay faster",
      head_ref: "faster",
      base_ref: "main",
      created_at: 1_767_221_000,
      merged_at: 1_767_222_000,
      merge_commit: COMMIT.sha1,
      approvers: [{ username: "grace", state: "APPROVED", timestamp: 1_767_221_500 }],
      commits: [{ ...COMMIT, author_username: "ada", verified: true, signature_state: "VALID" }],
    },
  ];
  assert.is(
    await expectStatus(
      attest("pull_request", { attestation_name: "review", git_provider: "github", pull_requests }),
      201,
    ),
    "OK",
  );
  verdict = await readVerdict();
  assert.equal(
    { compliant: verdict["compliant"], status: verdict["compliance_status"].status },
    { compliant: true, status: "COMPLIANT" },
  );
  assert.equal(statusesOf(verdict), [
    ["unit-tests", "COMPLETE", true, false],
    ["scan", "COMPLETE", true, false],
    ["review", "COMPLETE", true, false],
  ]);
  verdict = await readVerdict("?policy_name=production");
  assert.equal(
    { compliant: verdict["compliant"], status: verdict["policy_evaluations"][0].status },
    { compliant: true, status: "COMPLIANT" },
  );

  // CLI commands without a payload send a literal null.
  assert.is(
    await expectStatus(form("PUT", "/flows/acme/template_file", "data_json", { name: "old", description: "" }), 201),
    "OK",
  );
  await expectStatus(json("PUT", "/flows/acme/old/archive", null), 200);
  const gone = await expectStatus(json("GET", "/flows/acme/old"), 404);
  assert.equal(gone, { message: "Flow named 'old' has been archived for organization 'acme'" });

  const [record] = await expectStatus(
    json("GET", `/attestations/acme/backend/artifact/${FINGERPRINT}/unit-tests`),
    200,
  );
  assert.equal(
    {
      evidence_archive_fingerprint: record.evidence_archive_fingerprint,
      junit_results: record.junit_results,
      annotations: record.annotations,
      sha1: record.git_commit_info.sha1,
      reported_by: record.reported_by,
    },
    {
      evidence_archive_fingerprint: sha256(JUNIT_FILE),
      junit_results: suites,
      annotations: { Suite: "unit" },
      sha1: COMMIT.sha1,
      reported_by: "ci-bot",
    },
  );
  return new URL(record._links.evidence.href).pathname.replace("/api/v2", "");
}

async function expectEvidence({ json }: Client, path: string): Promise<void> {
  const { status, headers, bytes } = await json("GET", path);
  assert.is(status, 200);
  assert.is(sha256(bytes), sha256(JUNIT_FILE));
  assert.equal(
    {
      "Content-Disposition": headers.get("Content-Disposition"),
      "Content-Type": headers.get("Content-Type"),
      ETag: headers.get("ETag"),
    },
    {
      "Content-Disposition": 'attachment; filename="evidence.tgz"',
      "Content-Type": "application/octet-stream",
      ETag: `"${sha256(JUNIT_FILE)}"`,
    },
  );
}

/** Starts a server on the test's data. The port changes; the links in its responses use the base URL and do not. */
const serve = (directory: string, ...more: string[]): Promise<Running> =>
  start([
    "serve",
    "--data",
    join(directory, "data"),
    "--listen",
    "127.0.0.1:0",
    "--base-url",
    "https://assay.example.com",
    ...more,
  ]);

/** Writes the apply file and returns its path. */
function writeApplyFile(directory: string): string {
  const file = join(directory, "apply.yml");
  writeFileSync(file, APPLY);
  return file;
}

test("takes a release from an empty directory to its verdict, and gives the same responses after a restart", () =>
  inDirectory(async (directory) => {
    let server = await serve(directory, "--bootstrap", writeApplyFile(directory));
    let client = createClient(server.url, KEY);
    const evidence = await release(client);
    await expectEvidence(client, evidence);
    const before = await readAll(client);
    assert.equal(
      {
        ofFlow: before["ofFlow"].pagination.total,
        attestations: before["attestations"].data.length,
        ofCommit: before["ofCommit"][COMMIT.sha1].length,
        repos: before["trail"].repo_ids.length,
      },
      { ofFlow: 4, attestations: 4, ofCommit: 1, repos: 1 },
    );
    assert.equal(
      before["trail"].events.map(({ type }: Json) => type),
      [
        "trail_reported",
        "trail_updated",
        "trail_attestation_for_artifact_reported",
        "artifact_creation_reported",
        "artifact_attestation_reported",
        "artifact_attestation_reported",
        "trail_attestation_reported",
      ],
    );
    assert.equal(
      before["policy"].versions.map(({ policy_yaml }: Json) => policy_yaml),
      [POLICY],
    );
    assert.match(before["assertion"].html_url, /^https:\/\/assay\.example\.com\/acme\//);
    assert.equal(await server.stop(), { code: 0, signal: null }, server.output());

    // Keys never reach the log.
    assert.not.match(server.output(), KEY);

    server = await serve(directory);
    client = createClient(server.url, KEY);
    assert.equal(await readAll(client), before);
    await expectEvidence(client, evidence);
    assert.is((await client.json("GET", "/attestations/acme")).status, 200);
    assert.is((await createClient(server.url, `${KEY}x`).json("GET", "/attestations/acme")).status, 401);
    assert.is((await server.stop()).code, 0);
  }));

test("applies a file to a running server, and keeps everything acknowledged when it is killed", () =>
  inDirectory(async (directory) => {
    let server = await serve(directory);
    const applied = await run(["apply", writeApplyFile(directory), "--data", join(directory, "data")]);
    assert.is(applied.code, 0, applied.stderr);
    let client = createClient(server.url, KEY);
    const evidence = await release(client);
    const before = await readAll(client);
    await server.stop("SIGKILL");
    server = await serve(directory);
    client = createClient(server.url, KEY);
    assert.equal(await readAll(client), before);
    await expectEvidence(client, evidence);
    assert.is((await server.stop()).code, 0);
  }));

test.run();
