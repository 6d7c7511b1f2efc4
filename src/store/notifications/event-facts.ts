/**
 * The facts that notification events are made of (domain/notification/event.ts), looked up by the ids in a job.
 * Read-only.
 *
 * Facts about environments are those of the snapshot in question, which never changes; the states of flows are current.
 * Names are current names.
 */
import { isListOf, isObject, readStoredJsonOrNull } from "../../domain/stored-json.ts";
import type { Facts, FlowRecord } from "../../domain/compliance/environment.ts";
import type {
  ArtifactEvent,
  EventArtifact,
  EventFlow,
  SnapshotRef,
  Provenance,
} from "../../domain/notification/event.ts";
import type { ArtifactTrigger } from "../../domain/notification/triggers.ts";
import { selectorColumn, readSelector } from "../flows/artifact-selector.ts";
import { fromSqlBoolean } from "../db/database.ts";
import type { AllowlistRow } from "../environments/allowlists.ts";
import type { complianceFactStore } from "../environments/compliance-facts.ts";
import type { DbReader } from "../db/types.ts";

type SnapshotRow = {
  org: string;
  environment: string;
  compliant: 0 | 1 | null;
  non_compliant_count: number;
  member_id: number | null;
  member_index: number | null;
  member: string | null;
};
type EventRow = {
  id: number;
  name: string;
  fingerprint: string;
  annotation: string;
  was: number;
  now: number;
  compliant: 0 | 1 | null;
} & StoredEvaluation;
/** The evaluation of an artifact as it is stored. */
export type StoredEvaluation = { evaluation_id: number; facts_json: string; verdicts_json: string };
type RecordRow = {
  public_id: string;
  flow: string;
  name: string;
  fingerprint: string;
  state: string;
  git_commit: string | null;
  commit_url: string;
  build_url: string;
  trail_id: number | null;
  selector_json: string;
};

/**
 * Where the events of a snapshot are stored: for a logical environment, in the member whose snapshot caused it;
 * `member` is then its name.
 */
type Source = { environmentId: number; index: number; member: string | null };
type SnapshotFacts = { moment: SnapshotRef; lastKnown: boolean | null; nonCompliant: number; source: Source };
type KeyedEvent = ArtifactEvent & { id: number; evaluation: StoredEvaluation };

const EVENTS = "sa.environment_id = ? AND sa.first_index = ? AND sa.annotation <> 'unchanged'";
/** As domain/notification/triggers.ts defines them, for the annotations that are still written. */
const CONDITIONS: Readonly<Record<ArtifactTrigger, string>> = {
  ON_STARTED_ARTIFACT: "sa.annotation IN ('started-compliant', 'started-non-compliant', 'started-unknown')",
  ON_EXITED_ARTIFACT: "sa.annotation = 'exited'",
  ON_SCALED_ARTIFACT: "sa.annotation IN ('became-compliant', 'became-non-compliant', 'updated-provenance')",
};
const EVENT_ROWS = `SELECT sa.id, sa.name, sa.fingerprint, sa.annotation, sa.was, sa.now, sa.compliant,
  sa.evaluation_id, ev.facts_json, ev.verdicts_json
  FROM snapshot_artifacts sa JOIN evaluations ev ON ev.id = sa.evaluation_id WHERE ${EVENTS}`;
const RECORD = `a.public_id, f.name AS flow, a.trail_id, a.filename AS name, a.fingerprint, a.state, a.git_commit,
  a.commit_url, a.build_url, ${selectorColumn("a")}`;

