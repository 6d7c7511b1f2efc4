import { Type } from "typebox";
import { judgeCustom } from "../../domain/attestation/custom.ts";
import { customLabel } from "../../domain/attestation/kinds.ts";
import { AppError, invalid } from "../../errors.ts";
import { RECORD_BOUNDS } from "../../http/operation.ts";
import { NOT_JSON } from "../../http/body/read-json.ts";
import type { CustomVerdict } from "../../workers/sandbox/attestation-types.ts";
import { definitionOf } from "./custom-attestation-types.ts";
import type { OperationContext } from "../context.ts";
import { readNested } from "../nested-json.ts";
import { MAX_FREE_FORM_BYTES, NAME_LENGTH, requireWithinBytes } from "../../contract/shapes.ts";
import { attestation } from "./report.ts";

/** Data as it is judged and stored, and what the version in force says of it. */
type Judged = { data: unknown; version: number; verdict: Exclude<CustomVerdict, { mismatch: string }> };

/**
 * A text that holds the JSON of an object or array stands for that; any other value for itself (operations.md,
 * Attestation).
 * @throws AppError invalid for JSON in a text that cannot be stored, too_large for JSON of too many values.
 */
async function dataOf(context: OperationContext, value: unknown): Promise<unknown> {
  if (typeof value !== "string" || !/^[ \t\r\n]*[[{]/.test(value)) return value;
  try {
    const data = await readNested(context, value, {
      field: FIELD,
      what: `The JSON in '${FIELD}'`,
      bounds: RECORD_BOUNDS,
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

export const postCustom = attestation({
  segment: "custom",
  input: "CustomAttestationPostInput",
  form: "CustomAttestationForm",
  summary: "Report data of a type that the organization defined",
  description:
    "The latest version of the type judges: the data must fit its schema, and is compliant when every jq rule gives exactly one output, the value true. " +
    "The record keeps the number of the version, what came of each rule, and the summary.",
  payload: {
    type_name: Type.String({
      maxLength: NAME_LENGTH,
      description: "Name of the type, which must exist and not be archived",
    }),
    attestation_data: Type.Unknown({
      "x-max-bytes": MAX_FREE_FORM_BYTES,
      description: "Any JSON value. A text that holds the JSON of an object or array counts as that object or array",
    }),
  },
  label: ({ type_name }) => customLabel(type_name),
  async prepare(context, { type_name, attestation_data }): Promise<Judged> {
    const { store, organization, customTypes, now } = context;
    const type = store.customAttestationTypes.require(organization, type_name);
    if (type.archived_at !== null)
      throw invalid({
        type_name: `Custom attestation type '${type_name}' has been archived for org '${organization.name}'`,
      });
    const data = await dataOf(context, attestation_data);
    const latest = store.customAttestationTypes.latest(type.id);
    const verdict = await customTypes.judge(`type ${type.id}`, definitionOf(latest), data, now());
    if ("mismatch" in verdict) throw invalid({ attestation_data: verdict.mismatch });
    return { data, version: latest.version, verdict };
  },
  judge: (_payload, { verdict }) => judgeCustom(verdict.outcomes),
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
