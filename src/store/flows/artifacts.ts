/**
 * Artifact records: one for each trail, fingerprint and reference name. Legacy records have no trail.
 *
 * Invariant: in a flow, the record of a fingerprint with the highest report number counts (semantics 2.4). Verdicts are
 * written by trail-evaluation.ts only, in the write of the change.
 */
import { notFound } from "../../errors.ts";
import type { State } from "../../domain/compliance/artifact.ts";
import { selectorColumn } from "./artifact-selector.ts";
import type { buildStore } from "./builds.ts";
import { flag, namesOf, number, orNull, selectList, string, stringOf } from "../db/columns.ts";
import type { RowOf } from "../db/columns.ts";
import { selectWithStubs } from "../db/large-json.ts";
import type { Db, SchemaSources } from "../db/types.ts";

/** The columns that a report sets; the next report replaces all of them. */
const FIELDS = {
  filename: string,
  description: orNull(string),
  /** null: reported without one. */
  git_commit: orNull(string),
  git_commit_info_json: orNull(string),
  commits_list_json: orNull(string),
  repo_info_json: orNull(string),
  repo_id: orNull(number),
  repo_url: orNull(string),
  build_url: string,
  commit_url: string,
  external_urls_json: orNull(string),
  annotations_json: orNull(string),
  user_data_json: orNull(string),
  template_json: string,
  legacy_is_compliant: orNull(flag),
};
export type ArtifactFields = RowOf<typeof FIELDS>;
const FIELD_NAMES = namesOf(FIELDS);

const COLUMNS = {
  id: number,
  public_id: string,
  organization_id: number,
  flow_id: number,
  trail_id: orNull(number),
  fingerprint: string,
  reference_name: orNull(string),
  ...FIELDS,
  created_by: string,
  created_at: number,
  last_modified_at: number,
  state: stringOf<State>(),
  attestations_json: string,
  reasons_json: string,
  /** Number of its latest report among the reports of the fingerprint to the flow; see `pickLatestPerFlow`. */
  report_number: number,
};
type ArtifactRow = RowOf<typeof COLUMNS>;

/** A record with the names of its flow and trail and its selector, as responses show it. */
export type PlacedArtifactRow = ArtifactRow & { flow_name: string; trail_name: string | null; selector_json: string };

/** Columns whose size a client controls. */
const LARGE = [
  "git_commit_info_json",
  "commits_list_json",
  "repo_info_json",
  "external_urls_json",
  "annotations_json",
  "user_data_json",
] satisfies (keyof ArtifactRow)[];
const placed = (columns: string): string =>
  `SELECT ${columns}, f.name AS flow_name, t.name AS trail_name, ${selectorColumn("a")}
   FROM artifacts a JOIN flows f ON f.id = a.flow_id LEFT JOIN trails t ON t.id = a.trail_id`;
/** The start of every query for whole records. The alias of the record is `a`. */
export const PLACED_ARTIFACTS = placed(selectList(COLUMNS, "a"));
/** The start of every query for responses: long texts are stubs (db/large-json.ts). */
export const LISTED_ARTIFACTS = placed(selectWithStubs("a", COLUMNS, LARGE));

/** The columns that the evaluation of a trail and the binding of attestations need. */
export type ArtifactInTrailRow = Pick<
  ArtifactRow,
  | "id"
  | "public_id"
  | "fingerprint"
  | "reference_name"
  | "filename"
  | "git_commit"
  | "state"
  | "attestations_json"
  | "reasons_json"
>;

/** What names an artifact in the verdict of its trail. */
export type ArtifactNames = Pick<ArtifactRow, "fingerprint" | "reference_name">;

/** The number of the next report of a fingerprint to a flow. Binds both. */
const NEXT_REPORT = "(SELECT coalesce(max(report_number), 0) + 1 FROM artifacts WHERE flow_id = ? AND fingerprint = ?)";
/** The record that counts comes first (semantics 2.4). */
const LATEST_REPORT = "ORDER BY a.report_number DESC, a.id DESC";

/** An upper bound for the texts that begin with a hex prefix, for an index range. */
export const prefixUpperBound = (prefix: string): string => `${prefix}g`;

