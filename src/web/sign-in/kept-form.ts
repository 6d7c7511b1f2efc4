/** A form that was submitted when the session had ended, on its way through the login page. */
import type { Fields } from "../page/fields.ts";

/** Longer texts are typed again rather than carried through the login. */
const MAX_KEPT_CHARS = 200_000;

/** The text of the hidden field; null for a form that is too long. */
export function formatKeptForm(fields: Fields): string | null {
  const text = JSON.stringify(fields.entries().filter(([name]) => name !== "csrf"));
  return text.length > MAX_KEPT_CHARS ? null : text;
}

/** The names and values of a kept form; null for a text that is not one. */
export function parseKeptForm(text: string): [string, string][] | null {
  try {
    const entries: unknown = JSON.parse(text);
    const isPair = (entry: unknown): entry is [string, string] =>
      Array.isArray(entry) && entry.length === 2 && entry.every((part) => typeof part === "string");
    return Array.isArray(entries) && entries.every(isPair) ? entries : null;
  } catch {
    return null;
  }
}
