/**
 * Pages of the artifacts of a snapshot, so that a large one is shown without reading all of it, pages of the snapshots
 * of an environment, and what comparisons of snapshots read. Read-only.
 */
import { ARTIFACT_COLUMNS, IN_SNAPSHOT } from "./snapshots.ts";
import type { EvaluatedArtifactRow, SnapshotRow } from "./snapshots.ts";
import { columnOrStub } from "../db/large-json.ts";
import type { DbReader } from "../db/types.ts";

/** Which artifacts: all, those that run and have a verdict, or those that the snapshot changed. */
export type SnapshotSelection = "all" | "failing" | "compliant" | "unknown" | "changed";

/** An artifact, with the allowlist entry that its evaluation was based on; `allowed_by` is null without one. */
export type SelectedArtifactRow = EvaluatedArtifactRow & {
  allowed_by: string | null;
  allowed_because: string | null;
  /** Epoch seconds. */
  allowed_at: number | null;
  allowed_until: number | null;
};

/** A snapshot without what ran in it. */
export type SnapshotOutlineRow = Pick<
  SnapshotRow,
  | "idx"
  | "timestamp"
  | "cause"
  | "compliant"
  | "compliant_count"
  | "non_compliant_count"
  | "unknown_count"
  | "user_id"
  | "user_name"
  | "member_index"
> & { member_name: string | null };

/** Running artifacts by verdict. */
export type RunningCounts = { compliant: number; failing: number; unknown: number };

/** An artifact that runs, without its details. */
export type RunningKeyRow = { id: number; fingerprint: string; name: string; now: number; compliant: 0 | 1 | null };
/** What a snapshot did to an artifact. */
type ChangeKind = "start" | "verdict" | "scale" | "any";
/** An artifact, and the snapshots among which its change is looked for: after `first`, up to `last`. */
type ChangePlace = {
  organization: number;
  environment: number;
  fingerprint: string;
  name: string;
  first: number;
  last: number;
  kind: ChangeKind;
};
/** Two snapshots of a physical environment, `first` not after `last`. */
type SnapshotRange = { environment: number; first: number; last: number };
/** One that runs in one of two snapshots only. */
type DifferingRow = RunningKeyRow & { is_first: 0 | 1 };
/** One that a snapshot started, stopped or changed. */
type TurnedRow = RunningKeyRow & { was: number };
/** The record in the first flow of an artifact, as its evaluation names it; null without provenance. */
type ProvenanceRow = { id: number; artifact_id: number | null; git_commit: string | null };
type PolicyTurnRow = Pick<SnapshotRow, "idx" | "timestamp" | "user_name">;
/** Its details, as a comparison shows them. Long instances are a stub (db/large-json.ts). */
export type RunningDetailRow = { id: number; instances_json: string; facts_json: string };

/** `changed`: artifacts that a snapshot changed, `exited`: those of them that stopped. */
type ChangedCounts = { changed: number; exited: number };
type FailingRow = { name: string; fingerprint: string; verdicts_json: string };
type SnapshotPoint = Pick<SnapshotOutlineRow, "idx" | "timestamp" | "compliant">;
type SnapshotKey = { environment: number; index: number };
/** `search`: part of the name, in any case, or the beginning of the fingerprint; empty matches all. */
type Selected = { show: SnapshotSelection; search: string; withExited: boolean };

const SELECTED: Readonly<Record<SnapshotSelection, string>> = {
  all: "true",
  failing: "sa.now > 0 AND sa.compliant = 0",
  compliant: "sa.now > 0 AND sa.compliant = 1",
  unknown: "sa.now > 0 AND sa.compliant IS NULL",
  changed: "sa.first_index = @index AND sa.annotation <> 'unchanged'",
};

/** instr, not LIKE, so that `_` and `%` match themselves; a fingerprint by its beginning. */
const FOUND = `(@search = '' OR instr(lower(sa.name), lower(@search)) > 0
         OR (length(@search) > 4 AND substr(sa.fingerprint, 1, length(@search)) = lower(@search)))`;

/** Snapshots that are searched for a change; 100,000 take some 30 ms. */
const MAX_SEARCHED_SNAPSHOTS = 100_000;
/** Snapshots that are searched for the latest compliant one: a millisecond. */
const MAX_SEARCHED_FOR_COMPLIANT = 5_000;

