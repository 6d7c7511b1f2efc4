import type { Direction } from "./controls.ts";
import type { Db } from "../db/types.ts";
import { LISTED_ATTESTATIONS } from "../attestations/attestation-rows.ts";
import type { PlacedAttestationRow } from "../attestations/attestation-rows.ts";

export type DecisionFilter = {
  isCompliant: boolean | null;
  /** Epoch seconds, inclusive. */
  from: number | null;
  to: number | null;
  /** Public ids of flows, any may match; null: every flow. */
  flows: readonly string[] | null;
};

/** The artifact that a decision belongs to. */
export type DecidedArtifact = { filename: string; fingerprint: string };

/**
 * All of it is in the index of the control, so that only the records of a page are read; the unary plus keeps the index
 * of times out of it.
 */
const DECIDED = `organization_id = @organization AND control = @control
   AND +created_at >= @from AND +created_at <= @to AND (@compliant IS NULL OR is_compliant = @compliant)
   AND (@flows IS NULL OR flow_id IN (SELECT id FROM flows WHERE public_id IN (SELECT value FROM json_each(@flows))))`;

type Parameters = {
  organization: number;
  control: string;
  compliant: 0 | 1 | null;
  from: number;
  to: number;
  flows: string | null;
};

export function controlDecisionStore(db: Db) {
  const listing = (order: string) =>
    db.prepare<[Parameters & { limit: number; offset: number }], PlacedAttestationRow>(
      `${LISTED_ATTESTATIONS} WHERE a.id IN (SELECT id FROM attestations WHERE ${DECIDED} ORDER BY id ${order} LIMIT @limit OFFSET @offset) ORDER BY a.id ${order}`,
    );
  const lists = { asc: listing("ASC"), desc: listing("DESC") };
  const counting = db.prepare<[Parameters], { total: number }>(
    `SELECT count(*) AS total FROM attestations WHERE ${DECIDED}`,
  );
  // The latest of several: an artifact that was built again, with the same name and commit.
  const bound = db.prepare<[number, number], DecidedArtifact>(
    `SELECT artifact.filename, artifact.fingerprint FROM artifacts AS artifact
     WHERE artifact.trail_id = ? AND EXISTS (SELECT 1 FROM attestation_bindings WHERE artifact_id = artifact.id AND attestation_id = ?)
     ORDER BY artifact.id DESC LIMIT 1`,
  );

  const parameters = (
    organization: number,
    control: string,
    { isCompliant, from, to, flows }: DecisionFilter,
  ): Parameters => ({
    organization,
    control,
    compliant: isCompliant === null ? null : isCompliant ? 1 : 0,
    from: from ?? -Infinity,
    to: to ?? Infinity,
    flows: flows === null ? null : JSON.stringify(flows),
  });

  return {
    /** Decisions by their time. */
    list: (
      organization: number,
      control: string,
      filter: DecisionFilter,
      direction: Direction,
      { limit, offset }: { limit: number; offset: number },
    ): PlacedAttestationRow[] => lists[direction].all({ ...parameters(organization, control, filter), limit, offset }),
    /** How many decisions `list` would give in all. */
    count: (organization: number, control: string, filter: DecisionFilter): number =>
      counting.get(parameters(organization, control, filter))?.total ?? 0,
    /**
     * The artifact that a decision belongs to; null for one on a trail, and for one whose artifact was not reported
     * yet.
     */
    findArtifact: ({ id, scope, trail_id }: PlacedAttestationRow): DecidedArtifact | null =>
      scope === "artifact" ? (bound.get(trail_id, id) ?? null) : null,
  };
}
