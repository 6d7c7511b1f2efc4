// The data directory itself, read beside the running server: rows, files, and what is derived from them.
import { existsSync, readFileSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { loadAddon } from "../../src/store/addon.ts";
import type { Db } from "../../src/store/database.ts";
import { openStore } from "../../src/store/index.ts";
import { sha256 } from "./ledger.ts";

/** What earlier rounds have looked at: rows and files never change, so each is read once. */
export type Seen = { attestation: number; files: Set<string> };

/** Everything that is wrong, in words. */
export const inspect = (db: Db, directory: string, seen: Seen): string[] => [
  ...soundness(db), ...evidence(db, join(directory, "evidence"), seen), ...bindings(db), ...together(db), ...verdicts(db),
];

/** The database of a data directory, read-only, to be closed. */
export const openBesideServer = (directory: string): Db =>
  new Database(join(directory, "assay.db"), { readonly: true, nativeBinding: loadAddon() as unknown as string });

/** The staging directory must be empty after a start: what lies there belongs to nobody. */
export const leftInStaging = (directory: string): string[] => readdirSync(join(directory, "staging")).map((name) => `left in staging: ${name}`);

function soundness(db: Db): string[] {
  const integrity = db.pragma("integrity_check", { simple: true });
  const orphans = db.pragma("foreign_key_check") as unknown[];
  return [...(integrity === "ok" ? [] : [`integrity_check: ${String(integrity)}`]), ...(orphans.length ? [`${orphans.length} orphan rows`] : [])];
}

/** Every row's file is there and whole, and no file stands under a name that is not its content's. */
function evidence(db: Db, root: string, seen: Seen): string[] {
  const problems: string[] = [];
  const rows = db
    .prepare("SELECT id, evidence_digest AS digest, evidence_size AS size FROM attestations WHERE id > ? AND evidence_digest IS NOT NULL ORDER BY id")
    .all(seen.attestation) as { id: number; digest: string; size: number }[];
  for (const { id, digest, size } of rows) {
    const path = join(root, digest.slice(0, 2), digest.slice(2));
    if (!existsSync(path)) problems.push(`attestation ${id} names evidence ${digest} that is not there`);
    else if (statSync(path).size !== size) problems.push(`evidence ${digest} has ${statSync(path).size} bytes, its row says ${size}`);
    seen.attestation = id;
  }
  for (const shard of readdirSync(root)) {
    for (const name of readdirSync(join(root, shard))) {
      const digest = shard + name;
      if (seen.files.has(digest)) continue;
      seen.files.add(digest);
      if (sha256(readFileSync(join(root, shard, name))) !== digest) problems.push(`the file ${digest} holds something else`);
    }
  }
  return problems;
}

/** current_attestations is what the records and their bindings say, and every binding is one that the rules ask for. */
function bindings(db: Db): string[] {
  const differences = db
    .prepare(
      `WITH expected (trail_id, artifact_id, name, attestation_id) AS (
         SELECT trail_id, 0, name, max(id) FROM attestations WHERE scope = 'trail' GROUP BY trail_id, name
         UNION ALL
         SELECT a.trail_id, b.artifact_id, a.name, max(a.id) FROM attestation_bindings b JOIN attestations a ON a.id = b.attestation_id
         GROUP BY a.trail_id, b.artifact_id, a.name)
       SELECT count(*) FROM (
         SELECT * FROM (SELECT trail_id, artifact_id, name, attestation_id FROM current_attestations EXCEPT SELECT * FROM expected)
         UNION ALL
         SELECT * FROM (SELECT * FROM expected EXCEPT SELECT trail_id, artifact_id, name, attestation_id FROM current_attestations))`,
    )
    .pluck()
    .get() as number;
  const unbound = db
    .prepare(
      `SELECT count(*) FROM pending_bindings p JOIN artifacts r ON r.trail_id = p.trail_id AND r.reference_name = p.reference_name AND r.git_commit = p.git_commit
       WHERE NOT EXISTS (SELECT 1 FROM attestation_bindings b WHERE b.artifact_id = r.id AND b.attestation_id = p.attestation_id)`,
    )
    .pluck()
    .get() as number;
  return [...(differences ? [`${differences} rows of current_attestations are wrong`] : []), ...(unbound ? [`${unbound} bindings are missing`] : [])];
}

/** What one write leaves in several tables is there altogether or not at all. Finds every contradiction, not how often it comes. */
function together(db: Db): string[] {
  const reported = "SELECT public_id AS id FROM attestations";
  const audited = "SELECT detail_json ->> 'attestation_id' AS id FROM audit_log WHERE event = 'attestation.reported'";
  const builds = "SELECT artifact_id, organization_id, repo_id, created_at FROM builds";
  const firstRecords =
    "SELECT a.id, a.organization_id, a.repo_id, a.created_at FROM (SELECT min(id) AS id FROM artifacts GROUP BY organization_id, fingerprint) f JOIN artifacts a ON a.id = f.id";
  const questions: readonly (readonly [problem: string, sql: string])[] = [
    ["attestations that the audit log does not know", `SELECT count(*) FROM (${reported} EXCEPT ${audited})`],
    ["builds that are not the first record of a fingerprint", `SELECT count(*) FROM (${builds} EXCEPT ${firstRecords})`],
    ["first records of fingerprints that are no builds", `SELECT count(*) FROM (${firstRecords} EXCEPT ${builds})`],
    ["audit entries of attestations that are not there", `SELECT count(*) FROM (${audited} EXCEPT ${reported})`],
    [
      "attestations that are not in the history of their trail, or more than once",
      `SELECT count(*) FROM attestations a WHERE 1 <> (SELECT count(*) FROM trail_events e WHERE e.trail_id = a.trail_id AND e.event_json ->> 'attestation_id' = a.public_id)`,
    ],
    ["flows that count other trails than they have", "SELECT count(*) FROM flows f WHERE f.trail_count <> (SELECT count(*) FROM trails t WHERE t.flow_id = f.id)"],
    ["trails that did not begin once", "SELECT count(*) FROM trails t WHERE 1 <> (SELECT count(*) FROM trail_events e WHERE e.trail_id = t.id AND e.type = 'trail_reported')"],
    [
      "snapshots of reports more, or fewer, than audit entries of them",
      "SELECT abs((SELECT count(*) FROM snapshots WHERE cause = 'report') - (SELECT count(*) FROM audit_log WHERE event = 'environment.reported'))",
    ],
    [
      "allowlist entries more, or fewer, than audit entries of them",
      "SELECT abs((SELECT count(*) FROM allowlist_entries) - (SELECT count(*) FROM audit_log WHERE event = 'artifact.allowed'))",
    ],
    [
      "policies whose versions have gaps",
      "SELECT count(*) FROM (SELECT 1 FROM policies p LEFT JOIN policy_versions v ON v.policy_id = p.id GROUP BY p.id HAVING count(v.id) <> coalesce(max(v.version), 0))",
    ],
  ];
  return questions.flatMap(([problem, sql]) => {
    const count = db.prepare(sql).pluck().get() as number;
    return count === 0 ? [] : [`${count} ${problem}`];
  });
}

/** Every stored verdict is what the stored facts lead to. */
function verdicts(db: Db): string[] {
  const store = openStore(db, { now: () => 0, newId: () => "" });
  const problems: string[] = [];
  const trails = db.prepare("SELECT id, name, state, compliance_json, reasons_json FROM trails").all() as {
    id: number; name: string; state: string; compliance_json: string; reasons_json: string;
  }[];
  for (const trail of trails) {
    const stored = JSON.parse(trail.compliance_json) as { evaluated_at: number; status: string };
    const { rows, result } = store.evaluation.judge(trail.id, stored.evaluated_at);
    if (trail.compliance_json !== JSON.stringify(result.compliance_status) || trail.reasons_json !== JSON.stringify(result.reasons) || trail.state !== stored.status)
      problems.push(`trail ${trail.name} (${trail.id}): stored ${trail.state}, the facts say ${result.compliance_status.status}`);
    for (const [index, verdict] of result.artifacts.entries()) {
      const row = rows[index];
      if (row?.state !== verdict.state || row.attestations_json !== JSON.stringify(verdict.attestationsStatuses))
        problems.push(`artifact ${row?.public_id}: stored ${row?.state}, the facts say ${verdict.state}`);
    }
  }
  return problems;
}
