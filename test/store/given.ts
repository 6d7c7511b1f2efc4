/** Set-up for the store tests of trails, artifacts and verdicts, and helpers for query plans. */
import { openMemory } from "../../src/store/db/database.ts";
import { openStore } from "../../src/store/index.ts";
import type { Store } from "../../src/store/index.ts";
import type { ArtifactFields } from "../../src/store/flows/artifacts.ts";
import type { FlowRow } from "../../src/store/flows/flows.ts";
import type { TrailFields } from "../../src/store/flows/trails.ts";
import type { Db } from "../../src/store/db/types.ts";
import type { NewAttestation } from "../../src/store/attestations/attestation-rows.ts";

/** An artifact about which only its file name and commit are known. */
export const ARTIFACT_FIELDS: ArtifactFields = {
  filename: "app",
  description: null,
  git_commit: "c".repeat(40),
  git_commit_info_json: null,
  commits_list_json: null,
  repo_info_json: null,
  repo_id: null,
  repo_url: null,
  build_url: "",
  commit_url: "",
  external_urls_json: null,
  annotations_json: null,
  user_data_json: null,
  template_json: "[]",
  legacy_is_compliant: null,
};

/** A compliant generic attestation on a trail, without evidence. */
export const ATTESTATION_FIELDS = {
  scope: "trail",
  type: "generic",
  is_compliant: 1,
  artifact_fingerprint: null,
  target_artifacts_json: null,
  git_commit: null,
  git_commit_info_json: null,
  repo_info_json: null,
  origin_url: null,
  description: null,
  annotations_json: "{}",
  external_urls_json: null,
  user_data_json: null,
  payload_json: "{}",
  reasons_json: "[]",
  overridden_type: null,
  original_id: null,
  control: null,
  control_version: null,
  type_version: null,
  evidence_digest: null,
  evidence_size: null,
  evidence_filename: null,
  evidence_content_type: null,
} satisfies Partial<NewAttestation>;

/** A trail that follows the template of its flow, about which nothing else is known. */
export const TRAIL_FIELDS = {
  description: null,
  git_commit_info_json: null,
  origin_url: null,
  external_urls_json: null,
  user_data_json: null,
  template_inherited: 1,
} satisfies Partial<TrailFields>;

/** Creates a private flow with a template that expects nothing, unless another one is given. */
export const createFlow = (
  store: Pick<Store, "flows" | "templates">,
  organizationId: number,
  name: string,
  template = "version: 1",
): FlowRow =>
  store.flows.create(organizationId, {
    name,
    description: "",
    visibility: "private",
    templateId: store.templates.intern(template).id,
    repoUrl: null,
  });

let image: Buffer | null = null;

/**
 * A database with one organization. Every reading of the clock advances it by a second. `sql` collects the prepared
 * statements.
 */
export function opened() {
  image ??= openMemory().serialize();
  const real = openMemory(image);
  const sql: string[] = [];
  const db = new Proxy(real, {
    get(target, name) {
      const value = Reflect.get(target, name) as unknown;
      if (typeof value !== "function") return value;
      if (name !== "prepare") return (value as (...args: unknown[]) => unknown).bind(target);
      return (text: string) => {
        sql.push(text);
        return target.prepare(text);
      };
    },
  }) as Db;
  const clock = { at: 1_700_000_000 };
  let ids = 0;
  const store = openStore(db, { now: () => (clock.at += 1), newId: () => `id-${++ids}` });
  const organizationId = store.organizations.create({
    name: "acme",
    kind: "shared",
    isPublic: false,
    controlsEnabled: true,
  });

  const flow = (name: string, template?: string) => createFlow(store, organizationId, name, template);
  const trail = (flowId: number, name: string, fields: Partial<TrailFields> = {}) =>
    store.trails.create(
      { organizationId, flowId, name, createdBy: "ada" },
      {
        ...TRAIL_FIELDS,
        template_id: store.flows.get(flowId).template_id,
        ...fields,
      },
    );
  const artifact = (
    flowId: number,
    trailId: number | null,
    fingerprint: string,
    fields: Partial<ArtifactFields> & { referenceName?: string } = {},
  ): number => {
    const { referenceName = null, ...rest } = fields;
    return store.artifacts.create(
      { organizationId, flowId, trailId, fingerprint, referenceName, createdBy: "ada" },
      {
        ...ARTIFACT_FIELDS,
        ...rest,
      },
      clock.at,
    );
  };
  const attestation = (flowId: number, trailId: number, name: string, fields: Partial<NewAttestation> = {}) =>
    store.attestations.create({
      organization_id: organizationId,
      flow_id: flowId,
      trail_id: trailId,
      ...ATTESTATION_FIELDS,
      name,
      reported_by: "ada",
      created_at: clock.at,
      ...fields,
    });

  return { db: real, store, clock, sql, organizationId, flow, trail, artifact, attestation };
}

/** The query plan of a statement, one line per step. */
export const plan = (db: Db, sql: string): string[] =>
  (db.prepare(`EXPLAIN QUERY PLAN ${sql}`).all(...placeholders(sql)) as { detail: string }[]).map(
    ({ detail }) => detail,
  );

/** The program of a statement: its instructions, of which `OpenRead` opens a b-tree (p2) of a database (p3). */
export const explain = (db: Db, sql: string): { opcode: string; p2: number; p3: number }[] =>
  db.prepare(`EXPLAIN ${sql}`).all(...placeholders(sql)) as { opcode: string; p2: number; p3: number }[];

/** The steps that scan one of our tables; not those over the JSON of a parameter, or over the page of a subquery. */
export const scans = (db: Db, sql: string): string[] => plan(db, sql).filter((step) => SCAN.test(step));

/** Subqueries with a LIMIT, or over what a search of an index finds, have these names. */
const SCAN = /^SCAN (?!(?:page|wanted|shown|found|latest_flows|newest)$|CONSTANT|.*VIRTUAL TABLE)/;

/** Planning reads no values, but every parameter has to be bound. */
function placeholders(sql: string): unknown[] {
  const names = [...new Set([...sql.matchAll(/@(\w+)/g)].map((match) => match[1] as string))];
  if (names.length > 0) return [Object.fromEntries(names.map((name) => [name, 1]))];
  return (sql.match(/\?/g) ?? []).map(() => 1);
}
