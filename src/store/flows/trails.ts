/** Trails; their history is in trail-events.ts. Only trail-evaluation.ts writes verdicts. */
import { hasMembers, readStoredJson, readStoredJsonOrNull } from "../../domain/stored-json.ts";
import { notFound } from "../../errors.ts";
import type { State } from "../../domain/compliance/artifact.ts";
import { possibleKeys } from "../../domain/compliance/trail.ts";
import type { TrailStatus } from "../../domain/compliance/trail.ts";
import { prefixUpperBound } from "./artifacts.ts";
import type { ArtifactNames } from "./artifacts.ts";
import type { FlowChanges } from "./changes.ts";
import { flag, number, orNull, selectList, string, stringOf } from "../db/columns.ts";
import type { RowOf } from "../db/columns.ts";
import { selectWithStubs } from "../db/large-json.ts";
import { trailEventStore } from "./trail-events.ts";
import type { Db, SchemaSources } from "../db/types.ts";

const TRAIL = {
  id: number,
  public_id: string,
  organization_id: number,
  flow_id: number,
  name: string,
  description: orNull(string),
  git_commit_info_json: orNull(string),
  origin_url: orNull(string),
  external_urls_json: orNull(string),
  user_data_json: orNull(string),
  template_id: number,
  template_inherited: flag,
  created_by: string,
  created_at: number,
  last_modified_at: number,
  state: stringOf<State>(),
  compliance_json: string,
  reasons_json: string,
};
export type TrailRow = RowOf<typeof TRAIL>;

/** A trail of a list without its statuses, which may be thousands. */
export type SummarizedTrailRow = Omit<TrailRow, "compliance_json">;

/** The columns that reports set. */
export type TrailFields = Pick<
  TrailRow,
  | "description"
  | "git_commit_info_json"
  | "origin_url"
  | "external_urls_json"
  | "user_data_json"
  | "template_id"
  | "template_inherited"
>;

const TRAIL_COLUMNS = selectList(TRAIL);
/** The same for responses: texts whose size a client controls are stubs (db/large-json.ts). The alias is `t`. */
const LARGE = ["git_commit_info_json", "external_urls_json", "user_data_json"] as const;
const { compliance_json: _, ...SUMMARY } = TRAIL;
const LISTED_TRAILS = selectWithStubs("t", TRAIL, LARGE);
const SUMMARIZED_TRAILS = selectWithStubs("t", SUMMARY, LARGE);

export type TrailFilter = {
  organizationId: number;
  flowId: number | null;
  /** Only trails of flows with this tag. */
  flowTag: { key: string; value: string } | null;
  /** Fingerprint, or its first hex characters, of an artifact that was reported to the trail. */
  fingerprint: string | null;
  state?: TrailState | null;
  /** Part of the name, in any case; only with a flow. */
  search?: string | null;
  /** Only trails with a smaller id: what follows a page whose last trail is this one. */
  before?: number | null;
};
/** Guard of a stored verdict. */
export const isTrailStatus = hasMembers<TrailStatus>("status", "attestations_statuses", "artifacts_statuses");
type PartOfStatus = Pick<TrailStatus, "attestations_statuses" | "artifacts_statuses" | "evaluated_at">;
/** The statuses of the trail itself, the time of the evaluation, and those of artifacts. */
type Parts = [PartOfStatus["attestations_statuses"], number, ...(PartOfStatus["artifacts_statuses"][string] | null)[]];
const isParts = (value: unknown): value is Parts =>
  Array.isArray(value) && Array.isArray(value[0]) && typeof value[1] === "number";

type TrailState = "INCOMPLETE" | "COMPLIANT" | "NON-COMPLIANT";

/** Binds key, organization and value of a tag. */
const TAGGED_FLOWS = `SELECT f.id FROM flows f JOIN flow_tags tag ON tag.flow_id = f.id AND tag.key = ?
         WHERE f.organization_id = ? AND tag.value = ?`;

type TrailChanges = Pick<FlowChanges, "onTrailStarted">;

