/** Every kind: reported, stored, evaluated and read; and the refusals of each kind. */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { fresh, freshCommit, startServer } from "../../given.ts";
import type { Answer, TestServer } from "../../given.ts";

const test = suite("api/attestations/kinds");
let server: TestServer;
test.before(async () => void (server = await startServer()));
test.after(() => server.stop());

type Place = { org: string; key: string; flow: string };
type Json = Record<string, unknown>;
const ID = /^[a-f0-9]{8}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{8}$/;
const NAME_PATTERN = String.raw`'^[a-zA-Z0-9\-_,]+$'`;

async function place(): Promise<Place> {
  const at = server.given.org();
  return { ...at, flow: await server.given.flow(at) };
}
const post = (at: Place, kind: string, json: unknown, trail = "t"): Promise<Answer> =>
  server.call("POST", `/attestations/${at.org}/${at.flow}/trail/${trail}/${kind}`, {
    key: at.key,
    ...(kind === "override" ? { body: json } : { form: { json } }),
  });
const byId = async (at: Place, id: string) =>
  (await server.call("GET", `/attestations/${at.org}?attestation_id=${id}`, { key: at.key })).body.data[0];
const count = (table: string): number => server.db.prepare(`SELECT count(*) FROM ${table}`).pluck().get() as number;
const EVERYTHING = [
  "trails",
  "trail_events",
  "attestations",
  "current_attestations",
  "pending_bindings",
  "attestation_bindings",
  "repos",
  "audit_log",
];

/** Asserts a refusal with its whole body that leaves nothing behind. */
async function refuses(at: Place, kind: string, json: unknown, errors: Record<string, string>): Promise<void> {
  const before = EVERYTHING.map(count);
  const answer = await post(at, kind, json);
  assert.equal(answer.body, { message: "Input payload validation failed", errors });
  assert.is(answer.status, 400);
  assert.equal(EVERYTHING.map(count), before, "a refusal leaves nothing");
}

/** The kind's own fields of a record, and the payload of a minimal report. */
const COMMON_KEYS = new Set([
  "schema_version",
  "attestation_type",
  "attestation_name",
  "attestation_id",
  "is_compliant",
  "origin_url",
  "description",
  "artifact_fingerprint",
  "target_artifacts",
  "git_commit_info",
  "external_urls",
  "annotations",
  "user_data",
  "evidence_archive_path",
  "evidence_archive_fingerprint",
  "created_at",
  "html_url",
  "flow_name",
  "trail_name",
  "reported_by",
  "has_audit_package",
  "_links",
]);
const factsOf = (record: Json): Json =>
  Object.fromEntries(Object.entries(record).filter(([key]) => !COMMON_KEYS.has(key)));

const SUITE = { name: "unit", failures: 0, errors: 0, skipped: 0, total: 3, duration: 0.5 };
const TOOL = { name: "Snyk", version: "1.2" };
const CLEAN = { low_count: 0, medium_count: 0, high_count: 0 };
const SCAN = {
  analysedAt: "2026-01-31T12:00:00+0000",
  revision: "abc",
  project: { key: "k", name: "K", url: "https://sonar/k" },
};
const ISSUE = { issue_id: "PAY-1", issue_url: "https://jira/PAY-1", issue_exists: true };
const PR_V1 = { url: "https://git/pull/1", state: "MERGED", merge_commit: "" };
const PR_V2 = { url: "https://git/pull/2", state: "MERGED", author: "", commits: [] };

const PAYLOADS: Record<string, Json> = {
  generic: { is_compliant: true },
  junit: { junit_results: [SUITE] },
  snyk: { snyk_results: { schema_version: 1, tool: TOOL, results: [CLEAN] } },
  sonar: { sonar_results: { ...SCAN, qualityGate: { status: "OK", conditions: [] } } },
  jira: { jira_results: [ISSUE] },
  pull_request: { git_provider: "github", pull_requests: [PR_V2] },
  override: { reason: "accepted", new_compliance_status: true, original_attestation_type: "snyk" },
};

