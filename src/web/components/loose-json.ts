/** Reads JSON that clients reported, whose shape is not known: what is not of the expected kind counts as absent. */
import { JsonText, membersOf, stringifyJson } from "../../json/text.ts";

export const objectOf = (value: unknown): Readonly<Record<string, unknown>> => Object.fromEntries(membersOf(value));

export const listOf = (value: unknown): readonly Readonly<Record<string, unknown>>[] =>
  Array.isArray(value) ? value.map(objectOf) : [];

/** The text of a value; empty for one that is neither a text nor a number nor a truth value. */
export const textOf = (value: unknown): string =>
  typeof value === "string"
    ? value
    : typeof value === "number" || typeof value === "boolean" || isWrittenNumber(value)
      ? String(value)
      : "";

/** Whether it is a number that JavaScript would write with other characters. */
const isWrittenNumber = (value: unknown): value is JsonText => value instanceof JsonText && !value.text.startsWith("{");

/** The number; 0 for anything else. */
export function numberOf(value: unknown): number {
  const number = isWrittenNumber(value) ? Number(value.text) : value;
  return typeof number === "number" && Number.isFinite(number) ? number : 0;
}

/** A value in a line of text: texts as they are, everything else as JSON. What is too long for a line is cut. */
export function inlineText(value: unknown): string {
  const text = typeof value === "string" ? value : value === undefined ? "" : stringifyJson(value);
  return text.length > MAX_INLINE_CHARS ? `${text.slice(0, MAX_INLINE_CHARS).toWellFormed()}…` : text;
}
const MAX_INLINE_CHARS = 2_000;
