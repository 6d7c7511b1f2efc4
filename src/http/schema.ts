/**
 * Helpers for declaring shapes. A TypeBox value is JSON Schema 2020-12, the dialect of OpenAPI 3.1. A named shape
 * carries its component name in the keyword `x-component`, which survives copying, and is published as
 * `#/components/schemas/NAME`.
 */
import Type from "typebox";
import type { Static, TSchema } from "typebox";

/**
 * Bounds a value, and everything in it, by the bytes of its JSON text; a longer one is refused with 413. Published as
 * `x-max-bytes`.
 */
export const WithinBytes = <T extends TSchema>(maxBytes: number, schema: T): T =>
  withKeywords(schema, { "x-max-bytes": maxBytes });

/** Gives a shape its component name in the OpenAPI document. Names are unique (tested). */
export const named = <T extends TSchema>(name: string, schema: T): T => ({ ...schema, "x-component": name }) as T;

/** The shape or null. */
export const Nullable = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()]);

/** May be absent or null. */
export const Maybe = <T extends TSchema>(schema: T) => Type.Optional(Nullable(schema));

/** Keywords of unions, for the OpenAPI document (openapi/schemas.ts). */
export const EXCLUSIVE = "x-exclusive";
export const DISCRIMINATOR = "x-discriminator";

/**
 * One of several shapes, of which no value fits two. Published as `oneOf`, from which more generators make a union of
 * types. With `by`, the text property that tells the shapes apart, they make a tagged union.
 */
export const ExactlyOne = <T extends TSchema[]>(
  shapes: [...T],
  { by, ...options }: { by?: string } & Record<string, unknown> = {},
) => Type.Union(shapes, { [EXCLUSIVE]: true, ...(by === undefined ? {} : { [DISCRIMINATOR]: by }), ...options });

/** The date since which clients should stop using something: YYYY-MM-DD, in UTC. */
export type Deprecation = { since: string };

/**
 * A deprecated query parameter or top-level body field: published as such and announced to clients that use it
 * (deprecation.ts). Must be the outermost helper of the shape: a nullable value is deprecated as a whole.
 */
export const Deprecated = <T extends TSchema>(since: string, schema: T): T =>
  withKeywords(schema, { deprecated: true, "x-deprecation": { since } satisfies Deprecation });

/** A query parameter that is accepted but not documented: an alternative spelling of a documented one. */
export const Unpublished = <T extends TSchema>(schema: T): T => withKeywords(schema, { "x-unpublished": true });

/**
 * A shape with keywords that are published but not validated, because the handler checks them and gives a more helpful
 * error. Generated requests compare the two (test/whole/agreement.ts).
 */
export const CheckedByHandler = <T extends TSchema>(
  published: { pattern?: string; format?: string; minimum?: number; propertyNames?: object },
  schema: T,
): T => withKeywords(schema, { "x-published": published });

/** As CheckedByHandler, if the published shape is a different one altogether, such as a union over all kinds. */
export const PublishedAs = <T extends TSchema>(published: TSchema, schema: T): T =>
  withKeywords(schema, { "x-published-as": published });

/** A copy with further keywords. Spreading would lose TypeBox's optional marker, which is not enumerable. */
const withKeywords = <T extends TSchema>(schema: T, keywords: Record<string, unknown>): T =>
  Object.assign(Object.defineProperties({}, Object.getOwnPropertyDescriptors(schema)), keywords) as T;

/** One of the listed words. */
export const OneOf = <const T extends readonly string[]>(words: T, options: Record<string, unknown> = {}) =>
  Type.Unsafe<T[number]>({ type: "string", enum: [...words], ...options });

/** A text that matches a pattern, usually a grammar of domain/names.ts. */
export const Matching = (pattern: string, options: Record<string, unknown> = {}) =>
  Type.String({ pattern, ...options });

/** An object without properties other than the listed ones. */
export const Closed = <T extends Record<string, TSchema>>(properties: T, options: Record<string, unknown> = {}) =>
  Type.Object(properties, { additionalProperties: false, ...options });

/** The keyword of `Open`. */
export const IGNORES_UNKNOWN = "x-ignores-unknown-keys";
/** Of one body. A release of a client adds a key or two. */
export const MAX_UNKNOWN_KEYS = 100;

/**
 * The body of a report: a top-level key that is not listed is ignored and counted (body/unknown-keys.ts). Only the
 * shape of a whole body may be open.
 */
export const Open = <T extends Record<string, TSchema>>(properties: T, options: Record<string, unknown> = {}) =>
  Type.Object(properties, {
    [IGNORES_UNKNOWN]: true,
    maxProperties: Object.keys(properties).length + MAX_UNKNOWN_KEYS,
    ...options,
  });

/** A repeatable query parameter: `a=1&a=2` and `a=1,2` are the same (wire-contract 1.1). */
export const Repeated = <T extends TSchema>(item: T, options: Record<string, unknown> = {}) =>
  Type.Optional(Type.Array(item, { "x-repeated": true, ...options }));

export const Message = named("Message", Type.Object({ message: Type.String() }, { additionalProperties: false }));
export const ValidationError = named(
  "ValidationError",
  Type.Object(
    { message: Type.String(), errors: Type.Optional(Type.Record(Type.String(), Type.String())) },
    { additionalProperties: false },
  ),
);
/** The answer of a write that has nothing to return (wire-contract 1.4). */
export const Ok = Type.Literal("OK");

export const Pagination = named(
  "Pagination",
  Closed({ total: Type.Integer(), page: Type.Integer(), per_page: Type.Integer(), page_count: Type.Integer() }),
);
export type PaginationValue = Static<typeof Pagination>;