const FULL_COMMIT = {
  sha1: "0f5c9a1d2b3e4f5061728394a5b6c7d8e9f00112",
  message: "Pay faster\n\nMuch faster",
  author: "Ada <ada@example.com>",
  author_username: "ada",
  branch: "main",
  timestamp: 1_700_000_000,
  url: "https://git/commit/0f5c9",
  parents: ["1".repeat(40)],
  verified: true,
  signature_state: "valid",
};

for (const [kind, payload] of Object.entries(PAYLOADS)) {
  test(`${kind}: a read by id returns every reported field`, async () => {
    const at = await place();
    const commit = { ...FULL_COMMIT, sha1: freshCommit() };
    const fingerprint = await server.given.artifact(at, {
      flow: at.flow,
      trail: "release-1",
      name: "app",
      commit: commit.sha1,
    });
    const answer = await post(
      at,
      kind,
      {
        attestation_name: "check,1_a-b",
        description: "What was checked",
        origin_url: "https://ci/1",
        artifact_fingerprint: fingerprint,
        target_artifacts: ["app"],
        git_commit_info: commit,
        annotations: { Reason: "because", "a-b_1": "" },
        external_urls: {
          log: { href: "https://log", fingerprint: "a".repeat(64) },
          "two words": { href: "https://x" },
        },
        user_data: { list: [1, null, "ü"], "": {} },
        repo_info: { name: "acme/pay", url: "https://git/acme/pay" },
        ...payload,
      },
      "release-1",
    );
    assert.is(answer.status, 201, answer.text);
    assert.is(answer.body, "OK");
    const id = server.db.prepare("SELECT public_id FROM attestations ORDER BY id DESC").pluck().get() as string;
    assert.match(id, ID);
    const record = await byId(at, id);
    const { created_at, ...rest } = record;
    assert.type(created_at, "number");
    assert.equal(rest, {
      ...factsOf(record),
      schema_version: 2,
      attestation_type: kind,
      attestation_name: "check,1_a-b",
      attestation_id: id,
      is_compliant: true,
      origin_url: "https://ci/1",
      description: "What was checked",
      artifact_fingerprint: fingerprint,
      target_artifacts: ["app"],
      git_commit_info: commit,
      external_urls: { log: { href: "https://log", fingerprint: "a".repeat(64) }, "two words": { href: "https://x" } },
      annotations: { Reason: "because", "a-b_1": "" },
      user_data: { list: [1, null, "ü"], "": {} },
      evidence_archive_path: null,
      evidence_archive_fingerprint: null,
      html_url: `http://assay.test/${at.org}/flows/${at.flow}/trails/release-1?attestation_id=${id}`,
      flow_name: at.flow,
      trail_name: "release-1",
      reported_by: `${at.org}-admin`,
      has_audit_package: true,
      _links: { self: { href: `http://assay.test/api/v2/attestations/${at.org}?attestation_id=${id}` } },
    });
  });

  test(`${kind}: accepts a minimal report, with optional fields absent or null`, async () => {
    const at = await place();
    const nothing = {
      description: null,
      origin_url: null,
      artifact_fingerprint: null,
      target_artifacts: null,
      git_commit_info: null,
      repo_info: null,
      external_urls: null,
      annotations: null,
      user_data: null,
    };
    for (const fields of [{}, nothing]) {
      const id = await server.given.attestation(at, {
        flow: at.flow,
        trail: "t",
        kind,
        name: "a",
        ...payload,
        ...fields,
      });
      const record = await byId(at, id);
      const shown = Object.fromEntries(
        Object.keys(nothing)
          .filter((key) => key !== "repo_info")
          .map((key) => [key, record[key]]),
      );
      const { repo_info: _, ...expected } = nothing;
      assert.equal(shown, { ...expected, annotations: {} });
    }
  });

  test(`${kind}: has the refusals of every kind`, async () => {
    const at = await place();
    const fields: [Json, Record<string, string>][] = [
      [{ attestation_name: "a.b" }, { attestation_name: `String should match pattern ${NAME_PATTERN} [input: a.b]` }],
      [{ attestation_name: "" }, { attestation_name: `String should match pattern ${NAME_PATTERN} [input: ]` }],
      [
        { attestation_name: "a\n" },
        { attestation_name: `String should match pattern ${NAME_PATTERN} [input: a\\u000a]` },
      ],
      [{ attestation_name: 7 }, { attestation_name: "Input should be a valid string [input: 7]" }],
      [
        { artifact_fingerprint: "ABC" },
        { artifact_fingerprint: "String should match pattern '^[a-f0-9]{64}$' [input: ABC]" },
      ],
      [
        { target_artifacts: ["a b"] },
        { "target_artifacts.0": `String should match pattern ${NAME_PATTERN} [input: a b]` },
      ],
      [{ target_artifacts: "app" }, { target_artifacts: "Input should be a valid array [input: app]" }],
      [{ git_commit_info: {} }, { "git_commit_info.sha1": "Field required" }],
      [{ annotations: { "a b": "x" } }, { "annotations.a b": "Extra inputs are not permitted [input: x]" }],
      [{ annotations: { a: 1 } }, { "annotations.a": "Input should be a valid string [input: 1]" }],
      [
        { external_urls: { "a.b": { href: "x" } } },
        { "external_urls.a.b": 'Extra inputs are not permitted [input: {"href":"x"}]' },
      ],
      [
        { external_urls: { a: { fingerprint: "f" } } },
        {
          "external_urls.a.href": "Field required",
          "external_urls.a.fingerprint": "String should match pattern '^[a-f0-9]{64}$' [input: f]",
        },
      ],
      [{ user_data: "text" }, { user_data: "Input should be a valid object or array [input: text]" }],
      [{ user_data: { a: "\u0000" } }, { "user_data.a": "String should not contain a NUL character" }],
      [{ repo_info: { id: "1", name: "n", url: "nowhere" } }, { "repo_info.url": "" }],
      [
        { artefact_fingerprint: "x" },
        { artefact_fingerprint: "Extra inputs are not permitted. Did you mean 'artifact_fingerprint'?" },
      ],
    ];
    for (const [wrong, errors] of fields) {
      if (errors["repo_info.url"] === "") {
        const before = EVERYTHING.map(count);
        const answer = await post(at, kind, { attestation_name: "a", ...payload, ...wrong });
        assert.is(answer.status, 400);
        assert.equal(Object.keys(answer.body.errors), ["repo_info.url"]);
        assert.match(answer.body.errors["repo_info.url"], /\[input: nowhere\]$/);
        assert.equal(EVERYTHING.map(count), before);
      } else await refuses(at, kind, { attestation_name: "a", ...payload, ...wrong }, errors);
    }
    const missing = Object.fromEntries(
      ["attestation_name", ...Object.keys(payload)].map((key) => [key, "Field required"]),
    );
    await refuses(at, kind, {}, missing);
  });
}

