/** Attestations of types that the server defines: today decisions on controls alone (semantics 7.2). */
import { Type } from "typebox";
import type { Static } from "typebox";
import { judgeDecision } from "../../domain/attestation/decision.ts";
import { storedLabel } from "../../domain/attestation/kinds.ts";
import { AppError, invalid } from "../../errors.ts";
import { NO_BODY, RECORD_BOUNDS } from "../../http/operation.ts";
import { Closed, OneOf, PublishedAs, named } from "../../http/schema.ts";
import { validate } from "../../http/validate.ts";
import { operation } from "../context.ts";
import type { OperationContext } from "../context.ts";
import { readNested } from "../nested-json.ts";
import { MAX_FREE_FORM_BYTES, NAME_LENGTH, requireWithinBytes } from "../../contract/shapes.ts";
import { COMMON, attestation } from "./report.ts";

const DECISION = "decision";

/** What `attestation_data` of a decision holds; further keys are the reporter's own and are kept. */
const DecisionData = Type.Object(
  { is_compliant: Type.Boolean({ description: "Whether the control is satisfied" }) },
  { additionalProperties: true },
);

/** The types with the shape of their data, oldest version first. */
const TYPES = [{ name: DECISION, versions: [{ version: 1, schema: DecisionData }] }];

const PAYLOAD = {
  type_name: OneOf([DECISION]),
  control: Type.String({
    minLength: 1,
    maxLength: NAME_LENGTH,
    description: "Identifier of the control, which need not exist",
  }),
  attestation_data: PublishedAs(
    Type.Union([DecisionData, Type.String({ description: "The same as JSON text" })], {
      "x-max-bytes": MAX_FREE_FORM_BYTES,
      description: "The data of the type",
    }),
    Type.Unsafe<Record<string, unknown> | unknown[] | string>({
      anyOf: [{ type: "object" }, { type: "array", items: {} }, { type: "string" }],
      "x-max-bytes": MAX_FREE_FORM_BYTES,
    }),
  ),
};

/**
 * The data of a decision, whichever way it came.
 * @throws AppError 400 with the place below `attestation_data` (operations, System).
 */
async function decisionData(context: OperationContext, given: unknown): Promise<Static<typeof DecisionData>> {
  try {
    const nested = { field: "", what: "The JSON in 'attestation_data'", bounds: RECORD_BOUNDS, asText: false };
    const data = typeof given === "string" ? await readNested(context, given, nested) : given;
    const problems = validate(DecisionData, data, { mode: "plain", root: "" });
    if (problems) throw invalid(problems);
    requireWithinBytes("attestation_data", data, MAX_FREE_FORM_BYTES);
    return data as Static<typeof DecisionData>;
  } catch (error) {
    if (!(error instanceof AppError) || !error.fields) throw error;
    // A problem of the data as a whole has no place.
    const below = (place: string): string => ["attestation_data", place].filter(Boolean).join(".");
    throw invalid(Object.fromEntries(Object.entries(error.fields).map(([place, text]) => [below(place), text])));
  }
}

export const postSystem = attestation({
  segment: "system",
  input: "SystemAttestationPostInput",
  form: "SystemAttestationForm",
  summary: "Report a decision on a control",
  description:
    "Says whether a control is satisfied, for a trail or an artifact. It counts in its trail like any other attestation, and for policies with a rule for the control. " +
    "The version that the control has now is kept with it; a control that does not exist is accepted, and has none. Fields of one's own are kept.",
  payload: PAYLOAD,
  open: true,
  // The data is looked into, so that it comes as a value.
  bounds: { ...RECORD_BOUNDS, asText: ["user_data"] },
  prepare: (context, { attestation_data: data }) => decisionData(context, data),
  judge: ({ type_name, control }, data) => judgeDecision({ type_name, control, attestation_data: data }),
  label: ({ type_name }) => storedLabel(type_name),
  columns: ({ store, organization }, { control }) => ({
    control,
    control_version: store.controls.find(organization.id, control)?.version ?? null,
  }),
  facts({ attestation_data: _given, control: _column, ...rest }, data) {
    const own = Object.entries(rest).filter(([name]) => !Object.hasOwn(COMMON, name));
    return { ...Object.fromEntries(own), attestation_data: data };
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

export const listSystemAttestationTypes = operation({
  id: "list_system_attestation_types",
  method: "GET",
  path: "/attestations/system-attestation-types",
  tag: "Attestation",
  summary: "List the attestation types that the server defines",
  description: "Each with the shape of its data in each version.",
  permission: "authenticated",
  audit: null,
  params: Closed({}),
  query: Closed({}),
  body: NO_BODY,
  responses: { 200: { description: "The types", schema: Type.Array(SystemAttestationType) } },
  example: {},
  handle: () => ({ status: 200, body: TYPES }),
});
