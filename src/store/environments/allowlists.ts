/**
 * Allowlist entries: artifacts that an environment accepts whatever its policies say. Append-only; the latest entry of
 * a fingerprint counts, until it ends (allowlist-ends.ts).
 */
import type { allowlistEndStore } from "./allowlist-ends.ts";
import type { EnvironmentChanges } from "./changes.ts";
import type { staleArtifactStore } from "./stale-artifacts.ts";
import { number, orNull, selectList, string } from "../db/columns.ts";
import type { RowOf } from "../db/columns.ts";
import type { Db, SchemaSources } from "../db/types.ts";

const ENTRY = {
  id: number,
  public_id: string,
  environment_id: number,
  fingerprint: string,
  artifact_name: string,
  /** Why the artifact is allowed. */
  description: string,
  /** Public id and display name of the user who added the entry. */
  user_id: string,
  user_name: string,
  /** Epoch seconds. */
  timestamp: number,
  /** Epoch seconds from which on the entry does not count; null when it does not end. */
  expires_at: orNull(number),
};
export type AllowlistRow = RowOf<typeof ENTRY>;

type AllowlistEntry = Pick<
  AllowlistRow,
  "fingerprint" | "artifact_name" | "description" | "user_id" | "user_name" | "expires_at"
>;

const COLUMNS = selectList(ENTRY, "al");

type AllowlistParts = Pick<EnvironmentChanges, "onArtifactAllowed"> & {
  ends: ReturnType<typeof allowlistEndStore>;
  staleness: ReturnType<typeof staleArtifactStore>;
};

/** null for all; `inForce`: only entries that count, until their end is recorded. */
type AllowlistFilter = { environmentId: number | null; fingerprint: string | null; inForce: boolean };
type ListParameters = { organization: number; environment: number | null; fingerprint: string | null; inForce: number };
type ListedRow = AllowlistRow & { environment_name: string };

export function allowlistStore(
  db: Db,
  { now, newId }: SchemaSources,
  { ends, staleness, onArtifactAllowed }: AllowlistParts,
) {
  const insert = db.prepare(
    `INSERT INTO allowlist_entries (public_id, organization_id, environment_id, fingerprint, artifact_name, description,
                                    user_id, user_name, timestamp, expires_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const latest = db.prepare<[number, string], AllowlistRow>(
    `SELECT ${COLUMNS} FROM allowlist_entries al
     WHERE al.environment_id = ? AND al.fingerprint = ? ORDER BY al.id DESC LIMIT 1`,
  );
  const listed = `al.organization_id = @organization AND (@environment IS NULL OR al.environment_id = @environment)
       AND (@fingerprint IS NULL OR al.fingerprint = @fingerprint)
       AND (@inForce = 0 OR (
         NOT EXISTS (SELECT 1 FROM allowlist_entries newer WHERE newer.environment_id = al.environment_id
                       AND newer.fingerprint = al.fingerprint AND newer.id > al.id)
         AND (al.expires_at IS NULL OR EXISTS (SELECT 1 FROM allowlist_ends ae WHERE ae.entry_id = al.id))))`;
  const list = db.prepare<[ListParameters & { limit: number; offset: number }], ListedRow>(
    `SELECT ${COLUMNS}, env.name AS environment_name
     FROM allowlist_entries al JOIN environments env ON env.id = al.environment_id WHERE ${listed}
     ORDER BY al.id DESC LIMIT @limit OFFSET @offset`,
  );
  const counting = db
    .prepare<[ListParameters], number>(`SELECT count(*) FROM allowlist_entries al WHERE ${listed}`)
    .pluck();
  const parametersOf = (organization: number, filter: AllowlistFilter): ListParameters => ({
    organization,
    environment: filter.environmentId,
    fingerprint: filter.fingerprint,
    inForce: Number(filter.inForce),
  });

  const findLatest = (environmentId: number, fingerprint: string): AllowlistRow | null =>
    latest.get(environmentId, fingerprint) ?? null;

  return {
    /**
     * Adds an entry, which takes the place of earlier ones for its fingerprint and of their ends, and announces it.
     * Where the artifact runs, its evaluation becomes stale.
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
        entry.expires_at,
      );
      ends.replace({ id: Number(lastInsertRowid), environment_id: environment.id, ...entry, timestamp: at });
      onArtifactAllowed(environment.id, Number(lastInsertRowid), at);
      staleness.markAllowlisted(environment.id, entry.fingerprint);
      return id;
    },
    /** The latest entry for a fingerprint, ended or not; null without one. */
    findLatest,
    /**
     * The entry that counts for a fingerprint at a time; null when the environment does not allow it. An entry whose
     * end was recorded never counts again, even if the clock is set back.
     * @param at epoch seconds; not called for an entry without an end
     */
    findInForce(environmentId: number, fingerprint: string, at: () => number): AllowlistRow | null {
      const entry = findLatest(environmentId, fingerprint);
      if (!entry || entry.expires_at === null) return entry;
      return ends.isOpen(entry.id) && entry.expires_at > at() ? entry : null;
    },
    /**
     * Entries of an organization, newest first, with the current names of their environments, row by row; all with
     * limit -1.
     */
    list: (
      organizationId: number,
      filter: AllowlistFilter,
      { limit, offset }: { limit: number; offset: number },
    ): IterableIterator<ListedRow> => list.iterate({ ...parametersOf(organizationId, filter), limit, offset }),
    /** How many entries match. */
    count: (organizationId: number, filter: AllowlistFilter): number =>
      counting.get(parametersOf(organizationId, filter)) ?? 0,
  };
}
