/**
 * Environments: their names, settings, tags, members (of logical ones) and attached policies.
 *
 * Invariants: the members of a logical environment are active physical ones, each once; whatever changes the policies
 * of an environment marks it for re-evaluation. What follows from reports and snapshots is written by
 * snapshot-writer.ts.
 */
import { flag, number, orNull, selectList, string, stringOf } from "../db/columns.ts";
import type { RowOf } from "../db/columns.ts";
import { nameTable } from "../db/name-table.ts";
import type { staleArtifactStore } from "./stale-artifacts.ts";
import { tagTable } from "../db/tags.ts";
import type { TagChange } from "../db/tags.ts";
import type { Db, SchemaSources } from "../db/types.ts";

export const ENVIRONMENT_TYPES = [
  "K8S",
  "ECS",
  "S3",
  "lambda",
  "server",
  "docker",
  "azure-apps",
  "cloud-run",
  "logical",
] as const;
export type EnvironmentType = (typeof ENVIRONMENT_TYPES)[number];
export type PhysicalType = Exclude<EnvironmentType, "logical">;

const ENVIRONMENT = {
  id: number,
  public_id: string,
  organization_id: number,
  name: string,
  type: stringOf<EnvironmentType>(),
  description: string,
  include_scaling: flag,
  require_provenance: flag,
  /** Epoch seconds; null for an active environment. */
  archived_at: orNull(number),
  /** The name before archiving. */
  archived_name: orNull(string),
  created_at: number,
  last_modified_at: number,
  last_reported_at: orNull(number),
  /** Also the index of the latest snapshot; 0 before the first. */
  snapshot_count: number,
  last_changed_at: orNull(number),
  /** Verdict of the latest snapshot; null for unknown. In a logical environment it follows from the members. */
  state: orNull(flag),
  running_digest: orNull(string),
  revision: number,
  checked_revision: number,
};
export type EnvironmentRow = RowOf<typeof ENVIRONMENT>;

/** The settings of an environment besides its name and type. */
type EnvironmentFields = { description: string; includeScaling: boolean; requireProvenance: boolean };
type PolicyKey = { id: number; name: string };

const COLUMNS = selectList(ENVIRONMENT, "env");

