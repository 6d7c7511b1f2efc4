/**
 * What retention would delete, and what it keeps and why. Reads, and writes into temporary tables of its connection
 * only.
 *
 * A trail goes as a whole or not at all, and only when its rule says so and none of these hold it:
 *
 * - a legal hold;
 * - an artifact of it ran: whatever is kept of that verdict (facts, attestations, deployments, evidence) rests on the
 *   records of the
 *   artifact, and what starts again must be judged on all of them. Snapshots are kept, so such a trail is too;
 * - a record of another trail refers to it, or a message about it is still to be made;
 * - other records of an artifact stay that would then say something else: of each flow the latest record of a
 *   fingerprint counts, so
 *   either all that count stay, or every record of the fingerprint goes. Deleting never makes an artifact look better
 *   than it was.
 *
 * Files attached to records go earlier where a rule says so, from trails that none of the first three hold.
 */
import { hash } from "node:crypto";
import { DAY } from "../../domain/time.ts";
import type { RetentionRuleRow, retentionRuleStore } from "./retention-rules.ts";
import type { Db } from "../db/types.ts";

/** Why an expired trail stays. */
export type KeptBecause = "held" | "ran" | "referenced" | "shared";
export type RetentionAction = "trail" | "evidence";

/** An expired trail; `kept` null: it goes, or its files do. `last_event` in epoch seconds. */
export type DueRow = {
  trail_id: number;
  public_id: string;
  action: RetentionAction;
  flow_id: number;
  rule_id: number;
  last_event: number;
  kept: KeptBecause | null;
};

/**
 * What goes of one flow and what stays although it expired. Times are epoch seconds of last events, null without
 * trails.
 */
export type FlowPlan = {
  organization: string;
  flow: string;
  rule: RetentionRuleRow;
  trails: number;
  artifacts: number;
  attestations: number;
  /** Trails that lose their files and nothing else. */
  stripped: number;
  /**
   * Files that nothing names any more then, and their bytes: of files that several flows share, with the first of them.
   */
  files: number;
  bytes: number;
  oldest: number | null;
  newest: number | null;
  kept: Record<KeptBecause, number>;
  /** Some of what is kept, by the name of the trail, with what keeps it. */
  examples: { trail: string; because: KeptBecause; by: string }[];
};

export type RetentionPlan = {
  /**
   * Names the plan for `assay retention run`: the time it was made for, and a digest of rules, holds and all that goes.
   */
  id: string;
  /** Epoch seconds. */
  at: number;
  /** Of the rules and holds that it was made under (retention-rules.ts). */
  state: string;
  flows: FlowPlan[];
};

/** Kept trails that are told by name, of each flow. */
const MAX_EXAMPLES = 5;

/** The text of a rule, as tombstones keep it. */
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

/** The last thing that happened to trail `t`. */
export const LAST_EVENT =
  "max(t.last_modified_at, t.created_at, coalesce((SELECT max(e.timestamp) FROM trail_events e WHERE e.trail_id = t.id), 0))";

/** What stands against deleting anything of the trail with the key `due.trail_id`. */
export const RAN = `EXISTS (SELECT 1 FROM artifacts a CROSS JOIN snapshot_artifacts s ON s.organization_id = a.organization_id AND s.fingerprint = a.fingerprint
    WHERE a.trail_id = due.trail_id)`;

/**
 * Rows of other trails that name records of a trail: there are none that this program made. And jobs that still have to
 * read it.
 */
