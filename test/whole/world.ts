/**
 * Data on which every operation can work: an organization with flows, trails, evidence, policies and environments in
 * which things run. It is created through the API, so that the rows are those of real requests; the values of path
 * parameters are read from the tables.
 *
 * An operation with a path parameter that VALUES does not contain fails its tests with a message that says so.
 */
import { hash } from "node:crypto";
import { operations } from "../../src/api/index.ts";
import type { AssayOperation } from "../../src/api/context.ts";
import { startServer } from "../given.ts";
import type { CallOptions, ServerImage, ServerOptions, TestServer } from "../given.ts";

export type World = {
  image: ServerImage;
  org: string;
  /** An organization without members that all may read, and one with controls switched off. */
  open: string;
  plain: string;
  /** Keys by role; `bot` is a service account with the rights of a member, `stranger` is in no organization. */
  keys: { admin: string; member: string; snapshotter: string; reader: string; bot: string; stranger: string };
  /** Values of path parameters and of fields that name something, by the name of the parameter or field. */
  values: Readonly<Record<string, readonly string[]>>;
  /** Values that belong together: an artifact with its trail and flow, a deployment with its environment, ... */
  subjects: readonly Readonly<Record<string, string>>[];
  /** The values that an operation needs in its path to be useful, where not every value of the name is. */
  places: Readonly<Record<string, Readonly<Record<string, string>>>>;
  stop(): Promise<void>;
};

/** Environments by the type that an operation needs. */
const PLACES: World["places"] = {
  join_physical_to_logical: { env_name: "everything" },
  attach_policy_to_env: { env_name: "production" },
  docker_report: { env_name: "production" },
  k8s_report: { env_name: "cluster" },
  server_report: { env_name: "env-server" },
  lambda_report: { env_name: "env-lambda" },
  s3_report: { env_name: "env-s3" },
  ecs_report: { env_name: "env-ecs" },
  azure_apps_report: { env_name: "env-azure" },
  cloud_run_report: { env_name: "env-run" },
  list_action_deliveries: { action_number: "3" },
  test_action: { action_number: "4" },
  delete_inbound_webhook: { webhook_kind: "launch-darkly" },
  rotate_inbound_webhook_secret: { webhook_kind: "launch-darkly" },
  delete_member: { user: "leaver" },
  post_rego_evaluation: { flow_name: "backend", trail_name: "release-0" },
};

const TEMPLATE = `
version: 1
trail:
  attestations:
    - { name: review, type: pull_request }
    - { name: ticket, type: jira }
  artifacts:
    - name: backend
      attestations:
        - { name: unit-tests, type: junit }
        - { name: scan, type: "*" }
`;

const COMMITS = ["1", "2", "3", "4"].map((digit) => digit.repeat(40));
const PRINTS = ["a", "b", "c", "d"].map((digit) => digit.repeat(64));
const POLICY =
  "artifacts:\n  provenance:\n    required: true\n  attestations:\n    - { type: junit, name: unit-tests }\n";

const MY_LIST = { page: "trails", parameters: { flow: "backend" } };

