/** A form that was submitted when the session had ended, on its way through the login page. */
import type { Fields } from "../page/fields.ts";

/**
 * Bytes of a kept form as the login form submits it, where a character takes up to nine: several hundred kilobytes of
 * text, which is more than any form of a page has in practice.
 */
export const MAX_KEPT_BYTES = 1 << 20;

/**
 * The text of the hidden field; null for a form that is too large. No form of a page has a password or another secret
 * to type, so none is sent back (a test looks at all of them); the token of the ended session is left out.
 */
export function formatKeptForm(fields: Fields): string | null {
  const text = JSON.stringify(fields.entries().filter(([name]) => name !== "csrf"));
  return text.length > MAX_KEPT_BYTES || submittedBytes(text) > MAX_KEPT_BYTES ? null : text;
}

const submittedBytes = (text: string): number => new URLSearchParams({ form: text }).toString().length;

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
