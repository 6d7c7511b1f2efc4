/**
 * Retention rules and legal holds, as the operator and admins set them. Nothing is deleted here (retention.ts), and
 * nothing by a timer: only `assay retention run` deletes.
 */
import { hash } from "node:crypto";
import type { Db, SchemaSources } from "../db/types.ts";

/** A century; to keep data forever there is a rule without days. */
export const MAX_RETENTION_DAYS = 36_500;
export const MAX_HOLD_REASON_CHARS = 1000;

/** Days after the last event of a trail; null: never. */
export type RetentionDays = { trails: number | null; evidence: number | null };

/** Whether files are deleted before the trails that they belong to, or never. */
export const isEvidenceFirst = ({ trails, evidence }: RetentionDays): boolean =>
  trails === null || evidence === null || evidence < trails;

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

/** The scope of a rule or a hold: an organization (`flowId` null) or a flow. */
export type RetentionScope = { organizationId: number; flowId: number | null };

const RULES = `SELECT rr.id, rr.organization_id, o.name AS organization_name, rr.flow_id, f.name AS flow_name,
    rr.trails_after_days, rr.evidence_after_days
  FROM retention_rules rr JOIN organizations o ON o.id = rr.organization_id LEFT JOIN flows f ON f.id = rr.flow_id`;
const HOLDS = `SELECT hold.id, hold.public_id, hold.organization_id, o.name AS organization_name, hold.flow_id,
    f.name AS flow_name, hold.trail_public_id, hold.trail_name, hold.reason, hold.placed_by, hold.placed_at,
    hold.released_by, hold.released_at
  FROM legal_holds hold JOIN organizations o ON o.id = hold.organization_id LEFT JOIN flows f ON f.id = hold.flow_id`;

export function retentionRuleStore(db: Db, { now, newId }: SchemaSources) {
  const rules = db.prepare<[], RetentionRuleRow>(`${RULES} ORDER BY o.name, f.name`);
  const rulesOf = db.prepare<[number], RetentionRuleRow>(`${RULES} WHERE rr.organization_id = ? ORDER BY f.name`);
  const upsert = db.prepare<[number, number | null, number | null, number | null, number, number]>(
    `INSERT INTO retention_rules (organization_id, flow_id, trails_after_days, evidence_after_days, created_at,
                                  last_modified_at)
     VALUES (?, ?, ?, ?, ?, ?)
     ON CONFLICT (organization_id, coalesce(flow_id, 0)) DO UPDATE
     SET trails_after_days = excluded.trails_after_days, evidence_after_days = excluded.evidence_after_days,
       last_modified_at = excluded.last_modified_at`,
  );
  const remove = db.prepare<[number, number | null]>(
    "DELETE FROM retention_rules WHERE organization_id = ? AND flow_id IS ?",
  );
  const holds = db.prepare<[], LegalHoldRow>(`${HOLDS} ORDER BY hold.id`);
  const holdPage = db.prepare<{ organization: number; released: 0 | 1; before: number; limit: number }, LegalHoldRow>(
    `${HOLDS} WHERE hold.organization_id = @organization AND (@released OR hold.released_at IS NULL)
       AND hold.id < @before ORDER BY hold.id DESC LIMIT @limit`,
  );
  const holdByPublicId = db.prepare<[string], LegalHoldRow>(`${HOLDS} WHERE hold.public_id = ?`);
  const insertHold = db.prepare(
    `INSERT INTO legal_holds (public_id, organization_id, flow_id, trail_public_id, trail_name, reason, placed_by,
                              placed_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const release = db.prepare(
    "UPDATE legal_holds SET released_by = ?, released_at = ? WHERE id = ? AND released_at IS NULL",
  );

  const listActiveHolds = (): LegalHoldRow[] => holds.all().filter(({ released_at }) => released_at === null);

  return {
    /** All rules, ordered by organization and flow; the rule of the organization comes first. */
    list: (): RetentionRuleRow[] => rules.all(),
    /** The rules of an organization and its flows, ordered by flow; the rule of the organization comes first. */
    listOf: (organizationId: number): RetentionRuleRow[] => rulesOf.all(organizationId),
    /** Creates or replaces the rule of an organization or flow. */
    set({ organizationId, flowId }: RetentionScope, { trails, evidence }: RetentionDays): void {
      const at = now();
      upsert.run(organizationId, flowId, trails, evidence, at, at);
    },
    /** @returns whether there was a rule. */
    delete: ({ organizationId, flowId }: RetentionScope): boolean => remove.run(organizationId, flowId).changes > 0,
    /** All holds, oldest first, released ones included. */
    listHolds: (): LegalHoldRow[] => holds.all(),
    /** The holds in force. */
    listActiveHolds,
    /** At most `limit` holds of an organization, newest first: those added before the id `before`, null for all. */
    listHoldPage: (
      organizationId: number,
      page: { withReleased: boolean; before: number | null; limit: number },
    ): LegalHoldRow[] =>
      holdPage.all({
        organization: organizationId,
        released: page.withReleased ? 1 : 0,
        before: page.before ?? Number.MAX_SAFE_INTEGER,
        limit: page.limit,
      }),
    findHold: (publicId: string): LegalHoldRow | null => holdByPublicId.get(publicId) ?? null,
    /** @returns the public id of the hold. */
    createHold(
      { organizationId, flowId }: RetentionScope,
      trail: { public_id: string; name: string } | null,
      why: { reason: string; by: string },
    ): string {
      const publicId = newId();
      insertHold.run(
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
    /** Releases a hold, which stays in the history. @returns whether it was in force. */
    releaseHold: (id: number, by: string): boolean => release.run(by, now(), id).changes > 0,
    /** A digest that changes with every rule, and with every hold in force. */
    digest: (): string =>
      hash(
        "sha256",
        JSON.stringify([
          rules
            .all()
            .map((rule) => [rule.organization_id, rule.flow_id, rule.trails_after_days, rule.evidence_after_days]),
          listActiveHolds().map(({ public_id }) => public_id),
        ]),
      ),
  };
}
