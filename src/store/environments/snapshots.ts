/**
 * Snapshots and what ran in them, read. They are written by recording.ts only.
 *
 * What ran is kept as intervals (schema.sql, snapshot_artifacts): snapshot N of an environment holds the rows whose
 * interval covers N. In its first snapshot a row has its own annotation, in the later ones it is unchanged.
 */
import type { State } from "../../domain/compliance/artifact.ts";
import type { Facts, StoredVerdict } from "../../domain/compliance/environment.ts";
import type { Annotation } from "../../domain/snapshot/diff.ts";
import type { EnvironmentRow } from "./environments.ts";
import { snapshotTimes } from "./snapshot-times.ts";
import type { Db } from "../db/types.ts";

/** The end of an interval that holds until now. */
export const OPEN = Number.MAX_SAFE_INTEGER;

export type SnapshotCause = "report" | "policies" | "policy_version" | "allowlist" | "member";

export type SnapshotRow = {
  environment_id: number;
  /** From 1. */
  idx: number;
  /** Epoch seconds. */
  timestamp: number;
  cause: SnapshotCause;
  compliant: 0 | 1 | null;
  compliant_count: number;
  non_compliant_count: number;
  unknown_count: number;
  user_id: string;
  user_name: string;
  policy_versions_json: string;
  /** Of a logical environment: the member whose snapshot caused this one, and the index of that. */
  member_id: number | null;
  member_index: number | null;
};

/** Values of old data beside those that this program makes. */
export type StoredAnnotation = Annotation | "started" | "changed" | "scaled";

export type SnapshotArtifactRow = {
  id: number;
  environment_id: number;
  first_index: number;
  /** OPEN while it holds. */
  last_index: number;
  /** "" where the reporter could not resolve the image. */
  fingerprint: string;
  name: string;
  /** How it came to be so in `first_index`, with the instances before and after. */
  annotation: StoredAnnotation;
  was: number;
  now: number;
  compliant: 0 | 1 | null;
  evaluation_id: number;
  /** The snapshot with which this artifact started. */
  started_index: number;
  /** See domain/snapshot/normalize.ts, Instances. */
  instances_json: string;
};

/** With its evaluation, as a snapshot shows it; see domain/compliance/environment.ts for the JSON. */
export type EvaluatedArtifactRow = SnapshotArtifactRow & {
  allowlist_id: number | null;
  facts_json: string;
  verdicts_json: string;
  reasons_json: string;
};

/** What an evaluation was found on and what it found. */
export type ParsedEvaluation = { facts: Facts; verdicts: readonly StoredVerdict[] };

/** What a comparison of two snapshots looks at. */
export type RunningArtifactRow = Pick<SnapshotArtifactRow, "fingerprint" | "name" | "now" | "instances_json"> &
  Pick<EvaluatedArtifactRow, "facts_json">;

/** A member of a logical environment as one of its snapshots shows it. */
type SnapshotMemberRow = { member_id: number; member_index: number };

/** What a snapshot shows of an artifact's record in a flow beside the facts of the evaluation. */
export type ShownRecordRow = {
  id: number;
  public_id: string;
  git_commit_info_json: string | null;
  repo_url: string | null;
};

/** What ran before under the flow and reference name of a deployment, with the record of it as it is today. */
export type ReplacedRow = {
  deployment_id: number;
  fingerprint: string;
  artifact_name: string;
  /** "" for one that was reported without. */
  reference_name: string;
  trail_name: string | null;
  git_commit: string;
  commit_url: string;
  repo_url: string | null;
  state: State;
};

type ShownPolicyRow = { version_id: number; public_id: string; name: string; version: number };

const SNAPSHOT_COLUMNS =
  "environment_id, idx, timestamp, cause, compliant, compliant_count, non_compliant_count, unknown_count, user_id, user_name, policy_versions_json, member_id, member_index";
const ARTIFACT_COLUMNS = [
  "id",
  "environment_id",
  "first_index",
  "last_index",
  "fingerprint",
  "name",
  "annotation",
  "was",
  "now",
  "compliant",
  "evaluation_id",
  "started_index",
  "instances_json",
]
  .map((name) => `a.${name}`)
  .join(", ");