/** Payload, verdict and the kind's fields of the record; one line for each rule. */
type Case = [what: string, payload: Json, isCompliant: boolean, facts?: Json];
const testVerdicts = (kind: string, cases: Case[]): void => {
  for (const [what, payload, isCompliant, facts] of cases)
    test(`${kind}: ${what} is ${isCompliant ? "" : "not "}compliant`, async () => {
      const at = await place();
      const trail = fresh("trail");
      const record = await byId(
        at,
        await server.given.attestation(at, { flow: at.flow, trail, kind, name: "a", ...payload }),
      );
      assert.is(record.is_compliant, isCompliant);
      assert.equal(factsOf(record), facts ?? payload);
      const { body } = await server.call("GET", `/trails/${at.org}/${at.flow}/${trail}`, { key: at.key });
      assert.is(body.compliance_state, isCompliant ? "COMPLIANT" : "NON-COMPLIANT");
    });
};

testVerdicts("generic", [
  ["a positive report", { is_compliant: true }, true, {}],
  ["a negative report", { is_compliant: false }, false, {}],
]);

testVerdicts("junit", [
  [
    "clean suites, with skipped tests",
    {
      junit_results: [
        { ...SUITE, skipped: 3 },
        { ...SUITE, timestamp: 1.5 },
        { ...SUITE, timestamp: null },
      ],
    },
    true,
  ],
  ["one failure", { junit_results: [SUITE, { ...SUITE, failures: 1 }] }, false],
  ["one error", { junit_results: [{ ...SUITE, errors: 1 }, SUITE] }, false],
]);

