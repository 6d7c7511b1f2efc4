/**
 * Runs every check of a data directory in one order: first whether the database is readable, then its rows, then the
 * files that they name. Writes nothing, and works beside a running server.
 *
 * No single transaction spans the checks. SQLite cannot reset its write-ahead log while a reader is open, so on a busy
 * server an hour of checking would fill the disk. One transaction would not prove more either: every checked invariant
 * holds after each commit, so each part reads in its own transaction (a statement, 100 trails, 1,000 snapshots).
 */
import { messageOf } from "../../domain/text/system-errors.ts";
import { EvidenceUnavailableError } from "../../evidence/errors.ts";
import type { EvidenceStore } from "../../evidence/local-store.ts";
import { describeLoss } from "../../store/db/commit-number.ts";
import type { DbReader } from "../../store/db/types.ts";
import { isDamagedFile } from "./check.ts";
import type { Finding, Findings } from "./check.ts";
import { DERIVED_TABLE_COUNT, checkAudit, checkDerivedTables } from "./derived-tables.ts";
import { checkDocuments } from "./documents.ts";
import { checkEnvironments } from "./environments.ts";
import { checkEvaluations } from "./evaluations.ts";
import { checkEvidence, checkStaging } from "./evidence.ts";
import { checkForeignKeys, checkIntegrity, checkSchema } from "./integrity.ts";
import { checkTrails } from "./trails.ts";

type CheckName =
  | "integrity"
  | "foreign keys"
  | "schema"
  | "derived tables"
  | "trails"
  | "snapshots"
  | "evaluations"
  | "audit log"
  | "evidence"
  | "staging";

export type CheckResult = {
  name: CheckName;
  /** What was checked -> how much of it. */
  counts: Record<string, number>;
  /** The first findings; `damageCount` is the number of all. */
  findings: Finding[];
  damageCount: number;
  /** The first notes, which are not damage; `noteCount` is the number of all. */
  notes: Finding[];
  noteCount: number;
};

/** Findings and notes that are kept of each check: more add no information and must not fill the memory. */
const MAX_FINDINGS = 1_000;

type VerifyOptions = {
  db: DbReader;
  store: Pick<EvidenceStore, "list" | "read" | "describe">;
  staged: readonly { name: string; size: number; modifiedAt: number }[];
  /** The contents of evidence are not read. */
  quick: boolean;
  /** How many acknowledged commits the database lacks. */
  missingCommits?: number;
  /** Epoch seconds. */
  now: number;
  progress?: { begin(what: string, total: number, unit?: "bytes" | "files"): void; reach(done: number): void };
};

/**
 * Runs all checks.
 * @param onResult is called after each check
 * @throws the error of a check that could not be made, unless damage that was found before explains it
 */
export async function verifyInstallation(
  options: VerifyOptions,
  onResult: (result: CheckResult) => void = () => undefined,
): Promise<CheckResult[]> {
  const results: CheckResult[] = [];
  for (const [name, check] of listChecks(options)) {
    const result: CheckResult = { name, counts: {}, findings: [], damageCount: 0, notes: [], noteCount: 0 };
    const findings = collectInto(result);
    try {
      await check(findings);
    } catch (error) {
      // A damaged page can surface as any error of the code that reads it.
      const isExplained = isDamagedFile(error) || results.some(({ damageCount }) => damageCount > 0);
      if (!isExplained) throw error;
      // Unreachable storage is not damage of the database; but evidence that was not checked is not in order either.
      if (error instanceof EvidenceUnavailableError)
        findings.damage("evidence", `cannot be checked, because its storage does not respond: ${error.why}`);
      else findings.damage("assay.db", `cannot be checked any further: ${messageOf(error)}`);
    }
    results.push(result);
    onResult(result);
  }
  return results;
}

type NamedCheck = readonly [CheckName, (findings: Findings) => void | Promise<void>];

function listChecks({
  db,
  store,
  staged,
  quick,
  missingCommits = 0,
  now,
  progress,
}: VerifyOptions): readonly NamedCheck[] {
  const countRows = (table: string): number =>
    db.prepare<[], number>(`SELECT count(*) FROM ${table}`).pluck().get() ?? 0;
  const begin = (what: string, total: number, unit: "bytes" | "files" = "files") => progress?.begin(what, total, unit);
  const reach = (done: number): void => progress?.reach(done);
  return [
    ["integrity", (findings) => checkDatabaseFile({ db, missingCommits }, findings)],
    ["foreign keys", (findings) => checkForeignKeys(db, findings)],
    ["schema", (findings) => checkSchema(db, findings)],
    [
      "derived tables",
      async (findings) => {
        let done = 0;
        begin("derived tables", DERIVED_TABLE_COUNT);
        await checkDerivedTables(db, findings, () => reach((done += 1)));
        await checkDocuments(db, findings);
      },
    ],
    [
      "trails",
      (findings) => {
        begin("trails", countRows("trails"));
        return checkTrails(db, findings, reach);
      },
    ],
    [
      "snapshots",
      (findings) => {
        begin("snapshots", countRows("snapshots"));
        return checkEnvironments(db, findings, { onSnapshots: reach });
      },
    ],
    [
      "evaluations",
      (findings) => {
        begin("evaluations", countRows("snapshot_artifacts"));
        return checkEvaluations(db, findings, { onRows: reach });
      },
    ],
    ["audit log", (findings) => checkAudit(db, findings)],
    [
      "evidence",
      (findings) => {
        begin("evidence", evidenceBytes(db), "bytes");
        return checkEvidence({ db, store, quick, now, onBytes: reach }, findings);
      },
    ],
    ["staging", (findings) => checkStaging(staged, now, findings)],
  ];
}

function checkDatabaseFile({ db, missingCommits }: { db: DbReader; missingCommits: number }, findings: Findings): void {
  checkIntegrity(db, findings);
  if (missingCommits > 0) findings.damage("assay.db", `${describeLoss(missingCommits)}; see assay help accept-loss`);
}

function collectInto(result: CheckResult): Findings {
  return {
    damage(about, problem) {
      result.damageCount += 1;
      if (result.findings.length < MAX_FINDINGS) result.findings.push({ about, problem });
    },
    note(about, problem) {
      result.noteCount += 1;
      if (result.notes.length < MAX_FINDINGS) result.notes.push({ about, problem });
    },
    count(what, amount) {
      result.counts[what] = (result.counts[what] ?? 0) + amount;
    },
  };
}

const evidenceBytes = (db: DbReader): number =>
  db.prepare<[], number>("SELECT bytes FROM evidence_totals").pluck().get() ?? 0;
