import type { Db } from "../db/types.ts";
import { LISTED_ATTESTATIONS } from "./attestation-rows.ts";
import type { PlacedAttestationRow } from "./attestation-rows.ts";

export type Span = { from: number | null; to: number | null };

export function attestationListStore(db: Db) {
  const ofName = db.prepare<[number, string], PlacedAttestationRow>(
    `${LISTED_ATTESTATIONS} WHERE a.trail_id = ? AND a.name = ? AND a.scope = 'trail' ORDER BY a.id DESC`,
  );
  // The artifact leads (the unary plus keeps the name's index out of it): it has few records, a name may have very
  // many.
  const ofArtifact = db.prepare<[string, number, string], PlacedAttestationRow>(
    `${LISTED_ATTESTATIONS} WHERE +a.name = ? AND a.id IN (
       SELECT b.attestation_id FROM artifacts r JOIN attestation_bindings b ON b.artifact_id = r.id WHERE r.flow_id = ? AND r.fingerprint = ?
     ) ORDER BY a.id DESC`,
  );
  const ofFlow = db.prepare<[number, number, number, number, number], PlacedAttestationRow>(
    `${LISTED_ATTESTATIONS} WHERE a.flow_id = ? AND a.created_at >= ? AND a.created_at <= ? ORDER BY a.created_at DESC, a.id DESC LIMIT ? OFFSET ?`,
  );
  const countOfFlow = db.prepare<[number, number, number], { n: number }>(
    "SELECT count(*) AS n FROM attestations WHERE flow_id = ? AND created_at >= ? AND created_at <= ?",
  );
  // Without a window the index alone can count.
  const countAllOfFlow = db.prepare<[number], { n: number }>(
    "SELECT count(*) AS n FROM attestations WHERE flow_id = ?",
  );
  const ofCommit = db.prepare<[number, string], PlacedAttestationRow>(
    `${LISTED_ATTESTATIONS} WHERE a.organization_id = ? AND a.git_commit = ? ORDER BY a.id DESC`,
  );

  const bounds = ({ from, to }: Span): [number, number] => [from ?? 0, to ?? Number.MAX_SAFE_INTEGER];

  return {
    /** The history under a name on the trail itself, row by row: it has no pages, and may be longer than memory. */
    listByTrail: (trailId: number, name: string): IterableIterator<PlacedAttestationRow> =>
      ofName.iterate(trailId, name),
    /** The history under a name on an artifact of a flow, in whatever trail it was reported; row by row. */
    listByArtifact: (flowId: number, fingerprint: string, name: string): IterableIterator<PlacedAttestationRow> =>
      ofArtifact.iterate(name, flowId, fingerprint),
    /** One page of a flow's records within a time span. */
    listByFlow: (flowId: number, span: Span, limit: number, offset: number): PlacedAttestationRow[] =>
      ofFlow.all(flowId, ...bounds(span), limit, offset),
    countByFlow(flowId: number, span: Span): number {
      const counted =
        span.from === null && span.to === null ? countAllOfFlow.get(flowId) : countOfFlow.get(flowId, ...bounds(span));
      return counted?.n ?? 0;
    },
    /** All records about a commit, row by row. */
    listByCommit: (organizationId: number, sha: string): IterableIterator<PlacedAttestationRow> =>
      ofCommit.iterate(organizationId, sha),
  };
}
