/** The decision of an evaluation: an attestation that the server reports for the caller of the request. */
import { evaluateDecision } from "../../domain/attestation/verdicts.ts";
import { DECISION_LABEL } from "../../domain/attestation/kinds.ts";
import { describeDecision } from "../../domain/rego/decision.ts";
import { isObject, readStoredJson } from "../../domain/stored-json.ts";
import { JsonText } from "../../json/text.ts";
import { engineName } from "../../rego/engine-name.ts";
import type { RegoVerdict } from "../../rego/types.ts";
import type { AuditEntry } from "../../store/db/audit-log.ts";
import type { Store } from "../../store/index.ts";
import type { RegoEvaluationRow } from "../../store/policies/rego-evaluations.ts";
import { recordAttestation } from "../attestations/record-attestation.ts";
import type { RecordContext } from "../attestations/record-attestation.ts";
import { postSystem } from "../attestations/system.ts";

const isActor = (value: unknown): value is AuditEntry["actor"] => isObject(value) && "publicId" in value;

/**
 * Records the decision of an evaluation with its audit entry. Call it inside the write that ends the evaluation.
 * `recordedAt`: epoch seconds. @returns the row id of the attestation
 * @throws AppError when flow, trail or artifact of the decision are gone, or the flow was archived
 */
export const recordEvaluationDecision =
  (store: Store) =>
  (row: RegoEvaluationRow, verdict: RegoVerdict, recordedAt: number): number =>
    recordDecision(store, row, { verdict, recordedAt });

function recordDecision(
  store: Store,
  row: RegoEvaluationRow,
  { verdict, recordedAt }: { verdict: RegoVerdict; recordedAt: number },
): number {
  const { decision_name: name, decision_flow: flowName, decision_trail: trailName, decision_control: control } = row;
  if (name === null || flowName === null || trailName === null || control === null)
    throw new Error(`evaluation ${row.id} asks for no decision`);
  const organization = store.organizations.get(row.organization_id);
  const notes: Record<string, unknown> = { evaluation_id: row.public_id };
  const context: RecordContext = {
    store,
    organization,
    principal: { displayName: row.requested_by },
    now: () => recordedAt,
    note: (detail) => void Object.assign(notes, detail),
  };
  const flow = store.flows.requireWritable(organization, flowName);
  const { id: trailId } = store.trails.require(
    { organization: organization.name, flow: { id: flow.id, name: flowName } },
    trailName,
  );
  const record = recordAttestation(context, decisionKind(control), {
    params: { org: organization.name, flow_name: flowName, trail_name: trailName },
    flow,
    trail: store.trailEvaluation.get(trailId),
    common: {
      attestation_name: name,
      ...(row.decision_fingerprint === null ? {} : { artifact_fingerprint: row.decision_fingerprint }),
    },
    payload: {},
    asSent: {},
    prepared: dataOf(store, row, { verdict, recordedAt }),
    file: null,
  });
  store.auditLog.append({
    organizationId: organization.id,
    actor: readStoredJson(row.actor_json, isActor),
    operation: postSystem.id,
    event: "attestation.reported",
    target: `/api/v2/attestations/${organization.name}/${flowName}/trail/${trailName}/system`,
    requestId: row.public_id,
    detail: notes,
  });
  return record.id;
}

type DecisionData = ReturnType<typeof describeDecision>;

const decisionKind = (control: string) => ({
  segment: "system",
  label: () => DECISION_LABEL,
  evaluate: (_payload: object, data: DecisionData) =>
    evaluateDecision(control, { is_compliant: data["is_compliant"] === true }),
  facts: (_payload: object, data: DecisionData) => ({ type_name: "decision", attestation_data: data }),
  columns: ({ store, organization }: Pick<RecordContext, "store" | "organization">) => ({
    control,
    control_version: store.controls.find(organization.id, control)?.version ?? null,
  }),
});

/** Stored texts stay texts, so that numbers of any size stay what they are. */
function dataOf(
  store: Store,
  row: RegoEvaluationRow,
  { verdict, recordedAt }: { verdict: RegoVerdict; recordedAt: number },
): DecisionData {
  const version = row.rego_policy_version_id;
  return describeDecision(verdict.allow, {
    id: row.public_id,
    requestedAt: row.requested_at,
    recordedAt,
    published: version === null ? null : store.regoPolicies.getVersionName(version),
    bundleSha256: row.bundle_sha256,
    params: new JsonText(row.params_json),
    trails: new JsonText(row.trails_json),
    attestationIds: new JsonText(row.attestation_ids_json),
    violations: verdict.violations,
    outputs: new JsonText(verdict.outputs),
    inputSha256: row.input_sha256,
    engine: engineName(),
  });
}
