import type { staleArtifactStore } from "./stale-artifacts.ts";
import type { triggerStore } from "../notifications/triggers.ts";
import type { Db, SchemaSources } from "../db/types.ts";

export type AllowlistRow = {
  id: number;
  public_id: string;
  environment_id: number;
  fingerprint: string;
  artifact_name: string;
  /** The reason. */
  description: string;
  /** Public id and shown name of who allowed it. */
  user_id: string;
  user_name: string;
  /** Epoch seconds. */
  timestamp: number;
};

type AllowlistEntry = Pick<AllowlistRow, "fingerprint" | "artifact_name" | "description" | "user_id" | "user_name">;

const COLUMNS = [
  "id",
  "public_id",
  "environment_id",
  "fingerprint",
  "artifact_name",
  "description",
  "user_id",
  "user_name",
  "timestamp",
]
  .map((name) => `a.${name}`)
  .join(", ");

export type AllowlistParts = {
  staleness: ReturnType<typeof staleArtifactStore>;
  triggers: ReturnType<typeof triggerStore>;
};

export function allowlistStore(db: Db, { now, newId }: SchemaSources, { staleness, triggers }: AllowlistParts) {
  const insert = db.prepare(
    `INSERT INTO allowlist_entries (public_id, organization_id, environment_id, fingerprint, artifact_name, description, user_id, user_name, timestamp)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const latest = db.prepare<[number, string], AllowlistRow>(
    `SELECT ${COLUMNS} FROM allowlist_entries a WHERE a.environment_id = ? AND a.fingerprint = ? ORDER BY a.id DESC LIMIT 1`,
  );
  const ofOrganization = db.prepare<[number], AllowlistRow & { environment_name: string }>(
    `SELECT ${COLUMNS}, e.name AS environment_name FROM allowlist_entries a JOIN environments e ON e.id = a.environment_id
     WHERE a.organization_id = ? ORDER BY a.id DESC`,
  );

  return {
    /**
     * Adds an entry, of which actions are told; where the artifact runs, its verdict has to be found anew. @returns the
     * public id of the entry.
     */
    create(environment: { id: number; organization_id: number }, entry: AllowlistEntry): string {
      const id = newId();
      const at = now();
      const { lastInsertRowid } = insert.run(
        id,
        environment.organization_id,
        environment.id,
        entry.fingerprint,
        entry.artifact_name,
        entry.description,
        entry.user_id,
        entry.user_name,
        at,
      );
      triggers.raiseArtifactAllowed(environment.id, Number(lastInsertRowid), at);
      staleness.markAllowlisted(environment.id, entry.fingerprint);
      return id;
    },
    /** The entry that counts for a fingerprint, null when the environment does not accept it. */
    findLatest: (environmentId: number, fingerprint: string): AllowlistRow | null =>
      latest.get(environmentId, fingerprint) ?? null,
    /** Every entry in an organization, newest first, with the name that its environment has now. */
    list: (organizationId: number): (AllowlistRow & { environment_name: string })[] =>
      ofOrganization.all(organizationId),
  };
}