const REFERENCES = [
  "SELECT y.trail_id FROM attestation_bindings b JOIN artifacts a ON a.id = b.artifact_id JOIN attestations y ON y.id = b.attestation_id WHERE a.trail_id IS NOT y.trail_id",
  "SELECT o.trail_id FROM attestations y JOIN attestations o ON o.id = y.original_id WHERE y.original_id IS NOT NULL AND o.trail_id <> y.trail_id",
  "SELECT y.trail_id FROM current_attestations c JOIN attestations y ON y.id = c.attestation_id WHERE c.trail_id <> y.trail_id",
  "SELECT y.trail_id FROM pending_bindings p JOIN attestations y ON y.id = p.attestation_id WHERE p.trail_id <> y.trail_id",
  "SELECT payload_json ->> 'trail_id' FROM jobs WHERE kind = 'notify' AND json_valid(payload_json) AND payload_json ->> 'trail_id' IS NOT NULL",
  "SELECT a.trail_id FROM jobs j JOIN artifacts a ON a.id = j.payload_json ->> 'artifact_id' WHERE j.kind = 'notify' AND json_valid(j.payload_json) AND a.trail_id IS NOT NULL",
  "SELECT a.trail_id FROM jobs j JOIN attestations a ON a.id = j.payload_json ->> 'attestation_id' WHERE j.kind = 'notify' AND json_valid(j.payload_json)",
].join(" UNION ");

/** The record `a` of an artifact is the one of its flow that counts. */
export const COUNTS =
  "NOT EXISTS (SELECT 1 FROM artifacts later WHERE later.flow_id = a.flow_id AND later.fingerprint = a.fingerprint " +
  "AND (later.report_number, later.id) > (a.report_number, a.id))";

const TABLES = `
  DROP TABLE IF EXISTS temp.due;
  CREATE TEMP TABLE due (trail_id INTEGER PRIMARY KEY, action TEXT NOT NULL, organization_id INTEGER NOT NULL, flow_id INTEGER NOT NULL, rule_id INTEGER NOT NULL, last_event REAL NOT NULL, kept TEXT)`;

