/**
 * Where artifacts run and ran, told from the rows of snapshot_artifacts in which they started or exited (semantics 2.5,
 * 6.10).
 */
import { kindOf } from "../../domain/snapshot/events.ts";
import { selectorColumn } from "../flows/artifact-selector.ts";
import { OPEN } from "./snapshots.ts";
import type { Db } from "../db/types.ts";

const MOVES = "x.annotation IN ('started', 'started-compliant', 'started-non-compliant', 'started-unknown', 'exited')";

/** A place of an artifact: an environment, archived ones under their suffixed name, and the index of a snapshot. */
type Place = { environment_name: string; snapshot_index: number };

/**
 * An artifact started or stopped in an environment. `timestamp`: epoch seconds of the snapshot that shows it. `id`
 * rises in the order of recording, also where a clock that ran ahead gave a snapshot a later time than the next one.
 */
type ArtifactTransition = Place & { id: number; timestamp: number; started: boolean };
/**
 * The first start in an environment. `created`: when its earliest instance started, epoch seconds; null where the
 * reporter could not tell.
 */
type FirstStart = { environment_name: string; created: number | null };

export type ArtifactLocations = {
  /**
   * Where it runs, with the latest snapshot there. Of archived environments nobody knows any more: they are in neither
   * list.
   */
  running: Place[];
  /** Where it ran and runs no more, with the snapshot that showed its exit. */
  exited: Place[];
  /** Oldest first. */
  transitions: ArtifactTransition[];
  firstStarts: FirstStart[];
};

/** What is known of it without looking at all that ever happened: the first starts may lie too far back. */
export type RecentArtifactLocations = Omit<ArtifactLocations, "firstStarts">;

type PresenceRow = {
  id: number;
  environment_id: number;
  environment_name: string;
  archived_at: number | null;
  snapshot_count: number;
  annotation: string;
  snapshot_index: number;
  is_running: 0 | 1;
  timestamp: number;
  created: number | null;
};

/** A record of a trail started or stopped running, while it was the provenance of what ran. */
export type TrailTransitionRow = {
  id: number;
  trail_id: number;
  artifact_id: string;
  filename: string;
  fingerprint: string;
  reference_name: string | null;
  git_commit_info_json: string | null;
  repo_info_json: string | null;
  annotation: string;
  was: number;
  now: number;
  snapshot_index: number;
  timestamp: number;
  environment_id: string;
  environment_name: string;
};

/** An artifact of a repository that runs in an environment now. Names are those of now. */
export type RunningInRepoRow = {
  environment_id: string;
  environment_name: string;
  environment_type: string;
  /** The latest snapshot of the environment. */
  snapshot_index: number;
  /** The name under which it runs. */
  name: string;
  compliant: 0 | 1 | null;
  /** Epoch seconds of the snapshot with which it started. */
  started_at: number;
  /** Its latest record with that repository. */
  artifact_id: string;
  fingerprint: string;
  git_commit: string;
  commit_url: string;
  flow_name: string;
  selector_json: string;
};

const PRESENT = `SELECT x.id, x.environment_id, n.name AS environment_name, n.archived_at, n.snapshot_count, x.annotation, x.first_index AS snapshot_index,
    s.timestamp, CASE WHEN json_valid(x.instances_json) THEN nullif(x.instances_json ->> '$.created[0]', 0) END AS created`;
const PLACED = `FROM snapshot_artifacts x CROSS JOIN snapshots s ON s.environment_id = x.environment_id AND s.idx = x.first_index
    CROSS JOIN environments n ON n.id = x.environment_id`;

/**
 * Rows of an environment that are looked at for what is recent. A job that starts every few minutes leaves hundreds a
 * day.
 */
const MAX_RECENT_ROWS = 50;

