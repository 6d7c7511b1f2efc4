/** The shapes of an audit binder: what an auditor reads about a control, an environment or a flow in a period. */
import { Type } from "typebox";
import type { Static, TSchema } from "typebox";
import { Closed, Nullable, OneOf, named } from "../../http/schema.ts";
import { ENVIRONMENT_TYPES } from "../../store/environments/environments.ts";
import { BINDER_KINDS } from "../../store/environments/history/binder-scope.ts";
import { Causes } from "../causes.ts";
import { ChangeEntry } from "../changes/shapes.ts";

const Time = Type.Number({ description: "Epoch seconds" });
const End = (description: string) => Nullable(Type.Number({ description: `Epoch seconds; ${description}` }));
const Count = Type.Integer({ minimum: 0 });
const Url = Type.String();
const Fingerprint = Type.String({ description: "Empty if the reporter could not resolve the image" });

/** A list of a binder, and how many entries it has without a limit. */
const Part = <T extends TSchema>(item: T, description: string) =>
  Closed({ total: Count, items: Type.Array(item) }, { description });

/** The figures of a binder, by the words that name them. */
export const FIGURES = [
  "releases",
  "releases_with_decision",
  "releases_allowed",
  "releases_without_decision",
  "decisions",
  "approved",
  "refused",
  "snapshots",
  "seconds_compliant",
  "seconds_non_compliant",
  "seconds_unknown",
  "starts",
  "starts_compliant",
  "starts_allowed",
  "starts_not_compliant",
  "trails",
  "trails_compliant",
  "trails_not_compliant",
  "evidence_files",
  "evidence_bytes",
] as const;
export type Figure = (typeof FIGURES)[number];

const Figures = Closed(
  Object.fromEntries(
    FIGURES.map((name) => [name, Nullable(Type.Integer({ minimum: 0, description: "null: not of this kind" }))]),
  ) as Record<Figure, ReturnType<typeof Nullable<typeof Count>>>,
  {
    description:
      "A release is a start of an artifact in an environment whose policies had a rule for the control that applied. " +
      "`..._allowed`: not satisfied, but on the allowlist; never counted as compliant or as decided. " +
      "`seconds_unknown`: without a verdict, or before the first snapshot",
  },
);
export type FiguresValue = Static<typeof Figures>;

const Allowance = Closed({
  id: Type.String(),
  reason: Type.String(),
  by: Type.String(),
  expires_at: End("null: it does not end"),
});

const Gap = named(
  "BinderGap",
  Closed({
    state: OneOf(["non-compliant", "unknown", "allowed", "incomplete"], {
      description: "`allowed`: an allowlist entry allowed it although it is not compliant",
    }),
    since: Time,
    until: End("when another verdict or an exit ended it; null: it had not ended"),
    environment_name: Nullable(Type.String({ description: "null for a trail" })),
    snapshot_index: Nullable(Type.Integer({ description: "The snapshot with which it began" })),
    artifact_name: Nullable(Type.String({ description: "null for a trail" })),
    artifact_fingerprint: Nullable(Fingerprint),
    flow_name: Nullable(Type.String({ description: "null without provenance" })),
    trail_name: Nullable(Type.String()),
    ...Causes,
    allowlist: Nullable(Allowance),
    html_url: Url,
  }),
);
export type GapValue = Static<typeof Gap>;

const Decision = named(
  "BinderDecision",
  Closed({
    id: Type.String({ description: "Of the attestation" }),
    timestamp: Time,
    control: Type.String(),
    control_version: Nullable(Type.Integer({ description: "null: the control did not exist yet" })),
    is_compliant: Type.Boolean({ description: "true: approved; false: refused" }),
    is_override: Type.Boolean({ description: "Whether it overrides an earlier decision" }),
    attestation_name: Type.String(),
    flow_name: Type.String(),
    trail_name: Type.String(),
    artifact_name: Nullable(Type.String({ description: "null for a decision on a whole trail" })),
    artifact_fingerprint: Nullable(Type.String()),
    git_commit: Nullable(Type.String()),
    decided_by: Type.String(),
    reason: Nullable(Type.String()),
    evidence_sha256: Nullable(Type.String({ description: "Of its attached file" })),
    html_url: Url,
  }),
);
export type DecisionValue = Static<typeof Decision>;

const Verdict = named(
  "BinderVerdict",
  Closed({
    compliant: Nullable(Type.Boolean({ description: "null: without a verdict, such as without a policy" })),
    since: Time,
    until: End("null: it had not ended at the end of the period"),
    first_snapshot: Nullable(Type.Integer({ description: "null: before the first snapshot" })),
    last_snapshot: Nullable(Type.Integer()),
    non_compliant_artifacts: Type.Integer({ minimum: 0, description: "The most at a time" }),
    html_url: Url,
  }),
);
export type VerdictValue = Static<typeof Verdict>;

const Trail = named(
  "BinderTrail",
  Closed({
    name: Type.String(),
    begun_at: Time,
    last_modified_at: Time,
    state: OneOf(["COMPLIANT", "NON-COMPLIANT", "INCOMPLETE"], { description: "At the time of the binder" }),
    artifacts: Count,
    attestations: Count,
    html_url: Url,
  }),
);
export type TrailValue = Static<typeof Trail>;

