/**
 * The published JSON Schema of a policy file, and the limits it shares with the server's checks. It describes the
 * parsed YAML. Only `parsePolicy` checks what JSON Schema cannot express (the expression language, RE2, duplicate
 * keys), so the server may refuse a file that this schema accepts, but never the reverse.
 */
import { DECISION_LABEL, SYSTEM_LABELS } from "../attestation/kinds.ts";
import { MAX_NAME_CHARS } from "../names.ts";

/** Types that a rule may name, in addition to `custom:<name>` (semantics 5.1). */
export const ATTESTATION_TYPES = [
  "generic",
  "junit",
  "snyk",
  "pull_request",
  "jira",
  "sonar",
  "decision",
  "sbom",
  "*",
] as const;

/** `custom:` and the name of a custom attestation type (semantics 3.4). */
export const CUSTOM_TYPE_PATTERN = "^custom:[a-zA-Z0-9][a-zA-Z0-9\\-_.~]*$";

/** A URL or path whose path part ends in /v1; host and the rest of the path are arbitrary (semantics 5.1). */
export const SCHEMA_PATTERN = "^(?![A-Za-z][A-Za-z0-9+.\\-]*:\\/\\/[^\\/?#]*(?:[?#]|$))[^?#]*\\/v1(?:[?#]|$)";

/** The `_schema` of examples. Only the end of its path counts; the server does not read it. */
export const SCHEMA_URL = "https://assay.example.com/schemas/policy/environment/v1";

/** Longest type that a rule may name, in UTF-16 code units. */
export const MAX_TYPE_CHARS = "custom:".length + MAX_NAME_CHARS;

/**
 * Attestation rules in a policy. Each artifact of each snapshot stores one evaluation per rule, so thousands of rules
 * would make every snapshot hundreds of megabytes large.
 */
export const MAX_RULES = 250;

/** Exceptions in a rule. Evaluations do not list them, so there may be one per flow. */
export const MAX_EXCEPTIONS = 1_000;

const condition = {
  description: "An expression such as ${{ flow.tags.team == 'payments' }}, or null",
  anyOf: [{ type: "string", minLength: 1 }, { type: "null" }],
};

const booleanRule = {
  type: "object",
  properties: {
    required: { type: "boolean", default: false },
    exceptions: {
      description: "The rule does not apply where the condition of one of these is true",
      type: "array",
      maxItems: MAX_EXCEPTIONS,
      default: [],
      items: { type: "object", properties: { if: { $ref: "#/$defs/condition" } }, additionalProperties: false },
    },
  },
  additionalProperties: false,
};

/** JSON Schema (2020-12) of policy files, served at `/schemas/environment-policy/v1` (wire-contract 14). */
export const POLICY_SCHEMA = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  title: "Environment policy, version 1",
  type: "object",
  required: ["_schema"],
  properties: {
    _schema: { description: "A URL whose path ends in /v1", type: "string", pattern: SCHEMA_PATTERN },
    artifacts: {
      type: "object",
      properties: {
        provenance: { description: "Artifacts must have been reported to a flow", $ref: "#/$defs/booleanRule" },
        "trail-compliance": { description: "Artifacts must be compliant in their trail", $ref: "#/$defs/booleanRule" },
        attestations: { type: "array", maxItems: MAX_RULES, default: [], items: { $ref: "#/$defs/attestationRule" } },
      },
      additionalProperties: false,
    },
  },
  additionalProperties: false,
  $defs: {
    condition,
    booleanRule,
    attestationRule: {
      description: "An attestation of this type and name must exist and, unless stated otherwise, be compliant",
      type: "object",
      required: ["type"],
      properties: {
        if: { $ref: "#/$defs/condition", default: null },
        name: { type: "string", minLength: 1, maxLength: MAX_NAME_CHARS, default: "*" },
        type: {
          anyOf: [{ enum: [...ATTESTATION_TYPES, ...SYSTEM_LABELS] }, { type: "string", pattern: CUSTOM_TYPE_PATTERN }],
        },
        must_be_compliant: { type: "boolean", default: true },
        for_control: { anyOf: [{ type: "string", minLength: 1 }, { type: "null" }], default: null },
      },
      additionalProperties: false,
      allOf: [
        {
          description: "Type and name cannot both be '*'",
          not: { required: ["type"], properties: { type: { const: "*" }, name: { const: "*" } } },
        },
        {
          description: "for_control goes with decisions only",
          if: { required: ["for_control"], properties: { for_control: { type: "string" } } },
          then: { properties: { type: { enum: ["decision", DECISION_LABEL] } } },
        },
      ],
    },
  },
} as const;
