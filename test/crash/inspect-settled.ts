// Finds work that was left undone, in a database that is not written to meanwhile. A read-only connection is enough.
import { openReader } from "../../src/store/reader.ts";
import type { ReportDamage } from "../../src/diagnostics/verify/check.ts";
import type { JobRow } from "../../src/store/db/jobs.ts";
import type { DbReader } from "../../src/store/db/types.ts";

/**
 * Once all jobs are done, none is left, and re-evaluating what runs changes nothing, except for artifacts whose facts
 * changed since the latest report, which are marked as stale and wait for the next one.
 */
export function inspectSettled(db: DbReader): string[] {
  const problems: string[] = [];
  const store = openReader(db);
  const jobs = db.prepare("SELECT id, kind, attempts, last_error FROM jobs ORDER BY id").all() as Pick<
    JobRow,
    "id" | "kind" | "attempts" | "last_error"
  >[];
  for (const { id, kind, attempts, last_error } of jobs)
    problems.push(`job ${id} (${kind}) is left after ${attempts} attempts: ${last_error}`);
  const notRunning = db
    .prepare(
      `SELECT m.environment_id || ' ' || m.fingerprint FROM stale_artifacts m WHERE NOT EXISTS (
         SELECT 1 FROM snapshot_artifacts sa
         WHERE sa.environment_id = m.environment_id AND sa.fingerprint = m.fingerprint
           AND sa.last_index = 9007199254740991)`,
    )
    .pluck()
    .all() as string[];
  for (const mark of notRunning) problems.push(`${mark} is marked as stale, but does not run`);
  const ids = db
    .prepare(
      "SELECT id FROM environments WHERE type <> 'logical' AND archived_at IS NULL AND snapshot_count > 0 ORDER BY id",
    )
    .pluck()
    .all() as number[];
  const marksOf = db.prepare("SELECT fingerprint FROM stale_artifacts WHERE environment_id = ?").pluck();
  for (const id of ids) {
    const environment = store.environments.get(id);
    const marks = new Set(marksOf.all(id) as string[]);
    const isChecked = environment.checked_revision === environment.revision;
    const report: ReportDamage = (problem) => void problems.push(`environment ${environment.name} (${id}): ${problem}`);
    if (!isChecked && marks.size === 0)
      report(`was last checked at revision ${environment.checked_revision}, but has ${environment.revision}`);
    const current = store.snapshotRecorder.readCurrent(environment, "policy_version", null);
    const after = current.after.map((present) => ({
      ...present,
      evaluate: present.evaluate && (isChecked || !marks.has(present.fingerprint)),
    }));
    const { snapshot, running, evaluations } = store.snapshotRecorder.plan({ ...current, after });
    evaluations.close();
    const flips = running
      .filter(({ annotation }) => annotation.startsWith("became-"))
      .map(({ artifact, annotation }) => `${artifact.name} ${annotation}`);
    if (snapshot) report(`a re-evaluation makes a snapshot (${flips.slice(0, 3).join(", ")})`);
  }
  return problems;
}
