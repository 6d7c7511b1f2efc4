/**
 * Reads JSON that this server wrote into a column. A column that holds anything else was damaged on disk or edited by
 * hand, so a reader states the shape it expects: a wrong shape is found where it is read, not three calls later.
 */

/** A stored text is not JSON, or does not have the shape that was written. */
export class StoredJsonError extends Error {
  override readonly name = "StoredJsonError";
}

/** Checks that a parsed value has the shape that was written. */
export type Guard<T> = (value: unknown) => value is T;

/**
 * Parses a stored text.
 * @throws StoredJsonError when the text is not JSON or the value does not have the shape
 */
export function readStoredJson<T>(text: string, isShape: Guard<T>): T {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new StoredJsonError("a stored text is not JSON", { cause: error });
  }
  return requireShape(value, isShape);
}

/** @throws StoredJsonError when the value does not have the shape */
export function requireShape<T>(value: unknown, isShape: Guard<T>): T {
  if (!isShape(value)) throw new StoredJsonError("a stored JSON value does not have the shape that was written");
  return value;
}

/**
 * Parses a nullable column; null for null.
 * @throws StoredJsonError for a damaged text, as readStoredJson
 */
export const readNullableStoredJson = <T>(text: string | null, isShape: Guard<T>): T | null =>
  text === null ? null : readStoredJson(text, isShape);

/** Parses a stored text; null when the column is null or its text is damaged. */
export function readStoredJsonOrNull<T>(text: string | null, isShape: Guard<T>): T | null {
  if (text === null) return null;
  try {
    return readStoredJson(text, isShape);
  } catch (error) {
    if (error instanceof StoredJsonError) return null;
    throw error;
  }
}

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
export const isText = (value: unknown): value is string => typeof value === "string";
/** A text that says something; null for anything else. */
export const textOrNull = (value: unknown): string | null => (isText(value) && value !== "" ? value : null);
export const isNumber = (value: unknown): value is number => typeof value === "number";

/** Guard of a list in which every element passes. */
export const isListOf =
  <T>(isElement: Guard<T>): Guard<T[]> =>
  (value): value is T[] =>
    Array.isArray(value) && value.every(isElement);
/** Guard of a list of ids, or of other numbers. */
export const isNumberList = isListOf(isNumber);

/** Guards of objects with arbitrary keys: every value has to pass. */
export const isRecordOf =
  <T>(isValue: Guard<T>): Guard<Record<string, T>> =>
  (value): value is Record<string, T> =>
    isObject(value) && Object.values(value).every(isValue);

/**
 * Guard of an object that this server wrote as a whole: the named members exist. Their values are not checked, so the
 * guard stays cheap in lists. Do not name members that may be absent.
 */
export const hasMembers =
  <T extends object>(...members: (keyof T & string)[]): Guard<T> =>
  (value): value is T =>
    isObject(value) && members.every((member) => Object.hasOwn(value, member));
