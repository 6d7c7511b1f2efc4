/**
 * Attestation records, append-only, and two derived tables: the artifacts that each record is bound to, and the latest
 * record of each name.
 *
 * Invariant: the derived tables are written in the transaction that records the attestation or the artifact.
 */
import { isListOf, isText, readStoredJson } from "../../domain/stored-json.ts";
import type { ArtifactAttestation } from "../../domain/attestation/binding.ts";
import type { AttestationFact } from "../../domain/compliance/attestation.ts";
import type { AttestationCandidate } from "../../domain/policy/evaluate.ts";
import { attestationSeriesWriter } from "./attestation-search.ts";
import type { Db, SchemaSources } from "../db/types.ts";
import { selectList } from "../db/columns.ts";
import { COLUMNS, FIELD_NAMES, LISTED_ATTESTATIONS, placed } from "./attestation-rows.ts";
import type { NewAttestation, PlacedAttestationRow, AttestationRow } from "./attestation-rows.ts";

/** A record that can be bound to an artifact; `attestationId` is its id as text. */
type BindingCandidate = ArtifactAttestation & { id: number; name: string };
/** The start of every query for whole records. The alias of the record is `att`. */
export const PLACED_ATTESTATIONS = placed(selectList(COLUMNS, "att"));
/** The artifact_id of the trail's own rows in current_attestations. */
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
};
/** The record that an override overrides. */
type Original = { public_id: string; type: string; control: string | null };

/** The artifacts that a record waits for. */
type PendingKey = { trailId: number; referenceName: string; commit: string };
type PendingRow = { id: number; name: string; git_commit: string; target_artifacts_json: string | null };
/** The identity of an artifact, as far as bindings depend on it. */
type BindingTarget = { fingerprint: string; referenceName: string | null; gitCommit: string | null };

/** The latest records. */
const CURRENT = `SELECT cur.artifact_id, att.id, att.public_id, att.name, att.type, att.is_compliant,
    att.overridden_type, att.control
  FROM current_attestations cur JOIN attestations att ON att.id = cur.attestation_id`;

/** A latest record; an override with what it overrides, null where nothing was reported. */
type Current = { row: CurrentRow; original: Original | null };

/**
 * The fact that a latest record stands for (semantics 3.6). An override in force has the id and type of the newest
 * ordinary record; without one, it has no id, and the type that the report named for the original.
 */
function factOf({ row, original }: Current): AttestationFact {
  const isOverride = row.overridden_type !== null;
  return {
    name: row.name,
    type: original?.type ?? row.overridden_type ?? row.type,
    attestationId: isOverride ? (original?.public_id ?? null) : row.public_id,
    overriddenAttestationId: isOverride ? row.public_id : null,
    isCompliant: row.is_compliant === 1,
  };
}

/**
 * The newest ordinary record of a name on a trail or an artifact, which an override there overrides. The override's
 * report cannot fix that record, because an artifact may be reported after both, and one override may be bound to
 * several artifacts with originals of their own.
 *
 * A query of its own for each override, which few records are: joined to that of the latest records it doubled what
 * every attestation takes to read them (46 us instead of 21 for four records).
 */
function originalFinder(db: Db) {
  const columns = "earlier.public_id, earlier.type, earlier.control";
  const onTrail = db.prepare<[number, string], Original>(
    `SELECT ${columns} FROM attestations earlier
     WHERE earlier.trail_id = ? AND earlier.name = ? AND earlier.scope = 'trail' AND earlier.overridden_type IS NULL
     ORDER BY earlier.id DESC LIMIT 1`,
  );
  const onArtifact = db.prepare<[number, string], Original>(
    `SELECT ${columns} FROM attestation_bindings b JOIN attestations earlier ON earlier.id = b.attestation_id
     WHERE b.artifact_id = ? AND earlier.name = ? AND earlier.overridden_type IS NULL
     ORDER BY b.attestation_id DESC LIMIT 1`,
  );
  return (trailId: number, row: CurrentRow): Current => {
    const { artifact_id: artifactId, name, overridden_type: overridden } = row;
    if (overridden === null) return { row, original: null };
    const found = artifactId === TRAIL_LEVEL ? onTrail.get(trailId, name) : onArtifact.get(artifactId, name);
    return { row, original: found ?? null };
  };
}

/** Announced inside the write, to areas that this one does not know. `at`: epoch seconds. */
export type AttestationChanges = { onAttested(flowId: number, attestationId: number, at: number): void };

