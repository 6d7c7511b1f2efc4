/**
 * The only place that deletes history: trails with everything on them, and files of records that stay, as a plan says
 * (retention-plan.ts). It works on a connection of its own, with or without a running server beside it.
 *
 * Invariants: everything deleted leaves a tombstone and an audit entry, in the transaction that deletes it; a trail is
 * deleted as a whole; nothing is deleted that the plan did not show, and everything is checked again under the write
 * lock: rules, holds, and whether an artifact has run meanwhile. Files are not touched: the evidence sweep removes
 * those that no record names, after a grace period of a day.
 */
import type { buildStore } from "../flows/builds.ts";
import { COUNTS, expiryTimes, LAST_EVENT, RAN, retentionPlanStore, retentionRuleText } from "./retention-plan.ts";
import type { DueRow, RetentionAction, RetentionPlan } from "./retention-plan.ts";
import { retentionRuleStore } from "./retention-rules.ts";
import { retentionDeleter } from "./retention-deletion.ts";
import type { RetentionNote, DueTrailRow } from "./retention-deletion.ts";
import type { Db, SchemaSources } from "../db/types.ts";

type RetentionRunRow = {
  id: number;
  public_id: string;
  plan: string;
  started_by: string;
  started_at: number;
  finished_at: number | null;
};

/** What remains of something that was deleted. Times in epoch seconds. */
export type TombstoneRow = {
  id: number;
  kind: RetentionAction;
  public_id: string;
  name: string;
  organization_name: string;
  flow_name: string;
  trail_public_id: string;
  digest: string;
  size: number | null;
  filename: string | null;
  artifact_count: number;
  attestation_count: number;
  event_count: number;
  file_count: number;
  fingerprints_json: string;
  rule: string;
  run_public_id: string;
  created_at: number;
  last_event_at: number;
  deleted_at: number;
};

/** The rules or holds differ from those of the plan. What was deleted before stays deleted. */
export class RetentionChangedError extends Error {
  override readonly name = "RetentionChangedError";
}

/** The effect of one step. `kept`: planned for deletion, but kept because of something that happened since. */
export type RetentionStep = { trails: number; stripped: number; kept: number };

/** Tables whose rows refer to what is deleted, directly or through each other. */
const CHECKED_TABLES = [
  "trails",
  "trail_events",
  "trail_repos",
  "artifacts",
  "builds",
  "attestations",
  "attestation_series_records",
  "attestation_bindings",
  "pending_bindings",
  "current_attestations",
  "deployments",
  "tombstones",
];

export type Retention = ReturnType<typeof openRetention>;

/** Opens everything about retention over one connection. The command line does; a server never. */
export function openRetention(db: Db, sources: SchemaSources, builds: ReturnType<typeof buildStore>) {
  const rules = retentionRuleStore(db, sources);
  const plans = retentionPlanStore(db, rules);
  return { rules, plans, runs: retentionRunStore(db, sources, { rules, plans, builds }) };
}

type Parts = {
  rules: ReturnType<typeof retentionRuleStore>;
  plans: ReturnType<typeof retentionPlanStore>;
  builds: ReturnType<typeof buildStore>;
};

