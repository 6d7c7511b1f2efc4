/**
 * Deletes the rows of a trail, or the files attached to its records. retention.ts decides what is deleted.
 *
 * Invariant: everything derived from the deleted rows is updated, and a tombstone and an audit entry are written, in
 * the same transaction.
 */
import { createHash } from "node:crypto";
import type { Db, SchemaSources } from "../db/types.ts";
import type { buildStore } from "../flows/builds.ts";

/** Appends to the audit log; `detail` says what was deleted. */
export type RetentionNote = (
  organizationId: number,
  event: "trail.deleted" | "trail.evidence_deleted",
  target: string,
  detail: Readonly<Record<string, unknown>>,
) => void;

export type DueTrailRow = {
  id: number;
  public_id: string;
  name: string;
  organization_id: number;
  flow_id: number;
  flow_name: string;
  created_at: number;
  last_event: number;
};
type RecordRow = {
  id: number;
  public_id: string;
  name: string;
  type: string;
  overridden_type: string | null;
  is_compliant: 0 | 1;
  created_at: number;
  evidence_digest: string | null;
  evidence_size: number | null;
  evidence_filename: string | null;
};

type ArtifactRow = { id: number; fingerprint: string };
/** What deleted rows are recorded under: the run, the text of the rule, and the audit log. */
type Reason = { run: number; rule: string; note: RetentionNote };

/** What a trail owns, in the order in which it is deleted. */
const OWNED_BY_TRAIL = [
  "current_attestations WHERE trail_id",
  "pending_bindings WHERE trail_id",
  "attestations WHERE trail_id",
  "artifacts WHERE trail_id",
  "trail_events WHERE trail_id",
  "trail_repos WHERE trail_id",
  "trails WHERE id",
];

const prepareDeletion = (db: Db) => ({
  recordsByTrail: db.prepare<[number], RecordRow>(
    `SELECT id, public_id, name, type, overridden_type, is_compliant, created_at, evidence_digest, evidence_size,
            evidence_filename
     FROM attestations WHERE trail_id = ? ORDER BY id`,
  ),
  artifactsByTrail: db.prepare<[number], ArtifactRow>(
    "SELECT id, fingerprint FROM artifacts WHERE trail_id = ? ORDER BY id",
  ),
  countEvents: db.prepare<[number], number>("SELECT count(*) FROM trail_events WHERE trail_id = ?").pluck(),
  strippedFiles: db.prepare<[string], { public_id: string; digest: string }>(
    "SELECT public_id, digest FROM tombstones WHERE trail_public_id = ? AND kind = 'evidence'",
  ),
  findSeries: db.prepare<[number, string, string, string, number], { id: number }>(
    `SELECT id FROM attestation_series
     WHERE flow_id = ? AND name = ? AND type = ? AND overridden_type = ? AND is_compliant = ?`,
  ),
  deleteFromSeries: db.prepare(
    "DELETE FROM attestation_series_records WHERE series_id = ? AND created_at = ? AND attestation_id = ?",
  ),
  deleteEmptySeries: db.prepare(
    `DELETE FROM attestation_series WHERE id = ?
       AND NOT EXISTS (SELECT 1 FROM attestation_series_records sr WHERE sr.series_id = attestation_series.id)`,
  ),
  deleteBindings: db.prepare("DELETE FROM attestation_bindings WHERE artifact_id = ?"),
  deleteBuild: db.prepare("DELETE FROM builds WHERE artifact_id = ?"),
  firstRecord: db
    .prepare<[number, string], number | null>(
      "SELECT min(id) FROM artifacts WHERE organization_id = ? AND fingerprint = ?",
    )
    .pluck(),
  deleteOwned: OWNED_BY_TRAIL.map((rows) => db.prepare<[number]>(`DELETE FROM ${rows} = ?`)),
  decrementCount: db.prepare("UPDATE flows SET trail_count = trail_count - 1 WHERE id = ?"),
  strip: db.prepare("UPDATE attestations SET evidence_digest = NULL, evidence_size = NULL WHERE id = ?"),
  // A snapshot in the making may have read what is deleted; the new revision makes it start over (snapshot-survey.ts).
  bumpRevisions: db.prepare("UPDATE environments SET revision = revision + 1 WHERE organization_id = ?"),
  insertTombstone: db.prepare(
    `INSERT INTO tombstones (run_id, kind, public_id, name, organization_id, flow_id, trail_public_id, digest, size,
                             filename, artifact_count, attestation_count, event_count, file_count, fingerprints_json,
                             rule, created_at, last_event_at, deleted_at)
     VALUES (@run, @kind, @publicId, @name, @organization, @flow, @trail, @digest, @size, @filename, @artifacts,
             @attestations, @events, @files, @fingerprints, @rule, @createdAt, @lastEventAt, @deletedAt)`,
  ),
});

type DeletionStatements = ReturnType<typeof prepareDeletion>;

