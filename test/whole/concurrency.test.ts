/**
 * Sends every creating operation fifty times at once: no request fails with a 5xx, every response is declared, and
 * exactly one object is created.
 */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { isReading } from "../../src/http/operation.ts";
import { operations } from "../../src/api/index.ts";
import type { AssayOperation } from "../../src/api/context.ts";
import { startServer } from "../given.ts";
import type { CallOptions } from "../given.ts";
import { createWorld } from "./world.ts";
import type { World } from "./world.ts";

const CONCURRENT = 50;

/**
 * The request of a creating operation, and the query that counts what it creates. `body` is merged into the operation's
 * example; `count` runs before and after all requests. `every`: the records are a history to which every request adds
 * one, but what they belong to is created once.
 */
type Case = {
  params?: Record<string, string>;
  body?: Record<string, unknown>;
  file?: string;
  count: string;
  every?: string;
};

const IN_NEW_TRAIL = { flow_name: "backend", trail_name: "brand-new" };
const ONE_TRAIL = "SELECT count(*) FROM trails WHERE name = 'brand-new'";
const attestation = (body: Record<string, unknown> = {}): Case => ({
  params: IN_NEW_TRAIL,
  body: { attestation_name: "same", ...body },
  count: ONE_TRAIL,
  every: "SELECT count(*) FROM attestations WHERE name = 'same'",
});
const report = (env_name: string): Case => ({
  params: { env_name },
  count: `SELECT count(*) FROM snapshots s JOIN environments e ON e.id = s.environment_id WHERE e.name = '${env_name}'`,
});

