/**
 * Flows, their earlier names and their tags.
 *
 * Invariants: `name` is unique in the organization among active and archived flows alike, because an archived flow carries
 * its suffix there. A name never is both a flow's name and an alias: whoever takes a name removes the alias of that name.
 * Aliases of an archived flow stay, so that its earlier names still say what became of it, but they no longer resolve.
 */
import { archivedName } from "../domain/time.ts";
import { notFound } from "../errors.ts";
import type { Db, Sources } from "./database.ts";
import type { stalenessStore } from "./staleness.ts";
import { hasAllTags, tagFilterJson, tagTable } from "./tags.ts";
import type { TagChange, TagFilter, Tags } from "./tags.ts";

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

export type FlowFields = { name: string; description: string; visibility: Visibility; templateId: number; repoUrl: string | null };

export type FlowFilter = {
  /** A part of the name; empty: every name. */
  search: string;
  caseSensitive: boolean;
  /** All must match. */
  tags: readonly TagFilter[];
};
export type FlowOrder = { by: "name" | "latest_activity"; direction: "asc" | "desc" };

const names = [
  "id", "public_id", "organization_id", "name", "description", "visibility", "template_id", "repo_url", "archived_at",
  "archived_name", "latest_activity_at", "latest_state", "created_at", "last_modified_at",
];
const COLUMNS = names.map((name) => `flow.${name}`).join(", ");

// instr, not LIKE: the characters `_` and `%` mean themselves. lower() knows ASCII only, which is all that names hold.
const LISTED = `flow.organization_id = @organization AND flow.archived_at IS NULL
   AND instr(iif(@exact, flow.name, lower(flow.name)), iif(@exact, @search, lower(@search))) > 0
   AND ${hasAllTags("flow_tags", "flow_id", "flow.id", "@tags")}`;

/** Flows without activity count as the oldest. The id decides between equals, in the order that the index has anyway. */
const ORDERS = {
  name: { asc: "flow.name ASC", desc: "flow.name DESC" },
  latest_activity: {
    asc: "flow.latest_activity_at ASC, flow.id ASC",
    desc: "flow.latest_activity_at DESC, flow.id DESC",
  },
} as const;

const listSql = (order: string): string =>
  `SELECT ${COLUMNS}, template.content AS template,
     (SELECT json_group_object(key, value) FROM flow_tags WHERE flow_id = flow.id) AS tags_json
   FROM flows AS flow LEFT JOIN templates AS template ON template.id = flow.template_id
   WHERE ${LISTED} ORDER BY ${order} LIMIT @limit OFFSET @offset`;

type ListParameters = { organization: number; exact: 0 | 1; search: string; tags: string };
type OrganizationKey = { id: number; name: string };

