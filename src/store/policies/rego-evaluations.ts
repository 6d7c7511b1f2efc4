/**
 * Evaluations of Rego policies on trails (newer-clients 4 and 7.2).
 *
 * Invariants: what is evaluated is fixed when the row is written; a pending evaluation gets its verdict, or the reason
 * why it has none, exactly once; only a completed one has a decision, written in the same transaction; those without a
 * decision are removed after their retention, the others with the attestation of the decision.
 */
import { notFound } from "../../errors.ts";
import type { OrganizationRow } from "../accounts/organizations.ts";
import { flag, number, orNull, selectList, string, stringOf } from "../db/columns.ts";
import type { RowOf } from "../db/columns.ts";
import type { Db, SchemaSources } from "../db/types.ts";

type RegoEvaluationStatus = "pending" | "completed" | "failed";
export const REGO_EVALUATION_STATUSES = ["pending", "completed", "failed"] as const;

const EVALUATION = {
  id: number,
  public_id: string,
  organization_id: number,
  status: stringOf<RegoEvaluationStatus>(),
  /** The moment of the input; epoch seconds. */
  requested_at: number,
  /** The moment of the verdict; `requested_at` before it. Epoch seconds. */
  recorded_at: number,
  /** Public id of the user or service account. */
  caller: string,
  /** Its display name. */
  requested_by: string,
  /** `AuditActor` of the caller, as JSON. */
  actor_json: string,
  /** SHA-256 of key and body of the request. */
  request_digest: string,
  /** null: the request contained the bundle. */
  rego_policy_version_id: orNull(number),
  /** Address of the packed bundle. */
  bundle_digest: string,
  bundle_sha256: string,
  /** Address of the packed input; null if there is none: it could not be built, or the queue was full. */
  input_digest: orNull(string),
  /** SHA-256 of the input document itself, and its size in bytes. */
  input_sha256: orNull(string),
  input_bytes: orNull(number),
  /** A JSON object. */
  params_json: string,
  /** `[{flow, trail, moment_number}]`. */
  trails_json: string,
  /** Public ids of the attestations in the input. */
  attestation_ids_json: string,
  engine: orNull(string),
  duration_ms: orNull(number),
  allow: orNull(flag),
  violations_json: orNull(string),
  /** A JSON object by rule names. */
  outputs_json: orNull(string),
  error_kind: orNull(string),
  error_message: orNull(string),
  decision_name: orNull(string),
  decision_flow: orNull(string),
  decision_trail: orNull(string),
  decision_fingerprint: orNull(string),
  decision_control: orNull(string),
  /** Row id of the attestation. */
  decision_attestation_id: orNull(number),
  decision_error: orNull(string),
};
export type RegoEvaluationRow = RowOf<typeof EVALUATION>;

/** What the queue knows of an evaluation. */
export type PendingEvaluation = { id: number; organizationId: number; caller: string; hasDecision: 0 | 1 };
type PendingCounts = { organization: number; caller: number; everyone: number };

/** Where the decision of an evaluation goes. */
export type DecisionTarget = { name: string; flow: string; trail: string; fingerprint: string | null; control: string };

export type NewRegoEvaluation = Pick<
  RegoEvaluationRow,
  | "organization_id"
  | "requested_at"
  | "caller"
  | "requested_by"
  | "actor_json"
  | "request_digest"
  | "rego_policy_version_id"
  | "bundle_digest"
  | "bundle_sha256"
  | "input_digest"
  | "input_sha256"
  | "input_bytes"
  | "params_json"
  | "trails_json"
  | "attestation_ids_json"
> & { decision: DecisionTarget | null; trailIds: readonly number[] };

/** How an evaluation ends, at `recordedAt` (epoch seconds): with a verdict, or without. */
export type RegoEvaluationEnd = { recordedAt: number; engine: string | null; durationMs: number | null } & (
  | { allow: boolean; violations: readonly string[]; outputsJson: string; decision: DecisionEnd | null }
  | { error: { kind: string; message: string } }
);

/** The row id of the attestation, or why there is none. */
export type DecisionEnd = { attestationId: number } | { error: string };

export type RegoEvaluationFilter = {
  status: RegoEvaluationStatus | null;
  allow: boolean | null;
  /** Identifier and version of the policy. */
  identifier: string | null;
  version: number | null;
  control: string | null;
  flowId: number | null;
  trail: string | null;
  /** Epoch seconds of the request, inclusive. */
  from: number | null;
  to: number | null;
};

type ListParameters = { organization: number; allow: 0 | 1 | null } & Omit<RegoEvaluationFilter, "allow">;
type OrganizationKey = Pick<OrganizationRow, "id" | "name">;

