// Checks of the data directory beside the running server: those of `assay verify`, and some that only hold where
// nothing but the load of this test ever wrote.
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
import type { DbReader } from "../../src/store/db/types.ts";

/** What earlier rounds have checked: rows and files never change, so each is read once. */
export type InspectionProgress = { snapshots: SnapshotProgress; evaluations: EvaluationProgress; files: Set<string> };

export const nothingInspected = (): InspectionProgress => ({
  snapshots: new Map(),
  evaluations: noEvaluationsChecked(),
  files: new Set(),
});

/** All problems of a data directory. */
export async function inspect(
  db: DbReader,
  store: Pick<EvidenceStore, "list" | "read" | "describe">,
  progress: InspectionProgress,
): Promise<string[]> {
  const problems: string[] = [];
  const findings = collectInto(problems);
  checkIntegrity(db, findings);
  checkForeignKeys(db, findings);
  checkSchema(db, findings);
  await checkDerivedTables(db, findings);
  checkAudit(db, findings);
  await checkTrails(db, findings);
  await checkEvidence(
    { db, store: { ...store, read: (digest) => readOnce(store, progress.files, digest) }, quick: false, now: 0 },
    findings,
  );
  problems.push(...findIncompleteWrites(db), ...(await inspectEnvironments(db, progress)));
  return problems;
}

/** Problems of snapshots and evaluations that are newer than `progress`. */
export async function inspectEnvironments(
  db: DbReader,
  progress: InspectionProgress,
  windowSize?: number,
): Promise<string[]> {
  const problems: string[] = [];
  const findings = collectInto(problems);
  await checkEnvironments(db, findings, { progress: progress.snapshots, windowSize });
  await checkEvaluations(db, findings, { progress: progress.evaluations });
  return [...problems, ...findUnseenMembers(db)];
}

/** A group whose members never leave has a snapshot for each snapshot of a member since it joined. */
function findUnseenMembers(db: DbReader): string[] {
  const gaps = db.prepare<[], { group: number; idx: number; member: number; index: number; before: number }>(
    `SELECT environment_id AS "group", idx, member_id AS member, member_index AS "index", before FROM (
       SELECT environment_id, idx, member_id, member_index,
              lag(member_index) OVER (PARTITION BY environment_id, member_id ORDER BY idx) AS before
       FROM snapshots WHERE member_id IS NOT NULL)
     WHERE member_index <> before + 1`,
  );
  const behind = db.prepare<[], { group: number; member: number; count: number; seen: number }>(
    `SELECT m.logical_id AS "group", env.id AS member, env.snapshot_count AS count, max(s.member_index) AS seen
     FROM environment_members m JOIN environments env ON env.id = m.member_id
     JOIN snapshots s ON s.member_id = env.id AND s.environment_id = m.logical_id
     GROUP BY m.logical_id, env.id HAVING max(s.member_index) <> env.snapshot_count`,
  );
  return [
    ...gaps
      .all()
      .map(
        ({ group, idx, member, index, before }) =>
          `environment ${group}: snapshot ${idx} is of snapshot ${index} of member ${member}, expected ${before + 1}`,
      ),
    ...behind
      .all()
      .map(
        ({ group, member, count, seen }) =>
          `environment ${group} has seen ${seen} snapshots of member ${member}, which has ${count}`,
      ),
  ];
}

const collectInto = (problems: string[]): Findings => ({
  damage: (about, problem) => void problems.push(`${about}: ${problem}`),
  note: () => undefined,
  count: () => undefined,
});

/** Reads a file that is not in `read` yet, and adds it. */
async function* readOnce(
  store: Pick<EvidenceStore, "read">,
  read: Set<string>,
  digest: string,
): AsyncGenerator<Buffer> {
  if (read.has(digest)) return;
  yield* store.read(digest);
  read.add(digest);
}

/** The staging directory must be empty after a start, because nothing in it survives one. */
export const listLeftInStaging = (directory: string): string[] =>
  readdirSync(join(directory, "staging")).map((name) => `left in staging: ${name}`);

/** One write changes several tables together or not at all; their rows match because nothing is ever deleted here. */
function findIncompleteWrites(db: DbReader): string[] {
  const checks: readonly (readonly [problem: string, sql: string])[] = [
    [
      "audit entries of attestations that do not exist",
      `SELECT count(*) FROM (
         SELECT detail_json ->> 'attestation_id' FROM audit_log WHERE event = 'attestation.reported'
         EXCEPT SELECT public_id FROM attestations)`,
    ],
    [
      "snapshots of reports more, or fewer, than audit entries of them",
      `SELECT abs((SELECT count(*) FROM snapshots WHERE cause = 'report')
                - (SELECT count(*) FROM audit_log WHERE event = 'environment.reported'))`,
    ],
    [
      "allowlist entries more, or fewer, than audit entries of them",
      `SELECT abs((SELECT count(*) FROM allowlist_entries)
                - (SELECT count(*) FROM audit_log WHERE event = 'artifact.allowed'))`,
    ],
  ];
  return checks.flatMap(([problem, sql]) => {
    const count = db.prepare(sql).pluck().get() as number;
    return count === 0 ? [] : [`${count} ${problem}`];
  });
}
