/** Sizes and queue lengths for the metrics endpoint: each query is cheap enough to run on every scrape. */
import { summarizeUnknownInputs } from "../accounts/unknown-inputs.ts";
import type { UnknownInputRow } from "../accounts/unknown-inputs.ts";
import type { DbReader } from "../db/types.ts";

type JobMetrics = {
  kind: string;
  count: number;
  /** The earliest due time among them, epoch seconds. */
  due_at: number;
};
type DeliveryMetrics = {
  waiting: number;
  dead: number;
  /** When the oldest waiting delivery was added, epoch seconds; null when none waits. */
  oldest: number | null;
};
/**
 * Evidence files that attestations name, each counted once, and their total size in bytes; and how much of that the
 * database holds.
 */
type EvidenceMetrics = { files: number; bytes: number; inDatabase: number; bytesInDatabase: number };

const NO_EVIDENCE: EvidenceMetrics = { files: 0, bytes: 0, inDatabase: 0, bytesInDatabase: 0 };

export function metricsStore(db: DbReader) {
  const pragma = (name: string) => db.prepare<[], number>(`PRAGMA ${name}`).pluck();
  const [pageSize, pages, freePages] = [pragma("page_size"), pragma("page_count"), pragma("freelist_count")];
  const jobs = db.prepare<[], JobMetrics>(
    "SELECT kind, count(*) AS count, min(due_at) AS due_at FROM jobs GROUP BY kind",
  );
  const failing = db.prepare<[], number>("SELECT count(last_error) FROM jobs").pluck();
  const inState = db.prepare<[string], number>("SELECT count(*) FROM deliveries WHERE state = ?").pluck();
  const oldest = db
    .prepare<[], number>("SELECT waiting_since FROM deliveries WHERE state = 'waiting' ORDER BY id LIMIT 1")
    .pluck();
  const evidence = db.prepare<[], EvidenceMetrics>(
    "SELECT files, bytes, in_database AS inDatabase, bytes_in_database AS bytesInDatabase FROM evidence_totals",
  );
  return {
    /** Size of the database file and of its free pages, in bytes. */
    readSpace(): { bytes: number; free: number } {
      const size = pageSize.get() as number;
      return { bytes: size * (pages.get() as number), free: size * (freePages.get() as number) };
    },
    listJobs: (): JobMetrics[] => jobs.all(),
    /** Jobs whose latest attempt failed and that wait for a retry. */
    countFailingJobs: (): number => failing.get() as number,
    summarizeDeliveries: (): DeliveryMetrics => ({
      waiting: inState.get("waiting") as number,
      dead: inState.get("dead") as number,
      oldest: oldest.get() ?? null,
    }),
    summarizeUnknownInputs: (): UnknownInputRow[] => summarizeUnknownInputs(db),
    summarizeEvidence: (): EvidenceMetrics => evidence.get() ?? NO_EVIDENCE,
  };
}
