/**
 * Verdicts on what runs: whether each is what its facts lead to, and the deployments that belong to them. Rows never
 * change, so a few thousand of them are looked at in one transaction. What is remembered of those before is a bit and a
 * number for each.
 */
import type { Facts, Evaluation } from "../../domain/compliance/environment.ts";
import { replay } from "../../domain/compliance/replay.ts";
import { fromSqlBoolean } from "../../store/db/database.ts";
import type { Store } from "../../store/index.ts";
import { yieldToEventLoop, openReadOnlyStore, errorMessage } from "./check.ts";
import type { Findings } from "./check.ts";
import type { Db } from "../../store/db/types.ts";

/** How far earlier looks got: keys of rows. */
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
  judged_in: number;
  judged: 0 | 1 | null;
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
  artifact_name: string;
  compliant: 0 | 1 | null;
  ordinal: number;
  flow_id: number;
  artifact_id: number;
};
type Owner = Pick<Row, "environment_id" | "fingerprint" | "name">;
type Say = (problem: string) => void;

/** Rows carry their facts, so they are not all read at once. */
const BATCH_SIZE = 500;

/**
 * Every evaluation that is newer than what `looked` says gives the same again; every artifact that started has its
 * deployments.
 * @param step is told how many rows were looked at.
 */
export async function checkEvaluations(
  db: Db,
  sink: Findings,
  looked: EvaluationProgress = noEvaluationsChecked(),
  step: (done: number) => void = () => undefined,
): Promise<void> {
  const store = openReadOnlyStore(db);
  const after = { ...looked };
  const rowsAfter = db.prepare<[number], Row>(
    `SELECT a.id, a.environment_id, a.first_index, a.fingerprint, a.name, a.annotation, a.compliant, s.timestamp, e.id AS evaluation_id,
            e.environment_id AS judged_in, e.compliant AS judged, e.allowlist_id, l.environment_id AS allowed_in, l.fingerprint AS allowed, e.facts_json,
            e.verdicts_json, e.reasons_json
     FROM snapshot_artifacts a JOIN evaluations e ON e.id = a.evaluation_id LEFT JOIN allowlist_entries l ON l.id = e.allowlist_id
     LEFT JOIN snapshots s ON s.environment_id = a.environment_id AND s.idx = a.first_index
     WHERE a.id > ? ORDER BY a.id LIMIT ${BATCH_SIZE}`,
  );
  const ownerOf = db.prepare<[number], Owner>(
    "SELECT environment_id, fingerprint, name FROM snapshot_artifacts WHERE id = ?",
  );
  const deploymentsOf = db.prepare<[number, string, number, number, string], Deployment>(
    `SELECT id, deployed_at, artifact_name, compliant, ordinal, flow_id, artifact_id FROM deployments
     WHERE environment_id = ? AND fingerprint = ? AND id > ? AND snapshot_index = ? AND artifact_name = ? ORDER BY id`,
  );
  /** Evaluations to the first row that has them. */
  const judged = numbersAfter(after.evaluation);
  const deployed = numbersAfter(after.deployment);

  const judgement = (row: Row, say: Say): void => {
    if (row.judged_in !== row.environment_id) say(`has an evaluation of environment ${row.judged_in}`);
    const first = judged.get(row.evaluation_id);
    if (first !== 0) {
      const owner = ownerOf.get(first);
      if (
        owner &&
        (owner.environment_id !== row.environment_id ||
          owner.fingerprint !== row.fingerprint ||
          owner.name !== row.name)
      )
        say("has the evaluation of another artifact");
      return;
    }
    if (row.evaluation_id <= after.evaluation) return;
    judged.set(row.evaluation_id, row.id);
    sink.count("evaluations", 1);
    for (const difference of differencesOf(store, row)) say(`evaluation ${row.evaluation_id}: ${difference}`);
  };
  const start = (row: Row, say: Say): void => {
    const own = deploymentsOf.all(row.environment_id, row.fingerprint, after.deployment, row.first_index, row.name);
    for (const { id } of own) deployed.set(id, 1);
    sink.count("deployments", own.length);
    const { flows } = JSON.parse(row.facts_json) as Facts;
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
    const told = JSON.stringify(
      own.map((one) => [one.id, one.ordinal, one.flow_id, one.artifact_id, one.compliant, one.deployed_at]),
    );
    if (told !== expected)
      say(`started with deployments ${expected} (id, ordinal, flow, artifact, compliant, time), there are ${told}`);
  };
  let done = 0;
  const turn = db.transaction((): boolean => {
    const rows = rowsAfter.all(looked.row);
    for (const row of rows) {
      const say: Say = (problem) =>
        sink.damage(
          `snapshot_artifacts row ${row.id} (environment ${row.environment_id}, ${row.name}, from snapshot ${row.first_index})`,
          problem,
        );
      judgement(row, say);
      try {
        if (row.annotation.startsWith("started-")) start(row, say);
      } catch (error) {
        say(`its facts cannot be read: ${errorMessage(error)}`);
      }
      looked.row = row.id;
    }
    done += rows.length;
    // What belongs to nothing is asked for in the transaction of the last rows: later writes bring theirs with them.
    if (rows.length === 0) checkLeftOver(db, sink, after, looked, { judged, deployed });
    return rows.length > 0;
  });
  while (turn()) {
    step(done);
    await yieldToEventLoop();
  }
  sink.count("intervals", done);
}

