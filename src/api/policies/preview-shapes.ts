/** The shapes of previews: what a change would turn, in each environment. */
import { Type } from "typebox";
import { Causes, causeWords } from "../../contract/causes.ts";
import { causeFields } from "../../contract/explanation-shapes.ts";
import { Closed, Nullable, OneOf, named } from "../../http/schema.ts";
import { MAX_NEXT_TRAILS } from "../../store/flows/template-previews.ts";

export const Verdict = OneOf(["COMPLIANT", "NON-COMPLIANT", "UNKNOWN"]);

const position = {
  policy: Type.String(),
  version: Nullable(
    Type.Integer({
      description: "Of the policy; of a previewed text the one that it would become; null where not known",
    }),
  ),
  line: Nullable(
    Type.Integer({
      description: "Line of the rule in the previewed text, or else in the version in force; null where not known",
    }),
  ),
  column: Nullable(Type.Integer({ description: "Of a rule of the previewed text" })),
};

export const PreviewReason = named("PolicyPreviewReason", Closed({ ...position, text: Type.String() }));

export const PreviewCause = named("PolicyPreviewCause", Closed({ ...position, ...causeWords, ...causeFields }));

const PreviewedArtifact = named(
  "PolicyPreviewArtifact",
  Closed({
    name: Type.String(),
    fingerprint: Type.String(),
    flow: Nullable(Type.String({ description: "The flow that it was reported to, of several the first" })),
    trail: Nullable(Type.String({ description: "The trail there; null if it was reported without one" })),
    before: Verdict,
    after: Verdict,
    reasons_before: Type.Array(Type.String(), { description: "Why it does not satisfy its policies now" }),
    reasons: Type.Array(PreviewReason, { description: "Why it would not satisfy them" }),
    causes: Type.Array(PreviewCause, {
      description: "What the policies would fail on, each attestation, trail or artifact once",
    }),
    further_reasons: Type.Integer({ description: "Number of reasons that are not listed" }),
    allowed: Type.Boolean({ description: "Whether the allowlist would accept it, whatever its policies say" }),
    stale: Type.Boolean({
      description: "Its facts changed since its evaluation: the next snapshot evaluates it even without the change",
    }),
  }),
);

const UnknownArtifact = named(
  "PolicyPreviewUnknownArtifact",
  Closed({ name: Type.String(), fingerprint: Type.String(), reason: Type.String() }),
);

/** What would happen to the artifacts of an environment. */
export const environmentPreviewFields = {
  environment: Type.String(),
  snapshot: Type.Integer({ description: "Number of the evaluated snapshot, the latest one; 0 without any" }),
  before: Verdict,
  after: Verdict,
  artifacts: Type.Integer({ description: "Artifacts that run in the snapshot" }),
  unchanged: Type.Integer(),
  would_fail: Type.Integer(),
  would_pass: Type.Integer(),
  would_be_unknown: Type.Integer({ description: "Artifacts that no policy would be left to decide about" }),
  kept_by_allowlist: Type.Integer({
    description: "Artifacts, also counted as unchanged, that would not satisfy the policies but are on the allowlist",
  }),
  unknown: Type.Integer({ description: "Artifacts that cannot be evaluated" }),
  stale: Type.Integer({ description: "Artifacts whose facts changed since their evaluation" }),
  flips: Type.Array(PreviewedArtifact, { description: "Artifacts with another verdict, failing ones first" }),
  allowlisted: Type.Array(PreviewedArtifact, { description: "Artifacts that only the allowlist keeps compliant" }),
  unknown_artifacts: Type.Array(UnknownArtifact),
  not_listed: Type.Integer({ description: "Artifacts that the three lists have no room for" }),
};

const TrailState = OneOf(["COMPLIANT", "NON-COMPLIANT", "INCOMPLETE"]);

/** A trail, and its verdict before and after. */
export const turnedTrail = { trail: Type.String(), before: TrailState, after: TrailState };

export const NextTrailsPreview = named(
  "PolicyPreviewNextTrails",
  Closed(
    {
      flow: Type.String(),
      trails: Type.Integer({
        description: `Trails that were evaluated: the newest with the template of the flow, at most ${MAX_NEXT_TRAILS}`,
      }),
      own_template: Type.Integer({
        description: "Trails that were passed over, because they have a template of their own and keep it",
      }),
      left: Type.Integer({ description: "Older trails, which were not looked at" }),
      unchanged: Type.Integer(),
      would_fail: Type.Integer({ description: "Trails that would not be COMPLIANT any more" }),
      would_pass: Type.Integer({ description: "Trails that would be COMPLIANT" }),
      unknown: Type.Integer({ description: "Trails that cannot be evaluated" }),
      flips: Type.Array(Closed({ ...turnedTrail, ...Causes }), {
        description: "Trails with another verdict than under the present template, failing ones first",
      }),
      unknown_trails: Type.Array(Closed({ trail: Type.String(), reason: Type.String() })),
    },
    {
      description:
        "What the next trails of a flow would be under another template, if they report the same: the newest ones, " +
        "as if they began again; null for another change",
    },
  ),
);

const DecidingMember = named(
  "ChangePreviewMember",
  Closed({
    environment: Type.String(),
    snapshot: Type.Integer({
      description:
        "Number of its latest snapshot, 0 without any. It has the verdict, unless the change is about the member: " +
        "then `environments` has it, and its causes",
    }),
    verdict: Verdict,
    ...Causes,
  }),
);

/** What would become of a logical environment. */
export const logicalPreviewFields = {
  environment: Type.String(),
  before: Verdict,
  after: Verdict,
  members: Type.Integer({ description: "Members after the change" }),
  deciding_before: Type.Array(DecidingMember, {
    description: "Members that decide now: those with the verdict `before`",
  }),
  further_deciding_before: Type.Integer({ description: "Members that `deciding_before` has no room for" }),
  deciding: Type.Array(DecidingMember, {
    description: "Members that would decide: those with the verdict `after`; none without members, which is unknown",
  }),
  further_deciding: Type.Integer({ description: "Members that `deciding` has no room for" }),
};

export const PreviewStop = named(
  "PolicyPreviewStop",
  Closed({
    reason: OneOf(["environments", "artifacts", "time"]),
    environments_left: Type.Integer({ description: "Environments that are missing or incomplete" }),
    artifacts_left: Type.Integer({ description: "Artifacts that were not evaluated" }),
  }),
);
