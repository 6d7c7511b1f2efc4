/**
 * One damaged record never fails a list (semantics 9): stored JSON is damaged, column by column and record by record,
 * and every list is requested again. Each of its items is unchanged or marked.
 */
import { suite } from "uvu";
import * as assert from "uvu/assert";
import fc from "fast-check";
import { operations } from "../../src/api/index.ts";
import type { AssayOperation } from "../../src/api/context.ts";
import { startServer } from "../given.ts";
import type { TestServer } from "../given.ts";
import { createClient, valid, write } from "./requests.ts";
import type { Draft, Received } from "./requests.ts";
import { createWorld } from "./world.ts";
import type { World } from "./world.ts";
import { UNREADABLE } from "../../src/contract/placeholders.ts";

const RECORD = [
  "attestations.annotations_json",
  "attestations.external_urls_json",
  "attestations.git_commit_info_json",
  "attestations.payload_json",
  "attestations.user_data_json",
];
const ARTIFACT = [
  "artifacts.annotations_json",
  "artifacts.attestations_json",
  "artifacts.external_urls_json",
  "artifacts.git_commit_info_json",
  "artifacts.repo_info_json",
  "artifacts.user_data_json",
  ...RECORD,
];
const TYPE = [
  "custom_type_versions.rules_json",
  "custom_type_versions.schema_json",
  "custom_type_versions.summary_json",
];
const ACTION = ["actions.triggers_json", "notification_targets.target_json"];
const TRAIL = [
  "artifacts.git_commit_info_json",
  "artifacts.repo_info_json",
  "attestations.git_commit_info_json",
  "attestations.repo_info_json",
  "evaluations.facts_json",
  "trail_events.event_json",
  "trails.compliance_json",
  "trails.external_urls_json",
  "trails.git_commit_info_json",
  "trails.user_data_json",
];

/** Every operation that returns a list of records, and the columns whose damage it shows. */
const LISTS: Readonly<Record<string, readonly string[]>> = {
  build_statistics: [],
  compare_snapshots: [
    "artifacts.git_commit_info_json",
    "artifacts.reasons_json",
    "evaluations.facts_json",
    "evaluations.verdicts_json",
    "snapshots.policy_versions_json",
  ],
  environment_diff: ["evaluations.facts_json", "snapshot_artifacts.instances_json"],
  get_artifact_attestation: RECORD,
  get_artifact_by_commit_sha: [
    ...ARTIFACT,
    "artifacts.reasons_json",
    "artifacts.template_json",
    "snapshot_artifacts.instances_json",
  ],
  get_attestations: RECORD,
  get_custom_attestation_types: TYPE,
  get_env_auditlog: ["evaluations.facts_json"],
  get_env_events: ["evaluations.facts_json"],
  get_flow_attestations: RECORD,
  get_control_coverage: [],
  get_flows: [],
  get_repo_deployment_statistics: [],
  get_repo_live_artifacts: [],
  get_snapshot: [
    "artifacts.git_commit_info_json",
    "evaluations.facts_json",
    "evaluations.reasons_json",
    "evaluations.verdicts_json",
    "snapshot_artifacts.instances_json",
    "snapshots.policy_versions_json",
  ],
  get_search: ["artifacts.attestations_json"],
  get_trail_attestation: RECORD,
  list_trail_attestations: RECORD,
  list_trail_events: [
    "artifacts.git_commit_info_json",
    "artifacts.repo_info_json",
    "attestations.git_commit_info_json",
    "attestations.repo_info_json",
    "evaluations.facts_json",
    "trail_events.event_json",
  ],
  get_environment_notifications: ACTION,
  list_actions: ACTION,
  list_action_deliveries: ["deliveries.target_json"],
  list_allowlist: [],
  list_artifacts: ARTIFACT,
  list_artifacts_deprecated: ARTIFACT,
  list_attestations_for_criteria: RECORD,
  list_audit_log: [],
  list_audit_log_entries: ["audit_log.detail_json"],
  list_builds: [],
  list_control_decisions: ["attestations.annotations_json", "attestations.payload_json"],
  list_control_tag_choices: [],
  list_snapshot_outlines: [],
  list_control_versions: ["control_versions.links_json"],
  list_controls: ["controls.links_json"],
  list_changes: [
    "artifacts.commits_list_json",
    "artifacts.git_commit_info_json",
    "attestations.payload_json",
    "audit_log.detail_json",
    "evaluations.facts_json",
    "evaluations.verdicts_json",
    "policy_events.data_json",
  ],
  list_rego_evaluations: [
    "rego_evaluations.outputs_json",
    "rego_evaluations.params_json",
    "rego_evaluations.trails_json",
    "rego_evaluations.violations_json",
  ],
  list_rego_policies: [],
  list_rego_policy_versions: [
    "rego_policy_versions.files_json",
    "rego_policy_versions.outputs_json",
    "rego_policy_versions.params_json",
    "rego_policy_versions.warnings_json",
  ],
  list_deployments: [],
  list_env_deployments: [],
  list_envs: [],
  list_inbound_webhooks: ["inbound_webhooks.settings_json"],
  list_legal_holds: [],
  list_members: [],
  list_past_artifacts: [],
  list_past_environments: ["snapshots.policy_versions_json"],
  list_past_policies: ["snapshots.policy_versions_json"],
  list_policies: ["policy_events.data_json"],
  list_expiring_api_keys: [],
  list_repo_deployments: [],
  list_repo_filter_options: [],
  list_repo_tag_choices: [],
  list_repos: [],
  list_retention_rules: [],
  list_service_account_api_keys: [],
  list_service_accounts: [],
  list_snapshots: [],
  list_system_attestation_types: [],
  list_trails: TRAIL,
  list_user_api_keys: [],
  list_unknown_inputs: [],
  list_user_organizations: [],
  list_trails_for_org: TRAIL,
  list_views: ["views.parameters_json"],
};

