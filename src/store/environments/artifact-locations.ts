/**
 * Where artifacts run and ran, derived from the rows of snapshot_artifacts in which they started or exited (semantics
 * 2.5,
 * 6.10). Read-only.
 */
import { kindOf } from "../../domain/snapshot/events.ts";
import { MAX_INLINE_JSON_BYTES, columnOrStub } from "../db/large-json.ts";
import { selectorColumn } from "../flows/artifact-selector.ts";
import { snapshotTimes } from "./snapshot-times.ts";
import { OPEN } from "./snapshots.ts";
import type { DbReader } from "../db/types.ts";

const IS_TRANSITION =
  "sa.annotation IN ('started', 'started-compliant', 'started-non-compliant', 'started-unknown', 'exited')";

/** A snapshot of an environment; archived environments have their suffixed name. */
type SnapshotLocation = { environment_name: string; snapshot_index: number };

/**
 * An artifact started or stopped in an environment. `timestamp`: epoch seconds of the snapshot that shows it. `id`
 * rises in the order of recording, also where a clock that ran ahead gave a snapshot a later time than the next one.
 */
type ArtifactTransition = SnapshotLocation & { id: number; timestamp: number; started: boolean };
/**
 * The first start in an environment. `created`: when its earliest instance started, epoch seconds; null when unknown.
 */
type FirstStart = { environment_name: string; created: number | null };

export type ArtifactLocations = {
  /** Where it runs, with the latest snapshot there. Archived environments appear in neither list. */
  running: SnapshotLocation[];
  /** Where it no longer runs, with the snapshot that showed its exit. */
  exited: SnapshotLocation[];
  /** Oldest first. */
  transitions: ArtifactTransition[];
  firstStarts: FirstStart[];
};

/** The locations without the first starts, which may lie too far back for a bounded read. */
export type RecentArtifactLocations = Omit<ArtifactLocations, "firstStarts">;

