/**
 * The facts that an evaluation of an artifact in an environment rests on, as they are now (semantics 5.4). Read-only.
 */
import { isListOf, isText, readStoredJson } from "../../domain/stored-json.ts";
import type { Facts, FlowRecord } from "../../domain/compliance/environment.ts";
import type { State } from "../../domain/compliance/artifact.ts";
import { pickLatestPerFlow } from "../flows/artifacts.ts";
import type { attestationStore } from "../attestations/attestations.ts";
import type { flowStore } from "../flows/flows.ts";
import type { DbReader } from "../db/types.ts";

type RecordRow = {
  id: number;
  flow_id: number;
  flow_name: string;
  trail_id: number | null;
  trail_name: string | null;
  reference_name: string | null;
  filename: string;
  git_commit: string | null;
  commit_url: string;
  committed_at: number | null;
  state: State;
  reasons_json: string;
  report_number: number;
};

type FactParts = { attestations: ReturnType<typeof attestationStore>; flows: ReturnType<typeof flowStore> };

export function complianceFactStore(db: DbReader, { attestations, flows }: FactParts) {
  const records = db.prepare<[number, string], RecordRow>(
    `SELECT a.id, a.flow_id, f.name AS flow_name, a.trail_id, t.name AS trail_name, a.reference_name, a.filename,
            a.git_commit, a.commit_url, nullif(a.git_commit_info_json ->> 'timestamp', 0) AS committed_at, a.state,
            a.reasons_json, a.report_number
     FROM artifacts a JOIN flows f ON f.id = a.flow_id LEFT JOIN trails t ON t.id = a.trail_id
     WHERE a.organization_id = ? AND a.fingerprint = ? ORDER BY a.id`,
  );
  const flowCount = db
    .prepare<[number, string]>(
      "SELECT count(DISTINCT a.flow_id) FROM artifacts a WHERE a.organization_id = ? AND a.fingerprint = ?",
    )
    .pluck();

  return {
    /** How many flows a fingerprint was reported to. Each policy is evaluated once for each of them. */
    countFlows: (organizationId: number, fingerprint: string): number =>
      flowCount.get(organizationId, fingerprint) as number,
    /**
     * The latest record of a fingerprint in each flow it was reported to, archived flows included (semantics 13.65);
     * the flow of its first report comes first. Empty for an artifact without provenance. `deployment_id` is null in
     * all of them.
     */
    read(organizationId: number, fingerprint: string): Facts {
      if (fingerprint === "") return { flows: [] };
      return { flows: pickLatestPerFlow(records.all(organizationId, fingerprint)).map(flowRecord) };
    },
  };

  function flowRecord(row: RecordRow): FlowRecord {
    return {
      flow_id: row.flow_id,
      flow: row.flow_name,
      tags: flows.getTags(row.flow_id),
      trail_id: row.trail_id,
      trail: row.trail_name,
      artifact_id: row.id,
      reference_name: row.reference_name,
      filename: row.filename,
      git_commit: row.git_commit,
      commit_url: row.commit_url,
      committed_at: row.committed_at,
      state: row.state,
      reasons: readStoredJson(row.reasons_json, isListOf(isText)),
      candidates: row.trail_id === null ? [] : attestations.listPolicyCandidates(row.trail_id, row.id),
      deployment_id: null,
    };
  }
}
