// The requests sent to a program of each schema version, so that its database has rows in every table that its API
// fills; each version gets the parts that it supports. And the requests that read them back: the responses are stored
// beside the database, and later programs must give the same ones.

import { createHmac, hash } from "node:crypto";
import type { Client } from "../../binary/client.ts";
import { expectStatus } from "../../binary/client.ts";

/** The schema versions from which parts of the story apply. */
const RUNTIME = 2;
export const WHOLE_API = 3;
export const WITHOUT_TRAILS = 4;
const WITHOUT_COMMIT = 8;
const IGNORES_KEYS = 10;
const REGO = 12;
const VIEWS = 14;
const DAILY_CHANGES = 15;

const COMMIT = "0f5c9a1d2b3e4f5061728394a5b6c7d8e9f00112";
const LATER = "1f5c9a1d2b3e4f5061728394a5b6c7d8e9f00113";
const REPO = { id: "4711", name: "acme/web/shop", url: "https://git.example.com/acme/web/shop", provider: "gitlab" };
const INFO = {
  sha1: COMMIT,
  message: "Round half to even",
  author: "Ada <ada@example.com>",
  branch: "main",
  timestamp: 1_700_000_000,
  url: `${REPO.url}/-/commit/${COMMIT}`,
};
const COMMON = {
  origin_url: "https://ci.example.com/17",
  git_commit_info: INFO,
  repo_info: REPO,
  user_data: { by: "ci", run: 17 },
};
const GOOD = "a1".repeat(32);
const BAD = "b2".repeat(32);
const STRAY = "c3".repeat(32);
const LEGACY = "d4".repeat(32);
/** Runs under a policy about trails, and was reported without one. */
export const WITHOUT_TRAIL = "e5".repeat(32);
/** Reported to two trails of a flow, and then to the first of them again. */
export const AGAIN = "f6".repeat(32);
/** Reported without a commit. */
const UNCOMMITTED = "08".repeat(32);

const TEMPLATE = `# what a release of the shop needs
version: 1
trail:
  attestations: [{ name: review, type: pull_request }, { name: ticket, type: jira }]
  artifacts:
    - name: shop
      attestations: [{ name: unit-tests, type: junit }, { name: scan, type: snyk }]
`;
const policy = (rules: string): string => `_schema: https://example.com/schemas/policy/v1\nartifacts:\n${rules}`;
const TESTED = policy(
  "  provenance:\n    required: true\n  attestations:\n    - name: unit-tests\n      type: junit\n",
);
const LOOSER = policy(
  "  attestations:\n    - name: unit-tests\n      type: junit\n" +
    '      if: ${{ not matches(artifact.name, "^tools/") }}\n',
);

const junit = (failures: number) => ({
  junit_results: [{ name: "unit", failures, errors: 0, skipped: 1, total: 42, duration: 3.5 }],
});
const snyk = (high: number) => ({
  snyk_results: {
    schema_version: 1,
    tool: { name: "Snyk", version: "1.1290" },
    results: [{ high_count: high, medium_count: 1, low_count: 2 }],
  },
});
const PULL_REQUEST = {
  git_provider: "github",
  pull_requests: [
    {
      url: "https://git.example.com/pull/17",
      state: "MERGED",
      author: "ada",
      title: "Round half to even",
      merge_commit: COMMIT,
      base_ref: "main",
      approvers: [{ username: "grace", state: "APPROVED", timestamp: 1_699_999_000 }],
      commits: [
        {
          sha1: COMMIT,
          message: "Round half to even",
          author: "Ada <ada@example.com>",
          branch: "main",
          timestamp: 1_699_998_000,
          url: `${REPO.url}/-/commit/${COMMIT}`,
        },
      ],
    },
  ],
};
const SONAR = {
  sonar_results: {
    analysedAt: "2026-01-31T12:00:00+0000",
    revision: COMMIT,
    project: { key: "shop", name: "Shop", url: "https://sonar.example.com/dashboard?id=shop" },
    qualityGate: { name: "Sonar way", status: "ERROR", conditions: [] },
  },
};

/** The key of the service account that reports builds, and the file that creates both (`--bootstrap`). */
export const BOT_KEY = "key-of-the-builds-in-the-fixtures-0123456789";
export const ACCOUNTS =
  "organizations: [{name: acme, service_accounts: [{name: build-bot, privilege: member, " +
  `api_keys: [{description: builds, key: "${BOT_KEY}"}]}]}]\n`;

