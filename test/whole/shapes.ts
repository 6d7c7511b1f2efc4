/** Values of a shape: JSON Schema, as far as our operations use it, as arbitraries of fast-check. */
import fc from "fast-check";

export type Shape = {
  type?: string | string[];
  const?: unknown;
  enum?: unknown[];
  anyOf?: Shape[];
  oneOf?: Shape[];
  allOf?: Shape[];
  pattern?: string;
  format?: string;
  minLength?: number;
  maxLength?: number;
  minimum?: number;
  maximum?: number;
  items?: Shape;
  minItems?: number;
  maxItems?: number;
  properties?: Record<string, Shape>;
  required?: string[];
  additionalProperties?: boolean | Shape;
  patternProperties?: Record<string, Shape>;
  propertyNames?: Shape;
  maxProperties?: number;
  minProperties?: number;
  not?: Shape;
  "x-published"?: Shape;
  "x-published-as"?: Shape;
  "x-ignores-unknown-keys"?: boolean;
};

/** The arbitrary of a named value, or null to derive it from its shape. */
export type Named = (name: string, shape: Shape) => fc.Arbitrary<unknown> | null;

/** Keywords that do not restrict values, or are read together with others. */
const KNOWN_KEYWORDS = new Set([
  "type",
  "const",
  "enum",
  "anyOf",
  "oneOf",
  "pattern",
  "format",
  "minLength",
  "maxLength",
  "minimum",
  "maximum",
  "items",
  "minItems",
  "maxItems",
  "properties",
  "required",
  "additionalProperties",
  "patternProperties",
  "propertyNames",
  "maxProperties",
  "minProperties",
  "description",
  "default",
  "deprecated",
  "title",
  "examples",
  "contentMediaType",
  "uniqueItems",
  "x-ignores-unknown-keys",
  "x-max-bytes",
  "x-component",
  "x-exclusive",
  "x-discriminator",
  "x-repeated",
  "x-reserved",
  "x-deprecation",
  "x-unpublished",
  "x-published",
  "x-published-as",
  "not",
]);

/** Usual and unusual texts that can be stored (no NUL, no lone surrogates). */
const text = (min: number, max: number): fc.Arbitrary<string> => {
  const plain = fc
    .string({ unit: "grapheme", minLength: min, maxLength: Math.min(max, Math.max(min, 24)) })
    .filter((one) => one.isWellFormed() && !one.includes("\0"));
  const odd = fc
    .constantFrom(
      "<script>alert(1)</script>",
      "\u202eright to left",
      "naïve 🧪 text",
      "a\nb\tc",
      "' OR 1=1 --",
      "%00%ff",
      "__proto__",
      "null",
      "\u2028",
      " ",
      "{}",
    )
    .filter((one) => one.length >= min && one.length <= max);
  return fc.oneof({ weight: 3, arbitrary: plain }, { weight: min > 20 || max < 2 ? 0 : 1, arbitrary: odd });
};

const FORMATS: Readonly<Record<string, fc.Arbitrary<string>>> = {
  binary: fc.constant("text"),
  email: fc.constantFrom("ada@example.com", "grace@example.com"),
  "idn-email": fc.constantFrom("ada@example.com", "grace@bücher.example"),
  uri: fc.constantFrom("https://example.com/a?b=c#d"),
  "web-url": fc.constantFrom("https://example.com/a?b=c#d", "http://localhost", "www.example.com:8080/1", ""),
  "remote-url": fc.constantFrom(
    "https://example.com/a.git",
    "ssh://git@example.com/a.git",
    "git@example.com:acme/a.git",
    "/srv/git/a",
    "",
  ),
  iri: fc.constantFrom("https://example.com/a?b=c#d", "https://chat.example.com/büro"),
  "date-time": fc.constantFrom("2024-01-31T12:00:00Z"),
};

function textOf({ pattern, format, minLength = 0, maxLength = 10_000 }: Shape): fc.Arbitrary<string> {
  // For addresses, the format says more than a pattern.
  if (pattern !== undefined && (format === undefined || !(format in FORMATS))) {
    const fits = (one: string): boolean => one.length >= minLength && one.length <= maxLength;
    const matching = fc.stringMatching(new RegExp(pattern), { size: "-1" });
    return matching.filter((one) => fits(one) && !one.includes("\0") && one.isWellFormed());
  }
  return (format === undefined ? undefined : FORMATS[format]) ?? text(minLength, maxLength);
}

