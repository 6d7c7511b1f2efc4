/**
 * Flows: their names, settings and tags.
 *
 * Invariant: every change of a name or a tag is announced, because policies may depend on it.
 */
import { number, orNull, selectList, string, stringOf } from "../db/columns.ts";
import type { RowOf } from "../db/columns.ts";
import { columnOrStub } from "../db/large-json.ts";
import { nameTable } from "../db/name-table.ts";
import { hasAllTags, tagFilterJson, tagTable } from "../db/tags.ts";
import type { TagChange, TagFilter, Tags } from "../db/tags.ts";
import type { Db, ListOptions, SchemaSources } from "../db/types.ts";
import type { FlowChanges } from "./changes.ts";

export type Visibility = "public" | "private";

const FLOW = {
  id: number,
  public_id: string,
  organization_id: number,
  name: string,
  description: string,
  visibility: stringOf<Visibility>(),
  template_id: number,
  /** As reported; the presenter repairs it. */
  repo_url: orNull(string),
  /** Epoch seconds; null for an active flow. */
  archived_at: orNull(number),
  /** The name before archiving. */
  archived_name: orNull(string),
  /** Epoch seconds of the last change of one of its trails; null before the first. */
  latest_activity_at: orNull(number),
  latest_state: orNull(string),
  created_at: number,
  last_modified_at: number,
};
export type FlowRow = RowOf<typeof FLOW>;

/** A flow in a list. `template` is null only for a damaged row; `tags_json` is a JSON object of strings. */
export type FlowListRow = FlowRow & { template: string | null; tags_json: string };

type FlowFields = {
  name: string;
  description: string;
  visibility: Visibility;
  templateId: number;
  repoUrl: string | null;
};

type FlowFilter = {
  /** Part of the name; empty matches all. */
  search: string;
  caseSensitive: boolean;
  /** All of these. */
  tags: readonly TagFilter[];
};
type FlowOrder = { by: "name" | "latest_activity"; direction: "asc" | "desc" };

const COLUMNS = selectList(FLOW, "f");

// instr, not LIKE, so that `_` and `%` match themselves. lower() handles ASCII only, and names contain nothing else.
const LISTED = `f.organization_id = @organization AND f.archived_at IS NULL
   AND instr(iif(@exact, f.name, lower(f.name)), iif(@exact, @search, lower(@search))) > 0
   AND ${hasAllTags("flow_tags", "flow_id", "f.id", "@tags")}`;

/** Flows without activity count as the oldest. The id decides between equals, which is the order of the index. */
const ORDERS = {
  name: { asc: "f.name ASC", desc: "f.name DESC" },
  latest_activity: { asc: "f.latest_activity_at ASC, f.id ASC", desc: "f.latest_activity_at DESC, f.id DESC" },
} as const;

const listSql = (order: string): string =>
  `SELECT ${COLUMNS}, ${columnOrStub("tpl.content")} AS template,
     (SELECT json_group_object(key, value) FROM flow_tags WHERE flow_id = f.id) AS tags_json
   FROM flows AS f LEFT JOIN templates AS tpl ON tpl.id = f.template_id
   WHERE ${LISTED} ORDER BY ${order} LIMIT @limit OFFSET @offset`;

type ListParameters = { organization: number; exact: 0 | 1; search: string; tags: string };

type OwnChanges = Pick<FlowChanges, "onFlowChanged">;