/**
 * Sends the story to an empty organization `acme`.
 * @param bot sends requests as a service account @param era the schema version of the program
 */
export async function tell(client: Client, bot: Client, era: number): Promise<void> {
  const { json, form } = client;
  const ok = (answer: ReturnType<Client["json"]>, status = 201) => expectStatus(answer, status);
  const attest = (trail: string, kind: string, fields: object, content?: string) =>
    ok(
      bot.form(
        "POST",
        `/attestations/acme/shop/trail/${trail}/${kind}`,
        "data_json",
        { ...COMMON, ...fields },
        content === undefined ? undefined : { part: "attachment_file", name: `${kind}.txt`, content },
      ),
    );
  const artifact = (fingerprint: string, trail: string | null, fields: object = {}) =>
    ok(
      json("POST", "/artifacts/acme/shop", {
        fingerprint,
        filename: "registry.example.com/shop:1",
        git_commit: COMMIT,
        git_commit_info: INFO,
        build_url: "https://ci.example.com/17",
        commit_url: INFO.url,
        repo_url: REPO.url,
        repo_info: REPO,
        ...(trail === null ? {} : { trail_name: trail, template_reference_name: "shop" }),
        ...fields,
      }),
    );
  const put = (name: string, yaml: string, comment: string, status: number) =>
    ok(
      form(
        "PUT",
        "/policies/acme",
        "payload",
        { name, description: "What may run", comment, type: "env" },
        { part: "policy_file", name: "p.yml", content: yaml },
      ),
      status,
    );

  await ok(
    form(
      "PUT",
      "/flows/acme/template_file",
      "data_json",
      { name: "store", description: "The shop", visibility: "private" },
      { part: "template_file", name: "t.yml", content: TEMPLATE },
    ),
  );
  await ok(json("PUT", "/flows/acme/store/rename", { new_name: "shop" }), 200);
  await ok(form("PUT", "/flows/acme/template_file", "data_json", { name: "gone", description: "" }));
  await ok(json("PUT", "/flows/acme/gone/archive"), 200);
  await ok(json("PATCH", "/tags/acme/flow/shop", { set_tags: { team: "web", tier: "1" }, remove_tags: [] }), 200);
  await put("tested", TESTED, "first", 201);

  if (era >= WHOLE_API) {
    await ok(
      json("POST", "/controls/acme", {
        identifier: "SDLC-7",
        name: "Changes are reviewed",
        description: "By somebody else",
        links: { wiki: "https://example.com/sdlc-7" },
      }),
    );
    await ok(json("PUT", "/controls/acme/SDLC-7", { name: "Every change is reviewed", links: {} }), 200);
    await ok(
      form(
        "POST",
        "/custom-attestation-types/acme",
        "data_json",
        {
          name: "coverage",
          description: "Lines that tests run",
          evaluator: { content_type: "jq", rules: [".percent >= 80"] },
        },
        {
          part: "type_schema",
          name: "s.json",
          content: '{"type":"object","required":["percent"],"properties":{"percent":{"type":"number"}}}',
        },
      ),
    );
    await ok(
      json("POST", "/service-accounts/acme", { name: "ci-bot", description: "Reports builds", privilege: "member" }),
    );
    await ok(
      json("POST", "/service-accounts/acme/ci-bot/api-keys", { description: "pipeline", expires_at: 4_102_444_800 }),
    );
    await put("reviewed", policy("  attestations:\n    - type: decision\n      for_control: SDLC-7\n"), "control", 201);
  }

  await ok(
    form("PUT", "/trails/acme/shop", "data_json", { name: "release-1", description: "First release", ...COMMON }),
  );
  // Reported before its artifact: it waits for the artifact with that name and commit.
  await attest(
    "release-1",
    "snyk",
    { attestation_name: "scan", target_artifacts: ["shop"], ...snyk(0) },
    '{"runs": [], "note": "ä"}\n',
  );
  await artifact(GOOD, "release-1", { user_data: { stage: "one" } });
  await attest(
    "release-1",
    "junit",
    { attestation_name: "unit-tests", artifact_fingerprint: GOOD, ...junit(0) },
    "<testsuite/>\n",
  );
  await attest("release-1", "pull_request", { attestation_name: "review", ...PULL_REQUEST });
  await attest("release-1", "jira", {
    attestation_name: "ticket",
    jira_results: [{ issue_id: "PAY-17", issue_url: "https://jira.example.com/browse/PAY-17", issue_exists: true }],
  });
  await attest(
    "release-1",
    "generic",
    {
      attestation_name: "notes",
      is_compliant: true,
      description: "what changed",
      annotations: { audience: "all" },
      external_urls: { wiki: { href: "https://example.com/notes" } },
    },
    "the notes\n",
  );

  await ok(
    form(
      "PUT",
      "/trails/acme/shop",
      "data_json",
      { name: "release-2", git_commit_info: { ...INFO, sha1: LATER } },
      {
        part: "template_file",
        name: "t.yml",
        content: "version: 1\ntrail:\n  attestations:\n    - name: quality\n      type: sonar\n",
      },
    ),
  );
  await artifact(BAD, "release-2", { git_commit: LATER });
  await attest("release-2", "sonar", { attestation_name: "quality", ...SONAR });
  await ok(
    json("POST", "/attestations/acme/shop/trail/release-2/override", {
      attestation_name: "quality",
      reason: "Accepted by the board",
      new_compliance_status: true,
      original_attestation_type: "sonar",
    }),
  );
  await attest(
    "release-2",
    "junit",
    { attestation_name: "unit-tests", artifact_fingerprint: BAD, ...junit(3) },
    "<testsuite failures='3'/>\n",
  );
  await artifact(LEGACY, null);
  await put("tested", LOOSER, "second", 200);
  if (era >= RUNTIME) await run(client, era);
  if (era >= WHOLE_API) {
    await attest("release-1", "custom", {
      attestation_name: "coverage",
      type_name: "coverage",
      attestation_data: { percent: 91.5 },
    });
    await attest("release-2", "custom", {
      attestation_name: "coverage",
      type_name: "coverage",
      attestation_data: { percent: 12 },
    });
    await attest("release-1", "system", {
      attestation_name: "board",
      type_name: "decision",
      control: "SDLC-7",
      artifact_fingerprint: GOOD,
      attestation_data: { is_compliant: true },
    });
    await report(client, [
      ["web:1", GOOD],
      ["web:1", BAD],
    ]);
    const { id } = (await ok(json("GET", `/repos/acme/${REPO.name}`), 200)) as { id: string };
    await ok(json("PATCH", `/tags/acme/repo/${id}`, { set_tags: { team: "web" }, remove_tags: [] }), 200);
    await ok(json("PATCH", "/tags/acme/control/SDLC-7", { set_tags: { standard: "internal" }, remove_tags: [] }), 200);
  }
  if (era >= WITHOUT_TRAILS) await runWithoutTrails(client);
  if (era >= WITHOUT_COMMIT) await reportWithoutCommit(client, era);
  if (era >= REGO) {
    const attestation_data = { format: "cyclonedx-1.5", original_fingerprint: hash("sha256", SBOM), document: null };
    await attest("release-1", "system", { attestation_name: "bom", type_name: "sbom", attestation_data }, SBOM);
    await evaluatePolicies(client);
  }
  if (era >= VIEWS)
    for (const [name, for_everyone] of [
      ["Failing artifacts", true],
      ["My failing artifacts", false],
    ]) {
      const list = { page: "artifacts", parameters: { state: "NON-COMPLIANT" } };
      await ok(json("POST", "/views/acme", { name, for_everyone, list }));
    }
  if (era >= DAILY_CHANGES)
    await ok(
      json("PUT", "/actions/acme/environments", {
        name: "morning",
        type: "env",
        environments: ["production"],
        triggers: ["ON_DAILY_CHANGES"],
        targets: [{ type: "EMAIL", emails: ["web@example.com"] }],
      }),
    );
}

