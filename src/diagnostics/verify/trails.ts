/**
 * Verdicts of trails and artifacts, judged again from what is stored, and the history of each trail against its
 * records. A trail can be judged alone, so a transaction holds a hundred of them: one over all would keep a busy server
 * from emptying its log for as long as the whole takes.
 */
import { evaluateLegacyArtifact, buildLegacyAttestationStatuses } from "../../domain/compliance/artifact.ts";
import type { AttestationStatus } from "../../domain/compliance/attestation.ts";
import { fromSqlBoolean } from "../../store/db/database.ts";
import { yieldToEventLoop, openReadOnlyStore, errorMessage } from "./check.ts";
import type { Findings } from "./check.ts";
import type { Db } from "../../store/db/types.ts";

const BATCH_SIZE = 100;

type TrailRow = { id: number; name: string; state: string; compliance_json: string; reasons_json: string };
type LegacyRow = {
  id: number;
  public_id: string;
  state: string;
  reasons_json: string;
  attestations_json: string;
  template_json: string;
  legacy_is_compliant: 0 | 1 | null;
};
type Told = { trail_id: number; id: string };

/** @param step is told how many trails are done. */
export async function checkTrails(
  db: Db,
  { damage: found, count: looked }: Findings,
  step: (done: number) => void = () => undefined,
): Promise<void> {
  const store = openReadOnlyStore(db);
  const trailsAfter = db.prepare<[number, number], TrailRow>(
    "SELECT id, name, state, compliance_json, reasons_json FROM trails WHERE id > ? ORDER BY id LIMIT ?",
  );
  const recordsOf = db.prepare<[number, number], Told>(
    "SELECT trail_id, public_id AS id FROM attestations WHERE trail_id BETWEEN ? AND ?",
  );
  // What is no JSON is told as an event that names nothing.
  const eventsOf = db.prepare<[number, number], { trail_id: number; type: string; id: string | null }>(
    "SELECT trail_id, type, CASE WHEN json_valid(event_json) THEN event_json ->> 'attestation_id' END AS id FROM trail_events WHERE trail_id BETWEEN ? AND ?",
  );

  const judge = (trail: TrailRow): void => {
    const about = `trail ${trail.name} (${trail.id})`;
    try {
      const stored = JSON.parse(trail.compliance_json) as { evaluated_at: number; status: string };
      const { rows, result } = store.trailEvaluation.computeVerdicts(trail.id, stored.evaluated_at);
      const again = result.compliance_status.status;
      if (trail.state !== again) found(about, `is stored as ${trail.state}, and is ${again} when judged again`);
      else if (stored.status !== trail.state || trail.compliance_json !== JSON.stringify(result.compliance_status))
        found(about, "its stored compliance status is not the one that is found again");
      else if (trail.reasons_json !== JSON.stringify(result.reasons))
        found(about, "its stored reasons are not those that are found again");
      looked("artifacts", rows.length);
      for (const [index, verdict] of result.artifacts.entries()) {
        const row = rows[index];
        const artifact = `artifact ${row?.public_id} in ${about}`;
        if (row?.state !== verdict.state)
          found(artifact, `is stored as ${row?.state}, and is ${verdict.state} when judged again`);
        else if (row.attestations_json !== JSON.stringify(verdict.attestationsStatuses))
          found(artifact, "its stored statuses are not those that are found again");
        else if (row.reasons_json !== JSON.stringify(verdict.reasons))
          found(artifact, "its stored reasons are not those that are found again");
      }
    } catch (error) {
      found(about, `cannot be judged again: ${errorMessage(error)}`);
    }
  };
  const compareHistories = (trails: readonly TrailRow[], first: number, last: number): void => {
    const events = eventsOf.all(first, last);
    const told = new Map<string, number>();
    const began = new Map<number, number>();
    for (const { trail_id, type, id } of events) {
      if (type === "trail_reported") began.set(trail_id, (began.get(trail_id) ?? 0) + 1);
      if (id !== null) told.set(id, (told.get(id) ?? 0) + 1);
    }
    const records = recordsOf.all(first, last);
    looked("attestations", records.length);
    for (const { trail_id, id } of records)
      if (told.get(id) !== 1)
        found(
          `attestation ${id}`,
          `stands ${told.get(id) ?? 0} times in the history of trail ${trail_id}, and once is right`,
        );
    for (const { id, name } of trails)
      if (began.get(id) !== 1) found(`trail ${name} (${id})`, `began ${began.get(id) ?? 0} times in its history`);
  };

  let done = 0;
  const turn = db.transaction((after: number): number | null => {
    const trails = trailsAfter.all(after, BATCH_SIZE);
    const [first, last] = [trails[0], trails.at(-1)];
    if (!first || !last) return null;
    trails.forEach(judge);
    compareHistories(trails, first.id, last.id);
    done += trails.length;
    return last.id;
  });
  for (let at: number | null = turn(0); at !== null; at = turn(at)) {
    step(done);
    await yieldToEventLoop();
  }
  looked("trails", done);
  await checkLegacyArtifacts(db, found, looked);
}

/** Artifacts that were reported to a flow alone. */
async function checkLegacyArtifacts(db: Db, found: Findings["damage"], looked: Findings["count"]): Promise<void> {
  const rows = db.prepare<[number], LegacyRow>(
    `SELECT id, public_id, state, reasons_json, attestations_json, template_json, legacy_is_compliant
     FROM artifacts WHERE trail_id IS NULL AND id > ? ORDER BY id LIMIT 1000`,
  );
  for (let chunk = rows.all(0); chunk.length > 0; chunk = rows.all(chunk.at(-1)?.id ?? 0)) {
    for (const row of chunk) {
      const about = `artifact ${row.public_id}`;
      try {
        const template = JSON.parse(row.template_json) as string[];
        const isCompliant = fromSqlBoolean(row.legacy_is_compliant);
        const { state, reasons } = evaluateLegacyArtifact({ template, isCompliant });
        if (row.state !== state) found(about, `is stored as ${row.state}, and is ${state} when judged again`);
        else if (row.reasons_json !== JSON.stringify(reasons))
          found(about, "its stored reasons are not those that are found again");
        else if (!listsAsMissing(row, template))
          found(about, "its stored entries are not the attestations that its template expects");
      } catch (error) {
        found(about, `cannot be judged again: ${errorMessage(error)}`);
      }
    }
    looked("artifacts", chunk.length);
    await yieldToEventLoop();
  }
}

/**
 * Whether the stored entries are those of a record without a trail. Its template has only names, so types may be any.
 */
function listsAsMissing({ attestations_json }: LegacyRow, template: readonly string[]): boolean {
  const entries = JSON.parse(attestations_json) as AttestationStatus[];
  const types = new Map(entries.map((entry) => [entry.attestation_name, entry.attestation_type]));
  const expected = template.map((name) => ({ name, type: types.get(name) ?? "" }));
  return attestations_json === JSON.stringify(buildLegacyAttestationStatuses(expected));
}