export function flowStore(db: Db, { now, newId }: SchemaSources, { onFlowChanged }: OwnChanges) {
  const named = nameTable<FlowRow>(db, {
    table: "flows",
    as: "f",
    columns: COLUMNS,
    aliases: "flow_aliases",
    owner: "flow_id",
    kind: "Flow",
  });
  const byId = db.prepare<[number], FlowRow>(`SELECT ${COLUMNS} FROM flows AS f WHERE id = ?`);
  const byPublicId = db.prepare<[string, number], FlowRow>(
    `SELECT ${COLUMNS} FROM flows AS f WHERE public_id = ? AND organization_id = ?`,
  );
  const insert = db.prepare(
    `INSERT INTO flows (public_id, organization_id, name, description, visibility, template_id, repo_url, created_at,
                        last_modified_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const update = db.prepare(
    `UPDATE flows SET description = ?, visibility = ?, template_id = ?, repo_url = ?, last_modified_at = ?
     WHERE id = ?`,
  );
  const setActivity = db.prepare("UPDATE flows SET latest_activity_at = ?, latest_state = ? WHERE id = ?");
  const setModified = db.prepare("UPDATE flows SET last_modified_at = ? WHERE id = ?");
  const listing = (order: string) =>
    db.prepare<[ListParameters & { limit: number; offset: number }], FlowListRow>(listSql(order));
  const lists = {
    name: { asc: listing(ORDERS.name.asc), desc: listing(ORDERS.name.desc) },
    latest_activity: { asc: listing(ORDERS.latest_activity.asc), desc: listing(ORDERS.latest_activity.desc) },
  };
  const counting = db.prepare<[ListParameters], { total: number }>(
    `SELECT count(*) AS total FROM flows AS f WHERE ${LISTED}`,
  );
  const namesByIds = db.prepare<[string], { id: number; name: string }>(
    "SELECT f.id, f.name FROM json_each(?) wanted CROSS JOIN flows f ON f.id = wanted.value",
  );
  const withTrail = db
    .prepare<{ organization: number; prefix: string; end: string; trail: string; limit: number }, string>(
      `SELECT f.name FROM flows f
       WHERE f.organization_id = @organization AND f.name >= @prefix AND f.name < @end AND f.archived_at IS NULL
         AND EXISTS (SELECT 1 FROM trails t WHERE t.flow_id = f.id AND t.name = @trail)
       ORDER BY f.name LIMIT @limit`,
    )
    .pluck();
  const tags = tagTable(db, "flow_tags", "flow_id");

  const parameters = (organization: number, { search, caseSensitive, tags }: FlowFilter): ListParameters => ({
    organization,
    search,
    exact: caseSensitive ? 1 : 0,
    tags: tagFilterJson(tags),
  });

  /** The flow with that id; it must exist. */
  function get(id: number): FlowRow {
    const row = byId.get(id);
    if (!row) throw new Error(`flow ${id} is gone`);
    return row;
  }

  return {
    find: named.find,
    require: named.require,
    requireWritable: named.requireWritable,
    isArchived: named.isArchived,
    findHolder: named.findHolder,
    listAliases: named.listAliases,
    /** Names, in order, of at most `limit` flows whose name begins with `prefix` and that have a trail of that name. */
    listWithTrail: (
      organization: number,
      { prefix, trail, limit }: { prefix: string; trail: string; limit: number },
    ): string[] => withTrail.all({ organization, prefix, end: `${prefix}\u{10ffff}`, trail, limit }),
    get,
    /**
     * The current names of flows by id, archived ones with their suffix; unknown ids are left out. Stored facts name
     * flows as they were called at the evaluation, and every response takes the names from here instead.
     */
    findPresentNames: (flowIds: Iterable<number>): Map<number, string> =>
      new Map(namesByIds.all(JSON.stringify([...new Set(flowIds)])).map(({ id, name }) => [id, name])),
    /** The flow with that public id in the organization, archived or not; null without one. */
    findByPublicId: (organizationId: number, publicId: string): FlowRow | null =>
      byPublicId.get(publicId, organizationId) ?? null,

    /** Creates a flow; the name must be free, an alias of that name is released. */
    create(organizationId: number, { name, description, visibility, templateId, repoUrl }: FlowFields): FlowRow {
      const at = now();
      named.releaseAlias(organizationId, name);
      const { lastInsertRowid } = insert.run(
        newId(),
        organizationId,
        name,
        description,
        visibility,
        templateId,
        repoUrl,
        at,
        at,
      );
      return get(Number(lastInsertRowid));
    },

    /** Replaces everything but the name. */
    update(id: number, { description, visibility, templateId, repoUrl }: Omit<FlowFields, "name">): void {
      update.run(description, visibility, templateId, repoUrl, now(), id);
    },

    /** Renames an active flow; the new name must be free, and the old one becomes an alias (semantics 1.8). */
    rename(flow: FlowRow, name: string): void {
      named.rename(flow, name, now());
      onFlowChanged(flow.organization_id, flow.id);
    },

    /**
     * Archives an active flow: it gets a suffixed name, and its plain name becomes free (semantics 1.8).
     * @returns the suffixed name.
     */
    archive(flow: FlowRow): string {
      const at = now();
      const name = named.archive(flow, at);
      onFlowChanged(flow.organization_id, flow.id);
      return name;
    },

    /** Records a change of a trail of the flow. @param at epoch seconds. @param state the state after the change. */
    touch(flowId: number, at: number, state: string | null): void {
      setActivity.run(at, state, flowId);
    },

    /** Active flows of an organization; all of them without a window. */
    list(
      organizationId: number,
      filter: FlowFilter,
      { order: { by, direction }, window }: ListOptions<FlowOrder>,
    ): FlowListRow[] {
      const { limit, offset } = window ?? { limit: -1, offset: 0 };
      return lists[by][direction].all({ ...parameters(organizationId, filter), limit, offset });
    },

    /** How many flows match. */
    count: (organizationId: number, filter: FlowFilter): number =>
      counting.get(parameters(organizationId, filter))?.total ?? 0,

    getTags: (flowId: number): Tags => tags.get(flowId),

    /** Sets and removes tags. */
    patchTags(flowId: number, change: TagChange): void {
      tags.patch(flowId, change);
      setModified.run(now(), flowId);
      onFlowChanged(get(flowId).organization_id, flowId);
    },
  };
}