type LocationRow = {
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

/**
 * A record of a trail started or stopped running, at a time when it was the provenance of what ran. Long texts of the
 * record are stubs (db/large-json.ts).
 */
export type TrailTransitionRow = {
  /** Of the record. */
  id: number;
  move_id: number;
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

/** A running artifact of a repository, by the ids of rows: itself, its latest record from there, its environment. */
export type RunningInRepoKey = { id: number; record: number; environment: number };

/** An artifact of a repository that runs in an environment now. Names are current names. */
export type RunningInRepoRow = {
  environment_id: string;
  environment_name: string;
  environment_type: string;
  /** The latest snapshot of the environment. */
  snapshot_index: number;
  /** The name it runs under. */
  name: string;
  compliant: 0 | 1 | null;
  /** Epoch seconds of the snapshot in which it started. */
  started_at: number;
  /** Its latest record from that repository. */
  artifact_id: string;
  fingerprint: string;
  git_commit: string | null;
  commit_url: string;
  flow_name: string;
  selector_json: string;
};

/** A time during which an artifact ran in an environment with one verdict. */
export type ArtifactRunRow = {
  environment_name: string;
  environment_type: string;
  environment_archived: 0 | 1;
  name: string;
  compliant: 0 | 1 | null;
  /** The snapshot in which this began. */
  snapshot_index: number;
  /** Epoch seconds. */
  started_at: number;
  /** Epoch seconds of the snapshot that no longer shows it; null while it holds. */
  ended_at: number | null;
  /** The latest snapshot that shows it. */
  last_snapshot_index: number;
};

const STARTS = '{"created":[';
/** The earliest start of many instances, which their text begins with: parsing all of it takes a tenth of a second. */
const FIRST_START = `nullif(CASE WHEN substr(sa.instances_json, 1, ${STARTS.length}) = '${STARTS}'
         THEN CAST(substr(sa.instances_json, ${STARTS.length + 1}, 20) AS REAL) END, 0)`;
const LOCATION_COLUMNS = `sa.id, sa.environment_id, env.name AS environment_name, env.archived_at, env.snapshot_count,
  sa.annotation, sa.first_index AS snapshot_index, s.timestamp,
  CASE WHEN octet_length(sa.instances_json) > ${MAX_INLINE_JSON_BYTES} THEN ${FIRST_START}
       WHEN json_valid(sa.instances_json) THEN nullif(sa.instances_json ->> '$.created[0]', 0) END AS created`;
const LOCATIONS = `snapshot_artifacts sa
  CROSS JOIN snapshots s ON s.environment_id = sa.environment_id AND s.idx = sa.first_index
  CROSS JOIN environments env ON env.id = sa.environment_id`;

/**
 * The latest rows read of each environment for recent locations. A job that starts every few minutes adds hundreds a
 * day.
 */
const MAX_RECENT_ROWS = 50;

/** Looking up so many records takes three milliseconds, as long as looking up as many running artifacts. */
const MAX_BUILT = 10_000;

export function artifactLocationStore(db: DbReader) {
  const byFingerprint = db.prepare<[number, string], LocationRow>(
    `SELECT ${LOCATION_COLUMNS}, sa.last_index = ${OPEN} AS is_running FROM ${LOCATIONS}
     WHERE sa.organization_id = ? AND sa.fingerprint = ? AND (${IS_TRANSITION} OR sa.last_index = ${OPEN})
     ORDER BY sa.environment_id, sa.first_index, sa.id`,
  );
  const nextEnvironment = db
    .prepare<[number, string, number], number>(
      `SELECT environment_id FROM snapshot_artifacts
       WHERE organization_id = ? AND fingerprint = ? AND environment_id > ? ORDER BY environment_id LIMIT 1`,
    )
    .pluck();
  const recentInEnvironment = db.prepare<[number, string, number], LocationRow>(
    `SELECT ${LOCATION_COLUMNS},
       EXISTS (SELECT 1 FROM snapshot_artifacts open
               WHERE open.organization_id = sa.organization_id AND open.fingerprint = sa.fingerprint
                 AND open.environment_id = sa.environment_id AND open.last_index = ${OPEN}) AS is_running
     FROM ${LOCATIONS}
     WHERE sa.organization_id = ? AND sa.fingerprint = ? AND sa.environment_id = ?
     ORDER BY sa.first_index DESC, sa.id DESC LIMIT ${MAX_RECENT_ROWS}`,
  );
  const runsInEnvironment = db.prepare<
    [{ organization: number; fingerprint: string; environment: number; until: number | null; limit: number }],
    ArtifactRunRow
  >(
    `SELECT env.name AS environment_name, env.type AS environment_type,
            env.archived_at IS NOT NULL AND (@until IS NULL OR env.archived_at <= @until) AS environment_archived,
            sa.name, sa.compliant, sa.first_index AS snapshot_index, s.timestamp AS started_at,
            CASE WHEN sa.last_index = ${OPEN} THEN NULL ELSE
              coalesce((SELECT next.timestamp FROM snapshots next
                        WHERE next.environment_id = sa.environment_id AND next.idx = sa.last_index + 1), s.timestamp)
            END AS ended_at,
            min(sa.last_index, env.snapshot_count) AS last_snapshot_index
     FROM ${LOCATIONS}
     WHERE sa.organization_id = @organization AND sa.fingerprint = @fingerprint AND sa.environment_id = @environment
       AND sa.annotation <> 'exited' AND (@until IS NULL OR s.timestamp <= @until)
     ORDER BY sa.first_index DESC, sa.id DESC LIMIT @limit`,
  );
  const times = snapshotTimes(db);
  /** As of a moment, what ended later still held. */
  const asOf = (runs: ArtifactRunRow[], environmentId: number, until: number): ArtifactRunRow[] => {
    const index = times.findLastUntil(environmentId, until);
    return runs.map((run) =>
      run.ended_at !== null && run.ended_at <= until
        ? run
        : { ...run, ended_at: null, last_snapshot_index: Math.max(run.snapshot_index, index) },
    );
  };
  // The stored facts decide whose provenance it was; damaged facts name no record.
  const transitionsByTrails = db.prepare<[string], TrailTransitionRow>(
    `SELECT a.id, a.trail_id, a.public_id AS artifact_id, a.filename, a.fingerprint, a.reference_name,
            ${columnOrStub("a.git_commit_info_json")} AS git_commit_info_json,
            ${columnOrStub("a.repo_info_json")} AS repo_info_json, sa.id AS move_id, sa.annotation,
            sa.was, sa.now, sa.first_index AS snapshot_index, s.timestamp,
            env.public_id AS environment_id, env.name AS environment_name
     FROM json_each(?) wanted CROSS JOIN artifacts a ON a.trail_id = wanted.value
     CROSS JOIN snapshot_artifacts sa ON sa.organization_id = a.organization_id AND sa.fingerprint = a.fingerprint
       AND ${IS_TRANSITION}
     CROSS JOIN evaluations ev ON ev.id = sa.evaluation_id
     CROSS JOIN snapshots s ON s.environment_id = sa.environment_id AND s.idx = sa.first_index
     CROSS JOIN environments env ON env.id = sa.environment_id
     WHERE EXISTS (SELECT 1
                   FROM json_each(CASE WHEN json_valid(ev.facts_json) THEN ev.facts_json ELSE '{}' END, '$.flows') flow
                   WHERE CASE flow.type WHEN 'object' THEN flow.value ->> 'artifact_id' END = a.id)`,
  );
  const inActiveEnvironments = (running: string) =>
    db.prepare<{ organization: number; repo: number }, RunningInRepoKey>(
      `SELECT found.id, found.record, sa.environment_id AS environment
       FROM (${running}) AS found
         CROSS JOIN snapshot_artifacts sa ON sa.id = found.id CROSS JOIN environments env ON env.id = sa.environment_id
       WHERE env.archived_at IS NULL ORDER BY env.name, sa.name, sa.id`,
    );
  // Either what runs leads, or what was ever built: one index lookup for each finds the other, in an index of this
  // repository alone. Records are of the organization of their repository. Only what was found is grouped.
  const keysByRunning = inActiveEnvironments(
    `SELECT sa.id, max(a.id) AS record FROM snapshot_artifacts sa INDEXED BY snapshot_artifacts_running
       CROSS JOIN artifacts a INDEXED BY artifacts_by_repo_fingerprint
         ON a.repo_id = @repo AND a.fingerprint = sa.fingerprint
     WHERE sa.organization_id = @organization AND sa.last_index = ${OPEN} GROUP BY sa.id`,
  );
  const keysByBuilt = inActiveEnvironments(
    `SELECT sa.id, max(a.id) AS record FROM artifacts a INDEXED BY artifacts_by_repo_fingerprint
       CROSS JOIN snapshot_artifacts sa INDEXED BY snapshot_artifacts_running
         ON sa.organization_id = @organization AND sa.fingerprint = a.fingerprint AND sa.last_index = ${OPEN}
     WHERE a.repo_id = @repo GROUP BY sa.id`,
  );
  const findBuiltAfter = db.prepare<[number, number], object>(
    "SELECT 1 FROM artifacts INDEXED BY artifacts_by_repo WHERE repo_id = ? LIMIT 1 OFFSET ?",
  );
  const runningByKeys = db.prepare<[string], RunningInRepoRow>(
    `SELECT env.public_id AS environment_id, env.name AS environment_name, env.type AS environment_type,
            env.snapshot_count AS snapshot_index, sa.name, sa.compliant, s.timestamp AS started_at,
            a.public_id AS artifact_id, a.fingerprint, a.git_commit, a.commit_url, f.name AS flow_name,
            ${selectorColumn("a")}
     FROM json_each(?) wanted CROSS JOIN snapshot_artifacts sa ON sa.id = wanted.value ->> 'id'
       CROSS JOIN environments env ON env.id = sa.environment_id
       CROSS JOIN snapshots s ON s.environment_id = sa.environment_id AND s.idx = sa.started_index
       CROSS JOIN artifacts a ON a.id = wanted.value ->> 'record' CROSS JOIN flows f ON f.id = a.flow_id
     ORDER BY wanted.key`,
  );
  const findRunningAfter = db.prepare<[number, number], object>(
    `SELECT 1 FROM snapshot_artifacts INDEXED BY snapshot_artifacts_running
     WHERE organization_id = ? AND last_index = ${OPEN} LIMIT 1 OFFSET ?`,
  );

  return {
    /** Whether more than `count` artifacts run in an organization. */
    isMoreThan: (organizationId: number, count: number): boolean =>
      findRunningAfter.get(organizationId, count) !== undefined,
    /**
     * The running artifacts with a record from a repository, in active environments; by environment, then name.
     * @param maxBuilt looks up each of at most so many records of the repository, else each running artifact
     */
    listRunningByRepo: (organizationId: number, repoId: number, maxBuilt = MAX_BUILT): RunningInRepoKey[] =>
      (findBuiltAfter.get(repoId, maxBuilt) ? keysByRunning : keysByBuilt).all({
        organization: organizationId,
        repo: repoId,
      }),
    /** What these are, in the same order. */
    readRunningInRepo: (keys: readonly RunningInRepoKey[]): RunningInRepoRow[] =>
      runningByKeys.all(JSON.stringify(keys)),
    /** Where a fingerprint runs and ran in an organization; environments in the order of their creation. */
    findByFingerprint(organizationId: number, fingerprint: string): ArtifactLocations {
      const environments = Map.groupBy(
        byFingerprint.all(organizationId, fingerprint),
        ({ environment_id }) => environment_id,
      );
      const locations = emptyLocations();
      for (const rows of environments.values()) addLocations(locations, rows);
      locations.transitions.sort((a, b) => a.id - b.id);
      return locations;
    },
    /** As `findByFingerprint`, but from the latest rows of each environment only, so that the read is bounded. */
    findRecentByFingerprint(organizationId: number, fingerprint: string): RecentArtifactLocations {
      const locations = emptyLocations();
      for (
        let id = nextEnvironment.get(organizationId, fingerprint, 0);
        id !== undefined;
        id = nextEnvironment.get(organizationId, fingerprint, id)
      )
        addLocations(locations, recentInEnvironment.all(organizationId, fingerprint, id).reverse());
      const { running, exited, transitions } = locations;
      return { running, exited, transitions: transitions.sort((a, b) => a.id - b.id) };
    },
    /**
     * The latest runs of a fingerprint in each environment, newest first.
     * @param bounds how many environments, in the order of their creation, and how many runs in each
     * @param until as of a moment in epoch seconds; null for the present
     */
    listRuns(
      { organizationId, fingerprint }: { organizationId: number; fingerprint: string },
      bounds: { environments: number; runs: number },
      until: number | null = null,
    ): { environments: ArtifactRunRow[][]; hasMore: boolean } {
      const environments: ArtifactRunRow[][] = [];
      let id = nextEnvironment.get(organizationId, fingerprint, 0);
      while (id !== undefined && environments.length < bounds.environments) {
        const rows = runsInEnvironment.all({
          organization: organizationId,
          fingerprint,
          environment: id,
          until,
          limit: bounds.runs,
        });
        if (rows.length > 0) environments.push(until === null ? rows : asOf(rows, id, until));
        id = nextEnvironment.get(organizationId, fingerprint, id);
      }
      return { environments, hasMore: id !== undefined };
    },
    /** The transitions of the artifacts of these trails, by trail id, oldest first. */
    listTransitionsByTrail: (trailIds: readonly number[]): Map<number, TrailTransitionRow[]> =>
      Map.groupBy(
        transitionsByTrails.all(JSON.stringify(trailIds)).sort((a, b) => a.move_id - b.move_id),
        ({ trail_id }) => trail_id,
      ),
  };
}

const emptyLocations = (): ArtifactLocations => ({ running: [], exited: [], transitions: [], firstStarts: [] });

/** Adds the locations that follow from the rows of one environment, given in the order of its snapshots. */
function addLocations(locations: ArtifactLocations, rows: readonly LocationRow[]): void {
  const [row] = rows;
  if (!row) return;
  const { environment_name, snapshot_count, archived_at } = row;
  const first = rows.find(hasStarted);
  if (first) locations.firstStarts.push({ environment_name, created: first.created });
  const exit = rows.findLast(({ annotation }) => annotation === "exited");
  if (rows.some(({ is_running }) => is_running === 1)) {
    if (archived_at === null) locations.running.push({ environment_name, snapshot_index: snapshot_count });
  } else if (exit) locations.exited.push({ environment_name, snapshot_index: exit.snapshot_index });

  const seen = new Set<string>();
  for (const entry of rows) {
    const { id, snapshot_index, timestamp } = entry;
    const started = hasStarted(entry);
    // One fingerprint under two names starts once.
    const key = `${started} ${snapshot_index}`;
    if ((!started && entry.annotation !== "exited") || seen.has(key)) continue;
    seen.add(key);
    locations.transitions.push({ id, environment_name, snapshot_index, timestamp, started });
  }
}

const hasStarted = ({ annotation }: LocationRow): boolean => kindOf(annotation) === "started";
