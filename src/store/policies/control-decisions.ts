/** Control decisions: attestations that decide about a control, with filters. Read-only. */
import type { Direction } from "./controls.ts";
import type { DbReader } from "../db/types.ts";
import { LISTED_ATTESTATIONS } from "../attestations/attestation-rows.ts";
import type { PlacedAttestationRow } from "../attestations/attestation-rows.ts";

export type DecisionFilter = {
  isCompliant: boolean | null;
  /** Epoch seconds, inclusive. */
  from: number | null;
  to: number | null;
  /** Public ids of flows, any of them; null: every flow. */
  flows: readonly string[] | null;
};

/** The artifact that a decision is about. */
type DecidedArtifact = { filename: string; fingerprint: string };

/**
 * The index of the control contains every column of this, so that only the records of a page are read. The unary plus
 * disables the index of times.
 */
const DECIDED = `organization_id = @organization AND control = @control
   AND +created_at >= @from AND +created_at <= @to AND (@compliant IS NULL OR is_compliant = @compliant)
   AND (@flows IS NULL OR flow_id IN (
     SELECT id FROM flows WHERE public_id IN (SELECT value FROM json_each(@flows))))`;

type Parameters = {
  organization: number;
  control: string;
  compliant: 0 | 1 | null;
  from: number;
  to: number;
  flows: string | null;
};

/** A control of an organization. `control` is its identifier. */
type DecisionKey = { organizationId: number; control: string };

export function controlDecisionStore(db: DbReader) {
  const listing = (order: string) =>
    db.prepare<[Parameters & { limit: number; offset: number }], PlacedAttestationRow>(
      `${LISTED_ATTESTATIONS} WHERE att.id IN (
         SELECT id FROM attestations WHERE ${DECIDED} ORDER BY id ${order} LIMIT @limit OFFSET @offset
       ) ORDER BY att.id ${order}`,
    );
  const lists = { asc: listing("ASC"), desc: listing("DESC") };
  const between = db.prepare<[Parameters & { after: number; upTo: number; limit: number }], PlacedAttestationRow>(
    `${LISTED_ATTESTATIONS} WHERE att.id IN (
       SELECT id FROM attestations WHERE ${DECIDED} AND id > @after AND id <= @upTo ORDER BY id LIMIT @limit
     ) ORDER BY att.id`,
  );
  const latestId = db.prepare<[Parameters], number | null>(`SELECT max(id) FROM attestations WHERE ${DECIDED}`).pluck();
  const counting = db.prepare<[Parameters], { total: number }>(
    `SELECT count(*) AS total FROM attestations WHERE ${DECIDED}`,
  );
  // The latest of several: the artifact was built again, with the same name and commit.
  const boundArtifact = db.prepare<[number, number], DecidedArtifact>(
    `SELECT a.filename, a.fingerprint FROM artifacts AS a
     WHERE a.trail_id = ?
       AND EXISTS (SELECT 1 FROM attestation_bindings b WHERE b.artifact_id = a.id AND b.attestation_id = ?)
     ORDER BY a.id DESC LIMIT 1`,
  );

  const parameters = (
    { organizationId, control }: DecisionKey,
    { isCompliant, from, to, flows }: DecisionFilter,
  ): Parameters => ({
    organization: organizationId,
    control,
    compliant: isCompliant === null ? null : isCompliant ? 1 : 0,
    from: from ?? -Infinity,
    to: to ?? Infinity,
    flows: flows === null ? null : JSON.stringify(flows),
  });

  return {
    /** One page of decisions, in the order of their time. */
    list: (
      key: DecisionKey,
      filter: DecisionFilter,
      { direction, limit, offset }: { direction: Direction; limit: number; offset: number },
    ): PlacedAttestationRow[] => lists[direction].all({ ...parameters(key, filter), limit, offset }),
    /** The row id of the latest decision; 0 without any. */
    findLatestId: (key: DecisionKey, filter: DecisionFilter): number => latestId.get(parameters(key, filter)) ?? 0,
    /** Decisions behind one row id, up to another one, oldest first. No read looks at those before it. */
    listBetween: (
      key: DecisionKey,
      filter: DecisionFilter,
      range: { after: number; upTo: number; limit: number },
    ): PlacedAttestationRow[] => between.all({ ...parameters(key, filter), ...range }),
    /** How many decisions `list` has on all pages. */
    count: (key: DecisionKey, filter: DecisionFilter): number => counting.get(parameters(key, filter))?.total ?? 0,
    /**
     * The artifact that a decision is about; null for one on a trail, and for one whose artifact was not reported yet.
     */
    findArtifact: ({
      id,
      scope,
      trail_id,
    }: Pick<PlacedAttestationRow, "id" | "scope" | "trail_id">): DecidedArtifact | null =>
      scope === "artifact" ? (boundArtifact.get(trail_id, id) ?? null) : null,
  };
}
