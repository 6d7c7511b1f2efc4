/** Trails and their append-only history. Verdicts are written by evaluation.ts only. */
import { notFound } from "../../errors.ts";
import type { State } from "../../domain/compliance/artifact.ts";
import type { TrailStatus } from "../../domain/compliance/trail.ts";
import { prefixUpperBound } from "./artifacts.ts";
import { selectWithStubs } from "../db/large-json.ts";
import type { triggerStore } from "../notifications/triggers.ts";
import type { Db, SchemaSources } from "../db/types.ts";

export type TrailRow = {
  id: number;
  public_id: string;
  organization_id: number;
  flow_id: number;
  name: string;
  description: string | null;
  git_commit_info_json: string | null;
  origin_url: string | null;
  external_urls_json: string | null;
  user_data_json: string | null;
  template_id: number;
  template_inherited: 0 | 1;
  created_by: string;
  created_at: number;
  last_modified_at: number;
  state: State;
  compliance_json: string;
  reasons_json: string;
};

export type TrailEventRow = { id: number; type: string; timestamp: number; event_json: string };
/** `event_json` is an object in valid JSON; null for a damaged record. */
export type TrailEventText = { type: string; timestamp: number; event_json: string | null };

/** The facts of a trail that reports set. */
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

export const TRAIL_COLUMNS =
  "id, public_id, organization_id, flow_id, name, description, git_commit_info_json, origin_url, external_urls_json, user_data_json, " +
  "template_id, template_inherited, created_by, created_at, last_modified_at, state, compliance_json, reasons_json";
/** The same for answers: texts whose length follows from what a client sent are stubs (large-json.ts). */
const listedTrails = (alias: string): string =>
  selectWithStubs(alias, TRAIL_COLUMNS.split(", "), ["git_commit_info_json", "external_urls_json", "user_data_json"]);

export type TrailFilter = {
  organizationId: number;
  flowId: number | null;
  /** All trails of flows that carry this tag. */
  flowTag: { key: string; value: string } | null;
  /** Fingerprint, or its first hex characters, of an artifact that was reported to the trail. */
  fingerprint: string | null;
};

