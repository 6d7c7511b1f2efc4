/** Evaluations of Rego policies on trails: requests, verdicts, inputs and exports (newer-clients 4). */
import { hash } from "node:crypto";
import { Type } from "typebox";
import type { Static } from "typebox";
import { allows } from "../../domain/access.ts";
import { ATTESTATION_NAME, FINGERPRINT, FLOW_NAME, MAX_NAME_CHARS, TRAIL_NAME } from "../../domain/names.ts";
import type { RegoFiles } from "../../domain/rego/bundle.ts";
import { findParamsProblem } from "../../domain/rego/params.ts";
import { badRequest, forbidden, invalid, notFound, unavailable } from "../../errors.ts";
import { json } from "../../http/operation.ts";
import { Closed, Matching, Message, PublishedAs, named } from "../../http/schema.ts";
import { validate } from "../../http/validate.ts";
import { JsonText, stringifyJson } from "../../json/text.ts";
import { bundleSha256, packBundle } from "../../rego/bundle-archive.ts";
import type { StagedDocuments } from "../../rego/documents.ts";
import type { RegoPolicyVersionRow } from "../../store/policies/rego-policies.ts";
import type { DecisionTarget, NewRegoEvaluation, RegoEvaluationRow } from "../../store/policies/rego-evaluations.ts";
import { operation } from "../context.ts";
import type { OperationContext } from "../context.ts";
import { NoQuery, OrgPath } from "../paths.ts";
import { BUNDLE_BOUNDS, Files, requireValidBundle } from "./rego-bundles.ts";
import { normalizeEvaluationRequest } from "./rego-spellings.ts";

export const EVALUATION_OPERATION = { tag: "Evaluations", origin: "assay" } as const;

/** Files and a minimal policy of the example. */
const EXAMPLE_FILES: RegoFiles = {
  "policy.rego": "package policy\n\ndefault allow := false\n\nallow if input.trail.is_compliant\n",
};

const MAX_TRAILS = 100;
/** Seconds after which a client may repeat a request that found the queue full. */
const QUEUE_RETRY_S = 5;

// A malformed name is a mistake in the body, and no trail that is missing (newer-clients 4.4).
const FlowName = Matching(FLOW_NAME, { maxLength: MAX_NAME_CHARS });
const TrailName = Matching(TRAIL_NAME, { maxLength: MAX_NAME_CHARS });
const InlinePolicy = Closed({ files: Files });
const PublishedPolicy = Closed({
  identifier: Type.String({ maxLength: MAX_NAME_CHARS, description: "Identifier of a published Rego policy" }),
  version: Type.Optional(Type.Integer({ minimum: 1, description: "One of its versions; the latest if absent" })),
});
const RegoEvaluationPostInput = named(
  "RegoEvaluationPostInput",
  Closed({
    context: Closed({
      trails: Type.Array(Closed({ flow: FlowName, trail: TrailName }), {
        minItems: 1,
        maxItems: MAX_TRAILS,
        description: "The trails that the policy reads; repeated ones count once",
      }),
    }),
    policy: Type.Union([InlinePolicy, PublishedPolicy], { description: "Files, or a published policy" }),
    params: Type.Optional(
      Type.Record(Type.String(), Type.Unknown(), {
        description: "`data.params` of the policy, at most 100 levels deep. All readers of the organization can see it",
      }),
    ),
    decision: Type.Optional(
      Closed(
        {
          control: Type.String({ minLength: 1, maxLength: MAX_NAME_CHARS }),
          name: Matching(ATTESTATION_NAME, { maxLength: MAX_NAME_CHARS }),
          flow: FlowName,
          trail: TrailName,
          fingerprint: Type.Optional(Matching(FINGERPRINT)),
        },
        { description: "Where the verdict is recorded as a decision on a control; absent: it is not" },
      ),
    ),
  }),
);
type EvaluationRequest = Static<typeof RegoEvaluationPostInput>;

const RegoEvaluationCreated = named(
  "RegoEvaluationCreated",
  Closed({
    id: Type.String(),
    status: Type.Literal("pending"),
    requested_at: Type.Number({ description: "The moment at which the trails were read; epoch seconds" }),
    recorded_at: Type.Number(),
  }),
);

/** A request that was read. `params`: as they were sent. */
type ReadRequest = Omit<EvaluationRequest, "params"> & { params: JsonText };

/** @throws AppError 403 for a decision by a caller who may not report one (newer-clients 4.6), or without controls */
function requireRights({ role, organization }: OperationContext, hasDecision: boolean): void {
  if (!hasDecision) return;
  if (!allows("attestation:write", { role, isPublic: organization.is_public === 1 })) throw forbidden();
  if (organization.controls_enabled === 0) throw forbidden();
}

/** Reads the body in any spelling. @throws AppError 400, 403 (newer-clients 4.4) */
function readRequest(context: OperationContext, body: Record<string, unknown>): ReadRequest {
  requireRights(context, body["decision"] !== undefined);
  const request = normalizeEvaluationRequest(body);
  const problems = validate(RegoEvaluationPostInput, request, { mode: "plain", root: "body" });
  if (problems) {
    context.noteUnknownKeys(problems);
    throw invalid(problems);
  }
  const valid = request as EvaluationRequest;
  if ("files" in valid.policy) requireValidBundle(valid.policy.files, "policy.files");
  return { ...valid, params: readParams(valid.params ?? {}) };
}

