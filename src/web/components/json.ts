/** JSON as indented text. */
import { indentJson } from "../../json/text.ts";
import { html } from "../html.ts";
import type { Html } from "../html.ts";
import { objectOf, textOf } from "./loose-json.ts";

const MAX_CHARS = 40_000;

/** What the API says in place of a field that is too long for a page; empty for any other value. */
export const unreadableText = (value: unknown): string => textOf(objectOf(value)["unreadable"]);

/**
 * The value, or its beginning.
 * @param label names the text for screen readers
 * @param whole the address of the record as JSON
 */
export function jsonText(value: unknown, label: string, whole: string): Html {
  const reason = unreadableText(value);
  const indented = indentJson(value, MAX_CHARS + 1);
  const beginning = reason === "" ? "" : textOf(objectOf(value)["beginning"]);
  const shown = beginning === "" ? indented.slice(0, MAX_CHARS) : beginning;
  const isCut = reason !== "" || indented.length > MAX_CHARS;
  const text = reason === "" ? `The first ${MAX_CHARS.toLocaleString("en-US")} characters are shown` : reason;
  return html`<div class="json" tabindex="0" role="group" aria-label="${label}"><pre>${shown}</pre></div>
${isCut && html`<p class="sub">${text}. <a href="${whole}">Read all of it as JSON</a></p>`}`;
}