const prepareStatements = (db: DbReader) => ({
  snapshot: db.prepare<[number, number], SnapshotRow>(
    `SELECT o.name AS org, env.name AS environment, s.compliant, s.non_compliant_count, s.member_id, s.member_index,
            member.name AS member
     FROM snapshots s JOIN environments env ON env.id = s.environment_id
       JOIN organizations o ON o.id = env.organization_id LEFT JOIN environments member ON member.id = s.member_id
     WHERE s.environment_id = ? AND s.idx = ?`,
  ),
  environment: db.prepare<[number], { org: string; environment: string }>(
    `SELECT o.name AS org, env.name AS environment
     FROM environments env JOIN organizations o ON o.id = env.organization_id WHERE env.id = ?`,
  ),
  lastKnownVerdict: db.prepare<[number, number], { compliant: 0 | 1 }>(
    `SELECT compliant FROM snapshots
     WHERE environment_id = ? AND idx < ? AND compliant IS NOT NULL ORDER BY idx DESC LIMIT 1`,
  ),
  eventsAfter: db.prepare<[number, number, number, number], EventRow>(
    `${EVENT_ROWS} AND sa.id > ? ORDER BY sa.id LIMIT ?`,
  ),
  failing: db.prepare<[number, number, number, number], StoredEvaluation & { name: string }>(
    `SELECT sa.name, sa.evaluation_id, ev.facts_json, ev.verdicts_json
     FROM snapshot_artifacts sa JOIN evaluations ev ON ev.id = sa.evaluation_id
     WHERE sa.environment_id = ? AND sa.last_index >= ? AND sa.first_index <= ? AND sa.now > 0 AND sa.compliant = 0
     ORDER BY sa.first_index DESC, sa.name, sa.id LIMIT ?`,
  ),
  entry: db.prepare<
    [number],
    Pick<AllowlistRow, "public_id" | "fingerprint" | "artifact_name" | "description" | "user_name" | "expires_at"> & {
      organization_id: number;
    }
  >(
    `SELECT public_id, organization_id, fingerprint, artifact_name, description, user_name, expires_at
     FROM allowlist_entries WHERE id = ?`,
  ),
  record: db.prepare<[number], RecordRow>(
    `SELECT ${RECORD} FROM artifacts a JOIN flows f ON f.id = a.flow_id WHERE a.id = ?`,
  ),
  flow: db.prepare<[number], { org: string; flow: string }>(
    `SELECT o.name AS org, f.name AS flow FROM flows f JOIN organizations o ON o.id = f.organization_id WHERE f.id = ?`,
  ),
  trail: db.prepare<[number], { name: string; state: string }>("SELECT name, state FROM trails WHERE id = ?"),
  attestation: db.prepare<
    [number],
    { public_id: string; trail_id: number; name: string; type: string; is_compliant: 0 | 1; reported_by: string }
  >("SELECT public_id, trail_id, name, type, is_compliant, reported_by FROM attestations WHERE id = ?"),
  // Starts from the artifacts of the trail, because the index of bindings begins with the artifact.
  boundArtifact: db.prepare<[number, number], RecordRow>(
    `SELECT ${RECORD} FROM artifacts a JOIN attestation_bindings b ON b.artifact_id = a.id AND b.attestation_id = ?
       JOIN flows f ON f.id = a.flow_id WHERE a.trail_id = ? ORDER BY a.id LIMIT 1`,
  ),
});

const prepareTrigger = (db: DbReader, trigger: ArtifactTrigger) => ({
  first: db.prepare<[number, number, number], EventRow>(
    `${EVENT_ROWS} AND ${CONDITIONS[trigger]} ORDER BY sa.id LIMIT ?`,
  ),
  count: db.prepare<[number, number], { n: number }>(
    `SELECT count(*) AS n FROM snapshot_artifacts sa WHERE ${EVENTS} AND ${CONDITIONS[trigger]}`,
  ),
});