export function trailStore(db: Db, { now, newId }: SchemaSources, triggers: ReturnType<typeof triggerStore>) {
  const byName = db.prepare<[number, string], TrailRow>(
    `SELECT ${TRAIL_COLUMNS} FROM trails WHERE flow_id = ? AND name = ?`,
  );
  const byId = db.prepare<[number], TrailRow>(`SELECT ${TRAIL_COLUMNS} FROM trails WHERE id = ?`);
  const listed = db.prepare<[number], TrailRow>(`SELECT ${listedTrails("t")} FROM trails t WHERE t.id = ?`);
  const complianceOf = db.prepare<[number], string>("SELECT compliance_json FROM trails WHERE id = ?").pluck();
  const insert = db.prepare(
    `INSERT INTO trails (public_id, organization_id, flow_id, name, description, git_commit_info_json, origin_url, external_urls_json, user_data_json,
                         template_id, template_inherited, created_by, created_at, last_modified_at, state, compliance_json, reasons_json)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'INCOMPLETE', '{}', '[]')`,
  );
  const update = db.prepare(
    `UPDATE trails SET description = ?, git_commit_info_json = ?, origin_url = ?, external_urls_json = ?, user_data_json = ?,
            template_id = ?, template_inherited = ? WHERE id = ?`,
  );
  const latestTemplate = db.prepare<[number], { template_id: number }>(
    "SELECT template_id FROM trails WHERE flow_id = ? ORDER BY id DESC LIMIT 1",
  );
  const addEvent = db.prepare("INSERT INTO trail_events (trail_id, type, timestamp, event_json) VALUES (?, ?, ?, ?)");
  const events = db.prepare<[number], TrailEventRow>(
    "SELECT id, type, timestamp, event_json FROM trail_events WHERE trail_id = ? ORDER BY id",
  );
  const eventTexts = db.prepare<[number], TrailEventText>(
    "SELECT type, timestamp, CASE WHEN json_valid(event_json) THEN event_json END AS event_json FROM trail_events WHERE trail_id = ? ORDER BY id",
  );
  const eventBytes = db
    .prepare<[number], number>("SELECT coalesce(sum(octet_length(event_json)), 0) FROM trail_events WHERE trail_id = ?")
    .pluck();
  const addRepo = db.prepare("INSERT INTO trail_repos (trail_id, repo_id) VALUES (?, ?) ON CONFLICT DO NOTHING");
  const repos = db.prepare<[number], { public_id: string }>(
    "SELECT r.public_id FROM trail_repos t JOIN repos r ON r.id = t.repo_id WHERE t.trail_id = ? ORDER BY r.id",
  );

  const taggedFlows = db
    .prepare<[string, number, string], number>(
      "SELECT f.id FROM flows f JOIN flow_tags g ON g.flow_id = f.id AND g.key = ? WHERE f.organization_id = ? AND g.value = ?",
    )
    .pluck();
  // The newest of some flows are among the newest of each, which an index has in order; looking for them in the trails
  // of the organization means to look at all those of the other flows.
  const ofFlows = db.prepare<[string, number, number, number], TrailRow>(
    `SELECT ${listedTrails("t")} FROM trails t WHERE t.id IN (
       SELECT t.id FROM json_each(?) f CROSS JOIN trails t ON t.id IN (SELECT n.id FROM trails n WHERE n.flow_id = f.value ORDER BY n.id DESC LIMIT ?)
       ORDER BY t.id DESC LIMIT ? OFFSET ?
     ) ORDER BY t.id DESC`,
  );
  const countOfFlow = db.prepare<[number], number>("SELECT trail_count FROM flows WHERE id = ?").pluck();
  const countOfOrganization = db
    .prepare<[number], number>("SELECT coalesce(sum(trail_count), 0) FROM flows WHERE organization_id = ?")
    .pluck();
  const countOne = db.prepare("UPDATE flows SET trail_count = trail_count + 1 WHERE id = ?");
  /** The flows of a filter that asks for a tag and nothing else; null for every other filter. */
  const flowsOf = ({ organizationId, flowId, flowTag, fingerprint }: TrailFilter): number[] | null =>
    flowTag === null || flowId !== null || fingerprint !== null
      ? null
      : taggedFlows.all(flowTag.key, organizationId, flowTag.value);

  /**
   * The WHERE clause of a filter. The fingerprint comes first: it leaves the fewest rows (semantics 2.5). Everything
   * that narrows by flow is bound to the organization, so that no other organization's rows are ever looked at.
   */
  function where({ organizationId, flowId, flowTag, fingerprint }: TrailFilter): {
    sql: string;
    values: (string | number)[];
  } {
    const parts: string[] = [];
    const values: (string | number)[] = [];
    if (fingerprint !== null) {
      parts.push(
        "t.id IN (SELECT trail_id FROM artifacts WHERE organization_id = ? AND fingerprint >= ? AND fingerprint < ? AND trail_id IS NOT NULL)",
      );
      values.push(organizationId, fingerprint, prefixUpperBound(fingerprint));
    }
    if (flowId === null) {
      parts.push("t.organization_id = ?");
      values.push(organizationId);
    } else {
      parts.push("t.flow_id = ?");
      values.push(flowId);
    }
    if (flowTag !== null) {
      parts.push(
        "t.flow_id IN (SELECT f.id FROM flows f JOIN flow_tags g ON g.flow_id = f.id AND g.key = ? WHERE f.organization_id = ? AND g.value = ?)",
      );
      values.push(flowTag.key, organizationId, flowTag.value);
    }
    return { sql: parts.join(" AND "), values };
  }

  return {
    find: (flowId: number, name: string): TrailRow | null => byName.get(flowId, name) ?? null,
    /** @throws AppError 404 with the text of messages 12. */
    require(at: { organization: string; flow: { id: number; name: string } }, name: string): TrailRow {
      const row = byName.get(at.flow.id, name);
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
    /** The stored verdict of a trail that is known to exist. */
    getCompliance(id: number): TrailStatus {
      const text = complianceOf.get(id);
      if (text === undefined) throw new Error(`trail ${id} is gone`);
      return JSON.parse(text) as TrailStatus;
    },
    /**
     * Creates a trail without a verdict, of which actions are told; evaluation.ts must follow in the same write.
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
      countOne.run(at.flowId);
      const row = byId.get(Number(lastInsertRowid)) as TrailRow;
      triggers.raiseTrailStarted(at.flowId, row.id, time, at.createdBy);
      return row;
    },
    /** Replaces what reports set; evaluation.ts must follow in the same write, and sets the time of the change. */
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
    /** The template of a flow's newest trail, null before the first: what the next trail most likely brings again. */
    findLatestTemplateId: (flowId: number): number | null => latestTemplate.get(flowId)?.template_id ?? null,
    /** Appends to the history; `event` holds what is special to the type. */
    addEvent: (trailId: number, type: string, at: number, event: Readonly<Record<string, unknown>>): void =>
      void addEvent.run(trailId, type, at, JSON.stringify(event)),
    /** The history, oldest first. */
    listEvents: (trailId: number): TrailEventRow[] => events.all(trailId),
    /** Bytes of the history. */
    countEventBytes: (trailId: number): number => eventBytes.get(trailId) ?? 0,
    /** The history, oldest first, for whoever passes it on as text. */
    listEventTexts: (trailId: number): TrailEventText[] => eventTexts.all(trailId),
    /** As events, one after the other: there may be more of them than memory should hold. */
    iterateEvents: (trailId: number): IterableIterator<TrailEventRow> => events.iterate(trailId),
    /** @returns whether the trail did not name that repository before. */
    addRepo: (trailId: number, repoId: number): boolean => addRepo.run(trailId, repoId).changes > 0,
    /** Public ids of the repositories that reports to the trail named. */
    listRepoIds: (trailId: number): string[] => repos.all(trailId).map((row) => row.public_id),
    /** The trail as lists have it, long texts as stubs. */
    getListed(id: number): TrailRow {
      const row = listed.get(id);
      if (!row) throw new Error(`trail ${id} is gone`);
      return row;
    },
    /** One page, newest first, row by row; `limit` null for all, which may be more than memory holds. */
    list(filter: TrailFilter, limit: number | null, offset: number): IterableIterator<TrailRow> {
      const flows = flowsOf(filter);
      if (flows && limit !== null)
        return ofFlows.iterate(JSON.stringify(flows), Math.min(offset + limit, Number.MAX_SAFE_INTEGER), limit, offset);
      const { sql, values } = where(filter);
      return db
        .prepare<[(string | number)[]], TrailRow>(
          `SELECT ${listedTrails("t")} FROM trails t WHERE ${sql} ORDER BY t.id DESC LIMIT ? OFFSET ?`,
        )
        .iterate([...values, limit ?? -1, offset]);
    },
    /** How many trails all pages of `list` have together. */
    count(filter: TrailFilter): number {
      const flows = flowsOf(filter);
      if (flows) return flows.reduce((sum, flow) => sum + (countOfFlow.get(flow) ?? 0), 0);
      if (filter.fingerprint === null && filter.flowTag === null)
        return (
          (filter.flowId === null ? countOfOrganization.get(filter.organizationId) : countOfFlow.get(filter.flowId)) ??
          0
        );
      const { sql, values } = where(filter);
      return (
        db.prepare<[(string | number)[]], { n: number }>(`SELECT count(*) AS n FROM trails t WHERE ${sql}`).get(values)
          ?.n ?? 0
      );
    },
  };
}
