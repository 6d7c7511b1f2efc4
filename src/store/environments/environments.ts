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

export type EnvironmentRow = {
  id: number;
  public_id: string;
  organization_id: number;
  name: string;
  type: EnvironmentType;
  description: string;
  include_scaling: 0 | 1;
  require_provenance: 0 | 1;
  /** Epoch seconds, null for an active environment. */
  archived_at: number | null;
  /** The name before archiving. */
  archived_name: string | null;
  created_at: number;
  last_modified_at: number;
  last_reported_at: number | null;
  /** Also the index of the latest snapshot; 0 before the first. */
  snapshot_count: number;
  last_changed_at: number | null;
  /** Verdict of the latest snapshot, null for unknown. Of a logical environment it follows from the members. */
  state: 0 | 1 | null;
  running_digest: string | null;
  revision: number;
  checked_revision: number;
};

/** What people say about an environment beside its name and type. */
export type EnvironmentFields = { description: string; includeScaling: boolean; requireProvenance: boolean };
export type PolicyKey = { id: number; name: string };

const names = [
  "id",
  "public_id",
  "organization_id",
  "name",
  "type",
  "description",
  "include_scaling",
  "require_provenance",
  "archived_at",
  "archived_name",
  "created_at",
  "last_modified_at",
  "last_reported_at",
  "snapshot_count",
  "last_changed_at",
  "state",
  "running_digest",
  "revision",
  "checked_revision",
] as const satisfies readonly (keyof EnvironmentRow)[];
const COLUMNS = names.map((name) => `environment.${name}`).join(", ");