function retentionRunStore(db: Db, sources: SchemaSources, { rules, plans, builds }: Parts) {
  const { now, newId } = sources;
  const { deleteTrail, deleteFiles } = retentionDeleter(db, sources, builds);
  const runByPlan = db.prepare<[string], RetentionRunRow>(
    "SELECT id, public_id, plan, started_by, started_at, finished_at FROM retention_runs WHERE plan = ?",
  );
  const insertRun = db.prepare(
    "INSERT INTO retention_runs (public_id, plan, started_by, started_at) VALUES (?, ?, ?, ?)",
  );
  const finish = db.prepare("UPDATE retention_runs SET finished_at = ? WHERE id = ? AND finished_at IS NULL");
  const deletedBy = db
    .prepare<[number], string>("SELECT DISTINCT kind || ' ' || trail_public_id FROM tombstones WHERE run_id = ?")
    .pluck();
  const trailById = db.prepare<[number], DueTrailRow>(
    `SELECT t.id, t.public_id, t.name, t.organization_id, t.flow_id, f.name AS flow_name, t.created_at,
            ${LAST_EVENT} AS last_event
     FROM trails t JOIN flows f ON f.id = t.flow_id WHERE t.id = ?`,
  );
  const ran = db.prepare<[number], { found: 1 }>(
    `SELECT 1 AS found FROM trails t JOIN (SELECT ? AS trail_id) due ON due.trail_id = t.id WHERE ${RAN}`,
  );
  // The other trails with a record of an artifact of which this one has the record that counts.
  const sharing = db.prepare<[number, number], { trail_id: number | null }>(
    `SELECT DISTINCT other.trail_id
     FROM artifacts a JOIN artifacts other
       ON other.organization_id = a.organization_id AND other.fingerprint = a.fingerprint
     WHERE a.trail_id = ? AND other.trail_id IS NOT ? AND ${COUNTS}`,
  );
  const tombstones = db.prepare<
    [{ organization: number; flow: number | null; before: number; limit: number }],
    TombstoneRow
  >(
    `SELECT tomb.id, tomb.kind, tomb.public_id, tomb.name, o.name AS organization_name, f.name AS flow_name,
            tomb.trail_public_id, tomb.digest, tomb.size, tomb.filename, tomb.artifact_count, tomb.attestation_count,
            tomb.event_count, tomb.file_count, tomb.fingerprints_json, tomb.rule, run.public_id AS run_public_id,
            tomb.created_at, tomb.last_event_at, tomb.deleted_at
     FROM tombstones tomb JOIN organizations o ON o.id = tomb.organization_id JOIN flows f ON f.id = tomb.flow_id
       JOIN retention_runs run ON run.id = tomb.run_id
     WHERE tomb.organization_id = @organization AND (@flow IS NULL OR tomb.flow_id = @flow) AND tomb.id < @before
     ORDER BY tomb.id DESC LIMIT @limit`,
  );

  /** The trails that can only be deleted together with this one, itself included; null when one of them stays. */
  function findUnit(first: number, going: ReadonlyMap<number, DueRow>): number[] | null {
    const unit = new Set([first]);
    for (const id of unit)
      for (const { trail_id } of sharing.all(id, id)) {
        if (trail_id === null || going.get(trail_id)?.action !== "trail") return null;
        unit.add(trail_id);
      }
    return [...unit];
  }

  return {
    /** The run of a plan; null before it began. */
    find: (plan: string): RetentionRunRow | null => runByPlan.get(plan) ?? null,
    /** What a run has deleted so far, as a plan names it. */
    listDeletedBy: (run: number): string[] => deletedBy.all(run),
    /** Starts or continues the run of a plan. Call it inside a write. */
    begin(plan: string, by: string): RetentionRunRow {
      const known = runByPlan.get(plan);
      if (!known) insertRun.run(newId(), plan, by, now());
      return known ?? (runByPlan.get(plan) as RetentionRunRow);
    },
    /** Records that the plan is complete. Call it inside a write. */
    finish: (run: number): void => void finish.run(now(), run),
    /**
     * What was deleted, latest first. @param before id of the last row of the previous page; null for the first page.
     */
    listTombstones: (
      organizationId: number,
      flowId: number | null,
      { limit, before }: { limit: number; before: number | null },
    ): TombstoneRow[] =>
      tombstones.all({ organization: organizationId, flow: flowId, before: before ?? Number.MAX_SAFE_INTEGER, limit }),

    /**
     * The plan as pieces: each deletes a trail, or trails that can only be deleted together. The caller runs one or
     * more of them in a write, in their order, and may stop between any two.
     * @param plan made at `at` (epoch seconds) on this connection just before, and not changed since.
     * @throws RetentionChangedError when rules or holds change on the way.
     */
    planPieces(plan: Pick<RetentionPlan, "at" | "state">, run: number, note: RetentionNote): (() => RetentionStep)[] {
      const going = new Map(plans.listGoing().map((row) => [row.trail_id, row]));
      const ruleById = new Map(
        rules.list().map((rule) => [rule.id, { text: retentionRuleText(rule), expiry: expiryTimes(rule, plan.at) }]),
      );

      /** The trail if it may still be deleted; checked under the write lock. */
      const recheck = ({ trail_id, rule_id, action }: DueRow): DueTrailRow | null => {
        const trail = trailById.get(trail_id);
        const [trails, evidence] = ruleById.get(rule_id)?.expiry ?? [0, 0];
        return trail && trail.last_event < (action === "trail" ? trails : evidence) && !ran.get(trail_id)
          ? trail
          : null;
      };
      return [...going].map(([id, due]) => () => {
        const step: RetentionStep = { trails: 0, stripped: 0, kept: 0 };
        // It was deleted together with an earlier one.
        if (!going.has(id)) return step;
        if (rules.digest() !== plan.state) throw new RetentionChangedError("rules or holds were changed meanwhile");
        const unit = (due.action === "evidence" ? [id] : findUnit(id, going))?.map((each) => going.get(each) as DueRow);
        const trails = unit?.map(recheck) ?? [null];
        for (const { trail_id } of unit ?? [due]) going.delete(trail_id);
        if (trails.some((trail) => trail === null)) return { ...step, kept: trails.length };
        for (const [index, trail] of (trails as DueTrailRow[]).entries()) {
          const rule = ruleById.get((unit?.[index] ?? due).rule_id)?.text ?? "";
          if (due.action === "trail") deleteTrail(trail, { run, rule, note });
          else deleteFiles(trail, { run, rule, note });
        }
        return due.action === "trail" ? { ...step, trails: trails.length } : { ...step, stripped: trails.length };
      });
    },

    /**
     * Runs `work` without foreign key checks, which would scan whole tables for each deleted row, and checks afterwards
     * that no row refers to a deleted one. Call it outside a transaction.
     * @throws Error when there is such a row.
     */
    async withDeferredForeignKeys<T>(work: () => Promise<T>): Promise<T> {
      db.pragma("foreign_keys = OFF");
      try {
        const result = await work();
        const broken = CHECKED_TABLES.filter(
          (table) => (db.pragma(`foreign_key_check(${table})`) as unknown[]).length > 0,
        );
        if (broken.length > 0)
          throw new Error(
            `rows of ${broken.join(", ")} name rows that are gone; ` +
              "keep this database and its latest backup, and report this",
          );
        return result;
      } finally {
        db.pragma("foreign_keys = ON");
      }
    },
  };
}
