/**
 * A form that was submitted when the session had ended, on its way through the login page. A browser carries it to the
 * sign-in with a password in a hidden field; to that at the OpenID provider it takes nothing along, so the server keeps
 * it meanwhile.
 */
import { createLru } from "../../domain/lru.ts";
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

/** Forms that wait for a sign-in at the provider, in memory: a few large ones, or many as they usually are. */
const MAX_WAITING_FORMS = 500;
const MAX_WAITING_CHARS = 8 << 20;
/** How long a form waits, in seconds. */
const MAX_WAIT_S = 3600;

export type WaitingForms = ReturnType<typeof createWaitingForms>;

/** @param now epoch seconds */
export function createWaitingForms(now: () => number) {
  const forms = createLru<string, { text: string; until: number }>({
    maxEntries: MAX_WAITING_FORMS,
    maxWeight: MAX_WAITING_CHARS,
  });
  // By the token of the browser, which no other site can set: what that filled in is not shown as the person's.
  const keyOf = (token: string, next: string | null): string => `${token} ${next ?? ""}`;
  return {
    /** Keeps a form for the page at `next`. `token`: the CSRF token of the browser without a session. */
    keep(form: string, { token, next }: { token: string; next: string | null }): void {
      forms.set(keyOf(token, next), { text: form, until: now() + MAX_WAIT_S }, form.length);
    },
    /** The form that waits for the browser to come to that page, once; null for none. */
    take({ token, next }: { token: string | null; next: string | null }): string | null {
      if (token === null) return null;
      const found = forms.get(keyOf(token, next));
      forms.delete(keyOf(token, next));
      return found && now() <= found.until ? found.text : null;
    },
  };
}
