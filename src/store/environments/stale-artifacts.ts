/**
 * Marks running artifacts whose facts changed since they were evaluated. The next snapshot of the environment
 * re-evaluates them and clears the marks.
 *
 * Invariant: every mark also raises the revision of the environment, so that an unchanged report does not skip it and a
 * snapshot in the making starts over. Call everything inside the write of the change.
 */
import type { Db } from "../db/types.ts";

/**
 * Rows with an open interval (snapshots.ts, OPEN). A literal, because the planner matches partial indexes by literals.
 */
const RUNNING = "sa.last_index = 9007199254740991";
const INSERT = `INSERT INTO stale_artifacts (environment_id, fingerprint)
     SELECT DISTINCT sa.environment_id, sa.fingerprint`;
/** The update changes nothing; it makes RETURNING include rows that existed before. */
const RETURNING_ALL =
  "ON CONFLICT (environment_id, fingerprint) DO UPDATE SET fingerprint = excluded.fingerprint RETURNING environment_id";

type MarkedRow = { environment_id: number };

export function staleArtifactStore(db: Db) {
  const running = db
    .prepare<[number], 1>(`SELECT 1 FROM snapshot_artifacts sa WHERE sa.organization_id = ? AND ${RUNNING} LIMIT 1`)
    .pluck();
  const byRecord = (condition: string) =>
    db.prepare<[number], MarkedRow>(
      `${INSERT}
       FROM artifacts a JOIN snapshot_artifacts sa
         ON sa.organization_id = a.organization_id AND sa.fingerprint = a.fingerprint AND ${RUNNING}
       WHERE ${condition} ${RETURNING_ALL}`,
    );
  const markByTrail = byRecord("a.trail_id = ?");
  const markByArtifact = byRecord("a.id = ?");
  // Starts from what runs, not from what the flow ever built, which grows without limit.
  const markByFlow = db.prepare<{ organization: number; flow: number }, MarkedRow>(
    `${INSERT} FROM snapshot_artifacts sa
     WHERE sa.organization_id = @organization AND ${RUNNING}
       AND EXISTS (SELECT 1 FROM artifacts a WHERE a.flow_id = @flow AND a.fingerprint = sa.fingerprint)
     ${RETURNING_ALL}`,
  );
  const markInEnvironment = db.prepare<[number, string]>(
    `${INSERT} FROM snapshot_artifacts sa
     WHERE sa.environment_id = ? AND ${RUNNING} AND sa.fingerprint = ? ON CONFLICT DO NOTHING`,
  );
  const markBySnapshot = db.prepare<[number, number], MarkedRow>(
    `${INSERT} FROM snapshot_artifacts sa
     WHERE sa.environment_id = ? AND ${RUNNING} AND sa.started_index = ? AND sa.fingerprint <> '' ${RETURNING_ALL}`,
  );
  const setRevision = db.prepare("UPDATE environments SET revision = revision + 1 WHERE id = ?");

  /** Raises the revisions of the environments in which something was marked. */
  function bumpMarked(marked: readonly MarkedRow[]): void {
    for (const id of new Set(marked.map(({ environment_id }) => environment_id))) setRevision.run(id);
  }

  return {
    /** A trail changed: its artifacts, its attestations or its verdict. */
    markTrail(organizationId: number, trailId: number): void {
      // Costs a tenth of what it saves where nothing runs, as in an organization without environments.
      if (running.get(organizationId) !== undefined) bumpMarked(markByTrail.all(trailId));
    },
    /** An artifact that was reported without a trail changed. */
    markArtifact: (artifactId: number): void => bumpMarked(markByArtifact.all(artifactId)),
    /** The name or the tags of a flow changed. */
    markFlow: (organizationId: number, flowId: number): void =>
      bumpMarked(markByFlow.all({ organization: organizationId, flow: flowId })),
    /**
     * An environment allowlisted an artifact. The revision rises even if it does not run yet: it may be about to start.
     */
    markAllowlisted(environmentId: number, fingerprint: string): void {
      markInEnvironment.run(environmentId, fingerprint);
      setRevision.run(environmentId);
    },
    /** Artifacts started in that snapshot, and facts about them may have changed after they were read. */
    markStartedSince: (environmentId: number, index: number): void =>
      bumpMarked(markBySnapshot.all(environmentId, index)),
    /** The policies of an environment changed, or one of them has a new version. */
    markPoliciesChanged: (environmentId: number): void => void setRevision.run(environmentId),
  };
}
