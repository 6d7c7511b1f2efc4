/**
 * Re-evaluates what runs: every stored evaluation must follow from its stored facts, and every start must have its
 * deployments. Rows never change, so one transaction covers only a batch of them. A bit and a number are remembered for
 * each row of earlier batches.
 */
import type { Evaluation, Facts, StoredVerdict } from "../../domain/compliance/environment.ts";
import { replay } from "../../domain/compliance/replay.ts";
import { hasMembers, isListOf, isText, readStoredJson } from "../../domain/stored-json.ts";
import { messageOf } from "../../domain/text/system-errors.ts";
import { fromSqlBoolean } from "../../store/db/database.ts";
import type { DbReader } from "../../store/db/types.ts";
import type { StoreReader } from "../../store/reader.ts";
import { yieldToEventLoop } from "./check.ts";
import { openReader } from "../../store/reader.ts";
import type { Findings, ReportDamage } from "./check.ts";

/** The last keys that earlier checks covered. */
export type EvaluationProgress = { row: number; evaluation: number; deployment: number };

export const noEvaluationsChecked = (): EvaluationProgress => ({ row: 0, evaluation: 0, deployment: 0 });

type Row = {
  id: number;
  environment_id: number;
  first_index: number;
  fingerprint: string;
  name: string;
  annotation: string;
  compliant: 0 | 1 | null;
  timestamp: number | null;
  evaluation_id: number;
  evaluated_in: number;
  evaluated: 0 | 1 | null;
  allowlist_id: number | null;
  allowed_in: number | null;
  allowed: string | null;
  facts_json: string;
  verdicts_json: string;
  reasons_json: string;
};
type Deployment = {
  id: number;
  deployed_at: number;
  compliant: 0 | 1 | null;
  ordinal: number;
  flow_id: number;
  artifact_id: number;
};
type Owner = Pick<Row, "environment_id" | "fingerprint" | "name">;

/** Rows include their facts, so few are read at a time. */
const BATCH_SIZE = 500;

/** What a check needs besides the rows. `start` is the progress when it began, `progress` moves with it. */
type Check = {
  readonly db: DbReader;
  readonly store: StoreReader;
  readonly findings: Findings;
  readonly start: EvaluationProgress;
  readonly progress: EvaluationProgress;
  /** Evaluation -> the first row that has it. */
  readonly owners: KeyedNumbers;
  /** Deployment -> 1 when a start has it. */
  readonly claimed: KeyedNumbers;
};

/**
 * Checks every evaluation that is newer than `progress`, and moves `progress`.
 * @param onRows is called with the number of rows checked so far
 */
export async function checkEvaluations(
  db: DbReader,
  findings: Findings,
  {
    progress = noEvaluationsChecked(),
    onRows = () => undefined,
  }: { progress?: EvaluationProgress; onRows?: (done: number) => void } = {},
): Promise<void> {
  const check: Check = {
    db,
    store: openReader(db),
    findings,
    start: { ...progress },
    progress,
    owners: numbersAfter(progress.evaluation),
    claimed: numbersAfter(progress.deployment),
  };
  const rowsAfter = prepareRows(db);
  const checkOwner = prepareOwners(check);
  const checkDeployments = prepareDeployments(check);
  let done = 0;
  /** Checks the next batch; returns whether there was one. */
  const checkBatch = db.transaction((): boolean => {
    const rows = rowsAfter.all(progress.row);
    for (const row of rows) {
      const about =
        `snapshot_artifacts row ${row.id} ` +
        `(environment ${row.environment_id}, ${row.name}, from snapshot ${row.first_index})`;
      const report: ReportDamage = (problem) => findings.damage(about, problem);
      checkOwner(row, report);
      if (row.annotation.startsWith("started-")) checkDeployments(row, report);
      progress.row = row.id;
    }
    done += rows.length;
    // In the transaction of the last rows: later evaluations and deployments are written together with their rows.
    if (rows.length === 0) checkUnclaimed(check);
    return rows.length > 0;
  });
  while (checkBatch()) {
    onRows(done);
    await yieldToEventLoop();
  }
  findings.count("intervals", done);
}

const prepareRows = (db: DbReader) =>
  db.prepare<[number], Row>(
    `SELECT sa.id, sa.environment_id, sa.first_index, sa.fingerprint, sa.name, sa.annotation, sa.compliant, s.timestamp,
            ev.id AS evaluation_id, ev.environment_id AS evaluated_in, ev.compliant AS evaluated, ev.allowlist_id,
            l.environment_id AS allowed_in, l.fingerprint AS allowed, ev.facts_json, ev.verdicts_json, ev.reasons_json
     FROM snapshot_artifacts sa
     JOIN evaluations ev ON ev.id = sa.evaluation_id
     LEFT JOIN allowlist_entries l ON l.id = ev.allowlist_id
     LEFT JOIN snapshots s ON s.environment_id = sa.environment_id AND s.idx = sa.first_index
     WHERE sa.id > ? ORDER BY sa.id LIMIT ${BATCH_SIZE}`,
  );

