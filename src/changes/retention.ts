/** Changes of retention rules and legal holds. They delete nothing: only `assay retention run` does. */
import type { AccountChanges } from "../auth/account-changes.ts";
import type { Store } from "../store/index.ts";
import type {
  LegalHoldRow,
  RetentionDays,
  RetentionRuleRow,
  RetentionScope,
} from "../store/retention/retention-rules.ts";

/** A scope with its name: acme, or acme/payments. */
export type NamedScope = RetentionScope & { name: string };

/** What a hold is on, as people name it: acme, acme/payments or acme/payments/release-7. */
export const heldScopeNameOf = ({ organization_name, flow_name, trail_name }: LegalHoldRow): string =>
  [organization_name, flow_name, trail_name].filter((part) => part !== null).join("/");

export const retentionChanges = ({ retentionRules: rules }: Store, note: AccountChanges["audit"]) => ({
  /** Creates or replaces a rule. @returns it */
  setRetentionRule({ name, ...scope }: NamedScope, days: RetentionDays): RetentionRuleRow {
    rules.set(scope, days);
    note(scope.organizationId, "retention.rule_set", name, {
      trails_after_days: days.trails,
      evidence_after_days: days.evidence,
    });
    const rule = rules.listOf(scope.organizationId).find(({ flow_id }) => flow_id === scope.flowId);
    if (!rule) throw new Error(`the retention rule of ${name} that was just set is missing`);
    return rule;
  },
  /** @returns whether there was a rule */
  removeRetentionRule({ name, ...scope }: NamedScope): boolean {
    const isRemoved = rules.delete(scope);
    if (isRemoved) note(scope.organizationId, "retention.rule_removed", name, {});
    return isRemoved;
  },
  /** @param trail null: the whole flow or organization */
  placeHold(
    { name, ...scope }: NamedScope,
    trail: { public_id: string; name: string } | null,
    why: { reason: string; by: string },
  ): LegalHoldRow {
    const id = rules.createHold(scope, trail, why);
    const on = trail ? `${name}/${trail.name}` : name;
    note(scope.organizationId, "retention.hold_placed", id, { on, ...why });
    return rules.findHold(id) as LegalHoldRow;
  },
  /** @returns the hold as it is now; null if it was released before */
  releaseHold(hold: LegalHoldRow, by: string): LegalHoldRow | null {
    if (!rules.releaseHold(hold.id, by)) return null;
    note(hold.organization_id, "retention.hold_released", hold.public_id, {
      on: heldScopeNameOf(hold),
      reason: hold.reason,
      by,
    });
    return rules.findHold(hold.public_id);
  },
});
