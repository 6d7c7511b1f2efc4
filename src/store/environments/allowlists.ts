/**
 * Allowlist entries: artifacts that an environment accepts whatever its policies say. Append-only; the latest entry of
 * a fingerprint counts.
 */
import type { staleArtifactStore } from "./stale-artifacts.ts";
import type { triggerStore } from "../notifications/triggers.ts";
import type { Db, SchemaSources } from "../db/types.ts";

export type AllowlistRow = {
  id: number;
  public_id: string;
  environment_id: number;
  fingerprint: string;
  artifact_name: string;
  /** Why the artifact is allowed. */
  description: string;
  /** Public id and display name of the user who added the entry. */
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
  .map((name) => `al.${name}`)
  .join(", ");

type AllowlistParts = {
  staleness: ReturnType<typeof staleArtifactStore>;
  triggers: ReturnType<typeof triggerStore>;
};

export function allowlistStore(db: Db, { now, newId }: SchemaSources, { staleness, triggers }: AllowlistParts) {
  const insert = db.prepare(
    `INSERT INTO allowlist_entries (public_id, organization_id, environment_id, fingerprint, artifact_name, description,
                                    user_id, user_name, timestamp)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const latest = db.prepare<[number, string], AllowlistRow>(
    `SELECT ${COLUMNS} FROM allowlist_entries al
     WHERE al.environment_id = ? AND al.fingerprint = ? ORDER BY al.id DESC LIMIT 1`,
  );
  const byOrganization = db.prepare<[number], AllowlistRow & { environment_name: string }>(
    `SELECT ${COLUMNS}, env.name AS environment_name
     FROM allowlist_entries al JOIN environments env ON env.id = al.environment_id
     WHERE al.organization_id = ? ORDER BY al.id DESC`,
  );

  return {
    /**
     * Adds an entry and raises the triggers of actions. Where the artifact runs, its evaluation becomes stale.
     * @returns the public id of the entry.
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
    /** The entry that counts for a fingerprint; null when the environment does not allow it. */
    findLatest: (environmentId: number, fingerprint: string): AllowlistRow | null =>
      latest.get(environmentId, fingerprint) ?? null,
    /** Every entry of an organization, newest first, with the current name of its environment. */
    list: (organizationId: number): (AllowlistRow & { environment_name: string })[] =>
      byOrganization.all(organizationId),
  };
}
