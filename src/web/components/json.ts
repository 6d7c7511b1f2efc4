/** JSON as indented text. */
import { indentJson } from "../../json/text.ts";
import { html } from "../html.ts";
import type { Html } from "../html.ts";

const MAX_CHARS = 40_000;

/** @param label names the text for screen readers */
export function jsonText(value: unknown, label: string): Html {
  const text = indentJson(value);
  const rest = text.length - MAX_CHARS;
  const shown = text.slice(0, MAX_CHARS);
  return html`<div class="json" tabindex="0" role="group" aria-label="${label}"><pre>${shown}</pre></div>
${rest > 0 && html`<p class="sub">The first ${MAX_CHARS.toLocaleString("en-US")} characters are shown.</p>`}`;
}
