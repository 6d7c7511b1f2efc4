/** The shapes of a snapshot in responses (semantics 6.5). */
import { Type } from "typebox";
import { Closed, Nullable, OneOf, Pagination, named } from "../http/schema.ts";
import { ENVIRONMENT_TYPES } from "../store/environments/environments.ts";
import { Causes } from "./causes.ts";
import { K8SOwner } from "./report-shapes.ts";
import { SameName } from "./same-name.ts";
import { SnapshotTurn } from "./comparison/snapshot-diff-shapes.ts";
import { GitCommitInfo } from "./shapes.ts";
import { PolicyExpression, PolicyEvaluation } from "./policy-evaluation.ts";

const SnapshotAnnotation = named(
  "SnapshotAnnotation",
  Closed({
    type: OneOf(
      [
        "started-compliant",
        "started-non-compliant",
        "started-unknown",
        "exited",
        "became-compliant",
        "became-non-compliant",
        "updated-provenance",
        "unchanged",
        "started",
        "changed",
        "scaled",
      ],
      { description: "What this snapshot changed about the artifact; the last three values occur in old data only" },
    ),
    was: Type.Integer({ description: "Instances before" }),
    now: Type.Integer({ description: "Instances in this snapshot; 0 if it no longer runs" }),
  }),
);

export const SnapshotDeploymentDiff = named(
  "SnapshotDeploymentDiff",
  Closed({
    diff_url: Nullable(Type.String({ description: "Page of the code host that compares both commits" })),
    previous_git_commit: Type.String(),
    previous_git_commit_url: Type.String(),
    previous_fingerprint: Type.String(),
    previous_artifact_name: Type.String(),
    previous_artifact_compliance_state: OneOf(["COMPLIANT", "NON-COMPLIANT", "INCOMPLETE"]),
    previous_running: Type.Boolean({ description: "Whether it runs in the latest snapshot of the environment" }),
    previous_trail_name: Nullable(Type.String()),
    previous_template_reference_name: Nullable(Type.String()),
  }),
);

export const SnapshotArtifactFlow = named(
  "SnapshotArtifactFlow",
  Closed({
    flow_name: Type.String(),
    trail_name: Nullable(Type.String()),
    template_reference_name: Nullable(Type.String()),
    git_commit: Type.String(),
    commit_url: Type.String(),
    git_commit_info: Nullable(GitCommitInfo),
    html_url: Type.String(),
    flow_html_url: Type.String(),
    deployment_diff: Nullable(SnapshotDeploymentDiff),
    commit_lead_time: Nullable(Type.Number({ description: "Seconds from the commit to the first start" })),
    artifact_compliance_in_flow: Type.Boolean(),
    flow_reasons_for_non_compliance: Type.Array(Closed({ reason: Type.String() })),
  }),
);

const SnapshotPod = named(
  "SnapshotPod",
  Closed({
    namespace: Type.String(),
    creationTimestamp: Type.Integer(),
    owners: Nullable(Type.Array(K8SOwner, { description: "As reported" })),
  }),
);

const ECSContext = named(
  "ECSContext",
  Closed({ task_arn: Type.String(), cluster_name: Nullable(Type.String()), service_name: Nullable(Type.String()) }),
);

export const SnapshotArtifact = named(
  "SnapshotArtifact",
  Closed({
    name: Type.String(),
    fingerprint: Type.String({ description: "Empty if the reporter could not resolve the image" }),
    environment_name: Type.Optional(
      Type.String({ description: "The member that it runs in; for logical environments only" }),
    ),
    compliant: Nullable(Type.Boolean({ description: "null without policies" })),
    reasons_for_incompliance: Type.Array(Type.String()),
    creationTimestamp: Type.Array(Type.Integer(), { description: "Start of each instance, epoch seconds" }),
    annotation: SnapshotAnnotation,
    pods: Nullable(Type.Record(Type.String(), SnapshotPod, { description: "Pods by name; K8S only" })),
    ecs_context: Nullable(ECSContext),
    deployments: Type.Array(Type.Integer(), { description: "Always empty" }),
    policy_decisions: Type.Array(PolicyEvaluation, { description: "In the order in which the policies were attached" }),
    flow_name: Nullable(Type.String({ description: "This field and the next six describe the first flow" })),
    git_commit: Nullable(Type.String()),
    commit_url: Nullable(Type.String()),
    html_url: Nullable(Type.String()),
    flow_html_url: Nullable(Type.String()),
    deployment_diff: Nullable(SnapshotDeploymentDiff),
    commit_lead_time: Nullable(Type.Number()),
    flows: Type.Array(SnapshotArtifactFlow, {
      description: "Every flow that the artifact was reported to, the first one first; empty without provenance",
    }),
    same_name: Type.Optional(SameName),
    causes: Type.Optional({ ...Causes.causes, description: "In a page of artifacts: why it fails its policies" }),
    further_causes: Type.Optional(Causes.further_causes),
    allowed: Type.Optional(
      Nullable(
        Closed(
          {
            user_name: Type.String({ description: "Display name of the user who allowed it" }),
            description: Type.String({ description: "Reason" }),
            timestamp: Type.Number({ description: "Epoch seconds" }),
            expires_at: Nullable(Type.Number({ description: "Epoch seconds; null if the entry does not end" })),
          },
          {
            description:
              "In a page of artifacts: the allowlist entry that its evaluation was based on; null without one",
          },
        ),
      ),
    ),
  }),
);

const PolicyDumpBooleanRule = named(
  "PolicyDumpBooleanRule",
  Closed({ required: Type.Boolean(), exceptions: Type.Array(Closed({ if_condition: Nullable(PolicyExpression) })) }),
);
export const PolicyDump = named(
  "PolicyDump",
  Closed({
    schema_version: Type.Literal("1"),
    artifacts: Closed({
      provenance: PolicyDumpBooleanRule,
      trail_compliance: PolicyDumpBooleanRule,
      attestations: Type.Array(
        Closed({
          if_condition: Nullable(PolicyExpression),
          name: Type.String(),
          type: Type.String(),
          must_be_compliant: Type.Boolean(),
          for_control: Nullable(Type.String()),
        }),
      ),
    }),
  }),
);
export const AppliedPolicy = named(
  "AppliedPolicy",
  Closed({
    id: Type.String(),
    name: Type.String(),
    version: Type.Integer(),
    policy_dump: PolicyDump,
    failing_artifacts: Type.Array(Closed({ name: Type.String(), fingerprint: Type.String() }), {
      description:
        "Running artifacts that violate the policy, except those on the allowlist; those of the page, if any",
    }),
  }),
);

export const SnapshotResponse = named(
  "SnapshotResponse",
  Closed({
    index: Type.Integer(),
    is_latest: Type.Boolean(),
    timestamp: Type.Number(),
    next_snapshot_timestamp: Nullable(Type.Number({ description: "null for the latest" })),
    type: OneOf(ENVIRONMENT_TYPES),
    compliant: Type.Boolean({ description: "false also if no policy is attached" }),
    artifact_compliance_count: Closed(
      { true: Type.Integer(), false: Type.Integer(), null: Type.Integer() },
      { description: "Without artifacts that exited" },
    ),
    html_url: Type.String(),
    user_id: Type.String({ description: "Who sent the report or made the change that led to the snapshot" }),
    user_name: Type.String(),
    artifacts: Type.Array(SnapshotArtifact),
    applied_policies: Type.Array(AppliedPolicy),
    turn: Type.Optional(Nullable(SnapshotTurn)),
    pagination: Type.Optional(Pagination),
  }),
);
