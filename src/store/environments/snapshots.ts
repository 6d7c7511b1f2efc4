/**
 * Snapshots and what ran in them. Read-only: snapshot-writer.ts and logical-snapshots.ts write them.
 *
 * What ran is stored as intervals (schema.sql, snapshot_artifacts): snapshot N of an environment contains the rows
 * whose interval covers N. In the first snapshot of its interval a row has its own annotation, in later ones it is
 * unchanged.
 */
import { createLru } from "../../domain/lru.ts";
import type { State } from "../../domain/compliance/artifact.ts";
import type { Facts, StoredVerdict } from "../../domain/compliance/environment.ts";
import type { Annotation } from "../../domain/snapshot/diff.ts";
import type { EnvironmentRow } from "./environments.ts";
import { isListOf, isNumber, isObject, readStoredJson } from "../../domain/stored-json.ts";
import type { Guard } from "../../domain/stored-json.ts";
import { snapshotTimes } from "./snapshot-times.ts";
import { flag, number, orNull, selectList, string, stringOf } from "../db/columns.ts";
import type { RowOf } from "../db/columns.ts";
import { columnOrStub, selectWithStubs } from "../db/large-json.ts";
import type { DbReader } from "../db/types.ts";

/** The end of an interval that still holds. */
export const OPEN = Number.MAX_SAFE_INTEGER;

export type SnapshotCause = "report" | "policies" | "policy_version" | "allowlist" | "member";

const SNAPSHOT = {
  environment_id: number,
  /** From 1. */
  idx: number,
  /** Epoch seconds. */
  timestamp: number,
  cause: stringOf<SnapshotCause>(),
  compliant: orNull(flag),
  compliant_count: number,
  non_compliant_count: number,
  unknown_count: number,
  user_id: string,
  user_name: string,
  policy_versions_json: string,
  /** Set for a logical environment: the member whose snapshot caused this one, and that snapshot's index. */
  member_id: orNull(number),
  member_index: orNull(number),
};
export type SnapshotRow = RowOf<typeof SNAPSHOT>;

/** The annotations that this program writes, and those that only old data has. */
export type StoredAnnotation = Annotation | "started" | "changed" | "scaled";

const ARTIFACT = {
  id: number,
  environment_id: number,
  first_index: number,
  /** OPEN while the row still holds. */
  last_index: number,
  /** "" where the reporter could not resolve the image. */
  fingerprint: string,
  name: string,
  /** What happened in `first_index`, with the number of instances before and after. */
  annotation: stringOf<StoredAnnotation>(),
  was: number,
  now: number,
  compliant: orNull(flag),
  evaluation_id: number,
  /** The snapshot in which this artifact started. */
  started_index: number,
  /** See domain/snapshot/normalize.ts, Instances. */
  instances_json: string,
};
type SnapshotArtifactRow = RowOf<typeof ARTIFACT>;

/** What an artifact of a snapshot is called, and its verdict. */
export type ArtifactOutlineRow = Pick<SnapshotArtifactRow, "id" | "name" | "fingerprint" | "annotation" | "compliant">;

/** Artifacts that run, by verdict; and of all artifacts, exited ones included, how many have a fingerprint. */
type VerdictCounts = { compliant: number; nonCompliant: number; unknown: number; selected: number };

/** An artifact of a snapshot with its evaluation; domain/compliance/environment.ts defines the JSON. */
export type EvaluatedArtifactRow = SnapshotArtifactRow & {
  allowlist_id: number | null;
  facts_json: string;
  verdicts_json: string;
  reasons_json: string;
};

type EvaluationColumns = Pick<EvaluatedArtifactRow, "evaluation_id" | "facts_json" | "verdicts_json">;

/** The facts of an evaluation and its verdicts, parsed. */
export type ParsedEvaluation = { facts: Facts; verdicts: readonly StoredVerdict[] };

/** A member of a logical environment as one of its snapshots shows it. */
type SnapshotMemberRow = { member_id: number; member_index: number };

/**
 * Details of an artifact record that a snapshot shows besides the facts of the evaluation. A long text is a stub
 * (db/large-json.ts).
 */