/** Checks that an evaluation belongs to its row, and re-evaluates it the first time that it occurs. */
function prepareOwners(check: Check): (row: Row, report: ReportDamage) => void {
  const { db, store, findings, owners } = check;
  const findOwner = db.prepare<[number], Owner>(
    "SELECT environment_id, fingerprint, name FROM snapshot_artifacts WHERE id = ?",
  );
  return (row, report) => {
    if (row.evaluated_in !== row.environment_id) report(`has an evaluation of environment ${row.evaluated_in}`);
    const first = owners.get(row.evaluation_id);
    if (first !== 0) {
      const owner = findOwner.get(first);
      const isSame =
        owner?.environment_id === row.environment_id &&
        owner.fingerprint === row.fingerprint &&
        owner.name === row.name;
      if (owner && !isSame) report("has the evaluation of another artifact");
      return;
    }
    if (row.evaluation_id <= check.start.evaluation) return;
    owners.set(row.evaluation_id, row.id);
    findings.count("evaluations", 1);
    for (const difference of listDifferences(store, row)) report(`evaluation ${row.evaluation_id}: ${difference}`);
  };
}

const isFacts = hasMembers<Facts>("flows");

/** Checks that a row that started has the deployments that follow from its facts. */
function prepareDeployments({ db, findings, start, claimed }: Check): (row: Row, report: ReportDamage) => void {
  const deployments = db.prepare<[number, string, number, number, string], Deployment>(
    `SELECT id, deployed_at, compliant, ordinal, flow_id, artifact_id FROM deployments
     WHERE environment_id = ? AND fingerprint = ? AND id > ? AND snapshot_index = ? AND artifact_name = ? ORDER BY id`,
  );
  return (row, report) => {
    const own = deployments.all(row.environment_id, row.fingerprint, start.deployment, row.first_index, row.name);
    for (const { id } of own) claimed.set(id, 1);
    findings.count("deployments", own.length);
    try {
      const { flows } = readStoredJson(row.facts_json, isFacts);
      const expected = JSON.stringify(
        flows.map((flow, ordinal) => [
          flow.deployment_id,
          ordinal,
          flow.flow_id,
          flow.artifact_id,
          row.compliant,
          row.timestamp,
        ]),
      );
      const actual = JSON.stringify(
        own.map((dep) => [dep.id, dep.ordinal, dep.flow_id, dep.artifact_id, dep.compliant, dep.deployed_at]),
      );
      if (actual !== expected)
        report(
          `should have the deployments ${expected} (id, ordinal, flow, artifact, compliant, time), but has ${actual}`,
        );
    } catch (error) {
      report(`its facts cannot be read: ${messageOf(error)}`);
    }
  };
}

/** Reports evaluations and deployments without a row, and impossible replacements. Moves `progress`. */
function checkUnclaimed({ db, findings: { damage }, start, progress, owners, claimed }: Check): void {
  const evaluations = db.prepare<[number], number>("SELECT id FROM evaluations WHERE id > ? ORDER BY id").pluck();
  for (const id of evaluations.iterate(start.evaluation)) {
    if (owners.get(id) === 0) damage(`evaluation ${id}`, "does not belong to any artifact");
    progress.evaluation = id;
  }
  const deployments = db.prepare<[number], number>("SELECT id FROM deployments WHERE id > ? ORDER BY id").pluck();
  for (const id of deployments.iterate(start.deployment)) {
    if (claimed.get(id) === 0) damage(`deployment ${id}`, "does not belong to an artifact that started");
    progress.deployment = id;
  }
  const impossible = db
    .prepare<[number], number>(
      `SELECT dep.id FROM deployments dep LEFT JOIN deployments old ON old.id = dep.replaced_id
       WHERE dep.id > ? AND dep.replaced_id IS NOT NULL
         AND NOT coalesce(old.environment_id = dep.environment_id AND old.flow_id = dep.flow_id
           AND old.reference_name = dep.reference_name AND old.fingerprint <> dep.fingerprint
           AND old.snapshot_index < dep.snapshot_index, 0)`,
    )
    .pluck();
  for (const id of impossible.iterate(start.deployment))
    damage(`deployment ${id}`, "replaces a deployment that it cannot replace");
}

const isVerdicts = isListOf(hasMembers<StoredVerdict>("policy", "version_id", "version", "rules"));
const isReasons = isListOf(isText);

/** How a re-evaluation of the stored facts under the stored policy versions differs from the stored evaluation. */
function listDifferences(store: StoreReader, row: Row): string[] {
  const isOwnEntry = row.allowed_in === row.environment_id && row.allowed === row.fingerprint;
  if (row.allowlist_id !== null && !isOwnEntry)
    return [`is allowed by entry ${row.allowlist_id}, which is for another artifact`];
  try {
    const stored: Evaluation = {
      compliant: fromSqlBoolean(row.evaluated),
      verdicts: readStoredJson(row.verdicts_json, isVerdicts),
      reasons: readStoredJson(row.reasons_json, isReasons),
    };
    const facts = readStoredJson(row.facts_json, isFacts);
    return replay({ artifact: row, facts, allowlisted: row.allowlist_id !== null, stored }, store.policies.getDocument)
      .differences;
  } catch (error) {
    return [`cannot be re-evaluated: ${messageOf(error)}`];
  }
}

/** A number for each key. */
type KeyedNumbers = { get(key: number): number; set(key: number, value: number): void };

/** A number for each key above `after`, 0 by default, in eight bytes each instead of an object. */
function numbersAfter(after: number): KeyedNumbers {
  let numbers = new Float64Array(1024);
  return {
    get: (key) => (key > after ? (numbers[key - after] ?? 0) : 0),
    set(key, value) {
      const place = key - after;
      if (place >= numbers.length) {
        const larger = new Float64Array(Math.max(place + 1, numbers.length * 2));
        larger.set(numbers);
        numbers = larger;
      }
      numbers[place] = value;
    },
  };
}