const issue = {
  id: "SNYK-1",
  message: "m",
  locations: [{ uri: "a.js", lines: "12-15" }, { uri: "b.js" }],
  priority_score: 7.5,
  more: true,
};
testVerdicts("snyk", [
  [
    "a scan without findings",
    { snyk_results: { schema_version: 1, tool: TOOL, results: [CLEAN] } },
    true,
    { processed_snyk_results: { schema_version: 1, tool: TOOL, results: [CLEAN] } },
  ],
  [
    "no results; schema_version is 1 unless told",
    { snyk_results: { tool: TOOL, results: [] } },
    true,
    { processed_snyk_results: { schema_version: 1, tool: TOOL, results: [] } },
  ],
  ...(["low_count", "medium_count", "high_count"] as const).map((severity): Case => {
    const results = [CLEAN, { ...CLEAN, [severity]: 1, low: [issue], medium: null, high: [] }];
    return [
      `one finding in ${severity}`,
      { snyk_results: { tool: TOOL, results } },
      false,
      { processed_snyk_results: { schema_version: 1, tool: TOOL, results } },
    ];
  }),
  [
    "samples without a count",
    { snyk_results: { tool: TOOL, results: [{ ...CLEAN, high: [issue] }] } },
    true,
    { processed_snyk_results: { schema_version: 1, tool: TOOL, results: [{ ...CLEAN, high: [issue] }] } },
  ],
]);

const gated = (status: string) => ({
  sonar_results: {
    ...SCAN,
    serverUrl: "https://sonar",
    taskId: null,
    status: "SUCCESS",
    changedAt: null,
    branch: { name: "main", type: "LONG" },
    pullRequest: "17",
    qualityGate: {
      name: null,
      status,
      conditions: [
        { metric: "m", errorThreshold: "1", operator: "LT", status: "OK", value: null, onLeakPeriod: false, extra: 1 },
      ],
      more: {},
    },
  },
});
testVerdicts("sonar", [
  ["a gate with OK", gated("OK"), true],
  ["a gate with PASSED", gated("PASSED"), true],
  ["a gate with ERROR", gated("ERROR"), false],
  ["a gate with ok in lower case", gated("ok"), false],
  ["a scan without a gate", { sonar_results: SCAN }, false],
  ["a gate that is null", { sonar_results: { ...SCAN, qualityGate: null } }, false],
]);

testVerdicts("jira", [
  [
    "an issue that exists, with fields",
    { jira_results: [{ ...ISSUE, issue_fields: { status: { name: "Done" } } }] },
    true,
  ],
  [
    "one issue of two that does not exist",
    { jira_results: [ISSUE, { ...ISSUE, issue_id: "PAY-2", issue_exists: false }] },
    false,
  ],
  ["no reference at all", { jira_results: [] }, false],
]);

