/**
 * How snapshots come to be. Three steps, so that the long one needs no lock: `survey` reads what is stored and finds
 * what there is to do, `plan` evaluates and compares, `apply` writes. The first two write nothing; `apply` belongs into
 * a write, and only while the environment is still as it was surveyed (`isCurrent`).
 *
 * Invariants: indexes of an environment are 1, 2, 3, ... without a gap; what an earlier snapshot shows never changes,
 * an open interval is only ever closed; a snapshot that differs in one artifact writes the rows of that artifact; every
 * verdict is stored with the facts it was found on; a look that finds nothing new writes no row.
 */
import { hash } from "node:crypto";
import { environmentState, evaluateInEnvironment, provenanceOf } from "../../domain/compliance/environment.ts";
import type { AppliedPolicy, Facts, Evaluation } from "../../domain/compliance/environment.ts";
import { evaluationMs } from "../../domain/policy/cost.ts";
import { compareRunning, identityOf } from "../../domain/snapshot/diff.ts";
import type { Annotated, Cause, Running } from "../../domain/snapshot/diff.ts";
import type { ReportedArtifact } from "../../domain/snapshot/normalize.ts";
import type { allowlistStore } from "./allowlists.ts";
import type { clockStore } from "../db/clock.ts";
import { fromSqlBoolean, toSqlBoolean } from "../db/database.ts";
import type { EnvironmentRow, environmentStore } from "./environments.ts";
import type { complianceFactStore } from "./compliance-facts.ts";
import type { logicalSnapshotStore } from "./logical-snapshots.ts";
import type { policyStore } from "../policies/policies.ts";
import { ADD_SETBACK } from "./snapshot-times.ts";
import { OPEN } from "./snapshots.ts";
import type { triggerStore } from "../notifications/triggers.ts";
import type { Db, SchemaSources } from "../db/types.ts";
import type { Actor } from "../actor.ts";

/** What ran in the latest snapshot. */
type OpenRow = {
  id: number;
  fingerprint: string;
  name: string;
  now: number;
  compliant: 0 | 1 | null;
  evaluation_id: number;
  started_index: number;
  instances_json: string;
};

/** What runs now: `row` is the artifact in the latest snapshot, null when it starts. */
type Present = {
  name: string;
  fingerprint: string;
  instances: number;
  instancesJson: string;
  row: OpenRow | null;
  evaluate: boolean;
};

export type Survey = {
  environment: EnvironmentRow;
  cause: Cause;
  policies: readonly AppliedPolicy[];
  versionsJson: string;
  before: readonly OpenRow[] | null;
  after: readonly Present[];
  digest: string;
  /**
   * What the rest will cost: how many artifacts will be evaluated or written, one counted for each ARTIFACT_MS that
   * evaluating it may take.
   */
  workload: number;
};

/** `previous`: the evaluation that the artifact has so far; `earlier`: its facts, null when they are damaged. */
type RunningEvaluation = Evaluation & {
  facts: Facts;
  allowlistId: number | null;
  previous: StoredEvaluationRow | null;
  earlier: Facts | null;
};
type StoredEvaluationRow = { facts_json: string; verdicts_json: string; allowlist_id: number | null };
type Before = Running & { row: OpenRow };
type After = Running & { present: Present; evaluation: RunningEvaluation | null };

export type Plan = {
  survey: Survey;
  snapshot: boolean;
  running: readonly Annotated<After>[];
  exited: readonly Annotated<Before>[];
};

export type RecordingParts = {
  environments: ReturnType<typeof environmentStore>;
  policies: ReturnType<typeof policyStore>;
  allowlists: ReturnType<typeof allowlistStore>;
  facts: ReturnType<typeof complianceFactStore>;
  logical: ReturnType<typeof logicalSnapshotStore>;
  triggers: ReturnType<typeof triggerStore>;
  clock: ReturnType<typeof clockStore>;
};

/** Milliseconds that one artifact under some ordinary policies takes to be evaluated and written. */
const ARTIFACT_MS = 0.2;

