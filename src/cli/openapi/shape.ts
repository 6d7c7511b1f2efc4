/**
 * Schemas in a form that can be compared: a list of alternatives, each of one JSON type. References are followed,
 * `allOf` is merged, and `anyOf`, `oneOf` and lists of types become alternatives.
 */
import { isObject } from "../../domain/stored-json.ts";
import { CommandError } from "../command.ts";
import { resolveReference } from "./document.ts";
import type { ApiDocument, JsonObject } from "./document.ts";

const JSON_TYPES = ["null", "boolean", "integer", "number", "string", "array", "object"] as const;
export type JsonType = (typeof JSON_TYPES)[number];

/** Bounds, with the words for them. */
export const BOUNDS = {
  maxLength: (bound: number) => `at most ${bound} characters`,
  minLength: (bound: number) => `at least ${bound} characters`,
  maximum: (bound: number) => `at most ${bound}`,
  minimum: (bound: number) => `at least ${bound}`,
  exclusiveMaximum: (bound: number) => `less than ${bound}`,
  exclusiveMinimum: (bound: number) => `more than ${bound}`,
  maxItems: (bound: number) => `at most ${bound} items`,
  minItems: (bound: number) => `at least ${bound} items`,
  maxProperties: (bound: number) => `at most ${bound} fields`,
  minProperties: (bound: number) => `at least ${bound} fields`,
} as const;
export type BoundName = keyof typeof BOUNDS;

/** What one alternative of a schema says. JSON values are written as text, to be compared. */
type SchemaFacts = {
  /** null: all types. */
  types: ReadonlySet<JsonType> | null;
  /** The only values, from `enum` and `const`; null without either. */
  values: readonly string[] | null;
  /** Values excluded by `not`. */
  excluded: readonly string[];
  patterns: readonly string[];
  format: string | null;
  bounds: Partial<Record<BoundName, number>>;
  fields: ReadonlyMap<string, unknown>;
  required: ReadonlySet<string>;
  /** Schema of fields that are not listed; `closed`: they are not allowed; `unstated`: the schema does not say. */
  further: JsonObject | "open" | "closed" | "unstated";
  /** Schema of items; undefined: any. */
  items: unknown;
  /** Other keywords that restrict values. */
  rules: ReadonlyMap<string, string>;
  default: string | null;
};

/** An alternative of one type, or of any type without a restriction of the type. */
export type SchemaShape = SchemaFacts & { type: JsonType | "any" };

/** Keywords that restrict values in a way that is only compared as a whole. */
const RULES = [
  "multipleOf",
  "uniqueItems",
  "contains",
  "prefixItems",
  "propertyNames",
  "patternProperties",
  "dependentRequired",
  "dependentSchemas",
  "if",
  "then",
  "else",
] as const;

/** Alternatives of one schema; more are a mistake or an attack. */
const MAX_ALTERNATIVES = 256;
/** Schemas within each other without a field or item between them. */
const MAX_LEVELS = 100;
/** Patterns that say nothing of a text, or only that it has no U+0000, which no document would mean. */
const TRIVIAL_PATTERNS = ["", "^", ".*", "^.*$", "^(.*)$", String.raw`^[^\x00]*$`];

const ANYTHING: SchemaFacts = {
  types: null,
  values: null,
  excluded: [],
  patterns: [],
  format: null,
  bounds: {},
  fields: new Map(),
  required: new Set(),
  further: "unstated",
  items: undefined,
  rules: new Map(),
  default: null,
};

const NULL: SchemaFacts = { ...ANYTHING, types: new Set(["null"]) };

