/** Whether a server can do its work, for `/ready` and `/readyz`: it checks the database, its disk, and the clock. */
import { readBuildInfo } from "../assets.ts";
import type { ReadinessReport } from "../http/health.ts";
import { schemaVersion } from "../store/db/database.ts";
import { LOCK_TIMEOUT_MS } from "../store/db/connection.ts";
import type { Db } from "../store/db/types.ts";
import { lockText } from "../store/db/write-lock.ts";
import type { LockReport } from "../store/db/write-lock.ts";
import type { ClockReport } from "./clock-watch.ts";

type ReadinessParts = {
  db: Db;
  /** Why the disk cannot be read, as the end of a sentence; null when it can. See storage-probe.ts. */
  storageProblem(): Promise<string | null>;
  /** Why the server is in read-only mode, as the end of a sentence; null when it is not. */
  readOnlyReason(): string | null;
  /** How long another process has held the write lock; null when it was free at the latest attempt. */
  lockReport(): LockReport | null;
  clock(): ClockReport;
  /** Whether evidence storage elsewhere answers; null: not known yet, or there is none. */
  isEvidenceReachable(): boolean | null;
};

/**
 * Unavailable: reads fail. Read-only: reads are answered, changes are refused, also those that have waited too long for
 * another process.
 */
export function createReadiness(parts: ReadinessParts): () => Promise<ReadinessReport> {
  const { version, commit } = readBuildInfo();
  const build = { version, commit, schema: schemaVersion() };
  const trivialQuery = parts.db.prepare("SELECT 1 AS one");
  const databaseAnswers = (): boolean => {
    try {
      return parts.db.open && trivialQuery.get() !== undefined;
    } catch {
      return false;
    }
  };
  return async () => {
    const facts = { ...build, clock: parts.clock(), evidence_reachable: parts.isEvidenceReachable() };
    if (!databaseAnswers()) return { state: "unavailable", reason: "The database does not answer", ...facts };
    const storage = await parts.storageProblem();
    if (storage !== null) return { state: "unavailable", reason: `Storage failure: ${storage}`, ...facts };
    const readOnly = parts.readOnlyReason();
    if (readOnly !== null)
      return { state: "read-only", reason: `The server is in read-only mode: ${readOnly}`, ...facts };
    const lock = parts.lockReport();
    return lock && lock.heldMs >= LOCK_TIMEOUT_MS
      ? { state: "read-only", reason: `Changes are refused: ${lockText(lock)}`, ...facts }
      : { state: "ready", reason: null, ...facts };
  };
}
