/** The shapes of a policy evaluation: every rule of a policy with its verdict on one artifact. */
import { Type } from "typebox";
import { Closed, ExactlyOne, named, Nullable, OneOf } from "../http/schema.ts";

export const PolicyExpression = named("PolicyExpression", Closed({ text: Type.String() }));

const ConditionalRule = named("ConditionalRule", Closed({ if: Nullable(PolicyExpression) }));

const BooleanRule = named("BooleanRule", Closed({ required: Type.Boolean(), exceptions: Type.Array(ConditionalRule) }));

const RequiredAttestationRule = named(
  "RequiredAttestationRule",
  Closed({
    if: Nullable(PolicyExpression),
    name: Type.String(),
    type: Type.String(),
    must_be_compliant: Type.Boolean(),
    for_control: Nullable(Type.String()),
  }),
);

export const PolicyRuleDefinition = named(
  "PolicyRuleDefinition",
  Closed({
    type: OneOf(["provenance", "trail-compliance", "attestation"]),
    definition: ExactlyOne([RequiredAttestationRule, BooleanRule]),
  }),
);

const ResolutionContext = named(
  "ResolutionContext",
  Closed({
    flow_name: Nullable(Type.String()),
    trail_name: Nullable(Type.String()),
    artifact_status: Nullable(Type.String()),
    for_control: Type.Optional(Nullable(Type.String())),
    evaluation_error: Type.Optional(
      Type.String({ description: "Error of an expression of the rule that could not be evaluated" }),
    ),
  }),
);

const RuleResolution = named(
  "RuleResolution",
  Closed({
    type: OneOf([
      "missing_attestation",
      "non_compliant_attestation",
      "non_compliant_in_trail",
      "no_provenance",
      "missing_provenance",
      "legacy_flow",
      "rule_satisfied",
      "rule_not_applicable",
    ]),
    context: Nullable(ResolutionContext),
  }),
);

export const RuleEvaluation = named(
  "RuleEvaluation",
  Closed({
    rule: PolicyRuleDefinition,
    satisfied: Nullable(Type.Boolean({ description: "null when the rule applies to no flow of the artifact" })),
    ignored: Type.Boolean(),
    resolutions: Type.Array(RuleResolution),
  }),
);

export const PolicyEvaluation = named(
  "PolicyEvaluation",
  Closed({
    policy_name: Type.String(),
    policy_version: Type.Integer({ description: "The evaluated version; 0 for a policy without versions" }),
    status: OneOf(["COMPLIANT", "NON-COMPLIANT"]),
    rule_evaluations: Type.Array(RuleEvaluation),
  }),
);
