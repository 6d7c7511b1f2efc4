/**
 * The third step of recording a snapshot: writes what a plan found. Call everything inside a write.
 *
 * Invariants: indexes of an environment are 1, 2, 3, ... without gaps; what an earlier snapshot shows never changes, an
 * open interval is only ever closed; a snapshot that differs in one artifact writes the rows of that artifact only;
 * every verdict is stored with the facts it is based on.
 */
import { computeEnvironmentVerdict } from "../../domain/compliance/environment.ts";
import type { Facts } from "../../domain/compliance/environment.ts";
import type { AnnotatedArtifact } from "../../domain/snapshot/diff.ts";
import type { Actor } from "../actor.ts";
import type { clockStore } from "../db/clock.ts";
import { toSqlBoolean } from "../db/database.ts";
import type { Db, SchemaSources } from "../db/types.ts";
import type { EnvironmentChanges } from "./changes.ts";
import type { EnvironmentRow } from "./environments.ts";
import type { logicalSnapshotStore } from "./logical-snapshots.ts";
import { textOfFacts } from "./evaluation-spool.ts";
import type { EvaluationSpool, EvaluationTexts } from "./evaluation-spool.ts";
import type { After, Before, Plan } from "./snapshot-plan.ts";
import type { OpenRow } from "./snapshot-survey.ts";
import { INSERT_SETBACK } from "./snapshot-times.ts";
import { OPEN } from "./snapshots.ts";

export type WriterParts = Pick<EnvironmentChanges, "onSnapshotMade"> & {
  logical: ReturnType<typeof logicalSnapshotStore>;
  clock: ReturnType<typeof clockStore>;
};

/** The snapshot being written; `at` in epoch seconds. */
type NewSnapshot = { environment: EnvironmentRow; index: number; at: number };

/** The texts of the evaluations of a plan that are not stored yet. */
type Texts = ReturnType<EvaluationSpool["read"]>;

type Statements = ReturnType<typeof prepareStatements>;

function prepareStatements(db: Db) {
  return {
    insertEvaluation: db.prepare(
      `INSERT INTO evaluations (environment_id, compliant, allowlist_id, facts_json, verdicts_json, reasons_json)
       VALUES (?, ?, ?, ?, ?, ?)`,
    ),
    insertArtifact: db.prepare(
      `INSERT INTO snapshot_artifacts (organization_id, environment_id, first_index, last_index, fingerprint, name,
                                       annotation, was, now, compliant, evaluation_id, started_index, instances_json)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    ),
    // The facts of an exiting artifact may have been damaged since; that is no reason to refuse the report.
    insertEventRepos: db.prepare(
      `INSERT INTO environment_event_repos (environment_id, repo_id, first_index, event_id)
       SELECT DISTINCT ev.environment_id, a.repo_id, ?, ?
       FROM evaluations ev, json_each(iif(json_valid(ev.facts_json), ev.facts_json, '{}'), '$.flows') flow
         JOIN artifacts a ON a.id = iif(flow.type = 'object', flow.value ->> 'artifact_id', NULL)
       WHERE ev.id = ? AND a.repo_id IS NOT NULL`,
    ),
    closeInterval: db.prepare("UPDATE snapshot_artifacts SET last_index = ? WHERE id = ?"),
    insertSnapshot: db.prepare(
      `INSERT INTO snapshots (environment_id, idx, timestamp, cause, compliant, compliant_count, non_compliant_count,
                              unknown_count, user_id, user_name, policy_versions_json)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    ),
    // Same flow and reference name, earlier snapshot: artifacts that start together do not replace each other.
    replacedDeployment: db.prepare<[number, number, string, string, number], { id: number }>(
      `SELECT id FROM deployments
       WHERE environment_id = ? AND flow_id = ? AND reference_name = ? AND fingerprint <> ? AND snapshot_index < ?
       ORDER BY snapshot_index DESC, id DESC LIMIT 1`,
    ),
    insertDeployment: db.prepare(
      `INSERT INTO deployments (organization_id, environment_id, snapshot_index, deployed_at, fingerprint,
                                artifact_name, compliant, ordinal, flow_id, artifact_id, repo_id,
                                reference_name, replaced_id)
       SELECT ?, ?, ?, ?, ?, ?, ?, ?, a.flow_id, a.id, a.repo_id, coalesce(a.reference_name, ''), ?
       FROM artifacts a WHERE a.id = ?`,
    ),
    insertSetback: db.prepare(INSERT_SETBACK),
    setReported: db.prepare("UPDATE environments SET last_reported_at = ? WHERE id = ?"),
    setChecked: db.prepare("UPDATE environments SET checked_revision = revision WHERE id = ?"),
    advance: db.prepare(
      `UPDATE environments SET snapshot_count = ?, last_changed_at = ?, state = ?, running_digest = ?,
         checked_revision = revision
       WHERE id = ?`,
    ),
    clearStale: db.prepare("DELETE FROM stale_artifacts WHERE environment_id = ?"),
  };
}