/** Pages of a list that is one column of one record, each with the reason why damage may fail it. */
const OF_ONE_RECORD: Readonly<Record<string, string>> = {
  get_trail_checklist: "a damaged verdict fails the trail, whose statuses these are",
};

/** Records that are omitted without a mark, each with the reason. */
const UNMARKED: Readonly<Record<string, string>> = {
  "environment_diff evaluations.facts_json":
    "the artifact is shown as one without provenance; its shape has no field for a mark",
  "environment_diff snapshot_artifacts.instances_json": "the names of pods are left out; how many there were is known",
  "get_artifact_by_commit_sha snapshot_artifacts.instances_json":
    "an unknown lead time is omitted, as for any start without a time",
  "list_trails evaluations.facts_json":
    "the provenance of an artifact is unknown, and a history contains only what was reported",
  "list_trails_for_org evaluations.facts_json": "as list_trails",
  "list_trail_events evaluations.facts_json": "as list_trails",
  "list_changes audit_log.detail_json": "entries that said nothing are listed, too, so the items are other ones",
};

/** Lists that damaged records make shorter or longer, each with the reason. */
const OF_OTHER_LENGTH: Readonly<Record<string, string>> = {
  "list_changes audit_log.detail_json":
    "the details say what changed: all entries are listed, but for attestations, whose overrides are not known",
  "list_trail_events evaluations.facts_json": "the facts say which starts and stops belong to the trail",
};

/**
 * Whether the response shape of a read is a list of records: an array, or a page of one. LISTS also contains reads
 * whose lists are deeper in the response, or under keys.
 */
function isList({ responses }: AssayOperation): boolean {
  const schema = responses[200]?.schema as Schema | undefined;
  const isPage = ["pagination", "page"].some((name) => name in (schema?.properties ?? {}));
  return schema?.type === "array" || (schema?.anyOf ?? []).some(({ type }) => type === "array") || isPage;
}
type Schema = { type?: string; anyOf?: Schema[]; properties?: Record<string, Schema> };

const test = suite("whole/damage");
let world: World;
let server: TestServer;
let client: ReturnType<typeof createClient>;
test.before(async () => {
  world = await createWorld();
  server = await startServer({ from: world.image });
  client = createClient(server.url);
});
test.after(async () => {
  client.close();
  await server.stop();
  await world.stop();
});

const reads = operations.filter(({ method, status }) => method === "GET" && status !== "removed");

/** All list items in a response: of the body itself, of its fields, and of their fields. */
function items({ text, headers }: Received): string[] {
  if (!String(headers["content-type"]).startsWith("application/json")) return text.split("\n");
  const within = (value: unknown, depth: number): unknown[] => {
    if (Array.isArray(value)) return value;
    return typeof value === "object" && value !== null && depth > 0
      ? Object.values(value).flatMap((one) => within(one, depth - 1))
      : [];
  };
  return within(JSON.parse(text), 2).map((item) => JSON.stringify(item));
}

