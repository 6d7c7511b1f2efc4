import { EvidenceUnavailableError } from "../../evidence/errors.ts";
import type { EvidenceStore } from "../../evidence/local-store.ts";
import { isDamagedFile, errorMessage } from "./check.ts";
import type { Finding, Findings } from "./check.ts";
import { checkDocuments } from "./documents.ts";
import { checkEnvironments } from "./environments.ts";
import { checkEvidence, checkStaging } from "./evidence.ts";
import { checkEvaluations } from "./evaluations.ts";
import { DERIVED_TABLE_COUNT, checkAudit, checkDerivedTables } from "./derived-tables.ts";
import { checkForeignKeys, checkIntegrity, checkSchema } from "./integrity.ts";
import { checkTrails } from "./trails.ts";
import type { Db } from "../../store/db/types.ts";

export type CheckName =
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
  /** What was looked at, and how much of it. */
  counts: Record<string, number>;
  /** The first of the damage; `damage` counts all of it. */
  findings: Finding[];
  damageCount: number;
  /** The first of what is no damage; `notes` counts all of it. */
  notes: Finding[];
  noteCount: number;
};

/** More of one kind tell nobody anything new, and must not fill the memory. */
const MAX_FINDINGS = 1_000;

export type VerifyOptions = {
  db: Db;
  store: Pick<EvidenceStore, "list" | "read" | "describe">;
  staged: readonly { name: string; size: number; modifiedAt: number }[];
  /** Without the contents of evidence. */
  quick: boolean;
  /** Epoch seconds. */
  now: number;
  progress?: { begin(what: string, total: number, unit?: "bytes" | "files"): void; reach(done: number): void };
};

/**
 * Runs all checks. @throws what kept one of them from being made, unless damage was found before, which then explains
 * it.
 */
export async function verifyInstallation(
  { db, store: vault, staged, quick, now, progress }: VerifyOptions,
  done: (result: CheckResult) => void = () => undefined,
): Promise<CheckResult[]> {
  const count = (table: string): number => db.prepare<[], number>(`SELECT count(*) FROM ${table}`).pluck().get() ?? 0;
  const begin = (what: string, total: number, unit: "bytes" | "files" = "files") => progress?.begin(what, total, unit);
  const reach = (at: number): void => progress?.reach(at);
  let asked = 0;
  const checks: readonly (readonly [CheckName, (sink: Findings) => void | Promise<void>])[] = [
    ["integrity", (sink) => checkIntegrity(db, sink)],
    ["foreign keys", (sink) => checkForeignKeys(db, sink)],
    ["schema", (sink) => checkSchema(db, sink)],
    [
      "derived tables",
      async (sink) => {
        begin("derived tables", DERIVED_TABLE_COUNT);
        await checkDerivedTables(db, sink, () => reach((asked += 1)));
        await checkDocuments(db, sink);
      },
    ],
    ["trails", (sink) => (begin("trails", count("trails")), checkTrails(db, sink, reach))],
    ["snapshots", (sink) => (begin("snapshots", count("snapshots")), checkEnvironments(db, sink, new Map(), reach))],
    [
      "evaluations",
      (sink) => (begin("evaluations", count("snapshot_artifacts")), checkEvaluations(db, sink, undefined, reach)),
    ],
    ["audit log", (sink) => checkAudit(db, sink)],
    [
      "evidence",
      (sink) => (
        begin("evidence", evidenceBytes(db), "bytes"), checkEvidence({ db, vault, quick, now, step: reach }, sink)
      ),
    ],
    ["staging", (sink) => checkStaging(staged, now, sink)],
  ];
  const results: CheckResult[] = [];
  for (const [name, check] of checks) {
    const result: CheckResult = { name, counts: {}, findings: [], damageCount: 0, notes: [], noteCount: 0 };
    const sink = sinkOf(result);
    try {
      await check(sink);
    } catch (error) {
      // A damaged page shows as any error at all of whatever reads it.
      const damaged = isDamagedFile(error) || results.some(({ damageCount: damage }) => damage > 0);
      if (!damaged) throw error;
      // A storage that does not answer is no damage of the database; but what nobody looked at is not in order either.
      if (error instanceof EvidenceUnavailableError)
        sink.damage("evidence", `cannot be looked at, because its storage gives no answer: ${error.why}`);
      else sink.damage("assay.db", `cannot be looked at any further here: ${errorMessage(error)}`);
    }
    results.push(result);
    done(result);
  }
  return results;
}

function sinkOf(result: CheckResult): Findings {
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

const evidenceBytes = (db: Db): number =>
  db.prepare<[], number>("SELECT bytes FROM evidence_totals").pluck().get() ?? 0;