export function snapshotWriter(db: Db, { now }: SchemaSources, { logical, onSnapshotMade, clock }: WriterParts) {
  const statements = prepareStatements(db);

  function write({ survey, snapshot, running, exited, evaluations }: Plan, actor: Actor): number | null {
    const { environment, cause, policies, versionsJson, digest } = survey;
    const time = now();
    if (cause === "report") statements.setReported.run(time, environment.id);
    if (!snapshot) {
      // Only a report turns new provenance into a snapshot; until then the environment has to be checked again.
      if (cause === "report" || !running.some(({ annotation }) => annotation === "updated-provenance"))
        statements.setChecked.run(environment.id);
      return null;
    }
    const index = environment.snapshot_count + 1;
    const at = clock.timeOfSnapshot(time, environment.last_changed_at);
    const texts = evaluations.read();
    for (const item of running) writeRunning(statements, { environment, index, at }, { item, texts });
    for (const item of exited) writeExited(statements, { environment, index, at }, item);
    const verdicts = running.map(({ artifact }) => artifact.compliant);
    const count = (wanted: boolean | null): number => verdicts.filter((compliant) => compliant === wanted).length;
    const state = toSqlBoolean(computeEnvironmentVerdict(verdicts, policies.length));
    statements.insertSnapshot.run(
      environment.id,
      index,
      at,
      cause,
      state,
      count(true),
      count(false),
      count(null),
      actor.publicId,
      actor.displayName,
      versionsJson,
    );
    if (at < (environment.last_changed_at ?? 0)) statements.insertSetback.run(environment.id, index, at);
    statements.advance.run(index, at, state, digest, environment.id);
    statements.clearStale.run(environment.id);
    onSnapshotMade(environment.id, index, at);
    logical.recordMemberSnapshot(environment.id, actor, at);
    return index;
  }

  return {
    /** Writes a plan that is current. @returns the index of the snapshot; null when nothing changed. */
    apply(plan: Plan, actor: Actor): number | null {
      try {
        return write(plan, actor);
      } finally {
        plan.evaluations.close();
      }
    },
    /** Records the time of a report that changes nothing. */
    recordUnchanged: (environmentId: number): void => void statements.setReported.run(now(), environmentId),
  };
}

/** Writes a running artifact of a new snapshot: a new row unless everything about it stayed the same. */
function writeRunning(
  statements: Statements,
  snapshot: NewSnapshot,
  { item: { artifact, annotation, was, now: count }, texts }: { item: AnnotatedArtifact<After>; texts: Texts },
): void {
  const { environment, index } = snapshot;
  const { name, fingerprint, compliant, present, evaluation } = artifact;
  const { row, instancesJson } = present;
  const evaluationId = evaluation
    ? storeEvaluation(statements, snapshot, { artifact, ...evaluation, ...nextOf(texts) })
    : (row as OpenRow).evaluation_id;
  if (row) {
    if (annotation === "unchanged" && evaluationId === row.evaluation_id && instancesJson === row.instances_json)
      return;
    statements.closeInterval.run(index - 1, row.id);
  }
  const { lastInsertRowid } = statements.insertArtifact.run(
    environment.organization_id,
    environment.id,
    index,
    OPEN,
    fingerprint,
    name,
    annotation,
    was,
    count,
    toSqlBoolean(compliant),
    evaluationId,
    row?.started_index ?? index,
    instancesJson,
  );
  if (annotation !== "unchanged") statements.insertEventRepos.run(index, lastInsertRowid, evaluationId);
}

/** Closes the interval of an artifact and writes the row of one snapshot that shows its exit. */
function writeExited(
  statements: Statements,
  { environment, index }: NewSnapshot,
  { artifact: { row }, annotation, was, now: count }: AnnotatedArtifact<Before>,
): void {
  statements.closeInterval.run(index - 1, row.id);
  const { lastInsertRowid } = statements.insertArtifact.run(
    environment.organization_id,
    environment.id,
    index,
    index,
    row.fingerprint,
    row.name,
    annotation,
    was,
    count,
    row.compliant,
    row.evaluation_id,
    row.started_index,
    row.instances_json,
  );
  statements.insertEventRepos.run(index, lastInsertRowid, row.evaluation_id);
}

const parsedFacts = (facts: Facts | string): Facts =>
  typeof facts === "string" ? (JSON.parse(facts) as Facts) : facts;

/** The texts of the next evaluation. */
function nextOf(texts: Texts): EvaluationTexts {
  const { value } = texts.next();
  if (!value) throw new Error("the plan has fewer texts than evaluations");
  return value;
}

/** @returns the id of the evaluation; that of an artifact that starts has its deployments. */
function storeEvaluation(
  statements: Statements,
  snapshot: NewSnapshot,
  {
    artifact,
    allowlistId,
    facts,
    verdictsJson,
    reasonsJson,
  }: EvaluationTexts & { artifact: After; allowlistId: number | null },
): number {
  const factsJson =
    artifact.present.row === null
      ? recordDeployments(statements, snapshot, { artifact, flows: parsedFacts(facts).flows })
      : textOfFacts(facts);
  return Number(
    statements.insertEvaluation.run(
      snapshot.environment.id,
      toSqlBoolean(artifact.compliant),
      allowlistId,
      factsJson,
      verdictsJson,
      reasonsJson,
    ).lastInsertRowid,
  );
}

/**
 * Records that an artifact with provenance started, once for each of its flows. @returns its facts with the
 * deployments, as JSON.
 */
function recordDeployments(
  statements: Statements,
  { environment, index, at }: NewSnapshot,
  { artifact, flows }: { artifact: After; flows: Facts["flows"] },
): string {
  const { name, fingerprint, compliant } = artifact;
  return JSON.stringify({
    flows: flows.map((flow, ordinal) => {
      const replaced =
        flow.reference_name === null
          ? undefined
          : statements.replacedDeployment.get(environment.id, flow.flow_id, flow.reference_name, fingerprint, index);
      const { lastInsertRowid } = statements.insertDeployment.run(
        environment.organization_id,
        environment.id,
        index,
        at,
        fingerprint,
        name,
        toSqlBoolean(compliant),
        ordinal,
        replaced?.id ?? null,
        flow.artifact_id,
      );
      return { ...flow, deployment_id: Number(lastInsertRowid) };
    }),
  } satisfies Facts);
}
