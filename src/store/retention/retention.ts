/**
 * The one place that deletes history: trails with everything on them, and files of records that stay, as a plan says
 * (retention-plan.ts). It works on a connection of its own, beside a running server if there is one.
 *
 * Invariants: what is deleted leaves a tombstone and an entry in the audit log, in the transaction that deletes it; a
 * trail goes as a whole; what a plan did not show is not deleted, and everything is asked once more under the write
 * lock: rules, holds, and whether an artifact ran meanwhile. Files themselves are not touched: the sweep of the vault
 * takes what no record names, after its day of grace.
 */
import { createHash } from "node:crypto";
import type { buildStore } from "../flows/builds.ts";
import { COUNTS, expiryTimes, LAST_EVENT, RAN, retentionPlanStore, retentionRuleText } from "./retention-plan.ts";
import type { DueRow, RetentionAction, RetentionPlan } from "./retention-plan.ts";
import { retentionRuleStore } from "./retention-rules.ts";
import type { Db, SchemaSources } from "../db/types.ts";

export type RetentionRunRow = {
  id: number;
  public_id: string;
  plan: string;
  started_by: string;
  started_at: number;
  finished_at: number | null;
};

/** What is left of something that was deleted. Times in epoch seconds. */
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

/** A record of the audit log; `detail` says what was deleted. */
export type RetentionNote = (
  organizationId: number,
  event: "trail.deleted" | "trail.evidence_deleted",
  target: string,
  detail: Readonly<Record<string, unknown>>,
) => void;

/** The rules or holds are others than those of the plan. What was deleted before stays deleted. */
export class RetentionChangedError extends Error {
  override readonly name = "RetentionChangedError";
}

/** What one step did. `kept`: it was to go and stays, because of something that happened since the plan. */
export type RetentionStep = { trails: number; stripped: number; kept: number };

type TrailRow = {
  id: number;
  public_id: string;
  name: string;
  organization_id: number;
  flow_id: number;
  flow_name: string;
  created_at: number;
  last_event: number;
};
type RecordRow = {
  id: number;
  public_id: string;
  name: string;
  type: string;
  overridden_type: string | null;
  is_compliant: 0 | 1;
  created_at: number;
  evidence_digest: string | null;
  evidence_size: number | null;
  evidence_filename: string | null;
};
type ArtifactRow = { id: number; fingerprint: string };

/** Tables with rows that name what is deleted, directly or through each other. */
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

/** Everything about retention over one connection. The command line opens it, and nothing that serves. */
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