export function eventFactStore(db: DbReader, facts: ReturnType<typeof complianceFactStore>) {
  const statements = prepareStatements(db);
  const byTrigger = {
    ON_STARTED_ARTIFACT: prepareTrigger(db, "ON_STARTED_ARTIFACT"),
    ON_EXITED_ARTIFACT: prepareTrigger(db, "ON_EXITED_ARTIFACT"),
    ON_SCALED_ARTIFACT: prepareTrigger(db, "ON_SCALED_ARTIFACT"),
  };

  /**
   * The provenance from the build flow, which comes first. Damaged facts have none; the message is sent all the same.
   */
  function findProvenance(stored: Facts | null): Provenance | null {
    const first = stored?.flows[0];
    const row = first && statements.record.get(first.artifact_id);
    return row
      ? {
          flow: row.flow,
          state: first.state,
          fingerprint: row.fingerprint,
          commit: first.git_commit,
          commitUrl: first.commit_url,
          buildUrl: row.build_url,
          artifactId: row.public_id,
          selector: readSelector(row),
        }
      : null;
  }

  const presentEvent =
    (member: string | null) =>
    ({ evaluation_id, facts_json, verdicts_json, compliant, ...row }: EventRow): KeyedEvent => ({
      ...row,
      evaluation: { evaluation_id, facts_json, verdicts_json },
      compliant: fromSqlBoolean(compliant),
      provenance: findProvenance(readStoredJsonOrNull(facts_json, isFacts)),
      member,
    });

  const getSnapshotRow = (environmentId: number, index: number): SnapshotRow =>
    present(statements.snapshot.get(environmentId, index), `snapshot ${index} of environment ${environmentId}`);

  /** A snapshot of an environment; index 0 stands for an environment without snapshots. */
  function getSnapshotRef(environmentId: number, index: number): SnapshotRef {
    if (index === 0) {
      const environment = present(statements.environment.get(environmentId), `environment ${environmentId}`);
      return { ...environment, index, compliant: null };
    }
    const { org, environment, compliant } = getSnapshotRow(environmentId, index);
    return { org, environment, index, compliant: fromSqlBoolean(compliant) };
  }

  const getFlow = (flowId: number) => present(statements.flow.get(flowId), `flow ${flowId}`);
  const getTrailRow = (trailId: number) => present(statements.trail.get(trailId), `trail ${trailId}`);

  return {
    getSnapshot(environmentId: number, index: number): SnapshotFacts {
      const row = getSnapshotRow(environmentId, index);
      return {
        moment: { org: row.org, environment: row.environment, index, compliant: fromSqlBoolean(row.compliant) },
        lastKnown: fromSqlBoolean(statements.lastKnownVerdict.get(environmentId, index)?.compliant ?? null),
        nonCompliant: row.non_compliant_count,
        source: { environmentId: row.member_id ?? environmentId, index: row.member_index ?? index, member: row.member },
      };
    },
    /** At most `limit` events after the one with id `after`, in the order in which they were recorded. */
    listEvents: ({ environmentId, index, member }: Source, after: number, limit: number): KeyedEvent[] =>
      statements.eventsAfter.all(environmentId, index, after, limit).map(presentEvent(member)),
    /** At most `limit` artifacts that run in a snapshot and are not compliant, the latest to change first. */
    listFailing: ({ environmentId, index }: Source, limit: number): (StoredEvaluation & { name: string })[] =>
      statements.failing.all(environmentId, index, index, limit),
    /** The first `limit` events that raise a trigger, and how many there are in all. */
    listEventsByTrigger(
      { environmentId, index, member }: Source,
      trigger: ArtifactTrigger,
      limit: number,
    ): { events: KeyedEvent[]; total: number } {
      const events = byTrigger[trigger].first.all(environmentId, index, limit).map(presentEvent(member));
      const total =
        events.length < limit ? events.length : (byTrigger[trigger].count.get(environmentId, index)?.n ?? 0);
      return { events, total };
    },
    /** An allowlist entry, and what is known about its artifact now. */
    getAllowlisted(
      environmentId: number,
      index: number,
      allowlistId: number,
    ): {
      moment: SnapshotRef;
      artifact: EventArtifact;
      id: string;
      by: string;
      reason: string;
      until: number | null;
    } {
      const row = present(statements.entry.get(allowlistId), `entry ${allowlistId} of an allowlist`);
      const artifact = {
        name: row.artifact_name,
        fingerprint: row.fingerprint,
        provenance: findProvenance(facts.read(row.organization_id, row.fingerprint)),
      };
      return {
        moment: getSnapshotRef(environmentId, index),
        artifact,
        id: row.public_id,
        by: row.user_name,
        reason: row.description,
        until: row.expires_at,
      };
    },
    getTrail: (flowId: number, trailId: number): EventFlow => ({
      ...getFlow(flowId),
      trail: getTrailRow(trailId),
      artifact: null,
      attestation: null,
    }),
    getArtifact(flowId: number, artifactId: number): EventFlow {
      const row = present(statements.record.get(artifactId), `artifact ${artifactId}`);
      const trail = row.trail_id === null ? null : getTrailRow(row.trail_id);
      return { ...getFlow(flowId), trail, artifact: artifactOf(row), attestation: null };
    },
    /**
     * `artifact` is the first one that the attestation is bound to; null for an attestation on the trail itself, and
     * for one that waits for its artifact.
     */
    getAttestation(flowId: number, attestationId: number): EventFlow & { by: string } {
      const row = present(statements.attestation.get(attestationId), `attestation ${attestationId}`);
      const artifact = statements.boundArtifact.get(attestationId, row.trail_id);
      return {
        ...getFlow(flowId),
        trail: getTrailRow(row.trail_id),
        artifact: artifact ? artifactOf(artifact) : null,
        attestation: {
          id: row.public_id,
          name: row.name,
          type: row.type,
          compliant: row.is_compliant === 1,
          by: row.reported_by,
        },
        by: row.reported_by,
      };
    },
  };
}

/** @throws Error when the row is missing. @param what names the row in the error. */
function present<T>(row: T | undefined, what: string): T {
  if (row === undefined) throw new Error(`${what} is gone`);
  return row;
}

const isFacts = (value: unknown): value is Facts =>
  isObject(value) && isListOf((flow): flow is FlowRecord => isObject(flow))(value["flows"]);

const artifactOf = (row: RecordRow): EventFlow["artifact"] => ({
  id: row.public_id,
  name: row.name,
  fingerprint: row.fingerprint,
  state: row.state,
  commit: row.git_commit,
  commitUrl: row.commit_url,
  buildUrl: row.build_url,
  selector: readSelector(row),
});
