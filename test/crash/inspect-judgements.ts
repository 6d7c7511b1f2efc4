// Verdicts on what runs: whether each is what its facts lead to, the deployments that belong to them, and whether anything
// was left undone. Under the same conditions as inspect-environments.ts.
import { judgeInEnvironment } from "../../src/domain/compliance/environment.ts";
import type { Facts, KeptVerdict } from "../../src/domain/compliance/environment.ts";
import type { Db } from "../../src/store/database.ts";
import { openStore } from "../../src/store/index.ts";
import type { Store } from "../../src/store/index.ts";
import type { JobRow } from "../../src/store/jobs.ts";
import type { Looked } from "./inspect-environments.ts";

type Judged = {
  id: number; environment_id: number; first_index: number; fingerprint: string; name: string; annotation: string; compliant: 0 | 1 | null; timestamp: number | null;
  evaluation_id: number; judged_in: number; judged: 0 | 1 | null; allowlist_id: number | null; allowed_in: number | null; allowed: string | null;
  facts_json: string; verdicts_json: string; reasons_json: string;
};
type Deployment = {
  id: number; snapshot_index: number; deployed_at: number; artifact_name: string; compliant: 0 | 1 | null; ordinal: number; flow_id: number; artifact_id: number;
};

type Say = (problem: string) => void;

/** Neither the clock nor ids are asked for: only reading parts of the store are used. */
const reader = (db: Db): Store => openStore(db, { now: () => 0, newId: () => "" });

/** Rows carry their facts, so they are not all read at once. */
const ROWS_AT_ONCE = 2_000;

/** Every evaluation that is newer than what `looked` says gives the same again; every artifact that started has its deployments. */
export function inspectJudgements(db: Db, looked: Looked): string[] {
  const problems: string[] = [];
  const store = reader(db);
  const rowsAfter = db.prepare<[number], Judged>(
    `SELECT a.id, a.environment_id, a.first_index, a.fingerprint, a.name, a.annotation, a.compliant, s.timestamp, e.id AS evaluation_id,
            e.environment_id AS judged_in, e.compliant AS judged, e.allowlist_id, l.environment_id AS allowed_in, l.fingerprint AS allowed, e.facts_json,
            e.verdicts_json, e.reasons_json
     FROM snapshot_artifacts a JOIN evaluations e ON e.id = a.evaluation_id LEFT JOIN allowlist_entries l ON l.id = e.allowlist_id
     LEFT JOIN snapshots s ON s.environment_id = a.environment_id AND s.idx = a.first_index
     WHERE a.id > ? ORDER BY a.id LIMIT ${ROWS_AT_ONCE}`,
  );
  const deploymentsOf = db.prepare<[number, string, number], Deployment>(
    `SELECT id, snapshot_index, deployed_at, artifact_name, compliant, ordinal, flow_id, artifact_id FROM deployments
     WHERE environment_id = ? AND fingerprint = ? AND id > ? ORDER BY id`,
  );
  const { evaluation, deployment } = looked;
  /** Evaluations to the artifact that they are of. */
  const replayed = new Map<number, string>();
  const deployed = new Set<number>();

  const judgement = (row: Judged, say: Say): void => {
    const owner = `${row.environment_id}:${row.fingerprint}:${row.name}`;
    if (row.judged_in !== row.environment_id) say(`has an evaluation of environment ${row.judged_in}`);
    if ((replayed.get(row.evaluation_id) ?? owner) !== owner) say("has the evaluation of another artifact");
    if (row.evaluation_id <= evaluation || replayed.has(row.evaluation_id)) return;
    replayed.set(row.evaluation_id, owner);
    const difference = replay(store, row);
    if (difference) say(`evaluation ${row.evaluation_id} ${difference}`);
  };
  const start = (row: Judged, say: Say): void => {
    const own = deploymentsOf
      .all(row.environment_id, row.fingerprint, deployment)
      .filter(({ snapshot_index, artifact_name }) => snapshot_index === row.first_index && artifact_name === row.name);
    for (const { id } of own) deployed.add(id);
    const { flows } = JSON.parse(row.facts_json) as Facts;
    const expected = JSON.stringify(flows.map((flow, ordinal) => [flow.deployment_id, ordinal, flow.flow_id, flow.artifact_id, row.compliant, row.timestamp]));
    const told = JSON.stringify(own.map((one) => [one.id, one.ordinal, one.flow_id, one.artifact_id, one.compliant, one.deployed_at]));
    if (told !== expected) say(`started with deployments ${expected} (id, ordinal, flow, artifact, compliant, time), there are ${told}`);
  };
  for (let rows = rowsAfter.all(looked.row); rows.length > 0; rows = rowsAfter.all(looked.row)) {
    for (const row of rows) {
      const say: Say = (problem) => problems.push(`row ${row.id} (environment ${row.environment_id}, ${row.name}, from ${row.first_index}): ${problem}`);
      judgement(row, say);
      if (row.annotation.startsWith("started-")) start(row, say);
      looked.row = row.id;
    }
  }

  const evaluations = db.prepare<[number], number>("SELECT id FROM evaluations WHERE id > ? ORDER BY id").pluck().all(evaluation) as number[];
  const deployments = db.prepare<[number], number>("SELECT id FROM deployments WHERE id > ? ORDER BY id").pluck().all(deployment) as number[];
  const unused = evaluations.filter((id) => !replayed.has(id));
  if (unused.length > 0) problems.push(`${unused.length} evaluations belong to nothing, such as ${unused[0]}`);
  const undeployed = deployments.filter((id) => !deployed.has(id));
  if (undeployed.length > 0) problems.push(`${undeployed.length} deployments belong to nothing that started, such as ${undeployed[0]}`);
  const replacing = db
    .prepare(
      `SELECT d.id FROM deployments d LEFT JOIN deployments r ON r.id = d.replaced_id
       WHERE d.id > ? AND d.replaced_id IS NOT NULL AND NOT coalesce(r.environment_id = d.environment_id AND r.flow_id = d.flow_id
             AND r.reference_name = d.reference_name AND r.fingerprint <> d.fingerprint AND r.snapshot_index < d.snapshot_index, 0)`,
    )
    .pluck()
    .all(deployment) as number[];
  if (replacing.length > 0) problems.push(`${replacing.length} deployments replace what they cannot, such as ${replacing[0]}`);
  looked.evaluation = evaluations.at(-1) ?? evaluation;
  looked.deployment = deployments.at(-1) ?? deployment;
  return problems;
}