/** Large enough for times, small enough to add. */
const MAX_NUMBER = 4_102_444_800;

/** @throws Error for an unknown keyword, which must be added here */
export function arbitraryOf(declared: Shape, named: Named = () => null): fc.Arbitrary<unknown> {
  const shape = { ...declared, ...declared["x-published"] };
  if (shape["x-published-as"]) return arbitraryOf(shape["x-published-as"], named);
  if (shape.not) return fc.oneof(text(0, 12), fc.constant(null)).filter((value) => !shape.not?.enum?.includes(value));
  const unknown = Object.keys(shape).filter((key) => !KNOWN_KEYWORDS.has(key));
  if (unknown.length > 0) throw new Error(`test/whole/shapes.ts makes no values for ${unknown.join(", ")}`);
  if ("const" in shape) return fc.constant(shape.const);
  if (shape.enum) return fc.constantFrom(...shape.enum);
  const branches = shape.anyOf ?? shape.oneOf;
  if (branches) return fc.oneof(...branches.map((branch) => arbitraryOf(branch, named)));
  if (Array.isArray(shape.type)) return fc.oneof(...shape.type.map((type) => arbitraryOf({ ...shape, type }, named)));
  switch (shape.type) {
    case "null":
      return fc.constant(null);
    case "boolean":
      return fc.boolean();
    case "integer":
      return fc.oneof(
        fc.integer({
          min: shape.minimum ?? -MAX_NUMBER,
          max: Math.min(shape.maximum ?? MAX_NUMBER, (shape.minimum ?? 0) + 50),
        }),
        fc.integer({ min: shape.minimum ?? -MAX_NUMBER, max: Math.min(shape.maximum ?? MAX_NUMBER, MAX_NUMBER) }),
      );
    case "number":
      return fc.oneof(
        fc.integer({
          min: Math.ceil(shape.minimum ?? -MAX_NUMBER),
          max: Math.floor(Math.min(shape.maximum ?? MAX_NUMBER, MAX_NUMBER)),
        }),
        fc.double({ min: shape.minimum ?? -1e15, max: shape.maximum ?? 1e15, noNaN: true }),
      );
    case "string":
      return textOf(shape);
    case "array":
      return fc.array(arbitraryOf(shape.items ?? {}, named), {
        minLength: shape.minItems ?? 0,
        maxLength: Math.min(shape.maxItems ?? 3, Math.max(3, shape.minItems ?? 0)),
      });
    case "object":
      return objectOf(shape, named);
    default:
      return fc.jsonValue({ maxDepth: 2 }).filter(isStorable);
  }
}

function objectOf(
  {
    properties = {},
    required = [],
    additionalProperties,
    patternProperties,
    propertyNames,
    "x-ignores-unknown-keys": ignores,
  }: Shape,
  named: Named,
): fc.Arbitrary<unknown> {
  const fields = Object.fromEntries(
    Object.entries(properties).map(([name, shape]) => [name, named(name, shape) ?? arbitraryOf(shape, named)]),
  );
  const known = fc.record(fields, { requiredKeys: required.filter((name) => name in fields) });
  const [pattern, shape] = Object.entries(patternProperties ?? {})[0] ?? [
    undefined,
    typeof additionalProperties === "object" ? additionalProperties : {},
  ];
  // Keys that are ignored, none of which looks like a slip.
  if (ignores)
    return fc
      .tuple(
        known,
        fc.dictionary(fc.stringMatching(/^unheard_of_[a-z]{0,4}$/), fc.jsonValue({ maxDepth: 1 }), { maxKeys: 1 }),
      )
      .map(([one, more]) => ({ ...more, ...one }));
  const open = additionalProperties !== false || pattern !== undefined;
  if (!open) return known;
  // A record with arbitrary keys whose handler knows some of them has both.
  const keys = propertyNames ?? (pattern === undefined ? { maxLength: 12 } : { pattern });
  const key = textOf(keys).filter((name) => name !== "__proto__" && !(name in fields));
  return fc
    .tuple(known, fc.dictionary(key, arbitraryOf(shape, named), { maxKeys: 2 }))
    .map(([one, more]) => ({ ...more, ...one }));
}

const isStorable = (value: unknown): boolean => {
  const written = JSON.stringify(value);
  return !/\\u0000|\\ud[89a-f]/i.test(written);
};