/** @throws AppError 400 */
function readParams(params: unknown): JsonText {
  const text = stringifyJson(params);
  const problem = findParamsProblem(text);
  if (problem !== null) throw invalid({ params: problem });
  return new JsonText(text);
}

/** Row ids of the trails, each once, in order. @throws AppError 404 that names all missing ones */
function requireTrailIds({ store, organization }: OperationContext, { context }: ReadRequest): number[] {
  const missing = new Set<string>();
  const ids = new Set<number>();
  for (const { flow, trail } of context.trails) {
    const flowRow = store.flows.find(organization.id, flow);
    const found = flowRow && store.trails.find(flowRow.id, trail);
    if (found) ids.add(found.id);
    else missing.add(`${flow}/${trail}`);
  }
  if (missing.size > 0)
    throw notFound(`These trails do not exist in org '${organization.name}': ${[...missing].join(", ")}`);
  return [...ids];
}

/** The version of a published policy; null for a bundle of the request. @throws AppError not_found */
function requirePolicyVersion(
  { store, organization }: OperationContext,
  { policy }: ReadRequest,
): RegoPolicyVersionRow | null {
  if ("files" in policy) return null;
  const found = store.regoPolicies.require(organization, policy.identifier);
  return policy.version === undefined
    ? store.regoPolicies.getVersion(found)
    : store.regoPolicies.requireVersion(found, policy.version);
}

/** Checks all of the destination before anything is queued (newer-clients 4.4). @throws AppError 400, 404 */
function requireDestination(
  { store, organization }: OperationContext,
  { decision }: ReadRequest,
): DecisionTarget | null {
  if (decision === undefined) return null;
  const control = store.controls.find(organization.id, decision.control);
  if (!control) throw notFound(`Control '${decision.control}' does not exist in org '${organization.name}'`);
  if (control.archived === 1)
    throw badRequest(`Control '${decision.control}' has been archived in org '${organization.name}'`);
  if (store.flows.isArchived(organization.id, decision.flow))
    throw badRequest(`Flow named '${decision.flow}' has been archived for organization '${organization.name}'`);
  const flow = store.flows.requireWritable(organization, decision.flow);
  const trail = store.trails.require(
    { organization: organization.name, flow: { id: flow.id, name: decision.flow } },
    decision.trail,
  );
  const { fingerprint = null } = decision;
  if (fingerprint !== null && !store.artifacts.listByTrail(trail.id).some((row) => row.fingerprint === fingerprint))
    throw notFound(
      `Artifact with fingerprint ${fingerprint} does not exist in trail "${decision.trail}" of flow ` +
        `"${decision.flow}" belonging to organization "${organization.name}"`,
    );
  return { ...decision, fingerprint };
}

/** What `handle` records. `problem`: why it fails at once; null for one that is queued. */
type PreparedEvaluation = {
  evaluation: NewRegoEvaluation;
  documents: StagedDocuments;
  problem: string | null;
};
/** Or the digest of a request that is pending already. */
type Prepared = { twin: string } | PreparedEvaluation;

/** Checks a request in the order of newer-clients 4.4, and reads and packs what is evaluated. */
async function prepareEvaluation(context: OperationContext, body: Record<string, unknown>): Promise<Prepared> {
  const { store, organization, principal, rego } = context;
  const request = readRequest(context, body);
  const settings = store.organizations.get(organization.id);
  if (settings.evaluations_enabled === 0)
    throw forbidden(undefined, "Server-side evaluation is not enabled for this organization");
  if (request.decision && "files" in request.policy && settings.decisions_need_published_policy === 1)
    throw badRequest("A decision can only be recorded with a published policy");
  const requestDigest = hash("sha256", `${principal.keyPublicId}\0${stringifyJson(body)}`);
  if (store.regoEvaluations.findPendingTwin(organization.id, requestDigest)) return { twin: requestDigest };
  const trailIds = requireTrailIds(context, request);
  const version = requirePolicyVersion(context, request);
  const decision = requireDestination(context, request);
  // A full queue takes no input: reading it would be work for nothing.
  const input = rego.evaluator.hasRoom(organization.id, principal.publicId)
    ? await rego.packInput(String(organization.id), {
        organizationId: organization.id,
        trailIds,
        baseUrl: context.urls.root,
      })
    : null;
  const built = input && "packed" in input ? input : null;
  const files = "files" in request.policy ? request.policy.files : null;
  const documents = await rego.documents.stage([
    ...(files ? [await packBundle(files)] : []),
    ...(built ? [Buffer.from(built.packed)] : []),
  ]);
  const bundleDigest = files ? documents.rows[0]?.digest : version?.bundle_digest;
  const { kind, publicId, name, keyPublicId } = principal;
  return {
    problem: input && "problem" in input ? input.problem : null,
    documents,
    evaluation: {
      organization_id: organization.id,
      requested_at: input?.readAt ?? context.now(),
      caller: publicId,
      requested_by: principal.displayName,
      actor_json: JSON.stringify({ kind, publicId, name, keyPublicId }),
      request_digest: requestDigest,
      rego_policy_version_id: version?.id ?? null,
      bundle_digest: bundleDigest ?? "",
      bundle_sha256: files ? bundleSha256(files) : (version?.sha256 ?? ""),
      input_digest: built ? (documents.rows.at(-1)?.digest ?? null) : null,
      input_sha256: built?.sha256 ?? null,
      input_bytes: built?.bytes ?? null,
      params_json: request.params.text,
      trails_json: JSON.stringify(built?.trails ?? namesOf(request)),
      attestation_ids_json: JSON.stringify(built?.attestationIds ?? []),
      decision,
      trailIds,
    },
  };
}

