/**
 * Asserts: the verdict on an artifact, with everything that led to it, in one of three scopes (semantics 5.8): the
 * flows it was reported to, the policies of an environment, or policies that the caller names. A negative verdict is a
 * regular response, not an error.
 */
import { Type } from "typebox";
import type { Static } from "typebox";
import type { AttestationStatus } from "../../domain/compliance/attestation.ts";
import type { CauseFacts } from "../../domain/compliance/causes.ts";
import { SAME_NAME_MEANING, describeSameName } from "../../domain/compliance/same-name.ts";
import { evaluatePolicy, presentRuleVerdicts } from "../../domain/policy/evaluate.ts";
import type { PolicyVerdict, Subject } from "../../domain/policy/evaluate.ts";
import { FINGERPRINT, FLOW_NAME, TRAIL_NAME } from "../../domain/names.ts";
import { hasMembers, isListOf, isText, readStoredJson, readStoredJsonOrNull } from "../../domain/stored-json.ts";
import { badRequest, notFound } from "../../errors.ts";
import type { AppError } from "../../errors.ts";
import { NO_BODY } from "../../http/operation.ts";
import { Closed, Matching, Message, Nullable, OneOf, Repeated, named } from "../../http/schema.ts";
import type { AllowlistRow } from "../../store/environments/allowlists.ts";
import type { PlacedArtifactRow } from "../../store/flows/artifacts.ts";
import type { LatestVersion } from "../../store/policies/policies.ts";
import { operation } from "../context.ts";
import type { ReadingContext } from "../context.ts";
import { CausesQuery, OptionalCauses } from "../../contract/causes.ts";
import { type RuleEvaluation, PolicyEvaluation } from "../../contract/policy-evaluation.ts";

const AttestationComplianceStatusResponse = named(
  "AttestationComplianceStatusResponse",
  Closed({
    attestation_name: Type.String(),
    attestation_type: Nullable(Type.String()),
    attestation_id: Nullable(Type.String()),
    overridden_attestation_id: Nullable(Type.String()),
    status: OneOf(["COMPLETE", "MISSING"]),
    is_compliant: Nullable(Type.Boolean()),
    unexpected: Type.Boolean(),
  }),
);

const ArtifactComplianceResultResponse = named(
  "ArtifactComplianceResultResponse",
  Closed({
    artifact_fingerprint: Type.String(),
    status: OneOf(["COMPLIANT", "NON-COMPLIANT", "INCOMPLETE"]),
    is_compliant: Type.Boolean(),
    attestations_statuses: Type.Array(AttestationComplianceStatusResponse, {
      description: "The artifact's own entries, then those of its trail",
    }),
    evaluated_at: Type.Number({ description: "Epoch seconds of the event that caused the evaluation" }),
    unexpected: Type.Boolean({ description: "Whether the template has no artifact of this name" }),
  }),
);

const flowFields = {
  flow: Type.String({ description: "Empty if the artifact was reported to no flow" }),
  trail: Nullable(Matching(TRAIL_NAME, { description: "null if the artifact was reported without a trail" })),
  compliant: Type.Boolean(),
  compliance_status: Nullable(ArtifactComplianceResultResponse),
  html_url: Type.String(),
  ...OptionalCauses,
};
const AssertArtifactFlowResponse = named(
  "AssertArtifactFlowResponse",
  Closed({ ...flowFields, flow: Matching(FLOW_NAME) }),
);
const AllowlistInformation = named(
  "AllowlistInformation",
  Closed({
    allowlist_id: Type.String(),
    allowed_by_user_id: Type.String(),
    timestamp: Type.Number(),
    description: Type.String(),
    expires_at: Type.Optional(Type.Integer({ description: "Epoch seconds; only of an entry that ends" })),
  }),
);

const AssertArtifactResponse = named(
  "ArtifactAssertion",
  Closed({
    fingerprint: Matching(FINGERPRINT),
    scope: OneOf(["flow", "environment", "policy"]),
    ...flowFields,
    flows: Type.Array(AssertArtifactFlowResponse, {
      description: "All flows to which the artifact was reported, in order of the first report",
    }),
    environment: Nullable(Type.String({ description: "Scope `environment` only" })),
    policy_evaluations: Nullable(
      Type.Array(PolicyEvaluation, {
        description: "In the order in which the policies were named or attached; null in scope `flow`",
      }),
    ),
    allow_listing: Nullable(AllowlistInformation),
  }),
);

