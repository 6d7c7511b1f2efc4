/** The shapes of explanations in responses: why a snapshot, an artifact in it or a trail has its verdict. */
import { Type } from "typebox";
import { CAUSE_KINDS } from "../domain/compliance/causes.ts";
import { REMEDY_KINDS } from "../domain/compliance/remedies.ts";
import { Closed, Nullable, OneOf, named } from "../http/schema.ts";
import { ENVIRONMENT_TYPES } from "../store/environments/environments.ts";
import { causeWords } from "./causes.ts";
import { PolicyRuleDefinition } from "./policy-evaluation.ts";
import { SameName } from "./same-name.ts";
import { Tags } from "./tags.ts";

const Count = Type.Integer({ minimum: 0 });
const Instant = Type.Number({ description: "Epoch seconds" });
const Lines = Nullable(
  Closed(
    { from: Type.Integer({ minimum: 1 }), to: Type.Integer({ minimum: 1 }) },
    { description: "First and last line, from 1; null if the text does not have it" },
  ),
);

const about = {
  words: Type.String({ description: "For people" }),
  flow: Nullable(Type.String()),
  trail: Nullable(Type.String()),
  name: Nullable(Type.String({ description: "Name of the attestation, or of the missing artifact" })),
  type: Nullable(Type.String({ description: "Type of the attestation, in the words of templates and policies" })),
  control: Nullable(Type.String({ description: "Control that the decision is for" })),
  attestation_id: Nullable(Type.String({ description: "The record in force; of an overridden one, the override" })),
};

/** What a policy fails on. */
export const causeFields = {
  kind: OneOf(CAUSE_KINDS),
  ...about,
  level: Nullable(OneOf(["artifact", "trail"], { description: "What the attestation belongs to" })),
};

const ExplainedCause = named("ExplainedCause", Closed({ ...causeWords, ...causeFields }));

const ExplainedRemedy = named(
  "ExplainedRemedy",
  Closed({
    kind: OneOf(REMEDY_KINDS),
    ...about,
    fingerprint: Nullable(Type.String({ description: "The artifact to report or attest" })),
  }),
);

const record = {
  type: Type.String({ description: "`override` for an override" }),
  overridden_type: Nullable(Type.String()),
  control_version: Nullable(Type.Integer()),
  description: Nullable(Type.String()),
  reasons: Type.Array(Type.String(), { description: "Why it is not compliant, where its kind says so" }),
  reported_by: Type.String(),
  created_at: Instant,
  evidence_digest: Nullable(Type.String({ description: "SHA-256 of the evidence file" })),
  evidence_filename: Nullable(Type.String()),
};

/** An attestation as it was reported. */
const ExplainedRecord = named("ExplainedRecord", Closed(record));

const ExplainedAttestation = named(
  "ExplainedAttestation",
  Closed({
    id: Type.String(),
    name: Type.String(),
    type: Type.String({ description: "For an override, the overridden type" }),
    level: OneOf(["artifact", "trail"]),
    is_compliant: Type.Boolean(),
    control: Nullable(Type.String()),
    record: Nullable(ExplainedRecord),
  }),
);

const ExplainedFlow = named(
  "ExplainedFlow",
  Closed({
    flow_id: Type.Integer(),
    flow: Type.String({ description: "Its present name" }),
    evaluated_as: Type.String({ description: "Its name at the evaluation" }),
    tags: Tags,
    trail_id: Nullable(Type.Integer()),
    trail: Nullable(Type.String({ description: "null if the artifact was reported without a trail" })),
    artifact_id: Type.Integer(),
    reference_name: Nullable(Type.String()),
    filename: Type.String(),
    git_commit: Type.String(),
    commit_url: Type.String(),
    committed_at: Nullable(Type.Number()),
    state: OneOf(["COMPLIANT", "NON-COMPLIANT", "INCOMPLETE"]),
    reasons: Type.Array(Type.String()),
    deployment_id: Nullable(Type.Integer()),
    attestations: Type.Array(ExplainedAttestation, { description: "Every attestation that was considered" }),
  }),
);