function retentionRunStore(db: Db, { now, newId }: SchemaSources, { rules, plans, builds }: Parts) {
  const runOf = db.prepare<[string], RetentionRunRow>(
    "SELECT id, public_id, plan, started_by, started_at, finished_at FROM retention_runs WHERE plan = ?",
  );
  const begin = db.prepare("INSERT INTO retention_runs (public_id, plan, started_by, started_at) VALUES (?, ?, ?, ?)");
  const finish = db.prepare("UPDATE retention_runs SET finished_at = ? WHERE id = ? AND finished_at IS NULL");
  const deletedBy = db
    .prepare<[number], string>("SELECT DISTINCT kind || ' ' || trail_public_id FROM tombstones WHERE run_id = ?")
    .pluck();
  const trailById = db.prepare<[number], TrailRow>(
    `SELECT t.id, t.public_id, t.name, t.organization_id, t.flow_id, f.name AS flow_name, t.created_at, ${LAST_EVENT} AS last_event
     FROM trails t JOIN flows f ON f.id = t.flow_id WHERE t.id = ?`,
  );
  const ran = db.prepare<[number], { found: 1 }>(
    `SELECT 1 AS found FROM trails t JOIN (SELECT ? AS trail_id) due ON due.trail_id = t.id WHERE ${RAN}`,
  );
  // With every trail that has a record of an artifact of which this one has a record that counts.
  const sharing = db.prepare<[number, number], { trail_id: number | null }>(
    `SELECT DISTINCT other.trail_id FROM artifacts a JOIN artifacts other ON other.organization_id = a.organization_id AND other.fingerprint = a.fingerprint
     WHERE a.trail_id = ? AND other.trail_id IS NOT ? AND ${COUNTS}`,
  );
  const recordsOf = db.prepare<[number], RecordRow>(
    `SELECT id, public_id, name, type, overridden_type, is_compliant, created_at, evidence_digest, evidence_size, evidence_filename
     FROM attestations WHERE trail_id = ? ORDER BY id`,
  );
  const artifactsOf = db.prepare<[number], ArtifactRow>(
    "SELECT id, fingerprint FROM artifacts WHERE trail_id = ? ORDER BY id",
  );
  const countEvents = db.prepare<[number], number>("SELECT count(*) FROM trail_events WHERE trail_id = ?").pluck();
  const strippedFiles = db.prepare<[string], { public_id: string; digest: string }>(
    "SELECT public_id, digest FROM tombstones WHERE trail_public_id = ? AND kind = 'evidence'",
  );
  const seriesOf = db.prepare<[number, string, string, string, number], { id: number }>(
    "SELECT id FROM attestation_series WHERE flow_id = ? AND name = ? AND type = ? AND overridden_type = ? AND is_compliant = ?",
  );
  const leaveSeries = db.prepare(
    "DELETE FROM attestation_series_records WHERE series_id = ? AND created_at = ? AND attestation_id = ?",
  );
  const endSeries = db.prepare(
    "DELETE FROM attestation_series WHERE id = ? AND NOT EXISTS (SELECT 1 FROM attestation_series_records r WHERE r.series_id = attestation_series.id)",
  );
  const unbind = db.prepare("DELETE FROM attestation_bindings WHERE artifact_id = ?");
  const unbuild = db.prepare("DELETE FROM builds WHERE artifact_id = ?");
  const firstOf = db
    .prepare<[number, string], number | null>(
      "SELECT min(id) FROM artifacts WHERE organization_id = ? AND fingerprint = ?",
    )
    .pluck();
  const ofTrail = [
    "current_attestations WHERE trail_id",
    "pending_bindings WHERE trail_id",
    "attestations WHERE trail_id",
    "artifacts WHERE trail_id",
    "trail_events WHERE trail_id",
    "trail_repos WHERE trail_id",
    "trails WHERE id",
  ].map((rows) => db.prepare<[number]>(`DELETE FROM ${rows} = ?`));
  const countDown = db.prepare("UPDATE flows SET trail_count = trail_count - 1 WHERE id = ?");
  const strip = db.prepare("UPDATE attestations SET evidence_digest = NULL, evidence_size = NULL WHERE id = ?");
  // A snapshot that is in the making may have read what is deleted: it then begins anew (recording.ts, isCurrent).
  const factsChanged = db.prepare("UPDATE environments SET revision = revision + 1 WHERE organization_id = ?");
  const bury = db.prepare(
    `INSERT INTO tombstones (run_id, kind, public_id, name, organization_id, flow_id, trail_public_id, digest, size, filename, artifact_count, attestation_count,
                             event_count, file_count, fingerprints_json, rule, created_at, last_event_at, deleted_at)
     VALUES (@run, @kind, @publicId, @name, @organization, @flow, @trail, @digest, @size, @filename, @artifacts, @attestations, @events, @files, @fingerprints, @rule,
             @createdAt, @lastEventAt, @deletedAt)`,
  );
  const tombstones = db.prepare<
    [{ organization: number; flow: number | null; before: number; limit: number }],
    TombstoneRow
  >(
    `SELECT x.id, x.kind, x.public_id, x.name, o.name AS organization_name, f.name AS flow_name, x.trail_public_id, x.digest, x.size, x.filename, x.artifact_count,
            x.attestation_count, x.event_count, x.file_count, x.fingerprints_json, x.rule, r.public_id AS run_public_id, x.created_at, x.last_event_at, x.deleted_at
     FROM tombstones x JOIN organizations o ON o.id = x.organization_id JOIN flows f ON f.id = x.flow_id JOIN retention_runs r ON r.id = x.run_id
     WHERE x.organization_id = @organization AND (@flow IS NULL OR x.flow_id = @flow) AND x.id < @before ORDER BY x.id DESC LIMIT @limit`,
  );

  /** The files that each record has or had, by the public id of the record. */
  function filesOf(trail: TrailRow, records: readonly RecordRow[]): Map<string, string> {
    const files = new Map(strippedFiles.all(trail.public_id).map(({ public_id, digest }) => [public_id, digest]));
    for (const { public_id, evidence_digest } of records)
      if (evidence_digest !== null) files.set(public_id, evidence_digest);
    return files;
  }

  function deleteTrail(trail: TrailRow, run: number, rule: string, note: RetentionNote): void {
    const [records, artifacts] = [recordsOf.all(trail.id), artifactsOf.all(trail.id)];
    const files = filesOf(trail, records);
    const digest = recordsDigest(records.map((record) => ({ ...record, file: files.get(record.public_id) ?? null })));
    const counts = {
      artifacts: artifacts.length,
      attestations: records.length,
      events: countEvents.get(trail.id) as number,
      files: files.size,
    };
    const series = new Set<number>();
    for (const { id, name, type, overridden_type, is_compliant, created_at } of records) {
      const found = seriesOf.get(trail.flow_id, name, type, overridden_type ?? "", is_compliant);
      if (!found) continue;
      leaveSeries.run(found.id, created_at, id);
      series.add(found.id);
    }
    for (const id of series) endSeries.run(id);
    const built = new Set<string>();
    for (const { id, fingerprint } of artifacts) {
      unbind.run(id);
      if (unbuild.run(id).changes > 0) built.add(fingerprint);
    }
    for (const rows of ofTrail) rows.run(trail.id);
    countDown.run(trail.flow_id);
    // The next record of a fingerprint whose first one is gone is the first one now.
    for (const fingerprint of built) {
      const first = firstOf.get(trail.organization_id, fingerprint) ?? null;
      if (first !== null) builds.recordArtifact(first);
    }
    if (artifacts.length > 0) factsChanged.run(trail.organization_id);
    bury.run({
      run,
      kind: "trail",
      publicId: trail.public_id,
      name: trail.name,
      organization: trail.organization_id,
      flow: trail.flow_id,
      trail: trail.public_id,
      digest,
      size: null,
      filename: null,
      ...counts,
      fingerprints: JSON.stringify([...new Set(artifacts.map(({ fingerprint }) => fingerprint))]),
      rule,
      createdAt: trail.created_at,
      lastEventAt: trail.last_event,
      deletedAt: now(),
    });
    note(trail.organization_id, "trail.deleted", `${trail.flow_name}/${trail.name}`, {
      trail_id: trail.public_id,
      ...counts,
      digest,
      rule,
    });
  }

  function deleteFiles(trail: TrailRow, run: number, rule: string, note: RetentionNote): void {
    const records = recordsOf.all(trail.id).filter(({ evidence_digest }) => evidence_digest !== null);
    for (const record of records) {
      strip.run(record.id);
      bury.run({
        run,
        kind: "evidence",
        publicId: record.public_id,
        name: record.name,
        organization: trail.organization_id,
        flow: trail.flow_id,
        trail: trail.public_id,
        digest: record.evidence_digest,
        size: record.evidence_size,
        filename: record.evidence_filename,
        artifacts: 0,
        attestations: 0,
        events: 0,
        files: 0,
        fingerprints: "[]",
        rule,
        createdAt: record.created_at,
        lastEventAt: trail.last_event,
        deletedAt: now(),
      });
    }
    note(trail.organization_id, "trail.evidence_deleted", `${trail.flow_name}/${trail.name}`, {
      trail_id: trail.public_id,
      files: records.length,
      rule,
    });
  }

  /** The trails that can only go together with this one, itself included; null when one of them stays. */
  function together(first: number, going: ReadonlyMap<number, DueRow>): number[] | null {
    const unit = new Set([first]);
    for (const id of unit)
      for (const { trail_id } of sharing.all(id, id)) {
        if (trail_id === null || going.get(trail_id)?.action !== "trail") return null;
        unit.add(trail_id);
      }
    return [...unit];
  }

  return {
    /** The run of a plan, null before it began. */
    find: (plan: string): RetentionRunRow | null => runOf.get(plan) ?? null,
    /** What a run deleted so far, as a plan names it. */
    listDeletedBy: (run: number): string[] => deletedBy.all(run),
    /** Begins the run of a plan, or goes on with it. Inside a write. */
    begin(plan: string, by: string): RetentionRunRow {
      const known = runOf.get(plan);
      if (!known) begin.run(newId(), plan, by, now());
      return known ?? (runOf.get(plan) as RetentionRunRow);
    },
    /** Notes that nothing of the plan is left. Inside a write. */
    finish: (run: number): void => void finish.run(now(), run),
    /** What was deleted, the latest first; `before` is the id of the last one of the part before. */
    listTombstones: (
      organizationId: number,
      flowId: number | null,
      { limit, before }: { limit: number; before: number | null },
    ): TombstoneRow[] =>
      tombstones.all({ organization: organizationId, flow: flowId, before: before ?? Number.MAX_SAFE_INTEGER, limit }),

    /**
     * What a plan deletes, in pieces: each is a whole trail, or those that can only go together. The caller runs one or
     * several of them in a write, in their order, and may end between any two.
     * @param plan made at `at` (epoch seconds) in this connection just before, and not changed since
     * @throws RetentionChangedError when rules or holds change on the way.
     */
    planPieces(plan: Pick<RetentionPlan, "at" | "state">, run: number, note: RetentionNote): (() => RetentionStep)[] {
      const going = new Map(plans.listGoing().map((row) => [row.trail_id, row]));
      const words = new Map(
        rules.list().map((rule) => [rule.id, { rule: retentionRuleText(rule), ends: expiryTimes(rule, plan.at) }]),
      );

      /** The trail if it still may go; asked under the write lock. */
      const still = ({ trail_id, rule_id, action }: DueRow): TrailRow | null => {
        const trail = trailById.get(trail_id);
        const [trails, evidence] = words.get(rule_id)?.ends ?? [0, 0];
        return trail && trail.last_event < (action === "trail" ? trails : evidence) && !ran.get(trail_id)
          ? trail
          : null;
      };
      return [...going].map(([id, due]) => () => {
        const step: RetentionStep = { trails: 0, stripped: 0, kept: 0 };
        // It went together with an earlier one.
        if (!going.has(id)) return step;
        if (rules.digest() !== plan.state) throw new RetentionChangedError("rules or holds were changed meanwhile");
        const unit = (due.action === "evidence" ? [id] : together(id, going))?.map((each) => going.get(each) as DueRow);
        const trails = unit?.map(still) ?? [null];
        for (const { trail_id } of unit ?? [due]) going.delete(trail_id);
        if (trails.some((trail) => trail === null)) return { ...step, kept: trails.length };
        for (const [place, trail] of (trails as TrailRow[]).entries()) {
          const rule = words.get((unit?.[place] ?? due).rule_id)?.rule ?? "";
          if (due.action === "trail") deleteTrail(trail, run, rule, note);
          else deleteFiles(trail, run, rule, note);
        }
        return due.action === "trail" ? { ...step, trails: trails.length } : { ...step, stripped: trails.length };
      });
    },

    /**
     * Deletes without the checks of foreign keys, which would look through whole tables for each row, and proves
     * afterwards that no row names one that is gone. Not inside a transaction.
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
            `rows of ${broken.join(", ")} name rows that are gone; keep this database and its latest backup, and report this`,
          );
        return result;
      } finally {
        db.pragma("foreign_keys = ON");
      }
    },
  };
}

/**
 * SHA-256 over one line of JSON for each record, oldest first: [id, name, is it compliant, digest of its file or null].
 * What an exported audit package holds gives the same (see the topic "retention").
 */
export function recordsDigest(
  records: readonly { public_id: string; name: string; is_compliant: 0 | 1; file: string | null }[],
): string {
  const digest = createHash("sha256");
  for (const { public_id, name, is_compliant, file } of records)
    digest.update(`${JSON.stringify([public_id, name, is_compliant === 1, file])}\n`);
  return digest.digest("hex");
}