export function snapshotStore(db: Db) {
  const byIndex = db.prepare<[number, number], SnapshotRow>(
    `SELECT ${SNAPSHOT_COLUMNS} FROM snapshots WHERE environment_id = ? AND idx = ?`,
  );
  const artifactsOf = db.prepare<{ environment: number; index: number }, SnapshotArtifactRow>(
    `SELECT ${ARTIFACT_COLUMNS} FROM snapshot_artifacts a
     WHERE a.environment_id = @environment AND a.last_index >= @index AND a.first_index <= @index ORDER BY a.name, a.id`,
  );
  const evaluatedOf = db.prepare<{ environment: number; index: number }, EvaluatedArtifactRow>(
    `SELECT ${ARTIFACT_COLUMNS}, e.allowlist_id, e.facts_json, e.verdicts_json, e.reasons_json
     FROM snapshot_artifacts a JOIN evaluations e ON e.id = a.evaluation_id
     WHERE a.environment_id = @environment AND a.last_index >= @index AND a.first_index <= @index ORDER BY a.name, a.id`,
  );
  const times = snapshotTimes(db);
  const between = db.prepare<[number, number, number], SnapshotRow>(
    `SELECT ${SNAPSHOT_COLUMNS} FROM snapshots WHERE environment_id = ? AND idx BETWEEN ? AND ? ORDER BY idx`,
  );
  const membersOf = db.prepare<{ environment: number; index: number }, SnapshotMemberRow>(
    `SELECT member_id, member_index FROM snapshot_members
     WHERE environment_id = @environment AND last_index >= @index AND first_index <= @index ORDER BY position`,
  );
  const runningOf = db.prepare<{ environment: number; index: number }, RunningArtifactRow>(
    `SELECT a.fingerprint, a.name, a.now, a.instances_json, e.facts_json
     FROM snapshot_artifacts a JOIN evaluations e ON e.id = a.evaluation_id
     WHERE a.environment_id = @environment AND a.last_index >= @index AND a.first_index <= @index AND a.now > 0 ORDER BY a.name, a.id`,
  );
  const fingerprintsOf = db
    .prepare<{ environment: number; index: number }, string>(
      `SELECT fingerprint FROM snapshot_artifacts
       WHERE environment_id = @environment AND last_index >= @index AND first_index <= @index AND now > 0`,
    )
    .pluck();
  // Keys come as one JSON list, so that a snapshot of any size takes one statement for each kind of row.
  const recordsById = db.prepare<[string], ShownRecordRow>(
    "SELECT a.id, a.public_id, a.git_commit_info_json, a.repo_url FROM json_each(?) JOIN artifacts a ON a.id = json_each.value",
  );
  const replacedBy = db.prepare<[string], ReplacedRow>(
    `SELECT d.id AS deployment_id, p.fingerprint, p.artifact_name, p.reference_name, t.name AS trail_name, a.git_commit, a.commit_url, a.repo_url, a.state
     FROM json_each(?) JOIN deployments d ON d.id = json_each.value JOIN deployments p ON p.id = d.replaced_id
       JOIN artifacts a ON a.id = p.artifact_id LEFT JOIN trails t ON t.id = a.trail_id`,
  );
  const policiesOf = db.prepare<[string], ShownPolicyRow>(
    `SELECT v.id AS version_id, p.public_id, p.name, v.version
     FROM json_each(?) JOIN policy_versions v ON v.id = json_each.value JOIN policies p ON p.id = v.policy_id`,
  );
  const evaluations = evaluationCache();

  const sizeOf = db.prepare<[number], { size: number }>(
    `SELECT s.compliant_count + s.non_compliant_count + s.unknown_count AS size
     FROM environments e JOIN snapshots s ON s.environment_id = e.id AND s.idx = e.snapshot_count WHERE e.id = ?`,
  );

  return {
    /** How many artifacts run in the latest snapshot. */
    countRunning: (environmentId: number): number => sizeOf.get(environmentId)?.size ?? 0,
    /** One snapshot, null when there is none of that index. */
    find: (environmentId: number, index: number): SnapshotRow | null => byIndex.get(environmentId, index) ?? null,
    /** What a snapshot of a physical environment shows, what exited in it included, by name. */
    listArtifacts: (environmentId: number, index: number): SnapshotArtifactRow[] =>
      artifactsOf.all({ environment: environmentId, index }),
    /** As artifacts, with the evaluations. */
    listEvaluated: (environmentId: number, index: number): EvaluatedArtifactRow[] =>
      evaluatedOf.all({ environment: environmentId, index }),
    /**
     * The evaluation of a row of `evaluated`. The value is shared: nobody may change it. @throws Error for a damaged
     * one.
     */
    parseEvaluation: evaluations.read,
    /**
     * A text about an evaluation that `kept` gave, made once and kept for as long as the evaluation is. It must follow
     * from the evaluation and from the values in `from` alone; with other ones it is made anew. @throws what `make`
     * throws.
     */
    getOrMakeText: evaluations.textOf,
    /**
     * The snapshot in force at a moment; 0 before the first. From `now` on it is the latest, whatever time a clock that
     * ran ahead gave it. Times in epoch seconds.
     */
    findIndexAt: (
      { id, snapshot_count }: Pick<EnvironmentRow, "id" | "snapshot_count">,
      time: number,
      now: number,
    ): number => (time >= now ? snapshot_count : times.findLastUntil(id, time)),
    /** Snapshots from one index to another, both included, oldest first. */
    listBetween: (environmentId: number, first: number, last: number): SnapshotRow[] =>
      between.all(environmentId, first, last),
    /** The members of a logical environment in one of its snapshots, in their order. */
    listMembers: (environmentId: number, index: number): SnapshotMemberRow[] =>
      membersOf.all({ environment: environmentId, index }),
    /** What runs in a snapshot of a physical environment, by name. */
    listRunning: (environmentId: number, index: number): RunningArtifactRow[] =>
      runningOf.all({ environment: environmentId, index }),
    /** The fingerprints of what runs in a snapshot of a physical environment. */
    listFingerprints: (environmentId: number, index: number): Set<string> =>
      new Set(fingerprintsOf.all({ environment: environmentId, index })),
    /** Records of artifacts by their keys. */
    findRecords: (artifactIds: Iterable<number>): Map<number, ShownRecordRow> =>
      new Map(recordsById.all(JSON.stringify([...artifactIds])).map((row) => [row.id, row])),
    /** What each of these deployments replaced; those that replaced nothing are not in the answer. */
    findReplaced: (deploymentIds: Iterable<number>): Map<number, ReplacedRow> =>
      new Map(replacedBy.all(JSON.stringify([...deploymentIds])).map((row) => [row.deployment_id, row])),
    /** Policy versions by their keys, with what names them. */
    findPolicyVersions: (versionIds: Iterable<number>): Map<number, ShownPolicyRow> =>
      new Map(policiesOf.all(JSON.stringify([...versionIds])).map((row) => [row.version_id, row])),
  };
}

