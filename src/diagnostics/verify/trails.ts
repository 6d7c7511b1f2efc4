/**
 * Re-evaluates trails and artifacts from the stored records, and compares the history of each trail with them. A trail
 * can be evaluated alone, so one transaction covers a hundred trails: a single one over all of them would keep a busy
 * server from resetting its write-ahead log for as long as the check takes.
 */
import { evaluateLegacyArtifact, buildLegacyAttestationStatuses } from "../../domain/compliance/artifact.ts";
import type { AttestationStatus } from "../../domain/compliance/attestation.ts";
import { hasMembers, isListOf, isText, readStoredJson } from "../../domain/stored-json.ts";
import { messageOf } from "../../domain/text/system-errors.ts";
import { fromSqlBoolean } from "../../store/db/database.ts";
import type { DbReader } from "../../store/db/types.ts";
import type { StoreReader } from "../../store/reader.ts";
import { findDifferences } from "../../store/flows/trail-evaluation.ts";
import { yieldToEventLoop } from "./check.ts";
import { openReader } from "../../store/reader.ts";
import type { Findings } from "./check.ts";

/** Trails in one transaction. */
const BATCH_SIZE = 100;
/** Artifacts without a trail that are read at a time. */
const LEGACY_BATCH_SIZE = 1_000;

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

/** @param onTrails is called with the number of trails checked so far */
export async function checkTrails(
  db: DbReader,
  findings: Findings,
  onTrails: (done: number) => void = () => undefined,
): Promise<void> {
  const store = openReader(db);
  const compareHistories = prepareHistories(db, findings);
  const trailsAfter = db.prepare<[number, number], TrailRow>(
    "SELECT id, name, state, compliance_json, reasons_json FROM trails WHERE id > ? ORDER BY id LIMIT ?",
  );
  let done = 0;
  /** Checks the next batch; returns the key of its last trail, null at the end. */
  const checkBatch = db.transaction((after: number): number | null => {
    const trails = trailsAfter.all(after, BATCH_SIZE);
    const last = trails.at(-1);
    if (!last) return null;
    for (const trail of trails) reevaluate(store, trail, findings);
    compareHistories(trails);
    done += trails.length;
    return last.id;
  });
  for (let after = checkBatch(0); after !== null; after = checkBatch(after)) {
    onTrails(done);
    await yieldToEventLoop();
  }
  findings.count("trails", done);
  await checkLegacyArtifacts(db, findings);
}

const isCompliance = hasMembers<{ evaluated_at: number; status: string }>("evaluated_at", "status");

/** Compares the stored verdicts of a trail and its artifacts with a re-evaluation. */
function reevaluate(store: StoreReader, trail: TrailRow, { damage, count }: Findings): void {
  const about = `trail ${trail.name} (${trail.id})`;
  try {
    const stored = readStoredJson(trail.compliance_json, isCompliance);
    const computed = store.trailEvaluation.computeVerdicts(trail.id, stored.evaluated_at);
    count("artifacts", computed.rows.length);
    for (const { artifact, difference } of findDifferences(trail, computed))
      damage(artifact === null ? about : `artifact ${artifact} in ${about}`, difference);
  } catch (error) {
    damage(about, `cannot be re-evaluated: ${messageOf(error)}`);
  }
}

/** Compares the events of trails, which are in the order of their keys, with their attestations. */
function prepareHistories(db: DbReader, { damage, count }: Findings): (trails: readonly TrailRow[]) => void {
  const attestations = db.prepare<[number, number], { trail_id: number; id: string }>(
    "SELECT trail_id, public_id AS id FROM attestations WHERE trail_id BETWEEN ? AND ?",
  );
  // An event whose JSON is damaged counts as one that names no attestation.
  const events = db.prepare<[number, number], { trail_id: number; type: string; id: string | null }>(
    `SELECT te.trail_id, te.type, CASE WHEN NOT json_valid(te.event_json) THEN NULL
       WHEN te.attestation_id IS NULL THEN te.event_json ->> 'attestation_id' ELSE att.public_id END AS id
     FROM trail_events te LEFT JOIN attestations att ON att.id = te.attestation_id AND att.trail_id = te.trail_id
     WHERE te.trail_id BETWEEN ? AND ?`,
  );
  return (trails) => {
    const [first = 0, last = 0] = [trails[0]?.id, trails.at(-1)?.id];
    const mentions = new Map<string, number>();
    const beginnings = new Map<number, number>();
    for (const { trail_id, type, id } of events.all(first, last)) {
      if (type === "trail_reported") beginnings.set(trail_id, (beginnings.get(trail_id) ?? 0) + 1);
      if (id !== null) mentions.set(id, (mentions.get(id) ?? 0) + 1);
    }
    const records = attestations.all(first, last);
    count("attestations", records.length);
    for (const { trail_id, id } of records) {
      const times = mentions.get(id) ?? 0;
      if (times !== 1)
        damage(`attestation ${id}`, `occurs ${times} times in the history of trail ${trail_id} instead of once`);
    }
    for (const { id, name } of trails) {
      const times = beginnings.get(id) ?? 0;
      if (times !== 1) damage(`trail ${name} (${id})`, `begins ${times} times in its history instead of once`);
    }
  };
}

/** Artifacts that were reported to a flow without a trail. */
async function checkLegacyArtifacts(db: DbReader, findings: Findings): Promise<void> {
  const rows = db.prepare<[number], LegacyRow>(
    `SELECT id, public_id, state, reasons_json, attestations_json, template_json, legacy_is_compliant
     FROM artifacts WHERE trail_id IS NULL AND id > ? ORDER BY id LIMIT ${LEGACY_BATCH_SIZE}`,
  );
  for (let batch = rows.all(0); batch.length > 0; batch = rows.all(batch.at(-1)?.id ?? 0)) {
    for (const row of batch) reevaluateLegacy(row, findings);
    findings.count("artifacts", batch.length);
    await yieldToEventLoop();
  }
}

function reevaluateLegacy(row: LegacyRow, { damage }: Findings): void {
  const about = `artifact ${row.public_id}`;
  try {
    const template = readStoredJson(row.template_json, isListOf(isText));
    const isCompliant = fromSqlBoolean(row.legacy_is_compliant);
    const { state, reasons } = evaluateLegacyArtifact({ template, isCompliant });
    if (row.state !== state) damage(about, `is stored as ${row.state}, but re-evaluates to ${state}`);
    else if (row.reasons_json !== JSON.stringify(reasons))
      damage(about, "its stored reasons differ from a re-evaluation");
    else if (!listsExpected(row, template))
      damage(about, "its stored entries do not match the attestations that its template expects");
  } catch (error) {
    damage(about, `cannot be re-evaluated: ${messageOf(error)}`);
  }
}

const isStatus = hasMembers<AttestationStatus>("attestation_name", "attestation_type");

/**
 * Whether the stored entries are those of a record without a trail. Its template contains only names, so any types are
 * accepted.
 */
function listsExpected({ attestations_json }: LegacyRow, template: readonly string[]): boolean {
  const entries = readStoredJson(attestations_json, isListOf(isStatus));
  const types = new Map(entries.map((entry) => [entry.attestation_name, entry.attestation_type]));
  const expected = template.map((name) => ({ name, type: types.get(name) ?? "" }));
  return attestations_json === JSON.stringify(buildLegacyAttestationStatuses(expected));
}