export const assertArtifact = operation({
  id: "assert_artifact",
  method: "GET",
  path: "/asserts/{org}/fingerprint/{fingerprint}",
  tag: "Asserts",
  summary: "Assert that an artifact is compliant",
  description:
    "Evaluates the artifact against the templates of its flows, the policies of an environment, or the given " +
    "policies. In an environment, an allowed artifact is compliant, reported or not; without attached policies, the " +
    "verdict is that of the flows. `compliant` is the verdict, the other fields are its reasons. `flow_name` limits " +
    "every scope to one flow.",
  permission: "artifact:read",
  audit: null,
  cacheable: true,
  params: Closed({ org: Type.String(), fingerprint: Type.String({ description: "Full SHA-256 fingerprint" }) }),
  query: Closed({
    flow_name: Type.Optional(Type.String()),
    environment_name: Type.Optional(Type.String({ description: "Not together with `policy_name`" })),
    policy_name: Repeated(Type.String(), {
      description:
        "Not together with `environment_name`. All of these policies must be satisfied; a repeated name counts once. " +
        "They need not be attached to an environment",
    }),
    ...CausesQuery,
  }),
  body: NO_BODY,
  responses: {
    200: { description: "The verdict, positive or negative", schema: AssertArtifactResponse },
    404: { description: "No such artifact, flow, policy or environment", schema: Message },
  },
  example: {
    params: { org: "acme", fingerprint: "7b1f5c9a1d2b3e4f5061728394a5b6c7d8e9f00112233445566778899aabbccd" },
    query: { policy_name: "production" },
  },
  handle(context, { params, query }) {
    const { store, organization } = context;
    const { fingerprint } = params;
    const policyNames = query.policy_name ?? [];
    if (query.environment_name !== undefined && policyNames.length > 0)
      throw badRequest("Only one of 'environment_name' and 'policy_name' can be given");
    const environment =
      query.environment_name === undefined ? null : store.environments.require(organization, query.environment_name);
    const flow = query.flow_name === undefined ? null : store.flows.require(organization, query.flow_name);
    const records = store.policySubjects.listRecords(organization.id, fingerprint, flow?.id ?? null);
    const allowed = environment && store.allowlists.findInForce(environment.id, fingerprint, context.now);
    const flows = records.map((row) => presentFlow(context, row, { withCauses: query.causes === true }));
    // A request about a flow is about provenance, which an allowlist entry does not replace.
    const first =
      flows[0] ?? (environment && allowed && !flow ? presentUnreported(context, environment.name, allowed) : null);
    if (!first)
      throw flow
        ? store.artifacts.notFoundError(fingerprint, query.flow_name as string, organization.name)
        : unknownError(context, fingerprint);

    const scope = environment ? "environment" : policyNames.length > 0 ? "policy" : "flow";
    const policies = environment
      ? store.policies.listInForce(environment.id)
      : policyNames.map((name) => store.policies.requireLatestVersion(organization, name));
    const subject =
      policies.length === 0
        ? null
        : store.policySubjects.readSubject(fingerprint, records, flows.length === 0 ? allowed?.artifact_name : "");
    const evaluated = subject === null ? [] : policies.map((policy) => evaluate(context, policy, subject));
    const evaluations = evaluated.map(({ evaluation }) => evaluation);
    const isSatisfied =
      policies.length > 0
        ? evaluations.every(({ status }) => status === "COMPLIANT")
        : flows.length > 0 && flows.every(({ compliant }) => compliant);
    return {
      status: 200,
      body: {
        ...first,
        fingerprint,
        scope,
        compliant: isSatisfied || allowed !== null,
        flows,
        ...(query.causes === true && subject !== null
          ? store.verdictCauses.explainVerdicts(organization.id, {
              verdicts: evaluated.flatMap(({ verdict }) => verdict ?? []),
              flows: causeFactsOf(subject, records),
            })
          : {}),
        environment: environment?.name ?? null,
        policy_evaluations: scope === "flow" ? null : evaluations,
        allow_listing: allowed && {
          allowlist_id: allowed.public_id,
          allowed_by_user_id: allowed.user_id,
          timestamp: allowed.timestamp,
          description: allowed.description,
          ...(allowed.expires_at === null ? {} : { expires_at: allowed.expires_at }),
        },
      },
      // An entry that ends changes the answer by time alone.
      ...(allowed?.expires_at == null ? { dependsOn: subjectsOf(fingerprint, records) } : {}),
    };
  },
});

