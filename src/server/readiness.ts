/** Whether a server can do its work, for `/ready` and `/readyz`: it checks the database, its disk, and the clock. */
import { readBuildInfo } from "../assets.ts";
import type { ReadinessReport } from "../http/health.ts";
import { schemaVersion } from "../store/db/database.ts";
import type { Db } from "../store/db/types.ts";
import type { ClockReport } from "./clock-watch.ts";

type ReadinessParts = {
  db: Db;
  /** Why the disk cannot be read, as the end of a sentence; null when it can. See storage-probe.ts. */
  storageProblem(): Promise<string | null>;
  /** Why the server is in read-only mode, as the end of a sentence; null when it is not. */
  readOnlyReason(): string | null;
  clock(): ClockReport;
};

/** Unavailable: reads fail. Read-only: reads are answered, changes are refused. */
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
    const clock = parts.clock();
    if (!databaseAnswers()) return { state: "unavailable", reason: "The database does not answer", ...build, clock };
    const storage = await parts.storageProblem();
    if (storage !== null) return { state: "unavailable", reason: `Storage failure: ${storage}`, ...build, clock };
    const readOnly = parts.readOnlyReason();
    return readOnly === null
      ? { state: "ready", reason: null, ...build, clock }
      : { state: "read-only", reason: `The server is in read-only mode: ${readOnly}`, ...build, clock };
  };
}
