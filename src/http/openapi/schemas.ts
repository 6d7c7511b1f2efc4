/**
 * Schemas as the OpenAPI document shows them: the kit's own keywords are dropped or converted to standard ones, texts
 * of requests are restricted to what storage accepts, and everything is written in a form that client generators know.
 */
import type { TSchema } from "typebox";
import { DISCRIMINATOR, EXCLUSIVE } from "../schema.ts";

type Json = Record<string, unknown>;

/** Request schemas are restricted to what storage accepts; response schemas are not. */
type Usage = "request" | "response";

export type SchemaWriter = ReturnType<typeof createSchemaWriter>;

/** Text without U+0000, which storage never accepts, in a syntax that the regular expressions of all languages know. */
const NO_NUL = String.raw`^[^\x00]*$`;
/** Keywords of the kit, which are not JSON Schema. */
const OWN_KEYWORDS: readonly string[] = [
  "x-component",
  "x-repeated",
  "x-reserved",
  "x-deprecation",
  "x-published",
  "x-unpublished",
  EXCLUSIVE,
  DISCRIMINATOR,
];
/** The patterns that TypeBox writes for records with any text as key. */
const ANY_KEY: readonly string[] = ["^.*$", "^(.*)$"];

/** Writes schemas for the document: named shapes by reference, collected in `components`. */
export function createSchemaWriter() {
  const components: Record<string, Json> = {};

  function write(value: unknown, usage: Usage): unknown {
    if (Array.isArray(value)) return value.map((item) => write(item, usage));
    if (typeof value !== "object" || value === null) return value;
    const { "x-published-as": published, "x-component": component } = value as {
      "x-published-as"?: TSchema;
      "x-component"?: string;
    };
    if (published !== undefined) return write(published, usage);
    if (component === undefined) return writePlain(value as Json, usage);
    if (!(component in components)) {
      // Registered before it is written, for shapes that contain themselves.
      components[component] = {};
      components[component] = writePlain(value as Json, usage);
    }
    const { deprecated, description } = value as Json;
    const isDeprecatedHere = (value as Json)["x-deprecation"] !== undefined;
    return { $ref: `#/components/schemas/${component}`, ...(isDeprecatedHere ? { deprecated, description } : {}) };
  }

  function writePlain(schema: Json, usage: Usage): Json {
    const { "x-published": published = {}, ...declared } = schema;
    const keywords = Object.entries({ ...declared, ...(published as Json) }).filter(
      ([key]) => !OWN_KEYWORDS.includes(key),
    );
    const written = Object.fromEntries(keywords.map(([key, item]) => [key, writeKeyword(key, item, usage)])) as Json;
    if (usage === "request") excludeNul(written);
    sizeNumber(written);
    const simple = { ...simplify(written), ...describeUnion(schema) };
    if (schema[EXCLUSIVE] === true) {
      simple["oneOf"] = simple["anyOf"];
      delete simple["anyOf"];
    }
    if (usage === "request") closeForGenerators(simple);
    const { "x-deprecation": deprecation } = schema;
    return deprecation
      ? { ...simple, description: describeShape({ ...simple, "x-deprecation": deprecation } as unknown as TSchema) }
      : simple;
  }

  function writeKeyword(key: string, value: unknown, usage: Usage): unknown {
    if (VALUES.includes(key)) return value;
    if (!MAPS.includes(key)) return write(value, usage);
    return Object.fromEntries(Object.entries(value as Json).map(([name, item]) => [name, write(item, usage)]));
  }

  return {
    components,
    ofRequest: (schema: TSchema): Json => write(schema, "request") as Json,
    ofResponse: (schema: TSchema): Json => write(schema, "response") as Json,
  };
}

/** Keywords whose content is a value and not a schema. */
const VALUES: readonly string[] = ["default", "const", "enum", "examples", "example", "required"];
/** Keywords whose content is schemas by name. */
const MAPS: readonly string[] = ["properties", "patternProperties"];