/** Reads the schemas of one document. Keeps what it has read. */
export function createShapeReader(document: ApiDocument) {
  const known = new Map<JsonObject, readonly SchemaFacts[] | "being read">();

  /** The alternatives of a schema before they are split by type; null within the schema itself. */
  function expand(schema: JsonObject, level: number): readonly SchemaFacts[] | null {
    const before = known.get(schema);
    if (before === "being read") return null;
    if (before) return before;
    if (level > MAX_LEVELS)
      throw new CommandError(`${document.name} has schemas that are nested too deeply to compare`);
    known.set(schema, "being read");
    const inside = (part: JsonObject): readonly SchemaFacts[] | null => expand(part, level + 1);
    let found = excludesAll(schema) ? [] : [readOwnFacts(schema, document)];
    if (typeof schema["$ref"] === "string") {
      const target = inside(resolveReference(document, schema));
      found = multiply(document.is30 ? [ANYTHING] : found, target ?? [ANYTHING]);
    }
    // A schema that has itself as a part or as an alternative says nothing more there.
    for (const part of schemasOf(schema["allOf"])) found = multiply(found, inside(part) ?? [ANYTHING]);
    for (const keyword of ["anyOf", "oneOf"])
      if (Array.isArray(schema[keyword]))
        found = multiply(
          found,
          schemasOf(schema[keyword]).flatMap((branch) => inside(branch) ?? []),
        );
    // OpenAPI 3.0 allows it beside a type only, but documents have it beside allOf and the like too.
    if (document.is30 && schema["nullable"] === true && !("type" in schema)) found = [...found, NULL];
    known.set(schema, found);
    return found;
  }

  /** Every pair of alternatives that can hold at once. */
  function multiply(some: readonly SchemaFacts[], others: readonly SchemaFacts[]): SchemaFacts[] {
    if (some.length * others.length > MAX_ALTERNATIVES ** 2) refuse();
    const product = some.flatMap((one) => others.map((other) => merge(one, other))).filter((facts) => facts !== null);
    if (product.length > MAX_ALTERNATIVES) refuse();
    return product;
  }

  const refuse = (): never => {
    throw new CommandError(`${document.name} has a schema with more than ${MAX_ALTERNATIVES} alternatives`);
  };

  return {
    /** The alternatives of a schema, each of one type. Absent schemas and `true` allow anything, `false` nothing. */
    shapesOf(schema: unknown): SchemaShape[] {
      if (schema === false) return [];
      return (expand(isObject(schema) ? schema : ANY_SCHEMA, 0) ?? []).flatMap(splitByType);
    },
    /** The object that stands for a schema, so that two places with one reference compare the same pair. */
    identify: (schema: unknown): JsonObject =>
      isObject(schema)
        ? isPureReference(schema)
          ? resolveReference(document, schema)
          : schema
        : schema === false
          ? NO_SCHEMA
          : ANY_SCHEMA,
  };
}

export type ShapeReader = ReturnType<typeof createShapeReader>;

const ANY_SCHEMA: JsonObject = {};
const NO_SCHEMA: JsonObject = { not: {} };
const isPureReference = (schema: JsonObject): boolean => "$ref" in schema && Object.keys(schema).length === 1;
const excludesAll = ({ not }: JsonObject): boolean => not === true || (isObject(not) && Object.keys(not).length === 0);
const schemasOf = (list: unknown): JsonObject[] =>
  Array.isArray(list) ? list.map((one) => (isObject(one) ? one : one === false ? NO_SCHEMA : ANY_SCHEMA)) : [];
const numberOf = (value: unknown): number | undefined => (typeof value === "number" ? value : undefined);
const textOf = (value: unknown): string => JSON.stringify(value) ?? "null";

/** What the keywords of a schema itself say. */
function readOwnFacts(schema: JsonObject, { is30 }: ApiDocument): SchemaFacts {
  const not = isObject(schema["not"]) ? schema["not"] : null;
  const pattern = schema["pattern"];
  const fields = isObject(schema["properties"]) ? Object.entries(schema["properties"]) : [];
  const required = Array.isArray(schema["required"])
    ? schema["required"].filter((name) => typeof name === "string")
    : [];
  return {
    types: readTypes(schema, is30),
    values: readValues(schema, { is30 }),
    excluded: not ? (readValues(not, { is30 }) ?? []) : [],
    patterns: typeof pattern === "string" && !TRIVIAL_PATTERNS.includes(pattern) ? [pattern] : [],
    format: typeof schema["format"] === "string" ? schema["format"] : null,
    bounds: readBounds(schema),
    fields: new Map(fields),
    required: new Set(required),
    further: readFurther(schema["additionalProperties"] ?? schema["unevaluatedProperties"]),
    items: schema["items"],
    rules: new Map(
      RULES.filter((rule) => rule in schema && !saysNothing(rule, schema[rule])).map((rule) => [
        rule,
        textOf(schema[rule]),
      ]),
    ),
    default: "default" in schema ? textOf(schema["default"]) : null,
  };
}

/** Whether a rule for keys only bounds their length. */
const saysNothing = (rule: string, value: unknown): boolean =>
  rule === "propertyNames" && isObject(value) && Object.keys(value).every((keyword) => keyword === "maxLength");

function readFurther(further: unknown): SchemaFacts["further"] {
  if (further === undefined) return "unstated";
  if (further === false) return "closed";
  return isObject(further) && Object.keys(further).length > 0 ? further : "open";
}

/** The types that a schema names or, if it names none, those that its other keywords are about. */
function readTypes(schema: JsonObject, is30: boolean): ReadonlySet<JsonType> | null {
  const { type } = schema;
  const named = (Array.isArray(type) ? type : [type]).filter((one): one is JsonType =>
    (JSON_TYPES as readonly unknown[]).includes(one),
  );
  if (named.length > 0) return new Set(is30 && schema["nullable"] === true ? [...named, "null"] : named);
  if (["properties", "required", "additionalProperties"].some((keyword) => keyword in schema))
    return new Set(["object"]);
  if ("items" in schema) return new Set(["array"]);
  return ["pattern", "minLength", "maxLength"].some((keyword) => keyword in schema) ? new Set(["string"]) : null;
}

