/**
 * Searches artifacts by the first characters of a fingerprint or commit (semantics 8.2). Reads are bounded whatever the
 * size of the database: each further match costs one index lookup, and only the newest records of a match count.
 * Read-only.
 */
import { selectorColumn } from "./artifact-selector.ts";
import { prefixUpperBound } from "./artifacts.ts";
import type { PlacedArtifactRow } from "./artifacts.ts";
import type { DbReader } from "../db/types.ts";

/** The newest records examined of one match: far more than a fingerprint has flows, or a commit has artifacts. */
const MAX_RECORDS_PER_MATCH = 200;

/** The columns of a record in a search result. */
export type FoundRow = Pick<
  PlacedArtifactRow,
  | "id"
  | "public_id"
  | "flow_id"
  | "fingerprint"
  | "reference_name"
  | "filename"
  | "git_commit"
  | "build_url"
  | "commit_url"
  | "created_at"
  | "state"
  | "attestations_json"
  | "flow_name"
  | "trail_name"
  | "selector_json"
>;

const FOUND = `SELECT a.id, a.public_id, a.flow_id, a.fingerprint, a.reference_name, a.filename, a.git_commit,
    a.build_url, a.commit_url, a.created_at, a.state, a.attestations_json, f.name AS flow_name, t.name AS trail_name,
    ${selectorColumn("a")}
  FROM artifacts a JOIN flows f ON f.id = a.flow_id LEFT JOIN trails t ON t.id = a.trail_id`;

type NextStatement = { get(organizationId: number, from: string, end: string): string | undefined };

export function searchStore(db: DbReader) {
  const next = (table: "artifacts" | "snapshot_artifacts", column: "fingerprint" | "git_commit"): NextStatement =>
    db
      .prepare<[number, string, string], string>(
        `SELECT ${column} FROM ${table}
         WHERE organization_id = ? AND ${column} >= ? AND ${column} < ? ORDER BY ${column} LIMIT 1`,
      )
      .pluck();
  const nextReported = next("artifacts", "fingerprint");
  const nextRunning = next("snapshot_artifacts", "fingerprint");
  const nextCommit = next("artifacts", "git_commit");
  const byFingerprint = db.prepare<[number, string], FoundRow>(
    `${FOUND} WHERE a.organization_id = ? AND a.fingerprint = ? ORDER BY a.id DESC LIMIT ${MAX_RECORDS_PER_MATCH}`,
  );
  const byCommit = db.prepare<[number, string], FoundRow>(
    `${FOUND} WHERE a.organization_id = ? AND a.git_commit = ? ORDER BY a.id DESC LIMIT ${MAX_RECORDS_PER_MATCH}`,
  );
  // In the order of the index, so that few rows are read: the last run in the newest of its environments.
  const lastName = db
    .prepare<[number, string], string>(
      `SELECT name FROM snapshot_artifacts WHERE organization_id = ? AND fingerprint = ? AND now > 0
       ORDER BY environment_id DESC, first_index DESC LIMIT 1`,
    )
    .pluck();

  return {
    /** At most `limit` distinct fingerprints with that prefix, in order, of artifacts that were reported or ran. */
    listFingerprints(organizationId: number, prefix: string, limit: number): string[] {
      const both = [nextReported, nextRunning].flatMap((statement) =>
        listDistinct(statement, { organizationId, prefix, limit }),
      );
      return [...new Set(both)].sort().slice(0, limit);
    },
    /** At most `limit` distinct commits of reported artifacts with that prefix, in order. */
    listCommits: (organizationId: number, prefix: string, limit: number): string[] =>
      listDistinct(nextCommit, { organizationId, prefix, limit }),
    /** The latest record of a fingerprint in each flow, newest first. */
    listByFingerprint: (organizationId: number, fingerprint: string): FoundRow[] =>
      pickFirstPerFlow(byFingerprint.all(organizationId, fingerprint)),
    /** The latest records of the artifacts of a commit in each flow, newest first. */
    listByCommit: (organizationId: number, commit: string): FoundRow[] =>
      pickFirstPerFlow(byCommit.all(organizationId, commit)),
    /** The name under which an artifact last ran; empty when it never did. */
    findRunningName: (organizationId: number, fingerprint: string): string =>
      lastName.get(organizationId, fingerprint) ?? "",
  };
}

/** A loose index scan: one lookup for each distinct value. */
function listDistinct(
  next: NextStatement,
  { organizationId, prefix, limit }: { organizationId: number; prefix: string; limit: number },
): string[] {
  const values: string[] = [];
  let from = prefix;
  while (values.length < limit) {
    const value = next.get(organizationId, from, prefixUpperBound(prefix));
    if (value === undefined) break;
    values.push(value);
    // Sorts after the value and before every other one, because all have the same length.
    from = `${value} `;
  }
  return values;
}

/** The first of the rows of each fingerprint in each flow. */
function pickFirstPerFlow(rows: readonly FoundRow[]): FoundRow[] {
  const seen = new Set<string>();
  return rows.filter(({ fingerprint, flow_id }) => {
    const key = `${flow_id} ${fingerprint}`;
    return !seen.has(key) && seen.add(key);
  });
}