/** Queries of values, each with the organization's key as its only parameter. */
const VALUES: Readonly<Record<string, string | readonly string[]>> = {
  flow_name: "SELECT name FROM flows WHERE organization_id = ? AND archived_at IS NULL",
  trail_name: "SELECT name FROM trails WHERE organization_id = ?",
  env_name: "SELECT name FROM environments WHERE organization_id = ? AND archived_at IS NULL",
  policy_name: "SELECT name FROM policies WHERE organization_id = ?",
  fingerprint: "SELECT DISTINCT fingerprint FROM artifacts WHERE organization_id = ?",
  search_value: "SELECT DISTINCT substr(fingerprint, 1, 12) FROM artifacts WHERE organization_id = ?",
  commit_sha: "SELECT DISTINCT git_commit FROM artifacts WHERE organization_id = ?",
  attestation_name: "SELECT DISTINCT name FROM attestations WHERE organization_id = ?",
  attestation_id: "SELECT public_id FROM attestations WHERE organization_id = ?",
  repo_name: "SELECT name FROM repos WHERE organization_id = ?",
  repo: "SELECT public_id FROM repos WHERE organization_id = ?",
  repo_id: "SELECT external_id FROM repos WHERE organization_id = ?",
  flow_id: "SELECT public_id FROM flows WHERE organization_id = ?",
  identifier: "SELECT identifier FROM controls WHERE organization_id = ?",
  version_number: ["1", "2"],
  rego_identifier: "SELECT identifier FROM rego_policies WHERE organization_id = ?",
  rego_version: ["1", "v2"],
  evaluation_id: "SELECT public_id FROM rego_evaluations WHERE organization_id = ?",
  decision_id: "SELECT public_id FROM attestations WHERE organization_id = ? AND type = 'system:decision'",
  custom_attestation_type_name: "SELECT name FROM custom_types WHERE organization_id = ?",
  action_number: "SELECT number FROM actions WHERE organization_id = ? AND kind = 'flow'",
  notification_number: "SELECT number FROM actions WHERE organization_id = ? AND kind = 'env'",
  notification_type: ["api_key_expiry"],
  name: "SELECT name FROM service_accounts WHERE organization_id = ?",
  key_id: `SELECT k.public_id FROM api_keys k JOIN service_accounts a ON a.id = k.service_account_id
      WHERE a.organization_id = ?`,
  hold_id: "SELECT public_id FROM legal_holds WHERE organization_id = ?",
  delivery_id: "SELECT public_id FROM deliveries WHERE organization_id = ?",
  webhook_kind: ["sonar", "launch-darkly"],
  user: ["newcomer", "leaver"],
  view_id: "SELECT public_id FROM views WHERE organization_id = ?",
  hook_uid: "SELECT public_id FROM inbound_webhooks WHERE organization_id = ?",
  snapshot_expression: ["1", "2", "-1", "~1", "#1", "@{now}"],
  resource_type: ["flow", "flows", "env", "environments", "repo", "controls"],
  resource_id: "SELECT name FROM flows WHERE organization_id = ? AND archived_at IS NULL",
  // Names in bodies and queries.
  template_reference_name: ["backend"],
  target_artifacts: ["backend"],
  snappish: ["production#1", "production", "cluster~1"],
  tag: ["team", "team:payments"],
  flow_tag: ["team=payments"],
  interval: ["1..NOW", "~2..NOW", "", "2days.."],
  start: ["1", "-2", "2days", "1690000000"],
  end: ["NOW", "-1", "3"],
  from: ["2023-11-01T00:00:00Z", "2023-01-01"],
  to: ["2023-12-01T00:00:00Z", "2033-01-01"],
  name_regex: ["^re", "s$", "."],
  type: ["generic", "junit", "K8S"],
  physical_env: ["production", "cluster"],
  logical_env: ["everything"],
};

