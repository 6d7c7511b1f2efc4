/** The search of an organization as a part of a page: on its own page, and where something was not found. */
import { html } from "../html.ts";
import type { Html } from "../html.ts";
import type { Links } from "../page/links.ts";
import { hiddenField } from "./forms.ts";
import { icon } from "./icon.ts";

/** Characters that a search takes. */
const MAX_CHARS = 256;

/**
 * A field with its button, which leads to the page of the results.
 * @param options.choose what an environment is chosen for (pages/home/commands.ts)
 */
export function searchField(
  to: Links,
  text: string,
  { hasFocus = false, choose = null }: { hasFocus?: boolean; choose?: string | null } = {},
): Html {
  const value = text.slice(0, MAX_CHARS);
  const label = choose === null ? "Commit, fingerprint or name" : "Part of the name of the environment";
  return html`<form class="filters search-page" role="search" method="get" action="${to.search()}" data-hx-boost="false"
aria-label="Search the organization">${choose !== null && hiddenField("choose", choose)}<span
class="search">${icon("search")}<input type="search" name="q"
aria-label="${label}" placeholder="${label}" value="${value}"
maxlength="${MAX_CHARS}" autocomplete="off"${hasFocus && html` autofocus`}></span><button class="btn"
type="submit">Search</button></form>`;
}
