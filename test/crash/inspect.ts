// Looks at the data directory itself, past the API: whatever was being written when the process died, the rows agree with
// each other, the derived rows are what the facts give, and every file is what its name says.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { evaluateTrail } from "../../src/domain/compliance/trail.ts";
import type { TrailStatus } from "../../src/domain/compliance/trail.ts";
import { openStore } from "../../src/store/index.ts";

/** Looks at one data directory again and again; rows and files that were found well in an earlier look are skipped, because nothing writes them again. */
export function inspector(directory: string) {
  const verified = new Set<string>();
  let lastTrail = 0;
  let lastAttestation = 0;
  let lastAudit = 0;

  return {
    /** Everything from the beginning, next time. */
    forget(): void {
      verified.clear();
      lastTrail = lastAttestation = lastAudit = 0;
    },
    /** What is wrong, one line each. To be called while nothing writes. */
    inspect(): string[] {
      const problems: string[] = [];
      for (const left of readdirSync(join(directory, "staging"))) problems.push(`${left} is left in the staging directory`);
      checkFiles(join(directory, "evidence"), verified, problems);

      const db = new Database(join(directory, "assay.db"), { readonly: true });
      try {
        const integrity = db.pragma("integrity_check", { simple: true });
        if (integrity !== "ok") problems.push(`integrity_check: ${integrity}`);
        for (const row of db.pragma("foreign_key_check") as object[]) problems.push(`foreign_key_check: ${JSON.stringify(row)}`);
        for (const [what, sql] of CONTRADICTIONS)
          for (const row of db.prepare(sql).all({ trail: lastTrail, attestation: lastAttestation, audit: lastAudit })) problems.push(`${what}: ${JSON.stringify(row)}`);
        for (const { digest } of db.prepare<[number], { digest: string }>("SELECT evidence_digest AS digest FROM attestations WHERE id > ? AND evidence_digest IS NOT NULL").all(lastAttestation))
          if (!verified.has(digest)) problems.push(`the evidence ${digest} of an attestation has no file`);
        checkVerdicts(db, lastTrail, problems);
        const last = (table: string): number => (db.prepare(`SELECT coalesce(max(id), 0) FROM ${table}`).pluck().get() as number);
        [lastTrail, lastAttestation, lastAudit] = [last("trails"), last("attestations"), last("audit_log")];
      } finally {
        db.close();
      }
      return problems;
    },
  };
}

/** Every file below evidence/ has the SHA-256 that its directory and name say. */
function checkFiles(root: string, verified: Set<string>, problems: string[]): void {
  for (const shard of readdirSync(root)) {
    for (const name of readdirSync(join(root, shard))) {
      const digest = shard + name;
      if (verified.has(digest)) continue;
      const actual = createHash("sha256").update(readFileSync(join(root, shard, name))).digest("hex");
      if (actual === digest) verified.add(digest);
      else problems.push(`the evidence file ${digest} holds something else: ${actual}`);
    }
  }
}

/** The writers bind by fingerprint, or by target and commit; what has neither belongs to its trail (semantics 3.2). */
const BOUND = `
  SELECT a.id AS artifact_id, e.id AS attestation_id FROM attestations e JOIN artifacts a ON a.trail_id = e.trail_id
  WHERE e.trail_id > @trail AND (a.fingerprint = e.artifact_fingerprint
     OR (e.artifact_fingerprint IS NULL AND a.git_commit = e.git_commit
         AND a.reference_name IN (SELECT value FROM json_each(e.target_artifacts_json))))`;
const STORED = `
  SELECT b.artifact_id, b.attestation_id FROM attestation_bindings b JOIN attestations e ON e.id = b.attestation_id WHERE e.trail_id > @trail`;
const LATEST = `
  SELECT e.trail_id, b.artifact_id, e.name, max(e.id) AS attestation_id FROM (${BOUND}) b JOIN attestations e ON e.id = b.attestation_id GROUP BY 1, 2, 3
  UNION ALL
  SELECT trail_id, 0, name, max(id) FROM attestations
  WHERE trail_id > @trail AND artifact_fingerprint IS NULL AND target_artifacts_json IS NULL GROUP BY 1, 3`;
