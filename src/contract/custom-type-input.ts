/** The definition of a custom attestation type as it is uploaded (semantics 3.4), also for files that are not sent. */
import { Type } from "typebox";
import type { Static } from "typebox";
import { CUSTOM_TYPE_NAME, MAX_NAME_CHARS } from "../domain/names.ts";
import { invalid } from "../errors.ts";
import { CONFIGURATION_BOUNDS, RECORD_BOUNDS, readJson } from "../http/body/read-json.ts";
import type { JsonShape } from "../http/body/read-json.ts";
import { Closed, Maybe, Nullable, named } from "../http/schema.ts";
import { stringifyJson } from "../json/text.ts";
import { Name, Text } from "./shapes.ts";

/** The rules of a type have to run within two seconds in total, and a summary has to fit on a page. */
const MAX_EXPRESSIONS = 100;
const Expression = Type.String({ minLength: 1, maxLength: 10_000, description: "A jq expression" });

const JQEvaluator = named(
  "JQEvaluator",
  Closed({
    content_type: Type.Optional(Type.Literal("jq", { default: "jq" })),
    rules: Type.Array(Expression, {
      maxItems: MAX_EXPRESSIONS,
      description: "Data is compliant if every rule produces exactly one output, the value true",
    }),
  }),
);
export const DefaultEvaluator = named(
  "DefaultEvaluator",
  Closed({ content_type: Type.Optional(Type.Literal("default", { default: "default" })) }),
);
const SummaryEntry = named(
  "SummaryEntry",
  Closed({
    name: Type.String({ minLength: 1, maxLength: MAX_NAME_CHARS, description: "Label of the row" }),
    expression: Expression,
  }),
);
export const Summary = Nullable(Type.Array(SummaryEntry, { maxItems: MAX_EXPRESSIONS }));

export const Evaluator = Type.Union([JQEvaluator, DefaultEvaluator], {
  description: "How data is evaluated; by default, data that matches the schema is compliant",
});
type Evaluator = Static<typeof Evaluator>;
/** The rules of an evaluator; none for the default one. */
export const evaluatorRules = (evaluator: Evaluator | null | undefined): string[] =>
  evaluator && "rules" in evaluator ? evaluator.rules : [];

/** The JSON of an upload. */
export const CustomAttestationTypePostInput = named(
  "CustomAttestationTypePostInput",
  Closed({
    name: Name(CUSTOM_TYPE_NAME, {
      description: "Name of the type; an existing type gets a new version and is active again",
    }),
    description: Maybe(Text),
    evaluator: Maybe(Evaluator),
    summary: Type.Optional(Summary),
  }),
);

/** A definition that a file holds. */
type TypeFile = { name: string; rules: readonly string[]; summary: Static<typeof Summary> };

/** The name of the file as a whole in errors by field. */
const FILE = "file";
const shapeOf = (bounds: typeof CONFIGURATION_BOUNDS, more: Pick<JsonShape, "schema" | "keeps">): JsonShape => ({
  root: FILE,
  what: "The file",
  bounds,
  acceptsNull: false,
  ...more,
});

/** Reads the JSON of an upload from a file. @throws AppError invalid by field, too_large for too many values */
export function readTypeFile(bytes: Buffer): TypeFile {
  const { keeps } = CONFIGURATION_BOUNDS;
  const shape = shapeOf(CONFIGURATION_BOUNDS, { schema: CustomAttestationTypePostInput, keeps });
  const {
    name,
    evaluator,
    summary = null,
  } = readJson(bytes, shape).value as Static<typeof CustomAttestationTypePostInput>;
  return { name, rules: evaluatorRules(evaluator), summary };
}

/** Reads JSON from a file, such as a schema or the data of a report, as it was written. @throws AppError as above */
export const readJsonFile = (bytes: Buffer): unknown =>
  readJson(bytes, shapeOf(RECORD_BOUNDS, { schema: null, keeps: "whole" })).asSent;

/** The JSON text of a schema. @throws AppError invalid unless it is a JSON object */
export function requireSchemaText(schema: unknown, field = FILE): string {
  const text = stringifyJson(schema);
  if (!text.startsWith("{")) throw invalid({ [field]: "Input should be a JSON object" });
  return text;
}