const Requirement = named(
  "BinderRequirement",
  Closed({
    environment_name: Type.String(),
    environment_type: OneOf(ENVIRONMENT_TYPES),
    control: Type.String(),
    policies: Type.Array(Closed({ name: Type.String(), version: Type.Integer() }), {
      description: "The versions with a rule for the control that applied to a release of the period",
    }),
    releases: Type.Integer({ minimum: 0, description: "Starts to which such a rule applied" }),
    with_decision: Type.Integer({ minimum: 0, description: "Those that satisfied all such rules when they started" }),
    allowed: Type.Integer({ minimum: 0, description: "Others that an allowlist entry allowed" }),
    coverage_percent: Type.Number({ description: "`with_decision` of `releases`, with one decimal place" }),
    html_url: Url,
  }),
);
export type RequirementValue = Static<typeof Requirement>;

const Coverage = Closed(
  {
    required_in: Type.Array(Type.String(), { description: "Environments whose policies had a rule for the control" }),
    not_required_in: Type.Array(Type.String(), { description: "The others; logical ones are left out" }),
  },
  { description: "Whether something started there or not; null for an environment and a flow" },
);

const AllowanceEntry = named(
  "BinderAllowance",
  Closed({
    ...Allowance.properties,
    begun_at: Time,
    replaced_at: End("when a later entry for the artifact took its place; null: none did"),
    environment_name: Type.String(),
    artifact_name: Type.String(),
    artifact_fingerprint: Type.String(),
    html_url: Url,
  }),
);
export type AllowanceValue = Static<typeof AllowanceEntry>;

const Rule = named(
  "BinderRule",
  Closed({
    kind: OneOf(["policy", "control"]),
    name: Type.String({ description: "Of the policy; identifier of the control" }),
    version: Type.Integer(),
    since: Type.Number({ description: "Epoch seconds when the version was saved" }),
    until: End("when the next version replaced it; null: none had"),
    by: Type.String(),
    comment: Type.String(),
    sha256: Nullable(Type.String({ description: "Of the text of the policy, as it was uploaded" })),
    html_url: Url,
  }),
);
export type RuleValue = Static<typeof Rule>;

const EvidenceFile = named(
  "BinderEvidence",
  Closed({
    name: Nullable(Type.String({ description: "Under which it was uploaded" })),
    sha256: Nullable(Type.String()),
    bytes: Nullable(Count),
    reported_at: Time,
    deleted_at: End("when a retention rule deleted it; null: it was not"),
    flow_name: Type.String(),
    trail_name: Type.String(),
    attestation_name: Type.String(),
    attestation_id: Type.String(),
    html_url: Url,
  }),
);
export type EvidenceValue = Static<typeof EvidenceFile>;

export const AuditBinder = named(
  "AuditBinder",
  Closed({
    organization: Type.String(),
    subject: Closed({
      kind: OneOf(BINDER_KINDS),
      name: Type.String({ description: "Identifier of the control, or name of the environment or flow" }),
      title: Type.String({ description: "Name of the control; the same as `name` for the others" }),
      description: Nullable(Type.String()),
      version: Nullable(Type.Integer({ description: "Latest version of the control" })),
      html_url: Url,
    }),
    from: Time,
    to: Type.Number({ description: "Epoch seconds; at most the time of the request" }),
    summary: Type.String({ description: "A paragraph to quote" }),
    figures: Figures,
    missing: Part(
      Gap,
      "What is missing, latest first. Of a control: releases without a decision that satisfied the rules. Of an " +
        "environment: when artifacts ran that were not compliant. Of a flow: trails that are not compliant",
    ),
    decisions: Part(
      Decision,
      "Newest first, with overrides of decisions. Of an environment: those on artifacts that started in it in the " +
        "period, whenever they were made. Of a flow: those in trails that began in the period",
    ),
    verdicts: Nullable(Part(Verdict, "Verdicts of the environment without a gap, oldest first; null for the others")),
    trails: Nullable(Part(Trail, "Trails that began in the period, newest first; null but for a flow")),
    required: Part(Requirement, "Where decisions were required of what started, those with the lowest coverage first"),
    coverage: Nullable(Coverage),
    allowlist: Part(AllowanceEntry, "Entries that counted at some time of the period, newest first"),
    rules: Part(Rule, "Versions of policies, and of the control, that were in force at some time of the period"),
    changes: Closed(
      {
        since: Type.Number({
          description: "Changes from this time on are here; later than `from` if there are too many",
        }),
        people_since: Nullable(
          Type.Number({ description: "The same for members, keys and records; null: you may not read these changes" }),
        ),
        total: Count,
        items: Type.Array(ChangeEntry),
      },
      {
        description:
          "Who changed these policies, allowlists, and, for those who may read it, members, keys and records. Of " +
          "records, other environments, flows or controls than that of the binder are left out: of its own kind",
      },
    ),
    evidence: Part(EvidenceFile, "Attached files of the attestations in the scope, oldest report first"),
  }),
);
export type AuditBinderValue = Static<typeof AuditBinder>;