const CURRENT = "SELECT trail_id, artifact_id, name, attestation_id FROM current_attestations WHERE trail_id > @trail";
const IN_AUDIT = "SELECT detail_json ->> 'attestation_id' AS id FROM audit_log WHERE id > @audit AND event = 'attestation.reported'";
const REPORTED = "SELECT public_id AS id FROM attestations WHERE id > @attestation";
// Parameters that a statement does not use are refused, so each names all of them.
const ALL = "AND (@trail, @attestation, @audit) IS NOT NULL";
const except = (left: string, right: string): string => `SELECT * FROM (SELECT * FROM (${left}) EXCEPT SELECT * FROM (${right})) WHERE true ${ALL}`;

/** Queries that find nothing in sound data. */
const CONTRADICTIONS: readonly (readonly [what: string, sql: string])[] = [
  ["a binding is missing", except(BOUND, STORED)],
  ["a binding has no reason", except(STORED, BOUND)],
  ["a latest attestation is missing", except(LATEST, CURRENT)],
  ["a latest attestation is outdated", except(CURRENT, LATEST)],
  ["an attestation is not in the audit log", except(REPORTED, IN_AUDIT)],
  ["the audit log tells of an attestation that is not there", except(IN_AUDIT, REPORTED)],
  [
    "an attestation is not once in the history of its trail",
    `SELECT e.public_id FROM attestations e LEFT JOIN trail_events v ON v.trail_id = e.trail_id AND v.event_json ->> 'attestation_id' = e.public_id
     WHERE e.trail_id > @trail ${ALL} GROUP BY e.id HAVING count(v.id) <> 1`,
  ],
  ["a trail has no beginning", `SELECT t.id FROM trails t WHERE t.id > @trail ${ALL} AND 1 <> (SELECT count(*) FROM trail_events v WHERE v.trail_id = t.id AND v.type = 'trail_reported')`],
  [
    "the versions of a policy have gaps",
    `SELECT p.name FROM policies p LEFT JOIN policy_versions v ON v.policy_id = p.id WHERE true ${ALL} GROUP BY p.id HAVING count(v.id) <> coalesce(max(v.version), 0) OR count(v.id) = 0`,
  ],
];

/** The stored verdicts of trails and artifacts are those that their facts give. */
function checkVerdicts(db: Database.Database, after: number, problems: string[]): void {
  const sources = { now: () => 0, newId: () => "" };
  const { artifacts, attestations, templates } = openStore(db, sources);
  const trails = db.prepare<[number], { id: number; template_id: number; template: string; state: string; compliance_json: string; reasons_json: string }>(
    `SELECT t.id, t.template_id, p.public_id AS template, t.state, t.compliance_json, t.reasons_json
     FROM trails t JOIN templates p ON p.id = t.template_id WHERE t.id > ?`,
  );
  for (const trail of trails.all(after)) {
    const facts = attestations.facts(trail.id);
    const rows = artifacts.inTrail(trail.id);
    const stored = JSON.parse(trail.compliance_json) as TrailStatus;
    const { compliance_status: status, reasons, artifacts: verdicts } = evaluateTrail({
      template: templates.parsed(trail.template_id),
      flowTemplateId: trail.template,
      evaluatedAt: stored.evaluated_at,
      trailAttestations: facts.get(null) ?? [],
      artifacts: rows.map((row) => ({
        artifactId: row.public_id, fingerprint: row.fingerprint, referenceName: row.reference_name, attestations: facts.get(row.id) ?? [],
      })),
    });
    if (trail.state !== status.status || trail.compliance_json !== JSON.stringify(status) || trail.reasons_json !== JSON.stringify(reasons))
      problems.push(`trail ${trail.id} is stored as ${trail.state} ${trail.compliance_json}, its facts give ${JSON.stringify(status)}`);
    for (const [index, row] of rows.entries()) {
      const verdict = verdicts[index];
      if (row.state !== verdict?.state || row.reasons_json !== JSON.stringify(verdict.reasons) || row.attestations_json !== JSON.stringify(verdict.attestationsStatuses))
        problems.push(`artifact ${row.id} is stored as ${row.state} ${row.attestations_json}, its facts give ${JSON.stringify(verdict)}`);
    }
  }
}