export function artifactLocationStore(db: Db) {
  const ofArtifact = db.prepare<[number, string], PresenceRow>(
    `${PRESENT}, x.last_index = ${OPEN} AS is_running ${PLACED}
     WHERE x.organization_id = ? AND x.fingerprint = ? AND (${MOVES} OR x.last_index = ${OPEN})
     ORDER BY x.environment_id, x.first_index, x.id`,
  );
  const environmentBehind = db
    .prepare<[number, string, number], number>(
      "SELECT environment_id FROM snapshot_artifacts WHERE organization_id = ? AND fingerprint = ? AND environment_id > ? ORDER BY environment_id LIMIT 1",
    )
    .pluck();
  const recentOfArtifact = db.prepare<[number, string, number], PresenceRow>(
    `${PRESENT}, EXISTS (SELECT 1 FROM snapshot_artifacts o WHERE o.organization_id = x.organization_id AND o.fingerprint = x.fingerprint
                           AND o.environment_id = x.environment_id AND o.last_index = ${OPEN}) AS is_running ${PLACED}
     WHERE x.organization_id = ? AND x.fingerprint = ? AND x.environment_id = ? ORDER BY x.first_index DESC, x.id DESC LIMIT ${MAX_RECENT_ROWS}`,
  );
  // The facts decide whose provenance it was; a damaged record was nobody's.
  const ofTrails = db.prepare<[string], TrailTransitionRow>(
    `SELECT r.trail_id, r.public_id AS artifact_id, r.filename, r.fingerprint, r.reference_name, r.git_commit_info_json, r.repo_info_json,
            x.id, x.annotation, x.was, x.now, x.first_index AS snapshot_index, s.timestamp, n.public_id AS environment_id, n.name AS environment_name
     FROM json_each(?) t CROSS JOIN artifacts r ON r.trail_id = t.value
     CROSS JOIN snapshot_artifacts x ON x.organization_id = r.organization_id AND x.fingerprint = r.fingerprint AND ${MOVES}
     CROSS JOIN evaluations e ON e.id = x.evaluation_id
     CROSS JOIN snapshots s ON s.environment_id = x.environment_id AND s.idx = x.first_index
     CROSS JOIN environments n ON n.id = x.environment_id
     WHERE EXISTS (SELECT 1 FROM json_each(CASE WHEN json_valid(e.facts_json) THEN e.facts_json ELSE '{}' END, '$.flows') f
                   WHERE CASE f.type WHEN 'object' THEN f.value ->> 'artifact_id' END = r.id)`,
  );
  // What runs is little beside what was ever built, so it is looked at first; one step into an index tells whether it
  // is of the repository.
  const ofRepo = db.prepare<{ organization: number; repo: number }, RunningInRepoRow>(
    `SELECT n.public_id AS environment_id, n.name AS environment_name, n.type AS environment_type, n.snapshot_count AS snapshot_index,
            x.name, x.compliant, s.timestamp AS started_at, r.public_id AS artifact_id, r.fingerprint,
            r.git_commit, r.commit_url, f.name AS flow_name, ${selectorColumn("r")}
     FROM (SELECT x.id, (SELECT max(r.id) FROM artifacts r WHERE r.organization_id = x.organization_id AND r.fingerprint = x.fingerprint AND r.repo_id = @repo) AS record
           FROM snapshot_artifacts x INDEXED BY snapshot_artifacts_running WHERE x.organization_id = @organization AND x.last_index = ${OPEN}) AS live
       CROSS JOIN snapshot_artifacts x ON x.id = live.id CROSS JOIN environments n ON n.id = x.environment_id
       CROSS JOIN snapshots s ON s.environment_id = x.environment_id AND s.idx = x.started_index
       CROSS JOIN artifacts r ON r.id = live.record CROSS JOIN flows f ON f.id = r.flow_id
     WHERE live.record IS NOT NULL AND n.archived_at IS NULL ORDER BY n.name, x.name, x.id`,
  );

  return {
    /**
     * What runs of a repository: artifacts with a record that names it, in active environments. By environment and
     * name.
     */
    listRunningByRepo: (organizationId: number, repoId: number): RunningInRepoRow[] =>
      ofRepo.all({ organization: organizationId, repo: repoId }),
    /** Where a fingerprint runs and ran in an organization; environments in the order in which they were made. */
    findByFingerprint(organizationId: number, fingerprint: string): ArtifactLocations {
      const environments = Map.groupBy(
        ofArtifact.all(organizationId, fingerprint),
        ({ environment_id }) => environment_id,
      );
      const presence: ArtifactLocations = { running: [], exited: [], transitions: [], firstStarts: [] };
      for (const rows of environments.values()) tell(presence, rows);
      presence.transitions.sort((a, b) => a.id - b.id);
      return presence;
    },
    /** As ofArtifact, but of each environment the latest moves only, so that what is read has a bound. */
    findRecentByFingerprint(organizationId: number, fingerprint: string): RecentArtifactLocations {
      const presence: ArtifactLocations = { running: [], exited: [], transitions: [], firstStarts: [] };
      for (
        let id = environmentBehind.get(organizationId, fingerprint, 0);
        id !== undefined;
        id = environmentBehind.get(organizationId, fingerprint, id)
      )
        tell(presence, recentOfArtifact.all(organizationId, fingerprint, id).reverse());
      const { running, exited, transitions: moves } = presence;
      return { running, exited, transitions: moves.sort((a, b) => a.id - b.id) };
    },
    /** What the artifacts of these trails did, by trail, oldest first. */
    listTransitionsByTrail: (trailIds: readonly number[]): Map<number, TrailTransitionRow[]> =>
      Map.groupBy(
        ofTrails.all(JSON.stringify(trailIds)).sort((a, b) => a.id - b.id),
        ({ trail_id }) => trail_id,
      ),
  };
}

/** Adds what the rows of one environment tell, in the order of its snapshots. */
function tell(
  { running, exited, transitions: moves, firstStarts }: ArtifactLocations,
  rows: readonly PresenceRow[],
): void {
  const [row] = rows;
  if (!row) return;
  const { environment_name, snapshot_count, archived_at } = row;
  const first = rows.find(hasStarted);
  if (first) firstStarts.push({ environment_name, created: first.created });
  const left = rows.findLast(({ annotation }) => annotation === "exited");
  if (rows.some(({ is_running }) => is_running === 1)) {
    if (archived_at === null) running.push({ environment_name, snapshot_index: snapshot_count });
  } else if (left) exited.push({ environment_name, snapshot_index: left.snapshot_index });

  const told = new Set<string>();
  for (const entry of rows) {
    const { id, snapshot_index, timestamp } = entry;
    const started = hasStarted(entry);
    // One fingerprint under two names starts once.
    const key = `${started} ${snapshot_index}`;
    if ((!started && entry.annotation !== "exited") || told.has(key)) continue;
    told.add(key);
    moves.push({ id, environment_name, snapshot_index, timestamp, started });
  }
}

const hasStarted = ({ annotation }: PresenceRow): boolean => kindOf(annotation) === "started";