export function environmentStore(
  db: Db,
  { now, newId }: SchemaSources,
  staleness: ReturnType<typeof staleArtifactStore>,
) {
  const named = nameTable<EnvironmentRow>(db, {
    table: "environments",
    as: "environment",
    columns: COLUMNS,
    aliases: "environment_aliases",
    owner: "environment_id",
    kind: "Environment",
  });
  const byId = db.prepare<[number], EnvironmentRow>(`SELECT ${COLUMNS} FROM environments environment WHERE id = ?`);
  const insert = db.prepare(
    `INSERT INTO environments (public_id, organization_id, name, type, description, include_scaling, require_provenance, created_at, last_modified_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const setFields = db.prepare(
    "UPDATE environments SET description = ?, include_scaling = ?, require_provenance = ?, last_modified_at = ? WHERE id = ?",
  );
  const setModified = db.prepare("UPDATE environments SET last_modified_at = ? WHERE id = ?");

  const membersOf = db.prepare<[number], { member_id: number }>(
    "SELECT member_id FROM environment_members WHERE logical_id = ? ORDER BY position",
  );
  const lastMember = db.prepare<[number], { position: number | null }>(
    "SELECT max(position) AS position FROM environment_members WHERE logical_id = ?",
  );
  const putMember = db.prepare(
    "INSERT INTO environment_members (logical_id, position, member_id) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
  );
  const dropMembers = db.prepare("DELETE FROM environment_members WHERE logical_id = ?");
  const modifyLogicalOf = db.prepare(
    "UPDATE environments SET last_modified_at = ? WHERE id IN (SELECT logical_id FROM environment_members WHERE member_id = ?)",
  );
  const dropMember = db.prepare("DELETE FROM environment_members WHERE member_id = ?");

  const attachedTo = db.prepare<[number], PolicyKey>(
    `SELECT policy.id, policy.name FROM environment_policies attachment JOIN policies policy ON policy.id = attachment.policy_id
     WHERE attachment.environment_id = ? ORDER BY attachment.position`,
  );
  const lastPolicy = db.prepare<[number], { position: number | null }>(
    "SELECT max(position) AS position FROM environment_policies WHERE environment_id = ?",
  );
  const putPolicy = db.prepare(
    "INSERT INTO environment_policies (environment_id, policy_id, position) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
  );
  const dropPolicy = db.prepare("DELETE FROM environment_policies WHERE environment_id = ? AND policy_id = ?");
  const dropPolicies = db.prepare("DELETE FROM environment_policies WHERE environment_id = ?");
  const tags = tagTable(db, "environment_tags", "environment_id");

  /** The environment with that key; it must exist. */
  function get(id: number): EnvironmentRow {
    const row = byId.get(id);
    if (!row) throw new Error(`environment ${id} is gone`);
    return row;
  }

  const memberIds = (logicalId: number): number[] => membersOf.all(logicalId).map(({ member_id }) => member_id);
  const attached = (environmentId: number): PolicyKey[] => attachedTo.all(environmentId);

  function policiesChanged(environmentId: number): void {
    setModified.run(now(), environmentId);
    staleness.markPoliciesChanged(environmentId);
  }

  return {
    find: named.find,
    require: named.require,
    requireWritable: named.requireWritable,
    findHolder: named.findHolder,
    get,

    /** Creates an environment; none may hold the name, an alias of that name ends. */
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

    /**
     * Replaces what people say about an environment. The same as before: nothing is written. @returns whether it
     * changed.
     */
    update(row: EnvironmentRow, { description, includeScaling, requireProvenance }: EnvironmentFields): boolean {
      const [scaling, provenance] = [Number(includeScaling), Number(requireProvenance)];
      if (description === row.description && scaling === row.include_scaling && provenance === row.require_provenance)
        return false;
      setFields.run(description, scaling, provenance, now(), row.id);
      return true;
    },

    /** Gives an active environment a new name that none holds; the old one becomes an alias (semantics 1.8). */
    rename(row: EnvironmentRow, name: string): void {
      named.rename(row, name, now());
    },

    /**
     * Archives an active environment: it goes on under a suffixed name, its plain name is free (semantics 1.8), and it
     * leaves the logical environments that include it. Of two of one name archived in one second, the later one takes
     * the next second. @returns the suffixed name.
     */
    archive(row: EnvironmentRow): string {
      const at = now();
      const name = named.archive(row, at);
      // For those that lose their last member with it, which show their own time of modification from then on.
      modifyLogicalOf.run(at, row.id);
      dropMember.run(row.id);
      return name;
    },

    /** Keys of the members of a logical environment, in their order. */
    listMemberIds: memberIds,

    /**
     * Replaces the members of a logical environment: active physical ones, each once. @returns whether they, or their
     * order, changed.
     */
    setMembers(logicalId: number, ids: readonly number[]): boolean {
      if (sameList(memberIds(logicalId), ids)) return false;
      dropMembers.run(logicalId);
      ids.forEach((id, place) => putMember.run(logicalId, place + 1, id));
      setModified.run(now(), logicalId);
      return true;
    },

    /**
     * Adds an active physical environment as the last member of a logical one. @returns false when it is a member
     * already.
     */
    addMember(logicalId: number, memberId: number): boolean {
      const position = (lastMember.get(logicalId)?.position ?? 0) + 1;
      if (putMember.run(logicalId, position, memberId).changes === 0) return false;
      setModified.run(now(), logicalId);
      return true;
    },

    /** The attached policies in their order, those without a version included. */
    listPolicies: attached,

    /** Attaches policies behind those that are attached already. @returns whether any was not yet attached. */
    attachPolicies(environmentId: number, policyIds: readonly number[]): boolean {
      const last = lastPolicy.get(environmentId)?.position ?? 0;
      const changes = policyIds.map((id, place) => putPolicy.run(environmentId, id, last + place + 1).changes);
      if (!changes.includes(1)) return false;
      policiesChanged(environmentId);
      return true;
    },

    /** Detaches policies. @returns whether any was attached. */
    detachPolicies(environmentId: number, policyIds: readonly number[]): boolean {
      const changes = policyIds.map((id) => dropPolicy.run(environmentId, id).changes);
      if (!changes.includes(1)) return false;
      policiesChanged(environmentId);
      return true;
    },

    /**
     * Attaches exactly these policies, each once, in this order. @returns whether any was attached or detached; a new
     * order alone is kept, but is neither.
     */
    setPolicies(environmentId: number, policyIds: readonly number[]): boolean {
      const before = attached(environmentId).map(({ id }) => id);
      if (sameList(before, policyIds)) return false;
      dropPolicies.run(environmentId);
      policyIds.forEach((id, place) => putPolicy.run(environmentId, id, place + 1));
      policiesChanged(environmentId);
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

const sameList = (a: readonly number[], b: readonly number[]): boolean =>
  a.length === b.length && a.every((id, place) => id === b[place]);