const prCommit = {
  sha1: "1".repeat(40),
  author: "Ada",
  author_username: "ada",
  message: "m",
  branch: "",
  timestamp: 5,
  verified: true,
  signature_state: "valid",
};
testVerdicts("pull_request", [
  [
    "the older form; its approvers are shown in the newer one",
    {
      git_provider: "bitbucket",
      pull_requests: [
        { ...PR_V1, approvers: ["grace", "alan"] },
        { ...PR_V1, merge_commit: "a".repeat(40), approvers: null },
        PR_V1,
      ],
    },
    true,
    {
      git_provider: "bitbucket",
      pull_requests: [
        { ...PR_V1, author: "", commits: [], approvers: [{ username: "grace" }, { username: "alan" }] },
        { ...PR_V1, merge_commit: "a".repeat(40), author: "", commits: [], approvers: [] },
        { ...PR_V1, author: "", commits: [], approvers: [] },
      ],
    },
  ],
  [
    "the newer form with everything",
    {
      git_provider: "github",
      pull_requests: [
        {
          ...PR_V2,
          author: "ada",
          title: "T",
          created_at: 1,
          merged_at: 2.5,
          head_ref: "feature",
          base_ref: "main",
          merge_commit: "b".repeat(40),
          approvers: [{ username: "grace", state: "APPROVED", timestamp: 3 }, { username: "alan" }, "old"],
          commits: [prCommit, { sha1: "2".repeat(40), verified: false, signature_state: null }],
        },
      ],
    },
    true,
    {
      git_provider: "github",
      pull_requests: [
        {
          ...PR_V2,
          author: "ada",
          title: "T",
          created_at: 1,
          merged_at: 2.5,
          head_ref: "feature",
          base_ref: "main",
          merge_commit: "b".repeat(40),
          approvers: [
            { username: "grace", state: "APPROVED", timestamp: 3 },
            { username: "alan" },
            { username: "old" },
          ],
          commits: [prCommit, { sha1: "2".repeat(40), verified: false, signature_state: null, author_username: null }],
        },
      ],
    },
  ],
  [
    "an open one that nobody approved, with nulls",
    {
      git_provider: "azure",
      pull_requests: [
        {
          ...PR_V2,
          state: "open",
          approvers: null,
          base_ref: null,
          head_ref: null,
          merged_at: null,
          created_at: null,
          title: null,
          merge_commit: null,
        },
      ],
    },
    true,
    {
      git_provider: "azure",
      pull_requests: [
        {
          ...PR_V2,
          state: "open",
          approvers: [],
          base_ref: null,
          head_ref: null,
          merged_at: null,
          created_at: null,
          title: null,
          merge_commit: null,
        },
      ],
    },
  ],
  ...[
    {
      ...PR_V2,
      head_sha: "c".repeat(40),
      labels: ["urgent"],
      milestone: null,
      approvers: [{ username: "grace", commit_sha: "c".repeat(40), node_id: 7 }],
      reviews: [
        {
          username: "grace",
          state: "APPROVED",
          timestamp: 3,
          commit_sha: "c".repeat(40),
          author_type: "user",
          has_write_access: true,
          body: "LGTM",
        },
        { username: null, state: null, timestamp: null, commit_sha: null, author_type: null, has_write_access: null },
        {},
      ],
      commits: [{ ...prCommit, signer_username: "ada", signed_by_platform: false, tree: { sha: "d" } }],
    },
    { ...PR_V2, head_sha: null, reviews: null, approvers: [] },
    { ...PR_V1, author: "", commits: [], approvers: [], head_sha: "c".repeat(40), reviews: [], more: 1 },
  ].map((found): [string, Json, boolean, Json] => {
    const payload = { git_provider: "github", pull_requests: [found] };
    const keys = Object.keys(found).join(", ");
    return [`keys of newer clients and unknown ones, kept and returned: ${keys}`, payload, true, payload];
  }),
  ["no pull request", { git_provider: "gitlab", pull_requests: [] }, false],
]);

testVerdicts("override", [
  ["an override to true", { reason: "r", new_compliance_status: true, original_attestation_type: "snyk" }, true],
  [
    "an override to false",
    { reason: "r", new_compliance_status: false, original_attestation_type: "custom:cov" },
    false,
  ],
]);

const refused = (kind: string, cases: [Json, Record<string, string>][]): void => {
  test(`${kind}: refuses invalid payloads by field`, async () => {
    const at = await place();
    for (const [payload, errors] of cases) await refuses(at, kind, { attestation_name: "a", ...payload }, errors);
  });
};