/** Queries of values that belong together. */
const SUBJECTS: readonly string[] = [
  `SELECT f.name AS flow_name, t.name AS trail_name, a.fingerprint, att.name AS attestation_name,
          att.public_id AS attestation_id, a.git_commit AS commit_sha,
          a.reference_name AS template_reference_name
   FROM attestations att JOIN attestation_bindings b ON b.attestation_id = att.id
   JOIN artifacts a ON a.id = b.artifact_id
   JOIN trails t ON t.id = att.trail_id JOIN flows f ON f.id = att.flow_id
   WHERE att.organization_id = ? AND f.archived_at IS NULL`,
  `SELECT f.name AS flow_name, t.name AS trail_name, att.name AS attestation_name, att.public_id AS attestation_id
   FROM attestations att JOIN trails t ON t.id = att.trail_id JOIN flows f ON f.id = att.flow_id
   WHERE att.organization_id = ? AND att.scope = 'trail' AND f.archived_at IS NULL`,
  `SELECT f.name AS flow_name, t.name AS trail_name, att.name AS attestation_name, att.public_id AS attestation_id,
          'yes' AS evidence
   FROM attestations att JOIN trails t ON t.id = att.trail_id JOIN flows f ON f.id = att.flow_id
   WHERE att.organization_id = ? AND att.evidence_digest IS NOT NULL AND f.archived_at IS NULL`,
  `SELECT env.name AS env_name, dep.fingerprint, f.public_id AS flow_id
   FROM deployments dep JOIN environments env ON env.id = dep.environment_id
   JOIN flows f ON f.id = dep.flow_id WHERE dep.organization_id = ?`,
  "SELECT 'flow' AS resource_type, name AS resource_id FROM flows WHERE organization_id = ? AND archived_at IS NULL",
  `SELECT 'env' AS resource_type, name AS resource_id FROM environments WHERE organization_id = ?
    AND archived_at IS NULL`,
  "SELECT 'repo' AS resource_type, public_id AS resource_id FROM repos WHERE organization_id = ?",
  "SELECT 'control' AS resource_type, identifier AS resource_id FROM controls WHERE organization_id = ?",
  `SELECT a.name, k.public_id AS key_id FROM api_keys k JOIN service_accounts a ON a.id = k.service_account_id
    WHERE a.organization_id = ? AND k.revoked_at IS NULL`,
  `SELECT c.identifier, v.version AS version_number FROM control_versions v JOIN controls c ON c.id = v.control_id
    WHERE c.organization_id = ?`,
  `SELECT control AS identifier, public_id AS decision_id FROM attestations WHERE organization_id = ?
    AND type = 'system:decision'`,
];

const byId = new Map(operations.map((operation) => [operation.id, operation]));

export async function createWorld(options: ServerOptions = {}): Promise<World> {
  const server = await startServer(options);
  const { org, key } = server.given.org({ name: "acme" });
  const at = { org, key };
  const open = server.given.org({ public: true });
  const plain = server.given.org();
  server.db.prepare("UPDATE organizations SET controls_enabled = 0 WHERE name = ?").run(plain.org);
  await flowsAndEvidence(server, at);
  await rest(server, at, FURTHER);
  await environments(server, at);
  await rest(server, at, LISTENING);
  for (const name of ["newcomer", "leaver"]) server.store.users.create({ name, displayName: "", email: null });
  await made(server, "PUT", `/members/${org}/leaver`, { key, body: { role: "reader" } });
  await server.settled();
  const [{ id: sent }] = (await made(server, "POST", `/actions/${org}/3/test`, { key })).deliveries;
  const { id: ownKey } = await made(server, "POST", "/user/api-keys", { key, body: { description: "laptop" } });
  const organizationId = (server.store.organizations.find(org) as { id: number }).id;
  const [{ attestation_id: sbom }] = (await made(server, "GET", `/attestations/${org}?type=sbom`, { key })).data;
  const unknown = { organizationId, client: "Kosli/v9.0.0", kind: "key", operation: "create_artifact" } as const;
  for (const name of ["later", "even_later"]) server.store.unknownInputs.note({ ...unknown, name });
  await server.writer.run(() => server.store.unknownInputs.flush(server.clock.at));
  const values = Object.fromEntries(
    Object.entries(VALUES).map(([name, source]) => [
      name,
      typeof source === "string"
        ? server.db.prepare<[number], unknown>(source).pluck().all(organizationId).map(String)
        : source,
    ]),
  );
  const subjects = SUBJECTS.flatMap((sql) =>
    server.db
      .prepare<[number], Record<string, unknown>>(sql)
      .all(organizationId)
      .map((row) =>
        Object.fromEntries(
          Object.entries(row).flatMap(([name, value]) => (value === null ? [] : [[name, String(value)]])),
        ),
      ),
  );
  return {
    org,
    open: open.org,
    plain: plain.org,
    values,
    subjects,
    places: {
      ...PLACES,
      retry_action_delivery: { action_number: "3", delivery_id: sent },
      delete_user_api_key: { key_id: ownKey },
      rotate_user_api_key: { key_id: ownKey },
      get_attestation_sbom: { ...RELEASE, attestation_id: sbom },
    },
    keys: {
      admin: key,
      member: server.given.user(org, "member"),
      snapshotter: server.given.user(org, "snapshotter"),
      reader: server.given.user(org, "reader"),
      bot: server.given.serviceAccount(org, "member"),
      stranger: server.given.user(org, null),
    },
    image: server.image(),
    stop: () => server.stop(),
  };
}