function readValues(schema: JsonObject, { is30 }: { is30: boolean }): readonly string[] | null {
  if ("const" in schema) return [textOf(schema["const"])];
  if (!Array.isArray(schema["enum"])) return null;
  const values = schema["enum"].map(textOf);
  return is30 && schema["nullable"] === true && !values.includes("null") ? [...values, "null"] : values;
}

function readBounds(schema: JsonObject): SchemaFacts["bounds"] {
  const bounds: SchemaFacts["bounds"] = {};
  for (const name of Object.keys(BOUNDS) as BoundName[]) {
    const bound = numberOf(schema[name]);
    if (bound !== undefined) bounds[name] = bound;
  }
  // OpenAPI 3.0: whether the bound beside it is exclusive.
  for (const [flag, name] of [
    ["exclusiveMaximum", "maximum"],
    ["exclusiveMinimum", "minimum"],
  ] as const)
    if (schema[flag] === true && bounds[name] !== undefined) {
      bounds[flag] = bounds[name];
      delete bounds[name];
    }
  return bounds;
}

/** What holds if both hold; null if no value fits both. */
function merge(one: SchemaFacts, other: SchemaFacts): SchemaFacts | null {
  if (one === ANYTHING) return other;
  if (other === ANYTHING) return one;
  const types = one.types && other.types ? intersectTypes(one.types, other.types) : (one.types ?? other.types);
  const values =
    one.values && other.values
      ? one.values.filter((value) => other.values?.includes(value))
      : (one.values ?? other.values);
  if (types?.size === 0 || values?.length === 0) return null;
  return {
    types,
    values,
    excluded: [...new Set([...one.excluded, ...other.excluded])],
    patterns: [...new Set([...one.patterns, ...other.patterns])],
    format: one.format ?? other.format,
    bounds: mergeBounds(one.bounds, other.bounds),
    fields: mergeFields(one.fields, other.fields),
    required: new Set([...one.required, ...other.required]),
    further: mergeFurther(one.further, other.further),
    items:
      one.items !== undefined && other.items !== undefined ? both(one.items, other.items) : (one.items ?? other.items),
    rules: new Map([...one.rules, ...other.rules]),
    default: one.default ?? other.default,
  };
}

const both = (one: unknown, other: unknown): JsonObject => ({ allOf: [one, other] });

function intersectTypes(one: ReadonlySet<JsonType>, other: ReadonlySet<JsonType>): ReadonlySet<JsonType> {
  const narrower = (types: ReadonlySet<JsonType>, within: ReadonlySet<JsonType>): JsonType[] =>
    [...types].filter((type) => within.has(type) || (type === "integer" && within.has("number")));
  return new Set([...narrower(one, other), ...narrower(other, one)]);
}

function mergeBounds(one: SchemaFacts["bounds"], other: SchemaFacts["bounds"]): SchemaFacts["bounds"] {
  const bounds = { ...one };
  for (const [name, bound] of Object.entries(other) as [BoundName, number][]) {
    const mine = bounds[name];
    bounds[name] = mine === undefined ? bound : isUpperBound(name) ? Math.min(mine, bound) : Math.max(mine, bound);
  }
  return bounds;
}

/** Whether a bound is one from above. */
export const isUpperBound = (name: BoundName): boolean => /^(?:max|exclusiveMax)/.test(name);

function mergeFields(one: SchemaFacts["fields"], other: SchemaFacts["fields"]): SchemaFacts["fields"] {
  const fields = new Map(one);
  for (const [name, schema] of other) fields.set(name, fields.has(name) ? both(fields.get(name), schema) : schema);
  return fields;
}

function mergeFurther(one: SchemaFacts["further"], other: SchemaFacts["further"]): SchemaFacts["further"] {
  if (one === "closed" || other === "closed") return "closed";
  if (typeof one === "object" && typeof other === "object") return both(one, other);
  if (typeof one === "object" || typeof other === "object") return typeof one === "object" ? one : other;
  return one === "open" ? one : other;
}

/** The type of a value that is written as JSON text. */
function typeOfText(text: string): JsonType {
  if (text === "null") return "null";
  if (text === "true" || text === "false") return "boolean";
  if (text.startsWith('"')) return "string";
  if (text.startsWith("[")) return "array";
  return text.startsWith("{") ? "object" : Number.isInteger(Number(text)) ? "integer" : "number";
}

const isOfType = (text: string, type: JsonType): boolean => {
  const textType = typeOfText(text);
  return textType === type || (textType === "integer" && type === "number");
};

/** One alternative for each type, with the values of that type. */
function splitByType(facts: SchemaFacts): SchemaShape[] {
  const { types, values } = facts;
  if (types === null && values === null) return [{ ...facts, type: "any" }];
  const all = types ?? new Set(values?.map(typeOfText));
  return [...all].flatMap((type) => {
    const ofType = values?.filter((value) => isOfType(value, type)) ?? null;
    if (ofType?.length === 0) return [];
    const narrow = type === "number" && ofType?.every((value) => typeOfText(value) === "integer") ? "integer" : type;
    return [{ ...facts, type: narrow, values: ofType }];
  });
}