const COLUMNS = selectList(EVALUATION, "re");

const LISTED = `re.organization_id = @organization
   AND (@status IS NULL OR re.status = @status) AND (@allow IS NULL OR re.allow = @allow)
   AND (@identifier IS NULL OR re.rego_policy_version_id IN
     (SELECT rpv.id FROM rego_policies rp JOIN rego_policy_versions rpv ON rpv.rego_policy_id = rp.id
      WHERE rp.organization_id = @organization AND rp.identifier = @identifier
        AND (@version IS NULL OR rpv.version = @version)))
   AND (@control IS NULL OR re.decision_control = @control)
   AND (@from IS NULL OR re.requested_at >= @from) AND (@to IS NULL OR re.requested_at <= @to)
   AND (@flowId IS NULL AND @trail IS NULL OR EXISTS
     (SELECT 1 FROM rego_evaluation_trails ret JOIN trails t ON t.id = ret.trail_id
      WHERE ret.evaluation_id = re.id AND (@flowId IS NULL OR t.flow_id = @flowId)
        AND (@trail IS NULL OR t.name = @trail)))`;

export function regoEvaluationStore(db: Db, { newId }: Pick<SchemaSources, "newId">) {
  const insert = db.prepare(
    `INSERT INTO rego_evaluations (public_id, organization_id, status, requested_at, recorded_at, caller,
       requested_by, actor_json, request_digest, rego_policy_version_id, bundle_digest, bundle_sha256, input_digest,
       input_sha256, input_bytes, params_json, trails_json, attestation_ids_json, decision_name, decision_flow,
       decision_trail, decision_fingerprint, decision_control, error_kind, error_message)
     VALUES (@public_id, @organization_id, @status, @requested_at, @requested_at, @caller, @requested_by,
       @actor_json, @request_digest, @rego_policy_version_id, @bundle_digest, @bundle_sha256, @input_digest,
       @input_sha256, @input_bytes, @params_json, @trails_json, @attestation_ids_json, @name, @flow, @trail,
       @fingerprint, @control, @error_kind, @error_message)`,
  );
  // Retention may have deleted a trail since it was read.
  const insertTrail = db.prepare(
    "INSERT INTO rego_evaluation_trails (evaluation_id, trail_id) SELECT ?, id FROM trails WHERE id = ?",
  );
  const byId = db.prepare<[number], RegoEvaluationRow>(`SELECT ${COLUMNS} FROM rego_evaluations re WHERE re.id = ?`);
  const byPublicId = db.prepare<[string, number], RegoEvaluationRow>(
    `SELECT ${COLUMNS} FROM rego_evaluations re WHERE re.public_id = ? AND re.organization_id = ?`,
  );
  const byAnyId = db.prepare<[string], RegoEvaluationRow>(
    `SELECT ${COLUMNS} FROM rego_evaluations re WHERE re.public_id = ?`,
  );
  const byDecision = db.prepare<[string], RegoEvaluationRow>(
    `SELECT ${COLUMNS} FROM attestations att JOIN rego_evaluations re ON re.decision_attestation_id = att.id
     WHERE att.public_id = ?`,
  );
  const pendingTwin = db.prepare<[number, string], RegoEvaluationRow>(
    `SELECT ${COLUMNS} FROM rego_evaluations re
     WHERE re.organization_id = ? AND re.status = 'pending' AND re.request_digest = ? ORDER BY re.id LIMIT 1`,
  );
  const pending = db.prepare<[], PendingEvaluation>(
    `SELECT id, organization_id AS organizationId, caller, decision_name IS NOT NULL AS hasDecision
     FROM rego_evaluations WHERE status = 'pending' ORDER BY id`,
  );
  const pendingCounts = db.prepare<[{ organization: number; caller: string }], PendingCounts>(
    `SELECT count(*) AS everyone, count(*) FILTER (WHERE organization_id = @organization) AS organization,
       count(*) FILTER (WHERE caller = @caller) AS caller
     FROM rego_evaluations WHERE status = 'pending'`,
  );
  const complete = db.prepare(
    `UPDATE rego_evaluations SET status = 'completed', recorded_at = @recordedAt, engine = @engine,
       duration_ms = @durationMs, allow = @allow, violations_json = @violationsJson, outputs_json = @outputsJson,
       decision_attestation_id = @attestationId, decision_error = @decisionError
     WHERE id = @id AND status = 'pending'`,
  );
  const fail = db.prepare(
    `UPDATE rego_evaluations SET status = 'failed', recorded_at = ?, engine = ?, duration_ms = ?, error_kind = ?,
       error_message = ?
     WHERE id = ? AND status = 'pending'`,
  );
  const listing = db.prepare<[ListParameters & { limit: number; offset: number }], RegoEvaluationRow>(
    `SELECT ${COLUMNS} FROM rego_evaluations re WHERE ${LISTED} ORDER BY re.id DESC LIMIT @limit OFFSET @offset`,
  );
  const counting = db
    .prepare<[ListParameters], number>(`SELECT count(*) FROM rego_evaluations re WHERE ${LISTED}`)
    .pluck();
  const removeOld = db.prepare(
    `DELETE FROM rego_evaluations WHERE id IN
       (SELECT re.id FROM rego_evaluations re
        WHERE re.decision_attestation_id IS NULL AND re.status <> 'pending' AND re.recorded_at < ? LIMIT ?)`,
  );

  function get(id: number): RegoEvaluationRow {
    const row = byId.get(id);
    if (!row) throw new Error(`evaluation ${id} is gone`);
    return row;
  }

  const parameters = (organization: number, filter: RegoEvaluationFilter): ListParameters => ({
    ...filter,
    organization,
    allow: filter.allow === null ? null : filter.allow ? 1 : 0,
  });

  return {
    get,
    find: (id: number): RegoEvaluationRow | null => byId.get(id) ?? null,
    /** The evaluation with this public id, in any organization; null without one. */
    findAnywhere: (publicId: string): RegoEvaluationRow | null => byAnyId.get(publicId) ?? null,
    /** The evaluation whose decision is the attestation with this public id; null without one. */
    findByDecision: (publicId: string): RegoEvaluationRow | null => byDecision.get(publicId) ?? null,
    /** @throws AppError not_found (newer-clients 4.5) */
    require(organization: OrganizationKey, publicId: string): RegoEvaluationRow {
      const row = byPublicId.get(publicId, organization.id);
      if (!row) throw notFound(`Evaluation '${publicId}' does not exist in org '${organization.name}'`);
      return row;
    },
    /** The pending evaluation of the same request by the same key (newer-clients 4.4); null without one. */
    findPendingTwin: (organizationId: number, requestDigest: string): RegoEvaluationRow | null =>
      pendingTwin.get(organizationId, requestDigest) ?? null,
    /** How many are pending of an organization, of a caller (in all organizations) and of everyone. */
    countPending: (organization: number, caller: string): PendingCounts =>
      pendingCounts.get({ organization, caller }) as PendingCounts,
    /** All pending evaluations, oldest first. */
    listPending: (): PendingEvaluation[] => pending.all(),

    /**
     * Records a request. Call it inside a write. @param failure ends it at once
     */
    create(
      { decision, trailIds, ...fields }: NewRegoEvaluation,
      failure: { kind: string; message: string } | null,
    ): RegoEvaluationRow {
      const target = decision ?? { name: null, flow: null, trail: null, fingerprint: null, control: null };
      const { lastInsertRowid } = insert.run({
        ...fields,
        ...target,
        public_id: newId(),
        status: failure ? "failed" : "pending",
        error_kind: failure?.kind ?? null,
        error_message: failure?.message ?? null,
      });
      const id = Number(lastInsertRowid);
      for (const trailId of trailIds) insertTrail.run(id, trailId);
      return get(id);
    },

    /** Ends a pending evaluation. Call it inside a write. @returns false when it is not pending any more */
    end(id: number, { recordedAt, engine, durationMs, ...end }: RegoEvaluationEnd): boolean {
      if ("error" in end)
        return fail.run(recordedAt, engine, durationMs, end.error.kind, end.error.message, id).changes > 0;
      const { allow, violations, outputsJson, decision } = end;
      const attestationId = decision && "attestationId" in decision ? decision.attestationId : null;
      const decisionError = decision && "error" in decision ? decision.error : null;
      const verdict = { allow: allow ? 1 : 0, violationsJson: JSON.stringify(violations), outputsJson };
      return complete.run({ id, recordedAt, engine, durationMs, ...verdict, attestationId, decisionError }).changes > 0;
    },

    /** Newest first, read one by one: each may have megabytes. The connection is busy until the iterator ends. */
    list: (
      organizationId: number,
      filter: RegoEvaluationFilter,
      window: { limit: number; offset: number },
    ): IterableIterator<RegoEvaluationRow> => listing.iterate({ ...parameters(organizationId, filter), ...window }),
    count: (organizationId: number, filter: RegoEvaluationFilter): number =>
      counting.get(parameters(organizationId, filter)) ?? 0,

    /**
     * Removes evaluations without a decision that ended before `before` (epoch seconds), at most `limit`.
     * @returns how many
     */
    removeOld: (before: number, limit: number): number => removeOld.run(before, limit).changes,
  };
}