export function flowStore(db: Db, { now, newId }: Sources, staleness: ReturnType<typeof stalenessStore>) {
  const byName = db.prepare<[number, string], FlowRow>(`SELECT ${COLUMNS} FROM flows AS flow WHERE organization_id = ? AND name = ?`);
  const byAlias = db.prepare<[number, string], FlowRow>(
    `SELECT ${COLUMNS} FROM flow_aliases AS alias JOIN flows AS flow ON flow.id = alias.flow_id
     WHERE alias.organization_id = ? AND alias.name = ?`,
  );
  const byId = db.prepare<[number], FlowRow>(`SELECT ${COLUMNS} FROM flows AS flow WHERE id = ?`);
  const byPublicId = db.prepare<[string, number], FlowRow>(`SELECT ${COLUMNS} FROM flows AS flow WHERE public_id = ? AND organization_id = ?`);
  const byArchivedName = db.prepare<[number, string], { id: number }>("SELECT id FROM flows WHERE organization_id = ? AND archived_name = ? LIMIT 1");
  const insert = db.prepare(
    `INSERT INTO flows (public_id, organization_id, name, description, visibility, template_id, repo_url, created_at, last_modified_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const update = db.prepare("UPDATE flows SET description = ?, visibility = ?, template_id = ?, repo_url = ?, last_modified_at = ? WHERE id = ?");
  const setName = db.prepare("UPDATE flows SET name = ?, last_modified_at = ? WHERE id = ?");
  const setArchived = db.prepare("UPDATE flows SET name = ?, archived_name = ?, archived_at = ?, last_modified_at = ? WHERE id = ?");
  const setActivity = db.prepare("UPDATE flows SET latest_activity_at = ?, latest_state = ? WHERE id = ?");
  const setModified = db.prepare("UPDATE flows SET last_modified_at = ? WHERE id = ?");
  const dropAlias = db.prepare("DELETE FROM flow_aliases WHERE organization_id = ? AND name = ?");
  const putAlias = db.prepare("INSERT INTO flow_aliases (organization_id, name, flow_id) VALUES (?, ?, ?)");
  const listing = (order: string) => db.prepare<[ListParameters & { limit: number; offset: number }], FlowListRow>(listSql(order));
  const lists = {
    name: { asc: listing(ORDERS.name.asc), desc: listing(ORDERS.name.desc) },
    latest_activity: { asc: listing(ORDERS.latest_activity.asc), desc: listing(ORDERS.latest_activity.desc) },
  };
  const counting = db.prepare<[ListParameters], { total: number }>(`SELECT count(*) AS total FROM flows AS flow WHERE ${LISTED}`);
  const tags = tagTable(db, "flow_tags", "flow_id");

  const parameters = (organization: number, { search, caseSensitive, tags }: FlowFilter): ListParameters => ({
    organization, search, exact: caseSensitive ? 1 : 0, tags: tagFilterJson(tags),
  });

  /** The flow of that name, else the active flow that once had it; an archived one only under its suffixed name. */
  function find(organizationId: number, name: string): FlowRow | null {
    const flow = byName.get(organizationId, name) ?? byAlias.get(organizationId, name);
    return flow && (flow.archived_at === null || flow.name === name) ? flow : null;
  }

  /** As find. @throws AppError not_found that tells an unknown flow from an archived one (messages 11). */
  function require(organization: OrganizationKey, name: string): FlowRow {
    const flow = find(organization.id, name);
    if (flow) return flow;
    // An alias that find passed over belongs to an archived flow.
    const archived = byArchivedName.get(organization.id, name) ?? byAlias.get(organization.id, name);
    throw archived ? archivedError(organization, name) : notFound(`Flow named '${name}' does not exist for organization '${organization.name}'`);
  }

  /** The flow with that key; it must exist. */
  function get(id: number): FlowRow {
    const row = byId.get(id);
    if (!row) throw new Error(`flow ${id} is gone`);
    return row;
  }

  return {
    find,
    require,
    get,
    /** The flow with that public id in the organization, archived or not. */
    withPublicId: (organizationId: number, publicId: string): FlowRow | null => byPublicId.get(publicId, organizationId) ?? null,

    /** As require, and refuses an archived flow under its suffixed name too, which is read-only (semantics 1.8). @throws AppError not_found. */
    requireWritable(organization: OrganizationKey, name: string): FlowRow {
      const flow = require(organization, name);
      if (flow.archived_at !== null) throw archivedError(organization, name);
      return flow;
    },

    /** The flow, active or archived, whose name this is at present; aliases do not count. What decides whether a name is taken. */
    holder: (organizationId: number, name: string): FlowRow | null => byName.get(organizationId, name) ?? null,

    /** Creates a flow; no flow may hold the name, an alias of that name ends. */
    create(organizationId: number, { name, description, visibility, templateId, repoUrl }: FlowFields): FlowRow {
      const at = now();
      dropAlias.run(organizationId, name);
      const { lastInsertRowid } = insert.run(newId(), organizationId, name, description, visibility, templateId, repoUrl, at, at);
      return get(Number(lastInsertRowid));
    },

    /** Replaces everything about a flow but its name. */
    update(id: number, { description, visibility, templateId, repoUrl }: Omit<FlowFields, "name">): void {
      update.run(description, visibility, templateId, repoUrl, now(), id);
    },

    /** Gives an active flow a new name that no flow holds; the old one becomes an alias (semantics 1.8). */
    rename(flow: FlowRow, name: string): void {
      dropAlias.run(flow.organization_id, name);
      setName.run(name, now(), flow.id);
      putAlias.run(flow.organization_id, flow.name, flow.id);
      staleness.flowChanged(flow.organization_id, flow.id);
    },

    /**
     * Archives an active flow: it goes on under a suffixed name, and its plain name is free (semantics 1.8). Of two flows
     * of one name archived in one second, the later one takes the next second. @returns the suffixed name.
     */
    archive(flow: FlowRow): string {
      const at = now();
      let name = archivedName(flow.name, at);
      for (let second = at + 1; byName.get(flow.organization_id, name); second += 1) name = archivedName(flow.name, second);
      dropAlias.run(flow.organization_id, name);
      setArchived.run(name, flow.name, at, at, flow.id);
      staleness.flowChanged(flow.organization_id, flow.id);
      return name;
    },

    /** Notes that a trail of the flow changed. `at` in epoch seconds; `state` is the trail's state after the change. */
    touch(flowId: number, at: number, state: string | null): void {
      setActivity.run(at, state, flowId);
    },

    /** Active flows of an organization. `window` null: all of them. */
    list(organizationId: number, filter: FlowFilter, { by, direction }: FlowOrder, window: { limit: number; offset: number } | null): FlowListRow[] {
      const { limit, offset } = window ?? { limit: -1, offset: 0 };
      return lists[by][direction].all({ ...parameters(organizationId, filter), limit, offset });
    },

    /** How many flows `list` would give without a window. */
    count: (organizationId: number, filter: FlowFilter): number => counting.get(parameters(organizationId, filter))?.total ?? 0,

    /** The tags of a flow. */
    tags: (flowId: number): Tags => tags.of(flowId),

    /** Sets and removes tags of a flow. */
    patchTags(flowId: number, change: TagChange): void {
      tags.patch(flowId, change);
      setModified.run(now(), flowId);
      staleness.flowChanged(get(flowId).organization_id, flowId);
    },
  };
}

const archivedError = (organization: OrganizationKey, name: string) =>
  notFound(`Flow named '${name}' has been archived for organization '${organization.name}'`);