export function environmentStore(
  db: Db,
  { now, newId }: SchemaSources,
  staleness: ReturnType<typeof staleArtifactStore>,
) {
  const named = nameTable<EnvironmentRow>(db, {
    table: "environments",
    as: "env",
    columns: COLUMNS,
    aliases: "environment_aliases",
    owner: "environment_id",
    kind: "Environment",
  });
  const byId = db.prepare<[number], EnvironmentRow>(`SELECT ${COLUMNS} FROM environments env WHERE id = ?`);
  const insert = db.prepare(
    `INSERT INTO environments (public_id, organization_id, name, type, description, include_scaling,
                               require_provenance, created_at, last_modified_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const updateFields = db.prepare(
    `UPDATE environments SET description = ?, include_scaling = ?, require_provenance = ?, last_modified_at = ?
     WHERE id = ?`,
  );
  const setModified = db.prepare("UPDATE environments SET last_modified_at = ? WHERE id = ?");

  const memberIds = db.prepare<[number], { member_id: number }>(
    "SELECT member_id FROM environment_members WHERE logical_id = ? ORDER BY position",
  );
  const lastMember = db.prepare<[number], { position: number | null }>(
    "SELECT max(position) AS position FROM environment_members WHERE logical_id = ?",
  );
  const insertMember = db.prepare(
    "INSERT INTO environment_members (logical_id, position, member_id) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
  );
  const deleteMembers = db.prepare("DELETE FROM environment_members WHERE logical_id = ?");
  const groupIds = db
    .prepare<[number], number>(
      `SELECT env.id FROM environment_members em JOIN environments env ON env.id = em.logical_id
       WHERE em.member_id = ? AND env.archived_at IS NULL ORDER BY env.name`,
    )
    .pluck();
  const setModifiedOfGroups = db.prepare(
    `UPDATE environments SET last_modified_at = ?
     WHERE id IN (SELECT logical_id FROM environment_members WHERE member_id = ?)`,
  );
  const leaveGroups = db.prepare("DELETE FROM environment_members WHERE member_id = ?");

  const policies = db.prepare<[number], PolicyKey>(
    `SELECT pol.id, pol.name FROM environment_policies ep JOIN policies pol ON pol.id = ep.policy_id
     WHERE ep.environment_id = ? ORDER BY ep.position`,
  );
  const lastPolicy = db.prepare<[number], { position: number | null }>(
    "SELECT max(position) AS position FROM environment_policies WHERE environment_id = ?",
  );
  const insertPolicy = db.prepare(
    "INSERT INTO environment_policies (environment_id, policy_id, position) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
  );
  const deletePolicy = db.prepare("DELETE FROM environment_policies WHERE environment_id = ? AND policy_id = ?");
  const deletePolicies = db.prepare("DELETE FROM environment_policies WHERE environment_id = ?");
  const tags = tagTable(db, "environment_tags", "environment_id");

  /** The environment with that id; it must exist. */
  function get(id: number): EnvironmentRow {
    const row = byId.get(id);
    if (!row) throw new Error(`environment ${id} is gone`);
    return row;
  }

  const listMemberIds = (logicalId: number): number[] => memberIds.all(logicalId).map(({ member_id }) => member_id);
  const listPolicies = (environmentId: number): PolicyKey[] => policies.all(environmentId);

  function markPoliciesChanged(environmentId: number): void {
    setModified.run(now(), environmentId);
    staleness.markPoliciesChanged(environmentId);
  }

  return {
    find: named.find,
    /**
     * A text that differs after every change that a page of the environment shows: a report, a snapshot, or a change of
     * its settings, policies or allowlist. null when there is no environment of that name.
     */
    versionOf(organizationId: number, name: string): string | null {
      const row = named.find(organizationId, name);
      if (!row) return null;
      const { id, revision, snapshot_count, last_reported_at, last_modified_at, archived_at } = row;
      return [id, revision, snapshot_count, last_reported_at, last_modified_at, archived_at].join(" ");
    },
    require: named.require,
    requireWritable: named.requireWritable,
    findHolder: named.findHolder,
    listAliases: named.listAliases,
    get,

    /** Creates an environment; the name must be free, an alias of that name is released. */
    create(
      organizationId: number,
      { name, type, ...fields }: EnvironmentFields & { name: string; type: EnvironmentType },
    ): EnvironmentRow {
      const at = now();
      named.releaseAlias(organizationId, name);
      const { lastInsertRowid } = insert.run(
        newId(),
        organizationId,
        name,
        type,
        fields.description,
        Number(fields.includeScaling),
        Number(fields.requireProvenance),
        at,
        at,
      );
      return get(Number(lastInsertRowid));
    },

    /** Replaces the settings; writes nothing when they are the same. @returns whether they changed. */
    update(row: EnvironmentRow, { description, includeScaling, requireProvenance }: EnvironmentFields): boolean {
      const [scaling, provenance] = [Number(includeScaling), Number(requireProvenance)];
      if (description === row.description && scaling === row.include_scaling && provenance === row.require_provenance)
        return false;
      updateFields.run(description, scaling, provenance, now(), row.id);
      return true;
    },

    /** Renames an active environment; the new name must be free, and the old one becomes an alias (semantics 1.8). */
    rename(row: EnvironmentRow, name: string): void {
      named.rename(row, name, now());
    },

    /**
     * Archives an active environment: it gets a suffixed name, its plain name becomes free (semantics 1.8), and it
     * leaves the logical environments that include it. @returns the suffixed name.
     */
    archive(row: EnvironmentRow): string {
      const at = now();
      const name = named.archive(row, at);
      // For those that lose their last member and show their own time of modification from then on.
      setModifiedOfGroups.run(at, row.id);
      leaveGroups.run(row.id);
      return name;
    },

    /** Ids of the members of a logical environment, in their order. */
    listMemberIds,

    /** Ids of the active logical environments that include an environment, by name. */
    listGroupIds: (memberId: number): number[] => groupIds.all(memberId),

    /** Replaces the members of a logical environment. @returns whether they or their order changed. */
    setMembers(logicalId: number, ids: readonly number[]): boolean {
      if (isSameList(listMemberIds(logicalId), ids)) return false;
      deleteMembers.run(logicalId);
      for (const [index, id] of ids.entries()) insertMember.run(logicalId, index + 1, id);
      setModified.run(now(), logicalId);
      return true;
    },

    /** Appends a member to a logical environment. @returns false when it already is a member. */
    addMember(logicalId: number, memberId: number): boolean {
      const position = (lastMember.get(logicalId)?.position ?? 0) + 1;
      if (insertMember.run(logicalId, position, memberId).changes === 0) return false;
      setModified.run(now(), logicalId);
      return true;
    },

    /** The attached policies in their order, including those without a version. */
    listPolicies,

    /** Attaches policies after those already attached. @returns whether any was not attached before. */
    attachPolicies(environmentId: number, policyIds: readonly number[]): boolean {
      const last = lastPolicy.get(environmentId)?.position ?? 0;
      const changes = policyIds.map((id, index) => insertPolicy.run(environmentId, id, last + index + 1).changes);
      if (!changes.includes(1)) return false;
      markPoliciesChanged(environmentId);
      return true;
    },

    /** Detaches policies. @returns whether any was attached. */
    detachPolicies(environmentId: number, policyIds: readonly number[]): boolean {
      const changes = policyIds.map((id) => deletePolicy.run(environmentId, id).changes);
      if (!changes.includes(1)) return false;
      markPoliciesChanged(environmentId);
      return true;
    },

    /**
     * Attaches exactly these policies, each once, in this order.
     * @returns whether any was attached or detached; a changed order is stored, but does not count.
     */
    setPolicies(environmentId: number, policyIds: readonly number[]): boolean {
      const before = listPolicies(environmentId).map(({ id }) => id);
      if (isSameList(before, policyIds)) return false;
      deletePolicies.run(environmentId);
      for (const [index, id] of policyIds.entries()) insertPolicy.run(environmentId, id, index + 1);
      markPoliciesChanged(environmentId);
      const earlier = new Set(before);
      return before.length !== policyIds.length || policyIds.some((id) => !earlier.has(id));
    },

    /** Sets and removes tags of an environment. */
    patchTags(environmentId: number, change: TagChange): void {
      tags.patch(environmentId, change);
      setModified.run(now(), environmentId);
    },
  };
}

const isSameList = (a: readonly number[], b: readonly number[]): boolean =>
  a.length === b.length && a.every((id, index) => id === b[index]);
