/** The shapes of a trail in responses (semantics 2.5). */
import { Type } from "typebox";
import { Closed, Nullable, OneOf, Pagination, named } from "../http/schema.ts";
import { OptionalCauses } from "./causes.ts";
import { GitCommitInfo, UserData } from "./shapes.ts";
import { Tags } from "./tags.ts";

const STATES = ["INCOMPLETE", "COMPLIANT", "NON-COMPLIANT"] as const;

const CHECK = {
  attestation_name: Type.String(),
  attestation_type: Type.String({
    description: "The type that the template expects, or that was reported unexpectedly",
  }),
  attestation_id: Nullable(
    Type.String({ description: "Id of the attestation; for an overridden one, of the original" }),
  ),
  overridden_attestation_id: Nullable(Type.String({ description: "The override in force" })),
  status: OneOf(["MISSING", "COMPLETE"]),
  is_compliant: Nullable(Type.Boolean()),
  unexpected: Type.Boolean(),
};
const AttestationComplianceStatus = named("AttestationComplianceStatus", Closed(CHECK));

const evaluation = {
  evaluated_at: Type.Number({ description: "Epoch seconds of the event that caused the evaluation" }),
  flow_template_id: Type.String(),
};

const ArtifactComplianceStatus = named(
  "ArtifactComplianceStatus",
  Closed({
    artifact_fingerprint: Nullable(Type.String()),
    artifact_id: Nullable(Type.String()),
    status: OneOf(["MISSING", ...STATES]),
    is_compliant: Nullable(Type.Boolean()),
    unexpected: Type.Boolean(),
    attestations_statuses: Type.Array(AttestationComplianceStatus),
    ...evaluation,
  }),
);

const TrailComplianceStatus = named(
  "TrailComplianceStatus",
  Closed({
    status: OneOf(STATES),
    is_compliant: Type.Boolean(),
    attestations_statuses: Type.Array(AttestationComplianceStatus),
    artifacts_statuses: Type.Record(Type.String(), ArtifactComplianceStatus, {
      description: "The latest artifact of each name in the template",
    }),
    ...evaluation,
  }),
);

const TemplateAttestation = named("TemplateAttestation", Closed({ name: Type.String(), type: Type.String() }));
const TemplateArtifact = named(
  "TemplateArtifact",
  Closed({ name: Type.String(), attestations: Type.Array(TemplateAttestation) }),
);
const TemplateTrailDefinition = named(
  "TemplateTrailDefinition",
  Closed({ attestations: Type.Array(TemplateAttestation), artifacts: Type.Array(TemplateArtifact) }),
);
const TemplateShape = named(
  "Template",
  Closed({
    version: Type.Literal(1),
    trail: TemplateTrailDefinition,
    content: Type.String({ description: "YAML text as uploaded" }),
  }),
);

const EVENT_TYPES = [
  "trail_reported",
  "trail_updated",
  "trail_attestation_reported",
  "trail_attestation_for_artifact_reported",
  "artifact_creation_reported",
  "artifact_attestation_reported",
  "artifact_started_running",
  "artifact_stopped_running",
  "artifact_approval_reported",
] as const;

/** Open, because the fields of an event beyond the common ones depend on its type. */
export const TrailEvent = named(
  "TrailEvent",
  Type.Object({
    type: OneOf(EVENT_TYPES),
    timestamp: Type.Number({ description: "Epoch seconds" }),
    org_id: Type.String(),
    flow_id: Type.String(),
    trail_id: Type.String(),
    git_commit_info: Type.Optional(Nullable(GitCommitInfo)),
    repo_info: Type.Optional(
      Nullable(
        Type.Record(Type.String(), Type.Unknown(), {
          description: "`name`, `url`, `id`, `description` and `provider`",
        }),
      ),
    ),
    setting_user_id: Type.Optional(Type.String()),
    template_id: Type.Optional(Type.String({ description: "The template in force from this event on" })),
    changes: Type.Optional(Type.Array(Type.String(), { description: "Fields that an update changed" })),
    attestation_type: Type.Optional(Type.String()),
    attestation_id: Type.Optional(Type.String()),
    is_compliant: Type.Optional(Type.Boolean()),
    is_reattestation: Type.Optional(
      Nullable(Type.Boolean({ description: "true for a repeated report, null for the first one of a name" })),
    ),
    template_reference_name: Type.Optional(Nullable(Type.String())),
    target_artifact: Type.Optional(Type.String()),
    artifact_id: Type.Optional(Type.String()),
    artifact_name: Type.Optional(Type.String()),
    artifact_fingerprint: Type.Optional(Type.String()),
    git_commit: Type.Optional(Type.String()),
    environment_id: Type.Optional(Type.String()),
    environment_name: Type.Optional(Type.String()),
    snapshot_index: Type.Optional(Type.Integer()),
    replica_number: Type.Optional(Type.Integer()),
  }),
);

