import type { Db } from "../db/types.ts";

/** Rows whose interval is open (snapshots.ts, OPEN); a literal, because partial indexes are found by literals only. */
const RUNNING = "s.last_index = 9007199254740991";
/** The update changes nothing; it makes a row that was there already come back too. */
const MARK =
  "ON CONFLICT (environment_id, fingerprint) DO UPDATE SET fingerprint = excluded.fingerprint RETURNING environment_id";

export function staleArtifactStore(db: Db) {
  const ofTrail = db.prepare<[number], { environment_id: number }>(
    `INSERT INTO stale_artifacts (environment_id, fingerprint)
     SELECT DISTINCT s.environment_id, s.fingerprint
     FROM artifacts a JOIN snapshot_artifacts s ON s.organization_id = a.organization_id AND s.fingerprint = a.fingerprint AND ${RUNNING}
     WHERE a.trail_id = ? ${MARK}`,
  );
  const ofArtifact = db.prepare<[number], { environment_id: number }>(
    `INSERT INTO stale_artifacts (environment_id, fingerprint)
     SELECT DISTINCT s.environment_id, s.fingerprint
     FROM artifacts a JOIN snapshot_artifacts s ON s.organization_id = a.organization_id AND s.fingerprint = a.fingerprint AND ${RUNNING}
     WHERE a.id = ? ${MARK}`,
  );
  // From what runs, not from what the flow ever built: the latter grows without end.
  const ofFlow = db.prepare<{ organization: number; flow: number }, { environment_id: number }>(
    `INSERT INTO stale_artifacts (environment_id, fingerprint)
     SELECT DISTINCT s.environment_id, s.fingerprint FROM snapshot_artifacts s
     WHERE s.organization_id = @organization AND ${RUNNING}
       AND EXISTS (SELECT 1 FROM artifacts a WHERE a.flow_id = @flow AND a.fingerprint = s.fingerprint)
     ${MARK}`,
  );
  const ofEnvironment = db.prepare<[number, string]>(
    `INSERT INTO stale_artifacts (environment_id, fingerprint)
     SELECT DISTINCT s.environment_id, s.fingerprint FROM snapshot_artifacts s
     WHERE s.environment_id = ? AND ${RUNNING} AND s.fingerprint = ? ON CONFLICT DO NOTHING`,
  );
  const ofSnapshot = db.prepare<[number, number], { environment_id: number }>(
    `INSERT INTO stale_artifacts (environment_id, fingerprint)
     SELECT DISTINCT s.environment_id, s.fingerprint FROM snapshot_artifacts s
     WHERE s.environment_id = ? AND ${RUNNING} AND s.started_index = ? AND s.fingerprint <> '' ${MARK}`,
  );
  const move = db.prepare("UPDATE environments SET revision = revision + 1 WHERE id = ?");

  function bumpRevisions(marked: readonly { environment_id: number }[]): void {
    if (marked.length === 0) return;
    for (const id of new Set(marked.map(({ environment_id }) => environment_id))) move.run(id);
  }

  return {
    /** Something in a trail changed: its artifacts, its attestations or its verdict. */
    markTrail: (trailId: number): void => bumpRevisions(ofTrail.all(trailId)),
    /** An artifact that was reported without a trail changed. */
    markArtifact: (artifactId: number): void => bumpRevisions(ofArtifact.all(artifactId)),
    /** Name or tags of a flow changed. */
    markFlow: (organizationId: number, flowId: number): void =>
      bumpRevisions(ofFlow.all({ organization: organizationId, flow: flowId })),
    /**
     * An artifact was allowlisted in an environment, perhaps one that is about to start in a snapshot in the making.
     */
    markAllowlisted(environmentId: number, fingerprint: string): void {
      ofEnvironment.run(environmentId, fingerprint);
      move.run(environmentId);
    },
    /** Artifacts started with that snapshot, and facts about them may have changed after they were read. */
    markStartedSince: (environmentId: number, index: number): void =>
      bumpRevisions(ofSnapshot.all(environmentId, index)),
    /** The policies of an environment changed, or one of them has a new version. */
    markPoliciesChanged: (environmentId: number): void => void move.run(environmentId),
  };
}
