/** Histories of attestations: under a name on a trail or an artifact, of a flow, and about a commit. Newest first. */
import type { DbReader } from "../db/types.ts";
import { LISTED_ATTESTATIONS } from "./attestation-rows.ts";
import type { PlacedAttestationRow } from "./attestation-rows.ts";

/** A time span in epoch seconds, both ends included; null: unbounded. */
type Span = { from: number | null; to: number | null };

/** Records of a trail that a list shows; null: all. At most one of the filters is given. */
type TrailRecords = { ids: readonly string[] } | { name: string } | null;

export function attestationListStore(db: DbReader) {
  const byTrail = db.prepare<[number, string], PlacedAttestationRow>(
    `${LISTED_ATTESTATIONS} WHERE att.trail_id = ? AND att.name = ? AND att.scope = 'trail' ORDER BY att.id DESC`,
  );
  const inTrail = db.prepare<[number, number, number], PlacedAttestationRow>(
    // Only ids are sorted: the records of a long trail are not read.
    `${LISTED_ATTESTATIONS} WHERE att.id IN (
       SELECT id FROM attestations WHERE trail_id = ? ORDER BY id DESC LIMIT ? OFFSET ?) ORDER BY att.id DESC`,
  );
  const inTrailByName = db.prepare<[number, string, number, number], PlacedAttestationRow>(
    `${LISTED_ATTESTATIONS} WHERE att.trail_id = ? AND att.name = ? ORDER BY att.id DESC LIMIT ? OFFSET ?`,
  );
  // The ids lead: they are few, and each is unique.
  const inTrailByIds = db.prepare<[string, number, number, number], PlacedAttestationRow>(
    `${LISTED_ATTESTATIONS} WHERE att.public_id IN (SELECT value FROM json_each(?)) AND +att.trail_id = ?
     ORDER BY att.id DESC LIMIT ? OFFSET ?`,
  );
  const countInTrail = db.prepare<[number], number>("SELECT count(*) FROM attestations WHERE trail_id = ?").pluck();
  const countInTrailByName = db
    .prepare<[number, string], number>("SELECT count(*) FROM attestations WHERE trail_id = ? AND name = ?")
    .pluck();
  const countInTrailByIds = db
    .prepare<[string, number], number>(
      `SELECT count(*) FROM attestations
       WHERE public_id IN (SELECT value FROM json_each(?)) AND +trail_id = ?`,
    )
    .pluck();
  // The artifact leads (the unary plus disables the index of the name): it has few records, a name may have very many.
  const byArtifact = db.prepare<[string, number, string], PlacedAttestationRow>(
    `${LISTED_ATTESTATIONS} WHERE +att.name = ? AND att.id IN (
       SELECT b.attestation_id FROM artifacts a JOIN attestation_bindings b ON b.artifact_id = a.id
       WHERE a.flow_id = ? AND a.fingerprint = ?
     ) ORDER BY att.id DESC`,
  );
  const byFlow = db.prepare<[number, number, number, number, number], PlacedAttestationRow>(
    `${LISTED_ATTESTATIONS} WHERE att.flow_id = ? AND att.created_at >= ? AND att.created_at <= ?
     ORDER BY att.created_at DESC, att.id DESC LIMIT ? OFFSET ?`,
  );
  const countByFlow = db.prepare<[number, number, number], { n: number }>(
    "SELECT count(*) AS n FROM attestations WHERE flow_id = ? AND created_at >= ? AND created_at <= ?",
  );
  // Without a time span the index alone can count.
  const countAllByFlow = db.prepare<[number], { n: number }>(
    "SELECT count(*) AS n FROM attestations WHERE flow_id = ?",
  );
  const byCommit = db.prepare<[number, string], PlacedAttestationRow>(
    `${LISTED_ATTESTATIONS} WHERE att.organization_id = ? AND att.git_commit = ? ORDER BY att.id DESC`,
  );

  const bounds = ({ from, to }: Span): [number, number] => [from ?? 0, to ?? Number.MAX_SAFE_INTEGER];

  return {
    /** The history under a name on the trail itself, row by row: it has no pages and may exceed the memory. */
    listByTrail: (trailId: number, name: string): IterableIterator<PlacedAttestationRow> =>
      byTrail.iterate(trailId, name),
    /** One page of the records of a trail and its artifacts, row by row. */
    listInTrail(
      trailId: number,
      records: TrailRecords,
      { limit, offset }: { limit: number; offset: number },
    ): IterableIterator<PlacedAttestationRow> {
      if (records === null) return inTrail.iterate(trailId, limit, offset);
      return "name" in records
        ? inTrailByName.iterate(trailId, records.name, limit, offset)
        : inTrailByIds.iterate(JSON.stringify(records.ids), trailId, limit, offset);
    },
    /** How many records `listInTrail` has on all pages. */
    countInTrail(trailId: number, records: TrailRecords): number {
      if (records === null) return countInTrail.get(trailId) ?? 0;
      const count =
        "name" in records
          ? countInTrailByName.get(trailId, records.name)
          : countInTrailByIds.get(JSON.stringify(records.ids), trailId);
      return count ?? 0;
    },
    /** The history under a name on an artifact of a flow, in any trail; row by row. */
    listByArtifact: (flowId: number, fingerprint: string, name: string): IterableIterator<PlacedAttestationRow> =>
      byArtifact.iterate(name, flowId, fingerprint),
    /** One page of a flow's records within a time span, row by row. */
    listByFlow: (
      flowId: number,
      span: Span,
      { limit, offset }: { limit: number; offset: number },
    ): IterableIterator<PlacedAttestationRow> => byFlow.iterate(flowId, ...bounds(span), limit, offset),
    countByFlow(flowId: number, span: Span): number {
      const counted =
        span.from === null && span.to === null ? countAllByFlow.get(flowId) : countByFlow.get(flowId, ...bounds(span));
      return counted?.n ?? 0;
    },
    /** All records about a commit, row by row. */
    listByCommit: (organizationId: number, sha: string): IterableIterator<PlacedAttestationRow> =>
      byCommit.iterate(organizationId, sha),
  };
}
