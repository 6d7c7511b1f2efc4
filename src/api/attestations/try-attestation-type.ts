/**
 * Trying the definition of a custom attestation type before it is stored: whether everything compiles, and what it says
 * about data. It runs as the evaluation of a report does, in the same sandbox and with the same limits.
 */
import { Type } from "typebox";
import { evaluateCustom } from "../../domain/attestation/custom.ts";
import { Evaluator, Summary, evaluatorRules } from "../../contract/custom-type-input.ts";
import { invalid } from "../../errors.ts";
import { RECORD_BOUNDS, json } from "../../http/operation.ts";
import { Closed, Maybe, Nullable, named } from "../../http/schema.ts";
import type { TypeEvaluation } from "../../workers/sandbox/attestation-types.ts";
import { operation } from "../context.ts";
import type { ReadingContext } from "../context.ts";
import { readNestedJson } from "../nested-json.ts";
import { OrgPath, NoQuery } from "../paths.ts";
import { readSchema } from "./custom-attestation-types.ts";

/** Pasted text, not a report: a tenth of what a report may have. */
const MAX_TRIED_CHARS = 500_000;

const TryInput = named(
  "CustomAttestationTypeTryInput",
  Closed({
    type_schema: Maybe(
      Type.String({ maxLength: MAX_TRIED_CHARS, description: "The JSON Schema of the data, as text" }),
    ),
    evaluator: Maybe(Evaluator),
    summary: Type.Optional(Summary),
    attestation_data: Maybe(
      Type.String({
        maxLength: MAX_TRIED_CHARS,
        description: "The JSON to evaluate, as text; without it, the definition is only checked",
      }),
    ),
  }),
);

const TriedRule = Closed({
  rule: Type.String(),
  is_compliant: Type.Boolean(),
  reason: Nullable(Type.String({ description: "What follows 'The rule' in a sentence; null for a satisfied rule" })),
});
const TriedRow = Closed({ name: Type.String(), value: Type.Unknown(), error: Nullable(Type.String()) });

const TryResponse = named(
  "CustomAttestationTypeTry",
  Closed({
    is_compliant: Nullable(
      Type.Boolean({ description: "The verdict on the data; null without data, and for data that would be refused" }),
    ),
    mismatch: Nullable(
      Type.String({ description: "Why the data does not match the schema, so that a report would be refused" }),
    ),
    rules: Type.Array(named("TriedRule", TriedRule), { description: "Empty for data that would be refused" }),
    summary: Nullable(
      Closed({
        groups: Type.Array(Type.Array(named("TriedSummaryRow", TriedRow)), {
          description: "One group for each element of an array, one for any other data",
        }),
        left_out: Type.Integer({ description: "Elements without a group" }),
      }),
    ),
  }),
);

/** The pasted JSON. @throws AppError invalid on `attestation_data`, with the place of the mistake */
async function readData(context: ReadingContext, text: string): Promise<unknown> {
  const field = "attestation_data";
  const what = `The JSON in '${field}'`;
  return (await readNestedJson(context, text, { field, what, bounds: RECORD_BOUNDS, asText: true })).asSent;
}

const isBlank = (text: string | null | undefined): text is null | undefined | "" => (text ?? "").trim() === "";

export const tryCustomAttestationType = operation({
  id: "try_custom_attestation_type",
  method: "POST",
  path: "/custom-attestation-types/{org}/try",
  tag: "Custom Attestation Types",
  summary: "Try a custom attestation type on data without storing it",
  description:
    "Checks a definition as its upload would, and evaluates data by it as it would a report: whether the data " +
    "matches the schema, what each rule says, and the summary. Nothing is stored. The rules may run for two seconds " +
    "in total, the summary for one.",
  permission: "custom_type:write",
  audit: null,
  origin: "assay",
  onlyReads: true,
  params: OrgPath,
  query: NoQuery,
  body: json(TryInput),
  responses: { 200: { description: "What the definition says about the data", schema: TryResponse } },
  example: {
    params: { org: "acme" },
    body: {
      type_schema: '{"type":"object","required":["percent"],"properties":{"percent":{"type":"number"}}}',
      evaluator: { content_type: "jq", rules: [".percent >= 80"] },
      summary: [{ name: "Coverage", expression: '"\\(.percent) %"' }],
      attestation_data: '{"percent": 91.5}',
    },
  },
  async prepare(context, { body }): Promise<TypeEvaluation | null> {
    const { customTypes, organization, now } = context;
    const { type_schema: text, attestation_data: tried, evaluator, summary = null } = body;
    const schema = isBlank(text)
      ? null
      : await readSchema(context, { bytes: Buffer.from(text) }, "The JSON in 'type_schema'");
    const pasted = isBlank(tried) ? null : { data: await readData(context, tried) };
    const definition = { schema, rules: evaluatorRules(evaluator), summary };
    // A lane of its own: a definition that never ends delays no report.
    const lane = `tries of ${organization.id}`;
    const problems = await customTypes.check(lane, definition);
    if (Object.keys(problems).length > 0) throw invalid(problems);
    return pasted && (await customTypes.evaluate(lane, definition, { ...pasted, now: now() }));
  },
  handle(_context, _input, evaluation: TypeEvaluation | null) {
    if (evaluation === null || "mismatch" in evaluation)
      return {
        status: 200,
        body: { is_compliant: null, mismatch: evaluation?.mismatch ?? null, rules: [], summary: null },
      };
    const { outcomes, summary } = evaluation;
    const rules = outcomes.map(({ rule, reason }) => ({ rule, is_compliant: reason === null, reason }));
    return {
      status: 200,
      body: { is_compliant: evaluateCustom(outcomes).isCompliant, mismatch: null, rules, summary },
    };
  },
});
