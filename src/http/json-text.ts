/**
 * JSON that stays text on its way from the body to the database. What reporters send of their own may be megabytes that nobody looks
 * into: as a value it would be parsed and written again on the main thread, for nothing.
 */

/** One JSON value as text, compact, as JSON.stringify writes it. */
export class JsonText {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** JSON text of a value that is a JsonText, or has some as its properties, or none. Undefined properties are left out. */
export function stringifyJson(value: unknown): string {
  if (value instanceof JsonText) return value.text;
  if (typeof value !== "object" || value === null || Array.isArray(value)) return JSON.stringify(value);
  const entries = Object.entries(value);
  if (!entries.some(([, property]) => property instanceof JsonText)) return JSON.stringify(value);
  const pieces = entries.flatMap(([key, property]) => (property === undefined ? [] : [`${JSON.stringify(key)}:${stringifyJson(property)}`]));
  return `{${pieces.join(",")}}`;
}