type At = { org: string; key: string };

async function made(server: TestServer, method: string, path: string, options: CallOptions): Promise<any> {
  const { status, text, body } = await server.call(method, path, options);
  if (status !== 200 && status !== 201)
    throw new Error(`the world could not be made: ${method} ${path} was answered ${status} ${text}`);
  return body;
}

async function flowsAndEvidence(server: TestServer, at: At): Promise<void> {
  const { given } = server;
  for (const name of ["backend", "frontend", "old-name", "retired"]) await given.flow(at, { name, template: TEMPLATE });
  await made(server, "PUT", `/flows/${at.org}/old-name/rename`, { key: at.key, body: { new_name: "renamed" } });
  await made(server, "PATCH", `/tags/${at.org}/flow/backend`, {
    key: at.key,
    body: { set_tags: { team: "payments" }, remove_tags: [] },
  });
  const info = (commit: string) => ({
    sha1: commit,
    message: "Round half to even",
    author: "Ada <ada@example.com>",
    branch: "main",
    timestamp: 1_690_000_000,
    url: `https://git.test/${commit}`,
    parents: [],
  });
  const repo = (n: number) => ({
    id: `47${n}`,
    name: `acme/repo-${n}`,
    url: `https://git.test/acme/repo-${n}`,
    provider: n === 0 ? "github" : "gitlab",
    description: "",
  });
  for (const [n, flow] of ["backend", "backend", "frontend", "renamed"].entries()) {
    const trail = `release-${n}`;
    const commit = COMMITS[n] as string;
    await given.trail(at, {
      flow,
      name: trail,
      description: "A release",
      git_commit_info: info(commit),
      origin_url: "https://ci.test/1",
      user_data: { n },
      external_urls: { board: { href: "https://board.test/1" } },
      repo_info: repo(n % 2),
    });
    await given.artifact(at, {
      flow,
      trail,
      name: "backend",
      commit,
      fingerprint: PRINTS[n] as string,
      git_commit_info: info(commit),
      repo_info: repo(n % 2),
      repo_url: repo(n % 2).url,
      user_data: { n },
      external_urls: { run: { href: "https://ci.test/1" } },
      annotations: { team: "payments" },
      commits_list: [info(commit)],
    });
    const common = {
      git_commit_info: info(commit),
      repo_info: repo(n % 2),
      annotations: { n: "1" },
      user_data: { n },
      external_urls: { run: { href: "https://ci.test/1" } },
    };
    const file = { name: "attachment_file", filename: "report.txt", content: `evidence ${n}`, type: "text/plain" };
    for (const kind of ["junit", "snyk", "sonar", "jira", "pull_request", "generic"]) {
      const { example } = byId.get(`post_${kind}_attestation`) as AssayOperation;
      const { attestation_name: _name, ...payload } = example.body as Record<string, unknown>;
      const onArtifact = kind === "junit" || kind === "snyk";
      await given.attestation(at, {
        ...payload,
        ...common,
        flow,
        trail,
        kind,
        name: { junit: "unit-tests", snyk: "scan", jira: "ticket", pull_request: "review" }[kind] ?? kind,
        ...(onArtifact ? { fingerprint: PRINTS[n] as string } : {}),
        file,
      });
    }
    await given.attestation(at, {
      ...((byId.get("post_override_attestation") as AssayOperation).example.body as object),
      flow,
      trail,
      kind: "override",
      name: "generic",
    });
  }
  await given.artifact(at, { flow: "backend", trail: null, commit: COMMITS[0] as string });
  for (const id of server.db.prepare<[], string>("SELECT public_id FROM repos").pluck().all())
    await made(server, "PATCH", `/tags/${at.org}/repo/${id}`, {
      key: at.key,
      body: { set_tags: { team: "payments" }, remove_tags: [] },
    });
  await made(server, "PUT", `/flows/${at.org}/retired/archive`, { key: at.key });
}