const SBOM = '{"bomFormat": "CycloneDX", "specVersion": "1.5", "components": []}\n';
const ALLOWS = "package policy\n\ndefault allow := false\n\nallow if input.trail.compliance_status.is_compliant\n";
const DENIES =
  "package policy\n\nallow := false\n\n" + 'violations contains sprintf("%v is not ready", [input.trail.trail_name])\n';

/** A Rego policy in two versions, and evaluations: one with a decision, one that denies and one that fails. */
async function evaluatePolicies({ json }: Client): Promise<void> {
  const publish = (source: string, comment: string) =>
    expectStatus(json("PUT", "/rego-policies/acme/release", { comment, files: { "policy.rego": source } }), 201);
  await publish(DENIES, "first");
  await publish(ALLOWS, "second");
  const evaluate = async (body: object, status: string): Promise<void> => {
    const context = { trails: [{ flow: "shop", trail: "release-1" }] };
    const { id } = await expectStatus(json("POST", "/evaluations/acme", { context, ...body }), 201);
    for (;;) {
      const ended = await expectStatus(json("GET", `/evaluations/acme/${id}`), 200);
      if (ended.status === status) return;
      if (ended.status !== "pending") throw new Error(`an evaluation ended as ${JSON.stringify(ended)}`);
    }
  };
  const decision = { control: "SDLC-7", name: "gate", flow: "shop", trail: "release-1", fingerprint: GOOD };
  await evaluate({ policy: { identifier: "release" }, params: { approvals: 2 }, decision }, "completed");
  await evaluate({ policy: { files: { "policy.rego": DENIES } } }, "completed");
  await evaluate({ policy: { files: { "policy.rego": "package policy\n\nallow := 1\n" } } }, "failed");
}