export type ShownRecordRow = {
  id: number;
  public_id: string;
  git_commit_info_json: string | null;
  repo_url: string | null;
};

/** What ran before under the flow and reference name of a deployment, with its record as it is today. */
export type ReplacedRow = {
  deployment_id: number;
  fingerprint: string;
  artifact_name: string;
  /** "" when it was reported without one. */
  reference_name: string;
  artifact_id: number;
  trail_name: string | null;
  git_commit: string | null;
  commit_url: string;
  repo_url: string | null;
  state: State;
};

type ShownPolicyRow = { version_id: number; public_id: string; name: string; version: number };

const SNAPSHOT_COLUMNS = selectList(SNAPSHOT);
export const ARTIFACT_COLUMNS = selectWithStubs("sa", ARTIFACT, ["instances_json"]);

/** The rows of snapshot_artifacts whose interval covers the snapshot @index. */
export const IN_SNAPSHOT = "sa.environment_id = @environment AND sa.last_index >= @index AND sa.first_index <= @index";

export function snapshotStore(db: DbReader) {
  type SnapshotKey = { environment: number; index: number };
  const byIndex = db.prepare<[number, number], SnapshotRow>(
    `SELECT ${SNAPSHOT_COLUMNS} FROM snapshots WHERE environment_id = ? AND idx = ?`,
  );
  const artifacts = db.prepare<SnapshotKey, SnapshotArtifactRow>(
    `SELECT ${ARTIFACT_COLUMNS} FROM snapshot_artifacts sa WHERE ${IN_SNAPSHOT} ORDER BY sa.name, sa.id`,
  );
  const evaluated = db.prepare<SnapshotKey, EvaluatedArtifactRow>(
    `SELECT ${ARTIFACT_COLUMNS}, ev.allowlist_id, ev.facts_json, ev.verdicts_json, ev.reasons_json
     FROM snapshot_artifacts sa JOIN evaluations ev ON ev.id = sa.evaluation_id
     WHERE ${IN_SNAPSHOT} ORDER BY sa.name, sa.id`,
  );
  const evaluatedById = db.prepare<[number], EvaluatedArtifactRow>(
    `SELECT ${ARTIFACT_COLUMNS}, ev.allowlist_id, ev.facts_json, ev.verdicts_json, ev.reasons_json
     FROM snapshot_artifacts sa JOIN evaluations ev ON ev.id = sa.evaluation_id WHERE sa.id = ?`,
  );
  const OUTLINE = "sa.id, sa.name, sa.fingerprint, sa.annotation, sa.compliant";
  const outlines = db.prepare<SnapshotKey, ArtifactOutlineRow>(
    `SELECT ${OUTLINE} FROM snapshot_artifacts sa WHERE ${IN_SNAPSHOT} ORDER BY sa.name, sa.id`,
  );
  // The rows are narrow until those that are asked for are known. The order is that of `rankArtifact`.
  const rankedOutlines = db.prepare<SnapshotKey & { fingerprint: string | null; limit: number }, ArtifactOutlineRow>(
    `SELECT ${OUTLINE} FROM (
       SELECT sa.id FROM snapshot_artifacts sa
       WHERE ${IN_SNAPSHOT} AND (@fingerprint IS NULL OR sa.fingerprint = @fingerprint)
       ORDER BY CASE WHEN sa.annotation = 'exited' THEN 3 WHEN sa.compliant = 0 THEN 0 WHEN sa.compliant = 1 THEN 2
                ELSE 1 END, sa.name, sa.id LIMIT @limit) AS found
       CROSS JOIN snapshot_artifacts sa ON sa.id = found.id
     ORDER BY sa.name, sa.id`,
  );
  const verdictCounts = db.prepare<SnapshotKey & { fingerprint: string | null }, VerdictCounts>(
    `SELECT count(*) FILTER (WHERE running AND compliant = 1) AS compliant,
            count(*) FILTER (WHERE running AND compliant = 0) AS nonCompliant,
            count(*) FILTER (WHERE running AND compliant IS NULL) AS unknown,
            count(*) FILTER (WHERE selected) AS selected
     FROM (SELECT sa.annotation <> 'exited' AS running, sa.compliant,
                  @fingerprint IS NULL OR sa.fingerprint = @fingerprint AS selected
           FROM snapshot_artifacts sa WHERE ${IN_SNAPSHOT}) AS found`,
  );
  const times = snapshotTimes(db);
  const between = db.prepare<[number, number, number], SnapshotRow>(
    `SELECT ${SNAPSHOT_COLUMNS} FROM snapshots WHERE environment_id = ? AND idx BETWEEN ? AND ? ORDER BY idx`,
  );
  const members = db.prepare<SnapshotKey, SnapshotMemberRow>(
    `SELECT member_id, member_index FROM snapshot_members
     WHERE environment_id = @environment AND last_index >= @index AND first_index <= @index ORDER BY position`,
  );
  const fingerprints = db
    .prepare<SnapshotKey, string>(
      `SELECT sa.fingerprint FROM snapshot_artifacts sa WHERE ${IN_SNAPSHOT} AND sa.now > 0`,
    )
    .pluck();
  // Ids are bound as one JSON list, so that a snapshot of any size takes one statement for each kind of row.
  const recordsById = db.prepare<[string], ShownRecordRow>(
    `SELECT a.id, a.public_id, ${columnOrStub("a.git_commit_info_json")} AS git_commit_info_json, a.repo_url
     FROM json_each(?) wanted JOIN artifacts a ON a.id = wanted.value`,
  );
  const replacedBy = db.prepare<[string], ReplacedRow>(
    `SELECT dep.id AS deployment_id, prev.fingerprint, prev.artifact_name, prev.reference_name, prev.artifact_id,
            t.name AS trail_name, a.git_commit, a.commit_url, a.repo_url, a.state
     FROM json_each(?) wanted JOIN deployments dep ON dep.id = wanted.value
       JOIN deployments prev ON prev.id = dep.replaced_id
       JOIN artifacts a ON a.id = prev.artifact_id LEFT JOIN trails t ON t.id = a.trail_id`,
  );
  const policyVersions = db.prepare<[string], ShownPolicyRow>(
    `SELECT pv.id AS version_id, pol.public_id, pol.name, pv.version
     FROM json_each(?) wanted JOIN policy_versions pv ON pv.id = wanted.value
       JOIN policies pol ON pol.id = pv.policy_id`,
  );
  const evaluations = evaluationCache();

  const runningCount = db.prepare<[number], { size: number }>(
    `SELECT s.compliant_count + s.non_compliant_count + s.unknown_count AS size
     FROM environments env JOIN snapshots s ON s.environment_id = env.id AND s.idx = env.snapshot_count
     WHERE env.id = ?`,
  );

  return {
    /** How many artifacts run in the latest snapshot. */
    countRunning: (environmentId: number): number => runningCount.get(environmentId)?.size ?? 0,
    /** The snapshot with that index; null when there is none. */
    find: (environmentId: number, index: number): SnapshotRow | null => byIndex.get(environmentId, index) ?? null,
    /** The artifacts of a snapshot of a physical environment, those that exited in it included; by name. */
    listArtifacts: (environmentId: number, index: number): SnapshotArtifactRow[] =>
      artifacts.all({ environment: environmentId, index }),
    /** As `listArtifacts`, with the evaluations. */
    listEvaluated: (environmentId: number, index: number): EvaluatedArtifactRow[] =>
      evaluated.all({ environment: environmentId, index }),
    /** As `listArtifacts`, with what fits into a list of thousands only. */
    listOutlines: (environmentId: number, index: number): ArtifactOutlineRow[] =>
      outlines.all({ environment: environmentId, index }),
    /** Of them at most `limit`, what runs and fails first; by name. @param fingerprint null: of any */
    listRankedOutlines: (
      environmentId: number,
      index: number,
      selection: { fingerprint: string | null; limit: number },
    ): ArtifactOutlineRow[] => rankedOutlines.all({ environment: environmentId, index, ...selection }),
    /** @param fingerprint of those that count as selected; null: all */
    countVerdicts: (environmentId: number, index: number, fingerprint: string | null): VerdictCounts =>
      verdictCounts.get({ environment: environmentId, index, fingerprint }) as VerdictCounts,
    /** A row of `listEvaluated` by its id; null when there is none. */
    findEvaluated: (id: number): EvaluatedArtifactRow | null => evaluatedById.get(id) ?? null,
    /** The evaluation of a row of `listEvaluated`. The value is shared: do not change it. @throws StoredJsonError */
    parseEvaluation: evaluations.parse,
    /**
     * Index of the snapshot in force at a time; 0 before the first. From `now` on it is the latest, even if a clock
     * that ran ahead dated it later. Times in epoch seconds.
     */
    findIndexAt: (
      { id, snapshot_count }: Pick<EnvironmentRow, "id" | "snapshot_count">,
      time: number,
      now: number,
    ): number => (time >= now ? snapshot_count : times.findLastUntil(id, time)),
    /** The snapshots between two indexes, both inclusive, oldest first. */
    listBetween: (environmentId: number, first: number, last: number): SnapshotRow[] =>
      between.all(environmentId, first, last),
    /** The members of a logical environment in one of its snapshots, in their order. */
    listMembers: (environmentId: number, index: number): SnapshotMemberRow[] =>
      members.all({ environment: environmentId, index }),
    /** The fingerprints of the artifacts that run in a snapshot of a physical environment. */
    listFingerprints: (environmentId: number, index: number): Set<string> =>
      new Set(fingerprints.all({ environment: environmentId, index })),
    /** Artifact records by id. */
    findRecords: (artifactIds: Iterable<number>): Map<number, ShownRecordRow> =>
      new Map(recordsById.all(JSON.stringify([...artifactIds])).map((row) => [row.id, row])),
    /** What each of these deployments replaced, by deployment id; those that replaced nothing are left out. */
    findReplaced: (deploymentIds: Iterable<number>): Map<number, ReplacedRow> =>
      new Map(replacedBy.all(JSON.stringify([...deploymentIds])).map((row) => [row.deployment_id, row])),
    /** Policy versions by id, with the names of their policies. */
    findPolicyVersions: (versionIds: Iterable<number>): Map<number, ShownPolicyRow> =>
      new Map(policyVersions.all(JSON.stringify([...versionIds])).map((row) => [row.version_id, row])),
  };
}