async function environments(server: TestServer, at: At): Promise<void> {
  const { given } = server;
  await given.policy(at, { name: "tested", yaml: POLICY });
  await given.policy(at, { name: "tested", yaml: `${POLICY}  trail-compliance:\n    required: true\n` });
  await given.policy(at, { name: "empty", yaml: null });
  await given.environment(at, { name: "production", type: "docker", policies: ["tested"] });
  await given.environment(at, { name: "cluster", type: "K8S" });
  for (const [name, type] of Object.entries(ONE_OF_EACH)) await given.environment(at, { name, type });
  await given.environment(at, { name: "everything", members: ["production", "cluster"] });
  await given.environment(at, { name: "retired-env", type: "server" });
  await made(server, "PUT", `/environments/${at.org}/retired-env/archive`, { key: at.key });
  await made(server, "PATCH", `/tags/${at.org}/env/production`, {
    key: at.key,
    body: { set_tags: { team: "payments" }, remove_tags: [] },
  });
  const report = (...prints: string[]) => ({
    artifacts: prints.map((print) => ({ digests: { [`app-${print[0]}`]: print }, creationTimestamp: 1_690_000_000 })),
  });
  for (const prints of [PRINTS.slice(0, 2), PRINTS.slice(1, 4), [...PRINTS.slice(1), "e".repeat(64)]])
    await made(server, "PUT", `/environments/${at.org}/production/report/docker`, {
      key: at.key,
      body: report(...prints),
    });
  for (const prints of [PRINTS.slice(0, 1), PRINTS.slice(0, 3)]) {
    const pods = prints.map((print) => ({
      podName: `pod-${print[0]}`,
      namespace: "default",
      digests: { [`app-${print[0]}`]: print },
      creationTimestamp: 1_690_000_000,
    }));
    await made(server, "PUT", `/environments/${at.org}/cluster/report/K8S`, { key: at.key, body: { artifacts: pods } });
  }
  for (const print of ["e".repeat(64), PRINTS[3] as string]) {
    const { example } = byId.get("allow_artifact_for_env") as AssayOperation;
    await made(server, "PUT", `/allowlists/${at.org}/production`, {
      key: at.key,
      body: { ...(example.body as object), artifact_fingerprint: print },
    });
  }
}

/** Environments of the types that need no special setup. */
const ONE_OF_EACH: Readonly<Record<string, string>> = {
  "env-server": "server",
  "env-lambda": "lambda",
  "env-s3": "S3",
  "env-ecs": "ECS",
  "env-azure": "azure-apps",
  "env-run": "cloud-run",
};

const REGO_POLICY = "package policy\n\nallow := true\n\n# METADATA\n# entrypoint: true\nreasons := []\n";
const EVALUATED = { context: { trails: [{ flow: "backend", trail: "release-0" }] } };

/**
 * Bodies for further resources, by the operation that creates them, in the order of creation. `body` is merged into the
 * operation's example.
 */
const RELEASE = { flow_name: "backend", trail_name: "release-0" };
const EXAMPLE_FILE = byId.get("post_system_attestation")?.example.file ?? "";

