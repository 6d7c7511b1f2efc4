/**
 * Attestation records, append-only, and the two derived tables beside them: to which artifacts a record belongs, and
 * which record of each name is the latest. Both are written in the transaction that records the attestation.
 */
import type { ArtifactAttestation } from "../../domain/attestation/binding.ts";
import type { AttestationFact } from "../../domain/compliance/attestation.ts";
import type { AttestationCandidate } from "../../domain/policy/evaluate.ts";
import { attestationSeriesWriter } from "./attestation-search.ts";
import type { triggerStore } from "../notifications/triggers.ts";
import type { Db, SchemaSources } from "../db/types.ts";
import { LISTED_ATTESTATIONS, COLUMNS, placed, FIELDS } from "./attestation-rows.ts";
import type { NewAttestation, PlacedAttestationRow, AttestationRow } from "./attestation-rows.ts";
/** A record that an artifact may receive; `attestationId` is its key as text. */
export type BindingCandidate = ArtifactAttestation & { id: number; name: string };
/** The start of every query for whole records; `a` is the attestation. */
export const PLACED_ATTESTATIONS = placed(COLUMNS.map((column) => `a.${column}`).join(", "));
/** The artifact_id of the trail's own entries in current_attestations. */
const TRAIL_LEVEL = 0;

type CurrentRow = {
  artifact_id: number;
  id: number;
  public_id: string;
  name: string;
  type: string;
  is_compliant: 0 | 1;
  overridden_type: string | null;
  control: string | null;
  original_public_id: string | null;
  original_type: string | null;
  original_control: string | null;
};

/**
 * The latest records, overrides with what they override: the newest ordinary record of the name in the same place. That
 * is not settled when the override is reported, because an artifact may come after both, and one override may belong to
 * several artifacts with originals of their own.
 */
const CURRENT = `SELECT c.artifact_id, a.id, a.public_id, a.name, a.type, a.is_compliant, a.overridden_type, a.control,
    o.public_id AS original_public_id, o.type AS original_type, o.control AS original_control
  FROM current_attestations c JOIN attestations a ON a.id = c.attestation_id
  LEFT JOIN attestations o ON o.id = CASE
    WHEN a.overridden_type IS NULL THEN NULL
    WHEN c.artifact_id = 0 THEN (
      SELECT y.id FROM attestations y
      WHERE y.trail_id = c.trail_id AND y.name = c.name AND y.scope = 'trail' AND y.overridden_type IS NULL ORDER BY y.id DESC LIMIT 1)
    ELSE (
      SELECT max(y.id) FROM attestation_bindings b JOIN attestations y ON y.id = b.attestation_id
      WHERE b.artifact_id = c.artifact_id AND y.name = c.name AND y.overridden_type IS NULL)
    END`;

/**
 * A latest record as what counts (semantics 3.6): an override in force keeps id and type of the newest ordinary record.
 * If there is none, it has no id, and the type that was given for the original.
 */
function factOf(row: CurrentRow): AttestationFact {
  const overridden = row.overridden_type !== null;
  return {
    name: row.name,
    type: row.original_type ?? row.overridden_type ?? row.type,
    attestationId: overridden ? row.original_public_id : row.public_id,
    overriddenAttestationId: overridden ? row.public_id : null,
    isCompliant: row.is_compliant === 1,
  };
}

