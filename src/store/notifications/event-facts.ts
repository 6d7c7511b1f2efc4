/**
 * The facts that notices are made of (domain/notification/notice.ts), by the keys that a job names. Of environments
 * they are those of the snapshot in question, which does not change any more; states in flows are those of now. Names
 * are the present ones.
 */
import type { Facts } from "../../domain/compliance/environment.ts";
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
import type { complianceFactStore } from "../environments/compliance-facts.ts";
import type { Db } from "../db/types.ts";

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
  facts_json: string;
};
type RecordRow = {
  public_id: string;
  flow: string;
  name: string;
  fingerprint: string;
  state: string;
  git_commit: string;
  commit_url: string;
  build_url: string;
  trail_id: number | null;
  selector_json: string;
};

/**
 * Where the events of a snapshot are kept: of a logical environment, in the member whose snapshot caused it, `member`
 * being its name.
 */
type Source = { environmentId: number; index: number; member: string | null };
export type SnapshotFacts = { moment: SnapshotRef; lastKnown: boolean | null; nonCompliant: number; source: Source };
export type KeyedEvent = ArtifactEvent & { id: number };

const EVENTS = "s.environment_id = ? AND s.first_index = ? AND s.annotation <> 'unchanged'";
/** As domain/notification/triggers.ts has it, over the annotations that are made. */
const CONDITIONS: Readonly<Record<ArtifactTrigger, string>> = {
  ON_STARTED_ARTIFACT: "s.annotation IN ('started-compliant', 'started-non-compliant', 'started-unknown')",
  ON_EXITED_ARTIFACT: "s.annotation = 'exited'",
  ON_SCALED_ARTIFACT: "s.annotation IN ('became-compliant', 'became-non-compliant', 'updated-provenance')",
};
const EVENT_ROWS = `SELECT s.id, s.name, s.fingerprint, s.annotation, s.was, s.now, s.compliant, e.facts_json
  FROM snapshot_artifacts s JOIN evaluations e ON e.id = s.evaluation_id WHERE ${EVENTS}`;
/** The flow under its present name. */
const RECORD = `a.public_id, f.name AS flow, a.trail_id, a.filename AS name, a.fingerprint, a.state, a.git_commit,
  a.commit_url, a.build_url, ${selectorColumn("a")}`;