refused("generic", [
  [{ is_compliant: "true" }, { is_compliant: "Input should be a valid boolean [input: true]" }],
  [{ is_compliant: null }, { is_compliant: "Input should be a valid boolean [input: null]" }],
]);
refused("junit", [
  [{ junit_results: [] }, { junit_results: "List should have at least 1 item [input: []]" }],
  [
    { junit_results: [{ ...SUITE, failures: 1.5 }] },
    { "junit_results.0.failures": "Input should be a valid integer [input: 1.5]" },
  ],
  [
    { junit_results: [{ ...SUITE, failures: -1 }] },
    { "junit_results.0.failures": "Input should be greater than or equal to 0 [input: -1]" },
  ],
  [
    { junit_results: [{ ...SUITE, time: 1 }] },
    {
      "junit_results.0.time":
        "Extra inputs are not permitted [input: 1]" +
        "; possible keys: name, failures, errors, skipped, total, duration, timestamp",
    },
  ],
  [
    { junit_results: [{ name: "s" }] },
    Object.fromEntries(
      ["failures", "errors", "skipped", "total", "duration"].map((key) => [`junit_results.0.${key}`, "Field required"]),
    ),
  ],
]);
refused("snyk", [
  [{ snyk_results: {} }, { "snyk_results.tool": "Field required", "snyk_results.results": "Field required" }],
  [
    { snyk_results: { tool: TOOL, results: [{ low_count: 1 }] } },
    { "snyk_results.results.0.medium_count": "Field required", "snyk_results.results.0.high_count": "Field required" },
  ],
  [
    { snyk_results: { tool: TOOL, results: [], more: 1 } },
    { "snyk_results.more": "Extra inputs are not permitted [input: 1]; possible keys: schema_version, tool, results" },
  ],
  [
    { snyk_results: { tool: TOOL, results: [{ ...CLEAN, critical_count: 1 }] } },
    {
      "snyk_results.results.0.critical_count":
        "Extra inputs are not permitted [input: 1]" +
        "; possible keys: low_count, medium_count, high_count, low, medium, high",
    },
  ],
  [
    { snyk_results: { tool: { ...TOOL, vendor: "v" }, results: [] } },
    { "snyk_results.tool.vendor": "Extra inputs are not permitted [input: v]; possible keys: name, version" },
  ],
]);
refused("sonar", [
  [
    { sonar_results: {} },
    {
      "sonar_results.analysedAt": "Field required",
      "sonar_results.revision": "Field required",
      "sonar_results.project": "Field required",
    },
  ],
  [{ sonar_results: { ...SCAN, qualityGate: {} } }, { "sonar_results.qualityGate.status": "Field required" }],
]);
refused("jira", [
  [
    { jira_results: [{ issue_id: "A-1" }] },
    { "jira_results.0.issue_url": "Field required", "jira_results.0.issue_exists": "Field required" },
  ],
  [
    { jira_results: [{ ...ISSUE, summary: "s" }] },
    {
      "jira_results.0.summary":
        "Extra inputs are not permitted [input: s]; possible keys: issue_id, issue_url, issue_exists, issue_fields",
    },
  ],
  [{ jira_results: null }, { jira_results: "Input should be a valid array [input: null]" }],
]);
refused("pull_request", [
  [
    { git_provider: "gitea", pull_requests: [] },
    { git_provider: "Input should be 'github', 'gitlab', 'bitbucket' or 'azure' [input: gitea]" },
  ],
  [
    { git_provider: "github", pull_requests: [{ ...PR_V2, commits: undefined }] },
    { "pull_requests.0.commits": "Field required" },
  ],
  [
    { git_provider: "github", pull_requests: [{ ...PR_V2, author: undefined }] },
    { "pull_requests.0.author": "Field required" },
  ],
  [
    { git_provider: "github", pull_requests: [{ ...PR_V2, head_sha: 1 }] },
    { "pull_requests.0.head_sha": "Input should be a valid string [input: 1]" },
  ],
  [
    { git_provider: "github", pull_requests: [{ ...PR_V1, title: 1 }] },
    { "pull_requests.0.title": "Input should be a valid string [input: 1]" },
  ],
  [
    {
      git_provider: "github",
      pull_requests: [{ ...PR_V2, merge_commit: "a".repeat(40), reviews: [{ has_write_access: "yes" }] }],
    },
    { "pull_requests.0.reviews.0.has_write_access": "Input should be a valid boolean [input: yes]" },
  ],
  [
    { git_provider: "github", pull_requests: [{ ...PR_V2, approvers: [{ username: "grace", commit_sha: 1 }] }] },
    { "pull_requests.0.approvers.0.commit_sha": "Input should be a valid string [input: 1]" },
  ],
  [
    { git_provider: "github", pull_requests: [{ ...PR_V2, merge_commit: "abc" }] },
    { "pull_requests.0.merge_commit": "String should match pattern '^([a-f0-9]{40})?$' [input: abc]" },
  ],
  [
    { git_provider: "github", pull_requests: [{ ...PR_V2, commits: [{ message: "m" }] }] },
    { "pull_requests.0.commits.0.sha1": "Field required" },
  ],
  [
    { git_provider: "github", pull_requests: [{ ...PR_V2, approvers: [{ state: "APPROVED" }] }] },
    { "pull_requests.0.approvers.0.username": "Field required" },
  ],
]);
refused("override", [
  [
    { reason: "", new_compliance_status: true, original_attestation_type: "snyk" },
    { reason: "String should have at least 1 character [input: ]" },
  ],
  ...["*", "pull-request", "override", "artifact", "Snyk", ""].map((word): [Json, Record<string, string>] => [
    { reason: "r", new_compliance_status: true, original_attestation_type: word },
    {
      original_attestation_type:
        "String should match pattern " +
        `'^(generic|junit|snyk|pull_request|jira|sonar|decision|sbom|custom|custom:.*|system:.*)$' [input: ${word}]`,
    },
  ]),
]);

