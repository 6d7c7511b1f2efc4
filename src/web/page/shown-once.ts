/**
 * What a form shows that can be shown only now, such as a key. It waits in memory for the page to which the browser is
 * redirected: a page that is loaded again must not submit its form again, which would create another key.
 */
import { randomBytes } from "node:crypto";
import { createLru } from "../../domain/lru.ts";
import type { Content } from "./page.ts";

const MAX_WAITING = 200;
/** Characters of all that waits; a page has about ten thousand. */
const MAX_WAITING_CHARS = 8 << 20;
/** How long it waits for the browser, in seconds. */
const MAX_WAIT_S = 300;

/** The query parameter of the address that shows it. */
export const SHOWN = "shown";

export type ShownOnce = ReturnType<typeof createShownOnce>;

/** @param now epoch seconds */
export function createShownOnce(now: () => number) {
  const waiting = createLru<string, { content: Content; session: string; until: number }>({
    maxEntries: MAX_WAITING,
    maxWeight: MAX_WAITING_CHARS,
  });
  return {
    /** Keeps content for a session. @returns the value of the parameter that shows it */
    keep(content: Content, session: string): string {
      const token = randomBytes(16).toString("hex");
      const weight = content.main.text.length + (content.drawer?.text.length ?? 0);
      waiting.set(token, { content, session, until: now() + MAX_WAIT_S }, weight);
      return token;
    },
    /** The content of that session, once; null for none. */
    take(token: string, session: string): Content | null {
      const found = waiting.get(token);
      if (found?.session !== session) return null;
      waiting.delete(token);
      return now() <= found.until ? found.content : null;
    },
  };
}
