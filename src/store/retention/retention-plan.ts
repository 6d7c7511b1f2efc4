/**
 * What retention would delete, and what it keeps and why. Reads, and writes into temporary tables of its connection
 * only.
 *
 * A trail is deleted as a whole or not at all, and only when its rule says so and none of these hold it:
 *
 * - a legal hold;
 * - an artifact of it ran: the facts, attestations, deployments and evidence of that verdict rest on its records, and
 *   when it starts again, it must be evaluated on all of them. Snapshots are kept, so such a trail is too;
 * - a record of another trail refers to it, or a message about it has not been made yet;
 * - other records of an artifact would stay and then mean something else: in each flow the latest record of a
 *   fingerprint counts, so either all that count stay, or every record of the fingerprint is deleted. Deleting never
 *   makes an artifact look better than it was.
 *
 * Files attached to records are deleted earlier where a rule says so, from trails that none of the first three hold.
 */
import { hash } from "node:crypto";
import { DAY_S } from "../../domain/time.ts";
import type { RetentionRuleRow, retentionRuleStore } from "./retention-rules.ts";
import type { Db } from "../db/types.ts";

/** Why an expired trail is kept. */
type KeptBecause = "held" | "ran" | "referenced" | "shared";
export type RetentionAction = "trail" | "evidence";

/** An expired trail. `kept` null: it, or its files, will be deleted. `last_event` in epoch seconds. */
export type DueRow = {
  trail_id: number;
  public_id: string;
  action: RetentionAction;
  flow_id: number;
  rule_id: number;
  last_event: number;
  kept: KeptBecause | null;
};

/** What is deleted in one flow, and what is kept although it expired. Times are epoch seconds; null without trails. */
export type FlowPlan = {
  organization: string;
  flow: string;
  rule: RetentionRuleRow;
  trails: number;
  artifacts: number;
  attestations: number;
  /** Trails that lose their files only. */
  stripped: number;
  /**
   * Files that nothing names afterwards, and their bytes. A file shared by several flows counts for the first of them.
   */
  files: number;
  bytes: number;
  oldest: number | null;
  newest: number | null;
  kept: Record<KeptBecause, number>;
  /** Some of the kept trails, by name, with what keeps them. */
  examples: { trail: string; because: KeptBecause; by: string }[];
};

export type RetentionPlan = {
  /**
   * Identifies the plan for `assay retention run`: its time, and a digest of the rules, the holds and all it deletes.
   */
  id: string;
  /** Epoch seconds. */
  at: number;
  /** Digest of the rules and holds it was made under (retention-rules.ts). */
  state: string;
  flows: FlowPlan[];
};

/** Kept trails listed by name for each flow. */
const MAX_EXAMPLES = 5;

/** The text of a rule, as tombstones store it. */
export function retentionRuleText({
  flow_id,
  organization_name,
  flow_name,
  trails_after_days,
  evidence_after_days,
}: RetentionRuleRow): string {
  const of = flow_id === null ? `organization ${organization_name}` : `flow ${organization_name}/${flow_name}`;
  const parts = [
    trails_after_days === null ? "trails for ever" : `trails for ${trails_after_days} days`,
    evidence_after_days === null ? null : `files for ${evidence_after_days} days`,
  ];
  return `${of}: ${parts.filter((part) => part !== null).join(", ")}`;
}

/** The time of the last event of trail `t`. */
export const LAST_EVENT = `max(t.last_modified_at, t.created_at,
    coalesce((SELECT max(te.timestamp) FROM trail_events te WHERE te.trail_id = t.id), 0))`;

/** Whether an artifact of the trail `due.trail_id` ever ran. */
export const RAN = `EXISTS (SELECT 1 FROM artifacts a CROSS JOIN snapshot_artifacts sa
      ON sa.organization_id = a.organization_id AND sa.fingerprint = a.fingerprint
    WHERE a.trail_id = due.trail_id)`;

/**
 * Trails that rows of other trails refer to, which this program never writes, and trails that pending jobs still have
 * to read.
 */