/** An artifact whose report names no commit, and has a key that no program knows once such keys are ignored. */
async function reportWithoutCommit({ json, form }: Client, era: number): Promise<void> {
  await expectStatus(
    form("PUT", "/flows/acme/template_file", "data_json", { name: "tools", description: "Built by hand" }),
    201,
  );
  await expectStatus(form("PUT", "/trails/acme/tools", "data_json", { name: "build-1", ...COMMON }), 201);
  await expectStatus(
    json("POST", "/artifacts/acme/tools", {
      fingerprint: UNCOMMITTED,
      filename: "tools.tar",
      build_url: "https://ci.example.com/3",
      commit_url: INFO.url,
      trail_name: "build-1",
      template_reference_name: "tools",
      ...(era >= IGNORES_KEYS ? { built_by_robot: false } : {}),
    }),
    201,
  );
}

/**
 * An environment whose policy requires compliance in the trail runs an artifact without a trail, and one whose first
 * trail was reported to again. Their flow is then archived, and another flow takes its name.
 */
async function runWithoutTrails({ json, form }: Client): Promise<void> {
  const flow = () =>
    expectStatus(form("PUT", "/flows/acme/template_file", "data_json", { name: "older", description: "" }), 201);
  const artifact = (fingerprint: string, fields: object) =>
    expectStatus(
      json("POST", "/artifacts/acme/older", {
        fingerprint,
        filename: "older:1",
        git_commit: COMMIT,
        build_url: "https://ci.example.com/9",
        commit_url: INFO.url,
        ...fields,
      }),
      201,
    );
  await flow();
  await artifact(WITHOUT_TRAIL, {});
  await artifact("07".repeat(32), { template: ["artifact", "scan"] });
  for (const trail_name of ["first", "second", "first"])
    await artifact(AGAIN, { trail_name, template_reference_name: "older" });
  const policy_file = {
    part: "policy_file",
    name: "p.yml",
    content: policy("  trail-compliance:\n    required: true\n"),
  };
  await expectStatus(
    form(
      "PUT",
      "/policies/acme",
      "payload",
      { name: "in-trail", description: "", comment: "", type: "env" },
      policy_file,
    ),
    201,
  );
  const environment = { name: "vintage", type: "docker", description: "", policies: ["in-trail"] };
  await expectStatus(json("PUT", "/environments/acme", environment), 201);
  await expectStatus(json("PUT", "/environments/acme/vintage/report/docker", VINTAGE), 201);
  await expectStatus(json("PUT", "/flows/acme/older/archive"), 200);
  await flow();
}

/** The artifacts of the environment `vintage`. */
export const VINTAGE = {
  artifacts: [WITHOUT_TRAIL, AGAIN].map((fingerprint) => ({
    digests: { "older:1": fingerprint },
    creationTimestamp: 1_700_000_100,
  })),
};

const report = ({ json }: Client, running: readonly (readonly [string, string])[]) =>
  expectStatus(
    json("PUT", "/environments/acme/production/report/docker", {
      artifacts: running.map(([name, fingerprint]) => ({
        digests: { [name]: fingerprint },
        creationTimestamp: 1_700_000_100,
      })),
    }),
    201,
  );