/** A fixed time, because durations count up to now. */
function ask(draft: Draft): Promise<Received> {
  server.clock.at = world.image.at;
  return client.send(write(draft, world));
}

/** The generated request whose response has the most items. */
async function fullest(operation: AssayOperation): Promise<{ draft: Draft; items: string[] }> {
  let best: { draft: Draft; items: string[] } | null = null;
  for (const generated of fc.sample(valid(operation, world), { seed: 6, numRuns: 40 })) {
    const draft: Draft = { ...generated, role: "admin" };
    const answer = await ask(draft);
    if (answer.status !== 200) continue;
    const found = items(answer);
    if (!best || found.length > best.items.length) best = { draft, items: found };
  }
  if (!best || best.items.length === 0)
    throw new Error(`${operation.id} has nothing to list: give it something in test/whole/world.ts`);
  return best;
}

type Column = { table: string; column: string; keys: string[] };

const columns = (): Column[] =>
  server.db
    .prepare<[], { table: string; column: string; keys: string }>(
      `SELECT m.name AS "table", c.name AS "column",
              (SELECT group_concat(k.name) FROM pragma_table_info(m.name) k WHERE k.pk > 0) AS keys
       FROM sqlite_schema m JOIN pragma_table_info(m.name) c
       WHERE m.type = 'table' AND c.name LIKE '%\\_json' ESCAPE '\\' ORDER BY 1, 2`,
    )
    .all()
    .map((row) => ({ ...row, keys: row.keys.split(",") }));

const BROKEN = "{broken";

/** The values in a column, each with the statements that damage and restore it. */
function places({ table, column, keys }: Column): { damage(): void; heal(): void }[] {
  const rows = server.db
    .prepare<[], Record<string, unknown>>(
      `SELECT ${[...keys, column].join(", ")} FROM ${table} WHERE ${column} IS NOT NULL`,
    )
    .all();
  const set = server.db.prepare(
    `UPDATE ${table} SET ${column} = ? WHERE ${keys.map((key) => `${key} = ?`).join(" AND ")}`,
  );
  return rows.map((row) => ({
    damage: () => void set.run(BROKEN, ...keys.map((key) => row[key])),
    heal: () => void set.run(row[column], ...keys.map((key) => row[key])),
  }));
}

type Place = ReturnType<typeof places>[number];

async function damaged<T>(all: readonly Place[], work: () => Promise<T>): Promise<T> {
  try {
    for (const { damage } of all) damage();
    return await work();
  } finally {
    for (const { heal } of all) heal();
  }
}

const isMarked = (item: string): boolean => item.includes(UNREADABLE) || item.includes('"unreadable":true');

test("every read of a list is in LISTS, with the columns that it shows", () => {
  const named = Object.keys(LISTS);
  assert.equal(
    reads
      .filter((operation) => isList(operation) && !named.includes(operation.id) && !(operation.id in OF_ONE_RECORD))
      .map(({ id }) => id),
    [],
    "add these to LISTS: a damaged row of a list must not fail the list",
  );
  assert.equal(
    named.filter((id) => !reads.some((operation) => operation.id === id)),
    [],
    "these operations do not exist",
  );
});

for (const operation of reads.filter(({ id }) => id in LISTS))
  test(operation.id, async () => {
    const { draft, items: sound } = await fullest(operation);
    const shown: string[] = [];
    /** @returns whether the response differs from the one before */
    const isShown = async (name: string): Promise<boolean> => {
      const answer = await ask(draft);
      assert.is(answer.status, 200, `${name} damaged: ${answer.text}`);
      const now = items(answer);
      if (!(`${operation.id} ${name}` in OF_OTHER_LENGTH))
        assert.is(now.length, sound.length, `${name} damaged: the list has another length`);
      const changed = now.filter((item, index) => item !== sound[index]);
      if (!(`${operation.id} ${name}` in UNMARKED))
        assert.equal(
          changed.filter((item) => !isMarked(item)),
          [],
          `${name} damaged: items that are not marked`,
        );
      return changed.length > 0;
    };
    for (const column of columns()) {
      const name = `${column.table}.${column.column}`;
      const all = places(column);
      if (!(await damaged(all, () => isShown(name)))) continue;
      shown.push(name);
      for (const place of all) if (await damaged([place], () => isShown(name))) break;
    }
    assert.equal(shown, [...(LISTS[operation.id] as string[])].sort());
  });

test.run();