const REFERENCES = [
  `SELECT att.trail_id FROM attestation_bindings b
     JOIN artifacts a ON a.id = b.artifact_id JOIN attestations att ON att.id = b.attestation_id
   WHERE a.trail_id IS NOT att.trail_id`,
  `SELECT original.trail_id FROM attestations att JOIN attestations original ON original.id = att.original_id
   WHERE att.original_id IS NOT NULL AND original.trail_id <> att.trail_id`,
  `SELECT att.trail_id FROM current_attestations cur JOIN attestations att ON att.id = cur.attestation_id
   WHERE cur.trail_id <> att.trail_id`,
  `SELECT att.trail_id FROM pending_bindings pb JOIN attestations att ON att.id = pb.attestation_id
   WHERE pb.trail_id <> att.trail_id`,
  `SELECT payload_json ->> 'trail_id' FROM jobs
   WHERE kind = 'notify' AND json_valid(payload_json) AND payload_json ->> 'trail_id' IS NOT NULL`,
  `SELECT a.trail_id FROM jobs j JOIN artifacts a ON a.id = j.payload_json ->> 'artifact_id'
   WHERE j.kind = 'notify' AND json_valid(j.payload_json) AND a.trail_id IS NOT NULL`,
  `SELECT att.trail_id FROM jobs j JOIN attestations att ON att.id = j.payload_json ->> 'attestation_id'
   WHERE j.kind = 'notify' AND json_valid(j.payload_json)`,
].join(" UNION ");

/** Whether the record `a` of an artifact is the one that counts in its flow. */
export const COUNTS = `NOT EXISTS (SELECT 1 FROM artifacts later
    WHERE later.flow_id = a.flow_id AND later.fingerprint = a.fingerprint
      AND (later.report_number, later.id) > (a.report_number, a.id))`;

const DUE_TABLE = `
  DROP TABLE IF EXISTS temp.due;
  CREATE TEMP TABLE due (trail_id INTEGER PRIMARY KEY, action TEXT NOT NULL, organization_id INTEGER NOT NULL,
                         flow_id INTEGER NOT NULL, rule_id INTEGER NOT NULL, last_event REAL NOT NULL, kept TEXT)`;

/** Files of the trails that are deleted or stripped, with the number of records there that name each. */
const DUE_FILES_TABLE = `
  DROP TABLE IF EXISTS temp.due_files;
  CREATE TEMP TABLE due_files AS
    SELECT att.evidence_digest AS digest, min(due.flow_id) AS flow_id, count(*) AS names, max(att.evidence_size) AS size
    FROM temp.due CROSS JOIN attestations att ON att.trail_id = due.trail_id
    WHERE due.kept IS NULL AND att.evidence_digest IS NOT NULL GROUP BY att.evidence_digest`;

const NEVER = Number.NEGATIVE_INFINITY;

const hasEvidence = (trail: string): string =>
  `EXISTS (SELECT 1 FROM attestations att WHERE att.trail_id = ${trail} AND att.evidence_digest IS NOT NULL)`;

/** A hold in force is on the trail, its flow or its organization. */
const HELD = `EXISTS (SELECT 1 FROM legal_holds hold
    WHERE hold.released_at IS NULL AND hold.organization_id = due.organization_id
      AND (hold.flow_id IS NULL OR hold.flow_id = due.flow_id)
      AND (hold.trail_public_id IS NULL
        OR hold.trail_public_id = (SELECT t.public_id FROM trails t WHERE t.id = due.trail_id)))`;

/** A record in the trail counts for its artifact, and another record of the artifact stays. For whole trails only. */
const SHARED = `action = 'trail' AND EXISTS (SELECT 1 FROM artifacts a WHERE a.trail_id = due.trail_id AND ${COUNTS}
    AND EXISTS (SELECT 1 FROM artifacts other
                  LEFT JOIN temp.due also ON also.trail_id = other.trail_id AND also.action = 'trail'
                    AND also.kept IS NULL
                WHERE other.organization_id = a.organization_id AND other.fingerprint = a.fingerprint
                  AND other.id <> a.id AND also.trail_id IS NULL))`;

