/**
 * Whether a server can do its work, for `/ready` and `/readyz`: it asks the database, the disk below it, and the clock.
 */
import { readBuildInfo } from "../assets.ts";
import type { ClockReport } from "./clock-watch.ts";
import type { ReadinessReport } from "../http/health.ts";
import { schemaVersion } from "../store/db/database.ts";
import type { Db } from "../store/db/types.ts";

export type ReadinessParts = {
  db: Db;
  /** Why the disk cannot be read, as the end of a sentence; null: it can. See storage-probe.ts. */
  storageProblem(): Promise<string | null>;
  /** Why no changes are taken, as the end of a sentence; null: they are. */
  readOnlyReason(): string | null;
  clock(): ClockReport;
};

/** Unavailable: reads fail. Read-only: reads are answered, changes are refused. */
export function createReadiness(parts: ReadinessParts): () => Promise<ReadinessReport> {
  const { version, commit } = readBuildInfo();
  const program = { version, commit, schema: schemaVersion() };
  const trivial = parts.db.prepare("SELECT 1 AS one");
  const databaseAnswers = (): boolean => {
    try {
      return parts.db.open && trivial.get() !== undefined;
    } catch {
      return false;
    }
  };
  return async () => {
    const clock = parts.clock();
    if (!databaseAnswers()) return { state: "unavailable", reason: "The database does not answer", ...program, clock };
    const storage = await parts.storageProblem();
    if (storage !== null) return { state: "unavailable", reason: `The storage fails: ${storage}`, ...program, clock };
    const readOnly = parts.readOnlyReason();
    return readOnly === null
      ? { state: "ready", reason: null, ...program, clock }
      : { state: "read-only", reason: `No changes are taken: ${readOnly}`, ...program, clock };
  };
}