export function attestationStore(db: Db, { newId }: SchemaSources, triggers: ReturnType<typeof triggerStore>) {
  const addToSeries = attestationSeriesWriter(db);
  const insert = db.prepare(
    `INSERT INTO attestations (public_id, ${FIELDS.join(", ")}) VALUES (?, ${FIELDS.map(() => "?").join(", ")})`,
  );
  const byId = db.prepare<[number], AttestationRow>(`SELECT ${COLUMNS.join(", ")} FROM attestations WHERE id = ?`);
  const byPublicId = db.prepare<[string, number], PlacedAttestationRow>(
    `${LISTED_ATTESTATIONS} WHERE a.public_id = ? AND a.organization_id = ?`,
  );
  const bind = db.prepare(
    "INSERT INTO attestation_bindings (artifact_id, attestation_id) VALUES (?, ?) ON CONFLICT DO NOTHING",
  );
  const wait = db.prepare(
    "INSERT INTO pending_bindings (trail_id, reference_name, git_commit, attestation_id) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
  );
  // The latest record wins, also when an older one is bound after it.
  const setCurrent = db.prepare(
    `INSERT INTO current_attestations (trail_id, artifact_id, name, attestation_id) VALUES (?, ?, ?, ?)
     ON CONFLICT (trail_id, artifact_id, name) DO UPDATE SET attestation_id = max(attestation_id, excluded.attestation_id)`,
  );
  const currentOf = db.prepare<[number, number, string], { attestation_id: number }>(
    "SELECT attestation_id FROM current_attestations WHERE trail_id = ? AND artifact_id = ? AND name = ?",
  );
  const currentOfTrail = db.prepare<[number], CurrentRow>(`${CURRENT} WHERE c.trail_id = ? ORDER BY a.id`);
  const currentOfBoth = db.prepare<[number, number], CurrentRow>(
    `${CURRENT} WHERE c.trail_id = ? AND c.artifact_id IN (?, ${TRAIL_LEVEL}) ORDER BY c.artifact_id DESC, a.id`,
  );
  const waitingFor = db.prepare<
    [number, string, string],
    { id: number; name: string; git_commit: string; target_artifacts_json: string | null }
  >(
    `SELECT a.id, a.name, a.git_commit, a.target_artifacts_json FROM pending_bindings p JOIN attestations a ON a.id = p.attestation_id
     WHERE p.trail_id = ? AND p.reference_name = ? AND p.git_commit = ? ORDER BY a.id`,
  );
  const latestWaitingFor = db.prepare<[number, string, string, string], { attestation_id: number }>(
    `SELECT p.attestation_id FROM pending_bindings p JOIN attestations a ON a.id = p.attestation_id
     WHERE p.trail_id = ? AND p.reference_name = ? AND p.git_commit = ? AND a.name = ? ORDER BY p.attestation_id DESC LIMIT 1`,
  );
  const ofFingerprint = db.prepare<[number, string], { id: number; name: string }>(
    "SELECT id, name FROM attestations WHERE trail_id = ? AND artifact_fingerprint = ? ORDER BY id",
  );
  const received = db.prepare<[number], { name: string; created_at: number }>(
    "SELECT a.name, a.created_at FROM attestation_bindings b JOIN attestations a ON a.id = b.attestation_id WHERE b.artifact_id = ? ORDER BY a.id",
  );
  const boundLatest = db.prepare<[number, number], PlacedAttestationRow>(
    `${LISTED_ATTESTATIONS} JOIN current_attestations c ON c.attestation_id = a.id WHERE c.trail_id = ? AND c.artifact_id = ? ORDER BY a.id`,
  );
  const byEvidence = db.prepare<[string], { found: 1 }>(
    "SELECT 1 AS found FROM attestations WHERE evidence_digest = ? LIMIT 1",
  );

  return {
    get(id: number): AttestationRow {
      const row = byId.get(id);
      if (!row) throw new Error(`attestation ${id} is gone`);
      return row;
    },
    findByPublicId: (organizationId: number, publicId: string): PlacedAttestationRow | null =>
      byPublicId.get(publicId, organizationId) ?? null,
    /** Appends a record, of which actions are told. @returns its key and public id. */
    create(record: NewAttestation): { id: number; publicId: string } {
      const publicId = newId();
      const id = Number(insert.run(publicId, ...FIELDS.map((field) => record[field])).lastInsertRowid);
      addToSeries(id, record);
      triggers.raiseAttested(record.flow_id, id, record.created_at);
      return { id, publicId };
    },
    /** Makes a record one of the trail itself. */
    bindToTrail: (trailId: number, id: number, name: string): void =>
      void setCurrent.run(trailId, TRAIL_LEVEL, name, id),
    /**
     * Gives a record to an artifact of the trail. Of several records of a name the latest counts, in whatever order
     * they are bound.
     */
    bindToArtifact(trailId: number, artifactId: number, id: number, name: string): void {
      bind.run(artifactId, id);
      setCurrent.run(trailId, artifactId, name, id);
    },
    /** Lets a record wait for artifacts of that name and commit. */
    addPendingBinding: (trailId: number, referenceName: string, commit: string, id: number): void =>
      void wait.run(trailId, referenceName, commit, id),
    /** The latest record under a name on the trail (artifactId null) or on an artifact. */
    findCurrent(trailId: number, artifactId: number | null, name: string): AttestationRow | null {
      const found = currentOf.get(trailId, artifactId ?? TRAIL_LEVEL, name);
      return found ? (byId.get(found.attestation_id) ?? null) : null;
    },
    /** The latest record under a name that waits for artifacts of that reference name and commit. */
    findLatestPending(trailId: number, referenceName: string, commit: string, name: string): AttestationRow | null {
      const found = latestWaitingFor.get(trailId, referenceName, commit, name);
      return found ? (byId.get(found.attestation_id) ?? null) : null;
    },
    /**
     * What an artifact of this identity may receive of what was reported before it: candidates for pendingFor, in the
     * order of their reports (semantics 3.2).
     */
    listBindingCandidates(
      trailId: number,
      artifact: { fingerprint: string; referenceName: string | null; gitCommit: string },
    ): BindingCandidate[] {
      const waiting =
        artifact.referenceName === null ? [] : waitingFor.all(trailId, artifact.referenceName, artifact.gitCommit);
      return [
        ...ofFingerprint.all(trailId, artifact.fingerprint).map(({ id, name }) => ({
          id,
          name,
          attestationId: String(id),
          artifactFingerprint: artifact.fingerprint,
          targetArtifacts: [],
          commit: null,
        })),
        ...waiting.map((row) => ({
          id: row.id,
          name: row.name,
          attestationId: String(row.id),
          artifactFingerprint: null,
          targetArtifacts: JSON.parse(row.target_artifacts_json ?? "[]") as string[],
          commit: row.git_commit,
        })),
      ].sort((a, b) => a.id - b.id);
    },
    /** The latest record of every name in a trail, by artifact key; the trail's own under null. */
    readFacts(trailId: number): Map<number | null, AttestationFact[]> {
      const facts = new Map<number | null, AttestationFact[]>();
      for (const row of currentOfTrail.all(trailId)) {
        const key = row.artifact_id === TRAIL_LEVEL ? null : row.artifact_id;
        const list = facts.get(key);
        if (list) list.push(factOf(row));
        else facts.set(key, [factOf(row)]);
      }
      return facts;
    },
    /**
     * What a policy may look at for an artifact in its trail: the latest record of each name on both levels (semantics
     * 5.4).
     */
    listPolicyCandidates(trailId: number, artifactId: number): AttestationCandidate[] {
      return currentOfBoth.all(trailId, artifactId).map((row) => ({
        name: row.name,
        type: factOf(row).type,
        isCompliant: row.is_compliant === 1,
        control: row.original_public_id === null ? row.control : row.original_control,
        attestationId: row.public_id,
        level: row.artifact_id === TRAIL_LEVEL ? "trail" : "artifact",
        sequence: row.id,
      }));
    },
    /** Whether any record has the content with this SHA-256 (hex) attached. */
    isEvidenceReferenced: (digest: string): boolean => byEvidence.get(digest) !== undefined,
    /** Name and time of every record that an artifact ever received, oldest first. */
    listReceivedBy: (artifactId: number): { name: string; created_at: number }[] => received.all(artifactId),
    /** The latest record of each name on an artifact, oldest first. */
    listLatestByArtifact: (trailId: number, artifactId: number): PlacedAttestationRow[] =>
      boundLatest.all(trailId, artifactId),
  };
}