export function retentionPlanStore(db: Db, rules: ReturnType<typeof retentionRuleStore>) {
  const snapshotOf = db.prepare<[number], { environment: string; idx: number }>(
    `SELECT env.name AS environment, sa.first_index AS idx
     FROM artifacts a CROSS JOIN snapshot_artifacts sa
       ON sa.organization_id = a.organization_id AND sa.fingerprint = a.fingerprint
       JOIN environments env ON env.id = sa.environment_id
     WHERE a.trail_id = ? ORDER BY sa.first_index DESC LIMIT 1`,
  );
  const holdOf = db.prepare<[number], { public_id: string; reason: string }>(
    `SELECT hold.public_id, hold.reason
     FROM trails t JOIN legal_holds hold ON hold.released_at IS NULL AND hold.organization_id = t.organization_id
       AND (hold.flow_id IS NULL OR hold.flow_id = t.flow_id)
       AND (hold.trail_public_id IS NULL OR hold.trail_public_id = t.public_id)
     WHERE t.id = ? ORDER BY hold.id LIMIT 1`,
  );

  /** What keeps a trail, in words. */
  function describeReason(trailId: number, because: KeptBecause): string {
    if (because === "held") {
      const hold = holdOf.get(trailId);
      return hold ? `hold ${hold.public_id}: ${hold.reason}` : "a hold";
    }
    if (because === "ran") {
      const ran = snapshotOf.get(trailId);
      return ran ? `an artifact of it ran in snapshot ${ran.environment}#${ran.idx}` : "an artifact of it ran";
    }
    return because === "shared"
      ? "other records of one of its artifacts stay"
      : "other records, or messages that are to be made, refer to it";
  }

  return {
    /**
     * Makes the plan as of `at`, epoch seconds. Call it in one transaction.
     * @param organizationId null: all organizations.
     * @param deleted the trails of the plan that were deleted already.
     */
    make(organizationId: number | null, at: number, deleted: readonly string[] = []): RetentionPlan {
      const all = rules.list();
      collectDue(db, all, { organizationId, at });
      const planned = db
        .prepare<[], string>(
          `SELECT due.action || ' ' || t.public_id FROM temp.due JOIN trails t ON t.id = due.trail_id
           WHERE kept IS NULL`,
        )
        .pluck()
        .all();
      const what = [...planned, ...deleted].sort();
      const state = rules.digest();
      const id = `${at}-${hash("sha256", JSON.stringify([organizationId, at, state, what])).slice(0, 24)}`;
      return { id, at, state, flows: summarizeFlows(db, all, describeReason) };
    },
    /** The trails that the latest `make` found to delete, ordered by the report of their latest artifact. */
    listGoing: (): DueRow[] =>
      db
        .prepare<[], DueRow>(
          `SELECT due.trail_id, t.public_id, due.action, due.flow_id, due.rule_id, due.last_event, due.kept
           FROM temp.due JOIN trails t ON t.id = due.trail_id
           WHERE due.kept IS NULL
           ORDER BY coalesce((SELECT max(a.id) FROM artifacts a WHERE a.trail_id = due.trail_id), 0), due.trail_id`,
        )
        .all(),
  };
}

/** The rule of a flow, else that of its organization. */
function findRule(
  rules: readonly RetentionRuleRow[],
  flow: { id: number; organization_id: number },
): RetentionRuleRow | null {
  const flowRule = rules.find(({ flow_id }) => flow_id === flow.id);
  const shared = rules.find(
    ({ organization_id, flow_id }) => flow_id === null && organization_id === flow.organization_id,
  );
  return flowRule ?? shared ?? null;
}

/** Fills the table `due` with the expired trails, and with the reasons why some of them are kept. */
function collectDue(
  db: Db,
  rules: readonly RetentionRuleRow[],
  { organizationId, at }: { organizationId: number | null; at: number },
): void {
  db.exec(DUE_TABLE);
  const flows = db
    .prepare<[number | null, number | null], { id: number; organization_id: number }>(
      "SELECT id, organization_id FROM flows WHERE ? IS NULL OR organization_id = ?",
    )
    .all(organizationId, organizationId);
  const insertExpired = db.prepare(
    `INSERT INTO temp.due
     SELECT old.id, iif(old.last_event < @trails, 'trail', 'evidence'), old.organization_id, old.flow_id, @rule,
            old.last_event, NULL
     FROM (SELECT t.id, t.organization_id, t.flow_id, ${LAST_EVENT} AS last_event
           FROM trails t WHERE t.flow_id = @flow AND t.last_modified_at < @latest) old
     WHERE old.last_event < @trails OR (old.last_event < @latest AND ${hasEvidence("old.id")})`,
  );
  for (const flow of flows) {
    const rule = findRule(rules, flow);
    if (!rule) continue;
    const [trails, evidence] = expiryTimes(rule, at);
    const latest = Math.max(trails, evidence);
    if (latest > NEVER) insertExpired.run({ rule: rule.id, flow: flow.id, trails, latest });
  }
  const keep = (because: KeptBecause, condition: string): number =>
    db.prepare(`UPDATE temp.due SET kept = '${because}' WHERE kept IS NULL AND ${condition}`).run().changes;
  keep("held", HELD);
  keep("ran", RAN);
  if (db.prepare("SELECT 1 FROM temp.due WHERE kept IS NULL").get()) keep("referenced", `trail_id IN (${REFERENCES})`);
  // A trail that is kept may keep others, so repeat until nothing changes.
  while (keep("shared", SHARED) > 0);
  // A trail kept for others does not need its files.
  db.prepare(
    `UPDATE temp.due SET action = 'evidence', kept = NULL WHERE kept = 'shared' AND ${hasEvidence("due.trail_id")}
       AND EXISTS (SELECT 1 FROM retention_rules rr WHERE rr.id = due.rule_id AND rr.evidence_after_days IS NOT NULL)`,
  ).run();
}