type Marks = ReturnType<typeof numbersAfter>;

/** Evaluations and deployments that no row has, and deployments that replace what they cannot. Moves `looked`. */
function checkLeftOver(
  db: Db,
  { damage: found }: Findings,
  after: EvaluationProgress,
  looked: EvaluationProgress,
  { judged, deployed }: { judged: Marks; deployed: Marks },
): void {
  for (const id of db
    .prepare<[number], number>("SELECT id FROM evaluations WHERE id > ? ORDER BY id")
    .pluck()
    .iterate(after.evaluation)) {
    if (judged.get(id) === 0) found(`evaluation ${id}`, "belongs to nothing");
    looked.evaluation = id;
  }
  for (const id of db
    .prepare<[number], number>("SELECT id FROM deployments WHERE id > ? ORDER BY id")
    .pluck()
    .iterate(after.deployment)) {
    if (deployed.get(id) === 0) found(`deployment ${id}`, "belongs to nothing that started");
    looked.deployment = id;
  }
  const replacing = db
    .prepare<[number], number>(
      `SELECT d.id FROM deployments d LEFT JOIN deployments r ON r.id = d.replaced_id
       WHERE d.id > ? AND d.replaced_id IS NOT NULL AND NOT coalesce(r.environment_id = d.environment_id AND r.flow_id = d.flow_id
             AND r.reference_name = d.reference_name AND r.fingerprint <> d.fingerprint AND r.snapshot_index < d.snapshot_index, 0)`,
    )
    .pluck();
  for (const id of replacing.iterate(after.deployment)) found(`deployment ${id}`, "replaces what it cannot");
}

/** How judging the kept facts under the kept versions differs from what is kept. */
function differencesOf(store: Store, row: Row): string[] {
  const isForIt = row.allowed_in === row.environment_id && row.allowed === row.fingerprint;
  if (row.allowlist_id !== null && !isForIt) return [`is allowed by entry ${row.allowlist_id}, which is not for it`];
  try {
    const kept: Evaluation = {
      compliant: fromSqlBoolean(row.judged),
      verdicts: JSON.parse(row.verdicts_json) as Evaluation["verdicts"],
      reasons: JSON.parse(row.reasons_json) as Evaluation["reasons"],
    };
    return replay(
      {
        artifact: row,
        facts: JSON.parse(row.facts_json) as Facts,
        allowlisted: row.allowlist_id !== null,
        stored: kept,
      },
      store.policies.getDocument,
    ).differences;
  } catch (error) {
    return [`cannot be judged again: ${errorMessage(error)}`];
  }
}

/** A number for each key above `after`, 0 unless set: eight bytes each, and no object. */
function numbersAfter(after: number) {
  let numbers = new Float64Array(1024);
  return {
    get: (key: number): number => (key > after ? (numbers[key - after] ?? 0) : 0),
    set(key: number, value: number): void {
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
