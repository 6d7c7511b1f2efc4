import { columnOrStub } from "../db/large-json.ts";
import { nameTable } from "../db/name-table.ts";
import type { staleArtifactStore } from "../environments/stale-artifacts.ts";
import { hasAllTags, tagFilterJson, tagTable } from "../db/tags.ts";
import type { TagChange, TagFilter, Tags } from "../db/tags.ts";
import type { Db, SchemaSources } from "../db/types.ts";

export type Visibility = "public" | "private";

export type FlowRow = {
  id: number;
  public_id: string;
  organization_id: number;
  name: string;
  description: string;
  visibility: Visibility;
  template_id: number;
  /** As it was reported; repaired when it is shown. */
  repo_url: string | null;
  /** Epoch seconds, null for an active flow. */
  archived_at: number | null;
  /** The name before archiving. */
  archived_name: string | null;
  /** Epoch seconds of the last change of a trail of the flow, null before the first. */
  latest_activity_at: number | null;
  latest_state: string | null;
  created_at: number;
  last_modified_at: number;
};

/** A flow in a list. `template` is null only when the record is damaged; `tags_json` is an object of texts. */
export type FlowListRow = FlowRow & { template: string | null; tags_json: string };

export type FlowFields = {
  name: string;
  description: string;
  visibility: Visibility;
  templateId: number;
  repoUrl: string | null;
};

export type FlowFilter = {
  /** A part of the name; empty: every name. */
  search: string;
  caseSensitive: boolean;
  /** All must match. */
  tags: readonly TagFilter[];
};
export type FlowOrder = { by: "name" | "latest_activity"; direction: "asc" | "desc" };

const names = [
  "id",
  "public_id",
  "organization_id",
  "name",
  "description",
  "visibility",
  "template_id",
  "repo_url",
  "archived_at",
  "archived_name",
  "latest_activity_at",
  "latest_state",
  "created_at",
  "last_modified_at",
];
const COLUMNS = names.map((name) => `flow.${name}`).join(", ");

// instr, not LIKE: the characters `_` and `%` mean themselves. lower() knows ASCII only, which is all that names hold.
const LISTED = `flow.organization_id = @organization AND flow.archived_at IS NULL
   AND instr(iif(@exact, flow.name, lower(flow.name)), iif(@exact, @search, lower(@search))) > 0
   AND ${hasAllTags("flow_tags", "flow_id", "flow.id", "@tags")}`;

/**
 * Flows without activity count as the oldest. The id decides between equals, in the order that the index has anyway.
 */
const ORDERS = {
  name: { asc: "flow.name ASC", desc: "flow.name DESC" },
  latest_activity: {
    asc: "flow.latest_activity_at ASC, flow.id ASC",
    desc: "flow.latest_activity_at DESC, flow.id DESC",
  },
} as const;

const listSql = (order: string): string =>
  `SELECT ${COLUMNS}, ${columnOrStub("template.content")} AS template,
     (SELECT json_group_object(key, value) FROM flow_tags WHERE flow_id = flow.id) AS tags_json
   FROM flows AS flow LEFT JOIN templates AS template ON template.id = flow.template_id
   WHERE ${LISTED} ORDER BY ${order} LIMIT @limit OFFSET @offset`;

type ListParameters = { organization: number; exact: 0 | 1; search: string; tags: string };