export function artifactStore(db: Db, { newId }: SchemaSources, builds: ReturnType<typeof buildStore>) {
  const byId = db.prepare<[number], ArtifactRow>(`SELECT ${selectList(COLUMNS)} FROM artifacts WHERE id = ?`);
  const byTrail = db.prepare<[number], ArtifactInTrailRow>(
    `SELECT id, public_id, fingerprint, reference_name, filename, git_commit, state, attestations_json, reasons_json
     FROM artifacts WHERE trail_id = ? ORDER BY id`,
  );
  const namesInTrail = db.prepare<[number, string], ArtifactNames>(
    "SELECT reference_name, fingerprint FROM artifacts WHERE trail_id = ? AND public_id = ?",
  );
  const sameInTrail = db.prepare<[number, string, string], ArtifactRow>(
    `SELECT ${selectList(COLUMNS)} FROM artifacts
     WHERE trail_id = ? AND fingerprint = ? AND coalesce(reference_name, '') = ?`,
  );
  const sameLegacy = db.prepare<[number, string], ArtifactRow>(
    `SELECT ${selectList(COLUMNS)} FROM artifacts WHERE flow_id = ? AND fingerprint = ? AND trail_id IS NULL`,
  );
  const insert = db.prepare(
    `INSERT INTO artifacts (public_id, organization_id, flow_id, trail_id, fingerprint, reference_name,
                            ${FIELD_NAMES.join(", ")}, created_by, created_at, last_modified_at, state,
                            attestations_json, reasons_json, report_number)
     VALUES (?, ?, ?, ?, ?, ?, ${FIELD_NAMES.map(() => "?").join(", ")}, ?, ?, ?, 'INCOMPLETE', '[]', '[]',
             ${NEXT_REPORT})`,
  );
  const update = db.prepare(
    `UPDATE artifacts SET ${FIELD_NAMES.map((field) => `${field} = ?`).join(", ")}, last_modified_at = ?,
       report_number = (SELECT max(same.report_number) + 1 FROM artifacts same
                        WHERE same.flow_id = artifacts.flow_id AND same.fingerprint = artifacts.fingerprint)
     WHERE id = ?`,
  );
  const setReferenceName = db.prepare(
    "UPDATE artifacts SET reference_name = ? WHERE id = ? AND trail_id IS NULL AND reference_name IS NOT ?",
  );
  const setReasons = db.prepare(
    "UPDATE artifacts SET reasons_json = ?, attestations_json = ?, last_modified_at = ? WHERE id = ?",
  );
  const setState = db.prepare("UPDATE artifacts SET state = ? WHERE id = ?");
  const matchingFingerprints = db.prepare<[number, string, string], { fingerprint: string }>(
    "SELECT DISTINCT fingerprint FROM artifacts WHERE flow_id = ? AND fingerprint >= ? AND fingerprint < ? LIMIT 2",
  );
  const latestInFlow = db.prepare<[number, string], PlacedArtifactRow>(
    `${LISTED_ARTIFACTS} WHERE a.flow_id = ? AND a.fingerprint = ? ${LATEST_REPORT} LIMIT 1`,
  );
  const latestInTrail = db.prepare<[number, string, number], PlacedArtifactRow>(
    `${LISTED_ARTIFACTS} WHERE a.flow_id = ? AND a.fingerprint = ? AND a.trail_id = ? ${LATEST_REPORT} LIMIT 1`,
  );
  const latestBound = db.prepare<[number, string, number | null, number | null, string], PlacedArtifactRow>(
    `${LISTED_ARTIFACTS}
       JOIN attestation_bindings b ON b.artifact_id = a.id JOIN attestations att ON att.id = b.attestation_id
     WHERE a.flow_id = ? AND a.fingerprint = ? AND (? IS NULL OR a.trail_id = ?) AND att.public_id = ?
     ${LATEST_REPORT} LIMIT 1`,
  );
  const byPublicId = db.prepare<[number, string, string], PlacedArtifactRow>(
    `${LISTED_ARTIFACTS} WHERE a.flow_id = ? AND a.fingerprint = ? AND a.public_id = ?`,
  );
  const binding = db
    .prepare<[number, string], 1>(
      `SELECT 1 FROM attestation_bindings b JOIN attestations att ON att.id = b.attestation_id
       WHERE b.artifact_id = ? AND att.public_id = ?`,
    )
    .pluck();
  const latestCommit = db.prepare<[number, string], { git_commit: string }>(
    `SELECT a.git_commit FROM artifacts a
     WHERE a.flow_id = ? AND a.fingerprint = ? AND a.git_commit IS NOT NULL ${LATEST_REPORT} LIMIT 1`,
  );
  // A `+` that a client did not escape in its query arrives as a space (wire-contract 1.1), so both compare as equal.
  const latestCommitOnBranch = db.prepare<
    { flow: number; fingerprint: string; branch: string },
    { git_commit: string }
  >(
    `SELECT a.git_commit FROM artifacts a
     WHERE a.flow_id = @flow AND a.fingerprint = @fingerprint AND a.git_commit IS NOT NULL
       AND (replace(a.git_commit_info_json ->> 'branch', '+', ' ') = replace(@branch, '+', ' ')
         OR EXISTS (SELECT 1 FROM json_each(a.commits_list_json) listed
                    WHERE replace(listed.value ->> 'branch', '+', ' ') = replace(@branch, '+', ' ')))
     ${LATEST_REPORT} LIMIT 1`,
  );
  const matchingCommits = db.prepare<[number, string, string], { git_commit: string }>(
    "SELECT DISTINCT git_commit FROM artifacts WHERE flow_id = ? AND git_commit >= ? AND git_commit < ? LIMIT 2",
  );
  const byCommit = db.prepare<[number, string], PlacedArtifactRow>(
    `${LISTED_ARTIFACTS} WHERE a.flow_id = ? AND a.git_commit = ? ORDER BY a.id DESC`,
  );
  const byCommitInTrail = db.prepare<[number, string, number], PlacedArtifactRow>(
    `${LISTED_ARTIFACTS} WHERE a.flow_id = ? AND a.git_commit = ? AND a.trail_id = ? ORDER BY a.id DESC`,
  );
  const byFingerprint = db.prepare<[number, string], PlacedArtifactRow>(
    `${LISTED_ARTIFACTS} WHERE a.organization_id = ? AND a.fingerprint = ? ORDER BY a.id`,
  );

  return {
    get(id: number): ArtifactRow {
      const row = byId.get(id);
      if (!row) throw new Error(`artifact ${id} is gone`);
      return row;
    },
    /** All records of a trail, oldest first. */
    listByTrail: (trailId: number): ArtifactInTrailRow[] => byTrail.all(trailId),
    /** The record that a report of this fingerprint and reference name would update; null when it would create one. */
    find(at: {
      flowId: number;
      trailId: number | null;
      fingerprint: string;
      referenceName: string | null;
    }): ArtifactRow | null {
      const row =
        at.trailId === null
          ? sameLegacy.get(at.flowId, at.fingerprint)
          : sameInTrail.get(at.trailId, at.fingerprint, at.referenceName ?? "");
      return row ?? null;
    },
    /**
     * Creates a record without a verdict; trail-evaluation.ts must follow in the same write.
     * @param time epoch seconds of the report.
     * @returns its id.
     */
    create(
      at: {
        organizationId: number;
        flowId: number;
        trailId: number | null;
        fingerprint: string;
        referenceName: string | null;
        createdBy: string;
      },
      fields: ArtifactFields,
      time: number,
    ): number {
      const { lastInsertRowid } = insert.run(
        newId(),
        at.organizationId,
        at.flowId,
        at.trailId,
        at.fingerprint,
        at.referenceName,
        ...FIELD_NAMES.map((field) => fields[field]),
        at.createdBy,
        time,
        time,
        at.flowId,
        at.fingerprint,
      );
      const id = Number(lastInsertRowid);
      builds.recordArtifact(id);
      return id;
    },
    /**
     * Replaces what reports set; trail-evaluation.ts must follow in the same write. @param at epoch seconds of the
     * report.
     */
    update(id: number, fields: ArtifactFields, at: number): void {
      update.run(...FIELD_NAMES.map((field) => fields[field]), at, id);
      builds.setRepo(id, fields.repo_id);
    },
    /** Sets the name of the latest report of a record without a trail; that of others is part of their identity. */
    setReferenceName: (id: number, name: string | null): void => void setReferenceName.run(name, id, name),
    /**
     * Stores the reasons of a verdict and the artifact-level statuses, for trail-evaluation.ts. @param at epoch seconds
     * of the change.
     */
    setReasons: (id: number, { reasons, attestations }: { reasons: string; attestations: string }, at: number): void =>
      void setReasons.run(reasons, attestations, at, id),
    /** Stores the verdict itself. Only for one that changed: SQLite checks it against a temporary table of states. */
    setState: (id: number, state: State): void => void setState.run(state, id),
    /**
     * The full fingerprint for a prefix of 5 to 64 hex characters in a flow; null when there is none or the prefix is
     * ambiguous: both are "not found" (semantics 2.4).
     */
    resolveFingerprint(flowId: number, prefix: string): string | null {
      if (prefix.length === 64) return prefix;
      const found = matchingFingerprints.all(flowId, prefix, prefixUpperBound(prefix));
      return found.length === 1 ? (found[0]?.fingerprint ?? null) : null;
    },
    /** The most recently reported record of a fingerprint in a flow, or in one of its trails; null without one. */
    findLatest(flowId: number, fingerprint: string, trailId: number | null): PlacedArtifactRow | null {
      return (
        (trailId === null ? latestInFlow.get(flowId, fingerprint) : latestInTrail.get(flowId, fingerprint, trailId)) ??
        null
      );
    },
    /** As `findLatest`, but only among the records that the attestation with that public id is bound to. */
    findLatestBound: (
      attestationId: string,
      { flowId, fingerprint, trailId }: { flowId: number; fingerprint: string; trailId: number | null },
    ): PlacedArtifactRow | null => latestBound.get(flowId, fingerprint, trailId, trailId, attestationId) ?? null,
    /** The record of a fingerprint with that public id; null when the flow has none. */
    findByPublicId: (flowId: number, fingerprint: string, publicId: string): PlacedArtifactRow | null =>
      byPublicId.get(flowId, fingerprint, publicId) ?? null,
    /** The names of the record of a trail with that public id; null when the trail has none. */
    findNamesInTrail: (trailId: number, publicId: string): ArtifactNames | null =>
      namesInTrail.get(trailId, publicId) ?? null,
    /** Whether the attestation with that public id is bound to a record. */
    isBound: (id: number, attestationId: string): boolean => binding.get(id, attestationId) !== undefined,
    /** The commit of the latest record that has one; with `branch`, of the latest such record that names it. */
    findLatestCommit(flowId: number, fingerprint: string, branch: string | null): string | null {
      const row =
        branch === null
          ? latestCommit.get(flowId, fingerprint)
          : latestCommitOnBranch.get({ flow: flowId, fingerprint, branch });
      return row?.git_commit ?? null;
    },
    /** The records of a commit, given in full or by an unambiguous prefix, newest first. */
    listByCommit(flowId: number, prefix: string, trailId: number | null): PlacedArtifactRow[] {
      const found =
        prefix.length === 40 ? [{ git_commit: prefix }] : matchingCommits.all(flowId, prefix, prefixUpperBound(prefix));
      if (found.length !== 1 || !found[0]) return [];
      const commit = found[0].git_commit;
      return trailId === null ? byCommit.all(flowId, commit) : byCommitInTrail.all(flowId, commit, trailId);
    },
    /** Every record of a fingerprint in an organization, oldest first. */
    listByFingerprint: (organizationId: number, fingerprint: string): PlacedArtifactRow[] =>
      byFingerprint.all(organizationId, fingerprint),
    /** The 404 for an artifact that a flow does not have (messages 4). */
    notFoundError: (fingerprint: string, flow: string, organization: string) =>
      notFound(
        `Artifact with fingerprint '${fingerprint}' does not exist in flow '${flow}' ` +
          `belonging to organization '${organization}'`,
      ),
  };
}

/**
 * The record of each flow that counts: the most recently reported one (semantics 2.4). Flows are in the order of their
 * first record.
 * @param rows records of one fingerprint, oldest first.
 */
export function pickLatestPerFlow<Row extends { flow_id: number; report_number: number }>(rows: readonly Row[]): Row[] {
  const latest = new Map<number, Row>();
  for (const row of rows) {
    const known = latest.get(row.flow_id);
    if (!known || row.report_number >= known.report_number) latest.set(row.flow_id, row);
  }
  return [...latest.values()];
}