/**
 * A cache of parsed evaluations: pages of the latest snapshots are read again and again. Entries are compared with the
 * stored JSON, because SQLite reuses the id of a row whose write was rolled back.
 */
function evaluationCache() {
  type Entry = { facts: string; verdicts: string; value: ParsedEvaluation };
  const cache = createLru<number, Entry>({ maxEntries: Number.POSITIVE_INFINITY, maxWeight: MAX_CACHED_BYTES });
  return {
    parse({ evaluation_id: id, facts_json: facts, verdicts_json: verdicts }: EvaluationColumns): ParsedEvaluation {
      const entry = cache.get(id);
      if (entry?.facts === facts && entry.verdicts === verdicts) return entry.value;
      const value = parseEvaluation(facts, verdicts);
      cache.set(id, { facts, verdicts, value }, (facts.length + verdicts.length) * BYTES_PER_CHAR);
      return value;
    },
  };
}

/** Enough for a snapshot of about 1,600 artifacts under three policies of four rules. */
const MAX_CACHED_BYTES = 20 << 20;
/** Memory per character of a stored evaluation at most, with the parsed value. */
const BYTES_PER_CHAR = 4;

/** @throws StoredJsonError when the texts do not have the shape of an evaluation. */
function parseEvaluation(factsJson: string, verdictsJson: string): ParsedEvaluation {
  return { facts: readStoredJson(factsJson, isFacts), verdicts: readStoredJson(verdictsJson, isVerdicts) };
}

const isFacts = (value: unknown): value is Facts =>
  isObject(value) &&
  isListOf((flow): flow is Facts["flows"][number] => isObject(flow) && isNumber(flow["artifact_id"]))(value["flows"]);
export const isVerdicts: Guard<StoredVerdict[]> = isListOf(
  (verdict): verdict is StoredVerdict => isObject(verdict) && isNumber(verdict["version_id"]),
);
