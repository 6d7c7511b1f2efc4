import { yieldToEventLoop } from "./check.ts";
import type { Findings } from "./check.ts";
import type { Db } from "../../store/db/types.ts";

/** The columns of each question: what the row is, and what is wrong with it. */
type Answer = { about: string; problem: string };

const DERIVED_TABLES: readonly { what: string; counted: string; sql: string }[] = [
  {
    what: "latest attestations",
    counted: "current_attestations",
    sql: `WITH expected (trail_id, artifact_id, name, attestation_id) AS (
            SELECT trail_id, 0, name, max(id) FROM attestations WHERE scope = 'trail' GROUP BY trail_id, name
            UNION ALL
            SELECT a.trail_id, b.artifact_id, a.name, max(a.id) FROM attestation_bindings b JOIN attestations a ON a.id = b.attestation_id
            GROUP BY a.trail_id, b.artifact_id, a.name)
          SELECT 'current_attestations, trail ' || trail_id || ', artifact ' || artifact_id || ', name ' || name AS about, problem FROM (
            SELECT trail_id, artifact_id, name, 'says ' || attestation_id || ', which is not the latest record of that name' AS problem FROM (
              SELECT trail_id, artifact_id, name, attestation_id FROM current_attestations EXCEPT SELECT trail_id, artifact_id, name, attestation_id FROM expected)
            UNION ALL
            SELECT trail_id, artifact_id, name, 'should say ' || attestation_id FROM (
              SELECT trail_id, artifact_id, name, attestation_id FROM expected EXCEPT SELECT trail_id, artifact_id, name, attestation_id FROM current_attestations))`,
  },
  {
    what: "waiting bindings",
    counted: "pending_bindings",
    sql: `SELECT 'artifact ' || r.public_id AS about, 'is not bound to attestation ' || p.attestation_id || ', which waited for it' AS problem
          FROM pending_bindings p JOIN artifacts r ON r.trail_id = p.trail_id AND r.reference_name = p.reference_name AND r.git_commit = p.git_commit
          WHERE NOT EXISTS (SELECT 1 FROM attestation_bindings b WHERE b.artifact_id = r.id AND b.attestation_id = p.attestation_id)`,
  },
  {
    what: "bindings",
    counted: "attestation_bindings",
    sql: `SELECT 'attestation_bindings, artifact ' || b.artifact_id || ', attestation ' || b.attestation_id AS about, 'joins records of different trails' AS problem
          FROM attestation_bindings b JOIN artifacts r ON r.id = b.artifact_id JOIN attestations a ON a.id = b.attestation_id WHERE r.trail_id IS NOT a.trail_id`,
  },
  {
    what: "builds",
    counted: "builds",
    sql: `WITH firsts (id, organization_id, repo_id, created_at) AS (
            SELECT a.id, a.organization_id, a.repo_id, a.created_at FROM (SELECT min(id) AS id FROM artifacts GROUP BY organization_id, fingerprint) f JOIN artifacts a ON a.id = f.id)
          SELECT 'builds, artifact ' || artifact_id AS about, 'is not the first record of a fingerprint as that record is' AS problem FROM (
            SELECT artifact_id, organization_id, repo_id, created_at FROM builds EXCEPT SELECT id, organization_id, repo_id, created_at FROM firsts)
          UNION ALL
          SELECT 'artifact ' || id, 'is the first record of its fingerprint and no build as it is' FROM (
            SELECT id, organization_id, repo_id, created_at FROM firsts EXCEPT SELECT artifact_id, organization_id, repo_id, created_at FROM builds)`,
  },
  {
    what: "records in series",
    counted: "attestation_series_records",
    sql: `SELECT 'attestation ' || a.public_id AS about, 'is not in the series of its flow, name, type and verdict' AS problem FROM attestations a
          WHERE NOT EXISTS (
            SELECT 1 FROM attestation_series s JOIN attestation_series_records r ON r.series_id = s.id
            WHERE s.flow_id = a.flow_id AND s.name = a.name AND s.type = a.type AND s.overridden_type = coalesce(a.overridden_type, '') AND s.is_compliant = a.is_compliant
              AND s.organization_id = a.organization_id AND r.created_at = a.created_at AND r.attestation_id = a.id)
          UNION ALL
          SELECT 'attestation_series_records, series ' || r.series_id || ', attestation ' || r.attestation_id, 'is in a series that is not its own'
          FROM attestation_series_records r JOIN attestation_series s ON s.id = r.series_id JOIN attestations a ON a.id = r.attestation_id
          WHERE s.flow_id <> a.flow_id OR s.name <> a.name OR s.type <> a.type OR s.overridden_type <> coalesce(a.overridden_type, '') OR s.is_compliant <> a.is_compliant OR r.created_at <> a.created_at`,
  },
  {
    what: "flows",
    counted: "flows",
    sql: `SELECT 'flow ' || f.name || ' (' || f.id || ')' AS about, 'counts ' || f.trail_count || ' trails and has ' || (SELECT count(*) FROM trails t WHERE t.flow_id = f.id) AS problem
          FROM flows f WHERE f.trail_count <> (SELECT count(*) FROM trails t WHERE t.flow_id = f.id)`,
  },
  {
    what: "policies",
    counted: "policies",
    sql: `SELECT 'policy ' || p.name || ' (' || p.id || ')' AS about, 'has ' || count(v.id) || ' versions, and the last is number ' || coalesce(max(v.version), 0) AS problem
          FROM policies p LEFT JOIN policy_versions v ON v.policy_id = p.id GROUP BY p.id HAVING count(v.id) <> coalesce(max(v.version), 0)`,
  },
  {
    what: "totals of evidence",
    counted: "evidence_totals",
    sql: `WITH found (files, bytes) AS (
            SELECT count(*), coalesce(sum(size), 0) FROM (SELECT max(evidence_size) AS size FROM attestations WHERE evidence_digest IS NOT NULL GROUP BY evidence_digest))
          SELECT 'evidence_totals' AS about, 'counts ' || coalesce(t.files, 0) || ' files of ' || coalesce(t.bytes, 0) || ' bytes, and records name ' || f.files || ' of ' || f.bytes AS problem
          FROM found f LEFT JOIN evidence_totals t ON t.id = 1 WHERE coalesce(t.files, 0) <> f.files OR coalesce(t.bytes, 0) <> f.bytes`,
  },
  {
    what: "events by repository",
    counted: "environment_event_repos",
    sql: `SELECT 'environment_event_repos, environment ' || r.environment_id || ', event ' || r.event_id AS about, 'is no event of that snapshot' AS problem
          FROM environment_event_repos r LEFT JOIN snapshot_artifacts a ON a.id = r.event_id
          WHERE a.id IS NULL OR a.environment_id <> r.environment_id OR a.first_index <> r.first_index OR a.annotation = 'unchanged'`,
  },
];