export function attestationStore(db: Db, { newId }: SchemaSources, { onAttested }: AttestationChanges) {
  const addToSeries = attestationSeriesWriter(db);
  const withOriginal = originalFinder(db);
  const insert = db.prepare(
    `INSERT INTO attestations (public_id, ${FIELD_NAMES.join(", ")})
     VALUES (?, ${FIELD_NAMES.map(() => "?").join(", ")})`,
  );
  const byId = db.prepare<[number], AttestationRow>(`SELECT ${selectList(COLUMNS)} FROM attestations WHERE id = ?`);
  const byPublicId = db.prepare<[string, number], PlacedAttestationRow>(
    `${LISTED_ATTESTATIONS} WHERE att.public_id = ? AND att.organization_id = ?`,
  );
  const bind = db.prepare(
    "INSERT INTO attestation_bindings (artifact_id, attestation_id) VALUES (?, ?) ON CONFLICT DO NOTHING",
  );
  const insertPending = db.prepare(
    `INSERT INTO pending_bindings (trail_id, reference_name, git_commit, attestation_id) VALUES (?, ?, ?, ?)
     ON CONFLICT DO NOTHING`,
  );
  // The latest record wins, also when an older one is bound after it.
  const setCurrent = db.prepare(
    `INSERT INTO current_attestations (trail_id, artifact_id, name, attestation_id) VALUES (?, ?, ?, ?)
     ON CONFLICT (trail_id, artifact_id, name) DO UPDATE
     SET attestation_id = max(attestation_id, excluded.attestation_id)`,
  );
  const currentId = db.prepare<[number, number, string], { attestation_id: number }>(
    "SELECT attestation_id FROM current_attestations WHERE trail_id = ? AND artifact_id = ? AND name = ?",
  );
  const currentByTrail = db.prepare<[number], CurrentRow>(`${CURRENT} WHERE cur.trail_id = ? ORDER BY att.id`);
  const currentOnBothLevels = db.prepare<[number, number], CurrentRow>(
    `${CURRENT} WHERE cur.trail_id = ? AND cur.artifact_id IN (?, ${TRAIL_LEVEL})
     ORDER BY cur.artifact_id DESC, att.id`,
  );
  const pending = db.prepare<[number, string, string, number], PendingRow>(
    `SELECT att.id, att.name, att.git_commit, att.target_artifacts_json
     FROM pending_bindings pb JOIN attestations att ON att.id = pb.attestation_id
     WHERE pb.trail_id = ? AND pb.reference_name = ? AND pb.git_commit = ? ORDER BY pb.attestation_id LIMIT ?`,
  );
  const latestPending = db.prepare<[number, string, string, string], { attestation_id: number }>(
    `SELECT pb.attestation_id FROM pending_bindings pb JOIN attestations att ON att.id = pb.attestation_id
     WHERE pb.trail_id = ? AND pb.reference_name = ? AND pb.git_commit = ? AND att.name = ?
     ORDER BY pb.attestation_id DESC LIMIT 1`,
  );
  // A report by fingerprint is bound to every artifact of the fingerprint that its trail has, so the first one has all.
  const byFingerprint = db.prepare<{ trail: number; fingerprint: string; limit: number }, { id: number; name: string }>(
    `SELECT att.id, att.name
     FROM attestation_bindings b JOIN attestations att ON att.id = b.attestation_id
     WHERE b.artifact_id = (SELECT min(a.id) FROM artifacts a
                            WHERE a.trail_id = @trail AND a.fingerprint = @fingerprint)
       AND att.artifact_fingerprint = @fingerprint
     ORDER BY b.attestation_id LIMIT @limit`,
  );
  const boundTo = db.prepare<[number], { name: string; created_at: number }>(
    `SELECT att.name, att.created_at FROM attestation_bindings b JOIN attestations att ON att.id = b.attestation_id
     WHERE b.artifact_id = ? ORDER BY att.id`,
  );
  const latestByArtifact = db.prepare<[number, number], PlacedAttestationRow>(
    `${LISTED_ATTESTATIONS} JOIN current_attestations cur ON cur.attestation_id = att.id
     WHERE cur.trail_id = ? AND cur.artifact_id = ? ORDER BY att.id`,
  );

  /** The records that can be bound to a new artifact because they waited for its reference name and commit. */
  const pendingCandidates = (
    trailId: number,
    { referenceName, gitCommit }: BindingTarget,
    limit: number,
  ): BindingCandidate[] =>
    referenceName === null || gitCommit === null
      ? []
      : pending.all(trailId, referenceName, gitCommit, limit).map((row) => ({
          id: row.id,
          name: row.name,
          attestationId: String(row.id),
          artifactFingerprint: null,
          targetArtifacts: readStoredJson(row.target_artifacts_json ?? "[]", isListOf(isText)),
          commit: row.git_commit,
        }));

  return {
    get(id: number): AttestationRow {
      const row = byId.get(id);
      if (!row) throw new Error(`attestation ${id} is gone`);
      return row;
    },
    findByPublicId: (organizationId: number, publicId: string): PlacedAttestationRow | null =>
      byPublicId.get(publicId, organizationId) ?? null,
    /** Appends a record and announces it. @returns its id and public id. */
    create(record: NewAttestation): { id: number; publicId: string } {
      const publicId = newId();
      const id = Number(insert.run(publicId, ...FIELD_NAMES.map((field) => record[field])).lastInsertRowid);
      addToSeries(id, record);
      onAttested(record.flow_id, id, record.created_at);
      return { id, publicId };
    },
    /** Binds a record to the trail itself. */
    bindToTrail: (trailId: number, id: number, name: string): void =>
      void setCurrent.run(trailId, TRAIL_LEVEL, name, id),
    /**
     * Binds a record to an artifact of the trail. The latest record of a name counts, in whatever order they are bound.
     */
    bindToArtifact(
      { trailId, artifactId }: { trailId: number; artifactId: number },
      { id, name }: { id: number; name: string },
    ): void {
      bind.run(artifactId, id);
      setCurrent.run(trailId, artifactId, name, id);
    },
    /** Lets a record wait for artifacts with that reference name and commit. */
    addPendingBinding: (id: number, { trailId, referenceName, commit }: PendingKey): void =>
      void insertPending.run(trailId, referenceName, commit, id),
    /** The latest record under a name on the trail (artifactId null) or on an artifact. */
    findCurrent(trailId: number, artifactId: number | null, name: string): AttestationRow | null {
      const found = currentId.get(trailId, artifactId ?? TRAIL_LEVEL, name);
      return found ? (byId.get(found.attestation_id) ?? null) : null;
    },
    /** The latest record under a name that waits for artifacts with that reference name and commit. */
    findLatestPending({ trailId, referenceName, commit }: PendingKey, name: string): AttestationRow | null {
      const found = latestPending.get(trailId, referenceName, commit, name);
      return found ? (byId.get(found.attestation_id) ?? null) : null;
    },
    /**
     * The earlier records that can be bound to a new artifact: the candidates for pendingFor, in the order of their
     * reports (semantics 3.2).
     * @param limit most of a kind: those by its fingerprint, and those that waited for its name
     */
    listBindingCandidates(trailId: number, artifact: BindingTarget, limit: number): BindingCandidate[] {
      return [
        ...byFingerprint.all({ trail: trailId, fingerprint: artifact.fingerprint, limit }).map(({ id, name }) => ({
          id,
          name,
          attestationId: String(id),
          artifactFingerprint: artifact.fingerprint,
          targetArtifacts: [],
          commit: null,
        })),
        ...pendingCandidates(trailId, artifact, limit),
      ].sort((a, b) => a.id - b.id);
    },
    /** The latest record of every name in a trail, by artifact id; the trail's own under null. */
    readFacts(trailId: number): Map<number | null, AttestationFact[]> {
      const facts = new Map<number | null, AttestationFact[]>();
      for (const row of currentByTrail.all(trailId)) {
        const key = row.artifact_id === TRAIL_LEVEL ? null : row.artifact_id;
        const fact = factOf(withOriginal(trailId, row));
        const list = facts.get(key);
        if (list) list.push(fact);
        else facts.set(key, [fact]);
      }
      return facts;
    },
    /**
     * The attestations that a policy sees for an artifact: the latest record of each name on both levels (semantics
     * 5.4).
     */
    listPolicyCandidates(trailId: number, artifactId: number): AttestationCandidate[] {
      return currentOnBothLevels.all(trailId, artifactId).map((row) => {
        const { original } = withOriginal(trailId, row);
        return {
          name: row.name,
          type: factOf({ row, original }).type,
          isCompliant: row.is_compliant === 1,
          control: original ? original.control : row.control,
          attestationId: row.public_id,
          level: row.artifact_id === TRAIL_LEVEL ? "trail" : "artifact",
          sequence: row.id,
        };
      });
    },
    /** Name and time of every record that was ever bound to an artifact, oldest first. */
    listReceivedBy: (artifactId: number): { name: string; created_at: number }[] => boundTo.all(artifactId),
    /** The latest record of each name on an artifact, oldest first. */
    listLatestByArtifact: (trailId: number, artifactId: number): PlacedAttestationRow[] =>
      latestByArtifact.all(trailId, artifactId),
  };
}
