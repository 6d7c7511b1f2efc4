// The data directory itself, read beside the running server: what `assay verify` checks of it, and what only holds where nothing but the
// load of this test ever wrote.
import { readdirSync } from "node:fs";
import { join } from "node:path";
import type { Sink } from "../../src/inspection/check.ts";
import { checkEnvironments } from "../../src/inspection/environments.ts";
import type { LookedAt } from "../../src/inspection/environments.ts";
import { checkEvidence } from "../../src/inspection/evidence.ts";
import { checkJudgements, nothingJudged } from "../../src/inspection/judgements.ts";
import type { Judged } from "../../src/inspection/judgements.ts";
import { checkAudit, checkRecords } from "../../src/inspection/records.ts";
import { checkForeignKeys, checkIntegrity, checkSchema } from "../../src/inspection/soundness.ts";
import { checkTrails } from "../../src/inspection/trails.ts";
import type { Db } from "../../src/store/database.ts";
import type { Vault } from "../../src/vault/vault.ts";

/** What earlier rounds have looked at: rows and files never change, so each is read once. */
export type Looked = { snapshots: LookedAt; judged: Judged; files: Set<string> };

export const nothingLookedAt = (): Looked => ({ snapshots: new Map(), judged: nothingJudged(), files: new Set() });

/** Everything that is wrong, in words. */
export async function inspect(db: Db, vault: Pick<Vault, "list" | "read" | "describe">, looked: Looked): Promise<string[]> {
  const problems: string[] = [];
  const sink = collecting(problems);
  checkIntegrity(db, sink);
  checkForeignKeys(db, sink);
  checkSchema(db, sink);
  await checkRecords(db, sink);
  checkAudit(db, sink);
  await checkTrails(db, sink);
  await checkEvidence({ db, vault: { ...vault, read: (digest) => once(vault, looked.files, digest) }, quick: false, now: 0 }, sink);
  problems.push(...counted(db), ...(await inspectEnvironments(db, looked)));
  return problems;
}

/** What ran, and the verdicts on it, as far as it is newer than what `looked` says. */
export async function inspectEnvironments(db: Db, looked: Looked, window?: number): Promise<string[]> {
  const problems: string[] = [];
  const sink = collecting(problems);
  await checkEnvironments(db, sink, looked.snapshots, undefined, window);
  await checkJudgements(db, sink, looked.judged);
  return problems;
}

const collecting = (problems: string[]): Sink => ({
  found: (about, problem) => void problems.push(`${about}: ${problem}`),
  note: () => undefined,
  looked: () => undefined,
});

async function* once(vault: Pick<Vault, "read">, seen: Set<string>, digest: string): AsyncGenerator<Buffer> {
  if (seen.has(digest)) return;
  yield* vault.read(digest);
  seen.add(digest);
}

/** The staging directory must be empty after a start: what lies there belongs to nobody. */
export const leftInStaging = (directory: string): string[] => readdirSync(join(directory, "staging")).map((name) => `left in staging: ${name}`);

/** What one write leaves in several tables is there altogether or not at all, as long as nothing is ever deleted. */
function counted(db: Db): string[] {
  const questions: readonly (readonly [problem: string, sql: string])[] = [
    [
      "audit entries of attestations that are not there",
      "SELECT count(*) FROM (SELECT detail_json ->> 'attestation_id' FROM audit_log WHERE event = 'attestation.reported' EXCEPT SELECT public_id FROM attestations)",
    ],
    [
      "snapshots of reports more, or fewer, than audit entries of them",
      "SELECT abs((SELECT count(*) FROM snapshots WHERE cause = 'report') - (SELECT count(*) FROM audit_log WHERE event = 'environment.reported'))",
    ],
    [
      "allowlist entries more, or fewer, than audit entries of them",
      "SELECT abs((SELECT count(*) FROM allowlist_entries) - (SELECT count(*) FROM audit_log WHERE event = 'artifact.allowed'))",
    ],
  ];
  return questions.flatMap(([problem, sql]) => {
    const count = db.prepare(sql).pluck().get() as number;
    return count === 0 ? [] : [`${count} ${problem}`];
  });
}
