/** Reports of custom attestation types, evaluated by the latest version of the type (semantics 3.4). */
import { Type } from "typebox";
import { evaluateCustom } from "../../domain/attestation/custom.ts";
import { customLabelOf } from "../../domain/attestation/kinds.ts";
import { AppError, invalid } from "../../errors.ts";
import { DATA_BOUNDS } from "../../http/operation.ts";
import { NOT_JSON } from "../../http/body/read-json.ts";
import type { TypeEvaluation } from "../../workers/sandbox/attestation-types.ts";
import { readDefinition } from "./custom-attestation-types.ts";
import type { ReadingContext } from "../context.ts";
import { readNestedJson } from "../nested-json.ts";
import { MAX_FREE_FORM_BYTES, requireWithinBytes } from "../../contract/shapes.ts";
import { MAX_NAME_CHARS } from "../../domain/names.ts";
import { attestationOperation } from "./report.ts";

/** Data as it is evaluated and stored, with the result of the latest version of the type. */
type EvaluatedData = { data: unknown; version: number; verdict: Exclude<TypeEvaluation, { mismatch: string }> };

/**
 * Parses a text that holds the JSON of an object or array; returns any other value unchanged (operations 6).
 * @throws AppError invalid for JSON that cannot be stored, too_large for JSON with too many values
 */
async function parseData(context: ReadingContext, value: unknown): Promise<unknown> {
  if (typeof value !== "string" || !/^[ \t\r\n]*[[{]/.test(value)) return value;
  try {
    const { asSent: data } = await readNestedJson(context, value, {
      field: FIELD,
      what: `The JSON in '${FIELD}'`,
      bounds: DATA_BOUNDS,
      asText: true,
    });
    requireWithinBytes(FIELD, data, MAX_FREE_FORM_BYTES);
    return data;
  } catch (error) {
    const [problem] = error instanceof AppError && error.fields ? Object.entries(error.fields) : [];
    if (!problem) throw error;
    const [place, text] = problem;
    if (text.startsWith(NOT_JSON)) return value;
    throw invalid({ [FIELD]: `${FIELD}.${place}: ${text}` });
  }
}

const FIELD = "attestation_data";

export const postCustom = attestationOperation({
  segment: "custom",
  input: "CustomAttestationPostInput",
  form: "CustomAttestationForm",
  summary: "Report data of a custom attestation type",
  description:
    "The latest version of the type evaluates the data: it must match the schema, and is compliant if every jq rule " +
    "produces exactly one output, the value true. The record keeps the version, the result of each rule and the " +
    "summary.",
  payload: {
    type_name: Type.String({
      maxLength: MAX_NAME_CHARS,
      description: "Name of the type, which must exist and must not be archived",
    }),
    attestation_data: Type.Unknown({
      "x-max-bytes": MAX_FREE_FORM_BYTES,
      description: "Any JSON value; a text that contains the JSON of an object or array counts as that value",
    }),
  },
  bounds: DATA_BOUNDS,
  label: ({ type_name }) => customLabelOf(type_name),
  async prepare(context, { type_name, attestation_data }): Promise<EvaluatedData> {
    const { store, organization, customTypes, now } = context;
    const type = store.customAttestationTypes.require(organization, type_name);
    if (type.archived_at !== null)
      throw invalid({
        type_name: `Custom attestation type '${type_name}' has been archived for org '${organization.name}'`,
      });
    const data = await parseData(context, attestation_data);
    const latest = store.customAttestationTypes.getLatestVersion(type.id);
    const verdict = await customTypes.evaluate(`type ${type.id}`, readDefinition(latest), { data, now: now() });
    if ("mismatch" in verdict) throw invalid({ attestation_data: verdict.mismatch });
    return { data, version: latest.version, verdict };
  },
  evaluate: (_payload, { verdict }) => evaluateCustom(verdict.outcomes),
  facts: ({ type_name }, { data, version, verdict }) => ({
    type_name,
    type_version: version,
    attestation_data: data,
    rules: verdict.outcomes.map(({ rule, reason }) => ({ rule, is_compliant: reason === null, reason })),
    summary: verdict.summary,
  }),
  columns: (_context, _payload, { version }) => ({ type_version: version }),
  example: { type_name: "coverage", attestation_data: { percent: 91.5 } },
});
