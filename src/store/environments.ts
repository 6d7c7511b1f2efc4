/**
 * Environments, their earlier names, tags, members and attached policies. What runs in them is in snapshots.ts.
 *
 * Invariants: as for flows (flows.ts): `name` is unique among active and archived environments alike, because an archived one
 * carries its suffix there, and a name never is both an environment's and an alias. Members of logical environments are
 * active and physical. Whatever changes a verdict in an environment moves its `revision`.
 */
import { archivedName } from "../domain/time.ts";
import { notFound } from "../errors.ts";
import type { Db, Sources } from "./database.ts";
import type { OrganizationRow } from "./organizations.ts";

export const ENVIRONMENT_TYPES = ["K8S", "ECS", "S3", "lambda", "server", "docker", "azure-apps", "cloud-run", "logical"] as const;
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

type OrganizationKey = Pick<OrganizationRow, "id" | "name">;

const names = [
  "id", "public_id", "organization_id", "name", "type", "description", "include_scaling", "require_provenance", "archived_at", "archived_name",
  "created_at", "last_modified_at", "last_reported_at", "snapshot_count", "last_changed_at", "state", "running_digest", "revision",
  "checked_revision",
] as const satisfies readonly (keyof EnvironmentRow)[];
const COLUMNS = names.map((name) => `environment.${name}`).join(", ");

export function environmentStore(db: Db, _sources: Sources) {
  const byName = db.prepare<[number, string], EnvironmentRow>(`SELECT ${COLUMNS} FROM environments environment WHERE organization_id = ? AND name = ?`);
  const byId = db.prepare<[number], EnvironmentRow>(`SELECT ${COLUMNS} FROM environments environment WHERE id = ?`);
  const byAlias = db.prepare<[number, string], EnvironmentRow>(
    `SELECT ${COLUMNS} FROM environment_aliases alias JOIN environments environment ON environment.id = alias.environment_id
     WHERE alias.organization_id = ? AND alias.name = ?`,
  );
  const byArchivedName = db.prepare<[number, string], { id: number }>("SELECT id FROM environments WHERE organization_id = ? AND archived_name = ? LIMIT 1");

  /** The environment of that name, else the active one that once had it; an archived one only under its suffixed name. */
  function find(organizationId: number, name: string): EnvironmentRow | null {
    const environment = byName.get(organizationId, name) ?? byAlias.get(organizationId, name);
    return environment && (environment.archived_at === null || environment.name === name) ? environment : null;
  }

  /** As find. @throws AppError not_found that tells an unknown environment from an archived one (messages 9). */
  function require(organization: OrganizationKey, name: string): EnvironmentRow {
    const environment = find(organization.id, name);
    if (environment) return environment;
    const archived = byArchivedName.get(organization.id, name) ?? byAlias.get(organization.id, name);
    throw archived ? archivedError(organization, name) : notFound(`Environment named '${name}' does not exist for organization '${organization.name}'`);
  }

  /** The environment with that key; it must exist. */
  function get(id: number): EnvironmentRow {
    const row = byId.get(id);
    if (!row) throw new Error(`environment ${id} is gone`);
    return row;
  }

  return {
    find,
    require,
    get,
    /** As require, and refuses an archived environment under its suffixed name too, which is read-only (semantics 1.8). @throws AppError not_found. */
    requireWritable(organization: OrganizationKey, name: string): EnvironmentRow {
      const environment = require(organization, name);
      if (environment.archived_at !== null) throw archivedError(organization, name);
      return environment;
    },
    /** The environment, active or archived, whose name this is at present; aliases do not count. */
    holder: (organizationId: number, name: string): EnvironmentRow | null => byName.get(organizationId, name) ?? null,
  };
}

const archivedError = (organization: OrganizationKey, name: string) =>
  notFound(`Environment named '${name}' has been archived for organization '${organization.name}'`);

void archivedName;
