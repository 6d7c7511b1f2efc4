/** Reads JSON that clients reported, whose shape is not known: what is not of the expected kind counts as absent. */

export const objectOf = (value: unknown): Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};

export const listOf = (value: unknown): readonly Readonly<Record<string, unknown>>[] =>
  Array.isArray(value) ? value.map(objectOf) : [];

/** The text of a value; empty for one that is neither a text nor a number nor a truth value. */
export const textOf = (value: unknown): string =>
  typeof value === "string" ? value : typeof value === "number" || typeof value === "boolean" ? String(value) : "";

/** The number; 0 for anything else. */
export const numberOf = (value: unknown): number => (typeof value === "number" && Number.isFinite(value) ? value : 0);

/** A value in a line of text: texts as they are, everything else as JSON. */
export const inlineText = (value: unknown): string =>
  typeof value === "string" ? value : (JSON.stringify(value) ?? "");
