import type { DbReader } from "../../store/db/types.ts";
import { yieldToEventLoop } from "./check.ts";
import type { Finding, Findings } from "./check.ts";

/**
 * The comparison of each derived table with the rows that it is derived from. `what` is its name in the result, `table`
 * is the table whose rows are counted, and every row of `sql` is a finding.
 */
const DERIVED_TABLES: readonly { what: string; table: string; sql: string }[] = [
  {
    what: "latest attestations",
    table: "current_attestations",
    sql: `
      WITH expected (trail_id, artifact_id, name, attestation_id) AS (
        SELECT trail_id, 0, name, max(id) FROM attestations WHERE scope = 'trail' GROUP BY trail_id, name
        UNION ALL
        SELECT att.trail_id, b.artifact_id, att.name, max(att.id)
        FROM attestation_bindings b JOIN attestations att ON att.id = b.attestation_id
        GROUP BY att.trail_id, b.artifact_id, att.name),
      findings (trail_id, artifact_id, name, problem) AS (
        SELECT trail_id, artifact_id, name,
               'names attestation ' || attestation_id || ', which is not the latest of that name'
        FROM (SELECT trail_id, artifact_id, name, attestation_id FROM current_attestations
              EXCEPT SELECT trail_id, artifact_id, name, attestation_id FROM expected)
        UNION ALL
        SELECT trail_id, artifact_id, name, 'should name attestation ' || attestation_id
        FROM (SELECT trail_id, artifact_id, name, attestation_id FROM expected
              EXCEPT SELECT trail_id, artifact_id, name, attestation_id FROM current_attestations))
      SELECT 'current_attestations, trail ' || trail_id || ', artifact ' || artifact_id || ', name ' || name AS about,
             problem
      FROM findings`,
  },
  {
    what: "waiting bindings",
    table: "pending_bindings",
    sql: `
      SELECT 'artifact ' || a.public_id AS about,
             'is not bound to attestation ' || p.attestation_id || ', which was waiting for it' AS problem
      FROM pending_bindings p
      JOIN artifacts a
        ON a.trail_id = p.trail_id AND a.reference_name = p.reference_name AND a.git_commit = p.git_commit
      WHERE NOT EXISTS (SELECT 1 FROM attestation_bindings b
                        WHERE b.artifact_id = a.id AND b.attestation_id = p.attestation_id)`,
  },
  {
    what: "bindings",
    table: "attestation_bindings",
    sql: `
      SELECT 'attestation_bindings, artifact ' || b.artifact_id || ', attestation ' || b.attestation_id AS about,
             'connects records of different trails' AS problem
      FROM attestation_bindings b
      JOIN artifacts a ON a.id = b.artifact_id
      JOIN attestations att ON att.id = b.attestation_id
      WHERE a.trail_id IS NOT att.trail_id`,
  },
  {
    what: "builds",
    table: "builds",
    sql: `
      WITH firsts (id, organization_id, repo_id, created_at) AS (
        SELECT a.id, a.organization_id, a.repo_id, a.created_at
        FROM (SELECT min(id) AS id FROM artifacts GROUP BY organization_id, fingerprint) first
        JOIN artifacts a ON a.id = first.id)
      SELECT 'builds, artifact ' || artifact_id AS about,
             'does not match the first record of its fingerprint' AS problem
      FROM (SELECT artifact_id, organization_id, repo_id, created_at FROM builds
            EXCEPT SELECT id, organization_id, repo_id, created_at FROM firsts)
      UNION ALL
      SELECT 'artifact ' || id, 'is the first record of its fingerprint, but has no matching build'
      FROM (SELECT id, organization_id, repo_id, created_at FROM firsts
            EXCEPT SELECT artifact_id, organization_id, repo_id, created_at FROM builds)`,
  },
  {
    what: "records in series",
    table: "attestation_series_records",
    sql: `
      SELECT 'attestation ' || att.public_id AS about,
             'is missing from the series of its flow, name, type and verdict' AS problem
      FROM attestations att
      WHERE NOT EXISTS (
        SELECT 1 FROM attestation_series series JOIN attestation_series_records r ON r.series_id = series.id
        WHERE series.flow_id = att.flow_id AND series.name = att.name AND series.type = att.type
          AND series.overridden_type = coalesce(att.overridden_type, '') AND series.is_compliant = att.is_compliant
          AND series.organization_id = att.organization_id AND r.created_at = att.created_at
          AND r.attestation_id = att.id)
      UNION ALL
      SELECT 'attestation_series_records, series ' || r.series_id || ', attestation ' || r.attestation_id,
             'is in the wrong series'
      FROM attestation_series_records r
      JOIN attestation_series series ON series.id = r.series_id
      JOIN attestations att ON att.id = r.attestation_id
      WHERE series.flow_id <> att.flow_id OR series.name <> att.name OR series.type <> att.type
         OR series.overridden_type <> coalesce(att.overridden_type, '') OR series.is_compliant <> att.is_compliant
         OR r.created_at <> att.created_at`,
  },
  {
    what: "flows",
    table: "flows",
    sql: `
      WITH counted (id, trails) AS (SELECT f.id, (SELECT count(*) FROM trails t WHERE t.flow_id = f.id) FROM flows f)
      SELECT 'flow ' || f.name || ' (' || f.id || ')' AS about,
             'counts ' || f.trail_count || ' trails, but has ' || counted.trails AS problem
      FROM flows f JOIN counted ON counted.id = f.id WHERE f.trail_count <> counted.trails`,
  },
  {
    what: "policies",
    table: "policies",
    sql: `
      SELECT 'policy ' || pol.name || ' (' || pol.id || ')' AS about,
             'has ' || count(pv.id) || ' versions, but the last one is number ' || coalesce(max(pv.version), 0)
               AS problem
      FROM policies pol LEFT JOIN policy_versions pv ON pv.policy_id = pol.id
      GROUP BY pol.id HAVING count(pv.id) <> coalesce(max(pv.version), 0)`,
  },
  {
    what: "totals of evidence",
    table: "evidence_totals",
    sql: `
      WITH named (files, bytes) AS (
        SELECT count(*), coalesce(sum(size), 0)
        FROM (SELECT max(evidence_size) AS size FROM attestations
              WHERE evidence_digest IS NOT NULL GROUP BY evidence_digest
              UNION ALL SELECT size FROM rego_documents WHERE content IS NULL))
      SELECT 'evidence_totals' AS about,
             'counts ' || coalesce(totals.files, 0) || ' files of ' || coalesce(totals.bytes, 0) || ' bytes, '
               || 'but records name ' || named.files || ' files of ' || named.bytes || ' bytes' AS problem
      FROM named LEFT JOIN evidence_totals totals ON totals.id = 1
      WHERE coalesce(totals.files, 0) <> named.files OR coalesce(totals.bytes, 0) <> named.bytes`,
  },
  {
    what: "totals of evidence in the database",
    table: "small_evidence",
    sql: `
      WITH held (files, bytes) AS (SELECT count(*), coalesce(sum(length(content)), 0) FROM small_evidence)
      SELECT 'evidence_totals' AS about,
             'counts ' || coalesce(totals.in_database, 0) || ' files of ' || coalesce(totals.bytes_in_database, 0)
               || ' bytes in the database, but it has ' || held.files || ' files of ' || held.bytes || ' bytes'
               AS problem
      FROM held LEFT JOIN evidence_totals totals ON totals.id = 1
      WHERE coalesce(totals.in_database, 0) <> held.files OR coalesce(totals.bytes_in_database, 0) <> held.bytes`,
  },
  {
    what: "events by repository",
    table: "environment_event_repos",
    sql: `
      SELECT 'environment_event_repos, environment ' || r.environment_id || ', event ' || r.event_id AS about,
             'is not an event of that snapshot' AS problem
      FROM environment_event_repos r LEFT JOIN snapshot_artifacts sa ON sa.id = r.event_id
      WHERE sa.id IS NULL OR sa.environment_id <> r.environment_id OR sa.first_index <> r.first_index
         OR sa.annotation = 'unchanged'`,
  },
];

