/**
 * Small words for writing shapes. A TypeBox value is JSON Schema 2020-12, the dialect of OpenAPI 3.1; a named shape
 * carries its component name in the keyword `x-component`, which survives copying, and becomes
 * `#/components/schemas/NAME`.
 */
import Type from "typebox";
import type { Static, TSchema } from "typebox";

/**
 * Bounds a value by the bytes of its JSON text, whatever it holds; a longer one is refused with 413. Published as
 * `x-max-bytes`. Everything below such a shape is bounded by it.
 */
export const WithinBytes = <T extends TSchema>(maxBytes: number, schema: T): T =>
  withKeywords(schema, { "x-max-bytes": maxBytes });

/** Gives a shape its component name in the OpenAPI document. Names are unique (tested). */
export const named = <T extends TSchema>(name: string, schema: T): T => ({ ...schema, "x-component": name }) as T;

/** The shape or null. Writing null is always accepted where the contract says "or null". */
export const Nullable = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()]);

/** May be absent or null. */
export const Maybe = <T extends TSchema>(schema: T) => Type.Optional(Nullable(schema));

/** Since when clients should no longer use something: a date as YYYY-MM-DD, in UTC. */
export type Deprecation = { since: string };

/**
 * A parameter of the query, or a field of the body itself, that is deprecated: published as such, and whoever uses it
 * is told (deprecation.ts). The outermost word for its shape: a value that may be null is deprecated as a whole.
 */
export const Deprecated = <T extends TSchema>(since: string, schema: T): T =>
  withKeywords(schema, { deprecated: true, "x-deprecation": { since } satisfies Deprecation });

/** A parameter of the query that is served and stands in no document: another spelling of one that does. */
export const Unpublished = <T extends TSchema>(schema: T): T => withKeywords(schema, { "x-unpublished": true });

/**
 * A shape with keywords that the document publishes and the validator does not check, because the handler does, with a
 * text that helps more. Generated requests compare the two (test/whole/agreement.ts).
 */
export const CheckedByHandler = <T extends TSchema>(
  published: { pattern?: string; format?: string; minimum?: number; propertyNames?: object },
  schema: T,
): T => withKeywords(schema, { "x-published": published });

/**
 * As CheckedByHandler, where the published shape has other words altogether, such as a branch for each kind of thing.
 */
export const PublishedAs = <T extends TSchema>(published: TSchema, schema: T): T =>
  withKeywords(schema, { "x-published-as": published });

/**
 * A copy with further keywords. Spreading would lose that a shape is optional, which TypeBox does not make enumerable.
 */
const withKeywords = <T extends TSchema>(schema: T, keywords: Record<string, unknown>): T =>
  Object.assign(Object.defineProperties({}, Object.getOwnPropertyDescriptors(schema)), keywords) as T;

/** One of a list of words. */
export const OneOf = <const T extends readonly string[]>(words: T, options: Record<string, unknown> = {}) =>
  Type.Unsafe<T[number]>({ type: "string", enum: [...words], ...options });

/** A text that matches a grammar of domain/names.ts. */
export const Matching = (pattern: string, options: Record<string, unknown> = {}) =>
  Type.String({ pattern, ...options });

/** An object that takes exactly the listed properties. */
export const Closed = <T extends Record<string, TSchema>>(properties: T, options: Record<string, unknown> = {}) =>
  Type.Object(properties, { additionalProperties: false, ...options });

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
/** The body of a write that has nothing to say (wire-contract 1.4). */
export const Ok = Type.Literal("OK");

export const Pagination = named(
  "Pagination",
  Closed({ total: Type.Integer(), page: Type.Integer(), per_page: Type.Integer(), page_count: Type.Integer() }),
);
export type PaginationValue = Static<typeof Pagination>;