/** How judging the kept facts under the kept versions differs from what is kept; null when it does not. */
function replay(store: Store, row: Judged): string | null {
  const isForIt = row.allowed_in === row.environment_id && row.allowed === row.fingerprint;
  if (row.allowlist_id !== null && !isForIt) return `is allowed by entry ${row.allowlist_id}, which is not for it`;
  const policies = (JSON.parse(row.verdicts_json) as KeptVerdict[]).map(({ policy, version_id, version }) => ({
    policyName: policy, versionId: version_id, version, document: store.policies.parsed(version_id),
  }));
  const again = judgeInEnvironment(policies, row, JSON.parse(row.facts_json) as Facts, row.allowlist_id !== null);
  const compliant = again.compliant === null ? null : Number(again.compliant);
  if (compliant !== row.judged) return `says ${row.judged}, its facts lead to ${compliant}`;
  if (JSON.stringify(again.verdicts) !== row.verdicts_json) return `says ${row.verdicts_json}, its facts lead to ${JSON.stringify(again.verdicts)}`;
  return JSON.stringify(again.reasons) === row.reasons_json ? null : `gives the reasons ${row.reasons_json}, its facts lead to ${JSON.stringify(again.reasons)}`;
}

/**
 * What must be so once all jobs are done: none is left, and looking again at what runs would flip nothing, except for
 * artifacts whose facts changed since the latest report, which are marked and wait for the next one.
 */
export function inspectSettled(db: Db): string[] {
  const problems: string[] = [];
  const store = reader(db);
  const jobs = db.prepare("SELECT id, kind, attempts, last_error FROM jobs ORDER BY id").all() as Pick<JobRow, "id" | "kind" | "attempts" | "last_error">[];
  for (const { id, kind, attempts, last_error } of jobs) problems.push(`job ${id} (${kind}) is left after ${attempts} attempts: ${last_error}`);
  const astray = db
    .prepare(
      `SELECT m.environment_id || ' ' || m.fingerprint FROM stale_artifacts m WHERE NOT EXISTS (
         SELECT 1 FROM snapshot_artifacts a WHERE a.environment_id = m.environment_id AND a.fingerprint = m.fingerprint AND a.last_index = 9007199254740991)`,
    )
    .pluck()
    .all() as string[];
  for (const mark of astray) problems.push(`${mark} is marked as out of date, and does not run`);
  const ids = db.prepare("SELECT id FROM environments WHERE type <> 'logical' AND archived_at IS NULL AND snapshot_count > 0 ORDER BY id").pluck().all() as number[];
  const marksOf = db.prepare("SELECT fingerprint FROM stale_artifacts WHERE environment_id = ?").pluck();
  for (const id of ids) {
    const environment = store.environments.get(id);
    const marks = new Set(marksOf.all(id) as string[]);
    const isChecked = environment.checked_revision === environment.revision;
    const say: Say = (problem) => problems.push(`environment ${environment.name} (${id}): ${problem}`);
    if (!isChecked && marks.size === 0) say(`nobody looked after revision ${environment.checked_revision}, it has ${environment.revision}`);
    const survey = store.recording.survey(environment, "policy_version", null);
    const after = survey.after.map((present) => ({ ...present, evaluate: present.evaluate && (isChecked || !marks.has(present.fingerprint)) }));
    const { snapshot, running } = store.recording.plan({ ...survey, after });
    const flips = running.filter(({ annotation }) => annotation.startsWith("became-")).map(({ artifact, annotation }) => `${artifact.name} ${annotation}`);
    if (snapshot) say(`looking again makes a snapshot (${flips.slice(0, 3).join(", ")})`);
  }
  return problems;
}