/** Environments and their reports. */
async function run(client: Client, era: number): Promise<void> {
  const { json } = client;
  const ok = (answer: ReturnType<Client["json"]>, status = 201) => expectStatus(answer, status);
  await ok(
    json("PUT", "/environments/acme", {
      name: "prod",
      type: "docker",
      description: "The servers",
      policies: ["tested"],
    }),
  );
  await ok(json("PUT", "/environments/acme/prod/rename", { new_name: "production" }), 200);
  await ok(json("PUT", "/environments/acme", { name: "cluster", type: "K8S", description: "" }));
  await ok(
    json("PUT", "/environments/acme", {
      name: "everything",
      type: "logical",
      description: "",
      included_environments: ["production", "cluster"],
    }),
  );
  await ok(json("PATCH", "/tags/acme/env/production", { set_tags: { region: "eu" }, remove_tags: [] }), 200);
  if (era >= WHOLE_API) {
    const target = { type: "WEBHOOK", webhook: "https://hooks.example.invalid/assay", payload_version: "1.0" };
    await ok(
      json("PUT", "/actions/acme/environments", {
        name: "alerts",
        type: "env",
        environments: ["production"],
        triggers: ["ON_NON_COMPLIANT_ENV", "ON_COMPLIANT_ENV", "ON_STARTED_ARTIFACT"],
        targets: [target],
      }),
    );
    await ok(
      json("PUT", "/actions/acme/flows", {
        name: "builds",
        type: "flow",
        flows: ["shop"],
        triggers: ["ON_ATTESTED_PROVENANCE"],
        targets: [{ type: "EMAIL", emails: ["web@example.com"] }],
      }),
    );
    await ok(
      json("PUT", "/notification-config/acme/api_key_expiry", {
        targets: [{ type: "EMAIL", emails: ["platform@example.com"] }],
      }),
    );
  }
  await report(client, [["web:1", GOOD]]);
  await report(client, [
    ["web:1", GOOD],
    ["web:1", BAD],
    ["nginx:1.29", STRAY],
  ]);
  await ok(
    json("PUT", "/allowlists/acme/production", {
      artifact_fingerprint: STRAY,
      artifact_name: "nginx:1.29",
      description: "Base image of the vendor",
    }),
  );
  await ok(
    json("PUT", "/environments/acme/cluster/report/K8S", {
      artifacts: [
        {
          podName: "web-5d8f7",
          namespace: "shop",
          digests: { "web:1": GOOD },
          creationTimestamp: 1_700_000_200,
          owners: null,
        },
      ],
    }),
  );
  await report(client, [
    ["web:1", GOOD],
    ["nginx:1.29", STRAY],
  ]);
  if (era >= WHOLE_API)
    await ok(json("POST", "/environments/acme/production/policies", { policy_names: ["reviewed"] }), 200);
}

/** An inbound webhook as the command line shows it. */
export type Door = { path: string; secret: string };

/** A scan of the second release arrives by webhook. */
export async function scan(url: string, { path, secret }: Door): Promise<void> {
  const body = JSON.stringify({
    analysedAt: "2026-01-31T12:00:00+0000",
    revision: LATER,
    project: { key: "shop", url: "https://sonar.example.com/dashboard?id=shop" },
    qualityGate: { name: "gate", status: "OK", conditions: [] },
    properties: { "sonar.analysis.kosli_trail": "release-2" },
  });
  const signature = createHmac("sha256", secret).update(body).digest("hex");
  const { status } = await fetch(url + path, {
    method: "POST",
    body,
    headers: { "Content-Type": "application/json", "X-Sonar-Webhook-HMAC-SHA256": signature },
  });
  if (status !== 200) throw new Error(`the webhook answered ${status}`);
}