/**
 * Evaluations in readable form, with the text that was made of each, keeping the ones used last: latest snapshots are
 * read again and again, and parsing and showing evaluations is most of the work. Their JSON is compared because a key
 * is given again when a write is undone.
 */
function evaluationCache() {
  type Text = { from: readonly unknown[]; text: string };
  type Entry = { facts: string; verdicts: string; value: ParsedEvaluation; shown: Text | null };
  const known = new Map<number, Entry>();
  let bytes = 0;
  const add = (id: number, entry: Entry): void => {
    known.set(id, entry);
    bytes += bytesOf(entry);
    for (const oldest of known.keys()) {
      if (bytes <= MAX_CACHED_BYTES) break;
      drop(oldest);
    }
  };
  const drop = (id: number): void => {
    const entry = known.get(id);
    if (!entry) return;
    known.delete(id);
    bytes -= bytesOf(entry);
  };
  const bytesOf = ({ facts, verdicts, shown }: Entry): number =>
    (facts.length + verdicts.length) * READ_BYTES + (shown?.text.length ?? 0);

  return {
    read({ evaluation_id: id, facts_json: facts, verdicts_json: verdicts }: EvaluatedArtifactRow): ParsedEvaluation {
      const entry = known.get(id);
      if (entry?.facts === facts && entry.verdicts === verdicts) {
        known.delete(id);
        known.set(id, entry);
        return entry.value;
      }
      const value = readEvaluation(facts, verdicts);
      drop(id);
      add(id, { facts, verdicts, value, shown: null });
      return value;
    },
    textOf(id: number, value: ParsedEvaluation, from: readonly unknown[], make: () => string): string {
      const entry = known.get(id);
      if (entry?.value !== value) return make();
      if (
        entry.shown &&
        entry.shown.from.length === from.length &&
        entry.shown.from.every((one, place) => one === from[place])
      )
        return entry.shown.text;
      const text = make();
      drop(id);
      add(id, { ...entry, shown: { from, text } });
      return text;
    },
  };
}

/** Room for a snapshot of about 1,600 artifacts under three policies of four rules. */
const MAX_CACHED_BYTES = 20 << 20;
/**
 * What a character of an evaluation takes in memory at most, with what was read from it; one of a text takes one byte,
 * or two.
 */
const READ_BYTES = 4;

/** @throws Error when the texts are not what evaluations keep. */
function readEvaluation(factsJson: string, verdictsJson: string): ParsedEvaluation {
  const facts = JSON.parse(factsJson) as Facts;
  const verdicts = JSON.parse(verdictsJson) as StoredVerdict[];
  const readable =
    facts.flows.every(({ artifact_id }) => typeof artifact_id === "number") &&
    verdicts.every(({ version_id }) => typeof version_id === "number");
  if (!readable) throw new Error("the evaluation is damaged");
  return { facts, verdicts };
}