const FURTHER: readonly { id: string; path?: Record<string, string>; body: Record<string, unknown> }[] = [
  { id: "post_control", body: { identifier: "SOC-1", name: "Reviews" } },
  { id: "post_control", body: { identifier: "SOC-2", name: "Tests" } },
  { id: "put_control", path: { identifier: "SOC-1" }, body: { description: "Every change is reviewed" } },
  {
    id: "patch_tags",
    path: { resource_type: "control", resource_id: "SOC-1" },
    body: { set_tags: { area: "change" }, remove_tags: [] },
  },
  { id: "post_custom_attestation_type", body: { name: "coverage" } },
  { id: "post_custom_attestation_type", body: { name: "licences" } },
  {
    id: "post_custom_attestation",
    path: { flow_name: "backend", trail_name: "release-0" },
    body: { attestation_name: "covered", type_name: "coverage" },
  },
  {
    id: "post_system_attestation",
    path: { flow_name: "backend", trail_name: "release-0" },
    body: { attestation_name: "decided", control: "SOC-1" },
  },
  {
    id: "post_system_attestation",
    path: { flow_name: "frontend", trail_name: "release-2" },
    body: { attestation_name: "decided", control: "SOC-1" },
  },
  {
    id: "post_system_attestation",
    path: RELEASE,
    body: {
      attestation_name: "bom",
      type_name: "sbom",
      control: undefined,
      attestation_data: {
        format: "spdx-2.3",
        original_fingerprint: hash("sha256", EXAMPLE_FILE),
        document: { package_count: 2 },
      },
    },
  },
  { id: "put_rego_policy", path: { rego_identifier: "reviews" }, body: {} },
  { id: "put_rego_policy", path: { rego_identifier: "reviews" }, body: { files: { "a.rego": REGO_POLICY } } },
  { id: "post_rego_policy", body: { identifier: "tests", name: "Tests" } },
  { id: "post_rego_evaluation", body: EVALUATED },
  {
    id: "post_rego_evaluation",
    body: {
      ...EVALUATED,
      policy: { identifier: "reviews", version: 2 },
      decision: { control: "SOC-1", name: "evaluated", flow: "backend", trail: "release-0" },
    },
  },
  { id: "put_inbound_webhook", path: { webhook_kind: "launch-darkly" }, body: {} },
  { id: "create_view", body: {} },
  { id: "create_view", body: { name: "My trails", list: MY_LIST, for_everyone: false } },
  { id: "put_retention_rule", body: {} },
  { id: "put_retention_rule", body: { flow: "backend", trails_after_days: null, evidence_after_days: null } },
  { id: "place_legal_hold", body: {} },
  { id: "create_service_account", body: { name: "deployer" } },
  { id: "create_service_account", body: { name: "scanner" } },
  { id: "create_service_account_api_key", path: { name: "deployer" }, body: { description: "ci" } },
  {
    id: "create_service_account_api_key",
    path: { name: "deployer" },
    body: { description: "cd", expires_at: 1_700_500_000 },
  },
];

/** Notification targets, last, so that building the world notifies no receiver. */
const LISTENING: typeof FURTHER = [
  {
    id: "create_or_update_env_action",
    body: { name: "alerts", environments: ["production", "everything"], triggers: ["ON_STARTED_ARTIFACT"] },
  },
  { id: "create_or_update_env_action", body: { name: "spare-alerts", environments: ["env-server"] } },
  { id: "create_or_update_flow_action", body: { name: "builds", flows: ["backend", "frontend"] } },
  { id: "create_or_update_flow_action", body: { name: "trails", flows: ["renamed"], triggers: ["ON_STARTED_TRAIL"] } },
  { id: "put_notification_config", path: { notification_type: "api_key_expiry" }, body: {} },
];

async function rest(server: TestServer, at: At, needed: typeof FURTHER): Promise<void> {
  for (const { id, path = {}, body } of needed) {
    const operation = byId.get(id) as AssayOperation;
    const target = operation.path.replace(/\{(\w+)\*?\}/g, (_all, name: string) =>
      name === "org" ? at.org : (path[name] as string),
    );
    const json = { ...(id === "put_inbound_webhook" ? {} : (operation.example.body as object)), ...body };
    const shape = operation.body;
    await made(server, operation.method, target, {
      key: at.key,
      ...(shape.kind === "form"
        ? {
            form: {
              field: shape.part,
              json,
              ...(shape.file && operation.example.file
                ? { file: { name: shape.file.part, filename: "file", content: operation.example.file } }
                : {}),
            },
          }
        : { body: json }),
    });
    if (id !== "post_rego_evaluation") continue;
    // Neither the times of what follows nor answers about it depend on how long it takes.
    await server.settled();
    server.db.exec("UPDATE rego_evaluations SET duration_ms = 1");
  }
}