/** Above this it is work for the thread anyway (jobs/recorder.ts), and counting flows is not free. */
const MAX_COUNTED_WORKLOAD = 100;

export function snapshotRecorderStore(
  db: Db,
  { now }: SchemaSources,
  { environments, policies, allowlists, facts, logical, triggers, clock }: RecordingParts,
) {
  const openRows = db.prepare<[number], OpenRow>(
    `SELECT id, fingerprint, name, now, compliant, evaluation_id, started_index, instances_json
     FROM snapshot_artifacts WHERE environment_id = ? AND last_index = ${OPEN}`,
  );
  const stale = db.prepare<[number], { fingerprint: string }>(
    "SELECT fingerprint FROM stale_artifacts WHERE environment_id = ?",
  );
  const versionsOf = db.prepare<[number, number], { policy_versions_json: string }>(
    "SELECT policy_versions_json FROM snapshots WHERE environment_id = ? AND idx = ?",
  );
  const stored = db.prepare<[number], StoredEvaluationRow>(
    "SELECT facts_json, verdicts_json, allowlist_id FROM evaluations WHERE id = ?",
  );

  const addEvaluation = db.prepare(
    "INSERT INTO evaluations (environment_id, compliant, allowlist_id, facts_json, verdicts_json, reasons_json) VALUES (?, ?, ?, ?, ?, ?)",
  );
  const addArtifact = db.prepare(
    `INSERT INTO snapshot_artifacts (organization_id, environment_id, first_index, last_index, fingerprint, name, annotation, was, now, compliant,
                                     evaluation_id, started_index, instances_json)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  // What exits may have facts that were damaged since: that is no reason to refuse the report.
  const addEventRepos = db.prepare(
    `INSERT INTO environment_event_repos (environment_id, repo_id, first_index, event_id)
     SELECT DISTINCT e.environment_id, a.repo_id, ?, ?
     FROM evaluations e, json_each(iif(json_valid(e.facts_json), e.facts_json, '{}'), '$.flows') f
       JOIN artifacts a ON a.id = iif(f.type = 'object', f.value ->> 'artifact_id', NULL)
     WHERE e.id = ? AND a.repo_id IS NOT NULL`,
  );
  const close = db.prepare("UPDATE snapshot_artifacts SET last_index = ? WHERE id = ?");
  const addSnapshot = db.prepare(
    `INSERT INTO snapshots (environment_id, idx, timestamp, cause, compliant, compliant_count, non_compliant_count, unknown_count, user_id, user_name,
                            policy_versions_json)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  // Of the same flow and reference name, not of the same snapshot: what starts together replaces nothing of each other.
  const replaced = db.prepare<[number, number, string, string, number], { id: number }>(
    `SELECT id FROM deployments WHERE environment_id = ? AND flow_id = ? AND reference_name = ? AND fingerprint <> ? AND snapshot_index < ?
     ORDER BY snapshot_index DESC, id DESC LIMIT 1`,
  );
  const addDeployment = db.prepare(
    `INSERT INTO deployments (organization_id, environment_id, snapshot_index, deployed_at, fingerprint, artifact_name, compliant, ordinal, flow_id,
                              artifact_id, repo_id, reference_name, replaced_id)
     SELECT ?, ?, ?, ?, ?, ?, ?, ?, a.flow_id, a.id, a.repo_id, coalesce(a.reference_name, ''), ? FROM artifacts a WHERE a.id = ?`,
  );
  const addSetback = db.prepare(ADD_SETBACK);
  const reported = db.prepare("UPDATE environments SET last_reported_at = ? WHERE id = ?");
  const checked = db.prepare("UPDATE environments SET checked_revision = revision WHERE id = ?");
  const advance = db.prepare(
    `UPDATE environments SET snapshot_count = ?, last_changed_at = ?, state = ?, running_digest = ?, checked_revision = revision WHERE id = ?`,
  );
  const clearStale = db.prepare("DELETE FROM stale_artifacts WHERE environment_id = ?");

  function appliedPolicies(environmentId: number): AppliedPolicy[] {
    return policies.listInForce(environmentId).map(({ policy_name, version_id, version }) => ({
      policyName: policy_name,
      versionId: version_id,
      version,
      document: policies.getDocument(version_id),
    }));
  }

  /**
   * Whether a report says what the latest snapshot shows, and nothing that a verdict depends on changed since the two
   * were compared. Looks at the row alone. `digest` is digestOf the report.
   */
  const isUnchanged = (environment: EnvironmentRow, digest: string): boolean =>
    environment.snapshot_count > 0 &&
    environment.running_digest === digest &&
    environment.checked_revision === environment.revision;

  /** Whether the latest snapshot was evaluated under the policies that are in force; false without a snapshot. */
  const isUnderPolicies = ({ id, snapshot_count }: EnvironmentRow): boolean =>
    versionsOf.get(id, snapshot_count)?.policy_versions_json ===
    JSON.stringify(policies.listInForce(id).map(({ version_id }) => version_id));

  /** Reads what is stored. @param artifacts the report; null: what ran still runs. */
  function readCurrent(
    environment: EnvironmentRow,
    cause: Cause,
    artifacts: readonly ReportedArtifact[] | null,
  ): Survey {
    const first = environment.snapshot_count === 0;
    const before = first ? null : openRows.all(environment.id);
    const rows = new Map(before?.map((row) => [identityOf(row), row]));
    const marks = new Set(stale.all(environment.id).map(({ fingerprint }) => fingerprint));
    const applied = appliedPolicies(environment.id);
    const versionsJson = JSON.stringify(applied.map(({ versionId }) => versionId));
    const otherPolicies =
      !first && versionsOf.get(environment.id, environment.snapshot_count)?.policy_versions_json !== versionsJson;
    const after = artifacts
      ? artifacts.map(({ name, fingerprint, instances }): Present => {
          const row = rows.get(identityOf({ name, fingerprint })) ?? null;
          return {
            name,
            fingerprint,
            instances: instances.created.length,
            instancesJson: JSON.stringify(instances),
            row,
            evaluate: row === null || otherPolicies || marks.has(fingerprint),
          };
        })
      : (before ?? []).map(
          (row): Present => ({
            name: row.name,
            fingerprint: row.fingerprint,
            instances: row.now,
            instancesJson: row.instances_json,
            row,
            evaluate: otherPolicies || marks.has(row.fingerprint),
          }),
        );
    const touched = after.filter(
      (present) => present.evaluate || present.instancesJson !== present.row?.instances_json,
    ).length;
    const kept = after.filter(({ row }) => row !== null).length;
    const written = touched + ((before?.length ?? 0) - kept);
    return {
      environment,
      cause,
      policies: applied,
      versionsJson,
      before,
      after,
      digest: artifacts ? digestOf(artifacts) : (environment.running_digest ?? ""),
      workload: weightOf(environment, applied, after, written),
    };
  }

  /**
   * The weight of so many artifacts, and what evaluating them takes on top because the policies are large or the
   * artifacts are in many flows. An ordinary policy for an artifact in one flow adds nothing.
   */
  function weightOf(
    { organization_id }: EnvironmentRow,
    applied: readonly AppliedPolicy[],
    after: readonly Present[],
    written: number,
  ): number {
    const perFlow = applied.reduce((sum, { document }) => sum + evaluationMs(document), 0);
    let workload = written;
    for (const present of after) {
      if (workload > MAX_COUNTED_WORKLOAD || perFlow === 0) break;
      if (!present.evaluate) continue;
      const flows = Math.max(1, facts.countFlows(organization_id, present.fingerprint));
      workload += Math.max(0, Math.floor((flows * perFlow) / ARTIFACT_MS) - 1);
    }
    return workload;
  }

  /** Whether a survey, and what was planned on it, still holds. */
  function isCurrent({ environment }: Survey): boolean {
    const { snapshot_count, revision, archived_at } = environments.get(environment.id);
    return (
      snapshot_count === environment.snapshot_count &&
      revision === environment.revision &&
      archived_at === environment.archived_at
    );
  }

  function evaluate(survey: Survey, { name, fingerprint, row }: Present): RunningEvaluation {
    const { id, organization_id } = survey.environment;
    const previous = row ? (stored.get(row.evaluation_id) ?? null) : null;
    const found = facts.read(organization_id, fingerprint);
    const entry = allowlists.findLatest(id, fingerprint)?.id ?? null;
    const earlier = previous && readFacts(previous.facts_json);
    const known = earlier ? carryDeployments(found, earlier) : found;
    return {
      ...evaluateInEnvironment(survey.policies, { name, fingerprint }, known, entry !== null),
      facts: known,
      allowlistId: entry,
      previous,
      earlier,
    };
  }

  /** Evaluates what the survey found to be new or out of date, and compares. Reads, writes nothing. */
  function plan(found: Survey): Plan {
    const earlier = new Map<OpenRow, Before>();
    for (const row of found.before ?? [])
      earlier.set(row, {
        name: row.name,
        fingerprint: row.fingerprint,
        instances: row.now,
        compliant: fromSqlBoolean(row.compliant),
        provenance: "",
        row,
      });
    const after = found.after.map((present): After => {
      const { name, fingerprint, instances, row } = present;
      if (!present.evaluate && row)
        return {
          name,
          fingerprint,
          instances,
          compliant: fromSqlBoolean(row.compliant),
          provenance: "",
          present,
          evaluation: null,
        };
      const evaluation = evaluate(found, present);
      const before = row && earlier.get(row);
      if (before && evaluation.earlier) before.provenance = provenanceOf(evaluation.earlier);
      return {
        name,
        fingerprint,
        instances,
        compliant: evaluation.compliant,
        provenance: provenanceOf(evaluation.facts),
        present,
        evaluation,
      };
    });
    return {
      survey: found,
      ...compareRunning(found.before === null ? null : [...earlier.values()], after, found.cause),
    };
  }

  /** Writes a plan that is current. @returns the index of the snapshot, null when none was made. */
  function apply(
    { survey: { environment, cause, policies: applied, versionsJson, digest }, snapshot, running, exited }: Plan,
    actor: Actor,
  ): number | null {
    const time = now();
    if (cause === "report") reported.run(time, environment.id);
    if (!snapshot) {
      // Only a report may turn new provenance into a snapshot: until then the environment has to be looked at.
      if (cause === "report" || !running.some(({ annotation }) => annotation === "updated-provenance"))
        checked.run(environment.id);
      return null;
    }
    const index = environment.snapshot_count + 1;
    const at = clock.timeOfSnapshot(time, environment.last_changed_at);
    for (const item of running) writeArtifact(environment, index, at, item);
    for (const { artifact, annotation, was, now: count } of exited) {
      const { row } = artifact;
      close.run(index - 1, row.id);
      const { lastInsertRowid } = addArtifact.run(
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
      addEventRepos.run(index, lastInsertRowid, row.evaluation_id);
    }
    const verdicts = running.map(({ artifact }) => artifact.compliant);
    const count = (wanted: boolean | null): number => verdicts.filter((compliant) => compliant === wanted).length;
    const state = toSqlBoolean(environmentState(verdicts, applied.length));
    addSnapshot.run(
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
    if (at < (environment.last_changed_at ?? 0)) addSetback.run(environment.id, index, at);
    advance.run(index, at, state, digest, environment.id);
    clearStale.run(environment.id);
    triggers.raiseSnapshotMade(environment.id, index, at);
    logical.recordMemberSnapshot(environment.id, actor, at);
    return index;
  }

  /** One running artifact of a new snapshot: a new row unless everything about it stayed the same. */
  function writeArtifact(
    environment: EnvironmentRow,
    index: number,
    at: number,
    { artifact, annotation, was, now: count }: Annotated<After>,
  ): void {
    const { name, fingerprint, compliant, present, evaluation } = artifact;
    const { row, instancesJson } = present;
    if (row === null && evaluation)
      evaluation.facts = recordDeployments(environment, index, at, artifact, evaluation.facts);
    const evaluationId = evaluation ? storeEvaluation(environment.id, evaluation, row) : (row as OpenRow).evaluation_id;
    if (row) {
      if (annotation === "unchanged" && evaluationId === row.evaluation_id && instancesJson === row.instances_json)
        return;
      close.run(index - 1, row.id);
    }
    const { lastInsertRowid } = addArtifact.run(
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
    if (annotation !== "unchanged") addEventRepos.run(index, lastInsertRowid, evaluationId);
  }

  /** The key of an evaluation: the one it had when nothing differs. */
  function storeEvaluation(
    environmentId: number,
    { facts: found, verdicts, reasons, compliant, allowlistId, previous }: RunningEvaluation,
    row: OpenRow | null,
  ): number {
    const factsJson = JSON.stringify(found);
    const verdictsJson = JSON.stringify(verdicts);
    if (
      row &&
      previous?.facts_json === factsJson &&
      previous.verdicts_json === verdictsJson &&
      previous.allowlist_id === allowlistId
    )
      return row.evaluation_id;
    return Number(
      addEvaluation.run(
        environmentId,
        toSqlBoolean(compliant),
        allowlistId,
        factsJson,
        verdictsJson,
        JSON.stringify(reasons),
      ).lastInsertRowid,
    );
  }

  /**
   * Records that an artifact with provenance started, once for each of its flows. @returns the facts with these
   * deployments.
   */
  function recordDeployments(
    environment: EnvironmentRow,
    index: number,
    at: number,
    { name, fingerprint, compliant }: After,
    { flows }: Facts,
  ): Facts {
    return {
      flows: flows.map((flow, ordinal) => {
        const before =
          flow.reference_name === null
            ? undefined
            : replaced.get(environment.id, flow.flow_id, flow.reference_name, fingerprint, index);
        const { lastInsertRowid } = addDeployment.run(
          environment.organization_id,
          environment.id,
          index,
          at,
          fingerprint,
          name,
          toSqlBoolean(compliant),
          ordinal,
          before?.id ?? null,
          flow.artifact_id,
        );
        return { ...flow, deployment_id: Number(lastInsertRowid) };
      }),
    };
  }

  return {
    isUnchanged,
    isUnderPolicies,
    readCurrent: readCurrent,
    isCurrent,
    plan,
    apply,
    /** Notes a report that changes nothing. */
    recordUnchanged: (environmentId: number): void => void reported.run(now(), environmentId),
    /** All steps in one, inside a write. @returns the index of the snapshot, null when none was made. */
    record(
      environment: EnvironmentRow,
      cause: Cause,
      artifacts: readonly ReportedArtifact[] | null,
      actor: Actor,
    ): number | null {
      return apply(plan(readCurrent(environment, cause, artifacts)), actor);
    },
  };
}

/**
 * A text that is the same for reports of the same names and fingerprints, whatever their instances. The report is
 * ordered (normalize.ts).
 */
export const digestOf = (artifacts: readonly ReportedArtifact[]): string =>
  hash("sha256", JSON.stringify(artifacts.map(identityOf)));

/** Facts as they are stored; null for damaged ones: those of now replace them, as provenance that is new. */
function readFacts(text: string): Facts | null {
  try {
    const facts = JSON.parse(text) as Facts;
    provenanceOf(facts);
    return facts;
  } catch {
    return null;
  }
}

/** A flow keeps the deployment with which the artifact started in it. */
function carryDeployments(facts: Facts, earlier: Facts): Facts {
  const known = new Map(earlier.flows.map(({ flow_id, deployment_id }) => [flow_id, deployment_id]));
  return { flows: facts.flows.map((flow) => ({ ...flow, deployment_id: known.get(flow.flow_id) ?? null })) };
}
