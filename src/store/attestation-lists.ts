/** Lists of attestation records: by filters with a cursor, of a flow, under a name, by commit. Newest first, always. */
import { PLACED_ATTESTATIONS } from "./attestations.ts";
import type { PlacedAttestationRow } from "./attestations.ts";
import type { Db } from "./database.ts";

export type AttestationFilter = {
  organizationId: number;
  /** Only records older than this key: the cursor. */
  before: number | null;
  publicId: string | null;
  /** Any of these names. */
  names: readonly string[] | null;
  /** Any of these flows. */
  flowIds: readonly number[] | null;
  /** Any of these stored labels; an override counts as what it overrides, and as `override`. */
  types: readonly string[] | null;
  isCompliant: boolean | null;
  /** Epoch seconds, inclusive. */
  from: number | null;
  to: number | null;
};

export type Span = { from: number | null; to: number | null };

export function attestationListStore(db: Db) {
  const ofName = db.prepare<[number, string], PlacedAttestationRow>(
    `${PLACED_ATTESTATIONS} WHERE a.trail_id = ? AND a.name = ? AND a.scope = 'trail' ORDER BY a.id DESC`,
  );
  // The artifact leads (the unary plus keeps the name's index out of it): it has few records, a name may have very many.
  const ofArtifact = db.prepare<[string, number, string], PlacedAttestationRow>(
    `${PLACED_ATTESTATIONS} WHERE +a.name = ? AND a.id IN (
       SELECT b.attestation_id FROM artifacts r JOIN attestation_bindings b ON b.artifact_id = r.id WHERE r.flow_id = ? AND r.fingerprint = ?
     ) ORDER BY a.id DESC`,
  );
  // A loose index scan: one look-up for each distinct name, however many records there are.
  const names = db.prepare<[number, number], { name: string }>(
    `WITH RECURSIVE n (name) AS (
       SELECT min(name) FROM attestations WHERE organization_id = ?
       UNION ALL
       SELECT (SELECT min(name) FROM attestations WHERE organization_id = ? AND name > n.name) FROM n WHERE n.name IS NOT NULL
     ) SELECT name FROM n WHERE name IS NOT NULL`,
  );
  const ofFlow = db.prepare<[number, number, number, number, number], PlacedAttestationRow>(
    `${PLACED_ATTESTATIONS} WHERE a.flow_id = ? AND a.created_at >= ? AND a.created_at <= ? ORDER BY a.id DESC LIMIT ? OFFSET ?`,
  );
  const countOfFlow = db.prepare<[number, number, number], { n: number }>(
    "SELECT count(*) AS n FROM attestations WHERE flow_id = ? AND created_at >= ? AND created_at <= ?",
  );
  // Without a window the index alone can count.
  const countAllOfFlow = db.prepare<[number], { n: number }>("SELECT count(*) AS n FROM attestations WHERE flow_id = ?");
  const ofCommit = db.prepare<[number, string], PlacedAttestationRow>(
    `${PLACED_ATTESTATIONS} WHERE a.organization_id = ? AND a.git_commit = ? ORDER BY a.id DESC`,
  );

  const bounds = ({ from, to }: Span): [number, number] => [from ?? 0, to ?? Number.MAX_SAFE_INTEGER];

  return {
    /** At most `limit` records that fit every given filter. */
    search(filter: AttestationFilter, limit: number): PlacedAttestationRow[] {
      if ([filter.names, filter.flowIds, filter.types].some((list) => list?.length === 0)) return [];
      const parts = ["a.organization_id = ?"];
      const values: (string | number)[] = [filter.organizationId];
      const add = (sql: string, ...more: (string | number)[]): void => {
        parts.push(sql);
        values.push(...more);
      };
      if (filter.publicId !== null) add("a.public_id = ?", filter.publicId);
      if (filter.before !== null) add("a.id < ?", filter.before);
      // One name or flow has an index in the order of the answer; several are looked for in the records of the organization.
      const anyOf = (column: string, list: readonly (string | number)[] | null): void => {
        if (list?.length === 1) add(`${column} = ?`, list[0] as string | number);
        else if (list) add(`${column} IN (SELECT value FROM json_each(?))`, JSON.stringify(list));
      };
      anyOf("a.name", filter.names);
      anyOf("a.flow_id", filter.flowIds);
      if (filter.types !== null) {
        const list = JSON.stringify(filter.types);
        add("(a.type IN (SELECT value FROM json_each(?)) OR a.overridden_type IN (SELECT value FROM json_each(?)))", list, list);
      }
      if (filter.isCompliant !== null) add("a.is_compliant = ?", filter.isCompliant ? 1 : 0);
      if (filter.from !== null) add("a.created_at >= ?", filter.from);
      if (filter.to !== null) add("a.created_at <= ?", filter.to);
      return db
        .prepare<(string | number)[], PlacedAttestationRow>(`${PLACED_ATTESTATIONS} WHERE ${parts.join(" AND ")} ORDER BY a.id DESC LIMIT ?`)
        .all(...values, limit);
    },
    /** Every name in use in an organization, in code point order. */
    names: (organizationId: number): string[] => names.all(organizationId, organizationId).map((row) => row.name),
    /** The history under a name on the trail itself. */
    underTrail: (trailId: number, name: string): PlacedAttestationRow[] => ofName.all(trailId, name),
    /** The history under a name on an artifact of a flow, in whatever trail it was reported. */
    underArtifact: (flowId: number, fingerprint: string, name: string): PlacedAttestationRow[] =>
      ofArtifact.all(name, flowId, fingerprint),
    /** One page of a flow's records within a time span. */
    ofFlow: (flowId: number, span: Span, limit: number, offset: number): PlacedAttestationRow[] => ofFlow.all(flowId, ...bounds(span), limit, offset),
    countOfFlow(flowId: number, span: Span): number {
      const counted = span.from === null && span.to === null ? countAllOfFlow.get(flowId) : countOfFlow.get(flowId, ...bounds(span));
      return counted?.n ?? 0;
    },
    /** All records about a commit. */
    ofCommit: (organizationId: number, sha: string): PlacedAttestationRow[] => ofCommit.all(organizationId, sha),
  };
}