export function flowStore(db: Db, { now, newId }: SchemaSources, staleness: ReturnType<typeof staleArtifactStore>) {
  const named = nameTable<FlowRow>(db, {
    table: "flows",
    as: "flow",
    columns: COLUMNS,
    aliases: "flow_aliases",
    owner: "flow_id",
    kind: "Flow",
  });
  const byId = db.prepare<[number], FlowRow>(`SELECT ${COLUMNS} FROM flows AS flow WHERE id = ?`);
  const byPublicId = db.prepare<[string, number], FlowRow>(
    `SELECT ${COLUMNS} FROM flows AS flow WHERE public_id = ? AND organization_id = ?`,
  );
  const insert = db.prepare(
    `INSERT INTO flows (public_id, organization_id, name, description, visibility, template_id, repo_url, created_at, last_modified_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const update = db.prepare(
    "UPDATE flows SET description = ?, visibility = ?, template_id = ?, repo_url = ?, last_modified_at = ? WHERE id = ?",
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
    `SELECT count(*) AS total FROM flows AS flow WHERE ${LISTED}`,
  );
  const nameOf = db.prepare<[string], { id: number; name: string }>(
    "SELECT f.id, f.name FROM json_each(?) k CROSS JOIN flows f ON f.id = k.value",
  );
  const tags = tagTable(db, "flow_tags", "flow_id");

  const parameters = (organization: number, { search, caseSensitive, tags }: FlowFilter): ListParameters => ({
    organization,
    search,
    exact: caseSensitive ? 1 : 0,
    tags: tagFilterJson(tags),
  });

  /** The flow with that key; it must exist. */
  function get(id: number): FlowRow {
    const row = byId.get(id);
    if (!row) throw new Error(`flow ${id} is gone`);
    return row;
  }

  return {
    find: named.find,
    require: named.require,
    requireWritable: named.requireWritable,
    findHolder: named.findHolder,
    get,
    /**
     * The present names of flows by their keys, archived ones with their suffix. Stored facts name flows as they were
     * called at the evaluation; whatever is shown of them takes its names from here. Unknown keys are left out.
     */
    findPresentNames: (flowIds: Iterable<number>): Map<number, string> =>
      new Map(nameOf.all(JSON.stringify([...new Set(flowIds)])).map(({ id, name }) => [id, name])),
    /** The flow with that public id in the organization, archived or not. */
    findByPublicId: (organizationId: number, publicId: string): FlowRow | null =>
      byPublicId.get(publicId, organizationId) ?? null,

    /** Creates a flow; no flow may hold the name, an alias of that name ends. */
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

    /** Replaces everything about a flow but its name. */
    update(id: number, { description, visibility, templateId, repoUrl }: Omit<FlowFields, "name">): void {
      update.run(description, visibility, templateId, repoUrl, now(), id);
    },

    /** Gives an active flow a new name that no flow holds; the old one becomes an alias (semantics 1.8). */
    rename(flow: FlowRow, name: string): void {
      named.rename(flow, name, now());
      staleness.markFlow(flow.organization_id, flow.id);
    },

    /**
     * Archives an active flow: it goes on under a suffixed name, and its plain name is free (semantics 1.8).
     * @returns the suffixed name.
     */
    archive(flow: FlowRow): string {
      const at = now();
      const name = named.archive(flow, at);
      staleness.markFlow(flow.organization_id, flow.id);
      return name;
    },

    /** Notes that a trail of the flow changed. `at` in epoch seconds; `state` is the trail's state after the change. */
    touch(flowId: number, at: number, state: string | null): void {
      setActivity.run(at, state, flowId);
    },

    /** Active flows of an organization. `window` null: all of them. */
    list(
      organizationId: number,
      filter: FlowFilter,
      { by, direction }: FlowOrder,
      window: { limit: number; offset: number } | null,
    ): FlowListRow[] {
      const { limit, offset } = window ?? { limit: -1, offset: 0 };
      return lists[by][direction].all({ ...parameters(organizationId, filter), limit, offset });
    },

    /** How many flows `list` would give without a window. */
    count: (organizationId: number, filter: FlowFilter): number =>
      counting.get(parameters(organizationId, filter))?.total ?? 0,

    /** The tags of a flow. */
    getTags: (flowId: number): Tags => tags.get(flowId),

    /** Sets and removes tags of a flow. */
    patchTags(flowId: number, change: TagChange): void {
      tags.patch(flowId, change);
      setModified.run(now(), flowId);
      staleness.markFlow(get(flowId).organization_id, flowId);
    },
  };
}
