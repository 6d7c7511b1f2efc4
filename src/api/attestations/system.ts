/** Attestations of types that the server defines: currently only decisions on controls (semantics 7.2). */
import { Type } from "typebox";
import type { Static } from "typebox";
import { evaluateDecision } from "../../domain/attestation/decision.ts";
import { storedLabelOf } from "../../domain/attestation/kinds.ts";
import { AppError, invalid } from "../../errors.ts";
import type { Kept } from "../../http/body/read-json.ts";
import { NO_BODY, RECORD_BOUNDS } from "../../http/operation.ts";
import { Closed, ExactlyOne, OneOf, PublishedAs, named } from "../../http/schema.ts";
import { validate } from "../../http/validate.ts";
import { largeRead } from "../context.ts";
import type { OperationContext } from "../context.ts";
import { readNestedJson } from "../nested-json.ts";
import { MAX_FREE_FORM_BYTES, requireWithinBytes } from "../../contract/shapes.ts";
import { MAX_NAME_CHARS } from "../../domain/names.ts";
import { COMMON_FIELDS } from "./kind.ts";
import { attestationOperation } from "./report.ts";

const DECISION = "decision";

/** The `attestation_data` of a decision; further keys are custom and are stored. */
const DecisionData = Type.Object(
  { is_compliant: Type.Boolean({ description: "Whether the control is satisfied" }) },
  { additionalProperties: true },
);

/** The types, each with the shape of its data in every version, oldest first. */
const TYPES = [{ name: DECISION, versions: [{ version: 1, schema: DecisionData }] }];

const PAYLOAD = {
  type_name: OneOf([DECISION]),
  control: Type.String({
    minLength: 1,
    maxLength: MAX_NAME_CHARS,
    description: "Identifier of the control, which does not have to exist",
  }),
  attestation_data: PublishedAs(
    ExactlyOne([DecisionData, Type.String({ description: "The same as JSON text" })], {
      "x-max-bytes": MAX_FREE_FORM_BYTES,
      description: "The data of the type",
    }),
    Type.Unsafe<Record<string, unknown> | unknown[] | string>({
      anyOf: [{ type: "object" }, { type: "array", items: {} }, { type: "string" }],
      "x-max-bytes": MAX_FREE_FORM_BYTES,
    }),
  ),
};

/** The data of a decision; `fromText`: as it was sent, if that was in a text. */
type ReadDecision = { data: Static<typeof DecisionData>; fromText: { asSent: unknown } | null };

/**
 * Parses the data of a decision, sent as a value or as text.
 * @throws AppError 400 with the path below `attestation_data` (operations 6)
 */
async function parseDecisionData(context: OperationContext, given: unknown): Promise<ReadDecision> {
  try {
    const nested = { field: "", what: "The JSON in 'attestation_data'", bounds: RECORD_BOUNDS, asText: false };
    const read = typeof given === "string" ? await readNestedJson(context, given, nested) : null;
    const data = read === null ? given : read.value;
    const problems = validate(DecisionData, data, { mode: "plain", root: "" });
    if (problems) throw invalid(problems);
    requireWithinBytes("attestation_data", data, MAX_FREE_FORM_BYTES);
    return { data: data as Static<typeof DecisionData>, fromText: read };
  } catch (error) {
    if (!(error instanceof AppError) || !error.fields) throw error;
    // A problem of the data as a whole has an empty path.
    const below = (path: string): string => ["attestation_data", path].filter(Boolean).join(".");
    throw invalid(Object.fromEntries(Object.entries(error.fields).map(([path, text]) => [below(path), text])));
  }
}

const DECISION_KEEPS: Kept = {
  exact: ["user_data", "annotations", "external_urls", "repo_info"],
  counted: ["attestation_data"],
  others: true,
};

export const postSystem = attestationOperation({
  segment: "system",
  input: "SystemAttestationPostInput",
  form: "SystemAttestationForm",
  summary: "Report a decision on a control",
  description:
    "States whether a control is satisfied, for a trail or an artifact. The decision counts in its trail like any " +
    "other attestation, and in policies with a rule for the control. The record keeps the current version of the " +
    "control; an unknown control is accepted and has none. Custom fields are stored.",
  payload: PAYLOAD,
  isOpen: true,
  // The data is needed as a value, because its members are evaluated.
  bounds: { ...RECORD_BOUNDS, asText: ["user_data"], keeps: DECISION_KEEPS },
  prepare: (context, { attestation_data: data }) => parseDecisionData(context, data),
  evaluate: ({ type_name, control }, { data }) => evaluateDecision({ type_name, control, attestation_data: data }),
  label: ({ type_name }) => storedLabelOf(type_name),
  columns: ({ store, organization }, { control }) => ({
    control,
    control_version: store.controls.find(organization.id, control)?.version ?? null,
  }),
  facts({ attestation_data: given, control: _column, ...rest }, { fromText }) {
    const own = Object.entries(rest).filter(([name]) => !Object.hasOwn(COMMON_FIELDS, name));
    return { ...Object.fromEntries(own), attestation_data: fromText === null ? given : fromText.asSent };
  },
  example: {
    attestation_name: "review-board",
    type_name: DECISION,
    control: "SDLC-7",
    attestation_data: { is_compliant: true },
  },
});

const SystemAttestationType = named(
  "SystemAttestationType",
  Closed({
    name: Type.String(),
    versions: Type.Array(
      named(
        "SystemAttestationTypeVersion",
        Closed({
          version: Type.Integer(),
          schema: Type.Record(Type.String(), Type.Unknown(), { description: "JSON Schema of `attestation_data`" }),
        }),
      ),
    ),
  }),
);

export const listSystemAttestationTypes = largeRead({
  id: "list_system_attestation_types",
  method: "GET",
  path: "/attestations/system-attestation-types",
  tag: "Attestation",
  summary: "List the attestation types that the server defines",
  description: "Each type with the shape of its data in every version.",
  permission: "authenticated",
  audit: null,
  params: Closed({}),
  query: Closed({}),
  body: NO_BODY,
  responses: { 200: { description: "The types", schema: Type.Array(SystemAttestationType) } },
  example: {},
  handle: () => ({ status: 200, body: TYPES }),
});