export function eventFactStore(db: Db, facts: ReturnType<typeof complianceFactStore>) {
  const snapshot = db.prepare<[number, number], SnapshotRow>(
    `SELECT o.name AS org, e.name AS environment, s.compliant, s.non_compliant_count, s.member_id, s.member_index, m.name AS member
     FROM snapshots s JOIN environments e ON e.id = s.environment_id JOIN organizations o ON o.id = e.organization_id LEFT JOIN environments m ON m.id = s.member_id
     WHERE s.environment_id = ? AND s.idx = ?`,
  );
  const placeOnly = db.prepare<[number], { org: string; environment: string }>(
    "SELECT o.name AS org, e.name AS environment FROM environments e JOIN organizations o ON o.id = e.organization_id WHERE e.id = ?",
  );
  const knownBefore = db.prepare<[number, number], { compliant: 0 | 1 }>(
    "SELECT compliant FROM snapshots WHERE environment_id = ? AND idx < ? AND compliant IS NOT NULL ORDER BY idx DESC LIMIT 1",
  );
  const eventsAfter = db.prepare<[number, number, number, number], EventRow>(
    `${EVENT_ROWS} AND s.id > ? ORDER BY s.id LIMIT ?`,
  );
  const ofTrigger = (trigger: ArtifactTrigger) => ({
    first: db.prepare<[number, number, number], EventRow>(
      `${EVENT_ROWS} AND ${CONDITIONS[trigger]} ORDER BY s.id LIMIT ?`,
    ),
    count: db.prepare<[number, number], { n: number }>(
      `SELECT count(*) AS n FROM snapshot_artifacts s WHERE ${EVENTS} AND ${CONDITIONS[trigger]}`,
    ),
  });
  const byTrigger = {
    ON_STARTED_ARTIFACT: ofTrigger("ON_STARTED_ARTIFACT"),
    ON_EXITED_ARTIFACT: ofTrigger("ON_EXITED_ARTIFACT"),
    ON_SCALED_ARTIFACT: ofTrigger("ON_SCALED_ARTIFACT"),
  };
  const entry = db.prepare<
    [number],
    { organization_id: number; fingerprint: string; artifact_name: string; description: string; user_name: string }
  >("SELECT organization_id, fingerprint, artifact_name, description, user_name FROM allowlist_entries WHERE id = ?");
  const record = db.prepare<[number], RecordRow>(
    `SELECT ${RECORD} FROM artifacts a JOIN flows f ON f.id = a.flow_id WHERE a.id = ?`,
  );
  const flowPlace = db.prepare<[number], { org: string; flow: string }>(
    "SELECT o.name AS org, f.name AS flow FROM flows f JOIN organizations o ON o.id = f.organization_id WHERE f.id = ?",
  );
  const trailOf = db.prepare<[number], { name: string; state: string }>("SELECT name, state FROM trails WHERE id = ?");
  const attestation = db.prepare<
    [number],
    { public_id: string; trail_id: number; name: string; type: string; is_compliant: 0 | 1; reported_by: string }
  >("SELECT public_id, trail_id, name, type, is_compliant, reported_by FROM attestations WHERE id = ?");
  // From the artifacts of the trail, because bindings are found by their artifact.
  const bound = db.prepare<[number, number], RecordRow>(
    `SELECT ${RECORD} FROM artifacts a JOIN attestation_bindings b ON b.artifact_id = a.id AND b.attestation_id = ?
       JOIN flows f ON f.id = a.flow_id WHERE a.trail_id = ? ORDER BY a.id LIMIT 1`,
  );

  function found<T>(row: T | undefined, what: string): T {
    if (row === undefined) throw new Error(`${what} is gone`);
    return row;
  }

  /**
   * The build flow comes first. Facts that were damaged since tell of no provenance; the message goes out all the same.
   */
  function provenanceIn(json: string): Provenance | null {
    let known: Facts;
    try {
      known = JSON.parse(json) as Facts;
      return provenanceOf(known);
    } catch {
      return null;
    }
  }

  function provenanceOf({ flows: [first] }: Facts): Provenance | null {
    if (!first) return null;
    const row = record.get(first.artifact_id);
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

  const eventOf =
    (member: string | null) =>
    ({ facts_json, compliant, ...row }: EventRow): KeyedEvent => ({
      ...row,
      compliant: fromSqlBoolean(compliant),
      provenance: provenanceIn(facts_json),
      member,
    });

  /** A place in the history of an environment; index 0 for one without snapshots. */
  function momentOf(environmentId: number, index: number): SnapshotRef {
    if (index === 0)
      return { ...found(placeOnly.get(environmentId), `environment ${environmentId}`), index, compliant: null };
    const { org, environment, compliant } = found(
      snapshot.get(environmentId, index),
      `snapshot ${index} of environment ${environmentId}`,
    );
    return { org, environment, index, compliant: fromSqlBoolean(compliant) };
  }

  return {
    getSnapshot(environmentId: number, index: number): SnapshotFacts {
      const row = found(snapshot.get(environmentId, index), `snapshot ${index} of environment ${environmentId}`);
      return {
        moment: { org: row.org, environment: row.environment, index, compliant: fromSqlBoolean(row.compliant) },
        lastKnown: fromSqlBoolean(knownBefore.get(environmentId, index)?.compliant ?? null),
        nonCompliant: row.non_compliant_count,
        source: { environmentId: row.member_id ?? environmentId, index: row.member_index ?? index, member: row.member },
      };
    },
    /** The events behind `after`, at most so many, in the order in which they were recorded. */
    listEvents: ({ environmentId, index, member }: Source, after: number, limit: number): KeyedEvent[] =>
      eventsAfter.all(environmentId, index, after, limit).map(eventOf(member)),
    /** The first events that raise a trigger, at most so many, and how many there are. */
    listEventsByTrigger(
      { environmentId, index, member }: Source,
      trigger: ArtifactTrigger,
      limit: number,
    ): { events: KeyedEvent[]; total: number } {
      const events = byTrigger[trigger].first.all(environmentId, index, limit).map(eventOf(member));
      const total =
        events.length < limit ? events.length : (byTrigger[trigger].count.get(environmentId, index)?.n ?? 0);
      return { events, total };
    },
    /** An entry of an allowlist, and what is known of its artifact now. */
    getAllowlisted(
      environmentId: number,
      index: number,
      allowlistId: number,
    ): { moment: SnapshotRef; artifact: EventArtifact; by: string; reason: string } {
      const row = found(entry.get(allowlistId), `entry ${allowlistId} of an allowlist`);
      const artifact = {
        name: row.artifact_name,
        fingerprint: row.fingerprint,
        provenance: provenanceOf(facts.read(row.organization_id, row.fingerprint)),
      };
      return { moment: momentOf(environmentId, index), artifact, by: row.user_name, reason: row.description };
    },
    getTrail: (flowId: number, trailId: number): EventFlow => ({
      ...found(flowPlace.get(flowId), `flow ${flowId}`),
      trail: found(trailOf.get(trailId), `trail ${trailId}`),
      artifact: null,
      attestation: null,
    }),
    getArtifact(flowId: number, artifactId: number): EventFlow {
      const row = found(record.get(artifactId), `artifact ${artifactId}`);
      const trail = row.trail_id === null ? null : found(trailOf.get(row.trail_id), `trail ${row.trail_id}`);
      return { ...found(flowPlace.get(flowId), `flow ${flowId}`), trail, artifact: artifactOf(row), attestation: null };
    },
    /**
     * `artifact` is the first that the attestation belongs to, null for one of the trail's own or one that waits for
     * its artifact.
     */
    getAttestation(flowId: number, attestationId: number): EventFlow & { by: string } {
      const row = found(attestation.get(attestationId), `attestation ${attestationId}`);
      const artifact = bound.get(attestationId, row.trail_id);
      return {
        ...found(flowPlace.get(flowId), `flow ${flowId}`),
        trail: found(trailOf.get(row.trail_id), `trail ${row.trail_id}`),
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