export function snapshotPageStore(db: DbReader) {
  const prepare = (selected: string) => ({
    countFound: db
      .prepare<[SnapshotKey & { exited: number; search: string }], number>(
        `SELECT count(*) FROM snapshot_artifacts sa
         WHERE ${IN_SNAPSHOT} AND (sa.now > 0 OR @exited = 1) AND ${selected} AND ${FOUND}`,
      )
      .pluck(),
    // The rows are narrow until the page is known.
    keys: db
      .prepare<[SnapshotKey & { exited: number; search: string; limit: number; offset: number }], number>(
        `SELECT sa.id FROM snapshot_artifacts sa
         WHERE ${IN_SNAPSHOT} AND (sa.now > 0 OR @exited = 1) AND ${selected} AND ${FOUND}
         ORDER BY (sa.now > 0 AND sa.compliant IS 0) DESC, sa.now = 0, sa.name, sa.id LIMIT @limit OFFSET @offset`,
      )
      .pluck(),
  });
  const statements = {
    all: prepare(SELECTED.all),
    failing: prepare(SELECTED.failing),
    compliant: prepare(SELECTED.compliant),
    unknown: prepare(SELECTED.unknown),
    changed: prepare(SELECTED.changed),
  };
  const changedIn = db.prepare<[SnapshotKey], ChangedCounts>(
    `SELECT count(*) AS changed, count(*) FILTER (WHERE sa.now = 0) AS exited FROM snapshot_artifacts sa
     WHERE sa.environment_id = @environment AND sa.first_index = @index AND sa.annotation <> 'unchanged'`,
  );
  const rows = db.prepare<[string], SelectedArtifactRow>(
    `SELECT ${ARTIFACT_COLUMNS}, ev.allowlist_id, ev.facts_json, ev.verdicts_json, ev.reasons_json,
            al.user_name AS allowed_by, al.description AS allowed_because, al.timestamp AS allowed_at,
            al.expires_at AS allowed_until
     FROM json_each(?) wanted CROSS JOIN snapshot_artifacts sa ON sa.id = wanted.value
       CROSS JOIN evaluations ev ON ev.id = sa.evaluation_id
       LEFT JOIN allowlist_entries al ON al.id = ev.allowlist_id`,
  );
  const wholeKeys = db
    .prepare<[SnapshotKey & { exited: number }], number>(
      `SELECT sa.id FROM snapshot_artifacts sa
       WHERE ${IN_SNAPSHOT} AND (sa.now > 0 OR @exited = 1) ORDER BY sa.name, sa.id`,
    )
    .pluck();
  const evaluatedByKey = db.prepare<[string], EvaluatedArtifactRow>(
    `SELECT ${ARTIFACT_COLUMNS}, ev.allowlist_id, ev.facts_json, ev.verdicts_json, ev.reasons_json
     FROM json_each(?) wanted CROSS JOIN snapshot_artifacts sa ON sa.id = wanted.value
       CROSS JOIN evaluations ev ON ev.id = sa.evaluation_id
     ORDER BY wanted.key`,
  );
  const failing = db.prepare<[SnapshotKey], FailingRow>(
    `SELECT sa.name, sa.fingerprint, ev.verdicts_json
     FROM snapshot_artifacts sa JOIN evaluations ev ON ev.id = sa.evaluation_id
     WHERE ${IN_SNAPSHOT} AND ${SELECTED.failing} ORDER BY sa.name, sa.id`,
  );
  const points = db.prepare<[number, number, number], SnapshotPoint>(
    "SELECT idx, timestamp, compliant FROM snapshots WHERE environment_id = ? AND idx BETWEEN ? AND ? ORDER BY idx",
  );
  const outlines = db.prepare<[number, number, number], SnapshotOutlineRow>(
    `SELECT s.idx, s.timestamp, s.cause, s.compliant, s.compliant_count, s.non_compliant_count, s.unknown_count,
            s.user_id, s.user_name, env.name AS member_name, s.member_index
     FROM snapshots s LEFT JOIN environments env ON env.id = s.member_id
     WHERE s.environment_id = ? AND s.idx BETWEEN ? AND ? ORDER BY s.idx DESC`,
  );

  const KEYS = "sa.id, sa.fingerprint, sa.name, sa.now, sa.compliant";
  const runningKeys = db.prepare<[SnapshotKey], RunningKeyRow>(
    `SELECT ${KEYS} FROM snapshot_artifacts sa WHERE ${IN_SNAPSHOT} AND sa.now > 0`,
  );
  const differing = db.prepare<[SnapshotRange], DifferingRow>(
    `SELECT ${KEYS}, 1 AS is_first FROM snapshot_artifacts sa
     WHERE sa.environment_id = @environment AND sa.last_index >= @first AND sa.last_index < @last
       AND sa.first_index <= @first AND sa.now > 0
     UNION ALL
     SELECT ${KEYS}, 0 AS is_first FROM snapshot_artifacts sa
     WHERE sa.environment_id = @environment AND sa.last_index >= @last AND sa.first_index > @first
       AND sa.first_index <= @last AND sa.now > 0`,
  );
  // What runs in both snapshots without a change has one row for both.
  const IN_BOTH =
    "sa.environment_id = @environment AND sa.last_index >= @last AND sa.first_index <= @first AND sa.now > 0";
  const ARTIFACT_KEY = "CASE sa.fingerprint WHEN '' THEN ':' || sa.name ELSE sa.fingerprint END";
  const sharedKeys = db
    .prepare<[SnapshotRange], string>(`SELECT ${ARTIFACT_KEY} FROM snapshot_artifacts sa WHERE ${IN_BOTH}`)
    .pluck();
  const shared = db.prepare<[SnapshotRange & { keys: string }], RunningKeyRow>(
    `SELECT ${KEYS} FROM snapshot_artifacts sa
     WHERE ${IN_BOTH} AND ${ARTIFACT_KEY} IN (SELECT wanted.value FROM json_each(@keys) wanted)`,
  );
  // The order of `byUrgency`.
  const sharedFirst = db.prepare<[SnapshotRange & { without: string; limit: number }], RunningKeyRow>(
    `SELECT ${KEYS} FROM snapshot_artifacts sa
     WHERE ${IN_BOTH}
       AND (@without = '[]' OR ${ARTIFACT_KEY} NOT IN (SELECT known.value FROM json_each(@without) known))
     ORDER BY CASE sa.compliant WHEN 0 THEN 0 WHEN 1 THEN 2 ELSE 1 END, sa.name, sa.id LIMIT @limit`,
  );
  const since = db
    .prepare<[number, number, number], number>(
      `SELECT count(*) FROM (
         SELECT 1 FROM snapshot_artifacts sa WHERE sa.environment_id = ? AND sa.last_index >= ? LIMIT ?) AS found`,
    )
    .pluck();
  const runningDetails = db.prepare<[string], RunningDetailRow>(
    `SELECT sa.id, ${columnOrStub("sa.instances_json")} AS instances_json, ev.facts_json
     FROM json_each(?) wanted CROSS JOIN snapshot_artifacts sa ON sa.id = wanted.value
       CROSS JOIN evaluations ev ON ev.id = sa.evaluation_id`,
  );

  const counts = db.prepare<[string, number], RunningCounts & { name: string }>(
    `SELECT env.name, s.compliant_count AS compliant, s.non_compliant_count AS failing, s.unknown_count AS unknown
     FROM json_each(?) wanted CROSS JOIN environments env ON env.organization_id = ? AND env.name = wanted.value
       CROSS JOIN snapshots s ON s.environment_id = env.id AND s.idx = env.snapshot_count`,
  );

  // A damaged evaluation reads as without provenance.
  const provenance = db.prepare<[string], ProvenanceRow>(
    `SELECT sa.id,
            CASE WHEN json_valid(ev.facts_json) THEN ev.facts_json ->> '$.flows[0].artifact_id' END AS artifact_id,
            CASE WHEN json_valid(ev.facts_json) THEN ev.facts_json ->> '$.flows[0].git_commit' END AS git_commit
     FROM json_each(?) wanted CROSS JOIN snapshot_artifacts sa ON sa.id = wanted.value
       CROSS JOIN evaluations ev ON ev.id = sa.evaluation_id`,
  );
  const latestOther = db
    .prepare<[number, number, number, 0 | 1 | null], number>(
      `SELECT s.idx FROM snapshots s
       WHERE s.environment_id = ? AND s.idx >= ? AND s.idx < ? AND s.compliant IS NOT ? ORDER BY s.idx DESC LIMIT 1`,
    )
    .pluck();
  const lastCompliant = db
    .prepare<[number, number, number], number>(
      `SELECT s.idx FROM snapshots s
       WHERE s.environment_id = ? AND s.idx >= ? AND s.idx < ? AND s.compliant = 1 ORDER BY s.idx DESC LIMIT 1`,
    )
    .pluck();
  // A verdict that becomes unknown has no annotation of its own.
  const change = db.prepare<[ChangePlace], Pick<SnapshotRow, "idx" | "timestamp">>(
    `SELECT s.idx, s.timestamp FROM snapshot_artifacts sa
       CROSS JOIN snapshots s ON s.environment_id = sa.environment_id AND s.idx = sa.first_index
     WHERE sa.organization_id = @organization AND sa.fingerprint = @fingerprint AND sa.environment_id = @environment
       AND sa.first_index > @first AND sa.first_index <= @last AND sa.name = @name
       AND CASE @kind
         WHEN 'start' THEN sa.was = 0
         WHEN 'verdict' THEN sa.annotation NOT IN ('unchanged', 'updated-provenance') OR sa.compliant IS NULL
         WHEN 'scale' THEN sa.was <> sa.now
         ELSE sa.annotation <> 'unchanged' OR sa.was <> sa.now OR sa.compliant IS NULL END
     ORDER BY sa.first_index DESC LIMIT 1`,
  );
  const turned = db.prepare<[number, number, number], TurnedRow>(
    `SELECT sa.id, sa.fingerprint, sa.name, sa.now, sa.was, sa.compliant FROM snapshot_artifacts sa
     WHERE sa.environment_id = ? AND sa.first_index = ? AND sa.annotation <> 'unchanged' LIMIT ?`,
  );
  const policyTurns = db.prepare<[number, number, number, number], PolicyTurnRow>(
    `SELECT s.idx, s.timestamp, s.user_name FROM snapshots s
     WHERE s.environment_id = ? AND s.idx > ? AND s.idx <= ? AND s.cause IN ('policies', 'policy_version')
     ORDER BY s.idx DESC LIMIT ?`,
  );

  return {
    /** The records behind rows of `listRunningKeys`, by their ids. */
    findProvenance: (ids: readonly number[]): Map<number, ProvenanceRow> =>
      new Map(provenance.all(JSON.stringify(ids)).map((row) => [row.id, row])),
    /**
     * The snapshot since which an environment has the verdict that it has in the snapshot `last`; null where that is
     * `first` or one before it, or MAX_SEARCHED_SNAPSHOTS or more before `last`.
     */
    findTurn(
      environmentId: number,
      { first, last }: { first: number; last: number },
      verdict: 0 | 1 | null,
    ): number | null {
      const other = latestOther.get(environmentId, Math.max(first, last - MAX_SEARCHED_SNAPSHOTS), last, verdict);
      return other === undefined ? null : other + 1;
    },
    /** The latest compliant snapshot before one; null for none among the MAX_SEARCHED_FOR_COMPLIANT before it. */
    findLastCompliant: (environmentId: number, index: number): number | null =>
      lastCompliant.get(environmentId, index - MAX_SEARCHED_FOR_COMPLIANT, index) ?? null,
    /**
     * The latest snapshot after `first` up to `last` that changed an artifact in this way; null for none. Not for the
     * empty fingerprint, which many artifacts share.
     */
    findChange: (place: ChangePlace): Pick<SnapshotRow, "idx" | "timestamp"> | null => change.get(place) ?? null,
    /** At most `limit` artifacts that a snapshot of a physical environment started, stopped or changed, in no order. */
    listTurned: (environmentId: number, index: number, limit: number): TurnedRow[] =>
      turned.all(environmentId, index, limit),
    /** At most `limit` snapshots after `first` up to `last` that a change of policies made, the newest first. */
    listPolicyTurns: (
      environmentId: number,
      { first, last, limit }: { first: number; last: number; limit: number },
    ): PolicyTurnRow[] => policyTurns.all(environmentId, Math.max(first, last - MAX_SEARCHED_SNAPSHOTS), last, limit),
    /** How many artifacts run in each of these environments, by its name; those without a snapshot are left out. */
    countRunning: (organizationId: number, names: readonly string[]): Map<string, RunningCounts> =>
      new Map(
        counts
          .all(JSON.stringify(names), organizationId)
          .map(({ name, compliant, failing, unknown }) => [name, { compliant, failing, unknown }]),
      ),
    /** The artifacts that run in a snapshot of a physical environment, in no order. */
    listRunningKeys: (environmentId: number, index: number): RunningKeyRow[] =>
      runningKeys.all({ environment: environmentId, index }),
    /** What runs in one of two snapshots only, in no order: rows of what started, exited or changed between them. */
    listDiffering: (range: SnapshotRange): DifferingRow[] => differing.all(range),
    /**
     * The keys (`artifactKey`) of what runs in both snapshots in the same way, in no order. An artifact with several
     * names is there with each.
     */
    listSharedKeys: (range: SnapshotRange): string[] => sharedKeys.all(range),
    /** The rows of these keys among them. */
    listShared: (range: SnapshotRange, keys: Iterable<string>): RunningKeyRow[] =>
      shared.all({ ...range, keys: JSON.stringify([...keys]) }),
    /** The first `limit` rows of other keys than `without`: what fails first, then by name. */
    listSharedFirst: (
      range: SnapshotRange,
      { without, limit }: { without: Iterable<string>; limit: number },
    ): RunningKeyRow[] => sharedFirst.all({ ...range, without: JSON.stringify([...without]), limit }),
    /**
     * How many rows a query about what runs in a snapshot of a physical environment goes through, counted up to
     * `limit`: of what runs, and of what changed since.
     */
    countSince: (environmentId: number, index: number, limit: number): number =>
      since.get(environmentId, index, limit) ?? 0,
    /** The details of rows of `listRunningKeys`, by id. */
    findRunningDetails: (ids: Iterable<number>): Map<number, RunningDetailRow> =>
      new Map(runningDetails.all(JSON.stringify([...ids])).map((row) => [row.id, row])),
    /**
     * How many artifacts of a snapshot of a physical environment are selected. Only a search reads all of them: what
     * runs was counted when the snapshot was made.
     * @param withExited those that stopped
     */
    count(snapshot: SnapshotRow, { show, search, withExited }: Selected): number {
      const key = { environment: snapshot.environment_id, index: snapshot.idx };
      if (search !== "") return statements[show].countFound.get({ ...key, search, exited: withExited ? 1 : 0 }) ?? 0;
      const { compliant_count: compliant, non_compliant_count: failing, unknown_count: unknown } = snapshot;
      if (show === "failing") return failing;
      if (show === "compliant") return compliant;
      if (show === "unknown") return unknown;
      const { changed, exited } = changedIn.get(key) as ChangedCounts;
      if (show === "changed") return withExited ? changed : changed - exited;
      return compliant + failing + unknown + (withExited ? exited : 0);
    },
    /** A part of them: those that fail first, those that stopped last, else by name. */
    list(
      snapshot: SnapshotKey,
      { show, search, withExited, limit, offset }: Selected & { limit: number; offset: number },
    ): SelectedArtifactRow[] {
      const keys = statements[show].keys.all({ ...snapshot, search, exited: withExited ? 1 : 0, limit, offset });
      const byId = new Map(rows.all(JSON.stringify(keys)).map((row) => [row.id, row]));
      return keys.flatMap((id) => byId.get(id) ?? []);
    },
    /** Artifacts by id, in no order. */
    findSelected: (ids: readonly number[]): SelectedArtifactRow[] => rows.all(JSON.stringify(ids)),
    /** The artifacts that run and fail, by name, row by row. */
    iterateFailing: (environment: number, index: number): IterableIterator<FailingRow> =>
      failing.iterate({ environment, index }),
    /**
     * The ids of all artifacts of a snapshot of a physical environment, by name.
     * @param withExited those that stopped
     */
    listKeys: (snapshot: SnapshotKey, { withExited }: { withExited: boolean }): number[] =>
      wholeKeys.all({ ...snapshot, exited: withExited ? 1 : 0 }),
    /** The artifacts with these ids, in their order. */
    listByKeys: (ids: readonly number[]): EvaluatedArtifactRow[] => evaluatedByKey.all(JSON.stringify(ids)),
    /** When the snapshots between two indexes, both inclusive, were made, and their verdicts; oldest first. */
    listPoints: (environmentId: number, first: number, last: number): SnapshotPoint[] =>
      points.all(environmentId, first, last),
    /** The snapshots between two indexes, both inclusive, newest first. */
    listOutlines: (environmentId: number, first: number, last: number): SnapshotOutlineRow[] =>
      outlines.all(environmentId, first, last),
  };
}