/** The responses that are stored, by path; those that are no JSON as a text. */
export async function ask({ json }: Client, era: number): Promise<Record<string, unknown>> {
  const answers: Record<string, unknown> = {};
  const askFor = async (path: string): Promise<void> => {
    const { status, body, bytes } = await json("GET", path);
    if (status !== 200) throw new Error(`GET ${path}: ${status} ${bytes.toString()}`);
    answers[path] = body ?? bytes.toString();
  };
  for (const path of questions(era)) await askFor(path);
  for (const [, path = ""] of JSON.stringify(answers["/attestations/acme?per_page=100"]).matchAll(
    /"evidence":\{"href":"[^"]*\/api\/v2([^"]+)"/g,
  ))
    await askFor(path);
  if (era >= REGO)
    for (const { id } of (answers["/evaluations/acme"] as { evaluations: { id: string }[] }).evaluations)
      for (const path of [`/evaluations/acme/${id}`, `/evaluations/acme/${id}/input`]) await askFor(path);
  return answers;
}

/** The paths whose responses are stored; none depends on the time of the request. */
function questions(era: number): string[] {
  const always = [
    "/organizations/acme",
    "/flows/acme",
    "/flows/acme/shop",
    "/flows/acme/store",
    "/trails/acme?page=1&per_page=20",
    "/trails/acme/shop?page=1&per_page=20",
    "/trails/acme/shop/release-1",
    "/trails/acme/shop/release-2",
    "/artifacts/acme?flow_name=shop&page=1&per_page=15",
    ...[GOOD, BAD, LEGACY].map((fingerprint) => `/artifacts/acme/shop/fingerprint/${fingerprint}`),
    `/artifacts/acme/shop/commit_sha/${COMMIT}`,
    "/attestations/acme?per_page=100",
    "/attestations/acme/shop?page=1&per_page=50",
    "/attestations/acme/shop/trail/release-1/review",
    "/attestations/acme/shop/trail/release-2/quality",
    `/attestations/acme/shop/artifact/${GOOD}/unit-tests`,
    "/policies/acme",
    "/policies/acme/tested",
    `/asserts/acme/fingerprint/${GOOD}`,
    `/asserts/acme/fingerprint/${GOOD}?policy_name=tested`,
    `/asserts/acme/fingerprint/${BAD}?policy_name=tested`,
  ];
  const runtime = [
    "/environments/acme",
    "/environments/acme/production",
    "/environments/acme/prod",
    "/environments/acme/everything",
    "/allowlists/acme",
    "/snapshots/acme/production?page=1&per_page=15",
    ...[1, 2, 3, 4].map((index) => `/snapshots/acme/production/${index}`),
    "/snapshots/acme/cluster/1",
    "/snapshots/acme/everything/1",
    "/snapshots/acme/everything/3",
    "/environments/acme/production/events?page=1&per_page=50",
    `/asserts/acme/fingerprint/${BAD}?environment_name=production`,
    `/asserts/acme/fingerprint/${STRAY}?environment_name=production`,
    `/deployments/acme/production/${GOOD}`,
    "/env-diff/acme?snappish1=production%231&snappish2=production%232",
  ];
  const whole = [
    "/actions/acme",
    "/actions/acme/1",
    "/actions/acme/2",
    "/controls/acme",
    "/controls/acme/SDLC-7",
    "/controls/acme/SDLC-7/versions",
    "/controls/acme/SDLC-7/decisions",
    "/controls/acme/SDLC-7/coverage",
    "/custom-attestation-types/acme",
    "/custom-attestation-types/acme/coverage",
    "/service-accounts/acme",
    "/service-accounts/acme/ci-bot/api-keys",
    `/repos/acme/${REPO.name}`,
    "/repos/acme",
    `/search/acme/sha/${GOOD.slice(0, 8)}`,
    `/search/acme/sha/${COMMIT.slice(0, 7)}`,
    "/membership-audit-log/acme",
    "/notification-config/acme/api_key_expiry",
    "/attestations/acme/shop/trail/release-1/board",
    "/attestations/acme/shop/trail/release-1/coverage",
    "/snapshots/acme/production/5",
    "/snapshots/acme/production/6",
    `/asserts/acme/fingerprint/${GOOD}?environment_name=production`,
  ];
  const rego = [
    "/attestations/acme/shop/trail/release-1/bom",
    `/attestations/acme/shop/artifact/${GOOD}/gate`,
    "/evaluations/acme",
    "/rego-policies/acme",
    "/rego-policies/acme/release",
    "/rego-policies/acme/release?version=1",
    "/rego-policies/acme/release/versions",
  ];
  const withoutCommit = ["/trails/acme/tools/build-1", `/artifacts/acme/tools/fingerprint/${UNCOMMITTED}`];
  return [
    ...always,
    ...(era >= RUNTIME ? runtime : []),
    ...(era >= WHOLE_API ? whole : []),
    ...(era >= WITHOUT_COMMIT ? withoutCommit : []),
    ...(era >= REGO ? rego : []),
    ...(era >= VIEWS ? ["/views/acme"] : []),
    ...(era >= DAILY_CHANGES ? ["/actions/acme/3"] : []),
  ];
}