/** The 404 for an artifact that no flow knows (messages 4). Of one that runs it says whether its name is known. */
function unknownError({ store, organization, urls }: ReadingContext, fingerprint: string): AppError {
  const text = `Artifact with fingerprint '${fingerprint}' does not exist in organization '${organization.name}'`;
  const found = store.sameNames.findOfRunning(organization.id, fingerprint);
  if (!found) return notFound(text);
  const { name, environment, record } = found;
  const link = urls.artifactPage(organization.name, record.flow, {
    fingerprint: record.fingerprint,
    id: record.artifactId,
  });
  return notFound(
    `${text}. It runs in environment '${environment}' as '${name}'. ${describeSameName(record)} (${link}). ` +
      SAME_NAME_MEANING,
  );
}

/** What the records of an artifact were read from, for the response cache. */
const subjectsOf = (fingerprint: string, records: readonly PlacedArtifactRow[]): (number | string)[] => [
  fingerprint,
  ...records.flatMap(({ trail_id }) => (trail_id === null ? [] : [trail_id])),
];

/** The evaluation of one policy. A policy without a version has no rules to satisfy, and is never compliant. */
function evaluate(
  { store }: ReadingContext,
  { policy_name, version_id, version }: LatestVersion,
  subject: Subject,
): { evaluation: Static<typeof PolicyEvaluation>; verdict: PolicyVerdict | null } {
  const named = { policy_name, policy_version: version };
  if (version_id === null)
    return { evaluation: { ...named, status: "NON-COMPLIANT", rule_evaluations: [] }, verdict: null };
  const verdict = evaluatePolicy(store.policies.getDocument(version_id), subject);
  const rules = presentRuleVerdicts(verdict.rules) as Static<typeof RuleEvaluation>[];
  return { evaluation: { ...named, status: verdict.status, rule_evaluations: rules }, verdict };
}

const isTextList = isListOf(isText);

/** What the causes of verdicts on a subject are read from. @param records those that the subject was built from */
const causeFactsOf = ({ flows }: Subject, records: readonly PlacedArtifactRow[]): CauseFacts[] =>
  flows.map(({ flowName, trail }, index) => ({
    flow: flowName,
    trail: trail?.name ?? null,
    reasons: readStoredJsonOrNull(records[index]?.reasons_json ?? null, isTextList) ?? [],
    candidates: trail?.candidates ?? [],
  }));

/**
 * Takes the place of the first flow for an artifact that was never reported but is allowed in the environment
 * (semantics 5.6). Such an artifact has no page of its own, so the link leads to the environment.
 */
function presentUnreported(
  { organization, urls }: ReadingContext,
  environment: string,
  allowed: AllowlistRow,
): Static<typeof AssertArtifactFlowResponse> {
  return {
    flow: "",
    trail: null,
    compliant: false,
    compliance_status: {
      artifact_fingerprint: allowed.fingerprint,
      status: "INCOMPLETE",
      is_compliant: false,
      attestations_statuses: [],
      evaluated_at: allowed.timestamp,
      unexpected: false,
    },
    html_url: urls.environmentPage(organization.name, environment),
  };
}

const isStatusList = isListOf(hasMembers<AttestationStatus>("attestation_name"));

/** The artifact in one flow, with the stored verdict of its trail. */
function presentFlow(
  { store, organization, urls }: ReadingContext,
  row: PlacedArtifactRow,
  { withCauses }: { withCauses: boolean },
): Static<typeof AssertArtifactFlowResponse> {
  const trail = row.trail_id === null ? null : store.trails.getComplianceOf(row.trail_id, row);
  const statuses = readStoredJson(row.attestations_json, isStatusList);
  const entry =
    trail && Object.values(trail.artifacts_statuses).find(({ artifact_id }) => artifact_id === row.public_id);
  return {
    flow: row.flow_name,
    trail: row.trail_name,
    compliant: row.state === "COMPLIANT",
    compliance_status: {
      artifact_fingerprint: row.fingerprint,
      status: row.state,
      is_compliant: row.state === "COMPLIANT",
      attestations_statuses: [...statuses, ...(trail?.attestations_statuses ?? [])],
      evaluated_at: trail?.evaluated_at ?? row.last_modified_at,
      // A superseded record has no entry of its own; the entry of its name applies.
      unexpected: (entry ?? trail?.artifacts_statuses[row.reference_name ?? row.fingerprint])?.unexpected ?? false,
    },
    ...(withCauses ? store.verdictCauses.explainArtifact(row) : {}),
    html_url: urls.artifactPage(organization.name, row.flow_name, { fingerprint: row.fingerprint, id: row.public_id }),
  };
}