type FlowSummaryRow = {
  flow_id: number;
  rule_id: number;
  organization: string;
  flow: string;
  trails: number;
  stripped: number;
  oldest: number | null;
  newest: number | null;
};

/** What the table `due` means for each flow. */
function summarizeFlows(
  db: Db,
  rules: readonly RetentionRuleRow[],
  describeReason: (trailId: number, because: KeptBecause) => string,
): FlowPlan[] {
  db.exec(DUE_FILES_TABLE);
  const files = db.prepare<[number], { files: number; bytes: number }>(
    `SELECT count(*) AS files, coalesce(sum(size), 0) AS bytes FROM temp.due_files file
     WHERE file.flow_id = ?
       AND file.names = (SELECT count(*) FROM attestations att WHERE att.evidence_digest = file.digest)`,
  );
  const counts = db.prepare<[number], { artifacts: number; attestations: number }>(
    `SELECT coalesce(sum((SELECT count(*) FROM artifacts a WHERE a.trail_id = due.trail_id)), 0) AS artifacts,
            coalesce(sum((SELECT count(*) FROM attestations att WHERE att.trail_id = due.trail_id)), 0) AS attestations
     FROM temp.due WHERE flow_id = ? AND kept IS NULL AND action = 'trail'`,
  );
  const kept = db.prepare<[number], { kept: KeptBecause; n: number }>(
    "SELECT kept, count(*) AS n FROM temp.due WHERE flow_id = ? AND kept IS NOT NULL GROUP BY kept",
  );
  const examples = db.prepare<[number, number], { trail_id: number; name: string; kept: KeptBecause }>(
    `SELECT due.trail_id, t.name, due.kept FROM temp.due JOIN trails t ON t.id = due.trail_id
     WHERE due.flow_id = ? AND due.kept IS NOT NULL ORDER BY due.kept, t.id LIMIT ?`,
  );
  const rows = db
    .prepare<[], FlowSummaryRow>(
      `SELECT due.flow_id, due.rule_id, o.name AS organization, f.name AS flow,
              sum(kept IS NULL AND action = 'trail') AS trails, sum(kept IS NULL AND action = 'evidence') AS stripped,
              min(CASE WHEN kept IS NULL THEN last_event END) AS oldest,
              max(CASE WHEN kept IS NULL THEN last_event END) AS newest
       FROM temp.due JOIN flows f ON f.id = due.flow_id JOIN organizations o ON o.id = due.organization_id
       GROUP BY due.flow_id ORDER BY o.name, f.name`,
    )
    .all();
  return rows.map(({ flow_id, rule_id, ...row }): FlowPlan => {
    const reasons = { held: 0, ran: 0, referenced: 0, shared: 0 };
    for (const { kept: because, n } of kept.all(flow_id)) reasons[because] = n;
    return {
      ...row,
      rule: rules.find(({ id }) => id === rule_id) as RetentionRuleRow,
      ...(counts.get(flow_id) as { artifacts: number; attestations: number }),
      ...(files.get(flow_id) as { files: number; bytes: number }),
      kept: reasons,
      examples: examples
        .all(flow_id, MAX_EXAMPLES)
        .map(({ trail_id, name, kept: because }) => ({ trail: name, because, by: describeReason(trail_id, because) })),
    };
  });
}
/**
 * Trails with a last event before the first time are deleted, those before the second lose their files. Epoch seconds.
 */
export function expiryTimes(
  { trails_after_days, evidence_after_days }: Pick<RetentionRuleRow, "trails_after_days" | "evidence_after_days">,
  at: number,
): [trails: number, evidence: number] {
  const daysAgo = (days: number | null): number => (days === null ? NEVER : at - days * DAY_S);
  return [daysAgo(trails_after_days), daysAgo(evidence_after_days)];
}
