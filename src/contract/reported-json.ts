/**
 * Reads JSON that was reported, from its column or from the text that stands for a long one (large-json.ts): such a
 * text is passed on, and no more of it is parsed than a response needs.
 */
import { StoredJsonError, isObject, readStoredJson, requireShape } from "../domain/stored-json.ts";
import type { Guard } from "../domain/stored-json.ts";
import { JsonText, isPlainJson, outlineOf, parseExact, toMembers } from "../json/text.ts";

/** A column, or the text in the place of a long one, which a query verified to be JSON. */
export type Stored = string | JsonText;

const isAnyJson = (value: unknown): value is unknown => value !== undefined;

/**
 * A value that was reported, as it was sent (json/text.ts). A long text is passed on as it is.
 * @throws StoredJsonError as readStoredJson
 */
export function readReported<T>(stored: Stored, isShape: Guard<T>): T {
  if (stored instanceof JsonText) return stored as T;
  const value = readStoredJson(stored, isShape);
  return isPlainJson(stored) ? value : (parseExact(stored) as T);
}

/** As readReported, for a nullable column. */
export const readNullableReported = <T>(stored: Stored | null, isShape: Guard<T>): T | null =>
  stored === null ? null : readReported(stored, isShape);

/** As readReported, for an object that stays one, whatever the order of its own keys; its long members are texts. */
export const readReportedMembers = (stored: Stored): Record<string, unknown> =>
  stored instanceof JsonText ? outlineOf(requireObject(stored)) : toMembers(readReported(stored, isObject));

/** As readStoredJson, for an object of which a long text is not parsed: its long members are texts. */
export const readStoredMembers = <T extends object>(stored: Stored, isShape: Guard<T>): T =>
  stored instanceof JsonText
    ? requireShape(outlineOf(requireObject(stored)), isShape)
    : readStoredJson(stored, isShape);

function requireObject(stored: JsonText): JsonText {
  if (!stored.text.startsWith("{")) throw new StoredJsonError("a stored JSON value is not an object");
  return stored;
}

/**
 * A free-form value for a response; null for null. Text that `withLargeJson` verified to be JSON is passed on as
 * stored, everything else is parsed.
 * @throws StoredJsonError for a text that is not JSON
 */
export const readFreeForm = (stored: Stored | null): unknown => readNullableReported(stored, isAnyJson);