export function trailStore(db: Db, { now, newId }: SchemaSources, { onTrailStarted }: TrailChanges) {
  const byName = db.prepare<[number, string], TrailRow>(
    `SELECT ${TRAIL_COLUMNS} FROM trails WHERE flow_id = ? AND name = ?`,
  );
  const version = db
    .prepare<[number, string], string>(
      `SELECT concat_ws(' ', t.id, t.last_modified_at, t.state,
                        (SELECT max(te.id) FROM trail_events te WHERE te.trail_id = t.id))
       FROM trails t WHERE t.flow_id = ? AND t.name = ?`,
    )
    .pluck();
  const byId = db.prepare<[number], TrailRow>(`SELECT ${TRAIL_COLUMNS} FROM trails WHERE id = ?`);
  const listed = db.prepare<[number], TrailRow>(`SELECT ${LISTED_TRAILS} FROM trails t WHERE t.id = ?`);
  const summarizedByName = db.prepare<[number, string], SummarizedTrailRow>(
    `SELECT ${SUMMARIZED_TRAILS} FROM trails t WHERE t.flow_id = ? AND t.name = ?`,
  );
  const summarized = db.prepare<[number], SummarizedTrailRow>(
    `SELECT ${SUMMARIZED_TRAILS} FROM trails t WHERE t.id = ?`,
  );
  const complianceById = db.prepare<[number], string>("SELECT compliance_json FROM trails WHERE id = ?").pluck();
  const shortCompliance = db
    .prepare<[number, number], string>(
      "SELECT compliance_json FROM trails WHERE id = ? AND octet_length(compliance_json) <= ?",
    )
    .pluck();
  const complianceBytes = db
    .prepare<[number], number>("SELECT octet_length(compliance_json) FROM trails WHERE id = ?")
    .pluck();
  // SQLite takes half of the time in which all of a long text is parsed here.
  const complianceParts = db
    .prepare<[string | null, string | null, number], string | null>(
      `SELECT CASE WHEN json_valid(compliance_json)
         THEN json_array(compliance_json -> '$.attestations_statuses', compliance_json -> '$.evaluated_at',
                         compliance_json -> ?, compliance_json -> ?) END
       FROM trails WHERE id = ?`,
    )
    .pluck();
  const insert = db.prepare(
    `INSERT INTO trails (public_id, organization_id, flow_id, name, description, git_commit_info_json, origin_url,
                         external_urls_json, user_data_json, template_id, template_inherited, created_by, created_at,
                         last_modified_at, state, compliance_json, reasons_json)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'INCOMPLETE', '{}', '[]')`,
  );
  const update = db.prepare(
    `UPDATE trails SET description = ?, git_commit_info_json = ?, origin_url = ?, external_urls_json = ?,
       user_data_json = ?, template_id = ?, template_inherited = ?
     WHERE id = ?`,
  );
  const latestTemplate = db.prepare<[number], { template_id: number }>(
    "SELECT template_id FROM trails WHERE flow_id = ? ORDER BY id DESC LIMIT 1",
  );
  const insertRepo = db.prepare("INSERT INTO trail_repos (trail_id, repo_id) VALUES (?, ?) ON CONFLICT DO NOTHING");
  const repos = db.prepare<[number], { public_id: string }>(
    `SELECT r.public_id FROM trail_repos tr JOIN repos r ON r.id = tr.repo_id WHERE tr.trail_id = ? ORDER BY r.id`,
  );

  const taggedFlows = db.prepare<[string, number, string], number>(TAGGED_FLOWS).pluck();
  // The newest trails of several flows are among the newest of each, which an index has in order. Searching the trails
  // of the organization instead would read those of all other flows.
  const byFlows = db
    .prepare<[string, number, number, number], number>(
      `SELECT t.id FROM json_each(?) wanted CROSS JOIN trails t ON t.id IN (
         SELECT newest.id FROM trails newest WHERE newest.flow_id = wanted.value ORDER BY newest.id DESC LIMIT ?)
       ORDER BY t.id DESC LIMIT ? OFFSET ?`,
    )
    .pluck();
  const countByFlow = db.prepare<[number], number>("SELECT trail_count FROM flows WHERE id = ?").pluck();
  const countUnfinished = db
    .prepare<[number], number>("SELECT count(*) FROM trails WHERE flow_id = ? AND state <> 'COMPLIANT'")
    .pluck();
  const countByOrganization = db
    .prepare<[number], number>("SELECT coalesce(sum(trail_count), 0) FROM flows WHERE organization_id = ?")
    .pluck();
  const incrementCount = db.prepare("UPDATE flows SET trail_count = trail_count + 1 WHERE id = ?");
  /** The ids of the flows, for a filter by tag and nothing else; null for every other filter. */
  const findTaggedFlows = ({ organizationId, flowId, flowTag, ...others }: TrailFilter): number[] | null =>
    flowTag === null || flowId !== null || isNarrowed(others)
      ? null
      : taggedFlows.all(flowTag.key, organizationId, flowTag.value);

  function count(filter: TrailFilter): number {
    const flows = findTaggedFlows(filter);
    if (flows) return flows.reduce((sum, flow) => sum + (countByFlow.get(flow) ?? 0), 0);
    if (filter.flowTag === null && !isNarrowed(filter)) {
      const { flowId, organizationId } = filter;
      return (flowId === null ? countByOrganization.get(organizationId) : countByFlow.get(flowId)) ?? 0;
    }
    if (filter.state === "COMPLIANT" && filter.flowId !== null && !filter.search && filter.fingerprint === null)
      return (countByFlow.get(filter.flowId) ?? 0) - (countUnfinished.get(filter.flowId) ?? 0);
    const { sql, values } = whereClause(filter);
    const counting = db.prepare<[(string | number)[]], { n: number }>(
      `SELECT count(*) AS n FROM trails t WHERE ${sql}`,
    );
    return counting.get(values)?.n ?? 0;
  }

  return {
    ...trailEventStore(db),
    find: (flowId: number, name: string): TrailRow | null => byName.get(flowId, name) ?? null,
    /**
     * A text that differs after every report about a trail: an artifact, an attestation, or the trail itself. null when
     * there is no trail of that name.
     */
    versionOf: (flowId: number, name: string): string | null => version.get(flowId, name) ?? null,
    /** As `getSummarized`. @throws AppError 404 with the text of messages 12. */
    require(at: { organization: string; flow: { id: number; name: string } }, name: string): SummarizedTrailRow {
      const row = summarizedByName.get(at.flow.id, name);
      if (!row)
        throw notFound(
          `Trail with name '${name}' does not exist for Organization '${at.organization}' and Flow '${at.flow.name}'`,
        );
      return row;
    },
    get(id: number): TrailRow {
      const row = byId.get(id);
      if (!row) throw new Error(`trail ${id} is gone`);
      return row;
    },
    /** The stored verdict of a trail; null for one that is longer, and for a damaged one. */
    findCompliance(id: number, maxBytes: number): TrailStatus | null {
      return readStoredJsonOrNull(shortCompliance.get(id, maxBytes) ?? "", isTrailStatus);
    },
    /** Bytes of the stored verdict of a trail, some two hundred for each check; 0 for one that is gone. */
    countComplianceBytes: (id: number): number => complianceBytes.get(id) ?? 0,
    /** The stored verdict of a trail, which must exist. */
    getCompliance(id: number): TrailStatus {
      const text = complianceById.get(id);
      if (text === undefined) throw new Error(`trail ${id} is gone`);
      return readStoredJson(text, isTrailStatus);
    },
    /**
     * As `getCompliance`, with only those artifacts that have the name of this one; the rest is not parsed here. After
     * a later report of the name, its entry is that of the later one. @param artifact null for none
     */
    getComplianceOf(id: number, artifact: ArtifactNames | null): PartOfStatus {
      const keys = artifact === null ? [] : possibleKeys(artifact.reference_name, artifact.fingerprint);
      const [path = null, otherPath = null] = keys.map((key) => `$.artifacts_statuses.${JSON.stringify(key)}`);
      const text = complianceParts.get(path, otherPath, id);
      const [own, evaluatedAt, ...found] = readStoredJson(text ?? "", isParts);
      return {
        attestations_statuses: own,
        artifacts_statuses: Object.fromEntries(
          keys.flatMap((key, at) => {
            const entry = found[at] ?? null;
            return entry === null ? [] : [[key, entry]];
          }),
        ),
        evaluated_at: evaluatedAt,
      };
    },
    /**
     * Creates a trail without a verdict and announces it; trail-evaluation.ts must follow in the same write.
     * @returns the new row.
     */
    create(
      at: { organizationId: number; flowId: number; name: string; createdBy: string },
      fields: TrailFields,
    ): TrailRow {
      const time = now();
      const { lastInsertRowid } = insert.run(
        newId(),
        at.organizationId,
        at.flowId,
        at.name,
        fields.description,
        fields.git_commit_info_json,
        fields.origin_url,
        fields.external_urls_json,
        fields.user_data_json,
        fields.template_id,
        fields.template_inherited,
        at.createdBy,
        time,
        time,
      );
      incrementCount.run(at.flowId);
      const row = byId.get(Number(lastInsertRowid)) as TrailRow;
      onTrailStarted(at.flowId, { trailId: row.id, at: time, by: at.createdBy });
      return row;
    },
    /**
     * Replaces what reports set; trail-evaluation.ts must follow in the same write, and sets the time of the change.
     */
    update(id: number, fields: TrailFields): void {
      update.run(
        fields.description,
        fields.git_commit_info_json,
        fields.origin_url,
        fields.external_urls_json,
        fields.user_data_json,
        fields.template_id,
        fields.template_inherited,
        id,
      );
    },
    /** The template of a flow's newest trail; null before the first. The next trail most likely uses it again. */
    findLatestTemplateId: (flowId: number): number | null => latestTemplate.get(flowId)?.template_id ?? null,
    /** @returns whether the trail did not name that repository before. */
    addRepo: (trailId: number, repoId: number): boolean => insertRepo.run(trailId, repoId).changes > 0,
    /** Public ids of the repositories that reports to the trail named. */
    listRepoIds: (trailId: number): string[] => repos.all(trailId).map((row) => row.public_id),
    /** The trail as lists show it, with long texts as stubs; it must exist. */
    getListed(id: number): TrailRow {
      const row = listed.get(id);
      if (!row) throw new Error(`trail ${id} is gone`);
      return row;
    },
    /** As `getListed`, without the statuses. */
    getSummarized(id: number): SummarizedTrailRow {
      const row = summarized.get(id);
      if (!row) throw new Error(`trail ${id} is gone`);
      return row;
    },
    /** The ids of one page, newest first. */
    listIds(filter: TrailFilter, { limit, offset }: { limit: number; offset: number }): number[] {
      const flows = findTaggedFlows(filter);
      if (flows) return byFlows.all(JSON.stringify(flows), offset + limit, limit, offset);
      const { sql, values } = whereClause(filter);
      return db
        .prepare<[(string | number)[]], number>(
          `SELECT t.id FROM trails t WHERE ${sql} ORDER BY t.id DESC LIMIT ? OFFSET ?`,
        )
        .pluck()
        .all([...values, limit, offset]);
    },
    /** How many trails `listIds` has on all pages. */
    count,
    /** How many trails match in each state, whatever state the filter names. */
    countStates(filter: TrailFilter): Record<TrailState, number> {
      const of = (state: TrailState | null): number => count({ ...filter, state });
      const [failing, incomplete] = [of("NON-COMPLIANT"), of("INCOMPLETE")];
      return { "NON-COMPLIANT": failing, INCOMPLETE: incomplete, COMPLIANT: of(null) - failing - incomplete };
    },
  };
}

