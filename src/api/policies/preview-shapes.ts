/** The shapes of previews: what a change would turn, in each environment. */
import { Type } from "typebox";
import { causeWords } from "../../contract/causes.ts";
import { causeFields } from "../../contract/explanation-shapes.ts";
import { Closed, Nullable, OneOf, named } from "../../http/schema.ts";

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

export const PreviewStop = named(
  "PolicyPreviewStop",
  Closed({
    reason: OneOf(["environments", "artifacts", "time"]),
    environments_left: Type.Integer({ description: "Environments that are missing or incomplete" }),
    artifacts_left: Type.Integer({ description: "Artifacts that were not evaluated" }),
  }),
);
