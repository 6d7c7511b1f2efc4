/**
 * Schemas as the OpenAPI document shows them: the keywords of the kit dropped or turned into standard ones, requests
 * restricted to what storage takes, and everything in words that generators of clients know.
 */
import type { TSchema } from "typebox";

type Json = Record<string, unknown>;

export type SchemaWriter = ReturnType<typeof createSchemaWriter>;

/**
 * Text without U+0000, which storage refuses everywhere. Written so that the regular expressions of all languages know
 * it.
 */
const NO_NUL = String.raw`^[^\x00]*$`;
/** Keywords of the kit, which are no JSON Schema. */
const OWN_KEYWORDS: readonly string[] = [
  "x-component",
  "x-repeated",
  "x-reserved",
  "x-deprecation",
  "x-published",
  "x-unpublished",
];
/** The keys of a TypeBox record whose keys are any text. */
const ANY_KEY: readonly string[] = ["^.*$", "^(.*)$"];

/** Writes schemas as they stand in the document: named shapes by reference, collected in `components`. */
export function createSchemaWriter() {
  const components: Record<string, Json> = {};

  function write(value: unknown, isRequest: boolean): unknown {
    if (Array.isArray(value)) return value.map((item) => write(item, isRequest));
    if (typeof value !== "object" || value === null) return value;
    const { "x-published-as": published, "x-component": component } = value as {
      "x-published-as"?: TSchema;
      "x-component"?: string;
    };
    if (published !== undefined) return write(published, isRequest);
    if (component === undefined) return plain(value as Json, isRequest);
    if (!(component in components)) {
      // Named before it is written, for shapes that contain themselves.
      components[component] = {};
      components[component] = plain(value as Json, isRequest);
    }
    const { deprecated, description } = value as Json;
    const isOnlyHere = (value as Json)["x-deprecation"] !== undefined;
    return { $ref: `#/components/schemas/${component}`, ...(isOnlyHere ? { deprecated, description } : {}) };
  }

  function plain(schema: Json, isRequest: boolean): Json {
    const { "x-published": published = {}, ...declared } = schema;
    const kept = Object.entries({ ...declared, ...(published as Json) }).filter(([key]) => !OWN_KEYWORDS.includes(key));
    const written = Object.fromEntries(kept.map(([key, item]) => [key, keyword(key, item, isRequest)])) as Json;
    if (isRequest) withoutNul(written);
    const simple = readable(written);
    const { "x-deprecation": deprecation } = schema;
    return deprecation
      ? { ...simple, description: sentenceOf({ ...simple, "x-deprecation": deprecation } as unknown as TSchema) }
      : simple;
  }

  function keyword(key: string, value: unknown, isRequest: boolean): unknown {
    if (VALUES.includes(key)) return value;
    if (!MAPS.includes(key)) return write(value, isRequest);
    return Object.fromEntries(Object.entries(value as Json).map(([name, item]) => [name, write(item, isRequest)]));
  }

  return {
    components,
    ofRequest: (schema: TSchema): Json => write(schema, true) as Json,
    ofResponse: (schema: TSchema): Json => write(schema, false) as Json,
  };
}

/** Keywords that hold values and not schemas, and those that hold schemas by name. */
const VALUES: readonly string[] = ["default", "const", "enum", "examples", "example", "required"];
const MAPS: readonly string[] = ["properties", "patternProperties"];

/** Every text of a request that nothing else restricts. */
function withoutNul(schema: Json): void {
  if (
    schema["type"] === "string" &&
    !["pattern", "enum", "const"].some((key) => key in schema) &&
    schema["format"] !== "binary"
  )
    schema["pattern"] = NO_NUL;
}

/** Keywords that say the same of a value and of a value or null. */
const HOISTED = ["description", "x-max-bytes"] as const;

/** The same schema in the words that generators know. */
function readable(schema: Json): Json {
  const { anyOf, patternProperties, ...rest } = schema;
  if (Array.isArray(anyOf)) {
    // Of a value that may be null, what it is said to be and its bound in bytes stand on the whole.
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

/** Whether a schema is nothing but a union, so that its branches may stand in the union around it. */
const isUnion = (schema: Json): boolean =>
  Object.keys(schema).every((key) => key === "anyOf" || key === "description") && "anyOf" in schema;

/** The description of a shape, with the date since when it is deprecated. */
export function sentenceOf(shape: TSchema): string {
  const { description, "x-deprecation": deprecation } = shape as {
    description?: string;
    "x-deprecation"?: { since: string };
  };
  return deprecation
    ? `${description ?? ""}. Deprecated since ${deprecation.since}`.replace(/^\. /, "")
    : (description ?? "");
}