export function retentionPlanStore(db: Db, rules: ReturnType<typeof retentionRuleStore>) {
  /** Rules by flow: that of the flow, else that of its organization. */
  function ruleOf(
    all: readonly RetentionRuleRow[],
    flow: { id: number; organization_id: number },
  ): RetentionRuleRow | null {
    const own = all.find(({ flow_id }) => flow_id === flow.id);
    return (
      own ??
      all.find(({ organization_id, flow_id }) => flow_id === null && organization_id === flow.organization_id) ??
      null
    );
  }

  /** Fills the table `due`. @param organizationId null: all organizations. */
  function collect(organizationId: number | null, at: number): void {
    db.exec(TABLES);
    const flows = db
      .prepare<[number | null, number | null], { id: number; organization_id: number }>(
        "SELECT id, organization_id FROM flows WHERE ? IS NULL OR organization_id = ?",
      )
      .all(organizationId, organizationId);
    const expired = db.prepare(
      `INSERT INTO temp.due
       SELECT old.id, iif(old.last_event < @trails, 'trail', 'evidence'), old.organization_id, old.flow_id, @rule, old.last_event, NULL
       FROM (SELECT t.id, t.organization_id, t.flow_id, ${LAST_EVENT} AS last_event FROM trails t WHERE t.flow_id = @flow AND t.last_modified_at < @latest) old
       WHERE old.last_event < @trails OR (old.last_event < @latest AND ${withEvidence("old.id")})`,
    );
    const strip = db.prepare(
      `UPDATE temp.due SET action = 'evidence', kept = NULL WHERE kept = 'shared' AND ${withEvidence("due.trail_id")}
         AND EXISTS (SELECT 1 FROM retention_rules r WHERE r.id = due.rule_id AND r.evidence_after_days IS NOT NULL)`,
    );
    const all = rules.list();
    for (const flow of flows) {
      const rule = ruleOf(all, flow);
      if (!rule) continue;
      const [trails, evidence] = expiryTimes(rule, at);
      const latest = Math.max(trails, evidence);
      if (latest > NEVER) expired.run({ rule: rule.id, flow: flow.id, trails, latest });
    }
    const keep = (because: KeptBecause, condition: string) =>
      db.prepare(`UPDATE temp.due SET kept = '${because}' WHERE kept IS NULL AND ${condition}`).run().changes;
    keep("held", HELD);
    keep("ran", RAN);
    if (db.prepare("SELECT 1 FROM temp.due WHERE kept IS NULL").get())
      keep("referenced", `trail_id IN (${REFERENCES})`);
    // What is kept now may keep others: until nothing changes any more.
    while (keep("shared", SHARED) > 0);
    // A trail that others keep has no need of its files.
    strip.run();
  }

  /**
   * The plan at that time, epoch seconds. `deleted` are the trails of the plan that are gone already. Call it in one
   * transaction.
   */
  function make(organizationId: number | null, at: number, deleted: readonly string[] = []): RetentionPlan {
    collect(organizationId, at);
    const going = db
      .prepare<[], string>(
        "SELECT due.action || ' ' || t.public_id FROM temp.due JOIN trails t ON t.id = due.trail_id WHERE kept IS NULL",
      )
      .pluck()
      .all();
    const what = [...going, ...deleted].sort();
    const state = rules.digest();
    const id = `${at}-${hash("sha256", JSON.stringify([organizationId, at, state, what])).slice(0, 24)}`;
    return { id, at, state, flows: flowPlans() };
  }

  function flowPlans(): FlowPlan[] {
    const all = rules.list();
    db.exec(`
      DROP TABLE IF EXISTS temp.going_files;
      CREATE TEMP TABLE going_files AS
        SELECT y.evidence_digest AS digest, min(due.flow_id) AS flow_id, count(*) AS names, max(y.evidence_size) AS size
        FROM temp.due CROSS JOIN attestations y ON y.trail_id = due.trail_id WHERE due.kept IS NULL AND y.evidence_digest IS NOT NULL GROUP BY y.evidence_digest`);
    const files = db.prepare<[number], { files: number; bytes: number }>(
      `SELECT count(*) AS files, coalesce(sum(size), 0) AS bytes FROM temp.going_files g
       WHERE g.flow_id = ? AND g.names = (SELECT count(*) FROM attestations y WHERE y.evidence_digest = g.digest)`,
    );
    const counts = db.prepare<[number], { artifacts: number; attestations: number }>(
      `SELECT coalesce(sum((SELECT count(*) FROM artifacts a WHERE a.trail_id = due.trail_id)), 0) AS artifacts,
              coalesce(sum((SELECT count(*) FROM attestations y WHERE y.trail_id = due.trail_id)), 0) AS attestations
       FROM temp.due WHERE flow_id = ? AND kept IS NULL AND action = 'trail'`,
    );
    const kept = db.prepare<[number], { kept: KeptBecause; n: number }>(
      "SELECT kept, count(*) AS n FROM temp.due WHERE flow_id = ? AND kept IS NOT NULL GROUP BY kept",
    );
    const examples = db.prepare<[number, number], { trail_id: number; name: string; kept: KeptBecause }>(
      "SELECT due.trail_id, t.name, due.kept FROM temp.due JOIN trails t ON t.id = due.trail_id WHERE due.flow_id = ? AND due.kept IS NOT NULL ORDER BY due.kept, t.id LIMIT ?",
    );
    type Row = {
      flow_id: number;
      rule_id: number;
      organization: string;
      flow: string;
      trails: number;
      stripped: number;
      oldest: number | null;
      newest: number | null;
    };
    const rows = db
      .prepare<[], Row>(
        `SELECT due.flow_id, due.rule_id, o.name AS organization, f.name AS flow, sum(kept IS NULL AND action = 'trail') AS trails, sum(kept IS NULL AND action = 'evidence') AS stripped,
              min(CASE WHEN kept IS NULL THEN last_event END) AS oldest, max(CASE WHEN kept IS NULL THEN last_event END) AS newest
       FROM temp.due JOIN flows f ON f.id = due.flow_id JOIN organizations o ON o.id = due.organization_id GROUP BY due.flow_id ORDER BY o.name, f.name`,
      )
      .all();
    return rows.map(({ flow_id, rule_id, ...row }): FlowPlan => {
      const reasons = { held: 0, ran: 0, referenced: 0, shared: 0 };
      for (const { kept: because, n } of kept.all(flow_id)) reasons[because] = n;
      return {
        ...row,
        rule: all.find(({ id }) => id === rule_id) as RetentionRuleRow,
        ...(counts.get(flow_id) as { artifacts: number; attestations: number }),
        ...(files.get(flow_id) as { files: number; bytes: number }),
        kept: reasons,
        examples: examples
          .all(flow_id, MAX_EXAMPLES)
          .map(({ trail_id, name, kept: because }) => ({ trail: name, because, by: keeper(trail_id, because) })),
      };
    });
  }

  const snapshotOf = db.prepare<[number], { environment: string; idx: number }>(
    `SELECT n.name AS environment, s.first_index AS idx FROM artifacts a CROSS JOIN snapshot_artifacts s ON s.organization_id = a.organization_id AND s.fingerprint = a.fingerprint
       JOIN environments n ON n.id = s.environment_id WHERE a.trail_id = ? ORDER BY s.first_index DESC LIMIT 1`,
  );
  const holdOf = db.prepare<[number], { public_id: string; reason: string }>(
    `SELECT h.public_id, h.reason FROM trails due JOIN legal_holds h ON h.released_at IS NULL AND h.organization_id = due.organization_id
       AND (h.flow_id IS NULL OR h.flow_id = due.flow_id) AND (h.trail_public_id IS NULL OR h.trail_public_id = due.public_id) WHERE due.id = ? ORDER BY h.id LIMIT 1`,
  );

  /** What keeps a trail, in words. */
  function keeper(trailId: number, because: KeptBecause): string {
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
    make,
    /** The trails that the latest `make` found to go, those first whose artifacts were reported first. */
    listGoing: (): DueRow[] =>
      db
        .prepare<[], DueRow>(
          `SELECT due.trail_id, t.public_id, due.action, due.flow_id, due.rule_id, due.last_event, due.kept FROM temp.due JOIN trails t ON t.id = due.trail_id
         WHERE due.kept IS NULL ORDER BY coalesce((SELECT max(a.id) FROM artifacts a WHERE a.trail_id = due.trail_id), 0), due.trail_id`,
        )
        .all(),
  };
}