/** The number of tables that `checkDerivedTables` compares. */
export const DERIVED_TABLE_COUNT = DERIVED_TABLES.length;

/** @param onTable is called after each table */
export async function checkDerivedTables(
  db: DbReader,
  { damage, count }: Findings,
  onTable: () => void = () => undefined,
): Promise<void> {
  for (const { what, table, sql } of DERIVED_TABLES) {
    for (const { about, problem } of db.prepare<[], Finding>(sql).iterate()) damage(about, problem);
    count(what, db.prepare(`SELECT count(*) FROM ${table}`).pluck().get() as number);
    onTable();
    await yieldToEventLoop();
  }
}

/** A webhook is one audit entry, however many records it creates; the records are created this soon after the entry. */
const SAME_CALL_S = 60;

/** The audit log is append-only and contains every attestation. */
export function checkAudit(db: DbReader, { damage, count }: Findings): void {
  const gaps = db.prepare<[], { id: number; before: number | null }>(
    `SELECT id, before FROM (SELECT id, lag(id, 1, 0) OVER (ORDER BY id) AS before FROM audit_log)
     WHERE id <> before + 1`,
  );
  for (const { id, before } of gaps.iterate())
    damage(`audit_log row ${id}`, `follows row ${before ?? 0}: the entries between them are missing`);
  const unreadable = db.prepare<[], { id: number; event: string }>(
    "SELECT id, event FROM audit_log WHERE detail_json IS NOT NULL AND NOT json_valid(detail_json)",
  );
  for (const { id, event } of unreadable.iterate())
    damage(`audit_log row ${id} (${event})`, "its details are not valid JSON");
  const unaudited = db.prepare<[], { public_id: string; name: string }>(
    `SELECT att.public_id, att.name
     FROM (SELECT public_id FROM attestations
           EXCEPT
           SELECT CASE WHEN json_valid(detail_json) THEN detail_json ->> 'attestation_id' END FROM audit_log
           WHERE event IN ('attestation.reported', 'webhook.received')) unaudited
     JOIN attestations att ON att.public_id = unaudited.public_id
     WHERE NOT EXISTS (
       SELECT 1 FROM audit_log log
       WHERE log.organization_id = att.organization_id AND log.event = 'webhook.received'
         AND abs(log.timestamp - att.created_at) < ${SAME_CALL_S})`,
  );
  for (const { public_id, name } of unaudited.iterate())
    damage(`attestation ${public_id} ('${name}')`, "is not in the audit log: it was not recorded through the API");
  count("audit entries", db.prepare("SELECT count(*) FROM audit_log").pluck().get() as number);
}