const CASES: Readonly<Record<string, Case>> = {
  create_env: { body: { name: "same", policies: [] }, count: "SELECT count(*) FROM environments WHERE name = 'same'" },
  create_flow: { body: { name: "same" }, count: "SELECT count(*) FROM flows WHERE name = 'same'" },
  create_flow_with_template: { body: { name: "same" }, count: "SELECT count(*) FROM flows WHERE name = 'same'" },
  put_policy: {
    body: { name: "same" },
    count: "SELECT count(*) FROM policy_versions v JOIN policies p ON p.id = v.policy_id WHERE p.name = 'same'",
  },
  create_trail: { params: { flow_name: "backend" }, body: { name: "brand-new" }, count: ONE_TRAIL },
  create_artifact: {
    params: { flow_name: "backend" },
    body: { trail_name: "brand-new", fingerprint: "9".repeat(64) },
    count: "SELECT count(*) FROM artifacts WHERE fingerprint = replace(printf('%064d', 0), '0', '9')",
  },
  allow_artifact_for_env: {
    params: { env_name: "production" },
    body: { artifact_fingerprint: "9".repeat(64) },
    count: `SELECT count(DISTINCT fingerprint) FROM allowlist_entries
        WHERE fingerprint = replace(printf('%064d', 0), '0', '9')`,
  },
  attach_policy_to_env: {
    params: { env_name: "cluster" },
    body: { policy_names: ["tested"] },
    count: `SELECT count(*) FROM environment_policies p JOIN environments e ON e.id = p.environment_id
        WHERE e.name = 'cluster'`,
  },
  join_physical_to_logical: {
    params: { env_name: "everything" },
    body: { physical_env_name: "env-s3" },
    count:
      "SELECT count(*) FROM environment_members m JOIN environments e ON e.id = m.member_id WHERE e.name = 'env-s3'",
  },
  patch_tags: {
    params: { resource_type: "flow", resource_id: "frontend" },
    body: { set_tags: { same: "value" }, remove_tags: [] },
    count: "SELECT count(*) FROM flow_tags WHERE key = 'same'",
  },
  rename_flow: {
    params: { flow_name: "frontend" },
    body: { new_name: "same" },
    count: "SELECT count(*) FROM flows WHERE name = 'same'",
  },
  rename_environment: {
    params: { env_name: "cluster" },
    body: { new_name: "same" },
    count: "SELECT count(*) FROM environments WHERE name = 'same'",
  },
  docker_report: report("production"),
  k8s_report: report("cluster"),
  server_report: report("env-server"),
  lambda_report: report("env-lambda"),
  s3_report: report("env-s3"),
  ecs_report: report("env-ecs"),
  azure_apps_report: report("env-azure"),
  cloud_run_report: report("env-run"),
  post_generic_attestation: attestation(),
  post_jira_attestation: attestation(),
  post_junit_attestation: attestation(),
  post_override_attestation: attestation(),
  post_pull_request_attestation: attestation(),
  post_snyk_attestation: attestation(),
  post_sonar_attestation: attestation(),
  post_system_attestation: attestation(),
  post_custom_attestation: attestation({ type_name: "coverage" }),
  post_control: { body: { identifier: "SAME" }, count: "SELECT count(*) FROM controls WHERE identifier = 'SAME'" },
  put_control: {
    params: { identifier: "SOC-2" },
    body: { name: "Same" },
    count:
      "SELECT count(*) FROM control_versions v JOIN controls c ON c.id = v.control_id WHERE c.identifier = 'SOC-2'",
  },
  put_rego_policy: {
    params: { rego_identifier: "same" },
    body: {},
    count: `SELECT count(*) FROM rego_policy_versions v JOIN rego_policies p ON p.id = v.rego_policy_id
            WHERE p.identifier = 'same'`,
  },
  post_rego_policy: {
    body: { identifier: "same-2" },
    count: `SELECT count(*) FROM rego_policy_versions v JOIN rego_policies p ON p.id = v.rego_policy_id
            WHERE p.identifier = 'same-2'`,
  },
  post_custom_attestation_type: {
    body: { name: "same" },
    count: "SELECT count(*) FROM custom_types WHERE name = 'same'",
  },
  create_service_account: {
    body: { name: "same" },
    count: "SELECT count(*) FROM service_accounts WHERE name = 'same'",
  },
  create_member: {
    body: { name: "same", email: "same@example.com" },
    count: "SELECT count(*) FROM users WHERE name = 'same'",
  },
  put_member: {
    params: { user: "newcomer" },
    body: { role: "member" },
    count: "SELECT count(*) FROM memberships m JOIN users u ON u.id = m.user_id WHERE u.name = 'newcomer'",
  },
  test_action: {
    params: { action_number: "4" },
    count: "SELECT count(*) FROM deliveries WHERE subject = 'trails: TEST'",
  },
  put_retention_rule: {
    body: { flow: "frontend" },
    count: "SELECT count(*) FROM retention_rules WHERE flow_id = (SELECT id FROM flows WHERE name = 'frontend')",
  },
  put_inbound_webhook: {
    params: { webhook_kind: "sonar" },
    count: "SELECT count(*) FROM inbound_webhooks WHERE kind = 'sonar'",
  },
  create_or_update_env_action: {
    body: { name: "same", environments: ["production"] },
    count: "SELECT count(*) FROM actions WHERE name = 'same'",
  },
  create_or_update_flow_action: {
    body: { name: "same", flows: ["backend"] },
    count: "SELECT count(*) FROM actions WHERE name = 'same'",
  },
  put_environment_notifications: {
    body: { name: "same", environments: ["production"] },
    count: "SELECT count(*) FROM actions WHERE name = 'same'",
  },
  put_notification_config: {
    params: { notification_type: "api_key_expiry" },
    body: { targets: [{ type: "EMAIL", emails: ["same@example.com"] }] },
    count: "SELECT count(*) FROM notification_targets WHERE target_json LIKE '%same@example.com%'",
  },
  create_view: { body: { name: "same" }, count: "SELECT count(*) FROM views WHERE name = 'same'" },
};