/** The trails of a request without an input, each once, without moments. */
const namesOf = ({ context }: ReadRequest): { flow: string; trail: string }[] => [
  ...new Map(context.trails.map(({ flow, trail }) => [`${flow}/${trail}`, { flow, trail }])).values(),
];

/** The answer is always `pending`: the verdict is read back (newer-clients 4.1). */
const replyTo = ({ public_id, requested_at }: RegoEvaluationRow) => ({
  status: 201 as const,
  body: { id: public_id, status: "pending", requested_at, recorded_at: requested_at },
});

export const postRegoEvaluation = operation({
  ...EVALUATION_OPERATION,
  id: "post_rego_evaluation",
  method: "POST",
  path: "/evaluations/{org}",
  summary: "Evaluate a Rego policy on trails",
  description:
    "The trails are read at once, and the policy is evaluated in the background: read the evaluation for its " +
    "verdict, which is there within 25 seconds. With a `decision`, the verdict is also reported as a decision on a " +
    "control, which takes the rights of a report. While an evaluation is pending, the same request by the same key " +
    "is answered with it.",
  permission: "evaluation:create",
  audit: "evaluation.requested",
  params: OrgPath,
  query: NoQuery,
  body: json(
    PublishedAs(
      RegoEvaluationPostInput,
      Type.Unsafe<Record<string, unknown>>({
        type: "object",
        additionalProperties: true,
        "x-max-bytes": BUNDLE_BOUNDS.bytes,
      }),
    ),
    { ...BUNDLE_BOUNDS, keeps: { exact: ["params"], counted: [] } },
  ),
  responses: {
    201: { description: "Accepted, and answered as pending", schema: RegoEvaluationCreated },
    404: {
      description: "No such trail, Rego policy or version, or a part of the destination of the decision is missing",
      schema: Message,
    },
  },
  example: {
    params: { org: "acme" },
    body: {
      context: { trails: [{ flow: "payments", trail: "release-1.4.0" }] },
      policy: { files: EXAMPLE_FILES },
    },
  },
  prepare: (context, { body }) => prepareEvaluation(context, body),
  stages: (prepared) => ("twin" in prepared ? [] : prepared.documents.staged),
  handle(context, { body }, prepared) {
    const { store, organization } = context;
    requireRights(context, body["decision"] !== undefined);
    const requestDigest = "twin" in prepared ? prepared.twin : prepared.evaluation.request_digest;
    const twin = store.regoEvaluations.findPendingTwin(organization.id, requestDigest);
    if (twin) return { ...replyTo(twin), unaudited: true };
    // The twin has ended between preparation and write.
    if ("twin" in prepared) throw unavailable("The same evaluation has just ended. Please try again", 1);
    return requestEvaluation(context, prepared);
  },
});

/** Records a request and queues it after the commit. A full queue is answered with 503, and leaves a failed record. */
function requestEvaluation(context: OperationContext, { evaluation, documents, problem }: PreparedEvaluation) {
  const { store, organization, rego, note, afterCommitTasks } = context;
  for (const row of documents.rows) store.regoDocuments.insert(row);
  const isFull =
    problem === null &&
    (evaluation.input_digest === null || !rego.evaluator.hasRoom(organization.id, evaluation.caller));
  const row = store.regoEvaluations.create(evaluation, failureOf({ isFull, problem }));
  note({
    evaluation_id: row.public_id,
    bundle_sha256: row.bundle_sha256,
    ...(row.decision_control === null ? {} : { control: row.decision_control }),
  });
  if (isFull)
    afterCommitTasks.push(async () => {
      throw unavailable(`Evaluation '${row.public_id}' could not be queued`, QUEUE_RETRY_S);
    });
  else if (problem === null)
    afterCommitTasks.push(async () =>
      rego.evaluator.submit({
        id: row.id,
        organizationId: organization.id,
        caller: row.caller,
        hasDecision: row.decision_name === null ? 0 : 1,
      }),
    );
  return replyTo(row);
}

/** Why an evaluation ends at once; null for one that is queued. */
function failureOf({ isFull, problem }: { isFull: boolean; problem: string | null }) {
  if (problem !== null) return { kind: "input_shape", message: problem };
  return isFull ? { kind: "enqueue_failed", message: "Too many evaluations are waiting. Please try again" } : null;
}