/** The `discriminator` of a union: the shapes by the values of the property that tells them apart. */
function describeUnion(schema: Json): Json {
  const propertyName = schema[DISCRIMINATOR];
  if (typeof propertyName !== "string") return {};
  const mapping = (schema["anyOf"] as Json[]).flatMap(({ "x-component": component, properties }) => {
    const words = (properties as Record<string, Json> | undefined)?.[propertyName]?.["enum"];
    return Array.isArray(words) ? words.map((word) => [word, `#/components/schemas/${component}`] as const) : [];
  });
  return { discriminator: { propertyName, mapping: Object.fromEntries(mapping) } };
}

/** Adds NO_NUL to a text that nothing else restricts. */
function excludeNul(schema: Json): void {
  if (
    schema["type"] === "string" &&
    !["pattern", "enum", "const"].some((key) => key in schema) &&
    schema["format"] !== "binary"
  )
    schema["pattern"] = NO_NUL;
}

/**
 * Adds the size that a number needs. Generated Go code would otherwise have 32 bits for it: too few for a time in epoch
 * seconds.
 */
function sizeNumber(schema: Json): void {
  const { type, maximum = Infinity } = schema as { type?: unknown; maximum?: number };
  if ("const" in schema) return;
  if (type === "number") schema["format"] ??= "double";
  if (type === "integer" && maximum > MAX_INT32) schema["format"] ??= "int64";
}
const MAX_INT32 = 2 ** 31 - 1;

/**
 * Closes an object with `unevaluatedProperties`, which means the same here. openapi-generator reads the other keyword,
 * `additionalProperties: false`, as true: its TypeScript would send each property under two names.
 */
function closeForGenerators(schema: Json): void {
  if (schema["additionalProperties"] !== false) return;
  delete schema["additionalProperties"];
  schema["unevaluatedProperties"] = false;
}

/** Keywords that mean the same for a value and for the value or null. */
const HOISTED = ["description", "x-max-bytes"] as const;

/** An equivalent schema in a form that client generators know. */
function simplify(schema: Json): Json {
  const { anyOf, patternProperties, ...rest } = schema;
  if (Array.isArray(anyOf)) {
    // Description and byte bound of a nullable value move to the union.
    const described = (anyOf as Json[]).filter((branch) => branch["type"] !== "null");
    const only: Json = { ...described[0] };
    const isSingle = described.length === 1 && !("$ref" in only);
    for (const keyword of HOISTED) {
      if (!isSingle || only[keyword] === undefined || rest[keyword] !== undefined) continue;
      rest[keyword] = only[keyword];
      delete only[keyword];
    }
    const branches = isSingle
      ? (anyOf as Json[]).map((branch) => (branch["type"] === "null" ? branch : only))
      : (anyOf as Json[]);
    rest["anyOf"] = branches.flatMap((branch) => (isUnion(branch) ? (branch["anyOf"] as Json[]) : [branch]));
  }
  const patterns = Object.entries((patternProperties ?? {}) as Json);
  const [pattern, item] = patterns[0] ?? [];
  if (pattern === undefined) return rest;
  const anyKey = ANY_KEY.includes(pattern);
  if (patterns.length > 1 || !(anyKey || rest["additionalProperties"] === false)) return { ...rest, patternProperties };
  return { ...rest, additionalProperties: item, ...(anyKey ? {} : { propertyNames: { pattern } }) };
}

/** Whether a schema is only a union, so that its branches may be merged into the union around it. */
const isUnion = (schema: Json): boolean =>
  Object.keys(schema).every((key) => key === "anyOf" || key === "description") && "anyOf" in schema;

/** The description of a shape, with the date since which it is deprecated. */
export function describeShape(shape: TSchema): string {
  const { description, "x-deprecation": deprecation } = shape as {
    description?: string;
    "x-deprecation"?: { since: string };
  };
  return deprecation
    ? `${description ?? ""}. Deprecated since ${deprecation.since}`.replace(/^\. /, "")
    : (description ?? "");
}
