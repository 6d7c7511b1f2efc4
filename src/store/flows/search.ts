/**
 * Looking for artifacts by the first characters of a fingerprint or commit (semantics 8.2). What is read is bounded,
 * however much there is: each further match takes one step into an index, and of each match the newest records count.
 */
import { selectorColumn } from "./artifact-selector.ts";
import { prefixUpperBound } from "./artifacts.ts";
import type { PlacedArtifactRow } from "./artifacts.ts";
import type { Db } from "../db/types.ts";

/**
 * Records of one match that are looked at, the newest ones: far more than a fingerprint has flows, or a commit has
 * artifacts.
 */
const MAX_RECORDS_PER_MATCH = 200;

/** What a search shows of a record. */
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

const FOUND = `SELECT a.id, a.public_id, a.flow_id, a.fingerprint, a.reference_name, a.filename, a.git_commit, a.build_url, a.commit_url, a.created_at, a.state,
    a.attestations_json, f.name AS flow_name, t.name AS trail_name, ${selectorColumn("a")}
  FROM artifacts a JOIN flows f ON f.id = a.flow_id LEFT JOIN trails t ON t.id = a.trail_id`;

export function searchStore(db: Db) {
  const next = (table: "artifacts" | "snapshot_artifacts", column: "fingerprint" | "git_commit") =>
    db
      .prepare<[number, string, string], string>(
        `SELECT ${column} FROM ${table} WHERE organization_id = ? AND ${column} >= ? AND ${column} < ? ORDER BY ${column} LIMIT 1`,
      )
      .pluck();
  const steps = {
    reported: next("artifacts", "fingerprint"),
    ran: next("snapshot_artifacts", "fingerprint"),
    commits: next("artifacts", "git_commit"),
  };
  const ofFingerprint = db.prepare<[number, string], FoundRow>(
    `${FOUND} WHERE a.organization_id = ? AND a.fingerprint = ? ORDER BY a.id DESC LIMIT ${MAX_RECORDS_PER_MATCH}`,
  );
  const ofCommit = db.prepare<[number, string], FoundRow>(
    `${FOUND} WHERE a.organization_id = ? AND a.git_commit = ? ORDER BY a.id DESC LIMIT ${MAX_RECORDS_PER_MATCH}`,
  );
  // In the order of the index, so that few rows are read: where it ran last in the youngest of its environments.
  const lastName = db
    .prepare<[number, string], string>(
      "SELECT name FROM snapshot_artifacts WHERE organization_id = ? AND fingerprint = ? AND now > 0 ORDER BY environment_id DESC, first_index DESC LIMIT 1",
    )
    .pluck();

  function distinct(step: typeof steps.ran, organizationId: number, prefix: string, most: number): string[] {
    const found: string[] = [];
    let from = prefix;
    while (found.length < most) {
      const value = step.get(organizationId, from, prefixUpperBound(prefix));
      if (value === undefined) break;
      found.push(value);
      // Behind the value and before every other one: all have the same length.
      from = `${value} `;
    }
    return found;
  }

  return {
    /**
     * Distinct fingerprints with that prefix, of artifacts that were reported or that ran; in their order, at most
     * `most`.
     */
    listFingerprints(organizationId: number, prefix: string, most: number): string[] {
      const both = [steps.reported, steps.ran].flatMap((step) => distinct(step, organizationId, prefix, most));
      return [...new Set(both)].sort().slice(0, most);
    },
    /** Distinct commits with that prefix from which artifacts were reported; in their order, at most `most`. */
    listCommits: (organizationId: number, prefix: string, most: number): string[] =>
      distinct(steps.commits, organizationId, prefix, most),
    /** Of a fingerprint the latest record in each flow, the newest first. */
    listByFingerprint: (organizationId: number, fingerprint: string): FoundRow[] =>
      latestOfEach(ofFingerprint.all(organizationId, fingerprint)),
    /** Of the artifacts of a commit the latest record in each flow, the newest first. */
    listByCommit: (organizationId: number, commit: string): FoundRow[] =>
      latestOfEach(ofCommit.all(organizationId, commit)),
    /** The name under which an artifact ran; empty when it never did. */
    findRunningName: (organizationId: number, fingerprint: string): string =>
      lastName.get(organizationId, fingerprint) ?? "",
  };
}

/** The first of the rows of each fingerprint in each flow. */
function latestOfEach(rows: readonly FoundRow[]): FoundRow[] {
  const seen = new Set<string>();
  return rows.filter(({ fingerprint, flow_id }) => {
    const key = `${flow_id} ${fingerprint}`;
    return !seen.has(key) && seen.add(key);
  });
}