/** Writes that create nothing under a name, each with what they do instead; every other write has a case. */
const MAKES_NOTHING: Readonly<Record<string, string>> = {
  archive_env: "ends something",
  archive_flow: "ends something",
  archive_control: "ends something",
  unarchive_control: "undoes that",
  archive_rego_policy: "ends something",
  unarchive_rego_policy: "undoes that",
  patch_rego_policy: "changes fields",
  post_rego_evaluation: "every request is an evaluation of its own, once the one before has ended",
  archive_custom_attestation_type: "ends something",
  delete_action: "removes",
  delete_environment_notification: "removes",
  delete_inbound_webhook: "removes",
  delete_member: "removes",
  delete_notification_config: "removes",
  delete_service_account: "removes",
  delete_service_account_api_key: "removes",
  detach_policy_from_env: "removes",
  create_service_account_api_key: "every request makes a key of its own",
  rotate_service_account_api_key: "every request asks for another key",
  delete_retention_rule: "removes",
  place_legal_hold: "every request places a hold of its own",
  release_legal_hold: "ends something",
  retry_action_delivery: "schedules what exists",
  rotate_inbound_webhook_secret: "sets one field",
  create_user_api_key: "every request makes a key of its own",
  delete_user_api_key: "removes",
  put_view: "changes fields",
  delete_view: "removes",
  rotate_user_api_key: "every request asks for another key",
  put_user_default_org: "sets one field",
  update_env: "changes fields",
  update_service_account: "changes fields",
  update_experimental_features: "sets one field",
  update_organization_settings: "changes fields",
  update_environment_notification: "changes what has a number",
  launch_darkly_webhook:
    "takes signed requests only; test/api/notifications/inbound-webhooks.test.ts sends the same one twice",
  sonar_qube_webhook: "as launch_darkly_webhook",
};

const test = suite("whole/concurrency");
let world: World;
test.before(async () => void (world = await createWorld()));
test.after(() => world.stop());

const writes = operations.filter((operation) => !isReading(operation) && operation.status !== "removed");

test("every write has a case, or creates nothing", () => {
  assert.equal(
    writes.map(({ id }) => id).filter((id) => !(id in CASES) && !(id in MAKES_NOTHING)),
    [],
    "put these into CASES, or into MAKES_NOTHING",
  );
});

function requestOf(
  operation: AssayOperation,
  { params = {}, body = {}, file }: Omit<Case, "count">,
): { path: string; options: CallOptions } {
  const path = operation.path.replace(/\{(\w+)\*?\}/g, (_all, name: string) =>
    name === "org" ? world.org : encodeURIComponent(params[name] as string),
  );
  const json = { ...(operation.example.body as object), ...body };
  const shape = operation.body;
  if (shape.kind !== "form") return { path, options: { key: world.keys.admin, body: json } };
  const content = file ?? operation.example.file;
  const part =
    shape.file && content !== undefined ? { file: { name: shape.file.part, filename: "file.yml", content } } : {};
  return { path, options: { key: world.keys.admin, form: { field: shape.part, json, ...part } } };
}

for (const operation of writes.filter(({ id }) => id in CASES))
  test(operation.id, async () => {
    const server = await startServer({ from: world.image });
    try {
      const { count, every, ...changes } = CASES[operation.id] as Case;
      const { path, options } = requestOf(operation, changes);
      const number = (sql: string): number => server.db.prepare<[], number>(sql).pluck().get() ?? 0;
      const [countBefore, everyBefore] = [number(count), every === undefined ? 0 : number(every)];
      const answers = await Promise.all(
        Array.from({ length: CONCURRENT }, () => server.call(operation.method, path, options)),
      );
      const odd = answers.filter(
        ({ status }) => status >= 500 || !(status in operation.responses || [400, 409].includes(status)),
      );
      assert.equal(
        odd.map(({ status, text }) => `${status} ${text}`),
        [],
      );
      assert.ok(
        answers.some(({ status }) => status < 300),
        `no request succeeded: ${answers[0]?.status} ${answers[0]?.text}`,
      );
      assert.is(number(count) - countBefore, 1, "how many were made");
      if (every !== undefined)
        assert.is(
          number(every) - everyBefore,
          answers.filter(({ status }) => status < 300).length,
          "records of a history",
        );
      assert.ok(
        answers.filter(({ status }) => status === 201).length >= (operation.responses[201] ? 1 : 0),
        "no response reports the creation",
      );
      if (operation.responses[200] && operation.responses[201])
        assert.is(
          answers.filter(({ status }) => status === 201).length,
          1,
          "exactly one response reports the creation",
        );
    } finally {
      await server.stop();
    }
  });

test.run();