export const ExternalUrl = named(
  "ExternalUrl",
  Closed({ href: Type.String(), fingerprint: Type.Optional(Nullable(Type.String())) }),
);
const FlowInfo = named("FlowInfo", Closed({ name: Type.String(), tags: Tags }));

/** What is wrong with a trail, by name: at most so many names. */
export const MAX_PROBLEMS = 10;
export const TrailSummary = named(
  "TrailSummary",
  Closed({
    name: Type.String(),
    description: Type.String({ description: "Empty if none was given" }),
    git_commit_info: Nullable(GitCommitInfo),
    created_at: Type.Number({ description: "Epoch seconds" }),
    last_modified_at: Type.Number({ description: "Epoch seconds" }),
    created_by: Type.String(),
    flow: FlowInfo,
    html_url: Type.String(),
    compliance_state: OneOf(STATES),
    is_compliant: Type.Boolean(),
    problems: Type.Array(
      Closed({
        problem: OneOf(["failing", "missing"]),
        attestation_name: Nullable(Type.String({ description: "null: artifacts are missing" })),
        count: Type.Integer({ description: "On how many artifacts, the trail counted as one" }),
      }),
      { description: `What decided, those that fail first; at most ${MAX_PROBLEMS} names` },
    ),
    problem_count: Type.Integer({ description: "All that fails or is missing" }),
    ...OptionalCauses,
  }),
);

/** A trail without its template, statuses and history. */
const TRAIL_FACTS = {
  name: Type.String(),
  description: Type.String({ description: "Empty if none was given" }),
  git_commit_info: Nullable(GitCommitInfo),
  origin_url: Nullable(Type.String()),
  user_data: Nullable(UserData),
  repo_ids: Type.Array(Type.String(), { description: "Repositories named in reports to the trail" }),
  created_at: Type.Number({ description: "Epoch seconds" }),
  last_modified_at: Type.Number({ description: "Epoch seconds" }),
  created_by: Type.String(),
  flow: FlowInfo,
  external_urls: Nullable(Type.Record(Type.String(), ExternalUrl)),
  html_url: Type.String(),
};
const VERDICT = { compliance_state: OneOf(STATES), is_compliant: Type.Boolean() };

export const TrailResponse = named(
  "TrailResponse",
  Closed({
    ...TRAIL_FACTS,
    template: TemplateShape,
    compliance_status: TrailComplianceStatus,
    ...VERDICT,
    events: Type.Array(TrailEvent, { description: "The history, oldest first" }),
    ...OptionalCauses,
  }),
);

const TrailCheck = named(
  "TrailCheck",
  Closed({
    artifact: Nullable(
      Closed(
        {
          name: Type.String({ description: "In the template; its fingerprint if it was reported without a name" }),
          artifact_fingerprint: Nullable(Type.String()),
          artifact_id: Nullable(Type.String()),
          status: OneOf(["MISSING", ...STATES]),
          unexpected: Type.Boolean(),
        },
        { description: "The artifact that the check is about; null: the trail itself" },
      ),
    ),
    ...CHECK,
    reported_type: Nullable(
      Type.String({ description: "Of a missing one: the type as which it was reported instead, if it was" }),
    ),
  }),
);

/** The first checks and artifacts that make a trail non-compliant or incomplete; `data` has the others. */
export const MAX_REASONS = 5;

export const TrailChecklist = named(
  "TrailChecklist",
  Closed({
    trail: Closed({ ...TRAIL_FACTS, ...VERDICT }, { description: "Without template, statuses and history" }),
    totals: Closed(
      {
        checks: Type.Integer(),
        expected: Type.Integer({ description: "By the template" }),
        delivered: Type.Integer({ description: "Of those expected" }),
        failing: Type.Integer(),
        missing: Type.Integer({ description: "Of the trail and of artifacts that were reported" }),
        missing_artifacts: Type.Integer(),
      },
      { description: "Of the whole checklist" },
    ),
    reasons: Closed(
      {
        failing: Type.Array(TrailCheck),
        missing: Type.Array(TrailCheck),
        missing_artifacts: Type.Array(Type.String()),
      },
      { description: `What \`totals\` counts: the first ${MAX_REASONS} of each` },
    ),
    states: Closed(
      { "NON-COMPLIANT": Type.Integer(), MISSING: Type.Integer(), COMPLIANT: Type.Integer() },
      { description: "How many match in each state, whatever `state` asks for" },
    ),
    opened: Nullable(
      Closed(
        {
          check: TrailCheck,
          position: Type.Integer({ description: "Among the reported checks of the list, from 1" }),
          reported: Type.Integer({ description: "Reported checks of the list" }),
          previous: Nullable(Type.String({ description: "The attestation that counts in the reported check before" })),
          next: Nullable(Type.String()),
        },
        {
          description:
            "The check of `attestation_id` and its place in the list, or in the whole checklist if it is not in it; " +
            "null without one",
        },
      ),
    ),
    data: Type.Array(TrailCheck),
    pagination: Pagination,
  }),
);
