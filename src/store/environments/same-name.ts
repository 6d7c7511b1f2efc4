/**
 * Finds, for an artifact that was reported to no flow, the record of another artifact with its name. Names are compared
 * as they were reported, an image reference with its registry and tag. Read-only.
 */
import type { SameNameRecord } from "../../domain/compliance/same-name.ts";
import type { DbReader } from "../db/types.ts";
import { OPEN } from "./snapshots.ts";

/** Records that a lookup compares: the index has names that differ only in case together. */
const MAX_COMPARED = 100;

/** Running artifacts of one fingerprint whose names are looked up. */
const MAX_RUNNING = 20;

type Question = { organization: number; name: string; fingerprint: string };

export function sameNameStore(db: DbReader) {
  const latest = db.prepare<[Question], SameNameRecord>(
    `SELECT f.name AS flow, t.name AS trail, newest.fingerprint, newest.public_id AS artifactId
     FROM (SELECT a.id, a.public_id, a.flow_id, a.trail_id, a.fingerprint, a.filename FROM artifacts a
           WHERE a.organization_id = @organization AND a.filename = @name COLLATE NOCASE
           ORDER BY a.id DESC LIMIT ${MAX_COMPARED}) AS newest
       CROSS JOIN flows f ON f.id = newest.flow_id LEFT JOIN trails t ON t.id = newest.trail_id
     WHERE newest.filename = @name AND NOT EXISTS (
       SELECT 1 FROM artifacts known WHERE known.organization_id = @organization AND known.fingerprint = @fingerprint)
     ORDER BY newest.id DESC LIMIT 1`,
  );
  const running = db.prepare<[number, string], { name: string; environment: string }>(
    `SELECT sa.name, env.name AS environment FROM snapshot_artifacts sa
       CROSS JOIN environments env ON env.id = sa.environment_id
     WHERE sa.organization_id = ? AND sa.fingerprint = ? AND sa.last_index = ${OPEN} LIMIT ${MAX_RUNNING}`,
  );
  /**
   * null if the fingerprint is known, or empty because the reporter could not resolve it, or the name is not known.
   * Compares with the records of now, also for an old snapshot: it is advice, not a part of what a snapshot records.
   */
  const find = (
    organizationId: number,
    { name, fingerprint }: Omit<Question, "organization">,
  ): SameNameRecord | null =>
    fingerprint === "" ? null : (latest.get({ organization: organizationId, name, fingerprint }) ?? null);
  return {
    find,
    /** As `find`, for a fingerprint that runs: by the names under which it does. `environment`: where. */
    findOfRunning(
      organizationId: number,
      fingerprint: string,
    ): { name: string; environment: string; record: SameNameRecord } | null {
      for (const { name, environment } of running.all(organizationId, fingerprint)) {
        const record = find(organizationId, { name, fingerprint });
        if (record) return { name, environment, record };
      }
      return null;
    },
  };
}