const ExplainedCondition = named(
  "ExplainedCondition",
  Closed({
    type: OneOf(["exception", "condition"], {
      description: "An exception switches the rule off where it is true, a condition where it is false",
    }),
    text: Nullable(Type.String({ description: "The expression; null for an exception that never applies" })),
    lines: Lines,
    results: Type.Array(
      Closed({
        flow: Nullable(Type.String({ description: "null without provenance" })),
        result: Nullable(
          Type.Boolean({ description: "null if it failed, or if an earlier exception had already applied" }),
        ),
        error: Nullable(Type.String()),
        values: Type.Record(Type.String(), Nullable(Type.Union([Type.String(), Type.Boolean()])), {
          description: "The values of the first 20 names in the expression, by name; null for a tag that is not set",
        }),
      }),
      { description: "One for each flow, in the order of `flows`" },
    ),
  }),
);

const ExplainedResolution = named(
  "ExplainedResolution",
  Closed({
    type: Type.String({ description: "As in `rule_evaluations` of snapshots" }),
    context: Closed({
      flow_name: Nullable(Type.String()),
      trail_name: Nullable(Type.String()),
      artifact_status: Nullable(Type.String()),
      for_control: Type.Optional(Type.String()),
      evaluation_error: Type.Optional(Type.String()),
    }),
    in_words: Type.String(),
    attestation_ids: Type.Array(Type.String(), { description: "The attestations that determined the result" }),
  }),
);

const ExplainedRule = named(
  "ExplainedRule",
  Closed({
    rule: PolicyRuleDefinition,
    in_words: Type.String(),
    lines: Lines,
    satisfied: Nullable(Type.Boolean({ description: "null when the rule does not apply" })),
    resolutions: Type.Array(ExplainedResolution, { description: "One for each flow, in the order of `flows`" }),
    conditions: Type.Array(ExplainedCondition, {
      description: "The first 50 exceptions, and later ones that applied or failed; or the condition of the rule",
    }),
    satisfied_by: Type.Array(ExplainedRemedy, {
      description: "What would satisfy the rule; empty if it is satisfied or does not apply",
    }),
  }),
);

const ExplainedVerdict = named(
  "ExplainedVerdict",
  Closed({
    policy: Type.String(),
    version: Type.Integer(),
    version_id: Type.Integer(),
    status: OneOf(["COMPLIANT", "NON-COMPLIANT"]),
    rules: Nullable(
      Type.Array(ExplainedRule, {
        description: "null where the response has no room for them (4 MB): ask for the artifact by its fingerprint",
      }),
    ),
  }),
);

export const ExplainedArtifactShape = named(
  "ExplainedArtifact",
  Closed({
    name: Type.String(),
    fingerprint: Type.String({ description: "Empty if the reporter could not resolve the image" }),
    exited: Type.Boolean({ description: "Whether it stopped with this snapshot; the verdict is its last one" }),
    compliant: Nullable(Type.Boolean({ description: "null without policies" })),
    annotation: Type.String({ description: "The last change, made by the snapshot `first_index`" }),
    first_index: Type.Integer(),
    started_index: Type.Integer(),
    instances_before: Count,
    instances: Count,
    evaluation_id: Type.Integer(),
    allowlist: Nullable(
      Closed({
        id: Type.String(),
        artifact_name: Type.String(),
        description: Type.String(),
        user_id: Type.String(),
        user_name: Type.String(),
        timestamp: Instant,
        expires_at: Type.Optional(Type.Integer({ description: "Epoch seconds; only of an entry that ends" })),
      }),
    ),
    flows: Type.Array(ExplainedFlow, { description: "Empty without provenance" }),
    same_name: Type.Optional(SameName),
    policies: Type.Array(ExplainedVerdict),
    reasons: Type.Array(Type.String()),
    causes: Type.Array(ExplainedCause, {
      description: "What the policies fail on, each attestation, trail or artifact once",
    }),
    same: Type.Boolean({ description: "Whether everything was readable and a re-evaluation gave the same verdict" }),
    problems: Type.Array(Type.String()),
  }),
);

export const ExplainedPolicy = named(
  "ExplainedPolicy",
  Closed({
    policy_id: Type.String(),
    policy: Type.String(),
    version: Type.Integer(),
    version_id: Type.Integer(),
    comment: Type.String(),
    created_by: Type.String(),
    created_at: Instant,
    policy_yaml: Nullable(
      Type.String({
        description: "The file as uploaded; null where the policies of a response are larger than 2 MB together",
      }),
    ),
  }),
);