/** Deletes trails and files. Call both inside a write. */
export function retentionDeleter(db: Db, { now }: Pick<SchemaSources, "now">, builds: ReturnType<typeof buildStore>) {
  const statements = prepareDeletion(db);

  /** The files that each record has or had, by the public id of the record. */
  function listFiles(trail: DueTrailRow, records: readonly RecordRow[]): Map<string, string> {
    const files = new Map(
      statements.strippedFiles.all(trail.public_id).map(({ public_id, digest }) => [public_id, digest]),
    );
    for (const { public_id, evidence_digest } of records)
      if (evidence_digest !== null) files.set(public_id, evidence_digest);
    return files;
  }

  return {
    deleteTrail(trail: DueTrailRow, { run, rule, note }: Reason): void {
      const records = statements.recordsByTrail.all(trail.id);
      const artifacts = statements.artifactsByTrail.all(trail.id);
      const files = listFiles(trail, records);
      const digest = recordsDigest(records.map((record) => ({ ...record, file: files.get(record.public_id) ?? null })));
      const counts = {
        artifacts: artifacts.length,
        attestations: records.length,
        events: statements.countEvents.get(trail.id) as number,
        files: files.size,
      };
      deleteRows(statements, trail, { records, artifacts, builds });
      statements.insertTombstone.run({
        run,
        kind: "trail",
        publicId: trail.public_id,
        name: trail.name,
        organization: trail.organization_id,
        flow: trail.flow_id,
        trail: trail.public_id,
        digest,
        size: null,
        filename: null,
        ...counts,
        fingerprints: JSON.stringify([...new Set(artifacts.map(({ fingerprint }) => fingerprint))]),
        rule,
        createdAt: trail.created_at,
        lastEventAt: trail.last_event,
        deletedAt: now(),
      });
      note(trail.organization_id, "trail.deleted", `${trail.flow_name}/${trail.name}`, {
        trail_id: trail.public_id,
        ...counts,
        digest,
        rule,
      });
    },

    deleteFiles(trail: DueTrailRow, { run, rule, note }: Reason): void {
      const records = statements.recordsByTrail.all(trail.id).filter(({ evidence_digest }) => evidence_digest !== null);
      for (const record of records) {
        statements.strip.run(record.id);
        statements.insertTombstone.run({
          run,
          kind: "evidence",
          publicId: record.public_id,
          name: record.name,
          organization: trail.organization_id,
          flow: trail.flow_id,
          trail: trail.public_id,
          digest: record.evidence_digest,
          size: record.evidence_size,
          filename: record.evidence_filename,
          artifacts: 0,
          attestations: 0,
          events: 0,
          files: 0,
          fingerprints: "[]",
          rule,
          createdAt: record.created_at,
          lastEventAt: trail.last_event,
          deletedAt: now(),
        });
      }
      note(trail.organization_id, "trail.evidence_deleted", `${trail.flow_name}/${trail.name}`, {
        trail_id: trail.public_id,
        files: records.length,
        rule,
      });
    },
  };
}

/** Deletes the rows of a trail and updates everything derived from them. */
function deleteRows(
  statements: DeletionStatements,
  trail: DueTrailRow,
  {
    records,
    artifacts,
    builds,
  }: {
    records: readonly RecordRow[];
    artifacts: readonly ArtifactRow[];
    builds: ReturnType<typeof buildStore>;
  },
): void {
  const seriesIds = new Set<number>();
  for (const { id, name, type, overridden_type, is_compliant, created_at } of records) {
    const series = statements.findSeries.get(trail.flow_id, name, type, overridden_type ?? "", is_compliant);
    if (!series) continue;
    statements.deleteFromSeries.run(series.id, created_at, id);
    seriesIds.add(series.id);
  }
  for (const id of seriesIds) statements.deleteEmptySeries.run(id);
  const built = new Set<string>();
  for (const { id, fingerprint } of artifacts) {
    statements.deleteBindings.run(id);
    if (statements.deleteBuild.run(id).changes > 0) built.add(fingerprint);
  }
  for (const statement of statements.deleteOwned) statement.run(trail.id);
  statements.decrementCount.run(trail.flow_id);
  // Where the first record of a fingerprint was deleted, the next one becomes the build.
  for (const fingerprint of built) {
    const first = statements.firstRecord.get(trail.organization_id, fingerprint) ?? null;
    if (first !== null) builds.recordArtifact(first);
  }
  if (artifacts.length > 0) statements.bumpRevisions.run(trail.organization_id);
}

/**
 * SHA-256 over one line of JSON for each record, oldest first: [id, name, whether it is compliant, digest of its file
 * or null]. An exported audit package yields the same digest (see the topic "retention").
 */
export function recordsDigest(
  records: readonly { public_id: string; name: string; is_compliant: 0 | 1; file: string | null }[],
): string {
  const digest = createHash("sha256");
  for (const { public_id, name, is_compliant, file } of records)
    digest.update(`${JSON.stringify([public_id, name, is_compliant === 1, file])}\n`);
  return digest.digest("hex");
}
