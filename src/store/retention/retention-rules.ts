/**
 * What may be deleted when, and what may not: rules and legal holds, as the operator sets them. Nothing is deleted here
 * (retention.ts), and nothing by the clock: only `assay retention run` deletes.
 */
import { hash } from "node:crypto";
import type { Db, SchemaSources } from "../db/types.ts";

/** Days after the last thing that happened to a trail; null: never. */
export type RetentionDays = { trails: number | null; evidence: number | null };

/** `flow_id` and `flow_name` are null for the rule of an organization. */
export type RetentionRuleRow = {
  id: number;
  organization_id: number;
  organization_name: string;
  flow_id: number | null;
  flow_name: string | null;
  trails_after_days: number | null;
  evidence_after_days: number | null;
};

/** A hold on an organization (`flow_id` null), a flow (`trail_public_id` null) or a trail. Times in epoch seconds. */
export type LegalHoldRow = {
  id: number;
  public_id: string;
  organization_id: number;
  organization_name: string;
  flow_id: number | null;
  flow_name: string | null;
  trail_public_id: string | null;
  trail_name: string | null;
  reason: string;
  placed_by: string;
  placed_at: number;
  released_by: string | null;
  released_at: number | null;
};

/** What a rule or a hold is on. */
export type RetentionScope = { organizationId: number; flowId: number | null };

const RULES = `SELECT r.id, r.organization_id, o.name AS organization_name, r.flow_id, f.name AS flow_name, r.trails_after_days, r.evidence_after_days
  FROM retention_rules r JOIN organizations o ON o.id = r.organization_id LEFT JOIN flows f ON f.id = r.flow_id`;
const HOLDS = `SELECT h.id, h.public_id, h.organization_id, o.name AS organization_name, h.flow_id, f.name AS flow_name, h.trail_public_id, h.trail_name,
    h.reason, h.placed_by, h.placed_at, h.released_by, h.released_at
  FROM legal_holds h JOIN organizations o ON o.id = h.organization_id LEFT JOIN flows f ON f.id = h.flow_id`;

export function retentionRuleStore(db: Db, { now, newId }: SchemaSources) {
  const rules = db.prepare<[], RetentionRuleRow>(`${RULES} ORDER BY o.name, f.name`);
  const put = db.prepare<[number, number | null, number | null, number | null, number, number]>(
    `INSERT INTO retention_rules (organization_id, flow_id, trails_after_days, evidence_after_days, created_at, last_modified_at) VALUES (?, ?, ?, ?, ?, ?)
     ON CONFLICT (organization_id, coalesce(flow_id, 0)) DO UPDATE
     SET trails_after_days = excluded.trails_after_days, evidence_after_days = excluded.evidence_after_days, last_modified_at = excluded.last_modified_at`,
  );
  const remove = db.prepare<[number, number | null]>(
    "DELETE FROM retention_rules WHERE organization_id = ? AND flow_id IS ?",
  );
  const holds = db.prepare<[], LegalHoldRow>(`${HOLDS} ORDER BY h.id`);
  const holdByPublicId = db.prepare<[string], LegalHoldRow>(`${HOLDS} WHERE h.public_id = ?`);
  const place = db.prepare(
    "INSERT INTO legal_holds (public_id, organization_id, flow_id, trail_public_id, trail_name, reason, placed_by, placed_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
  );
  const release = db.prepare(
    "UPDATE legal_holds SET released_by = ?, released_at = ? WHERE id = ? AND released_at IS NULL",
  );

  const active = (): LegalHoldRow[] => holds.all().filter(({ released_at }) => released_at === null);

  return {
    /** All rules, by organization, each with the rule of the organization first. */
    list: (): RetentionRuleRow[] => rules.all(),
    /** Sets the rule of an organization or flow. */
    set({ organizationId, flowId }: RetentionScope, { trails, evidence }: RetentionDays): void {
      const at = now();
      put.run(organizationId, flowId, trails, evidence, at, at);
    },
    /** @returns whether there was one. */
    delete: ({ organizationId, flowId }: RetentionScope): boolean => remove.run(organizationId, flowId).changes > 0,
    /** All holds that ever were, oldest first. */
    listHolds: (): LegalHoldRow[] => holds.all(),
    /** Holds that are in force. */
    listActiveHolds: active,
    findHold: (publicId: string): LegalHoldRow | null => holdByPublicId.get(publicId) ?? null,
    /** @returns the public id of the hold. */
    createHold(
      { organizationId, flowId }: RetentionScope,
      trail: { public_id: string; name: string } | null,
      why: { reason: string; by: string },
    ): string {
      const publicId = newId();
      place.run(
        publicId,
        organizationId,
        flowId,
        trail?.public_id ?? null,
        trail?.name ?? null,
        why.reason,
        why.by,
        now(),
      );
      return publicId;
    },
    /** Ends a hold, which stays in the history. @returns whether it was in force. */
    releaseHold: (id: number, by: string): boolean => release.run(by, now(), id).changes > 0,
    /** A text that changes with every rule, and with every hold that is in force. */
    digest: (): string =>
      hash(
        "sha256",
        JSON.stringify([
          rules
            .all()
            .map((rule) => [rule.organization_id, rule.flow_id, rule.trails_after_days, rule.evidence_after_days]),
          active().map(({ public_id }) => public_id),
        ]),
      ),
  };
}
