/**
 * Users' JSON Schemas for custom attestation types (semantics 3.4): draft-07 or 2020-12, with formats asserted. Schemas
 * are compiled and applied in worker threads only, because both may take any time: a schema is a program.
 *
 * Nothing is ever fetched: a reference to anything outside the schema except the published meta-schemas is refused.
 */
import { Ajv } from "ajv";
import type { ErrorObject, Options, ValidateFunction } from "ajv";
import { Ajv2020 } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { truncate, excerpt } from "../../domain/text/excerpt.ts";
import {
  SIGNS,
  addExactKeywords,
  findRepeatedItem,
  parseForCheck,
  withoutKey,
  writtenNumber,
} from "./exact-keywords.ts";
import type { Held } from "./exact-keywords.ts";
import { patternEngine } from "./patterns.ts";

/** The schema of a large report has hundreds of parts; this many compile in about half the time limit of a check. */
const MAX_PARTS = 10_000;
const MAX_LINE_CHARS = 500;

const DIALECTS: Record<string, new (options: Options) => Ajv> = {
  "json-schema.org/draft-07/schema": Ajv,
  "json-schema.org/draft/2020-12/schema": Ajv2020,
};
const DEFAULT_DIALECT = "json-schema.org/draft/2020-12/schema";
const CHOICE =
  "draft-07 (http://json-schema.org/draft-07/schema#) or 2020-12 (https://json-schema.org/draft/2020-12/schema)";

/** A compiled check of JSON text: null, or one line with the problem of the data; or the problem of the schema. */
export type SchemaCheck = { check: (data: string) => string | null } | { problem: string };

/** Compiles a schema, the JSON text of an object. No content of a schema makes it throw. */
export function compileTypeSchema(text: string): SchemaCheck {
  const schema = parseForCheck(text).value as Record<string, unknown>;
  if (countParts(schema) > MAX_PARTS) return { problem: `the schema has more than ${MAX_PARTS} parts` };
  const { $schema: dialect = `https://${DEFAULT_DIALECT}` } = schema;
  const rest = withoutKey(schema, "$schema");
  const named = typeof dialect === "string" ? /^https?:\/\/(.*?)#?$/.exec(dialect)?.[1] : undefined;
  const Engine = named === undefined ? undefined : DIALECTS[named];
  if (Engine === undefined)
    return { problem: line(`$schema: the dialect ${show(dialect)} is not served. Use ${CHOICE}`) };
  try {
    if (hasAsync(schema)) return { problem: "$async is not a keyword of JSON Schema" };
    // ownProperties: every JavaScript object inherits a `toString`, which is not a property of the data.
    const engine = new Engine({
      strict: false,
      ownProperties: true,
      logger: false,
      verbose: true,
      code: { regExp: patternEngine },
    });
    addFormats.default(engine, { mode: "full" });
    addExactKeywords(engine);
    if (engine.validateSchema(rest) !== true) return { problem: line(describe(engine.errors ?? [], "type_schema")) };
    const validate = engine.compile(rest);
    // V8 compiles the code of the check on its first run, which may exhaust the stack; such a check would later refuse
    // all data.
    for (const value of [null, 0, "", [], {}]) fits(validate, { value });
    return { check: (data) => checkData(validate, parseForCheck(data)) };
  } catch (error) {
    if (error instanceof RangeError) return { problem: ENDLESS };
    // ajv throws for unresolved references, duplicate names and regular expressions that do not compile.
    return { problem: line(error instanceof Error ? error.message : String(error)) };
  }
}

const ENDLESS = "the schema is too large, nests too deeply or refers to itself without end";

function checkData(validate: ValidateFunction, data: Held): string | null {
  try {
    return fits(validate, data) ? null : line(describe(validate.errors ?? [], "attestation_data"));
  } catch (error) {
    if (error instanceof RangeError) return `attestation_data: ${ENDLESS}`;
    throw error;
  }
}

/** Only the value true passes: an asynchronous check would return a promise, which is truthy. */
const fits = (validate: ValidateFunction, held: Held): boolean =>
  (validate(held.value, {
    instancePath: "",
    parentData: held,
    parentDataProperty: "value",
    rootData: held.value as object,
    dynamicAnchors: {},
  }) as unknown) === true;

/** Whether ajv's own keyword makes a check asynchronous. In `properties`, it is the name of a property. */
function hasAsync(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  if (Array.isArray(value)) return value.some(hasAsync);
  return Object.entries(value).some(([key, item]) => (key === "$async" && typeof item === "boolean") || hasAsync(item));
}

function countParts(value: unknown): number {
  if (typeof value !== "object" || value === null) return 1;
  let parts = 1;
  for (const item of Object.values(value)) {
    parts += countParts(item);
    if (parts > MAX_PARTS) break;
  }
  return parts;
}

/** The first problem with its path; if alternatives failed, the problem as a whole and one of them as an example. */
function describe(errors: readonly ErrorObject[], root: string): string {
  const whole = errors.at(-1);
  const [first] = errors;
  if (whole === undefined || first === undefined) return `${root}: does not fit`;
  const text = `${formatPath(whole, root)}: ${formatProblem(whole)}`;
  return first === whole ? text : `${text} (${formatPath(first, root)}: ${formatProblem(first)})`;
}

const formatPath = ({ instancePath }: ErrorObject, root: string): string =>
  [
    root,
    ...instancePath
      .split("/")
      .slice(1)
      .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~")),
  ].join(".");

function formatProblem({ keyword, message = "does not fit", params, parentSchema, data }: ErrorObject): string {
  const property = (params["additionalProperty"] ?? params["unevaluatedProperty"] ?? params["propertyName"]) as
    | string
    | undefined;
  if (property !== undefined) return `${message} (${show(property)})`;
  const repeated = keyword === "uniqueItems" ? findRepeatedItem(data as unknown[]) : null;
  if (repeated) return `${message} (items ## ${repeated.index} and ${repeated.earlier} are identical)`;
  const written = writtenNumber(parentSchema, keyword);
  if (keyword === "enum") {
    const allowed = params["allowedValues"] as unknown[];
    const texts = allowed.slice(0, 20).map((value, index) => writtenNumber(allowed, index) ?? show(value));
    return `${message}: ${texts.join(", ")}`;
  }
  if (keyword === "const") return `${message} ${written ?? show(params["allowedValue"])}`;
  if (written !== null && keyword === "multipleOf") return `must be multiple of ${written}`;
  return written !== null && keyword in SIGNS ? `must be ${SIGNS[keyword]} ${written}` : message;
}

const show = (value: unknown): string =>
  typeof value === "string" ? `'${truncate(value, 100)}'` : truncate(JSON.stringify(value), 100);
const line = (text: string): string => excerpt(text, MAX_LINE_CHARS);