const NEVER = Number.NEGATIVE_INFINITY;

/** Trails whose last event lies before the first time go, those before the second lose their files; epoch seconds. */
export function expiryTimes(
  { trails_after_days, evidence_after_days }: Pick<RetentionRuleRow, "trails_after_days" | "evidence_after_days">,
  at: number,
): [trails: number, evidence: number] {
  const end = (days: number | null): number => (days === null ? NEVER : at - days * DAY);
  return [end(trails_after_days), end(evidence_after_days)];
}

const withEvidence = (trail: string): string =>
  `EXISTS (SELECT 1 FROM attestations y WHERE y.trail_id = ${trail} AND y.evidence_digest IS NOT NULL)`;

/** A hold in force is on the trail, its flow or its organization. */
const HELD = `EXISTS (SELECT 1 FROM legal_holds h WHERE h.released_at IS NULL AND h.organization_id = due.organization_id AND (h.flow_id IS NULL OR h.flow_id = due.flow_id)
    AND (h.trail_public_id IS NULL OR h.trail_public_id = (SELECT t.public_id FROM trails t WHERE t.id = due.trail_id)))`;

/**
 * A record of an artifact in the trail counts, and another record of the artifact stays. Only of trails that go as a
 * whole.
 */
const SHARED = `action = 'trail' AND EXISTS (SELECT 1 FROM artifacts a WHERE a.trail_id = due.trail_id AND ${COUNTS}
    AND EXISTS (SELECT 1 FROM artifacts other LEFT JOIN temp.due d ON d.trail_id = other.trail_id AND d.action = 'trail' AND d.kept IS NULL
                WHERE other.organization_id = a.organization_id AND other.fingerprint = a.fingerprint AND other.id <> a.id AND d.trail_id IS NULL))`;