test("an override accepts every name of an original's type", async () => {
  const at = await place();
  for (const word of [
    "generic",
    "junit",
    "snyk",
    "pull_request",
    "jira",
    "sonar",
    "decision",
    "custom",
    "custom:cov.1",
    "custom:*",
    "sbom",
    "system:decision",
    "system:sbom",
    "system:*",
  ]) {
    const answer = await post(at, "override", {
      attestation_name: fresh("a"),
      reason: "r",
      new_compliance_status: true,
      original_attestation_type: word,
    });
    assert.is(answer.status, 201, `${word}: ${answer.text}`);
  }
});

test("refuses bodies of the wrong form with the expected one", async () => {
  const at = await place();
  const path = `/attestations/${at.org}/${at.flow}/trail/t`;
  const send = (kind: string, options: object) => server.call("POST", `${path}/${kind}`, { key: at.key, ...options });
  const before = EVERYTHING.map(count);
  const cases: [Answer, unknown][] = [
    [
      await send("generic", { body: { attestation_name: "a", is_compliant: true } }),
      { message: "Content-Type should be multipart/form-data with the part 'data_json'" },
    ],
    [await send("generic", { form: { json: { attestation_name: "a" }, field: "data" } }), null],
    [await send("generic", { form: { json: "{" } }), null],
    [
      await send("generic", { form: { json: [1] } }),
      {
        message: "Input payload validation failed",
        errors: { data_json: "Input should be a valid object [input: [1]]" },
      },
    ],
    [
      await send("generic", {
        form: {
          json: { attestation_name: "a", is_compliant: true },
          file: { name: "evidence", filename: "x", content: "x" },
        },
      }),
      null,
    ],
    [await send("override", {}), { message: "A JSON body is required: the request has none" }],
    [
      await send("override", { raw: "null", headers: { "Content-Type": "application/json" } }),
      { message: "A JSON body is required: the request has none" },
    ],
  ];
  for (const [answer, body] of cases) {
    assert.is(answer.status, 400, answer.text);
    if (body) assert.equal(answer.body, body);
  }
  const unknown = await send("sbom", { body: {} });
  assert.is(unknown.status, 405, "the path is that of a read by name");
  assert.equal(EVERYTHING.map(count), before);
});

test("the examples of the reference work unchanged", async () => {
  const { operations } = await import("../../../src/api/index.ts");
  const at = await place();
  for (const operation of operations.filter(({ path }) =>
    path.startsWith("/attestations/{org}/{flow_name}/trail/{trail_name}/"),
  )) {
    if (operation.method !== "POST") continue;
    const { body, file } = operation.example;
    const kind = operation.path.split("/").at(-1) as string;
    if (!(kind in PAYLOADS)) continue;
    const options =
      operation.body.kind === "form"
        ? { form: { json: body, ...(file ? { file: { name: "attachment_file", filename: "e", content: file } } : {}) } }
        : { body };
    const answer = await server.call("POST", `/attestations/${at.org}/${at.flow}/trail/t/${kind}`, {
      key: at.key,
      ...options,
    });
    assert.is(answer.status, 201, answer.text);
  }
});

test.run();