const STATE_LITERALS: Readonly<Record<TrailState, string>> = {
  INCOMPLETE: "'INCOMPLETE'",
  COMPLIANT: "'COMPLIANT'",
  "NON-COMPLIANT": "'NON-COMPLIANT'",
};

/** Whether a filter leaves out trails of the flows that it selects. */
const isNarrowed = ({
  fingerprint,
  state,
  search,
  before,
}: Pick<TrailFilter, "fingerprint" | "state" | "search" | "before">): boolean =>
  fingerprint !== null || Boolean(state) || Boolean(search) || typeof before === "number";

/**
 * The WHERE clause of a filter. The fingerprint comes first, because it leaves the fewest rows (semantics 2.5). Every
 * condition includes the organization, so that rows of others are never read.
 */
function whereClause({ organizationId, flowId, flowTag, fingerprint, state, search, before }: TrailFilter): {
  sql: string;
  values: (string | number)[];
} {
  const parts: string[] = [];
  const values: (string | number)[] = [];
  const add = (sql: string, ...bound: (string | number)[]): void => {
    parts.push(sql);
    for (const value of bound) values.push(value);
  };
  if (fingerprint !== null)
    add(
      `t.id IN (SELECT trail_id FROM artifacts
         WHERE organization_id = ? AND fingerprint >= ? AND fingerprint < ? AND trail_id IS NOT NULL)`,
      organizationId,
      fingerprint,
      prefixUpperBound(fingerprint),
    );
  if (flowId === null) add("t.organization_id = ?", organizationId);
  else add("t.flow_id = ?", flowId);
  if (flowTag !== null) add(`t.flow_id IN (${TAGGED_FLOWS})`, flowTag.key, organizationId, flowTag.value);
  // SQLite uses the index of unfinished trails only for a query that repeats its condition.
  if (state) add(`t.state = ${STATE_LITERALS[state]}${state === "COMPLIANT" ? "" : " AND t.state <> 'COMPLIANT'"}`);
  // The names are read from an index; the trails of other names are not read at all.
  if (search && flowId !== null)
    add("t.id IN (SELECT id FROM trails WHERE flow_id = ? AND instr(lower(name), lower(?)) > 0)", flowId, search);
  if (typeof before === "number") add("t.id < ?", before);
  return { sql: parts.join(" AND "), values };
}
