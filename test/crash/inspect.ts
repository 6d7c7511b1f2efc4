// The data directory itself, read beside the running server: what `assay verify` checks of it, and what only holds
// where nothing but the load of this test ever wrote.
import { readdirSync } from "node:fs";
import { join } from "node:path";
import type { Findings } from "../../src/diagnostics/verify/check.ts";
import { checkEnvironments } from "../../src/diagnostics/verify/environments.ts";
import type { SnapshotProgress } from "../../src/diagnostics/verify/environments.ts";
import { checkEvidence } from "../../src/diagnostics/verify/evidence.ts";
import { checkEvaluations, noEvaluationsChecked } from "../../src/diagnostics/verify/evaluations.ts";
import type { EvaluationProgress } from "../../src/diagnostics/verify/evaluations.ts";
import { checkAudit, checkDerivedTables } from "../../src/diagnostics/verify/derived-tables.ts";
import { checkForeignKeys, checkIntegrity, checkSchema } from "../../src/diagnostics/verify/integrity.ts";
import { checkTrails } from "../../src/diagnostics/verify/trails.ts";
import type { EvidenceStore } from "../../src/evidence/local-store.ts";
import type { Db } from "../../src/store/db/types.ts";

/** What earlier rounds have looked at: rows and files never change, so each is read once. */
export type Looked = { snapshots: SnapshotProgress; judged: EvaluationProgress; files: Set<string> };

export const nothingLookedAt = (): Looked => ({
  snapshots: new Map(),
  judged: noEvaluationsChecked(),
  files: new Set(),
});

/** Everything that is wrong, in words. */
export async function inspect(
  db: Db,
  vault: Pick<EvidenceStore, "list" | "read" | "describe">,
  looked: Looked,
): Promise<string[]> {
  const problems: string[] = [];
  const sink = collecting(problems);
  checkIntegrity(db, sink);
  checkForeignKeys(db, sink);
  checkSchema(db, sink);
  await checkDerivedTables(db, sink);
  checkAudit(db, sink);
  await checkTrails(db, sink);
  await checkEvidence(
    { db, vault: { ...vault, read: (digest) => once(vault, looked.files, digest) }, quick: false, now: 0 },
    sink,
  );
  problems.push(...counted(db), ...(await inspectEnvironments(db, looked)));
  return problems;
}

/** What ran, and the verdicts on it, as far as it is newer than what `looked` says. */
export async function inspectEnvironments(db: Db, looked: Looked, window?: number): Promise<string[]> {
  const problems: string[] = [];
  const sink = collecting(problems);
  await checkEnvironments(db, sink, looked.snapshots, undefined, window);
  await checkEvaluations(db, sink, looked.judged);
  return [...problems, ...leftOut(db)];
}

/**
 * Where no member ever left a group, there is a snapshot of the group for each snapshot of a member since it is one.
 */
function leftOut(db: Db): string[] {
  const gaps = db.prepare<[], { group: number; idx: number; member: number; index: number; before: number }>(
    `SELECT environment_id AS "group", idx, member_id AS member, member_index AS "index", before FROM (
       SELECT environment_id, idx, member_id, member_index, lag(member_index)
         OVER (PARTITION BY environment_id, member_id ORDER BY idx) AS before FROM snapshots
           WHERE member_id IS NOT NULL)
     WHERE member_index <> before + 1`,
  );
  const untold = db.prepare<[], { group: number; member: number; count: number; told: number }>(
    `SELECT m.logical_id AS "group", e.id AS member, e.snapshot_count AS count, max(s.member_index)
       AS told FROM environment_members m JOIN environments e ON e.id = m.member_id
     JOIN snapshots s ON s.member_id = e.id AND s.environment_id = m.logical_id
       GROUP BY m.logical_id, e.id HAVING max(s.member_index) <> e.snapshot_count`,
  );
  return [
    ...gaps
      .all()
      .map(
        ({ group, idx, member, index, before }) =>
          `environment ${group}: snapshot ${idx} is of snapshot ${index} of member ${member}, which ` +
          `had ${before + 1} to come`,
      ),
    ...untold
      .all()
      .map(
        ({ group, member, count, told }) =>
          `environment ${group} knows of ${told} snapshots of member ${member}, which has ${count}`,
      ),
  ];
}

const collecting = (problems: string[]): Findings => ({
  damage: (about, problem) => void problems.push(`${about}: ${problem}`),
  note: () => undefined,
  count: () => undefined,
});

async function* once(vault: Pick<EvidenceStore, "read">, seen: Set<string>, digest: string): AsyncGenerator<Buffer> {
  if (seen.has(digest)) return;
  yield* vault.read(digest);
  seen.add(digest);
}

/** The staging directory must be empty after a start: what lies there belongs to nobody. */
export const leftInStaging = (directory: string): string[] =>
  readdirSync(join(directory, "staging")).map((name) => `left in staging: ${name}`);

/** What one write leaves in several tables is there altogether or not at all, as long as nothing is ever deleted. */
function counted(db: Db): string[] {
  const questions: readonly (readonly [problem: string, sql: string])[] = [
    [
      "audit entries of attestations that are not there",
      "SELECT count(*) FROM (SELECT detail_json ->> 'attestation_id' FROM audit_log WHERE event = " +
        "'attestation.reported' EXCEPT SELECT public_id FROM attestations)",
    ],
    [
      "snapshots of reports more, or fewer, than audit entries of them",
      "SELECT abs((SELECT count(*) FROM snapshots WHERE cause = 'report') - (SELECT count(*) FROM audit_log " +
        "WHERE event = 'environment.reported'))",
    ],
    [
      "allowlist entries more, or fewer, than audit entries of them",
      "SELECT abs((SELECT count(*) FROM allowlist_entries) - (SELECT count(*) FROM audit_log WHERE event = " +
        "'artifact.allowed'))",
    ],
  ];
  return questions.flatMap(([problem, sql]) => {
    const count = db.prepare(sql).pluck().get() as number;
    return count === 0 ? [] : [`${count} ${problem}`];
  });
}