/** @param step is called after each question. */
export async function checkDerivedTables(
  db: Db,
  { damage: found, count: looked }: Findings,
  step: () => void = () => undefined,
): Promise<void> {
  for (const { what, counted, sql } of DERIVED_TABLES) {
    for (const { about, problem } of db.prepare<[], Answer>(sql).iterate()) found(about, problem);
    looked(what, db.prepare(`SELECT count(*) FROM ${counted}`).pluck().get() as number);
    step();
    await yieldToEventLoop();
  }
}

/** How many questions `checkRecords` asks. */
export const DERIVED_TABLE_COUNT = DERIVED_TABLES.length;

/** A webhook is one entry, however many records it left; each was made in the moment of that entry. In seconds. */
const SAME_CALL = 60;

/** The audit log is only ever appended to, and knows of every attestation. */
export function checkAudit(db: Db, { damage: found, count: looked }: Findings): void {
  const gaps = db.prepare<[], { id: number; before: number | null }>(
    "SELECT id, before FROM (SELECT id, lag(id, 1, 0) OVER (ORDER BY id) AS before FROM audit_log) WHERE id <> before + 1",
  );
  for (const { id, before } of gaps.iterate())
    found(`audit_log row ${id}`, `comes after row ${before ?? 0}: entries in between are gone`);
  const unreadable = db.prepare<[], { id: number; event: string }>(
    "SELECT id, event FROM audit_log WHERE detail_json IS NOT NULL AND NOT json_valid(detail_json)",
  );
  for (const { id, event } of unreadable.iterate()) found(`audit_log row ${id} (${event})`, "its details are no JSON");
  const unknown = db.prepare<[], { public_id: string; name: string }>(
    `SELECT a.public_id, a.name FROM (
       SELECT public_id FROM attestations
       EXCEPT SELECT CASE WHEN json_valid(detail_json) THEN detail_json ->> 'attestation_id' END FROM audit_log WHERE event IN ('attestation.reported', 'webhook.received')) u
     JOIN attestations a ON a.public_id = u.public_id
     WHERE NOT EXISTS (SELECT 1 FROM audit_log l WHERE l.organization_id = a.organization_id AND l.event = 'webhook.received' AND abs(l.timestamp - a.created_at) < ${SAME_CALL})`,
  );
  for (const { public_id, name } of unknown.iterate())
    found(`attestation ${public_id} ('${name}')`, "is not in the audit log: it was not recorded through the API");
  looked("audit entries", db.prepare("SELECT count(*) FROM audit_log").pluck().get() as number);
}