const snapshot = {
  environment: Closed({ id: Type.String(), name: Type.String(), type: OneOf(ENVIRONMENT_TYPES) }),
  index: Type.Integer(),
  timestamp: Instant,
  cause: OneOf(["report", "policies", "policy_version", "allowlist", "member"]),
  caused_by: Closed({
    user_id: Type.String(),
    user_name: Type.String(),
    environment: Nullable(Type.String({ description: "The member whose snapshot caused this one" })),
    index: Nullable(Type.Integer()),
  }),
  compliant: Nullable(Type.Boolean({ description: "null: unknown" })),
  compliant_count: Count,
  non_compliant_count: Count,
  unknown_count: Count,
  policies: Type.Array(ExplainedPolicy, { description: "Those in force then" }),
  artifacts: Type.Array(ExplainedArtifactShape, { description: "Those that run and fail first" }),
};

/** A logical environment has physical members only. */
const ExplainedMember = named(
  "ExplainedMember",
  Closed({ ...snapshot, members: Type.Array(Type.Never(), { description: "Always empty" }) }),
);

export const SnapshotExplanation = named(
  "SnapshotExplanation",
  Closed({
    organization: Type.String(),
    expression: Type.String({ description: "The snapshot as requested" }),
    fingerprint: Nullable(Type.String()),
    selection: Nullable(
      Closed(
        {
          total: Type.Integer({ description: "Artifacts that ran or stopped, with the fingerprint if one was given" }),
          page: Type.Integer(),
          per_page: Type.Integer(),
          page_count: Type.Integer(),
        },
        { description: "Which artifacts are explained, those of members included; null: all" },
      ),
    ),
    same: Type.Boolean({
      description: "Whether everything shown was readable and re-evaluates to the stored verdicts",
    }),
    problems: Type.Array(Type.String(), { description: "The differences" }),
    snapshot: named(
      "ExplainedSnapshot",
      Closed({
        ...snapshot,
        members: Type.Array(ExplainedMember, { description: "Of a logical environment: the snapshots that it shows" }),
      }),
    ),
  }),
);

const TrailAttestationRecord = named(
  "ExplainedTrailRecord",
  Closed({ id: Type.String(), name: Type.String(), is_compliant: Type.Boolean(), ...record }),
);

const ExplainedExpectation = named(
  "ExplainedExpectation",
  Closed({
    name: Type.String(),
    type: Type.String({ description: "The type that the template expects, or that was reported unexpectedly" }),
    state: OneOf(["COMPLIANT", "NON-COMPLIANT", "MISSING"], { description: "With an override in force, its verdict" }),
    unexpected: Type.Boolean({ description: "Whether the template does not expect it" }),
    overridden: Type.Boolean(),
    attestation: Nullable(TrailAttestationRecord),
    override: Nullable(TrailAttestationRecord),
    lines: Lines,
    satisfied_by: Type.Array(ExplainedRemedy, { description: "What would make it compliant; empty if it is" }),
  }),
);

const state = OneOf(["COMPLIANT", "NON-COMPLIANT", "INCOMPLETE"]);

export const TrailExplanation = named(
  "TrailExplanation",
  Closed({
    organization: Type.String(),
    flow: Type.String(),
    trail: Type.String(),
    html_url: Type.String(),
    git_commit: Nullable(Type.String()),
    state,
    is_compliant: Type.Boolean(),
    reasons: Type.Array(Type.String()),
    evaluated_at: Nullable(Type.Number({ description: "Epoch seconds; null if the stored verdict cannot be read" })),
    template: Closed({
      id: Type.String({ description: "Identifies this version of the template" }),
      own: Type.Boolean({ description: "Whether the trail has a template of its own, instead of that of its flow" }),
      content: Nullable(Type.String({ description: "YAML text as uploaded; null if it is larger than 2 MB" })),
    }),
    attestations: Type.Array(ExplainedExpectation, { description: "Of the trail itself" }),
    artifacts: Type.Array(
      named(
        "ExplainedTrailArtifact",
        Closed({
          reference_name: Type.String({ description: "Or the fingerprint, if it was reported without a name" }),
          fingerprint: Nullable(Type.String()),
          artifact_id: Nullable(Type.String()),
          state: OneOf(["COMPLIANT", "NON-COMPLIANT", "INCOMPLETE", "MISSING"]),
          unexpected: Type.Boolean(),
          lines: Lines,
          attestations: Type.Array(ExplainedExpectation),
        }),
      ),
      { description: "The latest artifact of each name" },
    ),
    causes: Type.Array(ExplainedCause),
    satisfied_by: Type.Array(ExplainedRemedy, { description: "What would make the trail compliant" }),
    same: Type.Boolean({ description: "Whether a re-evaluation gives the stored verdict" }),
    problems: Type.Array(Type.String()),
  }),
);
